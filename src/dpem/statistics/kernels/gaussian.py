"""The E-step of Gaussian mixtures: one pass over the rows, from their cells to the sums of their moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import (
    CHUNK,
    add_combination,
    add_combinations,
    add_outer_products,
    dot,
    exp_non_positive,
    load,
    total_of,
)

__all__ = [
    "KINDS",
    "add_moments",
    "add_products",
    "frame_moments",
    "frame_sizes",
    "is_diagonal_matrix",
    "layout",
    "place_rows",
    "plain_moments",
    "round_responsibilities",
]

FULL, TIED, DIAG, SPHERICAL = 0, 1, 2, 3
KINDS = {"full": FULL, "tied": TIED, "diag": DIAG, "spherical": SPHERICAL}


@compiled()
def place_rows(
    x: Any, n: int, whitening: Any, offsets: Any, scales: Any, is_diagonal: bool, z: Any, squared: Any
) -> None:
    """Return the places of rows in one frame, (d, n), and their squared distances from its origin."""
    d = x.shape[0]
    for a in range(d):
        for i in range(n):
            z[a, i] = -offsets[a]
    if is_diagonal:
        for a in range(d):
            factor = whitening[a, a]
            for i in range(n):
                z[a, i] += factor * x[a, i]
    else:
        for a in range(0, d - 1, 2):
            add_combinations(z[a], z[a + 1], whitening[a], whitening[a + 1], a + 1, x, n)
            factor = whitening[a + 1, a + 1]
            for i in range(n):
                z[a + 1, i] += factor * x[a + 1, i]
        if d % 2 == 1:
            add_combination(z[d - 1], whitening[d - 1], d, x, n)
    for i in range(n):
        squared[i] = 0.0
    for a in range(d):
        scale = scales[a]
        for i in range(n):
            place = z[a, i] * scale
            z[a, i] = place
            squared[i] += place * place


@compiled()
def is_diagonal_matrix(whitening: Any, k: int, d: int) -> bool:
    """Return whether the whitening matrix of component k is diagonal."""
    for a in range(d):
        for c in range(a):
            if whitening[k * d + a, c] != 0.0:
                return False
    return True


@compiled()
def round_responsibilities(g: Any, n: int, total: Any, one: float, pooled: bool, norm: Any) -> None:
    """Round responsibilities to multiples of 2^-16. A row whose norm is too large becomes zero."""
    m = g.shape[0]
    for i in range(n):
        norm[i] = 0.0
    for k in range(m):
        if pooled:
            for i in range(n):
                share = np.floor(g[k, i] / total[i] * one)
                g[k, i] = share
                norm[i] += share
        else:
            for i in range(n):
                share = np.rint(g[k, i] / total[i] * one)
                g[k, i] = share
                norm[i] += share * share
    limit = one if pooled else one * one
    for i in range(n):
        if not norm[i] <= limit:  # so written, the condition includes NaN
            for k in range(m):
                g[k, i] = 0.0


@compiled()
def layout(kind: int, d: int, n_framed: int) -> tuple[int, int, int]:
    """Return the entries of one component, and the places of pooled second moments and of other counts."""
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
    return per, shared, shared + (triangle if kind == TIED else 0)


@compiled()
def add_products(a: Any, b: Any, n: int, kind: int, out: Any, position: int) -> None:
    """Add the second moments that a covariance releases, sum_i a_i b_i'."""
    d = a.shape[0]
    if kind == DIAG:
        for i in range(d):
            out[position + i] += np.int64(dot(a[i], b[i], n))
    elif kind == SPHERICAL:
        for i in range(d):
            out[position] += np.int64(dot(a[i], b[i], n))
    else:
        add_outer_products(a, b, d, n, out, position)


@compiled()
def add_moments(
    weight: Any,
    psi: Any,
    count: int,
    kind: int,
    count_units: float,
    base: int,
    shared: int,
    weighted: Any,
    out: Any,
) -> None:
    """Add the weighted moments of rows psi (d, count) of one component to `out` from `base` on."""
    d = psi.shape[0]
    out[base] += np.int64(total_of(weight, count) * count_units * count_units)
    for a in range(d):
        for j in range(count):
            weighted[a, j] = weight[j] * psi[a, j]
        out[base + 1 + a] += np.int64(total_of(weighted[a], count) * count_units)
    add_products(weighted, psi, count, kind, out, shared if kind == TIED else base + 1 + d)


@compiled()
def frame_moments(
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
    x = np.empty((d, CHUNK))
    z = np.empty((n_framed + 1, d, CHUNK))  # the last: of components that are only counted
    squared = np.empty((m, CHUNK))
    g = np.empty((m, CHUNK))
    psi = np.empty((d, CHUNK))
    weighted = np.empty((d, CHUNK))
    weight = np.empty(CHUNK)
    held = np.empty(CHUNK, np.int64)
    largest = np.empty(CHUNK)
    total = np.empty(CHUNK)
    shifted = np.empty(CHUNK)
    bits = shifted.view(np.int64)
    power = np.empty(CHUNK)
    power_bits = power.view(np.int64)
    is_diagonal = np.empty(m, np.bool_)
    for k in range(m):
        is_diagonal[k] = is_diagonal_matrix(whitening, k, d)
    per, shared, others = layout(kind, d, n_framed)
    room = largest_psi - count_units * count_units
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        for k in range(m):
            place_rows(
                x,
                n,
                whitening[k * d : (k + 1) * d],
                offsets[k],
                scales[k],
                is_diagonal[k],
                z[min(k, n_framed)],
                squared[k],
            )
            constant = constants[k]
            if k == 0:
                for i in range(n):
                    g[k, i] = constant - 0.5 * squared[k, i]
                    largest[i] = g[k, i]
            else:
                for i in range(n):
                    g[k, i] = constant - 0.5 * squared[k, i]
                    largest[i] = max(largest[i], g[k, i])
        for k in range(m):
            for i in range(n):
                g[k, i] -= largest[i]
            exp_non_positive(g[k], n, shifted, bits, power, power_bits)
            if k == 0:
                for i in range(n):
                    total[i] = g[k, i]
            else:
                for i in range(n):
                    total[i] += g[k, i]
        round_responsibilities(g, n, total, one, kind == TIED, largest)
        for k in range(n_framed):
            count = 0
            for i in range(n):  # rows of no weight add nothing
                held[count] = i
                weight[count] = g[k, i]
                count += int(g[k, i] > 0.0)
            if count == 0:
                continue
            for j in range(count):
                total[j] = squared[k, held[j]]
            for j in range(count):
                power[j] = per_unit * (clip / max(np.sqrt(total[j]), clip))
                total[j] = 0.0
            for a in range(d):
                for j in range(count):
                    psi[a, j] = z[k, a, held[j]]
                for j in range(count):
                    psi[a, j] = np.rint(psi[a, j] * power[j])
                    total[j] += psi[a, j] * psi[a, j]
            for j in range(count):
                if not total[j] <= room:
                    for a in range(d):
                        psi[a, j] = 0.0
            add_moments(weight, psi, count, kind, count_units, k * per, shared, weighted, out)
        for k in range(n_framed, m):
            out[others + k - n_framed] += np.int64(total_of(g[k], n) * largest_psi)


@compiled()
def frame_sizes(
    rows: Any, whitening: Any, offsets: Any, scales: Any, cap: float, largest: float, out: Any
) -> None:
    """Add the sum of `FrameSizes.sum_block` to `out`."""
    d, n_rows = rows.shape
    x = np.empty((d, CHUNK))
    z = np.empty((d, CHUNK))
    squared = np.empty(CHUNK)
    is_diagonal = is_diagonal_matrix(whitening, 0, d)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        place_rows(x, n, whitening, offsets, scales, is_diagonal, z, squared)
        for i in range(n):
            part = squared[i] / cap
            squared[i] = np.floor((min(1.0, part)) * largest)
        out[0] += np.int64(total_of(squared, n))


@compiled()
def plain_moments(
    rows: Any, means: Any, whitening: Any, constants: Any, counts: Any, sums: Any, squares: Any
) -> float:
    """Add weighted moments in frames, neither rounded nor clipped; return the log-likelihood."""
    d, n_rows = rows.shape
    m = constants.shape[0]
    relative = np.empty((d, CHUNK))
    z = np.empty((m, d, CHUNK))
    g = np.empty((m, CHUNK))
    largest = np.empty(CHUNK)
    total = np.empty(CHUNK)
    weighted = np.empty(CHUNK)
    shifted = np.empty(CHUNK)
    bits = shifted.view(np.int64)
    power = np.empty(CHUNK)
    power_bits = power.view(np.int64)
    likelihood = 0.0
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
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
                add_combination(z[k, a], whitening[k, a], a + 1, relative, n)
                for i in range(n):
                    g[k, i] += z[k, a, i] * z[k, a, i]
            for i in range(n):
                g[k, i] = constants[k] - 0.5 * g[k, i]
                largest[i] = max(largest[i], g[k, i])
        for k in range(m):
            for i in range(n):
                g[k, i] -= largest[i]
            exp_non_positive(g[k], n, shifted, bits, power, power_bits)
            for i in range(n):
                total[i] += g[k, i]
        for i in range(n):
            likelihood += largest[i] + np.log(total[i])
            total[i] = 1 / total[i]
        for k in range(m):
            for i in range(n):
                g[k, i] *= total[i]
            counts[k] += total_of(g[k], n)
            for a in range(d):
                for i in range(n):
                    weighted[i] = g[k, i] * z[k, a, i]
                sums[k, a] += total_of(weighted, n)
                for c in range(a + 1):
                    squares[k, a, c] += dot(weighted, z[k, c], n)
    return likelihood
