"""Rounding of exact numbers up or down to floats and decimal digits."""

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
    """Return the smallest float whose square is at least the non-negative number `square`.

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
    # The isqrt of the square, scaled to at least 128 bits, gives a root of 64 bits for any magnitude.
    shift = max(0, 64 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    below = Fraction(math.isqrt((square.numerator << 2 * shift) // square.denominator), 1 << shift)
    root = float_down(below)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def digits_up(value: float, digits: int = 6) -> float:
    """Round up to significant decimal digits, for costs."""
    return _to_digits(value, digits, decimal.ROUND_CEILING)


def digits_down(value: float, digits: int = 6) -> float:
    """Round down to significant decimal digits, for remaining budgets."""
    return _to_digits(value, digits, decimal.ROUND_FLOOR)


def _to_digits(value: float, digits: int, rounding: str) -> float:
    context = decimal.Context(prec=digits, rounding=rounding, traps=[])
    return float(context.create_decimal(value))
