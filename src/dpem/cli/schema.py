"""`dpem schema`: draft a schema from the names and types of the columns."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem._files import check_writable, replacing
from dpem.cli import options
from dpem.cli.console import Console, command
from dpem.errors import InvalidArgumentError

__all__ = ["register"]


def schema(
    console: Console,
    data: options.DataArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help=".toml or .json schema file to write.")],
    number: Annotated[
        list[str] | None, typer.Option("--number", help="Column of numbers and its bounds: bmi=10:60.")
    ] = None,
    integer: Annotated[
        list[str] | None,
        typer.Option("--integer", help="Column of whole numbers and its bounds: age=0:120."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option("--category", help="Column of categories: ward=medical,surgery."),
    ] = None,
    ordered: Annotated[
        list[str] | None,
        typer.Option("--ordered", help="Column of categories from low to high: stage=I,II,III."),
    ] = None,
    boolean: Annotated[list[str] | None, typer.Option("--boolean", help="Column of yes/no values.")] = None,
    date: Annotated[
        list[str] | None,
        typer.Option("--date", help="Column of dates and its bounds: born=1900-01-01:2030-12-31."),
    ] = None,
    datetime: Annotated[
        list[str] | None,
        typer.Option("--datetime", help="Column of dates with times and its bounds, as for --date."),
    ] = None,
    date_format: Annotated[
        list[str] | None,
        typer.Option("--format", help="Date format of a column, such as born=%d.%m.%Y; ISO 8601 by default."),
    ] = None,
    decimal: Annotated[
        list[str] | None, typer.Option("--decimal", help="Decimal separator of a column: pay=,")
    ] = None,
    thousands: Annotated[
        list[str] | None, typer.Option("--thousands", help="Thousands separator of a column: pay=.")
    ] = None,
    na_value: Annotated[
        list[str] | None,
        typer.Option("--na-value", help="Value that marks a missing cell, such as pay=-999. Repeatable."),
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Column whose cells may be missing.")
    ] = None,
    unit: Annotated[list[str] | None, typer.Option("--unit", help="Unit of a column: age=years.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Column to leave out, such as an identifier.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="Name of the table, which must equal the name of its ledger."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask for missing declarations if run in a terminal.")
    ] = True,
    delimiter: options.DelimiterOption = ",",
    header: options.HeaderOption = None,
    encoding: options.EncodingOption = "utf-8",
    overwrite: options.OverwriteOption = False,
    bounds_epsilon: Annotated[
        float | None,
        typer.Option(
            "--bounds-epsilon",
            help="Epsilon for estimating missing bounds privately, which reads rows.",
        ),
    ] = None,
    delta: options.DeltaOption = options.DEFAULT_DELTA,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", "-l", help="Ledger to charge for estimating bounds.")
    ] = None,
    adjacency: options.RelationOption = options.Relation.REPLACE_ONE,
    rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    purpose: options.PurposeOption = None,
    analyst: options.AnalystOption = None,
) -> None:
    """Draft the schema of a table from its column names and types. No value is read.

    Bounds and categories must be public knowledge, for example from a codebook. Pass them as options, answer
    the questions, or edit the file. A fit rejects a schema without them.
    """
    from dpem.data.sources.files import file_head  # noqa: PLC0415  (help and version stay quick)
    from dpem.data.table_types import kinds_of_table  # noqa: PLC0415
    from dpem.privacy import PrivacyUnit  # noqa: PLC0415

    inputs = [*(path for path in data if str(path) != "-"), *([] if ledger is None else [ledger])]
    check_writable(output, overwrite=overwrite, inputs=inputs)
    if output.suffix.lower() not in (".toml", ".json"):
        raise InvalidArgumentError(
            f"Expected a file name that ends in .toml or .json, got --output {str(output)!r}."
        )
    files = options.table_files(data, delimiter, header, encoding)
    head, typed = file_head(files)
    if not typed and header is None:
        _check_header(head.column_names)
    drafted: dict[str, dict[str, Any]] = {name: {"kind": kind} for name, kind in kinds_of_table(head).items()}
    if not typed:
        drafted = {name: {"kind": "continuous"} for name in drafted}
    left_out = {*(drop or ()), *(() if person is None else (person,))}
    given = _declared_columns(number, integer, category, ordered, boolean)
    given |= _declared_times(date, datetime, given)
    formats = _cell_formats(date_format, decimal, thousands, na_value)
    units = options.pairs(unit, "--unit")
    _check_names([*given, *(missing or ()), *units, *left_out, *formats], drafted, typed=typed)
    drafted |= given
    more = [*formats.items(), *((name, {"missing": True}) for name in missing or ())]
    for name, declared in [*more, *((name, {"unit": text}) for name, text in units.items())]:
        drafted[name] = drafted[name] | declared
    drafted = {name: declared for name, declared in drafted.items() if name not in left_out}
    if dataset is not None and "dataset" in drafted:
        raise InvalidArgumentError(
            "Expected no column 'dataset' together with --dataset, got one. Rename the column, or leave it "
            "out with --drop dataset."
        )
    if ask and sys.stdin.isatty() and not console.as_json:
        drafted = _ask_declarations(
            console, drafted, given, typed=typed, bounds_estimated=bounds_epsilon is not None
        )
    if not drafted:
        raise InvalidArgumentError(
            "Expected at least one column in the schema, got none. Drop fewer columns."
        )
    draft = dpem.Schema(({} if dataset is None else {"dataset": dataset}) | drafted)
    partial = output.with_name(output.name + ".partial")
    if bounds_epsilon is not None:
        protected = PrivacyUnit(rows_per_person, person)
        account = options.checked_ledger(
            ledger, draft, adjacency, protected, purpose=purpose, analyst=analyst
        )
        with dpem.resumable(partial), console.releases("Estimating bounds"):
            found = dpem.private_bounds(
                files,
                draft,
                epsilon=bounds_epsilon,
                delta=delta,
                adjacency=adjacency.value,
                rows_per_person=rows_per_person,
                person=person,
                ledger=account,
            )
        draft = found.schema
        console.say(str(found.privacy))
    untyped = [name for name in drafted if not typed and name not in given]
    _write(output, draft, untyped)
    partial.unlink(missing_ok=True)
    console.line(f"Wrote {output} with {len(draft.names)} columns.")
    if draft.lacking:
        names = ", ".join(draft.lacking)
        console.say(f"Add the bounds or categories of these columns to the file: {names}.")
    console.result({"path": str(output), "schema": draft.to_dict(), "lacking": list(draft.lacking)})


def _check_header(names: list[str]) -> None:
    """Raise if the first line of a CSV file does not look like a header; do not show it: it may be a row."""
    if any("\ufffd" in name for name in names):
        raise InvalidArgumentError(
            "Expected a header line in UTF-8, got another encoding. Save the file as UTF-8, or pass its "
            "encoding, such as --encoding cp1252."
        )
    if any(_is_number(name) or not name.strip() for name in names):
        raise InvalidArgumentError(
            "Expected column names in the first line, got a number or an empty field: it may be a row. Pass "
            "the names with --header a,b,c. If the names are numbers, write the schema by hand."
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";|\t"):
        raise InvalidArgumentError(
            "Expected several columns, got one that contains a separator. Pass the separator with "
            "--delimiter."
        )


_NO_BOUNDS = (
    "If nobody knows the bounds, leave the option out and let dpem fit --estimate-bounds 0.1 estimate them."
)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _declared_columns(
    number: list[str] | None,
    integer: list[str] | None,
    category: list[str] | None,
    ordered: list[str] | None,
    boolean: list[str] | None,
) -> dict[str, dict[str, Any]]:
    """Return the columns declared by options, except dates and times."""
    found: dict[str, dict[str, Any]] = {}
    for option, kind, texts in (("--number", "continuous", number), ("--integer", "integer", integer)):
        for name, text in options.pairs(texts, option, "NAME=LOW:HIGH", _NO_BOUNDS).items():
            _declare(found, name, {"kind": kind, "bounds": _bounds(text, f"{option} {name}")})
    for option, kind, texts in (("--category", "categorical", category), ("--ordered", "ordered", ordered)):
        for name, text in options.pairs(texts, option).items():
            _declare(found, name, {"kind": kind, "categories": [part.strip() for part in text.split(",")]})
    for name in boolean or ():
        _declare(found, name, {"kind": "boolean"})
    return found


def _declared_times(
    date: list[str] | None, datetime: list[str] | None, given: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the given columns and the columns of dates and times declared by options."""
    found = dict(given)
    for option, kind, texts in (("--date", "date", date), ("--datetime", "datetime", datetime)):
        for name, text in options.pairs(texts, option).items():
            _declare(found, name, {"kind": kind, "bounds": _time_bounds(text, f"{option} {name}")})
    return found


def _declare(found: dict[str, dict[str, Any]], name: str, declared: dict[str, Any]) -> None:
    if name in found:
        raise InvalidArgumentError(
            f"Expected one declaration of column {name!r}, got two. Leave one of the options out."
        )
    found[name] = declared


def _bounds(text: str, option: str) -> list[float]:
    parts = text.replace(":", " ").split()
    if len(parts) != 2:
        raise InvalidArgumentError(f"Expected bounds LOW:HIGH for {option}, got {text!r}.")
    return [options.as_number(part, option) for part in parts]


def _time_bounds(text: str, option: str) -> list[str]:
    """Parse two dates or times, separated by a colon or a space."""
    found = re.findall(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?", text)
    if len(found) != 2:
        raise InvalidArgumentError(
            f"Expected bounds such as 1900-01-01:2030-12-31 for {option}, got {text!r}."
        )
    return found


def _cell_formats(
    date_format: list[str] | None,
    decimal: list[str] | None,
    thousands: list[str] | None,
    na_value: list[str] | None,
) -> dict[str, dict[str, Any]]:
    """Return the cell formats declared by options, by column."""
    found: dict[str, dict[str, Any]] = {}
    for option, key, texts in (
        ("--format", "format", date_format),
        ("--decimal", "decimal", decimal),
        ("--thousands", "thousands", thousands),
    ):
        for text in texts or ():
            name, separator, value = text.partition("=")
            if not separator or not value:
                raise InvalidArgumentError(f"Expected NAME=VALUE for {option}, got {text!r}.")
            found.setdefault(name.strip(), {})[key] = value
    for text in na_value or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise InvalidArgumentError(f"Expected NAME=VALUE for --na-value, got {text!r}.")
        declared = found.setdefault(name.strip(), {})
        declared.setdefault("na_values", []).append(value)
        declared["missing"] = True
    return found


def _check_names(names: list[str], drafted: dict[str, Any], *, typed: bool) -> None:
    from dpem.data.table_types import did_you_mean, listed  # noqa: PLC0415

    unknown = [name for name in dict.fromkeys(names) if name not in drafted]
    if not unknown:
        return
    has = listed(list(drafted)) if typed else f"{len(drafted)} columns"
    # Exact for CSV: an approximate match could show a value of a private row.
    question = did_you_mean(unknown, list(drafted), exact=not typed)
    raise InvalidArgumentError(
        f"Expected columns of the table, got {listed(unknown)}. {question}It has {has}."
    )


def _ask_declarations(
    console: Console, drafted: dict[str, Any], given: dict[str, Any], *, typed: bool, bounds_estimated: bool
) -> dict[str, Any]:
    """Ask for the declarations that no option gave; an empty answer skips a question."""
    from dpem.data.column import KINDS, NUMBERS  # noqa: PLC0415

    console.say(
        "Answer from public knowledge: possible values, not observed ones. Press Enter to skip a question."
    )
    answers = {}
    for name, declared in drafted.items():
        if name in given:
            answers[name] = declared
            continue
        kind = declared["kind"]
        if not typed:
            kind = typer.prompt(f"{name}: kind ({', '.join(KINDS)}, drop)", default=kind)
            while kind not in (*KINDS, "drop"):
                kind = typer.prompt(f"{name}: one of {', '.join(KINDS)}, drop", default="continuous")
            if kind == "drop":
                continue
        answers[name] = declared | {"kind": kind}
        if kind in ("date", "datetime") and not bounds_estimated:
            answers[name] |= _until_valid(
                name,
                kind,
                "bounds, such as 1900-01-01 2030-12-31",
                lambda text: {"bounds": _time_bounds(text, "bounds")},
            )
        elif kind == "duration" and not bounds_estimated:
            answers[name] |= _until_valid(
                name, kind, "bounds, such as 0:00:00 8:00:00", lambda text: {"bounds": text.split()}
            )
        elif kind in NUMBERS and not bounds_estimated:
            answers[name] |= _until_valid(
                name, kind, "bounds, such as 0 120", lambda text: {"bounds": _bounds(text, "bounds")}
            )
        elif kind in ("categorical", "ordered"):
            answers[name] |= _until_valid(
                name,
                kind,
                "categories, such as A,B,C",
                lambda text: {"categories": [part.strip() for part in text.split(",")]},
            )
        if not typed and kind in ("date", "datetime"):
            answers[name] |= _until_valid(
                name, kind, "format, such as %d.%m.%Y (Enter: ISO 8601)", lambda text: {"format": text}
            )
        if kind in ("continuous", "integer"):
            answers[name] |= _until_valid(name, kind, "unit", lambda text: {"unit": text})
        if "missing" not in answers[name] and typer.confirm(f"{name}: may cells be missing?", default=False):
            answers[name]["missing"] = True
    return answers if typed else _ask_cell_formats(answers, given)


def _ask_cell_formats(answers: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Ask once for the format of numbers, yes/no values and missing cells in a CSV file."""

    def separators(text: str) -> dict[str, Any]:
        return dict(zip(("decimal", "thousands"), text.split(), strict=False))

    def yes_and_no(text: str) -> dict[str, Any]:
        if len(text.split()) != 2:
            raise InvalidArgumentError(f"Expected two words, first yes and then no, got {text!r}.")
        yes, no = text.split()
        return {"true": [yes], "false": [no]}

    def missing_marks(text: str) -> dict[str, Any]:
        return {"na_values": [part.strip() for part in text.split(",")], "missing": True}

    questions: list[tuple[str, str, Any, Any]] = [
        (
            "numbers",
            "decimal and thousands separators, such as: , .  (Enter: 1234.5)",
            separators,
            lambda declared: declared["kind"] in ("continuous", "integer"),
        ),
        (
            "yes/no columns",
            "the words for yes and no, such as: ja nein  (Enter: yes no, true false, 1 0)",
            yes_and_no,
            lambda declared: declared["kind"] == "boolean",
        ),
        (
            "missing cells",
            "values that mark them, such as: n/a, -9  (Enter: empty cells only)",
            missing_marks,
            lambda declared: declared.get("missing", False),
        ),
    ]
    for subject, question, parse, applies in questions:
        columns = [name for name, declared in answers.items() if name not in given and applies(declared)]
        if columns:
            found = _until_valid(subject, answers[columns[0]]["kind"], question, parse)
            for name in columns:
                answers[name] = answers[name] | found
    return answers


def _until_valid(name: str, kind: str, question: str, parse: Any) -> dict[str, Any]:
    """Ask until the answer is empty or a valid declaration."""
    while True:
        text = typer.prompt(f"{name}: {question}", default="", show_default=False)
        if not text:
            return {}
        try:
            found: dict[str, Any] = parse(text)
            dpem.Schema({name: {"kind": kind} | found})
        except InvalidArgumentError as error:
            typer.echo(str(error))
        else:
            return found


def _write(path: Path, schema: "dpem.Schema", untyped: list[str]) -> None:
    """Write the draft; comments in TOML mark what is still to be declared."""
    import tomli_w  # noqa: PLC0415

    from dpem.data.column import KINDS  # noqa: PLC0415

    if path.suffix.lower() == ".json":
        text = json.dumps(schema.to_dict(), indent=2) + "\n"
    else:
        parts = ["# Declare the possible values of each column from public knowledge, never from the rows.\n"]
        if schema.dataset is not None:
            parts.append(tomli_w.dumps({"dataset": schema.dataset}))
        for column in schema.columns:
            part = tomli_w.dumps({column.name: column.to_dict()})
            if column.name in untyped:
                part += f"# CSV has no types. Kinds: {', '.join(KINDS)}.\n"
            if not column.is_complete:
                dates = column.kind in ("date", "datetime")
                example = '["1900-01-01", "2030-12-31"]' if dates else "[0, 100]"
                part += f"# bounds = {example}\n" if column.is_number else '# categories = ["a", "b"]\n'
            parts.append(part)
        text = "\n".join(parts)
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "schema",
        schema,
        "dpem schema patients.csv -o patients.toml --integer age=0:120 --category ward=medical,surgery "
        "--drop id",
    )
