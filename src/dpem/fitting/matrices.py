"""Small steps of linear algebra that several models share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cholesky", "symmetric"]


def cholesky(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lower factors of positive definite matrices (..., d, d).

    Matrices that rounding leaves a hair outside get a little more on their diagonals, relative to it: a fit
    that is paid for must not fail for the last bit.
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
    """Return the symmetric part."""
    return np.asarray((matrices + np.swapaxes(matrices, -1, -2)) / 2)
