"""`dpem fit`: charge the ledger, fit a model to the rows and write the model file."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem._files import check_writable
from dpem.cli import options
from dpem.cli.console import Console, command, number
from dpem.cli.plan import show_outlook
from dpem.errors import InsufficientBudgetError, InvalidArgumentError, ResumeFileError

__all__ = ["register"]

_MOST_ACROSS, _MOST_DOWN = 6, 30  # released parameters that are printed


def fit(
    console: Console,
    data: options.DataArgument,
    schema: Annotated[Path, typer.Option("--schema", "-s", help="Schema file (see dpem schema).")],
    epsilon: options.EpsilonOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    model: options.ModelOption = options.DEFAULT_MODEL,
    components: options.ComponentsOption = None,
    columns: options.ColumnsOption = None,
    delta: options.DeltaOption = options.DEFAULT_DELTA,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", "-l", help="Ledger to charge before any value is read (see dpem budget)."),
    ] = None,
    purpose: options.PurposeOption = None,
    analyst: options.AnalystOption = None,
    covariance: options.CovarianceOption = options.Covariance.FULL,
    scale: options.ScaleOption = None,
    target: options.TargetOption = None,
    adjacency: options.RelationOption = options.Relation.REPLACE_ONE,
    rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    estimate_bounds: Annotated[
        float | None,
        typer.Option(
            "--estimate-bounds",
            help="Share of the budget, such as 0.1, for estimating bounds that the schema lacks. Without "
            "this option they are never estimated.",
        ),
    ] = None,
    delimiter: options.DelimiterOption = ",",
    header: options.HeaderOption = None,
    encoding: options.EncodingOption = "utf-8",
    seed: options.SeedOption = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Number of threads; all cores by default.")
    ] = None,
    data_quality: Annotated[
        bool,
        typer.Option(
            "--data-quality/--no-data-quality",
            help="Spend 1 % of the budget on noisy counts of the cells that the schema cannot read.",
        ),
    ] = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check all arguments and show the plan, but charge, read and write nothing."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Accept a delta of 1 / rows or larger.")] = False,
    overwrite: options.OverwriteOption = False,
) -> None:
    """Fit a model to a table and save it with its privacy guarantee.

    The whole plan is charged to the ledger before any value is read. After a crash or an interrupt, run the
    same command again: it continues from the releases kept in OUTPUT.partial, without another charge.
    """
    from dpem.privacy import PrivacyUnit  # noqa: PLC0415  (help and version stay quick)

    inputs = [schema, *(path for path in data if str(path) != "-"), *([] if ledger is None else [ledger])]
    check_writable(output, overwrite=overwrite, inputs=inputs)
    options.refuse_other_format(
        output, "a model", [".dpem"], "Of the model, dpem sample writes rows and dpem report writes a report."
    )
    if not math.isfinite(epsilon):
        raise InvalidArgumentError(
            f"Expected a finite --epsilon, got {epsilon}. Without a limit the model would not be private."
        )
    declared = options.chosen_schema(schema, columns)
    files = options.table_files(data, delimiter, header, encoding)
    _check_columns(declared, files)
    unit = PrivacyUnit(rows_per_person, person)
    account = options.checked_ledger(ledger, declared, adjacency, unit, purpose=purpose, analyst=analyst)
    common: dict[str, Any] = {
        "delta": delta,
        "adjacency": adjacency.value,
        "rows_per_person": rows_per_person,
        "person": person,
        "ledger": account,
        "n_jobs": jobs,
    }
    quality = {"data_quality": data_quality}
    lacking = [column.name for column in declared.columns if column.is_number and not column.is_complete]
    if lacking and estimate_bounds is None:
        raise InvalidArgumentError(
            f"Expected public bounds for {', '.join(map(repr, lacking))}, got none. Declare them in "
            f'{schema}; for a column of categories, declare kind = "categorical" and its categories there. '
            f"If nobody knows the bounds, estimate them with a tenth of the budget: --estimate-bounds 0.1."
        )
    if estimate_bounds is not None and not lacking:
        raise InvalidArgumentError(
            "Expected a column without bounds for --estimate-bounds, got a schema that declares all bounds. "
            "Leave the option out: it is not needed."
        )

    def make(budget: float, of: "dpem.Schema") -> Any:
        return options.estimator_of(
            model,
            components,
            schema=of,
            covariance=covariance,
            scale=scale,
            target=target,
            epsilon=budget,
            random_state=seed,
            **common,
            **quality,
        )

    rows = _public_rows(files, declared, adjacency, unit)
    if rows is not None and delta >= 1 / rows and not force:
        raise InvalidArgumentError(
            f"Expected a --delta below one over the number of rows ({rows:,}), got {delta:g}. Publishing a "
            f"random row in the clear would satisfy such a delta. Choose a smaller one, or pass --force."
        )
    if dry_run:
        left = epsilon if estimate_bounds is None else _split(epsilon, delta, estimate_bounds)[1]
        estimator = make(left, _with_placeholder_bounds(declared))
        _show_plan(console, estimator, rows, account, (epsilon, delta), lacking)
        return

    partials = [output.with_name(output.name + ending) for ending in (".bounds.partial", ".partial")]
    try:
        rest = epsilon
        if estimate_bounds is not None:
            share, rest = _split(epsilon, delta, estimate_bounds)
            make(rest, _with_placeholder_bounds(declared))._check_arguments()  # before the first charge
            if not partials[0].exists():
                options.require_budget(account, epsilon, delta)
            with dpem.resumable(partials[0]), console.releases("Estimating bounds"):
                declared = dpem.private_bounds(files, declared, epsilon=share, **common).schema
            console.say(f"Bounds cost epsilon = {share:.6g}, the model {rest:.6g}; together {epsilon:g}.")
            _require_bounds(declared, partials[0])
        estimator = make(rest, declared)
        with dpem.resumable(partials[1]), console.releases("Fitting"):
            fitted = estimator.fit(files)
        fitted.save(output)
    except BaseException as error:
        _add_note_on_resuming(error, partials)
        raise
    for partial in partials:
        partial.unlink(missing_ok=True)
    _show_result(console, fitted, output, account, epsilon)


def _public_rows(files: Any, schema: Any, adjacency: options.Relation, unit: Any) -> int | None:
    """Return the number of rows if it is public, else None; check the types of typed files."""
    from dpem.engines import rows_to_release  # noqa: PLC0415
    from dpem.privacy.neighbours import Adjacency  # noqa: PLC0415

    relation = Adjacency(adjacency.value)
    placeholders = _with_placeholder_bounds(schema)
    source = rows_to_release(files, placeholders, relation, unit.rows_per_person, unit.person)
    return source.n_rows if relation.n_rows_public else None


def _show_plan(
    console: Console,
    estimator: Any,
    rows: int | None,
    account: Any,
    budget: tuple[float, float],
    lacking: Sequence[str],
) -> None:
    """Show the releases of the fit and check that the ledger covers them, without a charge."""
    estimator._check_arguments()
    options.require_budget(account, *budget)
    if rows is None:
        console.say(
            "The number of rows is private. Use dpem plan --rows with a guess to see the expected noise."
        )
        outlook = None
    else:
        outlook = dpem.plan(estimator, rows)
        # The noise in a column is relative to its bounds, so it is unknown before they are estimated.
        known = tuple(entry for entry in outlook.noise if entry.column not in lacking)
        outlook = dataclasses.replace(outlook, noise=known)
        show_outlook(console, outlook)
        if lacking:
            console.say(f"Noise in {', '.join(lacking)} depends on bounds that are not estimated yet.")
        for warning in outlook.warnings:
            console.warn(warning)
    if account is not None:
        console.say(f"Ledger of {account.name!r}: {account.remaining()} left, which suffices.")
    console.line("Dry run: nothing was charged, read or written.")
    console.result({"dry_run": True, "plan": None if outlook is None else outlook.to_dict()})


def _check_columns(schema: "dpem.Schema", files: "dpem.Files") -> None:
    """Raise if the table lacks columns. For CSV, show no other names: the first line may be a private row."""
    from dpem.data.sources.files import file_head  # noqa: PLC0415
    from dpem.data.sources.formats import csv_remedy  # noqa: PLC0415
    from dpem.data.table_types import did_you_mean, listed  # noqa: PLC0415

    head, typed = file_head(files)
    absent = [name for name in schema.names if name not in head.column_names]
    if not absent:
        return
    if typed:
        has = listed(head.column_names)
        hint = did_you_mean(absent, head.column_names)
        hint += "Correct the names in the schema, or choose other columns with --columns."
    else:
        has = f"{len(head.column_names)} column{'s' if len(head.column_names) > 1 else ''}"
        # Exact: an approximate match could show a value of a private row.
        hint = did_you_mean(absent, head.column_names, exact=True) + csv_remedy(absent)
    raise InvalidArgumentError(
        f"Expected the schema's columns in the table, which lacks {listed(absent)}. It has {has}. {hint}"
    )


def _split(epsilon: float, delta: float, share: float) -> tuple[float, float]:
    """Share mu^2 between bounds and model; return the epsilon of each."""
    if not 0 < share < 1:
        raise InvalidArgumentError(f"Expected a share between 0 and 1, got --estimate-bounds {share:g}.")
    from dpem.privacy.budget import Budget  # noqa: PLC0415

    mu = Budget.from_epsilon(epsilon, delta).mu
    parts = [Budget.from_mu(mu * part**0.5, delta).epsilon for part in (share, 1 - share)]
    return parts[0] * (1 - 1e-9), parts[1] * (1 - 1e-9)


def _with_placeholder_bounds(schema: "dpem.Schema") -> "dpem.Schema":
    """Return the schema with placeholders for missing bounds, so that other arguments can be checked."""
    placeholders: dict[str, dict[str, Any]] = {}
    for column in schema.columns:
        if column.is_number and not column.is_complete:
            dates = column.kind in ("date", "datetime")
            placeholders[column.name] = {"bounds": ["2000-01-01", "2001-01-01"] if dates else [0, 1]}
    return schema.declare(placeholders)


def _require_bounds(schema: "dpem.Schema", partial: Path) -> None:
    """Raise if noise hid the bounds of a column, and delete the resume file, which would only repeat that."""
    lost = [column.name for column in schema.columns if column.is_number and not column.is_complete]
    if lost:
        partial.unlink(missing_ok=True)
        raise InvalidArgumentError(
            f"Expected estimated bounds for {', '.join(map(repr, lost))}, got only noise. The charge for "
            f"them is final. Declare bounds in the schema, or pass a larger --epsilon or --estimate-bounds."
        )


def _add_note_on_resuming(error: BaseException, partials: Sequence[Path]) -> None:
    """Add a note to the exception that names the resume files and how to continue."""
    kept = [str(partial) for partial in partials if partial.exists()]
    if kept and not isinstance(error, ResumeFileError | InsufficientBudgetError):
        error.add_note(
            f"The releases so far are kept in {' and '.join(kept)}. Run the same command again: it continues "
            f"from there without another charge. To start a new fit with a new charge, delete the file."
        )


def _show_result(console: Console, fitted: Any, output: Path, account: Any, epsilon: float) -> None:
    """Print the guarantee, the released parameters, the remaining budget and the next commands."""
    console.line(f"Wrote {output}", style="bold")
    console.say()
    console.say(str(fitted.privacy_))
    _show_profile(console, fitted)
    for remark in fitted._remarks():
        console.say(remark)
    left = None if account is None else account.remaining()
    if account is None:
        console.note(
            "No ledger was charged. Without --ledger, nothing records the budget spent on this table."
        )
    else:
        console.say(f"Ledger of {account.name!r}: {left} left.")
    console.line(f"Next: dpem report {output} -o report.html")
    if hasattr(fitted, "sample"):
        console.line(f"      dpem sample {output} -n 1000 -o rows.csv")
    console.result(
        {
            "path": str(output),
            "epsilon": epsilon,
            "privacy": fitted.privacy_.to_dict(),
            "statement": str(fitted.privacy_),
            "charge": None if fitted.charge_ is None else fitted.charge_.to_dict(),
            "remaining_epsilon": None if left is None else left.epsilon,
            "n_iter": getattr(fitted, "n_iter_", None),
            "n_components": getattr(fitted, "n_components_", None),
        }
    )


def _show_profile(console: Console, model: Any) -> None:
    """Print the released values by component and column, with their standard errors."""
    profile = dpem.report.profile_of(model)
    if profile is None:
        return
    names = [f"{profile.kind} {name}" for name, _ in profile.rows]
    cells = [[f"{c.text or number(c.value)} ± {number(c.error, 2)}" for c in row] for _, row in profile.rows]
    down, across = names, profile.header
    if profile.is_wider_than(_MOST_ACROSS):  # transpose: more lines fit than columns
        down, across = across, names
        cells = [list(column) for column in zip(*cells, strict=True)]
    console.heading("Released parameters (± standard error of the noise)")
    console.table(
        ["", *across[:_MOST_ACROSS]],
        [
            [name, *row[:_MOST_ACROSS]]
            for name, row in zip(down[:_MOST_DOWN], cells[:_MOST_DOWN], strict=True)
        ],
    )
    left_out = max(len(down) - _MOST_DOWN, 0), max(len(across) - _MOST_ACROSS, 0)
    if any(left_out):
        console.say(f"({left_out[0]} more rows and {left_out[1]} more columns: see dpem report)")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "fit",
        fit,
        "dpem fit patients.csv --schema patients.toml --columns age,bmi -k 4 --epsilon 1 --ledger "
        "patients.ledger -o clusters.dpem",
        "dpem fit patients.csv --schema patients.toml --model table --epsilon 1 -o patients.dpem",
    )
