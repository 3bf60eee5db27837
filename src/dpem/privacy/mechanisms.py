"""Mechanisms: noise on integer statistics, with the event that describes it.

There are only the Gaussian and the Laplace mechanism, on purpose. Any other mechanism needs a proof, an exact
sampler and an accountant before it is added here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpem import _validate
from dpem.privacy._rounding import float_down, float_up
from dpem.privacy.events import Event, GaussianEvent, LaplaceEvent
from dpem.privacy.noise import LARGEST_SCALE, check_scale, rounded_gaussian, rounded_laplace
from dpem.privacy.randomness import entropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.privacy.sensitivity import Norm

__all__ = ["GaussianMechanism", "LaplaceMechanism", "NoiseKind", "NoisyIntegers"]

# Each entry of a statistic is clipped to this limit before noise, which cannot increase a sensitivity. Noise
# below 2^62 then cannot overflow (docs/proofs/noise.md, 5).
_LARGEST_STATISTIC = 2**62 - 1


class NoiseKind(StrEnum):
    """The distribution of the noise, which determines the norm of the sensitivity."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"

    @property
    def norm(self) -> Norm:
        """The norm of the sensitivity for this noise."""
        return "l2" if self is NoiseKind.GAUSSIAN else "l1"


@dataclass(frozen=True)
class NoisyIntegers:
    """A released vector of integers.

    Attributes
    ----------
    values : ndarray of int64
        The statistic with its noise, in grid units.
    event : Event
        The cost of the release.
    insecure_noise : bool
        Whether the noise was drawn from a seed, so that the release has no guarantee.

    Examples
    --------
    >>> released = GaussianMechanism(sensitivity=1.0, noise_stddev=3.0).release(np.array([100, 200]))
    >>> released.values.shape, released.event
    ((2,), GaussianEvent(noise_multiplier=3.0))
    """

    values: NDArray[np.int64]
    event: Event
    insecure_noise: bool


@dataclass(frozen=True)
class GaussianMechanism:
    """Add rounded Gaussian noise to integers.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity of the statistic, in grid units.
    noise_stddev : float
        Standard deviation of the noise, in grid units, from 2^-10 to 2^54.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism = GaussianMechanism(sensitivity=1.0, noise_stddev=4.0)
    >>> mechanism.event
    GaussianEvent(noise_multiplier=4.0)
    >>> mechanism.release(np.array([10, 20])).values.shape
    (2,)
    """

    sensitivity: float
    noise_stddev: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", _check_sensitivity(self.sensitivity))
        object.__setattr__(self, "noise_stddev", check_scale(self.noise_stddev, "noise_stddev"))

    @classmethod
    def for_event(cls, event: GaussianEvent, sensitivity: float) -> GaussianMechanism:
        """Return the mechanism that costs at most `event` on a statistic of this sensitivity."""
        sensitivity = _check_sensitivity(sensitivity)
        return cls(sensitivity, float_up(Fraction(event.noise_multiplier) * Fraction(sensitivity)))

    @property
    def event(self) -> GaussianEvent:
        """The cost of one release."""
        return GaussianEvent(float_down(Fraction(self.noise_stddev) / Fraction(self.sensitivity)))

    def release(
        self, statistic: NDArray[np.int64], noise_shape: NDArray[np.float64] | None = None
    ) -> NoisyIntegers:
        """Return the statistic with new noise. Charge the event first.

        Parameters
        ----------
        statistic : ndarray of int64
            The exact sum.
        noise_shape : ndarray of float64, optional
            Noise of each entry relative to `noise_stddev`. The sensitivity must then be that of the entries
            divided by this factor. For a symmetric matrix that is released by its upper triangle the factor
            is 1 on the diagonal and 1/sqrt(2) elsewhere, and the sensitivity is in the Frobenius norm.
        """
        clipped = _clipped(statistic)
        if noise_shape is None:
            noise = rounded_gaussian(self.noise_stddev, clipped.size)
        else:
            noise = np.empty(clipped.size, dtype=np.int64)
            for factor in np.unique(noise_shape):
                where = np.flatnonzero(noise_shape == factor)
                stddev = float_up(Fraction(self.noise_stddev) * Fraction(float(factor)))
                noise[where] = rounded_gaussian(stddev, where.size)
        return _released(clipped, noise, self.event)


@dataclass(frozen=True)
class LaplaceMechanism:
    """Add rounded Laplace noise to integers.

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity of the statistic, in grid units.
    noise_scale : float
        Scale of the noise, in grid units, from 2^-10 to 2^54.

    Examples
    --------
    >>> LaplaceMechanism(sensitivity=2.0, noise_scale=8.0).event
    LaplaceEvent(epsilon=0.25)
    """

    sensitivity: float
    noise_scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", _check_sensitivity(self.sensitivity))
        object.__setattr__(self, "noise_scale", check_scale(self.noise_scale, "noise_scale"))

    @classmethod
    def for_event(cls, event: LaplaceEvent, sensitivity: float) -> LaplaceMechanism:
        """Return the mechanism that costs at most `event` on a statistic of this sensitivity."""
        sensitivity = _check_sensitivity(sensitivity)
        return cls(sensitivity, float_up(Fraction(sensitivity) / Fraction(event.epsilon)))

    @property
    def event(self) -> LaplaceEvent:
        """The cost of one release."""
        return LaplaceEvent(float_up(Fraction(self.sensitivity) / Fraction(self.noise_scale)))

    def release(self, statistic: NDArray[np.int64]) -> NoisyIntegers:
        """Return the statistic with new noise. Charge the event first."""
        clipped = _clipped(statistic)
        noise = rounded_laplace(self.noise_scale, clipped.size)
        return _released(clipped, noise, self.event)


def _check_sensitivity(value: float) -> float:
    # If an integer statistic changes, it changes by at least 1: a smaller sensitivity is an error in units.
    remedy = "Pass the sensitivity in grid units: for integers it is at least 1."
    return _validate.within(value, "sensitivity", 1.0, LARGEST_SCALE, remedy)


def _clipped(statistic: NDArray[np.int64]) -> NDArray[np.int64]:
    statistic = np.atleast_1d(statistic)
    if not np.can_cast(statistic.dtype, np.int64):  # the type is public, the values are not
        raise _validate.fail(
            "an integer statistic that fits int64",
            "dtype",
            str(statistic.dtype),
            "Round it to a grid first: noise on floats is not private.",
        )
    return np.clip(statistic.astype(np.int64), -_LARGEST_STATISTIC, _LARGEST_STATISTIC)


def _released(clipped: NDArray[np.int64], noise: NDArray[np.int64], event: Event) -> NoisyIntegers:
    noisy = clipped + noise.reshape(clipped.shape)
    return NoisyIntegers(noisy, event, insecure_noise=not entropy().is_secure)
