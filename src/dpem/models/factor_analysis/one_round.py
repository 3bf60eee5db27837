"""One round of factor analysis: release the second moment of rows in the frame of the current estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from dpem.data.domain import GRID, onto_grid
from dpem.fitting.projection import cholesky, symmetric
from dpem.fitting.shrinkage import clear_part, noise_edge, relative_sensitivity, spectrum_above_noise
from dpem.models.factor_analysis.em import LARGEST_DENSE, DenseMoment, LowRankMoment, leading
from dpem.statistics.gaussian import FrameMoments, GaussianComponents, kept_variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.plan import Plan
    from dpem.gate.released import ReleasedStatistics
    from dpem.models.factor_analysis.em import Moment

__all__ = ["Estimate", "MomentRound"]

COUNT_SCALE = 0.2  # s / tau: the weight of the mean in a release
_LARGEST_EDGE = 2.0  # of the noise's spectrum in a frame; with more, the frame is widened
_LEAST_KEPT = 0.5  # smallest share of a direction's variance before the round, if noise is large
_NO_TRUST, _FULL_TRUST = 0.5, 0.8  # sizes of a moment, relative to its frame
_ENOUGH_ALONE = 2  # directions above the noise from which on, in a single round, those within it are used
_LEAST_CLIP = 0.5  # smallest squared clipping radius, relative to the mean of |z|^2
_LEAST_SIZE = 0.02  # smallest size relative to the round before
_LEAST_OF_COLUMN = 0.05  # smallest variance of a column, relative to the round before
_NARROWEST, _WIDEST = 1e-12, 4.0  # range of variances in the unit ball


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean (d,) and a covariance: a matrix (d, d), or only its diagonal (d,)."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @cached_property
    def eigenvalues(self) -> NDArray[np.float64]:
        """The eigenvalues of the covariance."""
        if self.covariance.ndim == 1:
            return self.covariance
        return np.asarray(np.linalg.eigvalsh(self.covariance))

    @property
    def variances(self) -> NDArray[np.float64]:
        """The variances of the columns."""
        return self.covariance if self.covariance.ndim == 1 else np.diagonal(self.covariance)

    def times(self, factor: float) -> Estimate:
        """Multiply the covariance by a factor, at most as far as rows in the unit ball allow."""
        largest = 1 / max(float(self.variances.sum()), 1e-300)
        return Estimate(self.mean, np.asarray(self.covariance * min(factor, largest)))

    def factor(self, ridge: float) -> NDArray[np.float64]:
        """Return a lower factor of the covariance with `ridge` added to its diagonal."""
        if self.covariance.ndim == 1:
            return np.diag(np.sqrt(np.maximum(self.covariance, _NARROWEST) + ridge))
        values = self.eigenvalues
        safe = self.covariance
        if values[0] < _NARROWEST or values[-1] > _WIDEST:
            values, vectors = np.linalg.eigh(self.covariance)
            safe = symmetric(vectors * np.clip(values, _NARROWEST, _WIDEST) @ vectors.T)
        return cholesky(safe + ridge * np.eye(len(safe)))

    def components(self, ridge: float) -> GaussianComponents:
        """Return the frame, rounded to its grids."""
        return GaussianComponents.from_parameters(np.ones(1), self.mean[None], self.factor(ridge)[None])


@dataclass(frozen=True, eq=False)
class MomentRound:
    """A release of mean and second moment in the frame of (covariance + ridge).

    The ridge is zero unless noise would hide everything. With a ridge, directions too narrow to be detected
    stay narrower than the others in the frame, so that rows are shorter.

    Attributes
    ----------
    before : Estimate
        The current estimate, with its size corrected.
    n_rows : float
        Number of rows.
    ridge : float
        Constant added to all variances.
    statistic : FrameMoments
        The statistic of the release.
    n_components : int
        Number of factors to find.
    sized : bool
        Whether the size of the current estimate was measured precisely just before.
    single : bool
        Whether there is only one round, because noise is large.
    """

    before: Estimate
    n_rows: float
    ridge: float
    statistic: FrameMoments
    n_components: int
    sized: bool
    single: bool

    @classmethod
    def build(
        cls,
        plan: Plan,
        stage: str,
        before: Estimate,
        n_rows: float,
        *,
        widening: float,
        n_components: int,
        sized: bool,
        single: bool,
    ) -> MomentRound:
        """Choose ridge and clipping radius from the planned noise and the current estimate."""
        values = np.clip(before.eigenvalues, _NARROWEST, _WIDEST)
        d = len(values)
        per_square = relative_sensitivity(plan) * plan.stage(stage).noise_multiplier / n_rows

        def squared_clip(ridge: float) -> float:
            part = values / (values + ridge)
            mean, deviation = float(part.sum()), math.sqrt(2 * (part @ part))
            return max(mean + widening * deviation, _LEAST_CLIP * mean)

        def excess(ridge: float) -> float:
            return noise_edge(per_square * squared_clip(ridge) * (1 + COUNT_SCALE**2), d) - _LARGEST_EDGE

        ridge, largest = 0.0, 10 * float(values.max())
        if excess(0.0) > 0:
            ridge = largest if excess(largest) > 0 else float(brentq(excess, 0.0, largest))
        tau = math.sqrt(squared_clip(ridge))
        statistic = FrameMoments(before.components(ridge), 1, "full", tau, COUNT_SCALE * tau)
        return cls(before, n_rows, ridge, statistic, n_components, sized, single)

    @cached_property
    def _kept(self) -> float:
        """The share of a Gaussian row's squares after clipping, by a chi-square with effective columns."""
        values = np.clip(self.before.eigenvalues, _NARROWEST, _WIDEST)
        part = values / (values + self.ridge)
        effective = float(part.sum() ** 2 / (part @ part))
        return kept_variance(effective, self.statistic.clip * math.sqrt(effective / part.sum()))

    def _noise(self, released: ReleasedStatistics) -> float:
        framed_noise = self.statistic.read(released).noise
        return framed_noise / self.n_rows / self._kept

    def edge(self, released: ReleasedStatistics) -> float:
        """Return the largest eigenvalue of the noise, in the frame."""
        return noise_edge(self._noise(released), len(self.before.mean))

    def moment(
        self, released: ReleasedStatistics, *, redrawn: bool = False
    ) -> tuple[NDArray[np.float64], Moment]:
        """Return the mean, and the second moment about it as far as it stands out of the noise.

        With `redrawn` noise the mean is not shrunk, so that standard errors show all of the noise. A stack of
        releases gives a stack of means and moments, unless there are more than `LARGEST_DENSE` columns.
        """
        framed = self.statistic.read(released)
        d, s = len(self.before.mean), self.statistic.count_scale
        moments = framed.moments[..., 0, :, :] / self.n_rows
        noise = framed.noise / self.n_rows / self._kept
        raw_shift = moments[..., 0, 1:] / s
        shift_noise = framed.noise / self.n_rows / math.sqrt(2) / s
        shift = raw_shift * clear_part(raw_shift, shift_noise)[..., None]
        second = symmetric(moments[..., 1:, 1:]) / self._kept - shift[..., None] * shift[..., None, :]
        diagonal_frame = self.before.covariance.ndim == 1
        factor = self.before.factor(self.ridge)
        widths = np.diagonal(factor)
        move = raw_shift if redrawn else shift
        move = widths * move if diagonal_frame else (factor @ move[..., None])[..., 0]
        mean = self.statistic.components.centres[0] + move
        mean = onto_grid(mean * GRID) / GRID  # also moves the mean into the ball
        if d > LARGEST_DENSE:
            return mean, self._leading(second, noise, widths)
        if diagonal_frame:
            base = np.diag(self.before.variances / widths**2)
        else:
            inverse = np.linalg.inv(factor)
            base = symmetric(inverse @ self.before.covariance @ inverse.T)
        size = _fitting_size(second, base, noise)
        of_moment, of_base = self._corrections(size)
        second, noises = second / of_moment[..., None, None], noise / of_moment
        base = of_base[..., None, None] * base
        least = np.minimum(_LEAST_KEPT, np.maximum(1e-3, _LEAST_KEPT * (noises * noise_edge(1.0, d))))
        least = 1 - _trust(size) * (1 - least)
        difference = spectrum_above_noise(second - base, noises, _ENOUGH_ALONE if self.single else 1)
        inside = _at_least(base + difference, base, least)
        matrix = symmetric(factor @ inside @ factor.T)
        # Variances of columns are far more precise than those of directions: take the noisy diagonal.
        noisy = np.einsum("ij,...jk,ik->...i", factor, second, factor)
        wanted = self._variances(noisy, noises[..., None] * (factor**2).sum(axis=1), size)
        stretch = np.sqrt(wanted / np.diagonal(matrix, axis1=-2, axis2=-1))
        return mean, DenseMoment(matrix * stretch[..., None] * stretch[..., None, :])

    def _corrections(self, size: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what to divide the moment by, and to multiply the base by, if the moment has this size.

        If the frame has the right size, and the moment is smaller, the difference is clipped tails.
        """
        clipped = self.sized & (size < 1)
        return np.where(clipped, size, 1.0), np.where(clipped, 1.0, size)

    def _variances(
        self, noisy: NDArray[np.float64], noise: NDArray[np.float64], size: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        before = self.before.variances * self._corrections(size)[1][..., None]
        kept = (_trust(size) * clear_part(noisy - before, noise))[..., None]
        # A column far narrower than its noise carries no information, unless it turns out to be far wider.
        shown = np.maximum(before, noisy - 2 * noise) ** 2
        moved = before + kept * shown / (shown + noise**2) * (np.maximum(noisy, 0.0) - before)
        return _within_ball(np.maximum(moved, _LEAST_OF_COLUMN * before))

    def _leading(
        self, second: NDArray[np.float64], noise: float, widths: NDArray[np.float64]
    ) -> LowRankMoment:
        """Return the diagonal plus the eigenvectors above the edge e of the noise, with sqrt(w^2 - e^2).

        That multiple of each eigenvector is the best one if few of many directions stand out.
        """
        d = len(widths)
        diagonal = self.before.variances / widths**2
        size = _fitting_size(np.diagonal(second), diagonal, noise)
        of_moment, of_base = self._corrections(size)
        second, noise, diagonal = second / of_moment, noise / float(of_moment), of_base * diagonal
        noisy = np.diagonal(second) * widths**2
        wanted = self._variances(noisy, noise * widths**2, size)
        columns = np.arange(d)
        second[columns, columns] -= diagonal
        edge = noise_edge(noise, d)
        values, vectors = leading(second.__matmul__, d, self.n_components, shift=edge)
        above = values > edge * (1 + d ** (-2 / 3))
        strengths = np.sqrt(np.maximum(values[above] ** 2 - edge**2, 0.0))
        left = widths[:, None] * vectors[:, above]
        explained = (left**2 * strengths).sum(axis=1)
        added = np.maximum(wanted - explained, _LEAST_OF_COLUMN * wanted)
        return LowRankMoment(left, np.diag(strengths), added)


def _fitting_size(
    moment: NDArray[np.float64], base: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    """Return the multiple of the base, a matrix or a diagonal, that fits noisy moments best.

    This single number is far less noisy than directions. If the base is too large, it keeps the order of
    directions, which a moment that is mostly noise would otherwise change.
    """
    squared = float((base**2).sum())
    excess = (moment * base).sum(axis=tuple(range(-base.ndim, 0))) / squared - 1
    kept = clear_part(excess[..., None], noise / math.sqrt(squared))
    return np.asarray(np.maximum(_LEAST_SIZE, 1 + kept * excess))


def _within_ball(variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale variances so that they sum to at most 1, as those of rows in the unit ball do."""
    return np.asarray(variances / np.maximum(1.0, variances.sum(axis=-1, keepdims=True)))


def _trust(size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the trust, 0 to 1, in a moment's variances; it is 0 if clipping removed half of the moment.

    The frame was sized to fit the moment. If the moment is smaller, tails were clipped, first those of
    columns that are rarely far from their mean. Their variances may then be larger than they seem.
    """
    return np.asarray(np.clip((size - _NO_TRUST) / (_FULL_TRUST - _NO_TRUST), 0.0, 1.0))


def _at_least(
    matrix: NDArray[np.float64], base: NDArray[np.float64], least: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Raise matrices so that every direction keeps at least a share of its variance in the base."""
    values, vectors = np.linalg.eigh(base)
    widths, across = np.sqrt(np.maximum(values, 1e-12))[..., None, :], np.swapaxes(vectors, -1, -2)
    root, inverse = vectors * widths @ across, vectors / widths @ across
    values, vectors = np.linalg.eigh(symmetric(inverse @ matrix @ inverse))
    raised = vectors * np.maximum(values, least[..., None])[..., None, :] @ np.swapaxes(vectors, -1, -2)
    return symmetric(root @ raised @ root)
