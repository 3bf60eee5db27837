"""What a row statistic is: an integer vector for every row, of bounded norm, summed over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["JointStatistic", "PreparedStatistic", "RowStatistic", "require_gaussian"]


class RowStatistic(Protocol):
    """An integer vector for every row, of bounded norm, summed over rows.

    It may depend on released values and on the row itself, never on another row. Every implementation
    checks its bound per row in integers, and takes its sensitivity from `dpem.privacy.sensitivity`.
    """

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    @property
    def noise_shape(self) -> NDArray[np.float64] | None:
        """Noise of each entry relative to the mechanism's, where it is not 1 for all."""
        ...

    @property
    def coarse_bits(self) -> int:
        """How many low bits of the sum are dropped before release, so that many rows fit 64 bits."""
        ...

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Sensitivity of what is released, each entry divided by its relative noise.

        Dropping low bits rounds a sum down, which can add 1 to the change of every entry.

        Statistics that are only ever released with Gaussian noise may leave out the L1 norm.
        """
        ...

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block of grid rows of shape (columns, rows)."""
        ...


class PreparedStatistic(RowStatistic, Protocol):
    """A statistic whose costly part others can share: `sum_block` is `sum_prepared` of `prepare`."""

    def prepare(self, rows: NDArray[np.float64]) -> Any:
        """Return what is needed of a block of grid rows, such as responsibilities."""
        ...

    def sum_prepared(self, rows: NDArray[np.float64], prepared: Any, /) -> NDArray[np.int64]:
        """Return the sum over the block from what was prepared."""
        ...


@dataclass(frozen=True, eq=False)
class JointStatistic:
    """Statistics with the same `prepare`, summed in one pass over the rows; each is released by itself."""

    parts: Sequence[PreparedStatistic]

    @property
    def size(self) -> int:
        """All entries, part by part."""
        return sum(part.size for part in self.parts)

    @property
    def coarse_bits(self) -> NDArray[np.int64]:
        """Return how many low bits are dropped of each entry's sum."""
        return np.repeat([part.coarse_bits for part in self.parts], [part.size for part in self.parts])

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Prepare once, and sum every part."""
        prepared = self.parts[0].prepare(rows)
        return np.concatenate([part.sum_prepared(rows, prepared) for part in self.parts])

    def split(self, total: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the sums of the parts."""
        return np.split(total, np.cumsum([part.size for part in self.parts])[:-1])


def require_gaussian(norm: Norm) -> None:
    """Raise for the norm of Laplace noise: most statistics have a proof for Gaussian noise alone."""
    if norm != "l2":
        raise TypeError("Expected norm='l2': this statistic is released with Gaussian noise only.")
