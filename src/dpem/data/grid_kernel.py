"""Compiled forms of the maps from rows to their grids."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled

__all__ = ["cells_to_grid", "rows_to_grid"]

_CHUNK = 256


@compiled()
def rows_to_grid(
    columns: Any,
    low: Any,
    high: Any,
    centre: Any,
    scale: Any,
    largest: float,
    grid: float,
    keep_missing: bool,
    out: Any,
) -> None:
    """Write the grid rows of cells (columns, rows) to `out`. Without bounds, `low` and `high` are infinite.

    With `keep_missing`, a cell that is not finite becomes NaN, and counts as the centre. Otherwise its row
    becomes zero.
    """
    d, n_rows = columns.shape
    u = np.empty((d, _CHUNK))
    length = np.empty(_CHUNK)
    factor = np.empty(_CHUNK)
    good = np.empty(_CHUNK, np.bool_)
    for start in range(0, n_rows, _CHUNK):
        n = min(_CHUNK, n_rows - start)
        for i in range(n):
            length[i] = 0.0
            good[i] = True
        for a in range(d):
            lowest, highest, middle, width = low[a], high[a], centre[a], scale[a]
            for i in range(n):
                cell = columns[a, start + i]
                if keep_missing:
                    cell = cell if cell - cell == 0.0 else middle
                good[i] = good[i] and cell - cell == 0.0  # finite
                cell = cell if cell > lowest else lowest
                cell = cell if cell < highest else highest
                place = (cell - middle) / width
                u[a, i] = place
                length[i] += place * place
        for i in range(n):
            norm = np.sqrt(length[i])
            good[i] = good[i] and norm - norm == 0.0
            ratio = largest / (norm if norm > largest else largest)
            factor[i] = grid * (ratio if ratio < 1.0 else 1.0)
            length[i] = 0.0
        for a in range(d):
            for i in range(n):
                place = np.rint(u[a, i] * factor[i])
                u[a, i] = place
                length[i] += place * place
        # Every sensitivity relies on this bound. It is checked in integers.
        for i in range(n):
            good[i] = good[i] and length[i] <= grid * grid
        for a in range(d):
            for i in range(n):
                out[a, start + i] = u[a, i] if good[i] else 0.0
        if keep_missing:
            for a in range(d):
                for i in range(n):
                    cell = columns[a, start + i]
                    if cell - cell != 0.0:
                        out[a, start + i] = np.nan


@compiled()
def cells_to_grid(columns: Any, low: Any, step: Any, grid: float, out: Any) -> None:
    """Write the grid cells of columns to `out`; NaN stays NaN."""
    d, n_rows = columns.shape
    for a in range(d):
        lowest, width = low[a], step[a]
        for i in range(n_rows):
            cell = np.rint((columns[a, i] - lowest) / width)
            cell = 0.0 if cell < 0.0 else cell
            out[a, i] = grid if cell > grid else cell
