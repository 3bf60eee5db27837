"""The pooled Gaussian: one private Gaussian for all rows.

It locates the data, and it is what a mixture shrinks to if noise is large. Each round is one release. The
first round takes place in the public ball, where noise is large if the data is narrow; each later round takes
place in the frame of the round before, so that its noise is relative to that frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID, onto_grid
from dpem.fitting.projection import cholesky, symmetric
from dpem.fitting.shrinkage import kept_part
from dpem.statistics.gaussian import FrameMoments, GaussianComponents, kept_variance
from dpem.statistics.gaussian_missing import CentredMoments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.statistics.gaussian import Covariance

__all__ = ["Pool", "PoolRound", "frame_limits", "james_stein", "shrunk_covariance"]

_COUNT_SCALE, _LEAST_COUNT_SCALE = 0.6, 0.35  # s / tau, for one column and for many
_FIRST_COUNT_SCALE = 0.6  # in the unit ball, where tau is 1
_WIDEST_FRAME = 10.0  # larger variances in a frame are noise
_NARROWEST = 1e-10  # smallest variance in the unit ball: some hundred grid steps
_CLEAR = 2.0  # standard deviations of noise above which a mean variance counts as detected


def frame_limits(n_columns: int, widening: float = 1.0) -> tuple[float, float]:
    """Return the clipping radius tau and the count scale s of a frame.

    |z|^2 has mean d and standard deviation sqrt(2 d); tau^2 is `widening` standard deviations above the mean,
    so that most of a Gaussian lies within tau. With few columns, counts get more weight.
    """
    tau = math.sqrt(n_columns + widening * math.sqrt(2 * n_columns))
    return tau, max(_LEAST_COUNT_SCALE, _COUNT_SCALE * n_columns**-0.25) * tau


@dataclass(frozen=True, eq=False)
class Pool:
    """Mean (d,) and covariance (d, d) of all rows, in units of the ball, and their public or noisy number."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    n_rows: float

    @cached_property
    def factor(self) -> NDArray[np.float64]:
        """Lower Cholesky factor of the covariance."""
        return cholesky(self.covariance)


@dataclass(frozen=True, eq=False)
class PoolRound:
    """One round of the pooled Gaussian (an `EMModel`); the parameters before the first round are None.

    Attributes
    ----------
    covariance : str
        Covariance type.
    n_columns : int
        Number of columns.
    n_rows : float, optional
        Number of rows, if it is public or known from an earlier round. Otherwise this round estimates it.
    incomplete : bool
        Whether rows may have missing cells. Moments are then those of known cells, column by column.
    """

    covariance: Covariance
    n_columns: int
    n_rows: float | None
    incomplete: bool = False

    def statistic(self, parameters: Pool | None) -> FrameMoments | CentredMoments:
        """Return the statistic: moments of all rows in the unit ball, or in the frame of the round before."""
        d = self.n_columns
        kind: Covariance = "full" if self.covariance == "tied" else self.covariance
        if parameters is None:
            components = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
            first = FrameMoments(components, 1, kind, 1.0, _FIRST_COUNT_SCALE)
            return CentredMoments(first) if self.incomplete else first
        components = GaussianComponents.from_parameters(
            np.ones(1), parameters.mean[None], self._factor(parameters)[None]
        )
        later = FrameMoments(components, 1, kind, *frame_limits(d, 3.0))
        return CentredMoments(later) if self.incomplete else later

    def _factor(self, parameters: Pool) -> NDArray[np.float64]:
        """Return the frame of the next round; with missing cells, a frame of separate columns."""
        if self.incomplete:
            return np.diag(np.sqrt(np.diagonal(parameters.covariance)))
        return parameters.factor

    def m_step(self, parameters: Pool | None, released: ReleasedStatistics) -> Pool:
        """Return mean and covariance, shrunk towards a spherical shape by as much as noise explains."""
        d = self.n_columns
        statistic = self.statistic(parameters)
        framed = statistic.read(released)
        frame = statistic.moments if isinstance(statistic, CentredMoments) else statistic
        moments, s = framed.moments[0], frame.count_scale
        n = max(1.0, self.n_rows if self.n_rows is not None else float(moments[0, 0]) / s**2)
        off_diagonal = framed.noise / math.sqrt(2) / n  # noise of an off-diagonal entry
        shift = moments[0, 1:] / (s * n)
        shift *= kept_part(float(shift @ shift), d * (off_diagonal / s) ** 2)
        second = moments[1:, 1:] / n
        if parameters is not None:
            second = second / kept_variance(d, frame.clip)
        inside = self._repaired(
            symmetric(second - np.outer(shift, shift)),
            framed.noise / n,
            first=parameters is None,
        )
        if parameters is None:
            return Pool(onto_grid(shift[None] * GRID)[0] / GRID, inside, n)
        factor = self._factor(parameters)
        mean = onto_grid((parameters.mean + factor @ shift)[None] * GRID)[0] / GRID
        return Pool(mean, _within_ball(symmetric(factor @ inside @ factor.T)), n)

    def _repaired(self, inside: NDArray[np.float64], noise: float, *, first: bool) -> NDArray[np.float64]:
        d = self.n_columns
        separate = first and self.incomplete  # only variances are known: see `CentredMoments`
        # In the unit ball no trace exceeds 1. A later frame is rather too wide than too narrow.
        widest, narrowest = (1 / d, 1e-7) if first else (1.0, 1e-3)
        least = min(_CLEAR * noise / math.sqrt(d), widest)
        form = "diag" if separate else self.covariance
        inside, floor = shrunk_covariance(inside, noise, form, least, widest)
        values, vectors = np.linalg.eigh(inside)
        values = np.clip(values, min(max(float(floor), narrowest), 1.0), _WIDEST_FRAME)
        if first:
            values = np.minimum(values + 0.5 * floor, 1.0)
        return symmetric(vectors * values @ vectors.T)


def _within_ball(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip eigenvalues to the range that rows in the unit ball allow."""
    values, vectors = np.linalg.eigh(covariance)
    return symmetric(vectors * np.clip(values, _NARROWEST, 1.0) @ vectors.T)


def shrunk_covariance(
    covariance: NDArray[np.float64],
    noise: NDArray[np.float64] | float,
    form: Covariance,
    least: float,
    largest: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shrink noisy covariances (..., d, d) towards simpler ones; return them and their remaining noise (...).

    The mean variance is the most certain (it averages d noisy values), then the variances of the columns (d
    numbers), then the covariances (d^2 / 2 numbers). Each part is shrunk by its own evidence. `noise` is the
    standard deviation of a variance.
    """
    d = covariance.shape[-1]
    variances = np.diagonal(covariance, axis1=-2, axis2=-1)
    mean = np.clip(variances.mean(axis=-1, keepdims=True), least, largest)
    own = variances - mean
    diagonal = np.eye(d)
    shared = covariance - variances[..., None] * diagonal
    noise_squared = np.float_power(noise, 2)  # the bits of a square of Python's floats
    kept_own = kept_shared = np.zeros(covariance.shape[:-2])
    if form != "spherical":
        squared = (own[..., None, :] @ own[..., None])[..., 0, 0]
        kept_own = kept_part(squared, d * noise_squared)
    if form in ("full", "tied") and d > 1:
        kept_shared = james_stein(shared, noise_squared * d * (d - 1) / 2)
    shrunk = mean[..., None] * diagonal + kept_own[..., None, None] * (own[..., None] * diagonal)
    shrunk = shrunk + kept_shared[..., None, None] * shared
    return shrunk, np.asarray(noise * np.maximum(kept_own, kept_shared * math.sqrt(d / 2)))


def james_stein(
    difference: NDArray[np.float64], noise_energy: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return the share, 0 to 1, of a difference (over the last two axes) that noise does not explain."""
    return kept_part((difference**2).sum(axis=(-2, -1)), noise_energy)
