"""Rows of a table, cell by cell on a grid of its own: for models that know what their columns are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data.schema import Schema

__all__ = ["TableGrid"]


@dataclass(frozen=True, eq=False)
class TableGrid:
    """Every cell as an integer from 0 to 2^24 (a `RowGrid`).

    Codes are as they are, and so are whole numbers up to a range of 2^24. No norm bounds such rows; what is
    summed of them bounds itself. NaN is a missing cell.
    """

    schema: Schema
    source: str = "schema"  # where the bounds came from, for the privacy statement

    @cached_property
    def low(self) -> NDArray[np.float64]:
        """What is 0 on the grid, for every column."""
        return self.schema.bounds[0]

    @cached_property
    def step(self) -> NDArray[np.float64]:
        """What one is on the grid, for every column."""
        low, high = self.schema.bounds
        return np.where(self._whole & (high - low <= GRID), 1.0, (high - low) / GRID)

    @cached_property
    def _whole(self) -> NDArray[np.bool_]:
        return np.array([column.kind != "continuous" for column in self.schema.columns])

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn a block of shape (columns, rows) into integers, and NaN for what is missing."""
        cells = np.rint((columns - self.low[:, None]) / self.step[:, None])
        return np.minimum(np.maximum(cells, 0.0), GRID)

    def describe(self, names: Sequence[str] | None = None) -> dict[str, str]:  # noqa: ARG002
        """Return the bounds in words, for the privacy statement."""
        return self.schema.describe()

    def to_units(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return grid cells (columns, rows) in the user's units, codes as codes, whole numbers whole."""
        units = self.low[:, None] + cells * self.step[:, None]
        return np.where(self._whole[:, None], np.rint(units), units)
