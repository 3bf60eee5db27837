"""Exact products and sums."""

import numpy as np
import pytest

from dpem.engines.totals import IntegerTotal
from dpem.errors import ExactArithmeticError
from dpem.statistics import exact
from dpem.statistics.exact import exact_product


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 2, 300), (40, 10, 1000), (3, 500, 64), (64, 4096, 3)])
def test_products_equal_integer_arithmetic(shape):
    """Near the limit of 2^52 and in any layout, float64 products equal those of Python's integers."""
    m, k, n = shape
    rng = np.random.default_rng(1)
    top = int(2 ** ((51 - np.log2(k)) / 2))
    a, b = rng.integers(-top, top + 1, (m, k)), rng.integers(-top, top + 1, (k, n))
    truth = a.astype(object) @ b.astype(object)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        product = exact_product(layout(a.astype(float)), layout(b.astype(float)), bound=2.0**51)
        assert (product.astype(np.int64).astype(object) == truth).all()


def test_a_wrong_kernel_raises(monkeypatch):
    """A product with any entry off by one raises and is not released."""

    class Wrong(np.ndarray):
        def __matmul__(self, other):
            product = np.asarray(self) @ np.asarray(other)
            product[0, -1] += 1
            return product

    stack = np.vstack
    monkeypatch.setattr(exact.np, "vstack", lambda parts: stack(parts).view(Wrong))
    with pytest.raises(ExactArithmeticError, match="Nothing was released"):
        exact_product(np.ones((3, 2)), np.ones((2, 4)), bound=8)


def test_products_that_cannot_be_exact_are_refused():
    with pytest.raises(ExactArithmeticError):
        exact_product(np.ones((1, 1)), np.ones((1, 1)), bound=2.0**53)


def test_totals_do_not_overflow():
    """Sums beyond 64 bits are computed exactly, and the result is clipped, never wrapped."""
    total, other = IntegerTotal(3), IntegerTotal(3)
    block = np.array([2**52, -(2**52), 7])
    truth = np.zeros(3, dtype=object)
    for _ in range(3000):
        total.add(block)
        truth += block.astype(object)
    other.add(np.array([1, -1, -8]))
    total.merge(other)
    truth += np.array([1, -1, -8], dtype=object)
    limit = 2**62 - 1
    assert truth[0] > 2**63
    assert total.value().tolist() == [limit, -limit, truth[2]]
