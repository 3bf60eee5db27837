"""Contingency tables: the number of rows in each bin of a column, or in each pair of bins of two columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem.privacy import sensitivity
from dpem.statistics.base import TensorStatistic, require_gaussian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["Histograms", "PairTables", "bins_of_levels", "joined_bins"]


@dataclass(frozen=True, eq=False)
class Histograms(TensorStatistic):
    """Histograms of single columns, optionally split by another column. Eq. (S-12).

    A row holds one level per column, numbered from 0. It adds one to one entry of each of T histograms, which
    is a vector of norm sqrt(T) without negative entries.

    Attributes
    ----------
    columns : sequence of int
        The column of each histogram. Several histograms may share a column.
    bins : sequence of ndarray of int
        For each histogram, the bin of each level, numbered from 0. Bins are public or released values.
    by : (int, ndarray of int), optional
        The column that splits the histograms, and the part to which each of its levels belongs.
    """

    columns: Sequence[int]
    bins: Sequence[NDArray[np.intp]]
    by: tuple[int, NDArray[np.intp]] | None = None
    kernels: ClassVar[str] = "tables"
    tensor_module: ClassVar[str] = "kernels_torch_tables"
    tensor_kernel: ClassVar[str] = "histograms"

    @classmethod
    def of_columns(cls, sizes: Sequence[int]) -> Histograms:
        """Return one histogram per column, with one bin per level."""
        return cls(range(len(sizes)), [np.arange(size) for size in sizes])

    @cached_property
    def n_bins(self) -> list[int]:
        """Number of bins of each histogram."""
        return [int(bins.max()) + 1 for bins in self.bins]

    @property
    def n_parts(self) -> int:
        """Number of parts into which the histograms are split."""
        return 1 if self.by is None else int(self.by[1].max()) + 1

    @cached_property
    def size(self) -> int:
        """Number of bins of all histograms and parts."""
        return self.n_parts * sum(self.n_bins)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity for non-negative vectors of norm sqrt(T)."""
        return _table_sensitivity(len(self.columns), adjacency, norm)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the rows in each bin. A level out of range counts as the first or last level."""
        part = 0 if self.by is None else bins_of_levels(rows[self.by[0]], self.by[1])
        counts = [
            np.bincount(part * size + bins_of_levels(rows[j], bins), minlength=self.n_parts * size)
            for j, bins, size in zip(self.columns, self.bins, self.n_bins, strict=True)
        ]
        return np.concatenate(counts)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.histograms(rows, *self._kernel_arguments, total)

    @cached_property
    def _kernel_arguments(self) -> tuple[Any, ...]:
        split, parts = (-1, np.zeros(1, dtype=np.intp)) if self.by is None else self.by
        columns = np.asarray(self.columns, dtype=np.intp)
        return columns, *joined_bins(self.bins), np.array(self.n_bins), split, parts, self.n_parts

    def split(self, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return released values as one array (parts, bins) per histogram."""
        ends = np.cumsum([self.n_parts * size for size in self.n_bins])
        return [
            part.reshape(self.n_parts, size)
            for part, size in zip(np.split(values, ends[:-1]), self.n_bins, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class PairTables(TensorStatistic):
    """Tables of all pairs of columns within blocks, optionally split by another column. Eq. (S-12).

    A row holds one level per column, numbered from 0. It adds one to one entry of each of T tables, which is
    a vector of norm sqrt(T) without negative entries, for tables of any size and any split.

    Attributes
    ----------
    bins : sequence of ndarray of int
        For each column, the bin of each level, numbered from 0. Bins are public or released values.
    blocks : sequence of sequence of int
        Columns whose pairs are counted. A column belongs to at most one block.
    by : int, optional
        The column that splits the tables.
    """

    bins: Sequence[NDArray[np.intp]]
    blocks: Sequence[Sequence[int]]
    by: int | None = None
    kernels: ClassVar[str] = "tables"
    tensor_module: ClassVar[str] = "kernels_torch_tables"
    tensor_kernel: ClassVar[str] = "pair_tables"

    @property
    def n_tables(self) -> int:
        """Number of tables, to each of which a row adds one."""
        return sum(len(block) * (len(block) - 1) // 2 for block in self.blocks)

    @cached_property
    def n_bins(self) -> list[int]:
        """Number of bins of each column."""
        return [int(bins.max()) + 1 for bins in self.bins]

    @property
    def n_parts(self) -> int:
        """Number of parts into which the tables are split."""
        return 1 if self.by is None else self.n_bins[self.by]

    def starts(self, block: Sequence[int]) -> NDArray[np.intp]:
        """Return the first bin of each column among the bins of its block, and the end of the last column."""
        return np.concatenate([[0], np.cumsum([self.n_bins[j] for j in block])])

    @cached_property
    def size(self) -> int:
        """Number of entries of all tables."""
        total = 0
        for block in self.blocks:
            starts = self.starts(block)
            total += int((np.diff(starts) * (starts[-1] - starts[1:])).sum())
        return total * self.n_parts

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity for non-negative vectors of norm sqrt(T)."""
        return _table_sensitivity(self.n_tables, adjacency, norm)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the rows of each entry. The tables of a column with all later columns are adjacent."""
        codes = [bins_of_levels(column, bins) for column, bins in zip(rows, self.bins, strict=True)]
        part = 0 if self.by is None else codes[self.by]
        counts = [np.zeros(0, dtype=np.int64)]
        for block in self.blocks:
            starts = self.starts(block)
            places = np.stack([codes[j] + start for j, start in zip(block, starts[:-1], strict=True)])
            for i in range(len(block) - 1):
                width = starts[-1] - starts[i + 1]
                first = (part * self.n_bins[block[i]] + codes[block[i]]) * width - starts[i + 1]
                n_entries = self.n_parts * self.n_bins[block[i]] * width
                counts.append(np.bincount((first + places[i + 1 :]).ravel(), minlength=n_entries))
        return np.concatenate(counts)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.pair_tables(rows, *self._kernel_arguments, total)

    @cached_property
    def _kernel_arguments(self) -> tuple[Any, ...]:
        columns = np.array([j for block in self.blocks for j in block], dtype=np.intp)
        ends = np.cumsum([len(block) for block in self.blocks], dtype=np.intp)
        split = -1 if self.by is None else self.by
        return *joined_bins(self.bins), np.array(self.n_bins), columns, ends, split, self.n_parts

    def grams(self, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return released values as one symmetric array (parts, bins, bins) per block.

        The entries for a column with itself are zero, since these pairs are not counted.
        """
        grams, position = [], 0
        for block in self.blocks:
            starts = self.starts(block)
            gram = np.zeros((self.n_parts, starts[-1], starts[-1]))
            for i in range(len(block) - 1):
                shape = (self.n_parts, self.n_bins[block[i]], starts[-1] - starts[i + 1])
                stop = position + int(np.prod(shape))
                gram[:, starts[i] : starts[i + 1], starts[i + 1] :] = values[position:stop].reshape(shape)
                position = stop
            grams.append(gram + gram.transpose(0, 2, 1))
        return grams


def _table_sensitivity(n_tables: int, adjacency: Adjacency, norm: Norm) -> float:
    require_gaussian(norm)
    return sensitivity.histograms(n_tables, adjacency)


def joined_bins(bins: Sequence[NDArray[np.intp]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the bins of all columns in one array, and where each column's begin and the last one's end."""
    return np.concatenate(bins), np.concatenate([[0], np.cumsum([len(one) for one in bins])])


def bins_of_levels(levels: NDArray[np.float64], bins: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the bins of levels. NaN counts as the first level, because NaN > 0 is false."""
    place = np.where(levels > 0, np.minimum(levels, len(bins) - 1), 0).astype(np.intp)
    return np.asarray(bins[place])
