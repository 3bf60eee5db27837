"""Responsibility-weighted counts, sums and second moments, each released separately as in the paper.

They share responsibilities, so one pass over the rows sums all three.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID
from dpem.privacy import sensitivity
from dpem.statistics.base import PreparedStatistic, require_gaussian
from dpem.statistics.exact import exact_product
from dpem.statistics.gaussian import (
    CHECKED_TOGETHER,
    COARSE_BITS,
    EXACT_ROWS,
    RESPONSIBILITY_BITS,
    ROW_BITS,
)
from dpem.statistics.simple import LINEAR_BITS, SQUARED_BITS, onto_unit_grid, unit_scale
from dpem.statistics.softmax import softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm
    from dpem.statistics.gaussian import GaussianComponents

__all__ = ["Counts", "Moments", "Sums"]

_ONE = 2.0**RESPONSIBILITY_BITS
_MANY_COLUMNS = 20


@dataclass(frozen=True, eq=False)
class _Weighted(PreparedStatistic):
    """The common part: responsibilities as integers whose sum for each row is at most 2^16."""

    components: GaussianComponents

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of components and columns."""
        k, d = self.components.offsets.shape
        return int(k), int(d)

    def prepare(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return responsibilities as multiples of 2^-16, rounded down, (k, n)."""
        _, squared = self.components.frames(rows)
        g = np.floor(softmax(self.components.log_joint(squared))[0] * _ONE)
        total = g[0].copy()
        for row in g[1:]:
            total += row
        g[:, ~(total <= _ONE)] = 0.0
        return g


@dataclass(frozen=True, eq=False)
class Counts(_Weighted):
    """sum_i g_ik for all k: one mechanism, with the paper's sensitivity 2 in either norm."""

    @property
    def size(self) -> int:
        """One per component."""
        return self.shape[0]

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return 2, as in the paper; in L2 sqrt 2 would suffice."""
        return max(2.0, sensitivity.counts(adjacency, norm)) * _ONE

    def sum_prepared(self, rows: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.int64]:  # noqa: ARG002
        """Sum responsibilities."""
        return np.asarray(g.sum(axis=1).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Sums(_Weighted):
    """sum_i g_ik x_i: K mechanisms, one for each component, each with Eq. (S-2)."""

    @property
    def size(self) -> int:
        """The number of coordinates of all components."""
        k, d = self.shape
        return k * d

    @property
    def unit(self) -> float:
        """The length in the sums of a row with norm 1 and responsibility 1."""
        return unit_scale(self.shape[1], LINEAR_BITS) * _ONE

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return 2, or 2 sqrt(d) in L1, for the sum of one component: each is charged separately."""
        return sensitivity.sums(2.0**LINEAR_BITS * _ONE, adjacency, norm, self.shape[1])

    def sum_prepared(self, rows: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum weighted rows."""
        x = onto_unit_grid(rows, GRID, LINEAR_BITS)
        total = np.zeros(self.size, dtype=np.int64)
        for start in range(0, rows.shape[1], 2**14):
            part = slice(start, start + 2**14)
            # 2^36 a row, 2^50 in all; responsibilities sum to at most 2^16, so all are checked together.
            sums = exact_product(g[:, part], x[:, part].T, bound=2.0**50, group=len(g))
            total += sums.ravel().astype(np.int64)
        return total


@dataclass(frozen=True, eq=False)
class Moments(_Weighted):
    """sum_i g_ik x_i x_i', upper triangles: K mechanisms with the paper's Frobenius sensitivity 2."""

    coarse_bits = COARSE_BITS

    @property
    def size(self) -> int:
        """The number of entries of all triangles."""
        k, d = self.shape
        return k * (d * (d + 1) // 2)

    @cached_property
    def unit(self) -> float:
        """The value in a release of a squared norm of 1 with responsibility 1."""
        return unit_scale(self.shape[1], SQUARED_BITS) ** 2 * _ONE / 2.0**self.coarse_bits

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return 2, as in the paper (sqrt 2 would suffice), for the matrix of one component."""
        require_gaussian(norm)
        whole = max(2.0, sensitivity.second_moments(1.0, adjacency)) * 2.0**ROW_BITS
        return sensitivity.coarse(whole, self.coarse_bits, np.ones(self.size // self.shape[0]))

    def sum_prepared(self, rows: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum weighted outer products."""
        x = onto_unit_grid(rows, GRID, SQUARED_BITS)
        return self._all_at_once(g, x) if len(x) < _MANY_COLUMNS else self._one_by_one(g, x)

    def _all_at_once(self, g: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Multiply all responsibilities with the products of columns, which is fast for few columns."""
        i, j = np.triu_indices(len(x))
        total = np.zeros(self.size, dtype=np.int64)
        for start in range(0, x.shape[1], EXACT_ROWS):
            part = slice(start, start + EXACT_ROWS)
            squares = x[i, part] * x[j, part]
            # 2^42 a row, 2^51 in all; responsibilities sum to at most 2^16, so all are checked together.
            sums = exact_product(g[:, part], squares.T, bound=2.0**51, group=len(g))
            total += sums.ravel().astype(np.int64)
        return total

    def _one_by_one(self, g: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Multiply weighted rows with rows, component by component."""
        triangle = np.triu(np.ones((len(x), len(x)), dtype=bool))
        total = np.zeros((len(g), int(triangle.sum())), dtype=np.int64)
        for total_k, g_k in zip(total, g, strict=True):
            held = np.flatnonzero(g_k)  # rows of zero weight add nothing
            for start in range(0, len(held), EXACT_ROWS):
                part = held[start : start + EXACT_ROWS]
                x_part = x.take(part, axis=1)
                # 2^42 a row, 2^51 in all; 8 rows of x together are at most sqrt(8) times as long.
                sums = exact_product(x_part * g_k[part], x_part.T, bound=2.0**51, group=CHECKED_TOGETHER)
                np.add(total_k, sums[triangle].astype(np.int64), out=total_k)
        return total.ravel()
