"""Arithmetic that kernels share: exact sums and products of integers, and the exponential."""

from __future__ import annotations

from typing import Any

from dpem._compiled import EXACT_SUMS, compiled
from dpem.statistics.softmax import (
    ATANH_TERMS,
    OCTAVE_HIGH,
    OCTAVE_LOW,
    PER_OCTAVE,
    ROOT_HALF,
    ROUNDER,
    SMALLEST,
    TERMS,
)

__all__ = [
    "CHUNK",
    "add_combination",
    "add_combinations",
    "add_outer_products",
    "dot",
    "exp_non_positive",
    "four_dots",
    "load",
    "log_of_parts",
    "total_of",
]

# Rows at a time: buffers stay in the cache, and sums of 2^42 per row stay below 2^50.
CHUNK = 256


@compiled()
def load(rows: Any, start: int, n: int, out: Any) -> None:
    """Copy a chunk of rows into a buffer of float64."""
    for a in range(rows.shape[0]):
        for i in range(n):
            out[a, i] = rows[a, start + i]


@compiled(**EXACT_SUMS)
def total_of(a: Any, n: int) -> float:
    """Sum integers."""
    total = 0.0
    for i in range(n):
        total += a[i]
    return total


@compiled(**EXACT_SUMS)
def dot(a: Any, b: Any, n: int) -> float:
    """Sum products of integers."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@compiled(**EXACT_SUMS)
def four_dots(a: Any, b: Any, c: int, n: int) -> tuple[float, float, float, float]:
    """Return four sums of products of integers: `a` is read once for all of them."""
    b0, b1, b2, b3 = b[c], b[c + 1], b[c + 2], b[c + 3]
    s0 = s1 = s2 = s3 = 0.0
    for i in range(n):
        s0 += a[i] * b0[i]
        s1 += a[i] * b1[i]
        s2 += a[i] * b2[i]
        s3 += a[i] * b3[i]
    return s0, s1, s2, s3


@compiled(**EXACT_SUMS)
def _eight_dots(
    a0: Any, a1: Any, b: Any, c: int, n: int
) -> tuple[float, float, float, float, float, float, float, float]:
    """Return the sums of products of two columns with four others."""
    b0, b1, b2, b3 = b[c], b[c + 1], b[c + 2], b[c + 3]
    s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = 0.0
    for i in range(n):
        s0 += a0[i] * b0[i]
        s1 += a0[i] * b1[i]
        s2 += a0[i] * b2[i]
        s3 += a0[i] * b3[i]
        t0 += a1[i] * b0[i]
        t1 += a1[i] * b1[i]
        t2 += a1[i] * b2[i]
        t3 += a1[i] * b3[i]
    return s0, s1, s2, s3, t0, t1, t2, t3


@compiled(fastmath={"contract"})
def _add_multiple(target: Any, factor: float, x: Any, n: int) -> None:
    for i in range(n):
        target[i] += factor * x[i]


@compiled(fastmath={"contract"})
def _add_four_multiples(target: Any, factors: Any, c: int, x: Any, n: int) -> None:
    """Add four products at once: the target is read and written once for all of them."""
    f0, f1, f2, f3 = factors[c], factors[c + 1], factors[c + 2], factors[c + 3]
    x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
    for i in range(n):
        target[i] += f0 * x0[i] + f1 * x1[i] + f2 * x2[i] + f3 * x3[i]


@compiled(fastmath={"contract"})
def _add_four_multiples_to_two(s: Any, t: Any, f: Any, g: Any, c: int, x: Any, n: int) -> None:
    """Add four products to each of two targets: a column is read once for both."""
    f0, f1, f2, f3 = f[c], f[c + 1], f[c + 2], f[c + 3]
    g0, g1, g2, g3 = g[c], g[c + 1], g[c + 2], g[c + 3]
    x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
    for i in range(n):
        s[i] += f0 * x0[i] + f1 * x1[i] + f2 * x2[i] + f3 * x3[i]
        t[i] += g0 * x0[i] + g1 * x1[i] + g2 * x2[i] + g3 * x3[i]


@compiled()
def add_combination(target: Any, factors: Any, n_terms: int, x: Any, n: int) -> None:
    """Add sum_c factors[c] x[c] to the target, for integers: exact."""
    whole = n_terms // 4 * 4
    for c in range(0, whole, 4):
        _add_four_multiples(target, factors, c, x, n)
    for c in range(whole, n_terms):
        _add_multiple(target, factors[c], x[c], n)


@compiled()
def add_combinations(s: Any, t: Any, f: Any, g: Any, n_terms: int, x: Any, n: int) -> None:
    """Add sum_c f[c] x[c] to s, and sum_c g[c] x[c] to t, for integers: exact."""
    whole = n_terms // 4 * 4
    for c in range(0, whole, 4):
        _add_four_multiples_to_two(s, t, f, g, c, x, n)
    for c in range(whole, n_terms):
        _add_multiple(s, f[c], x[c], n)
        _add_multiple(t, g[c], x[c], n)


@compiled()
def add_outer_products(a: Any, b: Any, d: int, n: int, out: Any, position: int) -> None:
    """Add the upper triangle of sum_i a_i b_i', which is symmetric, to `out` from `position` on."""
    row = 0
    while row < d:
        here = position + row * d - row * (row - 1) // 2  # of the diagonal entry
        if row + 1 < d:
            below = here + d - row
            out[here] += int(dot(a[row], b[row], n))
            c = row + 1
            while c + 4 <= d:
                s0, s1, s2, s3, t0, t1, t2, t3 = _eight_dots(a[row], a[row + 1], b, c, n)
                place = here + c - row
                out[place] += int(s0)
                out[place + 1] += int(s1)
                out[place + 2] += int(s2)
                out[place + 3] += int(s3)
                place = below + c - row - 1
                out[place] += int(t0)
                out[place + 1] += int(t1)
                out[place + 2] += int(t2)
                out[place + 3] += int(t3)
                c += 4
            while c < d:
                out[here + c - row] += int(dot(a[row], b[c], n))
                out[below + c - row - 1] += int(dot(a[row + 1], b[c], n))
                c += 1
            row += 2
        else:
            out[here] += int(dot(a[row], b[row], n))
            row += 1


@compiled()
def exp_non_positive(x: Any, n: int, shifted: Any, bits: Any, power: Any, power_bits: Any) -> None:
    """Replace x by exp(x), as `dpem.statistics.softmax.exp_non_positive`; `bits` are those of `shifted`."""
    for i in range(n):
        x[i] = max(x[i], SMALLEST)
        shifted[i] = x[i] * PER_OCTAVE + ROUNDER
    for i in range(n):
        power_bits[i] = (bits[i] + 1023) << 52
    for i in range(n):
        whole = shifted[i] - ROUNDER
        r = x[i] - whole * OCTAVE_HIGH
        r -= whole * OCTAVE_LOW
        series = r * TERMS[0]
        series += TERMS[1]
        for t in range(2, 11):
            series = series * r
            series = series + TERMS[t]
        x[i] = series * power[i]


@compiled()
def log_of_parts(fraction: float, octaves: float) -> float:
    """Return log(fraction * 2^octaves), as `dpem.statistics.softmax.log_of_parts`."""
    if fraction < ROOT_HALF:
        fraction = fraction + fraction
        octaves = octaves - 1.0
    s = (fraction - 1.0) / (fraction + 1.0)
    square = s * s
    series = square * ATANH_TERMS[0]
    series += ATANH_TERMS[1]
    for t in range(2, 10):
        series = series * square
        series = series + ATANH_TERMS[t]
    return octaves * OCTAVE_HIGH + (octaves * OCTAVE_LOW + series * s)
