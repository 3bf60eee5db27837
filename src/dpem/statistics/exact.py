r"""Sums and products that are exact: integers held in float64, below 2^53.

A product of integer matrices is exact in float64 whenever every sum of absolute products stays below 2^53,
in any order, with or without fused multiply-adds, on any number of threads. Kernels are chosen by the BLAS at
hand, so this is tested once at the first use, and each product is checked against a row of sums.
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
    a, b : ndarray of float64 that hold integers
        The factors.
    bound : float
        At most 2^52; the caller proves from public facts that every sum of absolute products stays below it.
    group : int, optional
        How many rows of `a` are checked by one sum of them, where the caller knows that products with that
        sum stay below 2^53 too; from `bound` unless given.
    """
    _self_test()
    # Kernels differ by shape, so each product carries its own check: sums of rows of `a` as further rows.
    group = group or int(EXACT // (2 * bound))
    if group < 1 or bound > EXACT / 2:
        raise ExactArithmeticError("Expected a product below 2^52, got one that float64 cannot hold exactly.")
    product = np.vstack([a, _sums_of_rows(a, group)]) @ b
    result, sums = product[: len(a)], product[len(a) :]
    if not np.array_equal(_sums_of_rows(result, group), sums):
        raise _not_exact()
    return result


def _sums_of_rows(a: NDArray[np.float64], group: int) -> NDArray[np.float64]:
    """Sum every so many rows. Exact here, so that order is free; `np.add.reduceat` is many times slower."""
    n_groups, rest = divmod(len(a), group)
    whole = len(a) - rest
    sums = a[:whole].reshape(n_groups, group, a.shape[1]).sum(axis=1)
    return np.vstack([sums, a[whole:].sum(axis=0)]) if rest else sums


def _not_exact() -> ExactArithmeticError:
    return ExactArithmeticError(
        "Expected exact float64 products of integers, but this machine's BLAS gives others. "
        "Nothing was released. Use another BLAS, such as the one that numpy's wheels bring."
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
