"""`dpem plan`: the cost of a fit and its expected noise, computed without reading a row."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

import dpem
from dpem.cli import options
from dpem.cli.console import Console, command, number
from dpem.errors import InvalidArgumentError

__all__ = ["register", "show_outlook"]

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def plan(
    console: Console,
    rows: Annotated[
        int, typer.Option("--rows", "-n", help="Number of rows of the table, or a guess if it is private.")
    ],
    epsilon: options.EpsilonOption,
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", help="Schema file with columns and bounds.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            help="Columns to use, such as age,bmi; without --schema, the number of columns.",
        ),
    ] = None,
    model: options.ModelOption = options.DEFAULT_MODEL,
    components: options.ComponentsOption = None,
    delta: options.DeltaOption = options.DEFAULT_DELTA,
    accuracy: Annotated[
        list[str] | None,
        typer.Option(
            "--accuracy",
            "-a",
            help="Largest acceptable noise in a column, such as age=0.5; prints the epsilon for it. "
            "Repeatable.",
        ),
    ] = None,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            "--spread",
            help="Public guess of the standard deviation within a cluster, such as age=12; a tenth of the "
            "width of the bounds by default. Repeatable.",
        ),
    ] = None,
    covariance: options.CovarianceOption = options.Covariance.FULL,
    scale: options.ScaleOption = None,
    target: options.TargetOption = None,
    adjacency: options.RelationOption = options.Relation.REPLACE_ONE,
    rows_per_person: options.RowsPerPersonOption = 1,
    person: options.PersonOption = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", "-l", help="Ledger to compare with the cost of the fit.")
    ] = None,
) -> None:
    """Show what a fit would cost and its expected noise, in the units of the columns.

    No row is read and nothing is charged.
    """
    from dpem.planner.planning import plans  # noqa: PLC0415  (help and version stay quick)
    from dpem.privacy import PrivacyUnit  # noqa: PLC0415

    declared, shape = _columns(schema, columns)
    account = options.checked_ledger(ledger, declared, adjacency, PrivacyUnit(rows_per_person, person))
    estimator = options.estimator_of(
        model,
        components,
        schema=declared,
        covariance=covariance,
        scale=scale,
        target=target,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency.value,
        rows_per_person=rows_per_person,
        person=person,
    )
    if declared is None:
        estimator.set_params(bounds=(0.0, 1.0))
    known: dict[str, Any] = {"columns": shape, "spread": options.named_numbers(spread, "--spread") or None}
    outlook = dpem.plan(estimator, rows, **known)
    wanted = options.named_numbers(accuracy, "--accuracy")
    needed = dpem.epsilon_needed(estimator, rows, wanted, **known) if wanted else None
    others = dict(zip(_EPSILONS, plans(estimator, rows, _EPSILONS, **known), strict=True))
    show_outlook(console, outlook)
    _show_other_epsilons(console, outlook, others)
    left = _show_ledger(console, account, outlook)
    if needed is not None:
        limits = ", ".join(f"at most {size:g} in {name}" for name, size in wanted.items())
        console.say(
            f"\nFor noise of {limits}, the fit needs epsilon = {needed:g}."
            if math.isfinite(needed)
            else f"\nNoise of {limits} needs more rows: no reasonable epsilon suffices."
        )
    for warning in outlook.warnings:
        console.warn(warning)
    console.result(
        outlook.to_dict()
        | {"epsilon_needed": needed, "accuracy": wanted, "ledger": left}
        | {"at_other_epsilons": [{"epsilon": e, **_largest_noise(o)} for e, o in others.items()]}
    )


def _columns(schema: Path | None, columns: str | None) -> "tuple[dpem.Schema | None, int | None]":
    if schema is not None:
        return options.chosen_schema(schema, columns), None
    if columns is None or not columns.isdecimal():
        raise InvalidArgumentError(
            f"Expected --schema FILE, or --columns with the number of columns, got --columns {columns}."
            if columns is not None
            else "Expected --schema FILE, or --columns with the number of columns, got neither."
        )
    return None, int(columns)


def show_outlook(console: Console, outlook: "dpem.Outlook") -> None:
    """Print the releases of a fit and their noise."""
    from dpem.estimator.summary import abridged  # noqa: PLC0415  (help and version stay quick)
    from dpem.planner.outlook import granted_lines  # noqa: PLC0415

    planned = outlook.plan
    console.say(
        f"{outlook.model} of {outlook.n_rows:,} rows at epsilon = {planned.epsilon:g}, delta = "
        f"{planned.delta:g} ({planned.adjacency}, {planned.unit})",
        style="bold",
    )
    for line in granted_lines(outlook):
        console.say(f"  {line}")
    console.heading("Noise of the released values (one standard deviation)")
    console.table(
        ["parameter", "column", "noise", "unit", "relative"],
        [
            (
                entry.parameter,
                entry.column or "",
                number(entry.size),
                entry.unit or "",
                f"{entry.relative:.1%}",
            )
            for entry in outlook.noise
        ],
        left=2,
    )
    console.say(f"{outlook.assumption}")
    console.heading("Releases")
    shown = abridged(planned.stages)
    console.table(
        ["stage", "releases", "share", "noise / sensitivity"],
        [(s.name, s.repeats, f"{s.share:.1%}", number(s.noise_multiplier, 4)) for s in shown],
    )
    if len(shown) < len(planned.stages):
        console.say(f"({len(shown)} of {len(planned.stages)} stages: the first and the last)")
    console.heading("The same releases under other accountants")
    table = outlook.compare()
    console.table(
        ["accountant", f"epsilon at delta = {table.delta:g}"],
        [(name, number(value, 4)) for name, value in table],
    )


def _largest_noise(outlook: "dpem.Outlook") -> dict[str, Any]:
    worst = outlook.worst
    return {"granted": outlook.granted, "relative_noise": worst.relative, "of": worst.parameter}


def _show_other_epsilons(
    console: Console, outlook: "dpem.Outlook", others: "dict[float, dpem.Outlook]"
) -> None:
    console.heading("At other epsilons")
    names = list(outlook.granted)
    rows = [
        (
            f"{epsilon:g}",
            *(other.granted.get(name, "") for name in names),
            f"{other.worst.relative:.1%}",
            f"{other.worst.parameter}, relative to {other.worst.against}",
        )
        for epsilon, other in others.items()
    ]
    console.table(["epsilon", *names, "largest noise", "in"], rows, left=0)


def _show_ledger(
    console: Console, ledger: "dpem.Ledger | None", outlook: "dpem.Outlook"
) -> dict[str, Any] | None:
    if ledger is None:
        return None
    left = ledger.remaining()
    suffices = outlook.plan.budget.mu <= left.mu
    console.say(
        f"\nLedger of {ledger.name!r}: {left} left, which {'suffices' if suffices else 'does not suffice'}."
    )
    return {"name": ledger.name, "remaining_epsilon": left.epsilon, "suffices": suffices}


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "plan",
        plan,
        "dpem plan --rows 20000 --schema patients.toml --columns age,bmi --epsilon 1 --accuracy age=0.5",
    )
