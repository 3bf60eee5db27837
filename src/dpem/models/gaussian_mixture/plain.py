"""EM without privacy, for epsilon = inf: the steps of scikit-learn, in blocks and on all cores.

There is no rounding, clipping, shrinkage or background. From the same start, the result is scikit-learn's.
"""

from __future__ import annotations

import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.exceptions import ConvergenceWarning

from dpem._compiled import kernel_module
from dpem._threads import one_thread, thread_count
from dpem._warnings import warn
from dpem.errors import InvalidArgumentError
from dpem.fitting.projection import cholesky
from dpem.models.gaussian_mixture.density import log_joint, log_sum, precision_cholesky
from dpem.models.gaussian_mixture.missing import incomplete_log_joint, known_cells

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.gate.progress import Progress
    from dpem.statistics.gaussian import Covariance

__all__ = ["PlainMixture", "fit_plain"]

_BLOCK_CELLS = 1 << 17
_KERNELS = "dpem.statistics.kernels.gaussian"
# Above, matrix products win.
_LARGEST_DIMENSION = 20


@dataclass(frozen=True, eq=False)
class PlainMixture:
    """Parameters in the units of the columns and the shapes of scikit-learn."""

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    n_iter: int


@dataclass(frozen=True, eq=False)
class _Moments:
    """Counts, first and second moments about fixed centres, and the total log-likelihood."""

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    likelihood: float

    @classmethod
    def zeros(cls, k: int, d: int) -> _Moments:
        """Return moments of no rows."""
        return cls(np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d)), 0.0)

    def __add__(self, other: _Moments) -> _Moments:
        return _Moments(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def fit_plain(
    rows: NDArray[np.float64],
    k: int,
    covariance: Covariance,
    *,
    max_iter: int,
    tol: float,
    reg_covar: float,
    means_init: NDArray[np.float64] | None,
    missing: bool,
    random_state: PublicRandom,
    n_jobs: int | None,
    progress: Progress,
) -> PlainMixture:
    """Run EM from k-means until the mean log-likelihood rises by less than `tol`.

    With `missing`, NaN cells are replaced by their conditional expectations, and by column means for the
    start.
    """
    progress.step("k-means start")
    if len(rows) < k:
        raise InvalidArgumentError(
            f"Expected at least n_components={k} rows, got {len(rows)}: Expected n_samples >= n_components."
        )
    incomplete = np.isnan(rows).any(axis=1) if missing else np.zeros(len(rows), dtype=bool)
    filled, complete = (_with_column_means(rows), rows[~incomplete]) if incomplete.any() else (rows, rows)
    kmeans = PlainKMeans(k, n_init=1, random_state=random_state).fit(filled)
    n = len(rows)
    means, labels = kmeans.cluster_centers_, kmeans.labels_

    def assigned(part: slice) -> tuple[NDArray[np.float64], float]:
        return (labels[part][:, None] == np.arange(k)).astype(np.float64), 0.0

    moments = _moments(filled, means, assigned, covariance, n_jobs)
    weights, means, covariances = _m_step(moments, means, covariance, reg_covar)
    if means_init is not None:
        means = means_init
    bound, converged = -np.inf, False
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        progress.step(f"step {n_iter}")
        try:
            moments = _Moments.zeros(*means.shape)
            if not incomplete.all():
                moments += _e_step(complete, weights, means, covariances, covariance, n_jobs)
            if incomplete.any():
                moments += _incomplete_e_step(rows[incomplete], weights, means, covariances)
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(
                f"Expected covariances of full rank, got a singular one at reg_covar={reg_covar:g}. Use a "
                f"larger reg_covar or fewer components."
            ) from error
        weights, means, covariances = _m_step(moments, means, covariance, reg_covar)
        change, bound = moments.likelihood / n - bound, moments.likelihood / n
        if abs(change) < tol:
            converged = True
            break
    if not converged:
        warn(
            f"Plain EM did not converge in max_iter={max_iter} steps. Increase max_iter or tol.",
            ConvergenceWarning,
        )
    shaped = {
        "full": covariances,
        "tied": covariances[0],
        "diag": np.diagonal(covariances, axis1=1, axis2=2),
        "spherical": covariances[:, 0, 0],
    }[covariance]
    return PlainMixture(weights, means, shaped.copy(), n_iter)


def _e_step(
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
    covariance: Covariance,
    n_jobs: int | None,
) -> _Moments:
    """Return moments about the means, with compiled kernels if they are installed and faster."""
    d = rows.shape[1]
    kernels = kernel_module(_KERNELS, rows.size) if d <= _LARGEST_DIMENSION else None
    if kernels is not None:
        factors = cholesky(covariances)
        whitening = np.linalg.inv(factors)
        log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        constants = np.log(weights) - log_det - d / 2 * np.log(2 * np.pi)

        def compiled(part: slice) -> _Moments:
            framed = _Moments.zeros(len(weights), d)
            likelihood = kernels.plain_moments(
                np.ascontiguousarray(rows[part].T),
                means,
                whitening,
                constants,
                framed.counts,
                framed.sums,
                framed.squares,
            )
            sums = (factors @ framed.sums[:, :, None])[:, :, 0]
            lower = framed.squares + np.tril(framed.squares, -1).transpose(0, 2, 1)
            return _Moments(framed.counts, sums, factors @ lower @ factors.transpose(0, 2, 1), likelihood)

        return _over_blocks(compiled, rows, n_jobs)
    precisions = precision_cholesky(covariances)

    def expected(part: slice) -> tuple[NDArray[np.float64], float]:
        joint = log_joint(rows[part], weights, means, precisions)
        density = log_sum(joint)
        return np.exp(joint - density[:, None]), float(density.sum())

    return _moments(rows, means, expected, covariance, n_jobs)


def _with_column_means(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(rows)
    if not known.any(axis=0).all():
        raise InvalidArgumentError(
            "Expected at least one known cell in every column, got a column of missing cells only. Leave it "
            "out."
        )
    means = np.where(known, rows, 0.0).sum(axis=0) / known.sum(axis=0)
    return np.where(known, rows, means)


def _incomplete_e_step(
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
) -> _Moments:
    """Return the expected moments about the means, of rows with missing cells."""
    joint = incomplete_log_joint(rows, weights, means, covariances)
    density = log_sum(joint)
    g = np.exp(joint - density[:, None])
    k, d = means.shape
    total = _Moments(g.sum(axis=0), np.zeros((k, d)), np.zeros((k, d, d)), float(density.sum()))
    for held, cells in known_cells(rows):
        for j, covariance in enumerate(covariances):
            precisions, _ = cells.precisions(covariance)
            _, y = cells.relative(means[j], precisions)
            relative, weight = y @ covariance, g[held, j]
            per_pattern = np.bincount(cells.which, weights=weight, minlength=len(cells.known))
            known = np.tensordot(per_pattern, precisions, axes=1)
            total.sums[j] += weight @ relative
            total.squares[j] += (relative * weight[:, None]).T @ relative
            total.squares[j] += weight.sum() * covariance - covariance @ known @ covariance
    return total


def _moments(
    rows: NDArray[np.float64],
    centres: NDArray[np.float64],
    responsibilities: Callable[[slice], tuple[NDArray[np.float64], float]],
    covariance: Covariance,
    n_jobs: int | None,
) -> _Moments:
    """Sum moments about fixed centres for given responsibilities."""
    diagonal = covariance in ("diag", "spherical")

    def one(part: slice) -> _Moments:
        g, likelihood = responsibilities(part)
        sums, squares = [], []
        for k, centre in enumerate(centres):
            relative = rows[part] - centre
            weighted = relative * g[:, k : k + 1]
            sums.append(weighted.sum(axis=0))
            squares.append(np.diag((weighted * relative).sum(axis=0)) if diagonal else weighted.T @ relative)
        return _Moments(g.sum(axis=0), np.stack(sums), np.stack(squares), likelihood)

    return _over_blocks(one, rows, n_jobs)


def _over_blocks(one: Callable[[slice], _Moments], rows: NDArray[np.float64], n_jobs: int | None) -> _Moments:
    """Sum over blocks, in the same order for any number of threads."""
    n, d = rows.shape
    size = max(64, _BLOCK_CELLS // d)
    parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    with one_thread():
        if len(parts) == 1:
            return one(parts[0])
        with ThreadPoolExecutor(thread_count(n_jobs)) as pool:
            return reduce(operator.add, pool.map(one, parts))


def _m_step(
    moments: _Moments, centres: NDArray[np.float64], covariance: Covariance, reg_covar: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    k, d = centres.shape
    counts = moments.counts + 10 * np.finfo(np.float64).eps
    shift = moments.sums / counts[:, None]
    covariances = moments.squares / counts[:, None, None] - shift[:, :, None] * shift[:, None, :]
    if covariance == "tied":
        shared = np.einsum("k,kij->ij", counts / counts.sum(), covariances)
        covariances = np.repeat(shared[None], k, axis=0)
    covariances = covariances + reg_covar * np.eye(d)
    if covariance == "diag":
        covariances = covariances * np.eye(d)
    if covariance == "spherical":
        covariances = np.trace(covariances, axis1=1, axis2=2)[:, None, None] / d * np.eye(d)
    return counts / counts.sum(), centres + shift, covariances
