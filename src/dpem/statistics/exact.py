r"""Exact products of integer matrices in float64.

A product of integer matrices is exact in float64 if every sum of absolute products stays below 2^53. The
order of additions, fused multiply-adds and the number of threads do not matter. But the kernels depend on the
BLAS of the machine. So a self-test runs at the first use, and each product is checked by sums of its rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpem.errors import ExactArithmeticError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["exact_product"]

EXACT = 2.0**53


def exact_product(
    a: NDArray[np.float64], b: NDArray[np.float64], bound: float, group: int | None = None
) -> NDArray[np.float64]:
    """Return ``a @ b`` for integer matrices, exactly.

    Parameters
    ----------
    a, b : ndarray of float64
        The factors, which contain integers.
    bound : float
        At most 2^52. The caller proves from public facts that every sum of absolute products stays below it.
    group : int, optional
        Number of rows of `a` that one sum checks, by default derived from `bound`. A caller may pass a larger
        number if products with the sum of so many rows stay below 2^53.
    """
    _self_test()
    # The BLAS kernel depends on the shape. So every product is checked by appending sums of rows of `a`.
    group = group or int(EXACT // (2 * bound))
    if group < 1 or bound > EXACT / 2:
        raise ExactArithmeticError("Expected a product below 2^52, got one that float64 cannot hold exactly.")
    product = np.vstack([a, _sums_of_rows(a, group)]) @ b
    result, sums = product[: len(a)], product[len(a) :]
    if not np.array_equal(_sums_of_rows(result, group), sums):
        raise _not_exact()
    return result


def _sums_of_rows(a: NDArray[np.float64], group: int) -> NDArray[np.float64]:
    """Sum each group of rows. The sums are exact in any order; `np.add.reduceat` is many times slower."""
    n_groups, rest = divmod(len(a), group)
    whole = len(a) - rest
    sums = a[:whole].reshape(n_groups, group, a.shape[1]).sum(axis=1)
    return np.vstack([sums, a[whole:].sum(axis=0)]) if rest else sums


def _not_exact() -> ExactArithmeticError:
    return ExactArithmeticError(
        "Expected exact float64 products of integers, but the BLAS of this machine rounds them. "
        "Nothing was released. Use another BLAS, such as the one in the wheels of numpy."
    )


@lru_cache(maxsize=1)
def _self_test() -> None:
    """Compare float64 products with int64 ones on fixed integers near the limit, for several shapes."""
    for rows, inner, columns in (
        (1, 1, 1),
        (7, 3, 5),
        (2, 500, 1),
        (16, 64, 33),
        (64, 1024, 8),
        (3, 4096, 3),
    ):
        bits = (52 - int(np.ceil(np.log2(inner)))) // 2
        i, k, j = np.arange(rows)[:, None], np.arange(inner), np.arange(columns)
        a = ((i * 2654435761 + k * 40503 + 12345) * 2246822519) % (2**bits) - 2 ** (bits - 1)
        b = ((k[:, None] * 3266489917 + j * 668265263 + 777) * 374761393) % (2**bits) - 2 ** (bits - 1)
        exact = a.astype(np.int64) @ b.astype(np.int64)
        if not np.array_equal(a.astype(np.float64) @ b.astype(np.float64), exact.astype(np.float64)):
            raise _not_exact()
