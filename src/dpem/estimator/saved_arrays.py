"""Validation of arrays from a file: names, shapes and valid values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = [
    "pop_flags",
    "require",
    "require_covariances",
    "require_laws",
    "require_numbers",
    "require_positive",
]

_ROUNDING = 1e-10  # tolerance of covariances, relative to variances


def require(holds: object, expected: str) -> None:
    """Raise unless a condition on the content of a file holds."""
    if not holds:
        raise ModelFileError(f"Expected {expected}, got something else.")


def require_numbers(arrays: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless the arrays have exactly these names and shapes, and finite float64 numbers."""
    require(arrays.keys() == shapes.keys(), f"the arrays {', '.join(shapes)}")
    for name, shape in shapes.items():
        array = arrays[name]
        require(array.shape == shape, f"shape {shape} for {name!r}")
        require(array.dtype == np.float64 and np.isfinite(array).all(), f"finite float64 numbers in {name!r}")


def pop_flags(arrays: dict[str, NDArray[Any]], name: str, n: int) -> NDArray[np.bool_]:
    """Remove n flags from the arrays and return them; without them, as in earlier files, all are true."""
    flags = arrays.pop(name, np.ones(n))
    require_numbers({name: flags}, {name: (n,)})
    require(np.isin(flags, (0.0, 1.0)).all(), f"zeros and ones in {name!r}")
    return np.asarray(flags == 1.0)


def require_positive(name: str, array: NDArray[np.float64], *, or_zero: bool = False) -> None:
    """Raise unless all numbers are positive (or, with `or_zero`, not negative)."""
    require((array >= 0).all() if or_zero else (array > 0).all(), f"positive numbers in {name!r}")


def require_laws(name: str, array: NDArray[Any]) -> None:
    """Raise unless these are probabilities that sum to 1 over the last axis."""
    require(array.dtype == np.float64 and array.size and np.isfinite(array).all(), f"numbers in {name!r}")
    proper = (array >= 0).all() and (array <= 2).all() and np.allclose(array.sum(axis=-1), 1.0, atol=1e-6)
    require(proper, f"probabilities that sum to 1 in {name!r}")


def require_covariances(name: str, matrices: NDArray[np.float64]) -> None:
    """Raise unless these matrices (..., d, d) are symmetric and positive definite up to rounding."""
    variances = np.diagonal(matrices, axis1=-2, axis2=-1)
    require_positive(name, variances)
    scale = np.sqrt(variances)
    scales = scale[..., :, None] * scale[..., None, :]
    transposed = np.swapaxes(matrices, -1, -2)
    require((np.abs(matrices - transposed) <= _ROUNDING * scales).all(), f"symmetric matrices in {name!r}")
    try:
        np.linalg.cholesky(matrices + _ROUNDING * variances[..., None] * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError as error:
        raise ModelFileError(f"Expected positive definite matrices in {name!r}, got others.") from error
