r"""Moments of rows with missing cells, in the frame of each component, as bounded integers.

In the frame of a component, x = c + L z with z standard normal. Let O be the known cells of a row. Then::

    E[z | x_O] = W (x_O - c_O),   W = L_O^+,      E[z z' | x_O] = zhat zhat' + P,

P is the projector onto the null space of L_O. Its rank is q, the number of missing cells, and P zhat = 0.
`missing_cells` computes zhat, V with P = V V', and the density of x_O. With psi = (s, zhat), a row adds
g (psi psi' + P). The Frobenius norm of that matrix is at most s^2 + tau^2 if::

    |zhat|^2 <= sqrt((s^2 + tau^2)^2 - q) - s^2

So the sensitivity is that of complete rows, Eq. (S-13). The code rounds V and not P, so that each row adds a
sum of squares. It checks the norm in integers. Every term is a function of one row and of released values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem.data.domain import GRID, norm_squared
from dpem.privacy import sensitivity
from dpem.privacy._rounding import root_up
from dpem.statistics.base import CompiledStatistic, require_gaussian
from dpem.statistics.gaussian import (
    EXACT_ROWS,
    RESPONSIBILITY_BITS,
    ROW_BITS,
    FrameMoments,
    kept_variance,
)
from dpem.statistics.missing_cells import Frame, incomplete_parts, of_missing_cells
from dpem.statistics.simple import SQUARED_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm
    from dpem.statistics.gaussian import ReleasedMoments
    from dpem.statistics.missing_cells import IncompletePart

__all__ = ["CentredMoments", "IncompleteMoments"]

_KNOWN_PART = 0.5  # weight of the counts of known cells relative to the moments
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, eq=False)
class IncompleteMoments(FrameMoments):
    """`FrameMoments` of rows that may have missing cells (NaN). Eq. (S-13)."""

    kernels: ClassVar[str] = "missing"
    sum_tensor = None  # type: ignore[assignment]  # the processor sums rows with missing cells

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum over complete rows as `FrameMoments` does, and over the others by pattern of missing cells."""
        incomplete = np.isnan(rows).any(axis=0)
        total = np.zeros(self.size, dtype=np.int64)
        if not incomplete.all():
            total += super()._sum_numpy(np.ascontiguousarray(rows[:, ~incomplete]))
        for part in incomplete_parts(rows, np.flatnonzero(incomplete)):
            self._add_part(total, part)
        return total

    def _add_part(self, total: NDArray[np.int64], part: IncompletePart) -> None:
        d, k = self.n_columns, self.n_framed
        factors = [part.factor(frame) for frame in self._frames]
        places = [part.places(frame, c) for frame, (c, _) in zip(self._frames, factors, strict=True)]
        joint = [
            frame.log_joint(part, z, log_size)
            for frame, z, (_, log_size) in zip(self._frames, places, factors, strict=True)
        ]
        g = self._responsibilities(np.stack(joint))
        own, shared, others = self._split(total)
        others += (g[k:].sum(axis=1) * 4.0**SQUARED_BITS).astype(np.int64)
        reach, scales, unit = self._scales
        size = part.sizes[part.which]
        for j, own_k in enumerate(own):
            z = places[j]
            clip = reach[size] / np.maximum(np.sqrt(norm_squared(z)), reach[size])
            psi = np.rint(z * (scales[size] * clip))
            null = np.rint(part.basis(self._frames[j], factors[j][0]) * unit)
            fits = self._within_norm(psi, null, part.which)
            psi, weight = np.where(fits, psi, 0.0), np.where(fits, g[j], 0.0)
            of_pattern = np.bincount(part.which, weights=weight, minlength=len(part.missing))
            own_k[0] += int(weight.sum() * self.count_units**2)
            own_k[1 : d + 1] += ((psi * weight).sum(axis=1) * self.count_units).astype(np.int64)
            null[:, :, of_pattern == 0.0] = 0.0  # not checked, and perhaps no numbers
            second = shared if self.pooled else own_k[d + 1 :]
            # P of a pattern is the sum of the products of its basis vectors.
            for vector, factor in [(psi, weight), *((one, of_pattern) for one in null)]:
                for start in range(0, vector.shape[1], EXACT_ROWS):
                    these = slice(start, start + EXACT_ROWS)
                    weighted = vector[:, these] * factor[these]
                    second += self._second_moments(weighted, vector[:, these]).astype(np.int64)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        with _ONE_AT_A_TIME:  # threads start together: the first one prepares what all of them read
            frames, (reach, scales, unit) = self._stacked_frames, self._scales
        kernels.incomplete_moments(
            rows,
            *frames,
            self.components.offsets,
            of_missing_cells(self.n_columns),
            reach,
            scales,
            unit,
            self.n_framed,
            kernels.KINDS[self.covariance],
            self.clip,
            self.per_unit,
            float(self.count_units),
            2.0**RESPONSIBILITY_BITS,
            4.0**SQUARED_BITS,
            total,
        )

    @cached_property
    def _frames(self) -> list[Frame]:
        return [Frame.of(self.components, k) for k in range(len(self.components.constants))]

    @cached_property
    def _stacked_frames(self) -> list[NDArray[np.float64]]:
        return [
            np.stack(values) for values in zip(*(vars(frame).values() for frame in self._frames), strict=True)
        ]

    @cached_property
    def _scales(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Clip radii and grid units of psi for rows with 0 to d missing cells, and grid units of V."""
        reach, shrink = self._reach(np.arange(self.n_columns + 1))
        return reach, self.per_unit * shrink, self.per_unit * math.sqrt(self._kept)

    @property
    def _kept(self) -> float:
        """Fraction of the variance of a complete row after clipping. Expectations get the same scale."""
        return kept_variance(self.n_columns, self.clip)

    def _reach(self, n_missing: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the clip radius for numbers of missing cells, and factors that restore the variance."""
        q, s2 = n_missing.astype(np.float64), self.count_scale**2
        c = s2 + self.clip**2
        if self.covariance == "spherical":  # the bound depends on the trace q of P, not on its norm
            squared = np.sqrt(c * c + 2 * s2 * q) - (s2 + q)
        else:
            squared = np.sqrt(c * c - q) - s2
        reach = np.sqrt(np.maximum(squared, 1e-12))
        d = self.n_columns
        kept = [
            kept_variance(d - int(n), float(r)) if n < d else 1.0
            for n, r in zip(n_missing, reach, strict=True)
        ]
        return reach, np.minimum(1.0, np.sqrt(self._kept / np.array(kept)))

    def _within_norm(
        self, psi: NDArray[np.float64], null: NDArray[np.float64], which: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Return whether |psi psi' + P|^2 <= 4^26 for each row, where P sums v v' over `null` (q, d, p).

        Terms are squares of integers, and a sum below 2^53 is exact. A larger sum may be rounded, but not to
        2^52 or less.
        """
        length = norm_squared(psi)
        s2 = self.count_units**2
        with np.errstate(all="ignore"):
            if self.covariance == "spherical":
                trace = sum((norm_squared(vector) for vector in null), np.zeros(null.shape[2]))
                norm = s2 * s2 + 2 * s2 * length + (length + trace[which]) ** 2
            else:
                norm = (s2 + length) ** 2 + _norm_of_products(null)[which]
                for vector in null:
                    norm += 2 * (vector[:, which] * psi).sum(axis=0) ** 2
            return np.asarray((length <= 4.0**SQUARED_BITS) & (norm <= 4.0 ** (2 * SQUARED_BITS)))


def _norm_of_products(null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |P|^2 of each pattern: the sum of the squared products of its vectors with each other."""
    total = np.zeros(null.shape[2])
    for i, first in enumerate(null):
        total += (first * first).sum(axis=0) ** 2
        for second in null[:i]:
            total += 2 * (first * second).sum(axis=0) ** 2
    return total


@dataclass(frozen=True, eq=False)
class CentredMoments(CompiledStatistic):
    """Moments with missing cells replaced by the centre of the frame, and counts of known cells.

    This statistic is for one component with axes along the columns, before correlations are known. In
    addition to its moments, a row adds c / sqrt(d) for each known cell, where c is a fraction of the norm of
    the moments: Eq. (S-13).
    """

    moments: FrameMoments
    kernels: ClassVar[str] = "missing"

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

    @property
    def _centre(self) -> NDArray[np.float64]:
        return np.asarray(np.rint(self.moments.components.centres[0] * GRID))

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the moments of rows with missing cells replaced, and count known cells."""
        missing = np.isnan(rows)
        moments = self.moments._sum_numpy(np.where(missing, self._centre[:, None], rows))
        return np.concatenate([moments, (~missing).sum(axis=1) * self.one_cell])

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        moments, components = self.moments, self.moments.components
        kernels.centred_moments(
            rows,
            self._centre,
            self.one_cell,
            components.whitening,
            components.offsets,
            components.scales,
            components.constants,
            moments.n_framed,
            kernels.KINDS[moments.covariance],
            moments.clip,
            moments.per_unit,
            float(moments.count_units),
            2.0**RESPONSIBILITY_BITS,
            4.0**SQUARED_BITS,
            total,
        )

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
