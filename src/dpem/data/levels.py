"""Levels of a column: a public list of its possible values, or of intervals of values.

Levels turn a column of any kind into codes that can be counted. A level is a category, a whole number, or a
part of the bounds. Each bound is a level of its own, because zeros and clipped values accumulate there. If
the schema allows missing cells, the last level is "missing".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.column import Column
    from dpem.data.schema import Schema

__all__ = ["ColumnLevels", "LevelGrid"]

_PARTS = 256  # intervals between the bounds of a column
_COARSE = 16  # coarse parts that are counted as well
_FEW = 32  # columns with at most so many levels have no coarse parts


@dataclass(frozen=True, eq=False)
class ColumnLevels:
    """The levels of one column.

    Attributes
    ----------
    column : Column
        The declared column.
    """

    column: Column

    @property
    def is_ordered(self) -> bool:
        """Whether the levels have an order."""
        return self.column.kind != "categorical"

    def __post_init__(self) -> None:
        # If only rows filled this cache, a pickle would reveal whether the table has rows.
        if not self.is_listed:
            self.edges  # noqa: B018

    @cached_property
    def is_listed(self) -> bool:
        """Whether each value has a level of its own: categories, and whole numbers in a short range."""
        low, high = self.column.limits
        return not self.column.is_number or (self.column.is_whole and high - low <= _PARTS + 1)

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """The edges of the parts, one more than there are parts; for integers, the first of each part."""
        low, high = self.column.limits
        if not self.column.is_whole:
            return np.linspace(low, high, _PARTS + 1)
        # Exclude the bounds, which are levels of their own.
        return np.floor(np.linspace(low + 1, high, _PARTS + 1))

    @cached_property
    def n_values(self) -> int:
        """The number of levels without "missing"."""
        low, high = self.column.limits
        return int(high - low) + 1 if self.is_listed else _PARTS + 2

    @property
    def size(self) -> int:
        """The number of levels, including "missing"."""
        return self.n_values + self.column.missing

    @cached_property
    def parts(self) -> NDArray[np.intp] | None:
        """The coarse part of each level, or None if levels are few or have no order.

        Sixteen coarse parts are runs of neighbouring levels. They are counted as well, because noise adds up
        over many levels.
        """
        if not self.is_ordered or self.n_values <= _FEW:
            return None
        parts = np.arange(self.n_values) * _COARSE // self.n_values
        return np.append(parts, _COARSE) if self.column.missing else parts

    def codes(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the level of each parsed value; NaN is a missing cell.

        Examples
        --------
        >>> from dpem.data.declarations import declared_column
        >>> age = {"kind": "continuous", "bounds": [0, 128], "missing": True}
        >>> ColumnLevels(declared_column("age", age)).codes(np.array([0.0, 0.6, 127.9, 128.0, np.nan]))
        array([  0.,   2., 256., 257., 258.])
        """
        low, high = self.column.limits
        if self.is_listed:
            level = np.minimum(np.maximum(values - low, 0.0), self.n_values - 1.0)
        else:
            level = np.searchsorted(self.edges[1:-1], values, side="right") + 1.0
            level = np.where(values <= low, 0.0, np.where(values >= high, _PARTS + 1.0, level))
        # In a column without missing cells, `Column.parse` has replaced every NaN.
        return np.where(np.isnan(values), self.size - 1.0, level)

    @cached_property
    def log_widths(self) -> NDArray[np.float64]:
        """The logarithm of the width of each level: a length, or a count of integers; 0 for one value."""
        widths = np.ones(self.size)
        if not self.is_listed:
            # If bounds are so close that floats between them run out, some parts are almost empty.
            closest = np.spacing(np.abs(self.edges).max())
            widths[1 : _PARTS + 1] = np.maximum(np.diff(self.edges), closest)
        return np.log(widths)

    @cached_property
    def lower_edges(self) -> NDArray[np.float64]:
        """The lower edge of each level, without "missing"."""
        low, high = self.column.limits
        if self.is_listed:
            return np.asarray(np.arange(self.n_values) + low, dtype=np.float64)
        return np.concatenate([[low], self.edges[:-1], [high]])

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        """The centre of each level; the code for categories, NaN for "missing"."""
        low, high = self.column.limits
        if self.is_listed:
            values = np.arange(self.n_values) + float(low)
        else:
            last = self.edges[1:] - self.column.is_whole
            values = np.concatenate([[low], (self.edges[:-1] + last) / 2, [high]])
        return np.asarray(np.append(values, np.nan) if self.column.missing else values, dtype=np.float64)

    def values(self, levels: NDArray[np.intp], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draw a value from each level, given uniform numbers from 0 to 1; NaN for "missing"."""
        if self.is_listed:
            return self.centres[levels]
        low, high = self.column.limits
        part = np.clip(levels - 1, 0, _PARTS - 1)
        start, width = self.edges[part], np.diff(self.edges)[part]
        if self.column.is_whole:
            within = start + np.floor(uniform * width)
        else:
            within = start + (0.5 + (uniform - 0.5) * (1 - 2.0**-20)) * width  # never on an edge
        edge = np.where(levels == 0, low, high)
        is_part = (levels > 0) & (levels <= _PARTS)
        drawn = np.where(is_part, within, edge)
        return np.where(levels == self.n_values, np.nan, drawn) if self.column.missing else drawn


@dataclass(frozen=True, eq=False)
class LevelGrid:
    """A `RowGrid` that maps cells to levels."""

    schema: Schema

    @cached_property
    def columns(self) -> tuple[ColumnLevels, ...]:
        """The levels of every column."""
        return tuple(ColumnLevels(column) for column in self.schema.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels of each column."""
        return tuple(levels.size for levels in self.columns)

    @property
    def source(self) -> str:
        """The origin of bounds and categories, for the privacy statement."""
        return self.schema.source

    def describe(self, names: object = None) -> dict[str, str]:  # noqa: ARG002
        """Return the bounds in words, for the privacy statement."""
        return self.schema.describe()

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a block of parsed cells, of shape (columns, rows), to levels."""
        return np.stack([levels.codes(cells) for levels, cells in zip(self.columns, columns, strict=True)])

    def write_single(
        self,
        columns: NDArray[np.float64],
        kernels: Any,  # noqa: ARG002
        out: NDArray[np.float32],
    ) -> None:
        """Write cells to `out` as `to_grid` does, compiled; single precision holds all levels."""
        from dpem.data import cell_kernel  # noqa: PLC0415  (imports numba)

        cell_kernel.cells_to_levels(columns, *self._kernel_arguments, out)

    @cached_property
    def _kernel_arguments(self) -> tuple[NDArray[Any], ...]:
        low, high = self.schema.bounds
        sizes = np.array([[levels.n_values, levels.size] for levels in self.columns])
        inner = [np.empty(0) if levels.is_listed else levels.edges[1:-1] for levels in self.columns]
        starts = np.concatenate([[0], np.cumsum([len(edges) for edges in inner])])
        return low, high, sizes, starts, np.concatenate(inner)

    def to_grid_tensor(self, columns: Any) -> Any:
        """Convert a tensor on a device, as `to_grid` does."""
        from dpem.data import device_grid  # noqa: PLC0415  (needs the extra `gpu`)

        return device_grid.levels_to_grid(self, columns)
