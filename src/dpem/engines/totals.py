"""Exact running sums of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["IntegerTotal"]

_LOW_BITS = 20


class IntegerTotal:
    """An exact running sum of integer vectors, each below 2^63 in size.

    It holds two 64-bit limbs, because a single one could overflow after some millions of blocks. The number
    of rows may be private, so it must not cause an error. The limbs are exact for up to 2^42 blocks whose sum
    is at most 2^82 in size: after as many, the low limb is below 2^62, and the high one within 2^63.
    """

    def __init__(self, size: int) -> None:
        self._high = np.zeros(size, dtype=np.int64)
        self._low = np.zeros(size, dtype=np.int64)

    @classmethod
    def merged(cls, totals: Sequence[IntegerTotal]) -> IntegerTotal:
        """Return the sum of one or more totals of the same length."""
        whole = cls(len(totals[0]._high))
        for total in totals:
            whole.merge(total)
        return whole

    def add(self, block: NDArray[np.int64]) -> None:
        """Add the sum of a block."""
        self._high += block >> _LOW_BITS
        self._low += block & (2**_LOW_BITS - 1)

    def merge(self, other: IntegerTotal) -> None:
        """Add another total."""
        self._high += other._high
        self._low += other._low

    def value(self, coarse_bits: int | NDArray[np.int64] = 0) -> NDArray[np.int64]:
        """Return the sum without its lowest bits (at most 20), rounded down.

        It is clipped to the range of 64 bits. Clipping is a contraction, so it does not increase any
        sensitivity.
        """
        limit = 2**62 - 1  # = (top + 1) * 2^kept - 1
        carry = self._low >> _LOW_BITS
        high = self._high + carry
        low = (self._low - (carry << _LOW_BITS)) >> coarse_bits
        kept = _LOW_BITS - coarse_bits
        # With the high limb -top - 1, the value is -2^62 plus the low limb. Beyond these limits of the high
        # limb the clipped value is the limit itself.
        top = limit >> kept
        total = (np.clip(high, -top - 1, top) << kept) + low
        beyond = np.where(high > top, limit, -limit)
        return np.clip(np.where((high > top) | (high < -top - 1), beyond, total), -limit, limit)
