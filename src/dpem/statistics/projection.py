"""Project rows onto a public orthonormal basis: a few coordinates, and the norm of the residual."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

from dpem import _validate
from dpem.data.domain import GRID, GRID_BITS, norm_squared
from dpem.errors import InvalidArgumentError
from dpem.statistics.exact import exact_product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.domain import Domain

__all__ = ["ProjectedDomain", "cosine_basis", "orthonormal_basis"]

BASIS_BITS = 20
_LARGEST_SKEW = 1e-6


def cosine_basis(shape: tuple[int, int], n_vectors: int, *, constant: bool = True) -> NDArray[np.float64]:
    """Return a public basis for rows that are pictures: the smoothest cosine images, orthonormal.

    Parameters
    ----------
    shape : (int, int)
        Height and width of the pictures. Pixels are in row-major order.
    n_vectors : int
        Number of images, in order of increasing frequency.
    constant : bool, default True
        Whether to include the constant image, as the first. Exclude it if each picture has mean zero.

    Returns
    -------
    ndarray of shape (height * width, n_vectors)
        Orthonormal columns, for the `basis` of `dpem.FactorAnalysis`.

    Examples
    --------
    >>> basis = cosine_basis((8, 8), 10)
    >>> bool(np.allclose(basis.T @ basis, np.eye(10)))
    True
    """
    try:
        height, width = shape
    except (TypeError, ValueError):
        raise _validate.fail("(height, width)", "shape", shape) from None
    height, width = _validate.integer(height, "shape"), _validate.integer(width, "shape")
    n, constant = _validate.integer(n_vectors, "n_vectors"), _validate.flag(constant, "constant")
    if n > height * width - (not constant):
        raise _validate.fail(f"at most one per pixel ({height * width - (not constant)})", "n_vectors", n)
    vertical, horizontal = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    frequency = np.hypot(vertical / height, horizontal / width).ravel()
    chosen = np.argsort(frequency, kind="stable")[(not constant) :][:n]
    images = np.zeros((n, height * width))
    images[np.arange(n), chosen] = 1.0
    cosines = fft.idctn(images.reshape(n, height, width), axes=(1, 2), norm="ortho")
    return np.asarray(cosines.reshape(n, -1).T, dtype=np.float64)


def orthonormal_basis(basis: Any, n_columns: int) -> NDArray[np.float64]:
    """Validate a public basis of shape (n_columns, p) with orthonormal columns."""
    matrix = _validate.array(
        basis, "basis", "Its columns are public directions; never take them from the rows."
    )
    if matrix.ndim != 2 or matrix.shape[0] != n_columns or not 1 <= matrix.shape[1] <= n_columns:
        raise InvalidArgumentError(
            f"Expected basis of shape ({n_columns}, p) with p from 1 to {n_columns}, got {matrix.shape}. Its "
            f"columns are public directions; never take them from the rows."
        )
    skew = np.abs(matrix.T @ matrix - np.eye(matrix.shape[1])).max()
    if not skew <= _LARGEST_SKEW:
        raise InvalidArgumentError(
            "Expected a basis with orthonormal columns, got others. Pass numpy.linalg.qr(basis)[0] instead."
        )
    return matrix


@dataclass(frozen=True, eq=False)
class ProjectedDomain:
    """Grid rows in p orthonormal directions, with the norm of the residual as a last column if p < d.

    Neither the projection nor the residual norm makes a row longer. So the norm stays at most 2^24, which is
    checked in integers.
    """

    domain: Domain  # a ball: one scale for all columns
    basis: NDArray[np.float64]  # (d, p)

    @property
    def n_columns(self) -> int:
        """Number of columns of a projected row."""
        d, p = self.basis.shape
        return int(p + (p < d))

    @property
    def shrinkage(self) -> float:
        """Factor of the coordinates that leaves room for the rounding of basis and rows."""
        d, p = self.basis.shape
        skew = np.sqrt(float(d * p)) * 2.0 ** -(BASIS_BITS + 1) + p * _LARGEST_SKEW
        return float(1 - skew - np.sqrt(p + 1.0) * 2.0**-GRID_BITS - 2.0**-40)

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """The basis (p, d) as integers: its vectors times 2^20."""
        return np.ascontiguousarray(np.rint(self.basis.T * 2.0**BASIS_BITS))

    def to_grid_tensor(self, columns: Any) -> Any:
        """Convert a tensor on a device, as `to_grid` does."""
        from dpem.statistics import kernels_torch_projection  # noqa: PLC0415  (needs the extra `gpu`)

        return kernels_torch_projection.projected(self, columns)

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a block of shape (columns, rows) to integers, with norm at most 2^24 per row."""
        rows = self.domain.to_grid(columns)
        # |direction| <= 2^20 + sqrt(d)/2 and |row| <= 2^24.
        along = exact_product(self.directions, rows, bound=2.0**46) * 2.0**-BASIS_BITS
        parts = along
        if self.n_columns > len(along):
            rest = np.sqrt(np.maximum(norm_squared(rows) - norm_squared(along), 0.0))
            parts = np.concatenate([along, rest[None]])
        parts = np.rint(parts * self.shrinkage)
        parts[:, ~(norm_squared(parts) <= GRID * GRID)] = 0.0
        return parts
