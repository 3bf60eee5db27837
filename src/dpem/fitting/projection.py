"""Repair of noisy parameters: weights on the simplex, positive definite matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cholesky", "count_weights", "onto_simplex", "symmetric"]

_LEAST_WEIGHT = 0.05  # smallest weight of a component, relative to the mean weight


def count_weights(
    counts: NDArray[np.float64], noise: float, total: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Compute weights from noisy counts (..., k): they sum to 1, and each is at least the noise of a weight.

    The total is one number, or (..., 1).
    """
    k = counts.shape[-1]
    floor = np.minimum(np.maximum(_LEAST_WEIGHT / k, noise / total), 0.5 / k)
    return onto_simplex(counts / total, 1.0, floor)


def onto_simplex(
    values: NDArray[np.float64], total: float, floor: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return the nearest vectors (..., k) that sum to `total` and have entries of at least `floor`.

    The floor is one number, or (..., 1).
    """
    k = values.shape[-1]
    above = values - floor
    ordered = np.sort(above, axis=-1)[..., ::-1]
    excess = (np.cumsum(ordered, axis=-1) - (total - k * floor)) / np.arange(1, k + 1)
    positive = ordered - excess > 0
    last = k - 1 - np.argmax(positive[..., ::-1], axis=-1, keepdims=True)
    return np.asarray(np.maximum(above - np.take_along_axis(excess, last, axis=-1), 0.0) + floor)


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
