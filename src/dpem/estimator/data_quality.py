"""Data quality: noisy counts, for each column, of cells that are not as the schema declares.

A fit succeeds even if a column is unreadable, because all its cells get the same value. A count of such cells
depends on rows, so it must be released like any statistic. A hundredth of the budget pays for it. For each
column, the counts are those of cells that were missing although the schema allows none, could not be read,
were outside the categories, or were clipped. Eq. (S-12), docs/proofs/sensitivity.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem._warnings import warn
from dpem.data.column import ABOVE, ABSENT, BELOW, MISSING, OUTSIDE, READ, UNREADABLE
from dpem.errors import DataQualityWarning
from dpem.gate.plan import Stage
from dpem.statistics.contingency import Histograms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan

__all__ = ["STAGE", "DataQuality", "release_quality", "with_quality_stage"]

STAGE = "data quality"
SHARE = 0.01  # of mu^2
FINDINGS = ("absent", "unreadable", "outside", "clipped")
# A column is clearly bad if its count minus this many standard deviations of noise exceeds this share of
# rows.
_DEVIATIONS = 6.0
_BAD = 0.02
_MEANING = {
    "absent": "Missing cells became the middle of the bounds, or one category: declare missing = true.",
    "unreadable": "Unreadable cells all became the same value: correct their format in the schema.",
    "outside": "Cells outside the categories were replaced as the schema declares: add publicly known ones.",
    "clipped": "Clipped cells lie at a bound: declare wider bounds.",
}
_FORMATS = {"absent", "unreadable"}  # findings about how cells are written
_LEVEL = {READ: 0, MISSING: 0, ABSENT: 1, UNREADABLE: 2, OUTSIDE: 3, BELOW: 4, ABOVE: 4}
_LEVELS = np.array([_LEVEL[found] for found in range(len(_LEVEL))], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class DataQuality:
    """Noisy counts of cells that are not as the schema declares.

    Attributes
    ----------
    columns : tuple of str
        The names of the columns.
    counts : ndarray of shape (n_columns, 4)
        For each column, the noisy numbers of cells that were missing although the schema allows none, that
        were unreadable, outside the categories, and clipped.
    noise : float
        Standard deviation of the noise of each count.
    n_rows : float
        The number of rows: public, or noisy.
    """

    columns: tuple[str, ...]
    counts: NDArray[np.float64]
    noise: float
    n_rows: float

    def to_frame(self) -> pd.DataFrame:
        """Return the shares of rows as a DataFrame with one row for each column, and their standard error."""
        import pandas as pd  # noqa: PLC0415  (slow to import)

        shares = pd.DataFrame(self.shares, index=list(self.columns), columns=list(FINDINGS))
        return shares.assign(standard_error=self.noise / self.n_rows)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The shares of rows, of shape (n_columns, 4), clipped to 0 and 1."""
        return np.clip(self.counts / self.n_rows, 0.0, 1.0)

    @property
    def bad(self) -> dict[str, dict[str, float]]:
        """The columns that are clearly bad, with the shares of the findings that noise does not explain."""
        clear = (self.counts - _DEVIATIONS * self.noise) / self.n_rows > _BAD
        return {
            name: {
                what: float(share) for what, share, shown in zip(FINDINGS, shares, held, strict=True) if shown
            }
            for name, shares, held in zip(self.columns, self.shares, clear, strict=True)
            if held.any()
        }

    def __str__(self) -> str:
        lines = [f"{'column':<24}" + "".join(f"{what:>12}" for what in FINDINGS)]
        for name, shares in zip(self.columns, self.shares, strict=True):
            lines.append(f"{name:<24}" + "".join(f"{share:>12.1%}" for share in shares))
        error = self.noise / self.n_rows
        return "\n".join([*lines, f"(shares of rows, each with a standard error of {error:.2%})"])

    def warn(self) -> None:
        """Warn of columns that are clearly bad."""
        found = self.bad
        if not found:
            return
        words = "; ".join(
            f"{name!r}: " + ", ".join(f"{share:.0%} {what}" for what, share in shares.items())
            for name, shares in list(found.items())[:5]
        )
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        kinds = [what for what in FINDINGS if any(what in shares for shares in found.values())]
        meaning = [_MEANING[what] for what in kinds]
        if _FORMATS.intersection(kinds):
            meaning.append("Run dpem check, or dpem.check_table, on the table to see how cells are written.")
        if not _FORMATS.issuperset(kinds):
            meaning.append(
                "These released shares, or public knowledge, may change bounds and categories; a look at the "
                "rows, such as dpem check, may not."
            )
        warn(
            f"The schema does not fit the rows ({words}{more}; noisy shares of rows). {' '.join(meaning)}",
            DataQualityWarning,
        )

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays to save in a file."""
        return {"quality_counts": self.counts, "quality_noise": np.array([self.noise, self.n_rows])}

    @classmethod
    def from_arrays(cls, columns: Sequence[str], arrays: dict[str, Any]) -> DataQuality:
        """Rebuild data quality from the output of :meth:`arrays`."""
        noise, n_rows = map(float, arrays["quality_noise"])
        return cls(tuple(columns), arrays["quality_counts"], noise, n_rows)


@dataclass(frozen=True)
class _FindingLevels:
    """A `RowGrid` that maps the finding about each cell to five levels: good, then `FINDINGS`."""

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return _LEVELS[columns.astype(np.intp)]

    def write_single(
        self,
        columns: NDArray[np.float64],
        kernels: Any,  # noqa: ARG002
        out: NDArray[np.float32],
    ) -> None:
        """Write findings to `out` as `to_grid` does, compiled."""
        from dpem.data import cell_kernel  # noqa: PLC0415  (imports numba)

        cell_kernel.cells_to_entries(columns, _LEVELS, out)

    def to_grid_tensor(self, columns: Any) -> Any:
        return columns.new_tensor(_LEVELS)[columns.long()]


def _statistic(n_columns: int) -> Histograms:
    return Histograms.of_columns([1 + len(FINDINGS)] * n_columns)


def with_quality_stage(plan: Plan, n_columns: int) -> Plan:
    """Return a plan of the same cost with the stage of data quality."""
    stage = Stage(STAGE, SHARE, _statistic(n_columns).sensitivity(plan.adjacency))
    return plan.with_stage(stage)


def release_quality(gate: Gate, columns: Sequence[str]) -> tuple[NDArray[np.float64], float]:
    """Release the counts, (n_columns, 4), before all other stages; also return their noise's deviation."""
    released = gate.release(STAGE, _statistic(len(columns)), _FindingLevels(), of_findings=True)
    counts = released.values.reshape(len(columns), 1 + len(FINDINGS))[:, 1:]
    return counts, float(released.noise_stddev[0])
