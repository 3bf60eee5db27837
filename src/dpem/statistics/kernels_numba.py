"""Compiled kernels with the same bits as the NumPy code that they replace. They need the extra `fast`.

Sums whose order could change the bits are sums of integers, which are exact in any order (`reassoc`,
`contract`). All other operations are IEEE arithmetic in the order of the NumPy code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from dpem.statistics.softmax import OCTAVE_HIGH, OCTAVE_LOW, PER_OCTAVE, ROUNDER, SMALLEST, TERMS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "frame_moments", "plain_moments"]

_CHUNK = 256  # rows at a time, so that buffers stay in the L1 cache, and sums of products below 2^50
FULL, TIED, DIAG, SPHERICAL = 0, 1, 2, 3
KINDS = {"full": FULL, "tied": TIED, "diag": DIAG, "spherical": SPHERICAL}


def _compiled(**options: Any) -> Callable[[Any], Any]:
    def compile_lazily(function: Any) -> Any:
        settings = {"nogil": True, "error_model": "numpy", **options}
        try:
            return numba.njit(cache=True, **settings)(function)
        except RuntimeError:  # no cache folder for compiled code: compile in every process
            return numba.njit(**settings)(function)

    return compile_lazily


@_compiled(fastmath={"reassoc", "contract", "nsz"})
def _dot(a: Any, b: Any, n: int) -> float:
    """Sum products of integers. The sum is exact in any order."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@_compiled(fastmath={"reassoc", "contract", "nsz"})
def _sum(a: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += a[i]
    return total


@_compiled(fastmath={"contract"})
def _add_times(target: Any, factor: float, x: Any, start: int, n: int) -> None:
    """Add factor * x to target. All are integers, so the sums are exact."""
    for i in range(n):
        target[i] += factor * x[start + i]


@_compiled(fastmath={"contract"})
def _add_four_times(target: Any, factors: Any, c: int, x: Any, start: int, n: int) -> None:
    """Add four products at once, so that the target is read and written only once."""
    f0, f1, f2, f3 = factors[c], factors[c + 1], factors[c + 2], factors[c + 3]
    x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
    for i in range(n):
        j = start + i
        target[i] += f0 * x0[j] + f1 * x1[j] + f2 * x2[j] + f3 * x3[j]


@_compiled(fastmath={"reassoc", "contract", "nsz"})
def _four_dots(a: Any, b: Any, c: int, n: int) -> tuple[float, float, float, float]:
    """Return four sums of products of integers, so that `a` is read only once."""
    b0, b1, b2, b3 = b[c], b[c + 1], b[c + 2], b[c + 3]
    s0 = s1 = s2 = s3 = 0.0
    for i in range(n):
        s0 += a[i] * b0[i]
        s1 += a[i] * b1[i]
        s2 += a[i] * b2[i]
        s3 += a[i] * b3[i]
    return s0, s1, s2, s3


@_compiled()
def _exp(x: Any, n: int, shifted: Any, bits: Any, power: Any, power_bits: Any) -> None:
    """Replace x by exp(x), as `dpem.statistics.softmax.exp_non_positive` computes it."""
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


@_compiled()
def frame_moments(  # noqa: PLR0912, PLR0915  (the whole E-step in one pass over the rows)
    rows: Any,
    whitening: Any,
    offsets: Any,
    scales: Any,
    constants: Any,
    n_framed: int,
    kind: int,
    clip: float,
    per_unit: float,
    count_units: float,
    one: float,
    largest_psi: float,
    out: Any,
) -> None:
    """Add the sums of `FrameMoments.sum_block` to `out`. Whitening matrices are lower triangles."""
    d, n_rows = rows.shape
    m = constants.shape[0]
    z = np.empty((m, d, _CHUNK))
    squared = np.empty((m, _CHUNK))
    g = np.empty((m, _CHUNK))
    largest = np.empty(_CHUNK)
    total = np.empty(_CHUNK)
    weighted = np.empty(_CHUNK)
    shifted = np.empty(_CHUNK)
    bits = shifted.view(np.int64)
    power = np.empty(_CHUNK)
    power_bits = power.view(np.int64)
    triangle = d * (d + 1) // 2
    if kind == FULL:
        per = 1 + d + triangle
    elif kind == TIED:
        per = 1 + d
    elif kind == DIAG:
        per = 1 + d + d
    else:
        per = 1 + d + 1
    shared = n_framed * per
    others = shared + (triangle if kind == TIED else 0)
    room = largest_psi - count_units * count_units
    for start in range(0, n_rows, _CHUNK):
        n = min(_CHUNK, n_rows - start)
        for k in range(m):
            for i in range(n):
                squared[k, i] = 0.0
            for a in range(d):
                for i in range(n):
                    z[k, a, i] = -offsets[k, a]
                whole = (a + 1) // 4 * 4
                for c in range(0, whole, 4):
                    _add_four_times(z[k, a], whitening[k * d + a], c, rows, start, n)
                for c in range(whole, a + 1):
                    _add_times(z[k, a], whitening[k * d + a, c], rows[c], start, n)
                scale = scales[k, a]
                for i in range(n):
                    place = z[k, a, i] * scale
                    z[k, a, i] = place
                    squared[k, i] += place * place
            constant = constants[k]
            for i in range(n):
                g[k, i] = constant - 0.5 * squared[k, i]
            if k == 0:
                for i in range(n):
                    largest[i] = g[k, i]
            else:
                for i in range(n):
                    largest[i] = max(largest[i], g[k, i])
        for k in range(m):
            for i in range(n):
                g[k, i] -= largest[i]
            _exp(g[k], n, shifted, bits, power, power_bits)
            if k == 0:
                for i in range(n):
                    total[i] = g[k, i]
            else:
                for i in range(n):
                    total[i] += g[k, i]
        for i in range(n):
            largest[i] = 0.0  # now the norm, or the sum, of the rounded responsibilities
        for k in range(m):
            if kind == TIED:
                for i in range(n):
                    g[k, i] = np.floor(g[k, i] / total[i] * one)
                    largest[i] += g[k, i]
            else:
                for i in range(n):
                    g[k, i] = np.rint(g[k, i] / total[i] * one)
                    largest[i] += g[k, i] * g[k, i]
        limit = one if kind == TIED else one * one
        for i in range(n):
            if not largest[i] <= limit:  # NaN fails the comparison, too
                for k in range(m):
                    g[k, i] = 0.0
        for k in range(n_framed):
            for i in range(n):
                power[i] = per_unit * (clip / max(np.sqrt(squared[k, i]), clip))
                total[i] = 0.0
            for a in range(d):
                for i in range(n):
                    z[k, a, i] = np.rint(z[k, a, i] * power[i])
                    total[i] += z[k, a, i] * z[k, a, i]
            for i in range(n):
                if not total[i] <= room:
                    for a in range(d):
                        z[k, a, i] = 0.0
            base = k * per
            out[base] += np.int64(_sum(g[k], n) * count_units * count_units)
            position = shared if kind == TIED else base + 1 + d
            for a in range(d):
                for i in range(n):
                    weighted[i] = g[k, i] * z[k, a, i]
                out[base + 1 + a] += np.int64(_sum(weighted, n) * count_units)
                if kind == DIAG:
                    out[position + a] += np.int64(_dot(weighted, z[k, a], n))
                elif kind == SPHERICAL:
                    out[position] += np.int64(_dot(weighted, z[k, a], n))
                else:
                    whole = a + (d - a) // 4 * 4
                    for c in range(a, whole, 4):
                        s0, s1, s2, s3 = _four_dots(weighted, z[k], c, n)
                        out[position] += np.int64(s0)
                        out[position + 1] += np.int64(s1)
                        out[position + 2] += np.int64(s2)
                        out[position + 3] += np.int64(s3)
                        position += 4
                    for c in range(whole, d):
                        out[position] += np.int64(_dot(weighted, z[k, c], n))
                        position += 1
        for k in range(n_framed, m):
            out[others + k - n_framed] += np.int64(_sum(g[k], n) * largest_psi)


@_compiled()
def plain_moments(  # noqa: PLR0912  (one pass over the rows)
    rows: Any, means: Any, whitening: Any, constants: Any, counts: Any, sums: Any, squares: Any
) -> float:
    """Add weighted moments in frames, without rounding or clipping, and return the log-likelihood."""
    d, n_rows = rows.shape
    m = constants.shape[0]
    relative = np.empty((d, _CHUNK))
    z = np.empty((m, d, _CHUNK))
    g = np.empty((m, _CHUNK))
    largest = np.empty(_CHUNK)
    total = np.empty(_CHUNK)
    weighted = np.empty(_CHUNK)
    shifted = np.empty(_CHUNK)
    bits = shifted.view(np.int64)
    power = np.empty(_CHUNK)
    power_bits = power.view(np.int64)
    likelihood = 0.0
    for start in range(0, n_rows, _CHUNK):
        n = min(_CHUNK, n_rows - start)
        for i in range(n):
            largest[i] = -np.inf
            total[i] = 0.0
        for k in range(m):
            for a in range(d):
                for i in range(n):
                    relative[a, i] = rows[a, start + i] - means[k, a]
            for i in range(n):
                g[k, i] = 0.0
            for a in range(d):
                for i in range(n):
                    z[k, a, i] = 0.0
                for c in range(a + 1):
                    _add_times(z[k, a], whitening[k, a, c], relative[c], 0, n)
                for i in range(n):
                    g[k, i] += z[k, a, i] * z[k, a, i]
            for i in range(n):
                g[k, i] = constants[k] - 0.5 * g[k, i]
                largest[i] = max(largest[i], g[k, i])
        for k in range(m):
            for i in range(n):
                g[k, i] -= largest[i]
            _exp(g[k], n, shifted, bits, power, power_bits)
            for i in range(n):
                total[i] += g[k, i]
        for i in range(n):
            likelihood += largest[i] + np.log(total[i])
            total[i] = 1 / total[i]
        for k in range(m):
            for i in range(n):
                g[k, i] *= total[i]
            counts[k] += _sum(g[k], n)
            for a in range(d):
                for i in range(n):
                    weighted[i] = g[k, i] * z[k, a, i]
                sums[k, a] += _sum(weighted, n)
                for c in range(a + 1):
                    squares[k, a, c] += _dot(weighted, z[k, c], n)
    return likelihood
