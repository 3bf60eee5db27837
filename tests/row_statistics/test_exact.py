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


def _total(value):
    """Return a total of one entry with this sum, of up to 83 bits."""
    total = IntegerTotal(1)
    total._high[0], total._low[0] = value >> 20, value & (2**20 - 1)
    return total


@pytest.mark.parametrize("coarse_bits", [0, 1, 12, 20])
@pytest.mark.parametrize("sign", [1, -1])
def test_values_near_the_limits_are_clipped_sums(coarse_bits, sign):
    """Around every limit of the limbs, the value is the coarse sum, clipped to 62 bits."""
    limit = 2**62 - 1
    edges = [limit, limit + 2, limit - 2**20, limit + 2**20, limit - 2 ** (20 - coarse_bits), 2**61]
    for edge in edges:
        for beside in range(-3, 4):
            total = sign * ((edge + beside) << coarse_bits) + (1 << coarse_bits) // 2
            expected = max(-limit, min(limit, total >> coarse_bits))
            assert int(_total(total).value(coarse_bits)[0]) == expected


def test_blocks_that_reach_the_lower_limit_keep_their_distance():
    """Two sums that differ by 1 have values that differ by 1 at most: clipping is a contraction."""
    first, second = IntegerTotal(1), IntegerTotal(1)
    for _ in range(511):
        for total in (first, second):
            total.add(np.array([-(2**53 - 1)]))
    rest = -(2**62) + 2**20 - 1 + 511 * (2**53 - 1)
    first.add(np.array([rest]))
    second.add(np.array([rest + 1]))
    assert int(second.value()[0]) - int(first.value()[0]) == 1
