"""Starting centres of k-means from a tree of noisy counts, by post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

from dpem._quiet import quiet
from dpem._threads import one_thread
from dpem.statistics.simple import BOX_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.fitting.box_tree import BoxTree

__all__ = ["centres_from_boxes", "refine"]

_MOST_LEAVES = 20_000
# A leaf is split into parts whose expected count is at least this many standard deviations of noise. Early
# releases need more, so that sparse regions are not split until they are known to contain rows.
_FILL, _FILL_EARLIER = 2.0, 1.25
# The count above which a box is used, relative to the largest noise to expect among all leaves. The next
# value is tried if too few boxes for the clusters are left.
_THRESHOLDS = (0.7, 0.35, 0.0)
_RESTARTS = 24


def refine(tree: BoxTree, noise: float, n_clusters: int, releases_left: int) -> None:
    """Split every leaf into as many parts as its rows can fill clearly above the noise."""
    values, _ = tree.estimate()
    fill = noise * _FILL * _FILL_EARLIER**releases_left
    while True:
        depths = []
        for depth, (layer, value) in enumerate(zip(tree.layers, values, strict=True)):
            deeper = np.floor(np.log2(np.maximum(value / fill, 1.0)))
            if depth == 0:
                deeper = np.maximum(deeper, np.ceil(np.log2(max(3 * n_clusters, 4 ** len(tree.half_widths)))))
            deeper[tree.outside(depth)] = 0
            depths.append(np.minimum(depth + deeper, BOX_BITS).astype(np.int64)[layer.leaf])
        leaves = sum(float(np.exp2(target - depth).sum()) for depth, target in enumerate(depths))
        if leaves <= max(_MOST_LEAVES, 2 * len(tree.starts), 8 * n_clusters):
            break
        fill *= 2
    tree.refine(depths)


def centres_from_boxes(
    tree: BoxTree, noise: float, n_clusters: int, random_state: PublicRandom
) -> NDArray[np.float64]:
    """Return starting centres of shape (k, p), in units of the tree, by weighted k-means on clear boxes."""
    for threshold in _THRESHOLDS:
        points, weights = _clear_boxes(tree, threshold * noise)
        if len(points) >= 2 * n_clusters:
            break
    with one_thread():
        return _weighted_kmeans(points, weights, n_clusters, random_state, _RESTARTS)


def _clear_boxes(tree: BoxTree, threshold: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres of the smallest boxes with counts above the noise, and the share of rows in each.

    Upwards, the clear count of a box is its count after the non-negative garrote, or the sum of the clear
    counts of its halves. Downwards, the rows of a box are shared by its halves in proportion. Rows that noise
    hides in one half are therefore neither lost nor put into empty boxes, but added where rows are known to
    be.
    """
    values, variances = tree.estimate()
    largest_noise = threshold * np.sqrt(2 * np.log(len(tree.starts)))
    clear: list[NDArray[np.float64]] = []
    halves: list[NDArray[np.float64]] = []  # the sum of the clear counts of the halves of a box; 0 for a leaf
    for depth in range(len(tree.layers) - 1, -1, -1):
        value, limit = values[depth], largest_noise * np.sqrt(variances[depth])
        held = np.where(value > limit, value - limit**2 / np.maximum(value, np.maximum(limit, 1e-300)), 0.0)
        held[tree.outside(depth)] = 0.0
        below = np.zeros(len(held))
        if clear:
            below[~tree.layers[depth].leaf] = clear[-1].reshape(-1, 2).sum(axis=1)
        clear.append(np.maximum(held, below))
        halves.append(below)
    points, weights = [], []
    rows, shares = np.ones(1), np.zeros(0)
    for depth, (held, below) in enumerate(zip(clear[::-1], halves[::-1], strict=True)):
        if depth:
            rows = held * np.repeat(shares, 2)
        end = (below == 0) & (rows > 0)
        points.append(tree.boxes(depth)[0][end])
        weights.append(rows[end])
        inner = ~tree.layers[depth].leaf
        shares = (np.where(end, 0.0, rows) / np.where(below > 0, below, 1.0))[inner]
    return np.concatenate(points), np.concatenate(weights)


def _weighted_kmeans(
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_clusters: int,
    random_state: PublicRandom,
    restarts: int,
) -> NDArray[np.float64]:
    if len(points) < n_clusters:  # repeat points with small shifts, so that there are always k of them
        again = random_state.randint(len(points), size=n_clusters - len(points))
        moved = points[again] + 1e-3 * random_state.normal(size=(len(again), points.shape[1]))
        points = np.concatenate([points, moved])
        weights = np.concatenate([weights, np.full(len(again), 1e-6)])
    seed = random_state.randint(2**31 - 1)
    plain = PlainKMeans(n_clusters, n_init=restarts, random_state=seed)
    with quiet():  # scikit-learn warns of fewer distinct points than clusters, which is harmless here
        centres: NDArray[np.float64] = plain.fit(points, sample_weight=weights).cluster_centers_
    return centres
