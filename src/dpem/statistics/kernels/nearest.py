"""Statistics of a row and its nearest centre: relative sums, histograms of distances, squared distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import EXACT_SUMS, compiled
from dpem.statistics.kernels.arithmetic import CHUNK, add_combination, add_combinations, load, total_of

__all__ = ["distance_histogram", "relative_sums", "squared_distances"]

# Up to this many centres, a masked sum over all rows (vector instructions) beats one addition per cell.
_MOST_MASKS = 16


@compiled()
def _nearest(x: Any, n: int, points: Any, lengths: Any, score: Any, labels: Any, best: Any) -> None:
    """Return every row's nearest point, the first of several, and the exact squared distance."""
    d, m = x.shape[0], points.shape[0]
    for first in range(0, m, 2):
        second = first + 1
        for i in range(n):
            score[0, i] = 0.0
            score[1, i] = 0.0
        if second < m:
            add_combinations(score[0], score[1], points[first], points[second], d, x, n)
        else:
            add_combination(score[0], points[first], d, x, n)
        if first == 0:
            length = lengths[0]
            for i in range(n):
                best[i] = length - 2.0 * score[0, i]
                labels[i] = 0
        else:
            _take_closer(best, labels, score[0], lengths[first], first, n)
        if second < m:
            _take_closer(best, labels, score[1], lengths[second], second, n)
    for a in range(d):
        for i in range(n):
            best[i] += x[a, i] * x[a, i]


@compiled()
def _take_closer(best: Any, labels: Any, products: Any, length: float, k: int, n: int) -> None:
    for i in range(n):
        score = length - 2.0 * products[i]
        closer = score < best[i]
        best[i] = score if closer else best[i]
        labels[i] = k if closer else labels[i]


@compiled()
def _squared_lengths(points: Any) -> Any:
    lengths = np.zeros(points.shape[0])
    for k in range(points.shape[0]):
        for a in range(points.shape[1]):
            lengths[k] += points[k, a] * points[k, a]
    return lengths


@compiled()
def distance_histogram(rows: Any, points: Any, squared_edges: Any, out: Any) -> None:
    """Add the counts of `DistanceHistogram.sum_block` to `out`."""
    d, n_rows = rows.shape
    x, score = np.empty((d, CHUNK)), np.empty((2, CHUNK))
    labels, best = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    lengths = _squared_lengths(points)
    n_edges = len(squared_edges)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        _nearest(x, n, points, lengths, score, labels, best)
        for i in range(n):  # how many edges are below the distance
            low, size = 0, n_edges
            while size > 0:
                half = size // 2
                above = squared_edges[low + half] < best[i]
                low = low + half + 1 if above else low
                size = size - half - 1 if above else half
            out[low] += 1


@compiled()
def squared_distances(rows: Any, points: Any, unit: float, largest: float, out: Any) -> None:
    """Add the sum of `SquaredDistances.sum_block` to the first entry of `out`."""
    d, n_rows = rows.shape
    x, score = np.empty((d, CHUNK)), np.empty((2, CHUNK))
    labels, best = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    lengths = _squared_lengths(points)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        _nearest(x, n, points, lengths, score, labels, best)
        for i in range(n):
            best[i] = min(np.floor(best[i] / unit), largest)
        out[0] += np.int64(total_of(best, n))


@compiled(**EXACT_SUMS)
def _masked_total(a: Any, labels: Any, k: int, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += a[i] if labels[i] == k else 0.0
    return total


@compiled()
def relative_sums(
    rows: Any,
    centres: Any,
    stretch: Any,
    radius: float,
    unit: float,
    largest: float,
    count_units: int,
    out: Any,
) -> None:
    """Add the sums of `RelativeSums.sum_block` to `out`. An empty `stretch` means none."""
    d, n_rows = rows.shape
    m = centres.shape[0]
    x, score = np.empty((d, CHUNK)), np.empty((2, CHUNK))
    labels, best = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    lengths = _squared_lengths(centres)
    across = np.ascontiguousarray(centres.T)
    sums = np.empty(m)
    for start in range(0, n_rows, CHUNK):
        n = min(CHUNK, n_rows - start)
        load(rows, start, n, x)
        _nearest(x, n, centres, lengths, score, labels, best)
        for i in range(n):
            best[i] = 0.0
            out[labels[i]] += count_units
        for a in range(d):
            centre = across[a]
            for i in range(n):
                x[a, i] -= centre[labels[i]]
            if len(stretch) > 0:
                width = stretch[a]
                for i in range(n):
                    x[a, i] /= width
            for i in range(n):
                best[i] += x[a, i] * x[a, i]
        for i in range(n):
            score[0, i] = unit / max(np.sqrt(best[i]), radius)
            score[1, i] = 0.0
        for a in range(d):
            for i in range(n):
                x[a, i] = np.rint(x[a, i] * score[0, i])
                score[1, i] += x[a, i] * x[a, i]
        for i in range(n):
            if not score[1, i] <= largest:  # so written, the condition includes NaN
                for a in range(d):
                    x[a, i] = 0.0
        if m <= _MOST_MASKS:
            for a in range(d):
                for k in range(m):
                    out[m + k * d + a] += np.int64(_masked_total(x[a], labels, k, n))
        else:
            for a in range(d):
                for k in range(m):
                    sums[k] = 0.0
                for i in range(n):
                    sums[labels[i]] += x[a, i]
                for k in range(m):
                    out[m + k * d + a] += np.int64(sums[k])
