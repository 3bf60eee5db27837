r"""The density of a mixed table: blocks of columns, each a mixture of products, given a target column.

With c the bin of the target (the only one if there is no target), columns in blocks b and components k within
a block,

    p(x) = p(c) prod_b sum_k p_b(k | c) prod_{j in b} theta_kj(x_j).

Within a bin, the levels of a column have the same probabilities as over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.models.table.bins import ColumnBins

__all__ = ["MixedBlock", "MixedDensity"]

_BATCH_ROWS = 2048  # bounds memory
UNKNOWN = -1  # in place of a level


@dataclass(frozen=True, eq=False)
class MixedBlock:
    """A mixture of products of some columns.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns.
    weights : ndarray of shape (parts, k)
        Probability of each component given the bin of the target; rows sum to 1.
    tables : tuple of ndarray of shape (k, bins)
        For each column, the probabilities of its bins in each component.
    """

    columns: tuple[int, ...]
    weights: NDArray[np.float64]
    tables: tuple[NDArray[np.float64], ...]

    @property
    def log_weights(self) -> NDArray[np.float64]:
        """Logarithms of the weights; minus infinity for zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    def components(self, log_known: NDArray[np.float64], part: int) -> tuple[NDArray[np.float64], ...]:
        """Return component probabilities (n, k) given known cells and a bin of the target.

        The second result is the log-probability of the known cells, (n,).
        """
        joint = log_known + self.log_weights[part]
        largest = joint.max(axis=1, keepdims=True)
        shares = np.exp(joint - largest)
        total = shares.sum(axis=1, keepdims=True)
        return shares / total, (np.log(total) + largest)[:, 0]

    def log_known(self, bins: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the log-probability of each row's known cells in each component, (n, k)."""
        total = np.zeros((bins.shape[1], self.weights.shape[1]))
        for j, table in zip(self.columns, self.tables, strict=True):
            with_unknown = np.vstack([np.log(table.T), np.zeros(len(table))])  # -1 is the last row
            total += with_unknown[bins[j]]
        return total


@dataclass(frozen=True, eq=False)
class MixedDensity:
    """The density of the whole table. Rows are levels of shape (columns, rows), -1 for unknown cells.

    Attributes
    ----------
    bins : tuple of ColumnBins
        Bins of every column, and the levels within them.
    blocks : tuple of MixedBlock
        Blocks of all columns except the target.
    parts : ndarray
        Probabilities of the bins of the target; a single 1 without a target.
    target : int, optional
        Position of the target column.
    """

    bins: tuple[ColumnBins, ...]
    blocks: tuple[MixedBlock, ...]
    parts: NDArray[np.float64]
    target: int | None = None

    def _to_bins(self, levels: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the bins of levels."""
        return np.stack(
            [np.append(column.of_level, UNKNOWN)[row] for column, row in zip(self.bins, levels, strict=True)]
        )

    def _log_parts(self, bins: NDArray[np.intp], known: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the joint log-probability of known cells and each bin of the target, (n, parts)."""
        with np.errstate(divide="ignore"):
            joint = np.repeat(np.log(self.parts)[None], bins.shape[1], axis=0)
        if self.target is not None:
            row = bins[self.target]
            joint[(row[:, None] != UNKNOWN) & (row[:, None] != np.arange(len(self.parts)))] = -np.inf
        for block, log_known in zip(self.blocks, known, strict=True):
            for part in range(len(self.parts)):
                joint[:, part] += block.components(log_known, part)[1]
        return joint

    def log_density(self, levels: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the log-density of each row's known cells, per unit of continuous columns."""
        result = np.empty(levels.shape[1])
        for start in range(0, levels.shape[1], _BATCH_ROWS):
            rows = levels[:, start : start + _BATCH_ROWS]
            bins = self._to_bins(rows)
            known = [block.log_known(bins) for block in self.blocks]
            total = special.logsumexp(self._log_parts(bins, known), axis=1)
            for column, row in zip(self.bins, rows, strict=True):
                total += np.append(np.log(column.within) - column.levels.log_widths, 0.0)[row]
            result[start : start + _BATCH_ROWS] = total
        return result

    def conditional(self, levels: NDArray[np.intp], column: int) -> NDArray[np.float64]:
        """Return the probabilities of a column's levels given each row's known cells, (n, levels)."""
        of_bins = np.empty((levels.shape[1], self.bins[column].size))
        for start in range(0, levels.shape[1], _BATCH_ROWS):
            bins = self._to_bins(levels[:, start : start + _BATCH_ROWS])
            bins[column] = UNKNOWN
            known = [block.log_known(bins) for block in self.blocks]
            parts = special.softmax(self._log_parts(bins, known), axis=1)
            if column != self.target:
                block, log_known = next(
                    (block, log_known)
                    for block, log_known in zip(self.blocks, known, strict=True)
                    if column in block.columns
                )
                components = sum(
                    parts[:, [c]] * block.components(log_known, c)[0] for c in range(len(self.parts))
                )
                parts = components @ block.tables[block.columns.index(column)]
            of_bins[start : start + _BATCH_ROWS] = parts
        expanded = of_bins[:, self.bins[column].of_level] * self.bins[column].within
        return np.asarray(expanded / expanded.sum(axis=1, keepdims=True))

    def given(self, levels: NDArray[np.intp]) -> MixedDensity:
        """Return the density of the unknown columns given the known cells of one row (-1 for unknown)."""
        bins = self._to_bins(levels[:, None])
        known = [block.log_known(bins) for block in self.blocks]
        parts = special.softmax(self._log_parts(bins, known), axis=1)[0]
        blocks = []
        for block, log_known in zip(self.blocks, known, strict=True):
            given = [block.components(log_known, part)[0] for part in range(len(self.parts))]
            blocks.append(replace(block, weights=np.concatenate(given)))
        return replace(self, parts=parts, blocks=tuple(blocks))

    def draw(self, n: int, random_state: PublicRandom) -> NDArray[np.intp]:
        """Draw n rows of levels.

        Each row has the distribution of the model. The rows are spread evenly over components, bins and
        levels, so that their sampling error is smaller than that of independent draws.
        """
        levels = np.empty((len(self.bins), n), dtype=np.intp)
        part = _spread_draws(self.parts[None], np.zeros(n, dtype=np.intp), random_state)
        bins: dict[int, NDArray[np.intp]] = {} if self.target is None else {self.target: part}
        for block in self.blocks:
            component = _spread_draws(block.weights, part, random_state)
            for j, table in zip(block.columns, block.tables, strict=True):
                bins[j] = _spread_draws(table, component, random_state)
        for j, column in enumerate(self.bins):
            within = np.zeros((column.size, column.levels.size))
            within[column.of_level, np.arange(column.levels.size)] = column.within
            levels[j] = _spread_draws(within, bins[j], random_state)
        return levels

    def joint(self, columns: Sequence[int], labels: Sequence[NDArray[np.intp]]) -> NDArray[np.float64]:
        """Return the joint probabilities of labels of some columns, with one axis for each column.

        `labels` has, for each column, the label of every level.
        """
        shape = [int(label.max()) + 1 for label in labels]
        total = np.zeros(shape)
        of_labels = dict(zip(columns, labels, strict=True))
        for c, part in enumerate(self.parts):
            product = np.full((1,) * len(columns), part)
            for block in self.blocks:
                members = [j for j in columns if j in block.columns]
                if not members:
                    continue
                *first, last = [
                    self._by_label(j, block.tables[block.columns.index(j)], of_labels[j]) for j in members
                ]
                table = block.weights[c][:, None]
                for more in first:
                    table = (table[:, :, None] * more[:, None, :]).reshape(len(more), -1)
                product = product * (table.T @ last).reshape(
                    [size if j in members else 1 for j, size in zip(columns, shape, strict=True)]
                )
            if self.target is not None and self.target in columns:
                one = np.eye(len(self.parts))[c][None]
                product = product * self._by_label(self.target, one, of_labels[self.target]).reshape(
                    [size if j == self.target else 1 for j, size in zip(columns, shape, strict=True)]
                )
            total += product
        return total

    def _by_label(
        self, column: int, table: NDArray[np.float64], label: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Turn probabilities of bins into those of labels, (rows, labels)."""
        bins = self.bins[column]
        under = np.zeros((bins.size, int(label.max()) + 1))
        np.add.at(under, (bins.of_level, label), bins.within)
        return np.asarray(table @ under)


def _spread_draws(
    distributions: NDArray[np.float64], labels: NDArray[np.intp], random_state: PublicRandom
) -> NDArray[np.intp]:
    """Draw from the distribution of each label, evenly over the rows with this label.

    The i-th of n such rows, in random order, takes the quantile (i + u)/n with a uniform u. Each row alone
    has the distribution, and the count of each value differs from its expectation by at most one.
    """
    counts = np.bincount(labels, minlength=len(distributions))
    order = np.lexsort((random_state.uniform(size=len(labels)), labels))
    rank = np.empty(len(labels), dtype=np.intp)
    rank[order] = np.arange(len(labels))
    rank -= (np.cumsum(counts) - counts)[labels]
    quantile = (rank + random_state.uniform(size=len(distributions))[labels]) / counts[labels]
    below = np.cumsum(distributions, axis=1)
    below /= below[:, -1:]
    # One search for all: the cumulative distribution of label l, plus l, covers the interval from l to l + 1.
    increasing = (below + np.arange(len(distributions))[:, None]).ravel()
    place = np.searchsorted(increasing, labels + quantile, side="right")
    last = distributions.shape[1] - 1
    return np.asarray(np.clip(place - labels * distributions.shape[1], 0, last))
