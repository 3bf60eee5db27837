"""`dpem fit`: charge, read, fit, and write the model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem._files import check_writable
from dpem.cli import options
from dpem.cli.console import Console, command, number
from dpem.data.files import file_head
from dpem.em.transcript import is_paid
from dpem.errors import InvalidArgumentError, TranscriptError
from dpem.privacy.budget import Budget
from dpem.report.profiles import profile_of

__all__ = ["register"]


def fit(
    console: Console,
    data: Annotated[list[Path], typer.Argument(help="CSV, Parquet or Arrow files of the table.")],
    schema: Annotated[Path, typer.Option("--schema", "-s", help="The schema file: see dpem schema.")],
    epsilon: options.EpsilonOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file.")],
    model: options.ModelOption = options.Model.MIXTURE,
    components: options.ComponentsOption = None,
    columns: options.ColumnsOption = None,
    delta: options.DeltaOption = options.DEFAULT_DELTA,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", "-l", help="What pays, before a row is read: see dpem budget.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option("--purpose", help="What the ledger notes beside the model.")
    ] = None,
    analyst: Annotated[
        str | None, typer.Option("--analyst", help="Who asks: the user of the system unless given.")
    ] = None,
    covariance: options.CovarianceOption = options.Covariance.FULL,
    target: options.TargetOption = None,
    adjacency: options.RelationOption = options.Relation.REPLACE_ONE,
    rows_per_person: options.PersonOption = 1,
    estimate_bounds: Annotated[
        float | None,
        typer.Option(
            "--estimate-bounds",
            help="Buy bounds that the schema lacks with this share of the budget, such as 0.1. Never "
            "done unless "
            "asked for.",
        ),
    ] = None,
    delimiter: options.DelimiterOption = ",",
    seed: options.SeedOption = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Threads: all cores unless given.")] = None,
    overwrite: options.OverwriteOption = False,
) -> None:
    """Fit a model to a table, and write it with its guarantee.

    The whole plan is charged to the ledger before a row is read. After a crash or an interrupt run the same
    command again: it goes on from what was released, in OUTPUT.partial, and does not pay again.
    """
    check_writable(output, overwrite=overwrite)
    declared = options.chosen_schema(schema, columns)
    files = options.table_files(data, delimiter)
    _check_columns(declared, files)
    account = None
    if ledger is not None:
        account = dpem.Ledger(ledger, purpose=purpose, analyst=analyst)
    elif purpose is not None or analyst is not None:
        raise InvalidArgumentError("Expected --ledger with --purpose and --analyst: there they are noted.")
    common: dict[str, Any] = {
        "delta": delta,
        "adjacency": adjacency.value,
        "rows_per_person": rows_per_person,
        "ledger": account,
        "n_jobs": jobs,
    }
    lacking = [column.name for column in declared.columns if column.is_number and not column.is_complete]
    if lacking and estimate_bounds is None:
        raise InvalidArgumentError(
            f"Expected public bounds for {', '.join(map(repr, lacking))}, got none. Declare them in "
            f"{schema}; "
            f"where nobody knows any, --estimate-bounds 0.1 buys them with a tenth of the budget."
        )
    if estimate_bounds is not None and not lacking:
        raise InvalidArgumentError(
            "Expected a column without bounds for --estimate-bounds, got none: it is not needed."
        )

    def make(budget: float, of: dpem.Schema) -> Any:
        return options.estimator_of(
            model,
            components,
            schema=of,
            covariance=covariance,
            target=target,
            epsilon=budget,
            random_state=seed,
            **common,
        )

    partials = [output.with_name(output.name + ending) for ending in (".bounds.partial", ".partial")]
    try:
        rest = epsilon
        if estimate_bounds is not None:
            share, rest = _split(epsilon, delta, estimate_bounds)
            make(rest, _pretended(declared))._check_arguments()  # before anything is bought
            with dpem.resumable(partials[0]), console.releases("Bounds"):
                declared = dpem.private_bounds(files, declared, epsilon=share, **common).schema
            console.say(f"Bounds cost epsilon = {share:.6g}, the model {rest:.6g}: {epsilon:g} in all.")
        estimator = make(rest, declared)
        with dpem.resumable(partials[1]), console.releases("Fitting"):
            fitted = estimator.fit(files)
        fitted.save(output)
    except BaseException as error:
        _keep_what_was_paid(error, partials)
        raise
    for partial in partials:
        partial.unlink(missing_ok=True)
    _tell(console, fitted, output, account, epsilon)


def _check_columns(schema: dpem.Schema, files: dpem.Files) -> None:
    """Say which columns the table lacks, and what may be wrong with it: names are public."""
    head, typed = file_head(files)
    absent = [name for name in schema.names if name not in head.column_names]
    if not absent:
        return
    hint = "Name them as in the table, or leave them out with --columns."
    if not typed and len(head.column_names) == 1:
        hint = "Is another --delimiter between the cells?"
    raise InvalidArgumentError(
        f"Expected the schema's columns in the table, which lacks {', '.join(map(repr, absent[:20]))}. "
        f"It has "
        f"{', '.join(map(repr, head.column_names[:20]))}. {hint}"
    )


def _split(epsilon: float, delta: float, share: float) -> tuple[float, float]:
    """Return the epsilons of bounds and model: shares of mu^2, so that both together cost epsilon."""
    if not 0 < share < 1:
        raise InvalidArgumentError(f"Expected a share between 0 and 1, got --estimate-bounds {share:g}.")
    mu = Budget.from_epsilon(epsilon, delta).mu
    parts = [Budget.from_mu(mu * part**0.5, delta).epsilon for part in (share, 1 - share)]
    return parts[0] * (1 - 1e-9), parts[1] * (1 - 1e-9)


def _pretended(schema: dpem.Schema) -> dpem.Schema:
    """Return the schema with some bounds, to check all other arguments."""
    some = {c.name: {"bounds": [0, 1]} for c in schema.columns if c.is_number and not c.is_complete}
    return schema.declare(some)


def _keep_what_was_paid(error: BaseException, partials: Sequence[Path]) -> None:
    """Leave no empty file behind; where something was released, say how to go on from it."""
    for partial in partials:
        if not is_paid(partial):
            partial.unlink(missing_ok=True)
    kept = [str(partial) for partial in partials if partial.exists()]
    if kept and not isinstance(error, TranscriptError):
        error.add_note(
            f"What was paid for is kept in {' and '.join(kept)}. Run the same command again: it goes on "
            f"from there "
            f"and does not pay again. Delete it to begin anew."
        )


def _tell(console: Console, fitted: Any, output: Path, account: dpem.Ledger | None, epsilon: float) -> None:
    console.line(f"Wrote {output}", style="bold")
    console.say()
    console.say(str(fitted.privacy_))
    profile = profile_of(fitted)
    if profile is not None:
        console.heading("What was found (with what the noise does to it)")
        console.table(
            [profile.kind, *profile.header],
            [
                [name, *(f"{number(c.value)} ± {number(c.error, 2)}" for c in cells)]
                for name, cells in profile.rows
            ],
        )
    left = None if account is None else account.remaining()
    if account is None:
        console.note("No --ledger was charged: nobody keeps count of what this table has given away.")
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


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "fit",
        fit,
        "dpem fit patients.csv --schema patients.toml --columns age,bmi -k 4 --epsilon 1 --ledger "
        "patients.ledger "
        "-o clusters.dpem",
        "dpem fit patients.csv --schema patients.toml --model table --epsilon 1 -o patients.dpem",
    )
