"""Statistics before and after the release gate: two types that nothing but the gate connects."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.privacy.sensitivity import Norm

__all__ = [
    "JointStatistic",
    "PreparedStatistic",
    "RawStatistics",
    "ReleasedStatistics",
    "RowStatistic",
    "require_gaussian",
]


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

    def sensitivity(self, adjacency: str, norm: Norm = "l2") -> float:
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


class RawStatistics:
    """An exact sum over private rows. It shows nothing; only the release gate may open it."""

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"RawStatistics(<{self._values.size} private integers>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Raw statistics are private: they cannot be saved or copied.")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("Raw statistics are private: release them through the gate.")


_GATE = object()  # known to the release gate; whoever else builds released statistics is stopped at run time


@dataclass(frozen=True, eq=False)
class ReleasedStatistics:
    """A sum with its noise: free to look at, to keep and to compute with.

    Attributes
    ----------
    stage : str
        The stage of the plan that paid for it.
    values : ndarray of float64
        The noisy integers, in grid units.
    noise_stddev : ndarray of float64
        Standard deviation of the noise of each entry, in grid units.
    insecure_noise : bool
        Whether the noise came from a seed.
    """

    stage: str
    values: NDArray[np.float64]
    noise_stddev: NDArray[np.float64]
    insecure_noise: bool
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _GATE:
            raise TypeError("Only the release gate makes released statistics.")

    def entries(self, part: slice) -> ReleasedStatistics:
        """Return some of the entries."""
        return replace(self, values=self.values[part], noise_stddev=self.noise_stddev[part], key=_GATE)

    def with_more_noise(self, noise: NDArray[np.float64]) -> ReleasedStatistics:
        """Return the same statistics with further noise: post-processing, to see what noise does."""
        return replace(self, values=self.values + noise, key=_GATE)
