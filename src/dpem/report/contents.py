"""The contents of a report, collected from a released model, its plan and its ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

import dpem
from dpem.errors import InvalidArgumentError
from dpem.estimator.summary import Profile, abridged, column_names
from dpem.planner import plan as planned
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.events import GaussianEvent, LaplaceEvent, flatten
from dpem.privacy.statement import BOUNDS_SOURCES
from dpem.report.noise_curve import NoiseCurve, noise_curve_of

if TYPE_CHECKING:
    from dpem.planner import Outlook
    from dpem.privacy.ledger import Head, Ledger, Spend

__all__ = ["Contents", "contents_of"]

_LARGE_EPSILON = 8.0
_SAMPLE_ROWS = 12


@dataclass(frozen=True, eq=False)
class LedgerPart:
    """The ledger as the report shows it."""

    name: str
    cap: Any
    left: Any
    spent_part: float
    spends: list[Spend]
    head: Head
    own: int  # number of the record of this model's charge


@dataclass(frozen=True)
class OutcomeLine:
    """A line of the table that compares plan and outcome."""

    what: str
    planned: str
    released: str


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything that a report shows."""

    title: str
    model: str
    dataset: str | None
    made: str
    version: str
    statement: Any
    is_private: bool
    words: str
    facts: list[tuple[str, str]]
    symbols: dict[str, str]
    warnings: list[str]
    ledger: LedgerPart | None
    charge: Any
    by_release: bool  # whether the shares of the budget depend on a noisy number of rows
    estimated: bool  # whether some bounds were estimated from the rows
    outcome: list[OutcomeLine]
    remarks: list[str]
    stages: list[Any]
    n_stages: int
    outlook: Outlook | None
    profile: Profile | None
    n_columns: int
    figures: dict[str, Any]
    sample: Any
    accountants: list[tuple[str, float, float]]
    missing_accountants: dict[str, str]
    noise_curve: NoiseCurve | None
    quality: Any  # noisy counts of cells that the schema could not read, or None


def contents_of(model: Any, ledger: Ledger | None, n_rows: int | None, title: str | None) -> Contents:
    """Collect the contents of the report of a fitted model."""
    statement = getattr(model, "privacy_", None)
    if statement is None:
        raise InvalidArgumentError("Expected a fitted model, got one that is not fitted. Call fit first.")
    private = statement.event is not None
    rows = model.n_rows_ if model.n_rows_ is not None else n_rows
    outlook = _outlook(model, rows) if private else None
    comparison = statement.compare() if private else None
    largest = max(comparison.epsilons.values()) if comparison else 1.0
    schema = getattr(model, "schema", None)
    return Contents(
        title=title or f"Release report: {type(model).__name__}",
        model=model._public_name,
        dataset=_dataset(model, ledger, schema),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=dpem.__version__,
        statement=statement,
        is_private=statement.is_private,
        words=str(statement),
        facts=_facts(model, statement) if private else [],
        symbols=_symbols(statement) if private else {},
        warnings=_warnings(model, statement, outlook, rows),
        ledger=None if ledger is None else _ledger_part(model, ledger),
        charge=model.charge_,
        by_release=private and model.plan_.charged is not None,
        estimated=private and statement.bounds_source == "estimated",
        outcome=_outcome(model, outlook) if private else [],
        remarks=model._remarks() if private else [],
        stages=abridged(model.plan_.stages) if private else [],
        n_stages=len(model.plan_.stages) if private else 0,
        outlook=outlook,
        profile=profile_of(model),
        n_columns=model.n_features_in_,
        figures=model._figures(),
        sample=sample_of(model, _SAMPLE_ROWS),
        accountants=[(name, value, value / largest) for name, value in comparison or ()],
        missing_accountants={} if comparison is None else comparison.missing,
        noise_curve=None if outlook is None else noise_curve_of(_unfitted(model), outlook, model._spread()),
        quality=model.data_quality_,
    )


def _dataset(model: Any, ledger: Ledger | None, schema: Any) -> str | None:
    if schema is not None and schema.dataset is not None:
        return str(schema.dataset)
    if model.charge_ is not None:
        return str(model.charge_.ledger)
    return None if ledger is None else ledger.name


def _unfitted(model: Any) -> Any:
    return clone(model).set_params(ledger=None, random_state=None)


def _outlook(model: Any, rows: int | None) -> Outlook | None:
    """Return the forecast for this model, with its released standard deviations as the spread."""
    if rows is None:
        return None
    try:
        return planned(_unfitted(model), rows, columns=column_names(model), spread=model._spread())
    except InvalidArgumentError:  # models without a forecast
        return None


def _facts(model: Any, statement: Any) -> list[tuple[str, str]]:
    counts: dict[str, int] = {}
    for leaf, count in flatten(statement.event).items():
        kind = {GaussianEvent: "Gaussian", LaplaceEvent: "Laplace"}.get(type(leaf), type(leaf).__name__)
        counts[kind] = counts.get(kind, 0) + count
    mechanisms = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    if statement.releases is not None:
        mechanisms = f"{statement.releases} Gaussian, charged in advance as {mechanisms}"
    facts = [
        ("Neighbouring tables", statement.neighbours),
        ("Privacy unit", str(statement.unit)),
        ("Mechanisms", mechanisms),
        ("Certified by", f"accountant '{statement.accountant}'"),
        ("Bounds", BOUNDS_SOURCES[statement.bounds_source]),
        (
            "Noise",
            "seeded: NOT SECURE"
            if statement.insecure_noise
            else "exact integers from the operating system's random generator",
        ),
    ]
    if model.n_rows_ is not None:
        facts.insert(1, ("Rows (public)", f"{model.n_rows_:,}"))
    return facts


def _symbols(statement: Any) -> dict[str, str]:
    """Return the numbers of the guarantee; mu only if the guarantee was certified by Gaussian DP."""
    found = {
        "epsilon": statement._epsilon_text,
        "delta": f"{statement.delta:.6g}",
        "factor": f"{math.exp(min(statement.epsilon, 700.0)):.4g}",
        "mu": "",
    }
    if statement.accountant == "gdp":
        found["mu"] = f"{math.sqrt(GdpAccountant().mu_squared(statement.event)):.4g}"
    return found


def _warnings(model: Any, statement: Any, outlook: Outlook | None, rows: int | None) -> list[str]:
    found = []
    if statement.event is None:
        return ["This model was fitted without privacy (epsilon = inf). Do not publish it."]
    if statement.insecure_noise:
        found.append("The noise was seeded, so nothing is guaranteed. Do not publish this model.")
    if statement.epsilon > _LARGE_EPSILON:
        found.append(f"epsilon = {statement.epsilon:g} protects little. Values from 0.1 to 1 protect well.")
    if statement.bounds_source == "estimated":
        costs = {column.bounds_cost for column in model.schema.columns if column.bounds_cost is not None}
        each = " and ".join(f"epsilon = {e:g}, delta = {d:g}" for e, d in sorted(costs))
        found.append(
            f"Some bounds were estimated from the rows by a separate release ({each}). Its cost comes on top "
            f"of this model's epsilon. The ledger records both charges."
        )
    if statement.bounds_source == "rows":
        found.append("Some bounds or categories were chosen after looking at rows. No guarantee covers that.")
    found += [f"Weak fit: {weakness}" for weakness in model._weaknesses()]
    quality = model.data_quality_
    if quality is not None and quality.bad:
        found.append(f"The schema does not fit the cells of {', '.join(quality.bad)}: see Data quality.")
    if outlook is not None:
        found += outlook.warnings
    elif rows is None:
        found.append(
            "The number of rows is private, so the expected noise is not shown. To see it, pass a guess of "
            "the number as n_rows or --rows."
        )
    if model.charge_ is None:
        found.append(
            "No ledger was charged for this model, so nothing records the budget that it spent on the table."
        )
    return found


def _ledger_part(model: Any, ledger: Ledger) -> LedgerPart:
    """Return what the report shows of the ledger; raise if it is not intact or lacks this model's charge."""
    model.verify_charge(ledger)
    left = ledger.remaining()
    return LedgerPart(
        ledger.name,
        ledger.cap,
        left,
        1 - left.mu**2 / ledger.cap.mu**2,
        ledger.history(),
        ledger.head(),
        model.charge_.number,
    )


def _outcome(model: Any, outlook: Outlook | None) -> list[OutcomeLine]:
    lines = []
    plan, statement = model.plan_, model.privacy_
    releases = sum(stage.repeats for stage in plan.stages)
    lines.append(
        OutcomeLine(
            "epsilon, delta",
            f"{plan.epsilon:g}, {plan.delta:g}",
            f"{statement.epsilon:g}, {statement.delta:g}",
        )
    )
    lines.append(OutcomeLine("releases", str(releases), str(statement.releases or releases)))
    asked, fitted = getattr(model, "n_components", None), getattr(model, "n_components_", None)
    if isinstance(asked, int) and fitted is not None:
        lines.append(OutcomeLine("components", f"at most {asked}", str(fitted)))
    if outlook is not None:
        columns = column_names(model)
        lines += _noise_lines(model, outlook, columns)
    return lines


def _noise_lines(model: Any, outlook: Outlook, columns: list[str]) -> list[OutcomeLine]:
    """Return the expected noise and the standard errors of the fit, column by column."""
    errors = getattr(model, "standard_errors_", None)
    if errors is None:
        return [OutcomeLine(f"noise: {e.parameter}", f"{e.size:.2%}", "as planned") for e in outlook.noise]
    names = {"cluster_centers": "centre", "means": "mean", "mean": "mean", "weights": "share of rows"}
    found = {names[name]: value for name, value in errors.items() if name in names}
    lines = []
    for entry in outlook.noise:
        if entry.parameter not in found:
            continue
        values = found[entry.parameter]
        if entry.column is not None:
            values = np.atleast_2d(values)[:, columns.index(entry.column)]
        name = entry.parameter if entry.column is None else f"{entry.parameter} of {entry.column}"
        unit = f" {entry.unit}" if entry.unit else ""
        mean = float(np.sqrt(np.mean(np.square(values))))
        lines.append(OutcomeLine(f"noise: {name}", f"{entry.size:.3g}{unit}", f"{mean:.3g}{unit}"))
    return lines


def profile_of(model: Any) -> Profile | None:
    """Return the profile of a fitted model, or None if it has none; components are numbered from 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.repeat([[-3.0, 0.0], [3.0, 0.0]], 500, axis=0)
    >>> profile = profile_of(dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(X))
    >>> profile.header, [name for name, _ in profile.rows]
    (['x0', 'x1'], ['1', '2'])
    """
    found: Profile | None = model._profile()
    return found


def sample_of(model: Any, n: int) -> Any:
    """Return a few synthetic rows as header and cells, or None if the model cannot be sampled."""
    import pandas as pd  # noqa: PLC0415

    if not hasattr(model, "sample"):
        return None
    drawn = model.sample(500)
    if not isinstance(drawn, pd.DataFrame):
        drawn = pd.DataFrame(drawn, columns=column_names(model))
    # Rows are drawn component by component, so take evenly spaced ones.
    few = drawn.iloc[np.linspace(0, len(drawn) - 1, n).astype(int)]
    header = [str(name) for name in few.columns]
    return header, [[_cell(value) for value in row] for row in few.itertuples(index=False)]


def _cell(value: Any) -> str:
    import pandas as pd  # noqa: PLC0415

    if pd.isna(value):
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
