"""What a column's cells can be, as a list of public levels: categories, whole numbers, parts of bounds.

Any kind of column becomes codes that can be counted. A number at a bound is a level of its own: that is where
zeros and clipped values pile up. A missing cell is the last level, where the schema allows one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.column import Column
    from dpem.data.schema import Schema

__all__ = ["ColumnLevels", "LevelGrid"]

_PARTS = 256  # of what lies between two bounds
_COARSE = 16  # runs of neighbouring levels that are counted as well
_FEW = 32  # levels that need no such runs


@dataclass(frozen=True, eq=False)
class ColumnLevels:
    """The levels of one column.

    Attributes
    ----------
    column : Column
        What the schema declares.
    """

    column: Column

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring levels mean similar things."""
        return self.column.kind != "categorical"

    def __post_init__(self) -> None:
        # What only rows would fill, if it were left until then, tells a pickle whether there were any.
        if not self.is_listed:
            self.edges  # noqa: B018

    @cached_property
    def is_listed(self) -> bool:
        """Whether every value is a level: categories, and whole numbers within a short range."""
        low, high = self.column.limits
        return not self.column.is_number or (self.column.is_whole and high - low <= _PARTS + 1)

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Where parts begin and end, one more than parts; of whole numbers, the first of each part."""
        low, high = self.column.limits
        if not self.column.is_whole:
            return np.linspace(low, high, _PARTS + 1)
        # Between the bounds, which are levels of their own.
        return np.floor(np.linspace(low + 1, high, _PARTS + 1))

    @cached_property
    def n_values(self) -> int:
        """How many levels hold values."""
        low, high = self.column.limits
        return int(high - low) + 1 if self.is_listed else _PARTS + 2

    @property
    def size(self) -> int:
        """How many levels there are, with the missing cell's."""
        return self.n_values + self.column.missing

    @cached_property
    def parts(self) -> NDArray[np.intp] | None:
        """The coarse part of each level, where levels are ordered and many: neighbours, about 16 each.

        Noise adds up over many levels, so that their parts are worth counting too.
        """
        if not self.is_ordered or self.n_values <= _FEW:
            return None
        parts = np.arange(self.n_values) * _COARSE // self.n_values
        return np.append(parts, _COARSE) if self.column.missing else parts

    def codes(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the level of each parsed value, one at a time; NaN is the missing cell.

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
        # A cell that is missing where none may be has been given a value by the schema.
        return np.where(np.isnan(values), self.size - 1.0, level)

    @cached_property
    def log_widths(self) -> NDArray[np.float64]:
        """The logarithm of what each level holds: a length, or a number of whole numbers; 0 for one value."""
        widths = np.ones(self.size)
        if not self.is_listed:
            # Bounds so close that floats between them run out leave parts that hold next to nothing.
            closest = np.spacing(np.abs(self.edges).max())
            widths[1 : _PARTS + 1] = np.maximum(np.diff(self.edges), closest)
        return np.log(widths)

    @cached_property
    def lower_edges(self) -> NDArray[np.float64]:
        """Where each level of values begins."""
        low, high = self.column.limits
        if self.is_listed:
            return np.asarray(np.arange(self.n_values) + low, dtype=np.float64)
        return np.concatenate([[low], self.edges[:-1], [high]])

    @cached_property
    def centres(self) -> NDArray[np.float64]:
        """The mean of each level's values; codes of categories; NaN for the missing cell."""
        low, high = self.column.limits
        if self.is_listed:
            values = np.arange(self.n_values) + float(low)
        else:
            last = self.edges[1:] - self.column.is_whole
            values = np.concatenate([[low], (self.edges[:-1] + last) / 2, [high]])
        return np.asarray(np.append(values, np.nan) if self.column.missing else values, dtype=np.float64)

    def values(self, levels: NDArray[np.intp], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a value of each level, by a number from 0 to 1: evenly within it; NaN for the missing."""
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
    """Rows as the levels of their cells (a `RowGrid`)."""

    schema: Schema

    @cached_property
    def columns(self) -> tuple[ColumnLevels, ...]:
        """The levels of every column."""
        return tuple(ColumnLevels(column) for column in self.schema.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return tuple(levels.size for levels in self.columns)

    @property
    def source(self) -> str:
        """Where bounds and categories came from, for the privacy statement."""
        return self.schema.source

    def describe(self, names: object = None) -> dict[str, str]:  # noqa: ARG002
        """Return the bounds in words, for the privacy statement."""
        return self.schema.describe()

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn a block of parsed cells, (columns, rows), into levels."""
        return np.stack([levels.codes(cells) for levels, cells in zip(self.columns, columns, strict=True)])
