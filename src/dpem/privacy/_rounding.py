"""Floats that err to one side of the exact number that they stand for."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["float_down", "float_up", "root_up"]


def float_up(value: Fraction) -> float:
    """Return the smallest float that is at least `value`."""
    result = float(value)
    return result if Fraction(result) >= value else math.nextafter(result, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float that is at most `value`."""
    return -float_up(-value)


def root_up(square: Fraction | int) -> float:
    """Return the smallest float whose square is at least `square` (above zero).

    Examples
    --------
    >>> root_up(4)
    2.0
    >>> Fraction(root_up(2)) ** 2 > 2
    True
    """
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(below := math.nextafter(root, 0)) ** 2 >= square:
        root = below
    return root
