"""A grid for single cells, for models that treat columns by their kinds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.domain import GRID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data.schema import Schema

__all__ = ["TableGrid"]


@dataclass(frozen=True, eq=False)
class TableGrid:
    """A `RowGrid` that maps every cell to an integer from 0 to 2^24.

    Codes stay unchanged, and whole numbers keep a step of 1 if their range is at most 2^24. The norm of such
    rows is not bounded; statistics of them must bound their own vectors. NaN is a missing cell.
    """

    schema: Schema
    source: str = "schema"  # origin of the bounds, for the privacy statement

    @cached_property
    def low(self) -> NDArray[np.float64]:
        """The value of each column that maps to 0 on the grid."""
        return self.schema.bounds[0]

    @cached_property
    def step(self) -> NDArray[np.float64]:
        """The size of a grid step in the units of each column."""
        low, high = self.schema.bounds
        return np.where(self.whole & (high - low <= GRID), 1.0, (high - low) / GRID)

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Which columns hold whole numbers or codes."""
        return np.array([column.kind != "continuous" for column in self.schema.columns])

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a block of shape (columns, rows) to integers, with NaN for missing cells."""
        cells = np.rint((columns - self.low[:, None]) / self.step[:, None])
        return np.minimum(np.maximum(cells, 0.0), GRID)

    def to_grid_tensor(self, columns: Any) -> Any:
        """Convert a tensor on a device, as `to_grid` does."""
        from dpem.data import device_grid  # noqa: PLC0415  (needs the extra `gpu`)

        return device_grid.cells_to_grid(self, columns)

    def write_single(self, columns: NDArray[np.float64], kernels: Any, out: NDArray[np.float32]) -> None:
        """Write cells to `out` as `to_grid` does, compiled; single precision holds integers up to 2^24."""
        kernels.cells_to_grid(columns, self.low, self.step, GRID, out)

    def describe(self, names: Sequence[str] | None = None) -> dict[str, str]:  # noqa: ARG002
        """Return the bounds in words, for the privacy statement."""
        return self.schema.describe()

    def to_units(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert grid cells of shape (columns, rows) to the user's units, with whole numbers rounded."""
        units = self.low[:, None] + cells * self.step[:, None]
        return np.where(self.whole[:, None], np.rint(units), units)
