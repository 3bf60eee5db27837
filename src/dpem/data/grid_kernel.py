"""The compiled form of `Domain.to_grid`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled

__all__ = ["to_grid"]

_CHUNK = 256


@compiled()
def to_grid(
    columns: Any, low: Any, high: Any, centre: Any, scale: Any, largest: float, grid: float, out: Any
) -> None:
    """Write the grid rows of a block to `out`. Without bounds, `low` and `high` are infinite."""
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
