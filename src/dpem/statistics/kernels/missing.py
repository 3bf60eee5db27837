"""Moments of rows with missing cells: `dpem.statistics.gaussian_missing` in one call for a whole block."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import EXACT_SUMS, compiled
from dpem.statistics.kernels.arithmetic import CHUNK, exp_non_positive, total_of
from dpem.statistics.kernels.gaussian import (
    KINDS,
    SPHERICAL,
    TIED,
    add_products,
    frame_moments,
    is_diagonal_matrix,
    layout,
    round_responsibilities,
)
from dpem.statistics.kernels.missing_places import coordinate_buffers, coordinates, subtract_product
from dpem.statistics.kernels.patterns import (
    WINDOW,
    count_cells,
    find_lost,
    gather,
    most_cells,
    next_chunk,
    of_rows,
    sort_by_pattern,
    sorting_buffers,
)

__all__ = ["KINDS", "centred_moments", "incomplete_moments"]


@compiled()
def centred_moments(
    rows: Any,
    centre: Any,
    one_cell: int,
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
    """Add the sums of `CentredMoments.sum_block` to `out`."""
    d, n_rows = rows.shape
    buffer = np.empty(d * WINDOW, rows.dtype)
    moments, counts = out[: len(out) - d], out[len(out) - d :]
    for start in range(0, n_rows, WINDOW):
        n = min(WINDOW, n_rows - start)
        whole = buffer[: d * n].reshape((d, n))
        for a in range(d):
            target, middle = whole[a], centre[a]
            known = 0
            for i in range(n):
                cell = rows[a, start + i]
                is_known = not np.isnan(cell)
                target[i] = cell if is_known else middle
                known += int(is_known)
            counts[a] += known * one_cell
        frame_moments(
            whole,
            whitening,
            offsets,
            scales,
            constants,
            n_framed,
            kind,
            clip,
            per_unit,
            count_units,
            one,
            largest_psi,
            moments,
        )


@compiled()
def _basis(
    w: Any, c: Any, lost: Any, most: int, n_lanes: int, unit: float, v: Any, null: Any, start: int, row: Any
) -> None:
    """Write V of each lane to `v` (d, q * lanes), and its multiple rounded to integers to `null`."""
    d = w.shape[0]
    for j in range(most):
        here = lost[j]
        for i in range(n_lanes):
            row[i] = 1.0 / c[j, j, i]
        for a in range(d):
            factors, mine = w[a], v[a, j * n_lanes : (j + 1) * n_lanes]
            rounded = null[a, start + j * n_lanes : start + (j + 1) * n_lanes]
            for i in range(n_lanes):
                mine[i] = factors[here[i]]
            t = 0
            while t + 2 <= j:
                v0, v1 = v[a, t * n_lanes : (t + 1) * n_lanes], v[a, (t + 1) * n_lanes : (t + 2) * n_lanes]
                c0, c1 = c[j, t], c[j, t + 1]
                for i in range(n_lanes):
                    mine[i] = (mine[i] - v0[i] * c0[i]) - v1[i] * c1[i]
                t += 2
            if t < j:
                subtract_product(mine, v[a, t * n_lanes : (t + 1) * n_lanes], c[j, t], n_lanes)
            for i in range(n_lanes):
                mine[i] *= row[i]
                rounded[i] = np.rint(mine[i] * unit)


@compiled(**EXACT_SUMS)
def _dots(a: Any, at: int, b: Any, beside: int, n: int, out: Any) -> None:
    """Write the sums over columns of products of integers: of n rows of `a` from `at` with those of `b`.

    Sums below 2^53 are exact in every order. Where a basis is so large that they are not, its own squares
    exceed the limit.
    """
    d = a.shape[0]
    for i in range(n):
        out[i] = 0.0
    c = 0
    while c + 4 <= d:
        a0, a1, a2, a3 = a[c, at:], a[c + 1, at:], a[c + 2, at:], a[c + 3, at:]
        b0, b1, b2, b3 = b[c, beside:], b[c + 1, beside:], b[c + 2, beside:], b[c + 3, beside:]
        for i in range(n):
            out[i] += (a0[i] * b0[i] + a1[i] * b1[i]) + (a2[i] * b2[i] + a3[i] * b3[i])
        c += 4
    while c < d:
        a0, b0 = a[c, at:], b[c, beside:]
        for i in range(n):
            out[i] += a0[i] * b0[i]
        c += 1


@compiled()
def _norms_of_products(
    null: Any, start: int, most: int, n: int, spherical: bool, inner: Any, total: Any
) -> None:
    """Write |sum of v v'|^2 of each lane, or its trace if spherical; v are integers."""
    for i in range(n):
        total[i] = 0.0
    for j in range(most):
        for b in range(j, j + 1) if spherical else range(j + 1):
            _dots(null, start + b * n, null, start + j * n, n, inner)
            factor = 1.0 if b == j else 2.0
            for i in range(n):
                total[i] += inner[i] if spherical else factor * (inner[i] * inner[i])


@compiled()
def _add_rows(
    n: int,
    lane: Any,
    n_lanes: int,
    most: int,
    size: Any,
    w: Any,
    c: Any,
    lost: Any,
    z: Any,
    squared: Any,
    weight: Any,
    limits: Any,
    kind: int,
    base: int,
    shared: int,
    scratch: Any,
    out: Any,
) -> None:
    """Add the moments of rows with coordinates z (d, n) in the frame of one component."""
    reach, factors, unit, count_units, largest_psi = limits
    all_both, all_weighted, all_v, of_lane, own, total, norm, inner, power, row = scratch
    d = z.shape[0]
    own_lanes = n_lanes == n
    s2 = count_units * count_units
    limit = largest_psi * largest_psi
    length = n + most * n_lanes
    # Both psi of the rows and the bases of the lanes, one after the other.
    both = all_both[: d * length].reshape((d, length))
    weighted = all_weighted[: d * length].reshape((d, length))
    v = all_v[: d * most * n_lanes].reshape((d, most * n_lanes))
    _basis(w, c, lost, most, n_lanes, unit, v, both, n, row)
    _norms_of_products(both, n, most, n_lanes, kind == SPHERICAL, inner, own)
    for i in range(n):
        clipped = reach[size[i]]
        power[i] = factors[size[i]] * (clipped / max(np.sqrt(squared[i]), clipped))
        total[i] = 0.0
    for a in range(d):
        source, target = z[a], both[a]
        for i in range(n):
            psi = np.rint(source[i] * power[i])
            target[i] = psi
            total[i] += psi * psi
    of_pattern = of_rows(own, lane, n, own_lanes, row)
    if kind == SPHERICAL:
        for i in range(n):
            sum_of_both = total[i] + of_pattern[i]
            norm[i] = s2 * s2 + 2 * s2 * total[i] + sum_of_both * sum_of_both
    else:
        for i in range(n):
            norm[i] = (s2 + total[i]) * (s2 + total[i]) + of_pattern[i]
        for b in range(most):
            first = n + b * n_lanes
            if own_lanes:
                _dots(both, first, both, 0, n, inner)
            else:
                for i in range(n):
                    inner[i] = 0.0
                for a in range(d):
                    psi_a, vector = both[a], both[a, first:]
                    for i in range(n):
                        inner[i] += vector[lane[i]] * psi_a[i]
            for i in range(n):
                norm[i] += 2 * (inner[i] * inner[i])
    for i in range(n_lanes):
        of_lane[i] = 0.0
    all_fit = True
    for i in range(n):
        if total[i] <= largest_psi and norm[i] <= limit:  # so written, NaN fails
            of_lane[lane[i]] += weight[i]
        else:
            all_fit = False
            weight[i] = 0.0
            for a in range(d):
                both[a, i] = 0.0
    if not all_fit:  # bases without weight were not checked, and are perhaps no numbers
        for i in range(n_lanes):
            if of_lane[i] == 0.0:
                for j in range(most):
                    for a in range(d):
                        both[a, n + j * n_lanes + i] = 0.0
    out[base] += np.int64(total_of(weight, n) * count_units * count_units)
    for a in range(d):
        source, target = both[a], weighted[a]
        for i in range(n):
            target[i] = weight[i] * source[i]
        out[base + 1 + a] += np.int64(total_of(target, n) * count_units)
        for j in range(most):
            first = n + j * n_lanes
            some, weighted_some = source[first:], target[first:]
            for i in range(n_lanes):
                weighted_some[i] = of_lane[i] * some[i]
    # psi psi' + P of a row is below 2^26 in every entry, and its weight at most 2^16: sums stay below 2^50.
    add_products(weighted, both, length, kind, out, shared if kind == TIED else base + 1 + d)


@compiled()
def incomplete_moments(
    rows: Any,
    whitening: Any,
    scales: Any,
    centres: Any,
    w: Any,
    gram: Any,
    constants: Any,
    offsets: Any,
    of_missing: Any,
    reach: Any,
    factors: Any,
    unit: float,
    n_framed: int,
    kind: int,
    clip: float,
    per_unit: float,
    count_units: float,
    one: float,
    largest_psi: float,
    out: Any,
) -> None:
    """Add the sums of `IncompleteMoments.sum_block` to `out`."""
    d, n_rows = rows.shape
    m = constants.shape[0]
    n_complete, largest = count_cells(rows)
    whole = np.empty((d, n_complete if n_complete < n_rows else 0), rows.dtype)
    order, pattern, size = np.empty(WINDOW, np.int64), np.empty(WINDOW, np.int64), np.empty(WINDOW, np.int64)
    sorting, scratch = sorting_buffers(d), coordinate_buffers(d, largest)
    lane, leader, found = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    lost = np.empty((largest + 1, CHUNK), np.uint32)
    all_c = np.empty(most_cells(largest * largest))
    n_cells = most_cells((largest + 1) * d) + CHUNK * d
    moving = (
        np.empty(n_cells),
        np.empty(n_cells),
        np.empty(n_cells),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
    )
    cells, z = np.empty((d, CHUNK)), np.empty((d, CHUNK))
    log_sizes, squared, sizes = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK, np.int64)
    g, top, total, weight = np.empty((m, CHUNK)), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    shifted, power = np.empty(CHUNK), np.empty(CHUNK)
    bits, power_bits = shifted.view(np.int64), power.view(np.int64)
    held, weights = np.empty((n_framed, WINDOW), np.int64), np.empty((n_framed, WINDOW))
    n_held = np.empty(n_framed, np.int64)
    per, shared, others = layout(kind, d, n_framed)
    limits = (reach, factors, unit, count_units, largest_psi)
    is_diagonal = np.empty(m, np.bool_)
    for k in range(m):
        is_diagonal[k] = is_diagonal_matrix(whitening[k], 0, d)
    complete = 0
    for start in range(0, n_rows if n_complete < n_rows else 0, WINDOW):
        n_window = min(WINDOW, n_rows - start)
        count = sort_by_pattern(rows, start, n_window, sorting, order, pattern, size)
        for i in range(n_window):
            if size[i] == 0:
                for a in range(d):
                    whole[a, complete] = rows[a, start + i]
                complete += 1
        n_held[:] = 0
        first = 0
        while first < count:
            n, n_lanes, most = next_chunk(order, first, count, pattern, size, 0, lane, leader)
            c = all_c[: most * most * n_lanes].reshape((most, most, n_lanes))
            gather(rows, start, order, first, n, cells)
            find_lost(cells, leader, n_lanes, most, lost, found)
            for k in range(m):
                frame = (whitening[k], scales[k], centres[k], w[k], gram[k])
                coordinates(
                    cells,
                    n,
                    lane,
                    lost,
                    n_lanes,
                    most,
                    frame,
                    is_diagonal[k],
                    c,
                    log_sizes,
                    z,
                    squared,
                    scratch,
                )
                joint = g[k]
                for i in range(n):
                    constant = constants[k] - log_sizes[lane[i]]
                    constant = constant + of_missing[size[order[first + i]]]
                    # No finite number, if the squared norm is none.
                    joint[i] = constant - 0.5 * (squared[i] + 0.0 * squared[i])
                    top[i] = joint[i] if k == 0 else max(top[i], joint[i])
            for k in range(m):
                joint = g[k]
                for i in range(n):
                    joint[i] -= top[i]
                exp_non_positive(joint, n, shifted, bits, power, power_bits)
                for i in range(n):
                    total[i] = joint[i] if k == 0 else total[i] + joint[i]
            round_responsibilities(g, n, total, one, kind == TIED, top)
            for k in range(n_framed):  # rows of no weight add nothing
                joint, rows_of, weights_of, number = g[k], held[k], weights[k], n_held[k]
                for i in range(n):
                    if joint[i] > 0.0:
                        rows_of[number] = order[first + i]
                        weights_of[number] = joint[i]
                        number += 1
                n_held[k] = number
            for k in range(n_framed, m):
                out[others + k - n_framed] += np.int64(total_of(g[k], n) * largest_psi)
            first += n
        # Coordinates are computed again for rows with weight, which are few for each component. So more rows
        # fit into a chunk than if all components kept theirs.
        for k in range(n_framed):
            frame = (whitening[k], scales[k], centres[k], w[k], gram[k])
            first = 0
            while first < n_held[k]:
                n, n_lanes, most = next_chunk(held[k], first, n_held[k], pattern, size, d, lane, leader)
                c = all_c[: most * most * n_lanes].reshape((most, most, n_lanes))
                gather(rows, start, held[k], first, n, cells)
                find_lost(cells, leader, n_lanes, most, lost, found)
                coordinates(
                    cells,
                    n,
                    lane,
                    lost,
                    n_lanes,
                    most,
                    frame,
                    is_diagonal[k],
                    c,
                    log_sizes,
                    z,
                    squared,
                    scratch,
                )
                for i in range(n):
                    weight[i] = weights[k, first + i]
                    sizes[i] = size[held[k, first + i]]
                _add_rows(
                    n,
                    lane,
                    n_lanes,
                    most,
                    sizes,
                    w[k],
                    c,
                    lost,
                    z,
                    squared,
                    weight,
                    limits,
                    kind,
                    k * per,
                    shared,
                    moving,
                    out,
                )
                first += n
    flat = whitening.reshape((m * d, d))
    units = (clip, per_unit, count_units, one, largest_psi)
    if n_complete == n_rows:
        frame_moments(rows, flat, offsets, scales, constants, n_framed, kind, *units, out)
    elif n_complete > 0:
        frame_moments(whole, flat, offsets, scales, constants, n_framed, kind, *units, out)
