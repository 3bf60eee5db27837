"""Expected coordinates of rows with missing cells, and filled rows, as in `dpem.statistics.missing_cells`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import CHUNK, log_of_parts
from dpem.statistics.kernels.gaussian import is_diagonal_matrix, place_rows
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
from dpem.statistics.missing_cells import LARGEST, SMALLEST

__all__ = ["coordinate_buffers", "coordinates", "fill", "subtract_product"]

_FRACTION = (1 << 52) - 1
_HALF = 1022 << 52


@compiled()
def subtract_product(target: Any, a: Any, b: Any, n: int) -> None:
    """Subtract the products of two vectors, element by element."""
    for i in range(n):
        target[i] -= a[i] * b[i]


@compiled()
def _divide(target: Any, by: Any, n: int) -> None:
    for i in range(n):
        target[i] /= by[i]


@compiled()
def _factor(
    gram: Any, lost: Any, n: int, most: int, is_diagonal: bool, c: Any, log_sizes: Any, octaves: Any, row: Any
) -> None:
    """Write C of n lanes to `c` (q, q, n), and log |C|, as `IncompletePart.factor`."""
    bits, sizes = log_sizes.view(np.int64), row.view(np.int64)
    d = len(gram) - 1
    for i in range(n):
        log_sizes[i] = 1.0
        octaves[i] = 0.0
    for j in range(most):
        mine = lost[j]
        for b in range(j):
            entry, other = c[j, b], lost[b]
            if is_diagonal:
                for i in range(n):
                    entry[i] = 0.0
                continue
            for i in range(n):
                entry[i] = gram[mine[i], other[i]]
            for t in range(b):
                subtract_product(entry, c[j, t], c[b, t], n)
            _divide(entry, c[b, b], n)
        entry = c[j, j]
        for i in range(n):  # the last column stands for none
            entry[i] = gram[mine[i], mine[i]] if mine[i] < d else 1.0
        for t in range(j):
            subtract_product(entry, c[j, t], c[j, t], n)
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
        first, factor = z[c], w[c, c]
        for i in range(n):
            total[i] = factor * first[i]
        a = c + 1
        while a + 4 <= d:
            w0, w1, w2, w3 = w[a, c], w[a + 1, c], w[a + 2, c], w[a + 3, c]
            z0, z1, z2, z3 = z[a], z[a + 1], z[a + 2], z[a + 3]
            for i in range(n):
                total[i] = (((total[i] + w0 * z0[i]) + w1 * z1[i]) + w2 * z2[i]) + w3 * z3[i]
            a += 4
        while a < d:
            factor, other = w[a, c], z[a]
            for i in range(n):
                total[i] += factor * other[i]
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
            factor, other = w[a, c], u[c]
            for i in range(n):
                rest[i] -= factor * other[i]
            c += 1


@compiled()
def _project(
    w: Any, c: Any, lost: Any, most: int, lane: Any, n: int, own: bool, z: Any, u: Any, buffers: Any
) -> None:
    """Replace coordinates by their expectations given the known cells, as `IncompletePart.places`.

    Unless very few cells are missing, products with all columns of W are faster than those with single ones.
    Terms of other columns are zeros, so that both have the same bits, or are both no finite numbers.
    """
    dense, row, column = buffers
    d = z.shape[0]
    is_dense = 16 * most >= d
    if is_dense:
        _products(w, z, n, dense)
        for i in range(n):
            dense[d, i] = 0.0
    for j in range(most):
        mine, lost_here = u[j], lost[j]
        for i in range(n):
            column[j, i] = lost_here[lane[i]]
        where = column[j]
        if is_dense:
            for i in range(n):
                mine[i] = dense[where[i], i]
        else:
            for i in range(n):
                mine[i] = 0.0
            for a in range(d):
                factors, place = w[a], z[a]
                for i in range(n):
                    mine[i] += factors[where[i]] * place[i]
        for t in range(j):
            subtract_product(mine, of_rows(c[j, t], lane, n, own, row), u[t], n)
        _divide(mine, of_rows(c[j, j], lane, n, own, row), n)
    for j in range(most - 1, -1, -1):
        mine = u[j]
        for t in range(most - 1, j, -1):
            subtract_product(mine, of_rows(c[t, j], lane, n, own, row), u[t], n)
        _divide(mine, of_rows(c[j, j], lane, n, own, row), n)
    if is_dense:
        for a in range(d):
            target = dense[a]
            for i in range(n):
                target[i] = 0.0
        for j in range(most):
            mine, where = u[j], column[j]
            for i in range(n):
                dense[where[i], i] = mine[i]
        _subtract_products(w, dense, n, z)
        return
    for j in range(most):
        mine, where = u[j], column[j]
        for a in range(d):
            factors, place = w[a], z[a]
            for i in range(n):
                place[i] -= factors[where[i]] * mine[i]


@compiled()
def coordinates(
    cells: Any,
    n: int,
    lane: Any,
    lost: Any,
    n_lanes: int,
    most: int,
    frame: Any,
    is_diagonal: bool,
    c: Any,
    log_sizes: Any,
    z: Any,
    squared: Any,
    scratch: Any,
) -> None:
    """Write the expected coordinates of rows in a frame, their squared norms, and C and log |C| of lanes."""
    whitening, scales, centre, w, gram = frame
    x, u, octaves, row, zeros, buffers = scratch
    d = cells.shape[0]
    for a in range(d):
        source, target, middle = cells[a], x[a], centre[a]
        for i in range(n):
            cell = source[i]
            target[i] = 0.0 if np.isnan(cell) else cell - middle
    place_rows(x, n, whitening, zeros, scales, is_diagonal, z, squared)
    _factor(gram, lost, n_lanes, most, is_diagonal, c, log_sizes, octaves, row)
    if is_diagonal:  # the coordinates of missing cells are zero already
        return
    _project(w, c, lost, most, lane, n, n_lanes == n, z, u, buffers)
    for i in range(n):
        squared[i] = 0.0
    for a in range(d):
        place = z[a]
        for i in range(n):
            squared[i] += place[i] * place[i]


@compiled()
def coordinate_buffers(d: int, largest: int) -> Any:
    """Return the buffers of `coordinates`."""
    dense, column = np.empty((d + 1, CHUNK)), np.empty((largest, CHUNK), np.uint32)
    buffers = (dense, np.empty(CHUNK), column)
    return (
        np.empty((d, CHUNK)),
        np.empty((largest, CHUNK)),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.zeros(d),
        buffers,
    )


@compiled()
def fill(
    rows: Any,
    whitening: Any,
    scales: Any,
    centre: Any,
    w: Any,
    gram: Any,
    factor: Any,
    grid: float,
    longest: float,
    out: Any,
) -> None:
    """Write rows with their missing cells filled to `out`, as `FilledRows`; `factor` is in grid units."""
    d, n_rows = rows.shape
    n_complete, largest = count_cells(rows)
    for a in range(d):
        for i in range(n_rows):
            out[a, i] = rows[a, i]
    if n_complete == n_rows:
        return
    order, pattern, size = np.empty(WINDOW, np.int64), np.empty(WINDOW, np.int64), np.empty(WINDOW, np.int64)
    sorting, scratch = sorting_buffers(d), coordinate_buffers(d, largest)
    lane, leader, found = np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64)
    lost = np.empty((largest + 1, CHUNK), np.uint32)
    all_c = np.empty(most_cells(largest * largest))
    cells, z, own = np.empty((d, CHUNK)), np.empty((d, CHUNK)), np.empty((d, CHUNK))
    log_sizes, squared = np.empty(CHUNK), np.empty(CHUNK)
    frame = (whitening, scales, centre, w, gram)
    is_diagonal = is_diagonal_matrix(whitening, 0, d)
    for start in range(0, n_rows, WINDOW):
        n_window = min(WINDOW, n_rows - start)
        count = sort_by_pattern(rows, start, n_window, sorting, order, pattern, size)
        first = 0
        while first < count:
            n, n_lanes, most = next_chunk(order, first, count, pattern, size, 0, lane, leader)
            c = all_c[: most * most * n_lanes].reshape((most, most, n_lanes))
            gather(rows, start, order, first, n, cells)
            find_lost(cells, leader, n_lanes, most, lost, found)
            coordinates(
                cells, n, lane, lost, n_lanes, most, frame, is_diagonal, c, log_sizes, z, squared, scratch
            )
            _expected(factor, centre, z, n, own)
            for i in range(n):
                squared[i] = 0.0
            for a in range(d):
                source, target = cells[a], own[a]
                for i in range(n):
                    cell = source[i]
                    target[i] = target[i] if np.isnan(cell) else cell
                    squared[i] += target[i] * target[i]
            for i in range(n):
                norm = np.sqrt(squared[i])
                squared[i] = longest / (norm if norm >= longest else longest)
                log_sizes[i] = 0.0
            for a in range(d):
                target = own[a]
                for i in range(n):
                    target[i] = np.rint(target[i] * squared[i])
                    log_sizes[i] += target[i] * target[i]
            for a in range(d):
                source = own[a]
                for i in range(n):  # so written, NaN fails
                    out[a, start + order[first + i]] = source[i] if log_sizes[i] <= grid * grid else 0.0
            first += n


@compiled()
def _expected(factor: Any, centre: Any, z: Any, n: int, out: Any) -> None:
    """Write centre + factor z, each sum in order."""
    d = z.shape[0]
    for a in range(d):
        total, middle = out[a], centre[a]
        for i in range(n):
            total[i] = middle
        c = 0
        while c + 4 <= d:
            f0, f1, f2, f3 = factor[a, c], factor[a, c + 1], factor[a, c + 2], factor[a, c + 3]
            z0, z1, z2, z3 = z[c], z[c + 1], z[c + 2], z[c + 3]
            for i in range(n):
                total[i] = (((total[i] + f0 * z0[i]) + f1 * z1[i]) + f2 * z2[i]) + f3 * z3[i]
            c += 4
        while c < d:
            one, other = factor[a, c], z[c]
            for i in range(n):
                total[i] += one * other[i]
            c += 1
