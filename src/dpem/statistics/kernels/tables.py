"""Counts of bins: histograms, tables of pairs of columns, and expected tables of a mixture of products."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import CHUNK, exp_non_positive

__all__ = ["add_expected", "histograms", "mixture_tables", "pair_tables"]

_ROWS = 4096  # at a time: their bins stay in the cache


@compiled()
def _bins(levels: Any, start: int, n: int, bins: Any, first: int, last: int, out: Any) -> None:
    """Return the bins of levels; a level out of range counts as the first or last, NaN as the first."""
    highest = float(last - first - 1)
    for i in range(n):
        level = levels[start + i]
        out[i] = bins[first + int(min(level, highest))] if level > 0.0 else bins[first]


@compiled()
def histograms(
    rows: Any,
    columns: Any,
    bins: Any,
    starts: Any,
    n_bins: Any,
    split: int,
    parts: Any,
    n_parts: int,
    out: Any,
) -> None:
    """Add the counts of `Histograms.sum_block` to `out`; a `split` below 0 means one part."""
    n_rows = rows.shape[1]
    part, code = np.zeros(_ROWS, np.int64), np.empty(_ROWS, np.int64)
    for start in range(0, n_rows, _ROWS):
        n = min(_ROWS, n_rows - start)
        if split >= 0:
            _bins(rows[split], start, n, parts, 0, len(parts), part)
        position = 0
        for t in range(len(columns)):
            _bins(rows[columns[t]], start, n, bins, starts[t], starts[t + 1], code)
            size = n_bins[t]
            for i in range(n):
                out[position + part[i] * size + code[i]] += 1
            position += n_parts * size


@compiled()
def pair_tables(
    rows: Any, bins: Any, starts: Any, n_bins: Any, blocks: Any, ends: Any, split: int, n_parts: int, out: Any
) -> None:
    """Add the counts of `PairTables.sum_block` to `out`. `blocks` joins the columns of all blocks."""
    n_columns, n_rows = rows.shape
    codes = np.empty((n_columns, _ROWS), np.int64)
    before = np.empty(_ROWS, np.int64)
    for start in range(0, n_rows, _ROWS):
        n = min(_ROWS, n_rows - start)
        for j in range(n_columns):
            _bins(rows[j], start, n, bins, starts[j], starts[j + 1], codes[j])
        position, first = 0, 0
        for b in range(len(ends)):
            for one in range(first, ends[b] - 1):
                j = blocks[one]
                width = 0
                for other in range(one + 1, ends[b]):
                    width += n_bins[blocks[other]]
                for i in range(n):
                    part = codes[split, i] if split >= 0 else 0
                    before[i] = position + (part * n_bins[j] + codes[j, i]) * width
                across = 0
                for other in range(one + 1, ends[b]):
                    code = codes[blocks[other]]
                    for i in range(n):
                        out[before[i] + across + code[i]] += 1
                    across += n_bins[blocks[other]]
                position += n_parts * n_bins[j] * width
            first = ends[b]


@compiled()
def mixture_tables(
    rows: Any,
    bins: Any,
    starts: Any,
    cells: Any,
    log_weights: Any,
    log_tables: Any,
    one: float,
    shares: Any,
    by_cell: Any,
) -> None:
    """Add responsibilities to `shares` (k,), and by the bins of every column to `by_cell` (cells, k).

    Column j has the cells from `cells[j]` to `cells[j + 1]` of `log_tables` and `by_cell`.
    """
    n_columns, n_rows = rows.shape
    k = len(log_weights)
    codes = np.empty((n_columns, CHUNK), np.int64)
    logits = np.empty((k, CHUNK))
    gathered = np.empty((CHUNK, k))
    largest, total = np.empty(CHUNK), np.empty(CHUNK)
    shifted, power = np.empty(CHUNK), np.empty(CHUNK)
    bits, power_bits = shifted.view(np.int64), power.view(np.int64)
    share = np.empty((CHUNK, k), np.int64)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        for j in range(n_columns):
            _bins(rows[j], start, n, bins, starts[j], starts[j + 1], codes[j])
        for i in range(n):
            for c in range(k):
                gathered[i, c] = log_weights[c]
        for j in range(n_columns):
            for i in range(n):
                table = log_tables[cells[j] + codes[j, i]]
                for c in range(k):
                    gathered[i, c] += table[c]
        for c in range(k):
            for i in range(n):
                logits[c, i] = gathered[i, c]
        for i in range(n):
            largest[i] = logits[0, i]
        for c in range(1, k):
            for i in range(n):
                largest[i] = max(largest[i], logits[c, i])
        for c in range(k):
            for i in range(n):
                logits[c, i] -= largest[i]
            exp_non_positive(logits[c], n, shifted, bits, power, power_bits)
            if c == 0:
                for i in range(n):
                    total[i] = logits[c, i]
            else:
                for i in range(n):
                    total[i] += logits[c, i]
        for i in range(n):
            largest[i] = 0.0  # now the sum of the row's rounded responsibilities
        for c in range(k):
            for i in range(n):
                logits[c, i] = np.floor(logits[c, i] / total[i] * one)
                largest[i] += logits[c, i]
        for c in range(k):
            for i in range(n):
                # The bound that the sensitivity rests on: a row that breaks it counts as nothing.
                share[i, c] = np.int64(logits[c, i]) if largest[i] <= one else 0
        for i in range(n):
            for c in range(k):
                shares[c] += share[i, c]
        for j in range(n_columns):
            for i in range(n):
                cell = by_cell[cells[j] + codes[j, i]]
                for c in range(k):
                    cell[c] += share[i, c]


@compiled()
def add_expected(
    shares: Any, by_cell: Any, cells: Any, may_be_missing: Any, expected: Any, bits: int, out: Any
) -> None:
    """Add the sums of `MixtureTables` to `out` (k, entries), from those of `mixture_tables`.

    The last cell of a column is that of missing cells, which count as `expected` (cells, k) in the others.
    """
    k = len(shares)
    position, lost = 1, 1 + cells[-1] - (len(cells) - 1)
    for c in range(k):
        out[c, 0] += shares[c] << bits
    for j in range(len(cells) - 1):
        last = cells[j + 1] - 1
        for b in range(cells[j], last):
            for c in range(k):
                out[c, position] += by_cell[b, c] << bits
                if may_be_missing[j]:
                    out[c, position] += by_cell[last, c] * expected[b, c]
            position += 1
        if may_be_missing[j]:
            for c in range(k):
                out[c, lost] += by_cell[last, c] << bits
            lost += 1
