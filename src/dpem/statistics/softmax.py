"""Responsibilities with the same bits on every machine.

The exponential uses IEEE additions and products alone. No guarantee depends on these bits, since the
responsibilities of every row are bounded in integers afterwards. They make a released model reproducible: the
same rows give the same model with NumPy, with compiled kernels and on every engine.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["exp_non_positive", "log_of_parts", "softmax"]

# exp(x) = 2^n exp(r), with |r| <= ln(2)/2. Eleven terms of the series have an error below 3e-13.
SMALLEST = -700.0  # the exp of a smaller number is negligible, and would be subnormal
PER_OCTAVE = 1 / math.log(2)
# ln 2 in two parts. The first has so few bits that its products with n are exact.
OCTAVE_HIGH, OCTAVE_LOW = 0.6931471803691238, 1.9082149292705877e-10
# Adding it to n puts n into the low bits of the float.
ROUNDER = 1.5 * 2.0**52
TERMS = tuple(1 / math.factorial(i) for i in range(10, -1, -1))
# log(x) = 2 atanh(s) with s = (x - 1) / (x + 1). For x from sqrt(1/2) to sqrt(2), ten terms of the series
# have an error below 1e-15.
ATANH_TERMS = tuple(2 / (2 * i + 1) for i in range(9, -1, -1))
ROOT_HALF = math.sqrt(0.5)


def exp_non_positive(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(x) for x <= 0, element by element. Numbers below -700 count as -700.

    Examples
    --------
    >>> x = np.array([0.0, -1.0, -50.5])
    >>> bool(np.allclose(exp_non_positive(x), np.exp(x), rtol=1e-12, atol=0))
    True
    """
    x = np.maximum(x, SMALLEST)
    shifted = x * PER_OCTAVE
    shifted += ROUNDER
    n = shifted - ROUNDER
    r = x - n * OCTAVE_HIGH
    r -= n * OCTAVE_LOW
    series = r * TERMS[0]
    series += TERMS[1]
    for term in TERMS[2:]:
        series *= r
        series += term
    series *= ((shifted.view(np.int64) + 1023) << 52).view(np.float64)
    return series


def log_of_parts(fraction: NDArray[np.float64], exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(fraction * 2^exponent), element by element, for fractions from 1/2 to 1.

    Examples
    --------
    >>> x = np.array([3e-200, 0.7, 1.0, 123.4])
    >>> bool(np.allclose(log_of_parts(*np.frexp(x)), np.log(x), rtol=1e-14, atol=1e-15))
    True
    """
    low = fraction < ROOT_HALF
    x = np.where(low, fraction + fraction, fraction)
    octaves = np.where(low, exponent - 1.0, exponent + 0.0)
    s = (x - 1.0) / (x + 1.0)
    square = s * s
    series = square * ATANH_TERMS[0]
    series += ATANH_TERMS[1]
    for term in ATANH_TERMS[2:]:
        series *= square
        series += term
    return np.asarray(octaves * OCTAVE_HIGH + (octaves * OCTAVE_LOW + series * s))


def softmax(
    logits: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the softmax over the first axis, the largest logit, and the sum of exp(logit - largest)."""
    largest = logits[0].copy()
    for row in logits[1:]:
        np.maximum(largest, row, out=largest)
    weights = exp_non_positive(logits - largest)
    total = weights[0].copy()
    for row in weights[1:]:
        total += row
    weights /= total
    return weights, largest, total
