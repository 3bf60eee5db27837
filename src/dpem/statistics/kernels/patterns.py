"""Rows with missing cells by pattern: windows that are sorted, and chunks of rows with their lanes.

Within a chunk, operations run over *lanes*: over the patterns of missing cells if rows share them, and else
over the rows. Each lane and each row is treated alone, so that neither windows nor chunks change a row's
vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import CHUNK

__all__ = [
    "WINDOW",
    "count_cells",
    "find_lost",
    "gather",
    "most_cells",
    "next_chunk",
    "of_rows",
    "sort_by_pattern",
    "sorting_buffers",
]

WINDOW = 1 << 12  # rows that are sorted together
# Lanes at a time: so many that their factors and bases stay in the cache, but not fewer than 16.
_MOST_CELLS = 1 << 16
_FEWEST_LANES = 16
_TABLE = 2 * WINDOW  # places for patterns in a hash table: twice as many as rows


@compiled()
def count_cells(rows: Any) -> tuple[int, int]:
    """Return the number of complete rows, and the largest number of missing cells of a row."""
    d, n_rows = rows.shape
    size = np.empty(CHUNK, np.int64)
    n_complete, largest = 0, 0
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        for i in range(n):
            size[i] = 0
        for a in range(d):
            for i in range(n):
                cell = rows[a, start + i]
                size[i] += int(np.isnan(cell))
        for i in range(n):
            n_complete += int(size[i] == 0)
            largest = max(largest, size[i])
    return n_complete, largest


@compiled()
def sort_by_pattern(rows: Any, start: int, n: int, scratch: Any, order: Any, pattern: Any, size: Any) -> int:
    """Sort the incomplete ones of n rows by number of missing cells and by pattern; return their number.

    Rows with the same missing cells get the same number in `pattern`.
    """
    words, table, first_of, count_of, place_of, of_size = scratch
    d, n_words = rows.shape[0], words.shape[0]
    for i in range(n):
        size[i] = 0
    for word in range(n_words):
        bits = words[word]
        for i in range(n):
            bits[i] = np.uint64(0)
        for a in range(64 * word, min(d, 64 * word + 64)):
            shift = np.uint64(a - 64 * word)
            for i in range(n):
                cell = rows[a, start + i]
                bits[i] |= np.uint64(np.isnan(cell)) << shift
                size[i] += int(np.isnan(cell))
    table[:] = -1
    n_patterns = 0
    for i in range(n):
        if size[i] == 0:
            continue
        mixed = np.uint64(0)
        for word in range(n_words):
            mixed = (mixed ^ words[word, i]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        place = np.int64(mixed & np.uint64(_TABLE - 1))
        while True:
            found = table[place]
            if found < 0:
                table[place] = found = n_patterns
                first_of[found], count_of[found] = i, 0
                n_patterns += 1
                break
            same = True
            for word in range(n_words):
                same = same and words[word, i] == words[word, first_of[found]]
            if same:
                break
            place = (place + 1) & (_TABLE - 1)
        pattern[i] = found
        count_of[found] += 1
    of_size[: d + 1] = 0
    for p in range(n_patterns):
        of_size[size[first_of[p]]] += count_of[p]
    total = 0
    for q in range(d + 1):
        here = of_size[q]
        of_size[q] = total
        total += here
    for p in range(n_patterns):
        q = size[first_of[p]]
        place_of[p] = of_size[q]
        of_size[q] += count_of[p]
    for i in range(n):
        if size[i] > 0:
            order[place_of[pattern[i]]] = i
            place_of[pattern[i]] += 1
    return total


@compiled()
def sorting_buffers(d: int) -> Any:
    """Return the buffers of `sort_by_pattern`."""
    return (
        np.empty(((d + 63) // 64, WINDOW), np.uint64),
        np.empty(_TABLE, np.int64),
        np.empty(WINDOW, np.int64),
        np.empty(WINDOW, np.int64),
        np.empty(WINDOW, np.int64),
        np.empty(d + 1, np.int64),
    )


@compiled()
def most_cells(of_lane: int) -> int:
    """Return the most cells that the lanes of a chunk take, if a lane has at most `of_lane`."""
    return min(CHUNK * of_lane, max(_MOST_CELLS, _FEWEST_LANES * of_lane))


@compiled()
def next_chunk(
    listed: Any, first: int, count: int, pattern: Any, size: Any, width: int, lane: Any, leader: Any
) -> tuple[int, int, int]:
    """Choose the next rows of a sorted list; return their number, that of their lanes, and the most missing.

    `lane` gets the lane of each row, and `leader` a row of each lane. A lane has `width` cells for each
    missing cell; with `width` 0, it has one for each.
    """
    n, n_lanes, most, last = 0, 0, 0, -1
    room = CHUNK
    while n < CHUNK and first + n < count:
        row = listed[first + n]
        if pattern[row] != last:
            q = size[row]
            of_lane = (q + 1) * width if width else q * q
            new_room = max(_FEWEST_LANES, min(CHUNK, _MOST_CELLS // of_lane))
            if n_lanes >= new_room:
                break
            room, most, last = new_room, q, pattern[row]
            leader[n_lanes] = n
            n_lanes += 1
        lane[n] = n_lanes - 1
        n += 1
    if n <= room and 2 * n_lanes > n:  # hardly any row shares its pattern: no lane needs to be looked up
        for i in range(n):
            lane[i] = leader[i] = i
        n_lanes = n
    return n, n_lanes, most


@compiled()
def gather(rows: Any, start: int, listed: Any, first: int, n: int, cells: Any) -> None:
    """Copy some rows of a window, (d, n)."""
    for a in range(rows.shape[0]):
        source, target = rows[a], cells[a]
        for i in range(n):
            target[i] = source[start + listed[first + i]]


@compiled()
def find_lost(cells: Any, leader: Any, n_lanes: int, most: int, lost: Any, found: Any) -> None:
    """Write the missing columns of each lane, filled up with d, (q, lanes)."""
    d = cells.shape[0]
    for i in range(n_lanes):
        found[i] = 0
    for a in range(d):
        column = cells[a]
        for i in range(n_lanes):
            cell = column[leader[i]]
            lost[found[i], i] = a  # the next missing column overwrites it, unless this one is missing
            found[i] += int(np.isnan(cell))
    for j in range(most):
        for i in range(n_lanes):
            if j >= found[i]:
                lost[j, i] = d


@compiled()
def of_rows(of_lanes: Any, lane: Any, n: int, own: bool, buffer: Any) -> Any:
    """Return for each row the value of its lane; `own` says that lanes are rows."""
    if own:
        return of_lanes
    for i in range(n):
        buffer[i] = of_lanes[lane[i]]
    return buffer
