"""Moments of rows with missing cells, whose frames depend on the pattern of their missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import EXACT_SUMS, compiled
from dpem.statistics.kernels.arithmetic import CHUNK, exp_non_positive, total_of
from dpem.statistics.kernels.gaussian import (
    KINDS,
    SPHERICAL,
    TIED,
    add_moments,
    layout,
    round_responsibilities,
)

__all__ = ["KINDS", "incomplete_moments", "places"]


@compiled(**EXACT_SUMS)
def _product(matrix: Any, a: int, x: Any) -> float:
    """Return the product of a row of a matrix with a vector of integers."""
    total = 0.0
    for j in range(len(x)):
        total += matrix[a, j] * x[j]
    return total


@compiled()
def places(rows: Any, which: Any, whitening: Any, offsets: Any, scales: Any, z: Any) -> None:
    """Write the coordinates of rows (d, n) in the frame of their patterns to `z`; missing cells are zero."""
    d, n = rows.shape
    x = np.empty(d)
    for i in range(n):
        pattern = which[i]
        for a in range(d):
            x[a] = rows[a, i]
        for a in range(d):
            z[a, i] = (_product(whitening[pattern], a, x) - offsets[pattern, a]) * scales[pattern, a]


@compiled(**EXACT_SUMS)
def _quadratic(matrix: Any, x: Any) -> float:
    """Return x' M x for integers."""
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            total += matrix[i, j] * (x[i] * x[j])
    return total


@compiled()
def incomplete_moments(
    rows: Any,
    which: Any,
    whitening: Any,
    offsets: Any,
    scales: Any,
    constants: Any,
    reach: Any,
    factors: Any,
    spread: Any,
    own: Any,
    trace: Any,
    kind: int,
    count_units: float,
    one: float,
    largest: int,
    largest_psi: float,
    of_pattern: Any,
    out: Any,
) -> None:
    """Add the sums of `IncompleteMoments` to `out`, and the weights of the patterns (k, p) to `of_pattern`.

    Rows (d, n) have zeros in place of missing cells. `spread` (k, p, d, d) is P of each pattern, in integers,
    and `own` its squared norm, `trace` its trace. A clipped row is `factors * reach` long at most.
    """
    d, n_rows = rows.shape
    m, n_framed = constants.shape[0], spread.shape[0]
    x = np.empty(d)
    z = np.empty((n_framed + 1, CHUNK, d))
    squared = np.empty((m, CHUNK))
    g = np.empty((m, CHUNK))
    psi, weighted, weight = np.empty((d, CHUNK)), np.empty((d, CHUNK)), np.empty(CHUNK)
    row = np.empty(d)
    top, total = np.empty(CHUNK), np.empty(CHUNK)
    shifted, power = np.empty(CHUNK), np.empty(CHUNK)
    bits, power_bits = shifted.view(np.int64), power.view(np.int64)
    per, shared, others = layout(kind, d, n_framed)
    s2 = np.int64(count_units) * np.int64(count_units)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        for i in range(n):
            pattern = which[start + i]
            for a in range(d):
                x[a] = rows[a, start + i]
            for k in range(m):
                length = 0.0
                matrix, place = whitening[k, pattern], z[min(k, n_framed), i]
                for a in range(d):
                    place[a] = (_product(matrix, a, x) - offsets[k, pattern, a]) * scales[k, pattern, a]
                    length += place[a] * place[a]
                squared[k, i] = length
                g[k, i] = constants[k, pattern] - 0.5 * length
        for k in range(m):
            for i in range(n):
                top[i] = g[k, i] if k == 0 else max(top[i], g[k, i])
        for k in range(m):
            for i in range(n):
                g[k, i] -= top[i]
            exp_non_positive(g[k], n, shifted, bits, power, power_bits)
            for i in range(n):
                total[i] = g[k, i] if k == 0 else total[i] + g[k, i]
        round_responsibilities(g, n, total, one, kind == TIED, top)
        for k in range(n_framed):
            count = 0
            for i in range(n):
                if not g[k, i] > 0.0:
                    continue  # a row of no weight adds nothing
                pattern = which[start + i]
                clipped = reach[pattern]
                scale = factors[pattern] * (clipped / max(np.sqrt(squared[k, i]), clipped))
                length = 0.0
                for a in range(d):
                    row[a] = np.rint(z[k, i, a] * scale)
                    length += row[a] * row[a]
                if not length <= largest_psi:
                    continue
                whole = np.int64(length)
                if kind == SPHERICAL:
                    norm = s2 * s2 + 2 * s2 * whole + (whole + trace[k, pattern]) ** 2
                else:
                    across = np.int64(_quadratic(spread[k, pattern], row))
                    norm = (s2 + whole) ** 2 + 2 * across + own[k, pattern]
                if norm > largest:
                    continue
                weight[count] = g[k, i]
                of_pattern[k, pattern] += np.int64(g[k, i])
                for a in range(d):
                    psi[a, count] = row[a]
                count += 1
            add_moments(weight, psi, count, kind, count_units, k * per, shared, weighted, out)
        for k in range(n_framed, m):
            out[others + k - n_framed] += np.int64(total_of(g[k], n) * largest_psi)
