"""EM for factor analysis on a second moment. On a released moment it is post-processing.

With loadings W, noise variances Psi, G = (I + W' Psi^-1 W)^-1, B = Psi^-1 W G and L = Lambda B, one step is

    W = L (G + B' L)^-1,    Psi = diag(Lambda) - rowsum(W * L).

Only K x K matrices are inverted, and Lambda is multiplied by K columns at a time. Moments, loadings and noise
variances may have a first axis for several fits at once. Each fit has the same bits as alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom

__all__ = [
    "LARGEST_DENSE",
    "DenseMoment",
    "Factors",
    "LowRankMoment",
    "Moment",
    "fit_factors",
    "leading",
    "principal_factors",
]

LARGEST_DENSE = 1024  # columns; with more, only leading eigenvectors are computed
_FURTHER_LEADING, _LEADING_STEPS = 10, 30
_SMALLEST_VARIANCE = 1e-300
_STARTS_IN_FEW_COLUMNS, _FEW_COLUMNS = 4, 50


class Moment(Protocol):
    """A symmetric matrix with a product and a diagonal."""

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """The diagonal, (d,), or (n, d) for a stack."""
        ...

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with (..., d, k) columns."""
        ...

    def fits(self, which: NDArray[np.intp]) -> Moment:
        """Return some moments of a stack; the moment itself if several fits share it."""
        ...


@dataclass(frozen=True, eq=False)
class DenseMoment:
    """A dense matrix, with a separate diagonal if that is known more precisely; or a stack of matrices."""

    matrix: NDArray[np.float64]
    variances: NDArray[np.float64] | None = None

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """The diagonal, (..., d)."""
        if self.variances is not None:
            return self.variances
        return np.diagonal(self.matrix, axis1=-2, axis2=-1).copy()

    @classmethod
    def positive_part(cls, matrix: NDArray[np.float64], least: float) -> DenseMoment:
        """Drop negative eigenvalues, which are due to noise, and keep the noisy diagonal.

        Dropping eigenvalues would inflate the diagonal. Its entries are raised to at least `least`.
        """
        diagonal = np.diagonal(matrix).copy()
        values, vectors = np.linalg.eigh(matrix)
        positive = values > 0
        vectors = vectors[:, positive] * np.sqrt(values[positive])
        return cls(vectors @ vectors.T, np.maximum(diagonal, least))

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with (..., d, k) columns."""
        return np.asarray(self.matrix @ columns)

    def fits(self, which: NDArray[np.intp]) -> DenseMoment:
        """Return some moments of a stack; the moment itself if several fits share it."""
        if self.matrix.ndim == 2:
            return self
        return DenseMoment(self.matrix[which], None if self.variances is None else self.variances[which])


@dataclass(frozen=True, eq=False)
class LowRankMoment:
    """left @ core @ left' + diag(added), for many columns."""

    left: NDArray[np.float64]  # (d, p)
    core: NDArray[np.float64]  # (p, p)
    added: NDArray[np.float64]  # (d,)

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """The diagonal, (d,)."""
        return np.asarray(((self.left @ self.core) * self.left).sum(axis=1) + self.added)

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with (..., d, k) columns."""
        return np.asarray(self.left @ (self.core @ (self.left.T @ columns)) + self.added[:, None] * columns)

    def fits(self, which: NDArray[np.intp]) -> LowRankMoment:  # noqa: ARG002
        """Return the moment, which several fits share."""
        return self


@dataclass(frozen=True, eq=False)
class Factors:
    """Loadings (..., d, k) and noise variances (..., d): a covariance W W' + Psi.

    `rotated` makes W' Psi^-1 W diagonal and decreasing, and the largest loading of each factor positive.
    """

    loadings: NDArray[np.float64]
    noise: NDArray[np.float64]

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The covariance W W' + Psi as a dense matrix."""
        return np.asarray(self.loadings @ self.loadings.T + np.diag(self.noise))

    def scaled(self, scale: NDArray[np.float64] | float) -> Factors:
        """Return the factors for columns multiplied by `scale`."""
        scale = np.asarray(scale, dtype=np.float64)
        factors = np.broadcast_to(scale, np.broadcast_shapes(scale.shape, self.noise.shape))
        return Factors(self.loadings * factors[..., None], self.noise * factors**2)

    def fits(self, which: NDArray[np.intp] | int) -> Factors:
        """Return some factors of a stack."""
        return Factors(self.loadings[which], self.noise[which])

    def rotated(self) -> Factors:
        """Return loadings of the same covariance in canonical order, rotation and signs."""
        inner = self.loadings.T @ (self.loadings / self.noise[:, None])
        loadings = self.loadings @ np.linalg.eigh(inner)[1][:, ::-1]
        largest = np.abs(loadings).argmax(axis=0)
        signs = np.where(loadings[largest, np.arange(loadings.shape[1])] < 0, -1.0, 1.0)
        return Factors(np.asarray(loadings * signs), self.noise)


def principal_factors(moment: LowRankMoment, n_components: int, least_noise: float) -> Factors:
    """Return the leading eigenvectors as factors, as if all columns had the same noise, and then their noise.

    The moment must have an orthonormal `left` and a constant `added`. On a moment without noise the fit has a
    lower likelihood than the fit of EM. On a moment that is mostly noise it is more robust, because variances
    of single columns do not mislead it.
    """
    values, vectors = np.linalg.eigh(moment.core)
    k, diagonal = n_components, moment.diagonal
    strengths = np.maximum(values[-k:] + moment.added[0], 0.0)
    common = max(float(diagonal.sum() - strengths.sum()), 0.0) / max(len(diagonal) - k, 1)
    lengths = np.sqrt(np.maximum(strengths - common, 1e-6 * strengths))
    loadings = moment.left @ (vectors[:, -k:] * lengths)
    diagonal = np.maximum(diagonal, _SMALLEST_VARIANCE)
    return Factors(loadings, np.maximum(diagonal - (loadings**2).sum(axis=1), least_noise * diagonal))


def fit_factors(
    moment: Moment,
    n_components: int,
    random_state: PublicRandom | None,
    *,
    least_noise: NDArray[np.float64] | float = 1e-3,
    start: Factors | None = None,
    max_iter: int = 2000,
    tol: float = 1e-7,
) -> tuple[Factors, int]:
    """Fit factors to a second moment; return them and the number of EM steps.

    A stack of moments needs a start. It gives a stack of factors, and the number of steps of all together.

    Parameters
    ----------
    moment : Moment
        Second moment, noisy or not, without negative eigenvalues.
    n_components : int
        Number of factors.
    random_state : PublicRandom, optional
        Source of further starts if there are few columns; the fit with the largest likelihood is returned.
    least_noise : float or ndarray of shape (d,)
        Smallest noise variances, relative to the diagonal.
    start : Factors, optional
        The only start, instead of the default ones.
    max_iter, tol : int, float
        Stop after `max_iter` steps, or when ten steps gain less than `tol` per column.
    """
    diagonal = np.maximum(moment.diagonal, _SMALLEST_VARIANCE)
    d, k = diagonal.shape[-1], n_components
    unit = _Correlations(moment, np.sqrt(diagonal))
    if start is not None:
        begin = start.scaled(1 / unit.widths)
        begin = replace(begin, noise=np.clip(begin.noise, least_noise, 1.0))
        if diagonal.ndim > 1:
            factors, steps = _em(unit, begin, least_noise, max_iter, tol)
            return factors.scaled(unit.widths), int(steps.sum())
        starts = Factors(begin.loadings[None], begin.noise[None])
    else:
        loadings = [_start(unit, d, k)]
        if random_state is not None and d <= _FEW_COLUMNS:
            loadings += [0.5 * random_state.normal(size=(d, k)) for _ in range(_STARTS_IN_FEW_COLUMNS)]
        starts = Factors(np.stack(loadings), np.full((len(loadings), d), 0.5))
    factors, steps = _em(unit, starts, least_noise, max_iter, tol)
    best = int(np.argmax(_log_likelihood(unit, factors))) if len(steps) > 1 else 0
    return factors.fits(best).scaled(unit.widths), int(steps[best])


@dataclass(frozen=True, eq=False)
class _Correlations:
    """A moment in units of its diagonal, so that convergence does not depend on the units of columns."""

    moment: Moment
    widths: NDArray[np.float64]

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        inverse = 1 / self.widths[..., None]
        return np.asarray(self.moment.times(columns * inverse) * inverse)

    def fits(self, which: NDArray[np.intp]) -> _Correlations:
        widths = self.widths if self.widths.ndim == 1 else self.widths[which]
        return _Correlations(self.moment.fits(which), widths)


def _start(unit: _Correlations, d: int, k: int) -> NDArray[np.float64]:
    """Return starting loadings: the leading eigenvectors, slightly shortened."""
    if d <= LARGEST_DENSE:
        values, vectors = np.linalg.eigh(unit.times(np.eye(d)))
        values, vectors = values[-k:], vectors[:, -k:]
    else:
        values, vectors = leading(unit.times, d, k)
    return np.asarray(vectors * np.sqrt(np.maximum(0.8 * values, 1e-6)))


def leading(
    times: Callable[[NDArray[np.float64]], NDArray[np.float64]], d: int, k: int, shift: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return about the k largest eigenvalues, in increasing order, and eigenvectors of a large matrix.

    Subspace iteration from a fixed start gives the same bits every time; Lanczos methods with random restarts
    do not. `shift` must exceed the absolute value of all negative eigenvalues.
    """
    wide = min(d, k + _FURTHER_LEADING)
    start = np.cos(np.outer(np.arange(1, d + 1), np.sqrt(np.arange(2, wide + 2))))
    vectors = np.linalg.qr(start)[0]
    for _ in range(_LEADING_STEPS):
        vectors = np.linalg.qr(times(vectors) + shift * vectors)[0]
    inner = vectors.T @ times(vectors)
    values, turn = np.linalg.eigh((inner + inner.T) / 2)
    return values[-k:], np.asarray(vectors @ turn[:, -k:])


def _em(
    unit: _Correlations,
    factors: Factors,
    least_noise: NDArray[np.float64] | float,
    max_iter: int,
    tol: float,
) -> tuple[Factors, NDArray[np.intp]]:
    """Run EM on a stack of fits, each until it stops; return the factors and the steps of each."""
    n, d, _ = factors.loadings.shape
    found = Factors(np.empty_like(factors.loadings), np.empty_like(factors.noise))
    steps = np.full(n, max_iter)
    running = np.arange(n)  # the fits that have not stopped
    before = np.full(n, -np.inf)
    for step in range(1, max_iter + 1):
        factors = _em_step(unit, factors, least_noise)
        found.loadings[running], found.noise[running], steps[running] = factors.loadings, factors.noise, step
        if step % 10 == 0:
            now = _log_likelihood(unit, factors)
            left = np.flatnonzero(~(np.abs(now - before) < tol * d))
            if not len(left):
                break
            if len(left) < len(running):
                unit, factors, running, now = unit.fits(left), factors.fits(left), running[left], now[left]
            before = now
    return found, steps


def _em_step(unit: _Correlations, factors: Factors, least_noise: NDArray[np.float64] | float) -> Factors:
    over_noise = factors.loadings / factors.noise[..., None]
    g = np.linalg.inv(np.eye(factors.loadings.shape[-1]) + _across(factors.loadings) @ over_noise)
    b = over_noise @ g
    product = unit.times(b)
    loadings = product @ _inverse(g + _across(b) @ product)
    return Factors(loadings, np.maximum(1.0 - (loadings * product).sum(axis=-1), least_noise))


def _across(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrices.swapaxes(-1, -2)


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of symmetric K x K matrices, made positive definite: noise may have spoiled that."""
    values, vectors = np.linalg.eigh((matrix + _across(matrix)) / 2)
    values = np.maximum(values, 1e-9 * np.maximum(values[..., -1:], 1e-9))
    return np.asarray(vectors / values[..., None, :] @ _across(vectors))


def _log_likelihood(unit: _Correlations, factors: Factors) -> NDArray[np.float64]:
    """Return twice the mean log-likelihood of rows with this moment, up to a constant."""
    over_noise = factors.loadings / factors.noise[..., None]
    inner = np.eye(factors.loadings.shape[-1]) + _across(factors.loadings) @ over_noise
    explained = np.linalg.solve(inner, _across(over_noise) @ unit.times(over_noise))
    log_det = np.log(factors.noise).sum(axis=-1) + np.linalg.slogdet(inner)[1]
    inverse_noise = (1 / factors.noise).sum(axis=-1)
    return np.asarray(-log_det - inverse_noise + np.trace(explained, axis1=-2, axis2=-1))
