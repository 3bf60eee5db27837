r"""Moments of rows with missing cells, in the frame of each component, as bounded integers.

In the frame of a component, x = c + L z with z standard normal. Let O be the known cells of a row. Then::

    E[z | x_O] = W (x_O - c_O),   W = L_O^+,      E[z z' | x_O] = zhat zhat' + P,

P is the projector onto the null space of L_O. Its rank is q, the number of missing cells, and P zhat = 0. One
QR decomposition of the rows of L that belong to O gives W, P = V V' and the density of x_O. So with
psi = (s, zhat), a row adds g (psi psi' + P). The Frobenius norm of that matrix is at most s^2 + tau^2 if::

    |zhat|^2 <= sqrt((s^2 + tau^2)^2 - q) - s^2

So the sensitivity is that of complete rows, Eq. (S-13). The code rounds V and not P, so that each row adds a
sum of squares. It checks the norm in integers. Every term is a function of one row and of released values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem._compiled import kernel_module
from dpem.data.domain import GRID, norm_squared
from dpem.privacy import sensitivity
from dpem.privacy._rounding import root_up
from dpem.statistics.base import Statistic, require_gaussian
from dpem.statistics.gaussian import (
    EXACT_ROWS,
    RESPONSIBILITY_BITS,
    ROW_BITS,
    FrameMoments,
    kept_variance,
)
from dpem.statistics.missing_patterns import PatternFrames
from dpem.statistics.simple import SQUARED_BITS

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm
    from dpem.statistics.gaussian import ReleasedMoments
    from dpem.statistics.missing_patterns import Frames

__all__ = ["CentredMoments", "IncompleteMoments"]

_PART_ROWS = 1 << 15  # rows at a time: their weights sum to far below 2^53
_KNOWN_PART = 0.5  # weight of the counts of known cells relative to the moments


@dataclass(frozen=True, eq=False)
class _PatternTerms:
    """What `IncompleteMoments` needs for each of p patterns of missing cells."""

    reach: NDArray[np.float64]  # (p,): the clip radius
    factors: NDArray[np.float64]  # (p,): grid units of psi
    projectors: NDArray[np.float64]  # (k, p, d, d): P, integers
    own: NDArray[np.int64]  # (k, p): |P|^2
    trace: NDArray[np.int64]  # (k, p)
    released: NDArray[np.int64]  # (k, p, entries)


@dataclass(frozen=True, eq=False)
class IncompleteMoments(FrameMoments):
    """`FrameMoments` of rows that may have missing cells (NaN). Eq. (S-13)."""

    def sum_block(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """Sum over complete rows as `FrameMoments` does, and over the others by pattern of missing cells."""
        incomplete = np.isnan(rows).any(axis=0)
        total = np.zeros(self.size, dtype=np.int64)
        if not incomplete.all():
            total += super().sum_block(np.ascontiguousarray(rows[:, ~incomplete]))
        for start in range(0, int(incomplete.sum()), _PART_ROWS):
            part = np.flatnonzero(incomplete)[start : start + _PART_ROWS]
            cells = rows[:, part].astype(np.float64, copy=False)
            kernels = kernel_module("dpem.statistics.kernels.missing", cells.size)
            for held, which, frames in self._frames.groups(cells):
                known = np.nan_to_num(cells[:, held])
                if kernels is None:
                    self._add_group(total, known, which, frames)
                else:
                    self._add_compiled_group(kernels, total, known, which, frames)
        return total

    @cached_property
    def _frames(self) -> PatternFrames:
        return PatternFrames(self.components)

    def _add_group(
        self, total: NDArray[np.int64], rows: NDArray[np.float64], which: NDArray[np.intp], frames: Frames
    ) -> None:
        d, k = self.n_columns, self.n_framed
        places = [frames.places(j, which, rows) for j in range(len(frames.constants))]
        joint = np.stack([frames.joint_of(j, which, squared) for j, (_, squared) in enumerate(places)])
        g = self._responsibilities(joint)
        own, shared, others = self._split(total)
        others += (g[k:].sum(axis=1) * 4.0**SQUARED_BITS).astype(np.int64)
        n_missing = frames.missing.sum(axis=1)
        reach, shrink = self._reach(n_missing)
        for j, own_k in enumerate(own):
            z, squared = places[j]
            projectors = self._projectors(frames, j)
            scale = (
                self.per_unit * shrink[which] * (reach[which] / np.maximum(np.sqrt(squared), reach[which]))
            )
            psi = np.rint(z * scale)
            fits = self._within_norm(psi, which, projectors)
            psi, weight = np.where(fits, psi, 0.0), np.where(fits, g[j], 0.0)
            per_pattern = np.bincount(which, weights=weight, minlength=len(n_missing)).astype(np.int64)
            own_k[0] += int(weight.sum()) * int(self.count_units) ** 2
            second = shared if self.pooled else own_k[d + 1 :]
            second += per_pattern @ self._released_part(projectors).astype(np.int64)
            for start in range(0, len(which), EXACT_ROWS):
                part = slice(start, start + EXACT_ROWS)
                weighted = psi[:, part] * weight[part]
                own_k[1 : d + 1] += (weighted.sum(axis=1) * self.count_units).astype(np.int64)
                second += self._second_moments(weighted, psi[:, part]).astype(np.int64)

    def _add_compiled_group(
        self,
        kernels: ModuleType,
        total: NDArray[np.int64],
        rows: NDArray[np.float64],
        which: NDArray[np.intp],
        frames: Frames,
    ) -> None:
        terms = self._terms_of(frames)
        weights = np.zeros(terms.own.shape, dtype=np.int64)
        kernels.incomplete_moments(
            rows,
            which,
            frames.whitening,
            frames.offsets,
            frames.scales,
            frames.constants,
            terms.reach,
            terms.factors,
            terms.projectors,
            terms.own,
            terms.trace,
            kernels.KINDS[self.covariance],
            float(self.count_units),
            2.0**RESPONSIBILITY_BITS,
            4 ** (2 * SQUARED_BITS),
            4.0**SQUARED_BITS,
            weights,
            total,
        )
        own, shared, _ = self._split(total)
        for weight, released, own_k in zip(weights, terms.released, own, strict=True):
            second = shared if self.pooled else own_k[self.n_columns + 1 :]
            second += weight @ released

    def _terms_of(self, frames: Frames) -> _PatternTerms:
        """Return the terms of the patterns of some frames, from the cache if they are the last ones."""
        last = self._last_terms
        if "frames" in last and last["frames"][0] is frames:
            return last["frames"][1]
        reach, shrink = self._reach(frames.missing.sum(axis=1))
        projectors = np.stack([self._projectors(frames, j) for j in range(self.n_framed)])
        terms = _PatternTerms(
            reach,
            self.per_unit * shrink,
            projectors,
            np.minimum((projectors**2).sum(axis=(2, 3)), 2.0**60).astype(np.int64),
            np.trace(projectors, axis1=2, axis2=3).astype(np.int64),
            np.stack([self._released_part(matrices).astype(np.int64) for matrices in projectors]),
        )
        last["frames"] = frames, terms
        return terms

    @cached_property
    def _last_terms(self) -> dict[str, tuple[Frames, _PatternTerms]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # Sent to workers of a cluster without the terms, because their patterns depend on private rows.
        return {name: value for name, value in vars(self).items() if name != "_last_terms"}

    def _projectors(self, frames: Frames, k: int) -> NDArray[np.float64]:
        """Return P of each pattern (p, d, d) for component k, in integers."""
        null = np.rint(frames.null[k] * (self.per_unit * math.sqrt(self._kept)))
        return np.asarray(np.swapaxes(null, 1, 2) @ null)

    @property
    def _kept(self) -> float:
        """Fraction of the variance of a complete row after clipping. Expectations get the same scale."""
        return kept_variance(self.n_columns, self.clip)

    def _reach(self, n_missing: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the clip radius of each pattern, and the factor that restores the variance of a full row."""
        q, s2 = n_missing.astype(np.float64), self.count_scale**2
        c = s2 + self.clip**2
        if self.covariance == "spherical":  # the bound depends on the trace q of P, not on its norm
            squared = np.sqrt(c * c + 2 * s2 * q) - (s2 + q)
        else:
            squared = np.sqrt(c * c - q) - s2
        reach = np.sqrt(np.maximum(squared, 1e-12))
        d = self.n_columns
        # One value for each number of missing cells.
        numbers, first, of_number = np.unique(n_missing, return_index=True, return_inverse=True)
        kept = [
            kept_variance(d - int(n), float(r)) if n < d else 1.0
            for n, r in zip(numbers, reach[first], strict=True)
        ]
        return reach, np.minimum(1.0, np.sqrt(self._kept / np.array(kept)))[of_number]

    def _within_norm(
        self, psi: NDArray[np.float64], which: NDArray[np.intp], projectors: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return whether |psi psi' + P|^2 <= 4^26 for each row, computed in integers."""
        length = norm_squared(psi)
        ok = length <= 4.0**SQUARED_BITS  # otherwise the integers below could overflow
        psi = np.where(ok, psi, 0.0)
        length = np.where(ok, length, 0.0).astype(np.int64)
        s2 = int(self.count_units) ** 2
        if self.covariance == "spherical":
            trace = np.trace(projectors, axis1=1, axis2=2).astype(np.int64)[which]
            norm = s2 * s2 + 2 * s2 * length + (length + trace) ** 2
        else:
            own = np.minimum((projectors**2).sum(axis=(1, 2)), 2.0**60).astype(np.int64)[which]
            across = np.zeros(psi.shape[1])  # psi' P psi, below 2^52: |P| <= sum of the norms of its factors
            for i, row in enumerate(psi):
                across += row * _times(projectors[:, i, :], which, psi)
            norm = (s2 + length) ** 2 + 2 * across.astype(np.int64) + own
        return np.asarray(ok & (norm <= 4 ** (2 * SQUARED_BITS)))

    def _released_part(self, matrices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of matrices (p, d, d) that this covariance releases, (p, entries)."""
        if self.covariance == "diag":
            return np.asarray(np.diagonal(matrices, axis1=1, axis2=2))
        if self.covariance == "spherical":
            return np.asarray(np.trace(matrices, axis1=1, axis2=2))[:, None]
        return np.asarray(matrices[:, self._triangle])


def _times(
    rows_of: NDArray[np.float64], which: NDArray[np.intp], psi: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Multiply each row of psi (d, n) by the vector (p, d) of its pattern; the integers are exact."""
    total = np.zeros(psi.shape[1])
    for j, column in enumerate(psi):
        total += rows_of[:, j][which] * column
    return total


@dataclass(frozen=True, eq=False)
class CentredMoments(Statistic):
    """Moments with missing cells replaced by the centre of the frame, and counts of known cells.

    This statistic is for one component with axes along the columns, before correlations are known. In
    addition to its moments, a row adds c / sqrt(d) for each known cell, where c is a fraction of the norm of
    the moments: Eq. (S-13).
    """

    moments: FrameMoments

    @property
    def size(self) -> int:
        """Number of entries: the moments, then one count per column."""
        return self.moments.size + self.moments.n_columns

    @cached_property
    def noise_shape(self) -> NDArray[np.float64]:
        """Relative noise of the moments, and 1 for each count."""
        return np.concatenate([self.moments.noise_shape, np.ones(self.moments.n_columns)])

    @property
    def coarse_bits(self) -> int:
        """Dropped low bits of the moments."""
        return self.moments.coarse_bits

    @property
    def one_cell(self) -> int:
        """Units that a known cell adds to the count of its column."""
        return math.floor(2.0**ROW_BITS * _KNOWN_PART / math.sqrt(self.moments.n_columns))

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the joint sensitivity of moments and counts, in released units."""
        require_gaussian(norm)
        row = root_up(Fraction(4**ROW_BITS + self.moments.n_columns * self.one_cell**2))
        one = sensitivity.clipped_vector(row, adjacency, cone=True)
        return sensitivity.coarse(one, self.coarse_bits, self.noise_shape)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the moments of rows with missing cells replaced, and count known cells."""
        missing = np.isnan(rows)
        centre = np.rint(self.moments.components.centres[0] * GRID)
        moments = self.moments.sum_block(np.where(missing, centre[:, None], rows))
        return np.concatenate([moments, (~missing).sum(axis=1) * self.one_cell])

    def read(self, released: ReleasedStatistics) -> ReleasedMoments:
        """Return the moments under the assumption that missing cells are distributed as the known ones.

        The number of rows in which two cells are both known is not released. It is at most the smaller of the
        two counts, which is used instead. So covariances are rather too small than too large.
        """
        size = self.moments.size
        framed = self.moments.read(released.entries(slice(0, size)))
        s = self.moments.count_scale
        n = max(1.0, float(framed.moments[0, 0, 0]) / s**2)
        per_row = 2.0**self.coarse_bits / self.one_cell
        count_noise = float(released.noise_stddev[size]) * per_row / n
        part = np.clip(released.values[size:] * per_row / n, min(3 * count_noise, 0.5), 1.0)
        known = np.append(1.0, part)
        moments = framed.moments / np.minimum(known[:, None], known)
        # Noise is larger in columns with few known cells. Noise of the counts moves variances about a far
        # mean.
        noise = framed.noise / part + 2 * n * count_noise / part * (moments[0, 0, 1:] / (s * n)) ** 2
        usual = float(np.median(noise))
        # Err to the side of a large variance in columns with more noise than usual.
        columns = np.arange(1, len(known))
        moments[0, columns, columns] += np.maximum(noise - usual, 0.0)
        return replace(framed, moments=moments, noise=usual)
