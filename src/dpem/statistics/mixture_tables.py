"""Expected tables of a mixture of product distributions: the statistic of an EM step on binned columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem.privacy import sensitivity
from dpem.statistics.base import TensorStatistic, require_gaussian
from dpem.statistics.contingency import bins_of_levels, joined_bins
from dpem.statistics.exact import exact_product
from dpem.statistics.softmax import softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["ROW_UNIT", "SHARE_BITS", "MixtureTables"]

SHARE_BITS = 16  # of a responsibility
_TABLE_BITS = 12  # of a probability that replaces a missing cell
ROW_UNIT = 2.0 ** (SHARE_BITS + _TABLE_BITS)  # units of the sums per row


@dataclass(frozen=True, eq=False)
class MixtureTables(TensorStatistic):
    """Sums of responsibilities g, and of g times the indicator of each bin of each column. Eq. (S-14).

    A known cell counts as the indicator of its bin. A missing cell counts as its expectation, which is given
    by the probabilities of the released tables, and also in an entry for missing cells. With m columns, of
    which q may have missing cells, the squared norm is at most sum_k g_k^2 (1 + m + q) <= 1 + m + q, and no
    entry is negative.

    Attributes
    ----------
    bins : sequence of ndarray of int
        For each column, the bin of each level, numbered from 0. The last bin is that of missing cells.
    weights : ndarray of shape (k,)
        Released or public weights of the components.
    tables : sequence of ndarray of shape (k, bins)
        For each column, the probabilities of the bins of known cells.
    missing : sequence of ndarray of shape (k,), or None
        For each column, the probability of a missing cell, or None if the column has no missing cells.
    """

    bins: Sequence[NDArray[np.intp]]
    weights: NDArray[np.float64]
    tables: Sequence[NDArray[np.float64]]
    missing: Sequence[NDArray[np.float64] | None]
    kernels: ClassVar[str] = "tables"
    tensor_module: ClassVar[str] = "kernels_torch_tables"
    tensor_kernel: ClassVar[str] = "mixture_tables"

    @property
    def size(self) -> int:
        """Number of entries: weights, tables of all columns, and counts of missing cells."""
        k = len(self.weights)
        return k * (1 + int(sum(table.shape[1] for table in self.tables)) + self._n_missing)

    @property
    def _n_missing(self) -> int:
        return sum(one is not None for one in self.missing)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity for non-negative vectors of bounded norm."""
        require_gaussian(norm)
        bound = math.sqrt(1 + len(self.tables) + self._n_missing) * ROW_UNIT
        return sensitivity.clipped_vector(math.nextafter(bound, math.inf), adjacency, cone=True)

    @cached_property
    def log_tables(self) -> list[NDArray[np.float64]]:
        """For each column, the log-probability of each bin, that of missing cells last, (k, bins)."""
        with_missing = []
        for table, missing in zip(self.tables, self.missing, strict=True):
            if missing is None:
                with_missing.append(np.log(table))
            else:
                known = np.log(table) + np.log1p(-missing)[:, None]
                with_missing.append(np.concatenate([known, np.log(missing)[:, None]], axis=1))
        return with_missing

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum over a block of rows of levels. All products are exact products of integers."""
        codes = [bins_of_levels(column, bins) for column, bins in zip(rows, self.bins, strict=True)]
        share = self._shares(codes)
        by_bin = [
            _by_bin(share, column, table.shape[1] + 1)
            for column, table in zip(codes, self.tables, strict=True)
        ]
        return self.expected(share.sum(axis=1).astype(np.int64), by_bin)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        k = len(self.weights)
        bins, starts, cells, log_weights, may_be_missing, expected = self._kernel_arguments
        shares, sums = np.zeros(k, dtype=np.int64), np.zeros((cells[-1], k), dtype=np.int64)
        kernels.mixture_tables(
            *(rows, bins, starts, cells, log_weights, self._log_table_of_bins, 2.0**SHARE_BITS, shares, sums)
        )
        by_component = total.reshape(k, -1)
        kernels.add_expected(shares, sums, cells, may_be_missing, expected, _TABLE_BITS, by_component)

    @cached_property
    def _kernel_arguments(self) -> tuple[NDArray[Any], ...]:
        cells = np.cumsum([0, *(table.shape[1] + 1 for table in self.tables)])
        may_be_missing = np.array([one is not None for one in self.missing])
        expected = [np.pad(_expected_table(table), ((0, 0), (0, 1))) for table in self.tables]
        joined = np.ascontiguousarray(np.concatenate(expected, axis=1).T)
        return *joined_bins(self.bins), cells, np.log(self.weights), may_be_missing, joined

    def expected(self, shares: NDArray[np.int64], by_bin: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the sums, from responsibilities (k,) and those by the bins of each column, missing last."""
        sums, lost = [shares[:, None] << _TABLE_BITS], []
        for sums_of_bins, table, missing in zip(by_bin, self.tables, self.missing, strict=True):
            size = table.shape[1]
            counted = sums_of_bins[:, :size] << _TABLE_BITS
            if missing is not None:
                counted = counted + sums_of_bins[:, size:] * _expected_table(table)
                lost.append(sums_of_bins[:, size:] << _TABLE_BITS)
            sums.append(counted)
        return np.concatenate(sums + lost, axis=1).ravel()

    @cached_property
    def _log_table_of_bins(self) -> NDArray[np.float64]:
        """The log-probabilities of all columns' bins, those of missing cells last, one row per bin."""
        padded = [
            np.pad(log_table, ((0, 0), (0, table.shape[1] + 1 - log_table.shape[1])))
            for log_table, table in zip(self.log_tables, self.tables, strict=True)
        ]
        return np.ascontiguousarray(np.concatenate(padded, axis=1).T)

    def _shares(self, codes: list[NDArray[np.intp]]) -> NDArray[np.float64]:
        """Return responsibilities (k, n) as integers of 2^16, the bound checked for every row."""
        logits = np.repeat(np.log(self.weights)[:, None], len(codes[0]), axis=1)
        for column, table in zip(codes, self.log_tables, strict=True):
            logits += table[:, column]
        share = np.floor(softmax(logits)[0] * 2.0**SHARE_BITS)
        # Check the bound of the sensitivity in integers. A row beyond it is set to zero.
        share[:, ~(share.sum(axis=0) <= 2.0**SHARE_BITS)] = 0.0
        return share

    def read(self, released: ReleasedStatistics) -> tuple[NDArray[np.float64], float]:
        """Return released sums in units of rows, (k, entries), and the standard deviation of their noise."""
        return released.values.reshape(len(self.weights), -1) / ROW_UNIT, float(
            released.noise_stddev[0]
        ) / ROW_UNIT


def _expected_table(table: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return probabilities (k, bins) in units of 2^-12."""
    # Rounded down, the entries of a table sum to at most 2^12, which bounds their norm.
    return np.asarray(np.floor(table * (1 - 2.0**-40) * 2.0**_TABLE_BITS).astype(np.int64))


def _by_bin(share: NDArray[np.float64], column: NDArray[np.intp], n_bins: int) -> NDArray[np.int64]:
    """Sum responsibilities (k, n) over the rows of each bin."""
    n = len(column)
    hot = np.zeros((n, n_bins))
    hot[np.arange(n), column] = 1.0
    return exact_product(share, hot, bound=2.0**SHARE_BITS * max(1, n)).astype(np.int64)
