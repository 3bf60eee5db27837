"""Numbers that err to one side of the exact number that they stand for."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

__all__ = ["digits_down", "digits_up", "float_down", "float_up", "root_up"]


def float_up(value: Fraction) -> float:
    """Return the smallest float that is at least `value`."""
    result = float(value)
    return result if Fraction(result) >= value else math.nextafter(result, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float that is at most `value`."""
    return -float_up(-value)


def root_up(square: Fraction | int) -> float:
    """Return the smallest float whose square is at least `square` (not negative).

    Examples
    --------
    >>> root_up(4)
    2.0
    >>> Fraction(root_up(2)) ** 2 > 2
    True
    """
    square = Fraction(square)
    if square == 0:
        return 0.0
    # isqrt of the square scaled to at least 128 bits: a root to 64 bits, whatever its magnitude.
    shift = max(0, 64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    below = Fraction(math.isqrt((square.numerator << 2 * shift) // square.denominator), 1 << shift)
    root = float_down(below)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def digits_up(value: float, digits: int = 6) -> float:
    """Return the smallest number of that many significant digits that is at least `value`: for costs."""
    return _to_digits(value, digits, decimal.ROUND_CEILING)


def digits_down(value: float, digits: int = 6) -> float:
    """Return the largest number of that many significant digits that is at most `value`: for what is left."""
    return _to_digits(value, digits, decimal.ROUND_FLOOR)


def _to_digits(value: float, digits: int, rounding: str) -> float:
    context = decimal.Context(prec=digits, rounding=rounding, traps=[])
    return float(context.create_decimal(value))
