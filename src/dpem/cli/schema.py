"""`dpem schema`: a draft of what is publicly known of a table, from the names and types of its columns."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import tomli_w
import typer

import dpem
from dpem._files import check_writable, replacing
from dpem.cli import options
from dpem.cli.console import Console, command
from dpem.data.column import KINDS
from dpem.data.files import file_head
from dpem.data.table_types import kinds_of_table, listed
from dpem.errors import InvalidArgumentError
from dpem.privacy import PrivacyUnit

__all__ = ["register"]


def schema(
    console: Console,
    data: Annotated[list[Path], typer.Argument(help="CSV, Parquet or Arrow files of the table.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The schema file, .toml or .json.")],
    number: Annotated[
        list[str] | None, typer.Option("--number", help="A column of numbers and its bounds: bmi=10:60.")
    ] = None,
    integer: Annotated[
        list[str] | None,
        typer.Option("--integer", help="A column of whole numbers and its bounds: age=0:120."),
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="A column of categories: ward=medical,surgery.")
    ] = None,
    ordered: Annotated[
        list[str] | None, typer.Option("--ordered", help="Categories from low to high: stage=I,II,III.")
    ] = None,
    boolean: Annotated[list[str] | None, typer.Option("--boolean", help="A column of yes and no.")] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="A column whose cells may be missing.")
    ] = None,
    unit: Annotated[list[str] | None, typer.Option("--unit", help="A column's unit: age=years.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="A column to leave out, such as an identifier.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="The name of the data set: its ledger must have the same.")
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask for what is not given, in a terminal.")
    ] = True,
    delimiter: options.DelimiterOption = ",",
    header: options.HeaderOption = None,
    overwrite: options.OverwriteOption = False,
    bounds_epsilon: Annotated[
        float | None,
        typer.Option(
            "--bounds-epsilon",
            help="Buy bounds that are not given, for this epsilon. Reads rows, with noise.",
        ),
    ] = None,
    delta: options.DeltaOption = options.DEFAULT_DELTA,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", "-l", help="What pays for estimated bounds.")
    ] = None,
    adjacency: options.RelationOption = options.Relation.REPLACE_ONE,
    rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    purpose: options.PurposeOption = None,
    analyst: options.AnalystOption = None,
) -> None:
    """Draft the schema of a table from its columns' names and types. No value is read.

    Bounds and categories are public knowledge: what could be, from a codebook or common sense. Give them as
    options, answer questions, or edit the file; a fit refuses a draft that lacks some.
    """
    check_writable(output, overwrite=overwrite, inputs=[*data, *([] if ledger is None else [ledger])])
    if output.suffix.lower() not in (".toml", ".json"):
        raise InvalidArgumentError(
            f"Expected a file that ends in .toml or .json, got --output {str(output)!r}."
        )
    files = options.table_files(data, delimiter, header)
    head, typed = file_head(files)
    if not typed and header is None:
        _check_line_of_names(head.column_names)
    drafted: dict[str, dict[str, Any]] = {name: {"kind": kind} for name, kind in kinds_of_table(head).items()}
    if not typed:
        drafted = {name: {"kind": "continuous"} for name in drafted}
    left_out = {*(drop or ()), *(() if person is None else (person,))}
    given = _given(number, integer, category, ordered, boolean)
    _check_names([*given, *(missing or ()), *options.pairs(unit, "--unit"), *left_out], drafted, typed=typed)
    for name, declared in given.items():
        drafted[name] = declared
    for name in missing or ():
        drafted[name]["missing"] = True
    for name, text in options.pairs(unit, "--unit").items():
        drafted[name]["unit"] = text
    for name in left_out:
        del drafted[name]
    if dataset is not None and "dataset" in drafted:
        raise InvalidArgumentError(
            "Expected no column called 'dataset' beside --dataset. Rename or --drop it."
        )
    if ask and sys.stdin.isatty() and not console.as_json:
        drafted = _asked(console, drafted, given, typed=typed, priced=bounds_epsilon is not None)
    if not drafted:
        raise InvalidArgumentError("Expected a column that is kept, got none.")
    draft = dpem.Schema(({} if dataset is None else {"dataset": dataset}) | drafted)
    partial = output.with_name(output.name + ".partial")
    if bounds_epsilon is not None:
        hidden = PrivacyUnit(rows_per_person, person)
        account = options.checked_ledger(ledger, draft, adjacency, hidden, purpose=purpose, analyst=analyst)
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
        console.say(f"Still to declare, in the file: {names}.")
    console.result({"path": str(output), "schema": draft.to_dict(), "lacking": list(draft.lacking)})


def _check_line_of_names(names: list[str]) -> None:
    """Raise where the first line of a CSV file does not look like names: it may be somebody's row."""
    if any("\ufffd" in name for name in names):
        raise InvalidArgumentError(
            "Expected names in UTF-8 in the first line, got others. Save the file as UTF-8."
        )
    if any(_is_number(name) or not name.strip() for name in names):
        raise InvalidArgumentError(
            "Expected names in the first line, got a number or nothing in some cell: it may be a row. Give "
            "the names with --header a,b,c; where numbers are names, write the schema by hand."
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";|\t"):
        raise InvalidArgumentError(
            "Expected several columns, got one. Is another --delimiter between the cells?"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _given(
    number: list[str] | None,
    integer: list[str] | None,
    category: list[str] | None,
    ordered: list[str] | None,
    boolean: list[str] | None,
) -> dict[str, dict[str, Any]]:
    """Return the columns that options declare."""
    found: dict[str, dict[str, Any]] = {}
    for option, kind, texts in (("--number", "continuous", number), ("--integer", "integer", integer)):
        for name, text in options.pairs(texts, option).items():
            _declare(found, name, {"kind": kind, "bounds": _bounds(text, f"{option} {name}")})
    for option, kind, texts in (("--category", "categorical", category), ("--ordered", "ordered", ordered)):
        for name, text in options.pairs(texts, option).items():
            _declare(found, name, {"kind": kind, "categories": [part.strip() for part in text.split(",")]})
    for name in boolean or ():
        _declare(found, name, {"kind": "boolean"})
    return found


def _declare(found: dict[str, dict[str, Any]], name: str, declared: dict[str, Any]) -> None:
    if name in found:
        raise InvalidArgumentError(f"Expected one declaration of column {name!r}, got two.")
    found[name] = declared


def _bounds(text: str, option: str) -> list[float]:
    low, separator, high = text.partition(":")
    if not separator:
        raise InvalidArgumentError(f"Expected bounds LOW:HIGH for {option}, got {text!r}.")
    return [options.as_number(low, option), options.as_number(high, option)]


def _check_names(names: list[str], drafted: dict[str, Any], *, typed: bool) -> None:
    unknown = [name for name in dict.fromkeys(names) if name not in drafted]
    if not unknown:
        return
    has = listed(list(drafted)) if typed else f"{len(drafted)} columns"
    raise InvalidArgumentError(f"Expected columns of the table, got {listed(unknown)}. It has {has}.")


def _asked(
    console: Console, drafted: dict[str, Any], given: dict[str, Any], *, typed: bool, priced: bool
) -> dict[str, Any]:
    """Ask a person for what options did not say; an empty answer leaves it for later."""
    console.say("Public knowledge only: what could be, not what is. Enter leaves a question for later.")
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
        if kind in ("continuous", "integer") and not priced:
            answers[name] |= _until_valid(
                name, kind, "bounds, LOW:HIGH", lambda text: {"bounds": _bounds(text, "bounds")}
            )
        elif kind in ("categorical", "ordered"):
            answers[name] |= _until_valid(
                name,
                kind,
                "categories, A,B,C",
                lambda text: {"categories": [part.strip() for part in text.split(",")]},
            )
    return answers


def _until_valid(name: str, kind: str, question: str, read: Any) -> dict[str, Any]:
    while True:
        text = typer.prompt(f"{name}: {question}", default="", show_default=False)
        if not text:
            return {}
        try:
            found: dict[str, Any] = read(text)
            dpem.Schema({name: {"kind": kind} | found})
        except InvalidArgumentError as error:
            typer.echo(str(error))
        else:
            return found


def _write(path: Path, schema: dpem.Schema, untyped: list[str]) -> None:
    """Write the draft; comments in TOML say what is still to be declared."""
    if path.suffix.lower() == ".json":
        text = json.dumps(schema.to_dict(), indent=2) + "\n"
    else:
        parts = ["# What could be in each column, from public knowledge: never read off the rows.\n"]
        if schema.dataset is not None:
            parts.append(tomli_w.dumps({"dataset": schema.dataset}))
        for column in schema.columns:
            part = tomli_w.dumps({column.name: column.to_dict()})
            if column.name in untyped:
                part += f"# CSV has no types. Kinds: {', '.join(KINDS)}.\n"
            if not column.is_complete:
                part += "# bounds = [0, 100]\n" if column.is_number else '# categories = ["a", "b"]\n'
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
