"""Patterns of missing cells: coordinates of incomplete rows in the frames of Gaussian components.

A decomposition depends on one pattern and on released values. The coordinates of a row depend on that row and
on the decomposition of its pattern. So no row changes the result of another, not even its last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem._compiled import kernel_module
from dpem.data.domain import GRID, norm_squared
from dpem.statistics.gaussian import WHITENING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpem.statistics.gaussian import GaussianComponents

__all__ = ["Frames", "PatternFrames", "fill_rows", "missing_patterns"]

# Most cells of the matrices of all patterns that are in memory at once.
_PATTERN_CELLS = 1 << 21


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of all components (m) for some patterns of missing cells (p)."""

    missing: NDArray[np.bool_]  # (p, d)
    whitening: NDArray[np.float64]  # (m, p, d, d), integers; zero where a cell is missing
    offsets: NDArray[np.float64]  # (m, p, d)
    scales: NDArray[np.float64]  # (m, p, d)
    constants: NDArray[np.float64]  # (m, p): logarithm of weight over normalising constant, known cells
    null: NDArray[np.float64]  # (m, p, d, d): V' in its last q rows, zero above

    @classmethod
    def of(cls, components: GaussianComponents, missing: NDArray[np.bool_]) -> Frames:
        """Decompose the factors for patterns of shape (p, d)."""
        known = ~missing
        n_known = known.sum(axis=1)
        factors = components.factors
        d = factors.shape[1]
        # The rows of L for known cells come first: L_O' = Q R, hence L_O^+ = Q R^-T, and the other columns of
        # Q span the null space. Matrices are decomposed one by one: no pattern changes the bits of another.
        order = np.argsort(missing, axis=1, kind="stable")
        real = np.arange(d) < n_known[:, None]
        across = np.swapaxes(factors, 1, 2)[:, None]
        sorted_rows = np.take_along_axis(across, order[None, :, None, :], axis=-1) * real[:, None, :]
        q, r = np.linalg.qr(sorted_rows, mode="complete")
        sizes = np.where(real, np.diagonal(r, axis1=-2, axis2=-1), 1.0)
        padded = np.where(real[:, :, None] & real[:, None, :], r, np.eye(d))
        found = (q @ np.swapaxes(np.linalg.inv(padded), -1, -2)) * real[:, None, :]
        inverse = np.zeros_like(found)
        np.put_along_axis(inverse, np.broadcast_to(order[None, :, None, :], found.shape), found, axis=-1)
        lengths = np.sqrt((inverse**2).sum(axis=-1))
        steps = np.exp2(np.floor(np.log2(WHITENING / np.maximum(lengths, 2.0**-400))))
        whitening = np.rint(inverse * steps[..., None])
        # Sums of products of integers below 2^48 are exact in any order.
        offsets = (whitening * (components.centres * GRID)[:, None, None, :]).sum(axis=-1)
        log_det = np.log(np.abs(sizes)).sum(axis=-1)
        whole = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        # The constants of the components are those of all d cells.
        constants = (components.constants + whole)[:, None] - log_det
        constants = constants + missing.sum(axis=1) / 2 * math.log(2 * math.pi)
        null = np.where(real[:, :, None], 0.0, np.swapaxes(q, -1, -2))
        return cls(missing, whitening, offsets, 1 / (steps * GRID), constants, null)

    def places(
        self, k: int, which: NDArray[np.intp], rows: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the expected coordinates of rows (d, n) in frame k, and their squared norm.

        Missing cells of the rows are zero.
        """
        kernels = kernel_module("dpem.statistics.kernels.missing", rows.size)
        if kernels is not None:
            z = np.empty(rows.shape)
            kernels.places(rows, which, self.whitening[k], self.offsets[k], self.scales[k], z)
            return z, norm_squared(z)
        product = np.zeros(rows.shape)
        for j, column in enumerate(rows):  # sums of products of integers below 2^48 are exact
            product += self.whitening[k, :, :, j][which].T * column
        z = (product - self.offsets[k][which].T) * self.scales[k][which].T
        return z, norm_squared(z)

    def log_joint(self, which: NDArray[np.intp], rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of weight times density of the known cells, (m, n)."""
        return np.stack(
            [self.joint_of(k, which, self.places(k, which, rows)[1]) for k in range(len(self.constants))]
        )

    def joint_of(self, k: int, which: NDArray[np.intp], squared: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of weight times density of one component, from the squared distance."""
        return np.asarray(self.constants[k][which] - 0.5 * squared)

    def select(self, patterns: list[int]) -> Frames:
        """Return the frames of some of the patterns."""
        missing, *others = vars(self).values()
        return Frames(missing[patterns], *(value[:, patterns] for value in others))

    def joined_with(self, other: Frames) -> Frames:
        """Return the frames of the patterns of both."""
        mine, others = (list(vars(frames).values()) for frames in (self, other))
        joined = (np.concatenate(pair, axis=1) for pair in zip(mine[1:], others[1:], strict=True))
        return Frames(np.concatenate([self.missing, other.missing]), *joined)


def missing_patterns(rows: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return the patterns (p, d) of missing cells in rows (d, n), and the index of each row's pattern."""
    packed = np.ascontiguousarray(np.packbits(np.isnan(rows), axis=0).T)
    if packed.shape[1] < 8:  # as 64-bit integers, which sort many times faster
        packed = np.pad(packed, ((0, 0), (0, 8 - packed.shape[1])))
    width = packed.shape[1]
    keys = packed.view(np.uint64 if width == 8 else np.dtype((np.void, width))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return np.isnan(rows[:, first].T), which.reshape(-1)


class PatternFrames:
    """A cache of the frames of some components, for the patterns of missing cells in the rows.

    Decompositions are kept up to a limit. Each depends on one pattern and on released values alone.
    """

    def __init__(self, components: GaussianComponents) -> None:
        self._components = components
        self._lock = Lock()
        self._places: dict[bytes, int] = {}
        self._kept: Frames | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to workers of a cluster without the cache, because its patterns depend on private rows.
        return type(self), (self._components,)

    def groups(
        self, rows: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Frames]]:
        """Yield groups of rows (d, n): row numbers, each row's pattern, and the frames of these patterns."""
        m, d = self._components.offsets.shape
        missing, which = missing_patterns(rows)
        most = max(1, _PATTERN_CELLS // (m * d * d))
        kept = self._keep(missing, most)
        if kept is not None:
            frames, places = kept
            yield np.arange(rows.shape[1]), places[which], frames
            return
        for start in range(0, len(missing), most):
            held = np.flatnonzero((which >= start) & (which < start + most))
            frames = Frames.of(self._components, missing[start : start + most])
            yield held, which[held] - start, frames

    def _keep(self, missing: NDArray[np.bool_], most: int) -> tuple[Frames, NDArray[np.intp]] | None:
        """Add patterns to the cache. Return its frames and their indices, or None if there are too many."""
        keys = [pattern.tobytes() for pattern in missing]
        with self._lock:
            new = [i for i, key in enumerate(keys) if key not in self._places]
            if len(self._places) + len(new) > most:
                return None
        frames = Frames.of(self._components, missing[new]) if new else None
        with self._lock:
            added = [j for j, i in enumerate(new) if keys[i] not in self._places]
            if frames is not None and added:
                first = len(self._places)
                self._places.update((keys[new[j]], first + place) for place, j in enumerate(added))
                more = frames.select(added)
                self._kept = more if self._kept is None else self._kept.joined_with(more)
            kept = self._kept
            places = np.array([self._places[key] for key in keys], dtype=np.intp)
        return None if kept is None else (kept, places)


def fill_rows(
    components: GaussianComponents, frames_of: PatternFrames, rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Replace missing cells of grid rows (d, n) by their expectation under a single Gaussian.

    The results are grid rows again: integers of norm at most 2^24, each a function of one row.
    """
    incomplete = np.flatnonzero(np.isnan(rows).any(axis=0))
    filled = np.nan_to_num(rows)
    centre, factor = components.centres[0] * GRID, components.factors[0]
    for held, which, frames in frames_of.groups(rows[:, incomplete]):
        part = filled[:, incomplete[held]]
        z, _ = frames.places(0, which, part)
        expected = np.repeat(centre[:, None], len(which), axis=1)
        for j, column in enumerate(z):  # in a fixed order, so that no row changes the bits of another
            expected += GRID * factor[:, j][:, None] * column
        part = np.where(frames.missing[which].T, expected, part)
        largest = GRID - math.sqrt(len(rows))
        part = np.rint(part * (largest / np.maximum(np.sqrt(norm_squared(part)), largest)))
        part[:, ~(norm_squared(part) <= GRID * GRID)] = 0.0
        filled[:, incomplete[held]] = part
    return filled
