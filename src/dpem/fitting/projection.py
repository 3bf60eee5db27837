"""Repair of noisy parameters: weights on the simplex, positive definite matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cholesky", "count_weights", "onto_simplex", "symmetric"]

_LEAST_WEIGHT = 0.05  # smallest weight of a component, relative to the mean weight


def count_weights(counts: NDArray[np.float64], noise: float, total: float) -> NDArray[np.float64]:
    """Compute weights from noisy counts: they sum to 1, and each is at least the noise of a weight."""
    k = len(counts)
    floor = min(max(_LEAST_WEIGHT / k, noise / total), 0.5 / k)
    return onto_simplex(counts / total, 1.0, floor)


def onto_simplex(values: NDArray[np.float64], total: float, floor: float) -> NDArray[np.float64]:
    """Return the nearest vector that sums to `total` and has entries of at least `floor`."""
    above = values - floor
    ordered = np.sort(above)[::-1]
    excess = np.cumsum(ordered) - (total - len(values) * floor)
    rank = np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered - excess / rank > 0)[-1]
    return np.asarray(np.maximum(above - excess[last] / rank[last], 0.0) + floor)


def cholesky(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower Cholesky factors of positive definite matrices (..., d, d).

    If rounding makes a matrix slightly indefinite, its diagonal is increased slightly: a charged fit must not
    fail because of the last bit.
    """
    jitter = 0.0
    while True:
        diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
        wider = matrices + jitter * diagonal[..., None] * np.eye(matrices.shape[-1])
        try:
            return np.asarray(np.linalg.cholesky(wider), dtype=np.float64)
        except np.linalg.LinAlgError:
            if jitter > 0.1:
                raise
            jitter = max(1e-14, 10 * jitter)


def symmetric(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric part of matrices."""
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)
