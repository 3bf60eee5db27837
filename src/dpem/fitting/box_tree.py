"""A tree of boxes that is refined where released counts indicate rows.

Every box is halved along its longest side, so that all boxes of one depth have the same shape. A box is
identified by the first bits of a code (`BoxHistogram` computes the codes of rows). Each release counts the
rows of every leaf. A leaf that is not refined is counted again, so that only refined boxes pay for their
resolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpem.statistics.simple import BOX_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BoxTree", "Layer"]


@dataclass(frozen=True, eq=False)
class Layer:
    """The boxes of one depth, in order of their codes.

    The next layer contains the halves of split boxes, in pairs.
    `total` and `times` are the sum and the number of the releases in which a box was a leaf.
    """

    code: NDArray[np.int64]
    leaf: NDArray[np.bool_]
    total: NDArray[np.float64]
    times: NDArray[np.float64]


class BoxTree:
    """A tree of boxes from the root, `-half_widths` to `half_widths`, down to at most `BOX_BITS` halvings.

    Initially the root is the only leaf. It contains all rows, as if its count had been released once.
    """

    def __init__(self, half_widths: NDArray[np.float64], n_rows: float) -> None:
        self.half_widths = half_widths
        self.layers = [Layer(np.zeros(1, np.int64), np.ones(1, bool), np.full(1, n_rows), np.ones(1))]
        widths, halved = half_widths.copy(), []
        for _ in range(BOX_BITS):
            halved.append(int(np.argmax(widths)))
            widths[halved[-1]] /= 2
        self.halved = tuple(halved)  # the axis that is halved at each depth

    def boxes(self, depth: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the centres of the boxes of a layer, and their half widths."""
        code = self.layers[depth].code
        half = self.half_widths.copy()
        middle = np.zeros((len(code), len(half)))
        for bit, axis in enumerate(self.halved[:depth]):
            half[axis] /= 2
            middle[:, axis] += np.where(code >> (depth - 1 - bit) & 1, half[axis], -half[axis])
        return middle, half

    def outside(self, depth: int) -> NDArray[np.bool_]:
        """Return which boxes of a layer lie entirely outside the unit ball."""
        middle, half = self.boxes(depth)
        outside: NDArray[np.bool_] = np.linalg.norm(np.maximum(np.abs(middle) - half, 0.0), axis=1) > 1
        return outside

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first full code of each leaf, layer by layer."""
        codes = [layer.code[layer.leaf] << (BOX_BITS - depth) for depth, layer in enumerate(self.layers)]
        return np.concatenate(codes)

    def add(self, counts: NDArray[np.float64]) -> None:
        """Add one release of the counts of all leaves, in order of their codes."""
        by_layer = np.empty(len(counts))
        by_layer[np.argsort(self.starts)] = counts
        position = 0
        for layer in self.layers:
            n = int(layer.leaf.sum())
            layer.total[layer.leaf] += by_layer[position : position + n]
            layer.times[layer.leaf] += 1
            position += n

    def refine(self, depths: list[NDArray[np.int64]]) -> None:
        """Split the leaves of each layer down to the given depths."""
        layers: list[Layer] = []
        added, added_depths = np.zeros(0, np.int64), np.zeros(0, np.int64)
        while len(added) or len(layers) < len(self.layers):
            depth = len(layers)
            none = np.zeros(0)
            old = self.layers[depth] if depth < len(self.layers) else Layer(added[:0], none > 0, none, none)
            wanted = np.zeros(len(old.code), np.int64)
            if len(old.code):
                wanted[old.leaf] = depths[depth]
            code = np.concatenate([old.code, added])
            order = np.argsort(code)
            fresh = np.zeros(len(added))
            leaf = np.concatenate([old.leaf, np.ones(len(added), bool)])[order]
            wanted = np.concatenate([wanted, added_depths])[order]
            code, split = code[order], leaf & (wanted > depth)
            total, times = (np.concatenate([values, fresh])[order] for values in (old.total, old.times))
            layers.append(Layer(code, leaf & ~split, total, times))
            added = (2 * code[split][:, None] + np.arange(2)).ravel()
            added_depths = np.repeat(wanted[split], 2)
        self.layers = layers

    def estimate(self) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """Return the least-squares counts of each layer, and their variances in units of one release's.

        Upwards, the measured count of a box and the sum of its halves are averaged by precision. Downwards,
        the difference between a box and its halves is shared among the halves by variance. The variances are
        those of the upward pass.
        """
        values: list[NDArray[np.float64]] = []
        variances: list[NDArray[np.float64]] = []
        for layer in reversed(self.layers):
            weighted, precision = layer.total.copy(), layer.times.copy()
            if values:
                halves, variance = (v[-1].reshape(-1, 2).sum(axis=1) for v in (values, variances))
                weighted[~layer.leaf] += halves / variance
                precision[~layer.leaf] += 1 / variance
            values.append(weighted / precision)
            variances.append(1 / precision)
        values, variances = values[::-1], variances[::-1]
        for depth in range(1, len(self.layers)):
            pairs, variance = values[depth].reshape(-1, 2), variances[depth].reshape(-1, 2)
            gap = values[depth - 1][~self.layers[depth - 1].leaf] - pairs.sum(axis=1)
            values[depth] = (pairs + gap[:, None] * variance / variance.sum(axis=1, keepdims=True)).ravel()
        return values, variances
