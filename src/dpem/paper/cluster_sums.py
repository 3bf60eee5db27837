"""Counts and sums by nearest centre, as the paper and its baseline release them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID
from dpem.privacy import sensitivity
from dpem.statistics.base import PreparedStatistic
from dpem.statistics.simple import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["ClusterCounts", "ClusterSums", "CountsAndSums"]


@dataclass(frozen=True, eq=False)
class _ByNearest(PreparedStatistic):
    """The common part: the nearest centre of every row."""

    centres: NDArray[np.float64]

    def prepare(self, rows: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the nearest centre of every row."""
        return nearest(rows, self.centres)[0]


class ClusterCounts(_ByNearest):
    """The number of rows nearest to each centre. Eq. (S-1)."""

    @property
    def size(self) -> int:
        """One entry per centre."""
        return len(self.centres)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of counts."""
        return sensitivity.counts(adjacency, norm)

    def sum_prepared(self, rows: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.int64]:  # noqa: ARG002
        """Count rows by nearest centre."""
        return np.bincount(labels, minlength=self.size)


class ClusterSums(_ByNearest):
    """The sum of the rows of each centre: K mechanisms, each with Eq. (S-2)."""

    @property
    def size(self) -> int:
        """The number of coordinates of all centres."""
        return self.centres.size

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of one sum: each of the K sums is charged separately, as in the paper."""
        return sensitivity.sums(GRID, adjacency, norm, self.centres.shape[1])

    def sum_prepared(self, rows: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.int64]:
        """Sum rows by nearest centre."""
        return _sums_by_label(rows, labels, len(self.centres)).ravel()


class CountsAndSums(_ByNearest):
    """Counts (in units of 2^24) and sums together in one mechanism, as in DPLloyd."""

    @property
    def size(self) -> int:
        """Counts, then coordinates."""
        return len(self.centres) + self.centres.size

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l1") -> float:
        """Return DPLloyd's L1 sensitivity, corrected for rows in the unit ball."""
        if norm != "l1":
            raise TypeError(f"Expected norm='l1', got {norm!r}. DPLloyd is released with Laplace noise only.")
        return sensitivity.lloyd_l1(self.centres.shape[1], adjacency, "ball") * GRID

    def sum_prepared(self, rows: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.int64]:
        """Count and sum rows by nearest centre."""
        k = len(self.centres)
        counts = np.bincount(labels, minlength=k) * int(GRID)
        return np.concatenate([counts, _sums_by_label(rows, labels, k).ravel()])


def _sums_by_label(rows: NDArray[np.float64], labels: NDArray[np.intp], k: int) -> NDArray[np.int64]:
    # Float sums of a block are exact: the integers are at most 2^24.
    sums = [np.bincount(labels, weights=column, minlength=k) for column in rows]
    return np.stack(sums, axis=1).astype(np.int64)
