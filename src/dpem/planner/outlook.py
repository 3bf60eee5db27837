"""The outlook of a planned fit: its plan, and the expected noise of each parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpem.estimator.planned_columns import ExpectedNoise
from dpem.privacy.accountants import compare

if TYPE_CHECKING:
    from dpem.gate.plan import Plan
    from dpem.privacy.accountants import Comparison

__all__ = ["BLURRED", "HIDDEN", "ExpectedNoise", "Outlook", "granted_lines", "relative_noise"]

# Noise over what it is to be seen against: from BLURRED on it counts, from HIDDEN on it hides everything.
BLURRED, HIDDEN = 0.1, 1.0


@dataclass(frozen=True)
class Outlook:
    """The plan of a fit and its expected noise, computed without rows. Print it to read it.

    Attributes
    ----------
    model : str
        Name of the estimator.
    n_rows : int
        Assumed number of rows.
    plan : Plan
        All releases with their noise.
    asked, granted : dict of str to int
        Requested numbers, for example of components, and the numbers that the noise allows.
    noise : tuple of ExpectedNoise
        Expected noise of each parameter, in the units of the columns.
    assumption : str
        Assumption behind the figures in units.
    warnings : tuple of str
        Warnings that a fit would give.
    rows_per_deviation : float or None
        For a synthetic table: the number of rows for one standard deviation of noise in a count of the last
        tables, which decides what is released (docs/guide/synthetic.md). None for other models.

    Examples
    --------
    >>> import dpem
    >>> schema = dpem.Schema({"age": {"kind": "integer", "bounds": [0, 120], "unit": "years"}})
    >>> outlook = dpem.plan(dpem.GaussianMixture(3, epsilon=1.0, schema=schema), 10_000)
    >>> [entry.unit for entry in outlook.noise if entry.parameter == "mean"]
    ['years']
    >>> outlook.compare().epsilons["gdp"] <= 1.0
    True
    """

    model: str
    n_rows: int
    plan: Plan
    asked: dict[str, int]
    granted: dict[str, int]
    noise: tuple[ExpectedNoise, ...]
    assumption: str
    warnings: tuple[str, ...]
    rows_per_deviation: float | None = None

    def compare(self) -> Comparison:
        """Return the epsilon of the plan by every accountant."""
        return compare(self.plan.event, self.plan.delta)

    @property
    def worst(self) -> ExpectedNoise:
        """The parameter with the largest relative noise."""
        return max(self.noise, key=lambda entry: entry.relative)

    def __str__(self) -> str:
        lines = [
            f"{self.model} of {self.n_rows:,} rows",
            str(self.plan),
            "",
            "Noise, one standard deviation:",
        ]
        for entry in self.noise:
            name = entry.parameter if entry.column is None else f"{entry.parameter} of {entry.column}"
            unit = f" {entry.unit}" if entry.unit else ""
            lines.append(f"  {name:<38}{entry.size:>10.3g}{unit} ({entry.relative:.1%})")
        lines += [f"({self.assumption})"]
        lines += granted_lines(self)
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable description."""
        return {
            "model": self.model,
            "n_rows": self.n_rows,
            "plan": self.plan.to_dict(),
            "asked": dict(self.asked),
            "granted": dict(self.granted),
            "noise": [entry.to_dict() for entry in self.noise],
            "assumption": self.assumption,
            "rows_per_deviation": self.rows_per_deviation,
            "accountants": self.compare().epsilons,
            "warnings": list(self.warnings),
        }


def granted_lines(outlook: Outlook) -> list[str]:
    """Return a line for each number that noise allows, and one for the rows per standard deviation."""
    lines = []
    for what, number in outlook.granted.items():
        of = f" of {outlook.asked[what]} requested" if what in outlook.asked else ""
        lines.append(f"{what}: {number}{of}")
    if outlook.rows_per_deviation is not None:
        what = f"rows per standard deviation of noise in a count of {outlook.plan.stages[-1].name!r}"
        lines.append(f"{what}: {outlook.rows_per_deviation:.0f}")
    return lines


def relative_noise(outlook: Outlook, parameter: str) -> float:
    """Return the largest relative noise of a parameter; of one that the outlook lacks, of its worst."""
    found = [entry.relative for entry in outlook.noise if entry.parameter == parameter]
    return max(found, default=outlook.worst.relative)
