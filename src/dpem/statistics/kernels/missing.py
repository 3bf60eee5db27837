"""Moments of rows with missing cells: the operations of `dpem.statistics.missing_cells`, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import CHUNK, exp_non_positive, log_of_parts, total_of
from dpem.statistics.kernels.gaussian import (
    KINDS,
    SPHERICAL,
    TIED,
    add_moments,
    add_products,
    is_diagonal_matrix,
    layout,
    place_rows,
    round_responsibilities,
)
from dpem.statistics.missing_cells import LARGEST, SMALLEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.statistics.missing_cells import Frame, IncompletePart

__all__ = ["KINDS", "incomplete_moments", "places_of"]

# Patterns at a time: their factors for all components stay in the cache.
_FEWEST, _MOST = 16, 128
_CELLS = 1 << 17

_FRACTION = (1 << 52) - 1
_HALF = 1022 << 52


@compiled()
def _lanes(most: int, m: int) -> int:
    return min(_MOST, max(_FEWEST, _CELLS // max(1, most * most * m)))


@compiled()
def _lost(columns: Any, first: int, n: int, most: int, lost: Any) -> None:
    """Write the missing columns of n patterns, (q, n)."""
    for j in range(most):
        for i in range(n):
            lost[j, i] = columns[first + i, j]


@compiled()
def _factor(
    gram: Any, lost: Any, n: int, most: int, is_diagonal: bool, c: Any, log_sizes: Any, octaves: Any, row: Any
) -> None:
    """Write C of n patterns to `c` (q, q, n), and log |C|, as `IncompletePart.factor`."""
    bits, sizes = log_sizes.view(np.int64), row.view(np.int64)
    for i in range(n):
        log_sizes[i] = 1.0
        octaves[i] = 0.0
    for j in range(most):
        for b in range(j):
            entry = c[j, b]
            if is_diagonal:
                for i in range(n):
                    entry[i] = 0.0
                continue
            for i in range(n):
                entry[i] = gram[lost[j, i], lost[b, i]]
            for t in range(b):
                for i in range(n):
                    entry[i] -= c[j, t, i] * c[b, t, i]
            for i in range(n):
                entry[i] /= c[b, b, i]
        entry = c[j, j]
        for i in range(n):  # the last column stands for none
            entry[i] = gram[lost[j, i], lost[j, i]] if lost[j, i] < len(gram) - 1 else 1.0
        for t in range(j):
            for i in range(n):
                entry[i] -= c[j, t, i] * c[j, t, i]
        for i in range(n):
            inside = entry[i] if entry[i] >= SMALLEST else SMALLEST
            entry[i] = np.sqrt(inside if inside <= LARGEST else LARGEST)
            row[i] = entry[i]
        # Multiply fractions from 1/2 to 1, and count octaves.
        for i in range(n):
            octaves[i] += (sizes[i] >> 52) - 1022
            sizes[i] = (sizes[i] & _FRACTION) | _HALF
            log_sizes[i] *= row[i]
            octaves[i] += (bits[i] >> 52) - 1022
            bits[i] = (bits[i] & _FRACTION) | _HALF
    for i in range(n):
        log_sizes[i] = log_of_parts(log_sizes[i], octaves[i])


@compiled()
def _products(w: Any, z: Any, n: int, out: Any) -> None:
    """Write W'z, each sum in order from the first row that is not zero."""
    d = z.shape[0]
    for c in range(d):
        total = out[c]
        for i in range(n):
            total[i] = w[c, c] * z[c, i]
        a = c + 1
        while a + 4 <= d:
            w0, w1, w2, w3 = w[a, c], w[a + 1, c], w[a + 2, c], w[a + 3, c]
            z0, z1, z2, z3 = z[a], z[a + 1], z[a + 2], z[a + 3]
            for i in range(n):
                total[i] = (((total[i] + w0 * z0[i]) + w1 * z1[i]) + w2 * z2[i]) + w3 * z3[i]
            a += 4
        while a < d:
            for i in range(n):
                total[i] += w[a, c] * z[a, i]
            a += 1


@compiled()
def _subtract_products(w: Any, u: Any, n: int, z: Any) -> None:
    """Subtract W u from z, column by column in order."""
    d = z.shape[0]
    for a in range(d):
        rest = z[a]
        c = 0
        while c + 4 <= a + 1:
            w0, w1, w2, w3 = w[a, c], w[a, c + 1], w[a, c + 2], w[a, c + 3]
            u0, u1, u2, u3 = u[c], u[c + 1], u[c + 2], u[c + 3]
            for i in range(n):
                rest[i] = (((rest[i] - w0 * u0[i]) - w1 * u1[i]) - w2 * u2[i]) - w3 * u3[i]
            c += 4
        while c <= a:
            for i in range(n):
                rest[i] -= w[a, c] * u[c, i]
            c += 1


@compiled()
def _project(
    w: Any, c: Any, lost: Any, most: int, lane: Any, n: int, z: Any, u: Any, column: Any, dense: Any
) -> None:
    """Replace coordinates by their expectations given the known cells, as `IncompletePart.places`.

    If many cells are missing, products with all columns of W are faster than those with single ones. Terms of
    other columns are zeros, so that both have the same bits.
    """
    d = z.shape[0]
    is_dense = 4 * most >= d
    if is_dense:
        _products(w, z, n, dense)
    for j in range(most):
        mine = u[j]
        for i in range(n):
            column[i] = lost[j, lane[i]]
        if is_dense:
            for i in range(n):
                mine[i] = dense[column[i], i] if column[i] < d else 0.0
        else:
            for i in range(n):
                mine[i] = 0.0
            for a in range(d):
                for i in range(n):
                    mine[i] += w[a, column[i]] * z[a, i]
        for t in range(j):
            for i in range(n):
                mine[i] -= c[j, t, lane[i]] * u[t, i]
        for i in range(n):
            mine[i] /= c[j, j, lane[i]]
    for j in range(most - 1, -1, -1):
        mine = u[j]
        for t in range(most - 1, j, -1):
            for i in range(n):
                mine[i] -= c[t, j, lane[i]] * u[t, i]
        for i in range(n):
            mine[i] /= c[j, j, lane[i]]
    if is_dense:
        dense[:, :n] = 0.0
    for j in range(most):
        for i in range(n):
            column[i] = lost[j, lane[i]]
        if is_dense:
            for i in range(n):
                if column[i] < d:
                    dense[column[i], i] = u[j, i]
        else:
            for a in range(d):
                for i in range(n):
                    z[a, i] -= w[a, column[i]] * u[j, i]
    if is_dense:
        _subtract_products(w, dense, n, z)


@compiled()
def _basis(
    w: Any, c: Any, lost: Any, most: int, lanes: Any, n: int, unit: float, v: Any, null: Any, row: Any
) -> None:
    """Write V of some of the patterns, (q, d, n), and its multiple rounded to integers."""
    d = w.shape[0]
    for j in range(most):
        for a in range(d):
            for i in range(n):
                v[j, a, i] = w[a, lost[j, lanes[i]]]
        for t in range(j):
            for i in range(n):
                row[i] = c[j, t, lanes[i]]
            for a in range(d):
                for i in range(n):
                    v[j, a, i] -= v[t, a, i] * row[i]
        for i in range(n):
            row[i] = 1.0 / c[j, j, lanes[i]]
        for a in range(d):
            for i in range(n):
                v[j, a, i] *= row[i]
                null[j, a, i] = np.rint(v[j, a, i] * unit)


@compiled()
def _relative(rows: Any, start: int, n: int, centre: Any, x: Any) -> None:
    """Write rows relative to a centre, with zeros in missing cells."""
    for a in range(rows.shape[0]):
        for i in range(n):
            cell = rows[a, start + i]
            x[a, i] = 0.0 if np.isnan(cell) else cell - centre[a]


@compiled()
def _rows_of(which: Any, start: int, first: int, n_lanes: int, lane: Any) -> int:
    """Return how many of the next rows have one of the patterns, a chunk at most, and write their places."""
    n = 0
    while n < CHUNK and start + n < len(which) and which[start + n] < first + n_lanes:
        lane[n] = which[start + n] - first
        n += 1
    return n


@compiled()
def _places(
    rows: Any,
    which: Any,
    columns: Any,
    sizes: Any,
    whitening: Any,
    scales: Any,
    centre: Any,
    w: Any,
    gram: Any,
    out: Any,
) -> None:
    """Write the expected coordinates of rows in one frame to `out`."""
    d, n_rows = rows.shape
    q = columns.shape[1]
    lanes = _lanes(q, 1)
    lost, lane, column = np.empty((q, lanes), np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    c, log_sizes = np.empty((q, q, lanes)), np.empty(lanes)
    octaves, row = np.empty(lanes), np.empty(lanes)
    x, z, u, squared = np.empty((d, CHUNK)), np.empty((d, CHUNK)), np.empty((q, CHUNK)), np.empty(CHUNK)
    dense = np.empty((d, CHUNK))
    zeros = np.zeros(d)
    start = 0
    while start < n_rows:
        first = which[start]
        n_lanes = min(lanes, len(sizes) - first)
        most = sizes[first + n_lanes - 1]
        _lost(columns, first, n_lanes, most, lost)
        _factor(gram, lost, n_lanes, most, False, c, log_sizes, octaves, row)
        while start < n_rows and which[start] < first + n_lanes:
            n = _rows_of(which, start, first, n_lanes, lane)
            _relative(rows, start, n, centre, x)
            place_rows(x, n, whitening, zeros, scales, False, z, squared)
            _project(w, c, lost, most, lane, n, z, u, column, dense)
            for a in range(d):
                for i in range(n):
                    out[a, start + i] = z[a, i]
            start += n


def places_of(part: IncompletePart, frame: Frame) -> NDArray[np.float64]:
    """Return the expected coordinates of the rows in a frame, as `IncompletePart.places`."""
    out = np.empty(part.rows.shape)
    _places(
        part.rows,
        part.which,
        part.columns,
        part.sizes,
        frame.whitening,
        frame.scales,
        frame.centre,
        frame.columns,
        frame.gram,
        out,
    )
    return out


@compiled()
def _norms_of_products(null: Any, most: int, n: int, spherical: bool, inner: Any, total: Any) -> None:
    """Write |sum of v v'|^2 of each pattern, or its trace if spherical; v are integers."""
    d = null.shape[1]
    for i in range(n):
        total[i] = 0.0
    for j in range(most):
        for b in range(j, j + 1) if spherical else range(j + 1):
            for i in range(n):
                inner[i] = 0.0
            for a in range(d):
                for i in range(n):
                    inner[i] += null[b, a, i] * null[j, a, i]
            factor = 1.0 if b == j else 2.0
            for i in range(n):
                total[i] += inner[i] if spherical else factor * (inner[i] * inner[i])


@compiled()
def incomplete_moments(
    rows: Any,
    which: Any,
    columns: Any,
    sizes: Any,
    whitening: Any,
    scales: Any,
    centres: Any,
    w: Any,
    gram: Any,
    constants: Any,
    of_missing: Any,
    reach: Any,
    factors: Any,
    unit: float,
    n_framed: int,
    kind: int,
    count_units: float,
    one: float,
    largest_psi: float,
    out: Any,
) -> None:
    """Add the sums of `IncompleteMoments` over the rows of a part to `out`."""
    d, n_rows = rows.shape
    m = constants.shape[0]
    q = columns.shape[1]
    lanes = _lanes(q, m)
    lost, lane, column = np.empty((q, lanes), np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    c, log_sizes = np.empty((m, q, q, lanes)), np.empty((m, lanes))
    octaves, row = np.empty(lanes), np.empty(lanes)
    v, null, weighted_null = np.empty((q, d, lanes)), np.empty((q, d, lanes)), np.empty((d, lanes))
    active, place_of = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    own, of_lane, gathered = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    x, u, dense = np.empty((d, CHUNK)), np.empty((q, CHUNK)), np.empty((d, CHUNK))
    z = np.empty((n_framed + 1, d, CHUNK))  # the last: of components that are only counted
    squared, g = np.empty((m, CHUNK)), np.empty((m, CHUNK))
    psi, weighted, weight = np.empty((d, CHUNK)), np.empty((d, CHUNK)), np.empty(CHUNK)
    held = np.empty(CHUNK, np.int64)
    top, total, inner, norm = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    shifted, power = np.empty(CHUNK), np.empty(CHUNK)
    bits, power_bits = shifted.view(np.int64), power.view(np.int64)
    zeros = np.zeros(d)
    per, shared, others = layout(kind, d, n_framed)
    s2 = count_units * count_units
    limit = largest_psi * largest_psi
    is_diagonal = np.empty(m, np.bool_)
    for k in range(m):
        is_diagonal[k] = is_diagonal_matrix(whitening[k], 0, d)
    start = 0
    while start < n_rows:
        first = which[start]
        n_lanes = min(lanes, len(sizes) - first)
        most = sizes[first + n_lanes - 1]
        _lost(columns, first, n_lanes, most, lost)
        for k in range(m):
            _factor(gram[k], lost, n_lanes, most, is_diagonal[k], c[k], log_sizes[k], octaves, row)
        while start < n_rows and which[start] < first + n_lanes:
            n = _rows_of(which, start, first, n_lanes, lane)
            for k in range(m):
                places = z[min(k, n_framed)]
                _relative(rows, start, n, centres[k], x)
                place_rows(x, n, whitening[k], zeros, scales[k], is_diagonal[k], places, squared[k])
                if not is_diagonal[k]:  # else the coordinates of missing cells are zero already
                    _project(w[k], c[k], lost, most, lane, n, places, u, column, dense)
                    for i in range(n):
                        squared[k, i] = 0.0
                    for a in range(d):
                        for i in range(n):
                            squared[k, i] += places[a, i] * places[a, i]
                for i in range(n):
                    constant = constants[k] - log_sizes[k, lane[i]]
                    constant = constant + of_missing[sizes[first + lane[i]]]
                    g[k, i] = constant - 0.5 * squared[k, i]
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
                for i in range(n):  # rows of no weight add nothing
                    held[count] = i
                    weight[count] = g[k, i]
                    count += int(g[k, i] > 0.0)
                if count == 0:
                    continue
                # Bases of the patterns of these rows.
                for i in range(n_lanes):
                    place_of[i] = -1
                n_active = 0
                for j in range(count):
                    here = lane[held[j]]
                    if place_of[here] < 0:
                        place_of[here] = n_active
                        active[n_active] = here
                        of_lane[n_active] = 0.0
                        n_active += 1
                _basis(w[k], c[k], lost, most, active, n_active, unit, v, null, row)
                _norms_of_products(null, most, n_active, kind == SPHERICAL, gathered, own)
                for j in range(count):
                    column[j] = place_of[lane[held[j]]]
                    size = sizes[first + lane[held[j]]]
                    clipped = reach[size]
                    power[j] = factors[size] * (clipped / max(np.sqrt(squared[k, held[j]]), clipped))
                    total[j] = 0.0
                for a in range(d):
                    for j in range(count):
                        psi[a, j] = np.rint(z[k, a, held[j]] * power[j])
                        total[j] += psi[a, j] * psi[a, j]
                if kind == SPHERICAL:
                    for j in range(count):
                        both = total[j] + own[column[j]]
                        norm[j] = s2 * s2 + 2 * s2 * total[j] + both * both
                else:
                    for j in range(count):
                        norm[j] = (s2 + total[j]) * (s2 + total[j]) + own[column[j]]
                    for b in range(most):
                        for j in range(count):
                            inner[j] = 0.0
                        if n_active == count:  # each row has a pattern of its own, in the same order
                            for a in range(d):
                                for j in range(count):
                                    inner[j] += null[b, a, j] * psi[a, j]
                        else:
                            for a in range(d):
                                for j in range(count):
                                    inner[j] += null[b, a, column[j]] * psi[a, j]
                        for j in range(count):
                            norm[j] += 2 * (inner[j] * inner[j])
                for j in range(count):
                    if total[j] <= largest_psi and norm[j] <= limit:  # so written, NaN fails
                        of_lane[column[j]] += weight[j]
                    else:
                        weight[j] = 0.0
                        for a in range(d):
                            psi[a, j] = 0.0
                base = k * per
                add_moments(weight, psi, count, kind, count_units, base, shared, weighted, out)
                position = shared if kind == TIED else base + 1 + d
                for j in range(most):  # P of a pattern is the sum of the products of its vectors
                    for a in range(d):
                        for i in range(n_active):
                            if of_lane[i] == 0.0:  # not checked, and perhaps no numbers
                                null[j, a, i] = 0.0
                            weighted_null[a, i] = of_lane[i] * null[j, a, i]
                    add_products(weighted_null, null[j], n_active, kind, out, position)
            for k in range(n_framed, m):
                out[others + k - n_framed] += np.int64(total_of(g[k], n) * largest_psi)
            start += n
