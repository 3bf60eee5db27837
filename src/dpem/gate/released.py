"""Raw and released statistics: two types that only the release gate connects."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["RawStatistics", "ReleasedStatistics"]


class RawStatistics:
    """An exact sum over private rows. Only the release gate may read its values."""

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._values = values

    def __repr__(self) -> str:
        return f"RawStatistics(<{self._values.size} private integers>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Raw statistics are private: they cannot be saved or copied.")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("Raw statistics are private: release them through the gate.")


_GATE = object()  # the release gate passes this key; any other caller cannot build released statistics


@dataclass(frozen=True, eq=False)
class ReleasedStatistics:
    """A noisy sum, which may be published and used in any computation.

    Attributes
    ----------
    stage : str
        The stage of the plan.
    values : ndarray of float64
        The noisy integers, in grid units.
    noise_stddev : ndarray of float64
        Standard deviation of the noise of each entry, in grid units.
    insecure_noise : bool
        Whether the noise was drawn from a seed.
    """

    stage: str
    values: NDArray[np.float64]
    noise_stddev: NDArray[np.float64]
    insecure_noise: bool
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _GATE:
            raise TypeError("Only the release gate creates released statistics.")

    def entries(self, part: slice) -> ReleasedStatistics:
        """Return a slice of the entries."""
        return replace(self, values=self.values[part], noise_stddev=self.noise_stddev[part], key=_GATE)

    def with_more_noise(self, noise: NDArray[np.float64]) -> ReleasedStatistics:
        """Return the statistics with additional noise, which is post-processing, to estimate its effect.

        Noise of shape (n, p) gives a stack of n statistics of p values each.
        """
        return replace(self, values=self.values + noise, key=_GATE)
