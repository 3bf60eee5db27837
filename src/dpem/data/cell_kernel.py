"""Compiled forms of `Column.parse` for cells stored as numbers, and of the levels of parsed cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled

__all__ = ["cells_to_entries", "cells_to_levels", "parse_stored"]

_READ, _BELOW, _ABOVE = 0, 5, 6  # findings, as in dpem.data.column


@compiled()
def _numbers(cells: Any, limits: Any, kinds: Any, marks: Any, keep_findings: bool) -> None:
    low, high, null = limits[0], limits[1], limits[2]
    is_whole, to_missing, null_finding = kinds[1] != 0, kinds[2] != 0, kinds[3]
    for i in range(len(cells)):
        cell = cells[i]
        finding, value = _READ, cell
        if cell < low:
            finding, value = _BELOW, low
        elif cell > high:
            finding, value = _ABOVE, high
        if is_whole:
            value = np.rint(value)
        if to_missing and finding != _READ:
            value = np.nan
        is_null = np.isnan(cell)
        for mark in marks:
            is_null = is_null or cell == mark
        if is_null:
            finding, value = null_finding, null
        cells[i] = finding if keep_findings else value


@compiled()
def _codes(
    cells: Any, limits: Any, kinds: Any, known: Any, codes: Any, direct: Any, keep_findings: bool
) -> None:
    null, unknown, null_finding, unknown_finding = limits[2], limits[3], kinds[3], kinds[4]
    first = known[0] if len(known) else 0.0
    for i in range(len(cells)):
        cell = cells[i]
        place = -1
        if len(direct):
            along = cell - first
            # A small fraction can vanish in the difference.
            if along >= 0.0 and along < len(direct) and cell == np.floor(cell):
                place = direct[int(along)]
        else:
            lowest, highest = 0, len(known)
            while lowest < highest:
                middle = (lowest + highest) // 2
                if known[middle] < cell:
                    lowest = middle + 1
                else:
                    highest = middle
            if lowest < len(known) and known[lowest] == cell:
                place = lowest
        if np.isnan(cell) or (place >= 0 and codes[place] < 0.0):
            finding, value = null_finding, null
        elif place < 0:
            finding, value = unknown_finding, unknown
        else:
            finding, value = _READ, codes[place]
        cells[i] = finding if keep_findings else value


@compiled()
def parse_stored(
    block: Any,
    columns: Any,
    limits: Any,
    kinds: Any,
    numbers: Any,
    ends_of_numbers: Any,
    codes: Any,
    direct: Any,
    ends_of_direct: Any,
    keep_findings: bool,
) -> None:
    """Replace the cells of some columns of a block by what they are parsed to, or the findings about them.

    The arguments from `limits` on are those of `dpem.data.stored_cells.StoredCells`.
    """
    for j in columns:
        known = numbers[ends_of_numbers[j] : ends_of_numbers[j + 1]]
        if kinds[j, 0]:
            places = direct[ends_of_direct[j] : ends_of_direct[j + 1]]
            codes_of_known = codes[ends_of_numbers[j] : ends_of_numbers[j + 1]]
            _codes(block[j], limits[j], kinds[j], known, codes_of_known, places, keep_findings)
        else:
            _numbers(block[j], limits[j], kinds[j], known, keep_findings)


@compiled()
def cells_to_levels(columns: Any, low: Any, high: Any, sizes: Any, starts: Any, edges: Any, out: Any) -> None:
    """Write the levels of parsed cells (columns, rows), as `LevelGrid.to_grid`.

    Column j has the inner edges from `starts[j]` to `starts[j + 1]`; it has none if each value is a level.
    `sizes` has the numbers of levels without "missing", and with it.
    """
    for j in range(len(low)):
        lowest, highest = low[j], high[j]
        missing, most = np.float32(sizes[j, 1] - 1), np.float64(sizes[j, 0] - 1)
        first, n_edges = starts[j], starts[j + 1] - starts[j]
        if n_edges == 0:
            for i in range(columns.shape[1]):
                cell = columns[j, i]
                level = min(max(cell - lowest, 0.0), most)
                out[j, i] = missing if np.isnan(cell) else np.float32(level)
            continue
        width = (highest - lowest) / (n_edges + 1)
        for i in range(columns.shape[1]):
            cell = columns[j, i]
            if np.isnan(cell):
                out[j, i] = missing
            elif cell <= lowest:
                out[j, i] = np.float32(0.0)
            elif cell >= highest:
                out[j, i] = np.float32(most)
            else:
                # The number of edges at or below the cell, from a guess that is a step or two away.
                guess = (cell - lowest) / width
                below = int(guess) if guess < n_edges else n_edges
                while below > 0 and edges[first + below - 1] > cell:
                    below -= 1
                while below < n_edges and edges[first + below] <= cell:
                    below += 1
                out[j, i] = np.float32(below + 1)


@compiled()
def cells_to_entries(columns: Any, entries: Any, out: Any) -> None:
    """Write the entry of each cell, which is a small whole number."""
    for j in range(columns.shape[0]):
        for i in range(columns.shape[1]):
            out[j, i] = entries[int(columns[j, i])]
