"""The average of noisy sums over the second half of the EM steps, and its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DecayingAverage", "is_averaged", "noise_after"]

_FORGET = 0.8  # factor on the weight of earlier sums at every step of the second half


@dataclass(frozen=True, eq=False)
class DecayingAverage:
    """An average of noisy sums, weighted by precision; the weight of earlier sums decays from step to step.

    Attributes
    ----------
    sums : tuple of ndarray
        The averages. All arrays of one step have the same weight.
    weight : float
        Weight of the average: the sum of the decayed precisions.
    earlier : float
        The part of it that belongs to earlier steps.
    variance : float
        Variance of the noise, times the squared weight.
    """

    sums: tuple[NDArray[Any], ...] = ()
    weight: float = 0.0
    earlier: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, noise: float, *sums: NDArray[Any]) -> DecayingAverage:
        """Return the sums of one step alone."""
        return cls(sums, noise**-2.0, 0.0, (noise**-2.0) ** 2 * noise**2)

    def add(self, noise: float, *sums: NDArray[Any], forget: float | None = None) -> DecayingAverage:
        """Return the average with the sums of another step. A factor of 0 forgets the earlier sums."""
        factor = _FORGET if forget is None else forget
        weight, earlier = noise**-2.0, factor * self.weight
        means = tuple(
            (before * earlier + new * weight) / (earlier + weight)
            for before, new in zip(self.sums, sums, strict=True)
        )
        variance = factor**2 * self.variance + weight**2 * noise**2
        return DecayingAverage(means, earlier + weight, earlier, variance)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of the average."""
        return math.sqrt(self.variance) / self.weight

    @property
    def noise_of_last(self) -> float:
        """Noise which the average would have if it came from the last step alone, over that step's noise."""
        return math.sqrt(self.variance / (self.weight - self.earlier))


def is_averaged(step: int, n_steps: int) -> bool:
    """Return whether a step, numbered from 0, averages its sums with those of the steps before."""
    return step >= max(1, n_steps // 2)


def noise_after(noises: Sequence[float]) -> float:
    """Return the noise of the last average, given the noise of every step.

    Examples
    --------
    >>> round(noise_after([1.0] * 10), 3)
    0.436
    """
    average = DecayingAverage()
    for step, noise in enumerate(noises):
        average = average.add(noise) if is_averaged(step, len(noises)) else DecayingAverage.of(noise)
    return average.noise
