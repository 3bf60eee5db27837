"""Sums, squares and second moments of rows, and histograms of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import CHUNK, add_combination, add_outer_products, load, total_of

__all__ = ["box_histogram", "column_squares", "second_moments", "sums"]


@compiled()
def sums(rows: Any, out: Any) -> None:
    """Add the sum of every column to `out`."""
    d, n_rows = rows.shape
    x = np.empty((d, CHUNK))
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        for a in range(d):
            out[a] += np.int64(total_of(x[a], n))


@compiled()
def _zero_long_rows(x: Any, n: int, largest: float, length: Any) -> None:
    """Set rows to zero whose squared norm exceeds a bound, or is not a number."""
    for i in range(n):
        length[i] = 0.0
    for a in range(x.shape[0]):
        for i in range(n):
            length[i] += x[a, i] * x[a, i]
    for i in range(n):
        if not length[i] <= largest:
            for a in range(x.shape[0]):
                x[a, i] = 0.0


@compiled()
def second_moments(rows: Any, centre: Any, radius: float, unit: float, largest: float, out: Any) -> None:
    """Add the upper triangle of `SecondMoments.sum_block` to `out`."""
    d, n_rows = rows.shape
    x = np.empty((d, CHUNK))
    length = np.empty(CHUNK)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        for i in range(n):
            length[i] = 0.0
        for a in range(d):
            middle = centre[a]
            for i in range(n):
                x[a, i] -= middle
                length[i] += x[a, i] * x[a, i]
        for i in range(n):
            length[i] = unit / max(np.sqrt(length[i]), radius)
        for a in range(d):
            for i in range(n):
                x[a, i] = np.rint(x[a, i] * length[i])
        _zero_long_rows(x, n, largest, length)
        add_outer_products(x, x, d, n, out, 0)


@compiled()
def column_squares(
    rows: Any, centre: Any, widths: Any, clip: float, one: float, largest: float, out: Any
) -> None:
    """Add the sums of `ColumnSquares.sum_block` to `out`."""
    d, n_rows = rows.shape
    x = np.empty((d, CHUNK))
    length = np.empty(CHUNK)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        for i in range(n):
            length[i] = 0.0
        for a in range(d):
            middle, width = centre[a], widths[a]
            for i in range(n):
                relative = (x[a, i] - middle) / width
                square = relative * relative
                x[a, i] = square
                length[i] += square * square
        for i in range(n):
            length[i] = one / max(np.sqrt(length[i]), clip)
        for a in range(d):
            for i in range(n):
                x[a, i] = np.floor(x[a, i] * length[i])
        _zero_long_rows(x, n, largest, length)
        for a in range(d):
            out[a] += np.int64(total_of(x[a], n))


@compiled()
def box_histogram(
    rows: Any, centre: Any, axes: Any, units: Any, tables: Any, sizes: Any, leaves: Any, out: Any
) -> None:
    """Add the counts of `BoxHistogram.sum_block` to `out`; `leaves` holds the leaf of every code."""
    d, n_rows = rows.shape
    x = np.empty((d, CHUNK))
    along = np.empty(CHUNK)
    code = np.empty(CHUNK, np.int64)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        for a in range(d):
            middle = centre[a]
            for i in range(n):
                x[a, i] -= middle
        for i in range(n):
            code[i] = 0
        for p in range(axes.shape[0]):
            for i in range(n):
                along[i] = 0.0
            add_combination(along, axes[p], d, x, n)
            unit, half, last = units[p], sizes[p] / 2, sizes[p] - 1.0
            for i in range(n):
                part = np.floor((along[i] / unit + 1.0) * half)
                part = max(0.0, part)  # so written, NaN is within the table too
                along[i] = min(last, part)
            table = tables[p]
            for i in range(n):
                code[i] += table[np.int64(along[i])]
        for i in range(n):
            out[leaves[code[i]]] += 1
