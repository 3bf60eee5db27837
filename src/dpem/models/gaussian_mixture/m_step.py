r"""The M-step of the private mixture: from noisy moments to a valid mixture.

Everything here is post-processing of released values. The noise level is known, so each estimate is shrunk
towards a simpler one by as much as noise explains: weights to the simplex, each covariance to the tied one,
and the tied one to the pooled one. No estimate is divided by a count that may be noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem.fitting.averaging import DecayingAverage, is_averaged
from dpem.fitting.projection import cholesky, count_weights, symmetric
from dpem.models.gaussian_mixture.pool import james_stein, shrunk_covariance
from dpem.statistics.gaussian import FrameMoments, GaussianComponents, kept_variance, noise_entries
from dpem.statistics.gaussian_missing import IncompleteMoments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.models.gaussian_mixture.pool import Pool
    from dpem.statistics.gaussian import Covariance

__all__ = [
    "Background",
    "MixtureState",
    "MixtureStep",
]

LARGEST_EIGENVALUE = 4.0  # of a component's covariance, in the pooled frame
_LARGEST_STEP = 1.5  # of a mean in its frame, over sqrt(d)
_SMALL_FRAME = 0.15  # eigenvalues in a frame do not fall below this in one step


@dataclass(frozen=True, eq=False)
class Background:
    """Wide fixed components for rows that the mixture does not explain: a widened pool, and the domain."""

    means: NDArray[np.float64]
    covariances: NDArray[np.float64]

    @classmethod
    def around(cls, pool: Pool) -> Background:
        """Return the pooled Gaussian with ten times its covariance, and the Gaussian of the public domain."""
        d = len(pool.mean)
        return cls(np.stack([pool.mean, np.zeros(d)]), np.stack([10 * pool.covariance, np.eye(d) / d]))

    @cached_property
    def factors(self) -> NDArray[np.float64]:
        """Lower Cholesky factors of the covariances."""
        return cholesky(self.covariances)


@dataclass(frozen=True, eq=False)
class MixtureState:
    """Released parameters in units of the ball, and the averaged moments behind them.

    A stack of releases gives a stack of states: all arrays of the result then have one more axis, the first.
    """

    weights: NDArray[np.float64]  # (k,), of the components alone, summing to 1
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    background: NDArray[np.float64]  # weights of the background in the whole density
    step: int = 0
    # Of the moments in units of the ball, (k, d + 1, d + 1), and of the counts of the background.
    average: DecayingAverage = field(default_factory=DecayingAverage)


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of the components before an M-step, which repeated draws of its noise share."""

    statistic: FrameMoments
    centres: NDArray[np.float64]  # (k, d)
    factors: NDArray[np.float64]  # (k, d, d)
    inverse: NDArray[np.float64]  # of the factors
    to_ball: NDArray[np.float64]  # (k, d + 1, d + 1): moments in a frame to those in units of the ball
    from_ball: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MixtureStep:
    """One EM step of the private mixture (an `EMModel`).

    Attributes
    ----------
    pool, background : Pool, Background
        The pooled Gaussian and the background components.
    covariance : str
        Covariance type.
    clip, count_scale : float
        Clipping radius tau and count scale s of the frames.
    smallest_eigenvalue : float
        Smallest eigenvalue of a component's covariance in the pooled frame; noise hides smaller ones.
    n_steps : int
        Number of steps. In the second half, moments are averaged with those of the steps before.
    least_background, largest_background : float
        Smallest weight of each background component, and largest weight of all together. There is no
        background if the first is zero.
    incomplete : bool
        Whether rows may have missing cells.
    """

    pool: Pool
    background: Background
    covariance: Covariance
    clip: float
    count_scale: float
    smallest_eigenvalue: float
    n_steps: int
    least_background: float
    largest_background: float
    incomplete: bool = False

    @cached_property
    def _to_pool(self) -> NDArray[np.float64]:
        return np.asarray(np.linalg.inv(self.pool.factor))

    # -- E-step --------------------------------------------------------------------------------------------

    def statistic(self, parameters: MixtureState) -> FrameMoments:
        """Return the statistic: moments in the frames of the components, and counts of the background."""
        k = len(parameters.weights)
        weights, means = parameters.weights * (1 - parameters.background.sum()), parameters.means
        factors = cholesky(parameters.covariances)
        if parameters.background.size:
            weights = np.concatenate([weights, parameters.background])
            means = np.concatenate([means, self.background.means])
            factors = np.concatenate([factors, self.background.factors])
        components = GaussianComponents.from_parameters(weights, means, factors)
        moments = IncompleteMoments if self.incomplete else FrameMoments
        return moments(components, k, self.covariance, self.clip, self.count_scale)

    # -- M-step --------------------------------------------------------------------------------------------

    def m_step(
        self, parameters: MixtureState, released: ReleasedStatistics, frames: Frames | None = None
    ) -> MixtureState:
        """Return the next mixture, whatever the noise: for a stack of releases, a stack of mixtures.

        `frames` are those of the parameters, if known.
        """
        frames = self.frames(parameters) if frames is None else frames
        framed = frames.statistic.read(released)
        moments = framed.moments.copy()
        moments[..., 1:, 1:] /= kept_variance(parameters.means.shape[1], self.clip)
        # Moments of several steps have different frames: average them in units of the ball.
        sums = frames.to_ball @ moments @ frames.to_ball.transpose(0, 2, 1), framed.others
        average = (
            parameters.average.add(framed.noise, *sums)
            if is_averaged(parameters.step, self.n_steps)
            else DecayingAverage.of(framed.noise, *sums)
        )
        moments = frames.from_ball @ average.sums[0] @ frames.from_ball.transpose(0, 2, 1)
        after = replace(parameters, step=parameters.step + 1, average=average)
        return self._repair(after, moments, frames)

    def frames(self, parameters: MixtureState) -> Frames:
        """Return what an M-step needs of the parameters before it."""
        k, d = parameters.means.shape
        statistic = self.statistic(parameters)
        centres, factors = statistic.components.centres[:k], statistic.components.factors[:k]
        to_ball = np.zeros((k, d + 1, d + 1))
        to_ball[:, 0, 0] = 1 / self.count_scale
        to_ball[:, 1:, 0] = centres / self.count_scale
        to_ball[:, 1:, 1:] = factors
        inverse = np.asarray(np.linalg.inv(factors))
        return Frames(statistic, centres, factors, inverse, to_ball, np.linalg.inv(to_ball))

    def _repair(
        self,
        parameters: MixtureState,
        moments: NDArray[np.float64],
        frames: Frames,
    ) -> MixtureState:
        centres, factors = frames.centres, frames.factors
        k, d = centres.shape
        n, noise = self.pool.n_rows, parameters.average.noise
        background = self._background(parameters.average.sums[1], n)
        total = n * (1 - background.sum(axis=-1, keepdims=True))
        counts = moments[..., 0, 0] / self.count_scale**2
        counts = total * count_weights(counts, noise / self.count_scale**2, total)

        shift = moments[..., 0, 1:] / (self.count_scale * counts[..., None])
        length = np.sqrt((shift**2).sum(axis=-1, keepdims=True))
        shift *= np.minimum(1.0, _LARGEST_STEP * np.sqrt(d) / np.maximum(length, 1e-300))
        scatter = moments[..., 1:, 1:] / counts[..., None, None] - shift[..., None] * shift[..., None, :]
        scatter = self._restrict(symmetric(scatter))
        relative = noise / counts

        tied = self._tied(scatter, factors, counts, relative)
        if self.covariance == "tied":
            covariances = np.repeat(tied[..., None, :, :], k, axis=-3)
        else:
            covariances = self._shrunk(scatter, frames, tied, relative)
        means = centres + (factors @ shift[..., None])[..., 0]
        length = np.sqrt((means**2).sum(axis=-1, keepdims=True))
        means /= np.maximum(length, 1.0)
        return replace(
            parameters,
            weights=counts / counts.sum(axis=-1, keepdims=True),
            means=means,
            covariances=covariances,
            background=background,
        )

    def _background(self, counts: NDArray[np.float64], n: float) -> NDArray[np.float64]:
        if self.least_background == 0:
            return np.zeros(0)
        share = np.clip(counts / n, self.least_background, self.largest_background)
        whole = share.sum(axis=-1, keepdims=True)
        return np.asarray(share * np.minimum(1.0, self.largest_background / whole))

    def _restrict(self, matrices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Restrict covariances in their frames to the covariance type."""
        d = matrices.shape[-1]
        diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
        if self.covariance == "diag":
            return np.asarray(diagonal[..., None] * np.eye(d))
        if self.covariance == "spherical":
            return np.asarray(diagonal.mean(axis=-1)[..., None, None] * np.eye(d))
        return matrices

    def _noise_norm(self, noise: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return the typical largest eigenvalue of the noise of a covariance."""
        d = len(self.pool.mean)
        size = {"full": np.sqrt(2 * d), "tied": np.sqrt(2 * d), "diag": np.sqrt(2), "spherical": 1 / d}
        return np.asarray(noise * size[self.covariance])

    def _tied(
        self,
        scatter: NDArray[np.float64],
        factors: NDArray[np.float64],
        counts: NDArray[np.float64],
        relative: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the mean covariance, shrunk towards a multiple of the pooled one by what noise explains."""
        share = counts / counts.sum(axis=-1, keepdims=True)
        tied = np.einsum("...k,...kij->...ij", share, factors @ scatter @ factors.transpose(0, 2, 1))
        noise = np.sqrt(((share * relative) ** 2).sum(axis=-1))
        if self.covariance == "tied":  # released as one matrix, with noise added once
            noise /= np.sqrt(counts.shape[-1])
        factor = self.pool.factor
        inverse = self._to_pool
        inside = symmetric(inverse @ tied @ inverse.T)
        inside, left = shrunk_covariance(inside, noise, self.covariance, self.smallest_eigenvalue, 1.0)
        values, vectors = np.linalg.eigh(inside)
        least = np.clip(left, self.smallest_eigenvalue, 0.5)[..., None]
        values = np.clip(values, least, LARGEST_EIGENVALUE)
        bounded = vectors * values[..., None, :] @ np.swapaxes(vectors, -1, -2)
        return symmetric(factor @ bounded @ factor.T)

    def _shrunk(
        self,
        scatter: NDArray[np.float64],
        frames: Frames,
        tied: NDArray[np.float64],
        relative: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Shrink each covariance towards the tied one in its own frame, and bound its eigenvalues."""
        factors, inverse = frames.factors, frames.inverse
        target = symmetric(inverse @ tied[..., None, :, :] @ inverse.transpose(0, 2, 1))
        noise_energy = relative**2 * noise_entries(self.covariance, scatter.shape[-1])
        kept = james_stein(scatter - target, noise_energy)[..., None]
        values, vectors = np.linalg.eigh(target + kept[..., None] * (scatter - target))
        floor = np.clip(0.5 * kept * self._noise_norm(relative)[..., None], _SMALL_FRAME, 0.5)
        inner = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        covariances = factors @ inner @ factors.transpose(0, 2, 1)
        # Bound eigenvalues in the pooled frame.
        pooled = self.pool.factor
        to_pool = self._to_pool
        values, vectors = np.linalg.eigh(symmetric(to_pool @ covariances @ to_pool.T))
        values = np.clip(values, self.smallest_eigenvalue, LARGEST_EIGENVALUE)
        bounded = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return self._restrict(symmetric(pooled @ bounded @ pooled.T))
