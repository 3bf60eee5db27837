"""A start for k-means from a noisy grid of counts: pure post-processing, so that much can be tried."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.exceptions import ConvergenceWarning

from dpem._threads import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.em.estimator import PublicRandom

__all__ = ["centres_from_grid", "grid_cells"]

_LARGEST_GRID = 40_000
_THRESHOLDS = (1.0, 2.0, 3.0)  # in standard deviations of a cell's noise
_RESTARTS = 8


def grid_cells(n_rows: float, noise_multiplier: float, n_axes: int, n_clusters: int, density: float) -> int:
    """Return the number of cells per axis: finer where rows are many and noise is small.

    (density n mu)^(2/(2+p)) balances the width of a cell against the noise of its count.
    """
    wanted = (density * n_rows / noise_multiplier) ** (2 / (2 + n_axes))
    smallest = max(4.0, np.ceil((3 * n_clusters) ** (1 / n_axes)))
    largest = max(smallest, np.floor(_LARGEST_GRID ** (1 / n_axes)))
    cells = int(np.clip(np.ceil(wanted), smallest, largest))
    return cells + cells % 2


def centres_from_grid(
    counts: NDArray[np.float64],
    noise: float,
    half_widths: NDArray[np.float64],
    n_clusters: int,
    random_state: PublicRandom,
) -> NDArray[np.float64]:
    """Return starting centres of shape (k, p), in the units of `half_widths`.

    Cells are thresholded at several levels and block sizes, k-means is run on what is left, and the
    candidate that is cheapest on the noisy grid as a whole is kept (its noise has mean zero, so the
    comparison is fair).
    """
    p = len(half_widths)
    cells = round(counts.size ** (1 / p))
    counts = counts.reshape((cells,) * p)
    axis = (2 * np.arange(cells) + 1) / cells - 1
    points = np.stack(np.meshgrid(*[axis * h for h in half_widths], indexing="ij"), axis=-1)
    # Rows lie in the unit ball: cells wholly outside hold noise alone.
    reach = 1 + np.linalg.norm(half_widths) / cells
    inside = np.linalg.norm(points, axis=-1) <= max(reach, np.linalg.norm(points, axis=-1).min())
    counts = np.where(inside, counts, 0.0)

    significant = _significant_blocks(counts, inside, points, noise)
    with one_thread():
        candidates = []
        if len(significant[0]) >= 2 * n_clusters:
            candidates.append(_weighted_kmeans(*significant, n_clusters, random_state, 2 * _RESTARTS))
        for block in (1, 2):
            for threshold in _THRESHOLDS:
                kept = _cells_above(counts, inside, points, noise, block, threshold, n_clusters)
                candidates.append(_weighted_kmeans(*kept, n_clusters, random_state, _RESTARTS))
    # Blocks that clear the noise judge with less noise than all cells, once they can tell k clusters apart.
    judge = significant if len(significant[0]) > n_clusters else (points.reshape(-1, p), counts.ravel())
    cell_points, cell_weights = judge
    return min(candidates, key=lambda centres: _cost(cell_points, cell_weights, centres))


def _blocks(values: NDArray[np.float64], size: int, n_axes: int) -> NDArray[np.float64]:
    """Sum neighbouring cells, `size` along each of the first axes."""
    for axis in range(n_axes):
        values = np.add.reduceat(values, np.arange(0, values.shape[axis], size), axis=axis)
    return values


def _cells_above(
    counts: NDArray[np.float64],
    inside: NDArray[np.bool_],
    points: NDArray[np.float64],
    noise: float,
    block: int,
    threshold: float,
    n_clusters: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points and weights of the blocks that exceed the threshold, or the heaviest where few do."""
    p = counts.ndim
    weights = _blocks(counts, block, p).ravel()
    n_cells = _blocks(inside.astype(float), block, p).ravel()
    middles = _blocks(points * inside[..., None], block, p).reshape(-1, p) / np.maximum(n_cells, 1)[:, None]
    kept = (weights > threshold * noise * np.sqrt(n_cells)) & (n_cells > 0)
    if kept.sum() < n_clusters:
        order = np.argsort(-np.where(n_cells > 0, weights, -np.inf), kind="stable")
        kept = np.zeros(len(weights), dtype=bool)
        kept[order[: max(2 * n_clusters, 3)]] = True
        kept &= n_cells > 0
    return middles[kept], np.maximum(weights[kept], 1e-9)


def _significant_blocks(
    counts: NDArray[np.float64], inside: NDArray[np.bool_], points: NDArray[np.float64], noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Keep cells, then blocks of 2, 4, 8, ... cells whose residual counts noise cannot explain."""
    p = counts.ndim
    residual, n_cells = counts.copy(), inside.astype(float)
    position = points * n_cells[..., None]
    found_points, found_weights = [], []
    while True:
        present = max(2, int((n_cells > 0).sum()))
        threshold = np.sqrt(2 * np.log(present)) * noise * np.sqrt(n_cells)
        found = (residual > threshold) & (n_cells > 0)
        if found.any():
            found_points.append(position[found] / n_cells[found][:, None])
            found_weights.append(residual[found])
            residual[found], n_cells[found], position[found] = 0.0, 0.0, 0.0
        if residual.shape[0] <= 1:
            break
        residual, n_cells, position = (_blocks(values, 2, p) for values in (residual, n_cells, position))
    if not found_points:
        return np.zeros((0, p)), np.zeros(0)
    return np.concatenate(found_points), np.concatenate(found_weights)


def _weighted_kmeans(
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_clusters: int,
    random_state: PublicRandom,
    restarts: int,
) -> NDArray[np.float64]:
    if len(points) < n_clusters:  # repeat points, moved a little, so that there are always k of them
        again = random_state.randint(len(points), size=n_clusters - len(points))
        moved = points[again] + 1e-3 * random_state.normal(size=(len(again), points.shape[1]))
        points = np.concatenate([points, moved])
        weights = np.concatenate([weights, np.full(len(again), 1e-6)])
    seed = random_state.randint(2**31 - 1)
    plain = PlainKMeans(n_clusters, n_init=restarts, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters is fine
        centres: NDArray[np.float64] = plain.fit(points, sample_weight=weights).cluster_centers_
    return centres


def _cost(points: NDArray[np.float64], weights: NDArray[np.float64], centres: NDArray[np.float64]) -> float:
    """Return the k-means cost; weights may be negative."""
    nearest = np.full(len(points), np.inf)
    for centre in centres:
        np.minimum(nearest, ((points - centre) ** 2).sum(axis=1), out=nearest)
    return float((weights * nearest).sum())
