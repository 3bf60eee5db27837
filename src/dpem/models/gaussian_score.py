"""The sum of log-densities under a released mixture, each clipped to public limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpem.em.gaussian_moments import GaussianComponents
from dpem.em.queries import LINEAR_BITS, interval_sensitivity
from dpem.em.softmax import softmax
from dpem.models.gaussian_density import cholesky

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.em.statistics import ReleasedStatistics

__all__ = ["LogDensities"]


@dataclass(frozen=True, eq=False)
class LogDensities:
    """Log-densities from `low` to `high` on 20 bits, and the number of rows where private. Eq. (S-8)."""

    components: GaussianComponents
    low: float
    high: float
    counted: bool
    noise_shape: None = None
    coarse_bits: int = 0

    @classmethod
    def of_mixture(
        cls,
        weights: NDArray[np.float64],
        means: NDArray[np.float64],
        covariances: NDArray[np.float64],
        *,
        counted: bool,
    ) -> LogDensities:
        """Take a mixture in units of the ball whose last component is the public domain's, N(0, I/d)."""
        d = means.shape[1]
        components = GaussianComponents.from_parameters(weights, means, cholesky(covariances))
        # In the unit ball the last component alone is never below this; no density is above all its peaks.
        low = math.log(weights[-1]) + d / 2 * (math.log(d / (2 * math.pi)) - 1)
        peaks = components.constants
        high = float(peaks.max() + np.log(np.exp(peaks - peaks.max()).sum()))
        return cls(components, low, max(high, low + 1e-9), counted)

    @property
    def size(self) -> int:
        """One, and one for the count."""
        return 1 + self.counted

    def sensitivity(self, adjacency: str, norm: str = "l2") -> float:
        """Return that of numbers in an interval."""
        if norm != "l2":
            raise TypeError("This statistic is released with Gaussian noise only.")
        return interval_sensitivity(2.0**LINEAR_BITS, adjacency, counted=self.counted)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the scaled log-densities, then count."""
        _, squared = self.components.frames(rows)
        _, largest, total = softmax(self.components.log_joint(squared))
        part = (largest + np.log(total) - self.low) / (self.high - self.low)
        # Written so that whatever is not a number counts as the lowest: no row may cause an error.
        scaled = np.floor(np.where(part > 0.0, np.minimum(part, 1.0), 0.0) * 2.0**LINEAR_BITS)
        return np.array([int(scaled.sum()), rows.shape[1] << LINEAR_BITS][: self.size])

    def mean(self, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
        """Return the mean log-density, in units of the ball, and what the noise does to it."""
        n = float(n_rows) if n_rows is not None else max(1.0, float(released.values[1]) / 2.0**LINEAR_BITS)
        unit = (self.high - self.low) / 2.0**LINEAR_BITS / n
        part = float(released.values[0]) / 2.0**LINEAR_BITS / n
        # The noise of a private number of rows moves the mean too, by the mean's own place in the interval.
        spread = 1.0 if n_rows is not None else math.hypot(1.0, part)
        return self.low + part * (self.high - self.low), float(released.noise_stddev[0]) * unit * spread
