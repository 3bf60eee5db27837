"""From noisy histograms to bins: the probability of each level, and the levels merged in tables of pairs.

All of it is post-processing of released counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpem.fitting.shrinkage import kept_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data.levels import ColumnLevels

__all__ = ["ColumnBins", "NoisyLevels", "choose_bins", "most_bins_of", "noisy_rows"]

_CLEAR = 2.0  # standard deviations of noise above which a split of a range or a bin is kept
_LEAST = 0.02  # smallest count of a part of a range, relative to its noise
_MOST_ORDERED, _MOST_UNORDERED = 16, 48  # bins of a column


@dataclass(frozen=True, eq=False)
class NoisyLevels:
    """Noisy counts of a column's levels, reconciled with noisy counts of coarse parts.

    A part has M levels, and all counts have the same noise. Least squares adds to each level 1/(M + 1) of the
    difference between the count of the part and the sum of its levels. A sum over k levels then has the
    variance k - k^2 / (M + 1), in units of the noise variance.
    """

    levels: ColumnLevels
    counts: NDArray[np.float64]
    noise: float
    has_parts: bool = True

    @classmethod
    def measured(
        cls,
        levels: ColumnLevels,
        fine: NDArray[np.float64],
        coarse: NDArray[np.float64] | None,
        noise: float,
    ) -> NoisyLevels:
        """Combine the counts of levels and of coarse parts."""
        if coarse is None or levels.parts is None:
            return cls(levels, fine, noise, has_parts=False)
        members = np.bincount(levels.parts)
        excess = coarse - np.bincount(levels.parts, weights=fine)
        return cls(levels, fine + (excess / (members + 1))[levels.parts], noise)

    def averaged_with(self, other: NoisyLevels) -> NoisyLevels:
        """Average the counts with those of a second release, weighted by precision."""
        precision = np.array([self.noise**-2, other.noise**-2])
        weight = precision / precision.sum()
        average = weight[0] * self.counts + weight[1] * other.counts
        return replace(self, counts=average, noise=float(precision.sum() ** -0.5))

    @cached_property
    def _members(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        parts = self.levels.parts if self.levels.parts is not None else np.arange(self.levels.size)
        return parts, np.bincount(parts).astype(np.float64)

    def variance(self, start: int, stop: int) -> float:
        """Return the noise variance of the sum of the levels from `start` up to `stop`."""
        if not self.has_parts:
            return self.noise**2 * (stop - start)
        parts, members = self._members
        k = np.bincount(parts[start:stop], minlength=len(members))
        return float(self.noise**2 * (k - k**2 / (members + 1)).sum())

    def of_bins(self, of_level: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the counts of bins and their noise variances."""
        counts = np.asarray(np.bincount(of_level, weights=self.counts), dtype=np.float64)
        if not self.has_parts:
            return counts, self.noise**2 * np.bincount(of_level).astype(np.float64)
        parts, members = self._members
        k = np.zeros((len(counts), len(members)))
        np.add.at(k, (of_level, parts), 1.0)
        return counts, self.noise**2 * (k - k**2 / (members + 1)).sum(axis=1)

    def probabilities(self, n_rows: float) -> NDArray[np.float64]:
        """Return the probability of each level; all are positive."""
        n = self.levels.n_values
        known = n_rows
        rest = []
        if self.levels.column.missing:
            variances = self.variance(0, n), self.variance(n, n + 1)
            excess = self.counts.sum() - n_rows
            missing = self.counts[n] - excess * variances[1] / sum(variances)
            least = min(_LEAST * variances[1] ** 0.5, n_rows / 2)
            rest = [float(np.clip(missing, least, n_rows - least))]
            known = n_rows - rest[0]
        counts = self._halved(known) if self.levels.is_ordered else self._sparse(known)
        everything = np.append(counts, rest)
        return np.asarray(everything / everything.sum())

    def _halved(self, total: float) -> NDArray[np.float64]:
        """Share a total among ordered levels by repeated halving; shares that noise explains are even.

        These are the Haar wavelets of the histogram, each shrunk separately. The result is flat if nothing
        stands out of the noise, and sharp at spikes.
        """
        n = self.levels.n_values
        shared = np.empty(n)
        sums = np.concatenate([[0.0], np.cumsum(self.counts[:n])])
        stack = [(0, n, total)]
        while stack:
            start, stop, held = stack.pop()
            if stop - start == 1:
                shared[start] = held
                continue
            middle = (start + stop) // 2
            left, right = sums[middle] - sums[start], sums[stop] - sums[middle]
            even = held * (middle - start) / (stop - start)
            # The total is more certain than the halves: spread the difference over both.
            variances = self.variance(start, middle), self.variance(middle, stop)
            both = max(sum(variances), 1e-300)
            left = left - (left + right - held) * variances[0] / both
            deviation = (variances[0] * variances[1] / both) ** 0.5
            kept = float(kept_part((left - even) ** 2, (_CLEAR * deviation) ** 2))
            least = _LEAST * deviation
            left = float(
                np.clip(even + kept * (left - even), min(least, even), held - min(least, held - even))
            )
            stack += [(start, middle, left), (middle, stop, held - left)]
        return np.maximum(shared, 1e-12 * total)

    def _sparse(self, total: float) -> NDArray[np.float64]:
        """Return the expected counts of unordered levels given noisy ones, with an exponential prior.

        The rate of the prior makes the expected counts sum to the total. If a few levels hold nearly all
        rows, the others get nearly none.
        """
        noisy = self.counts[: self.levels.n_values] / self.noise
        low, high = 0.0, 1.0
        while _truncated_normal_mean(noisy - high).sum() * self.noise > total and high < 1e6:
            low, high = high, 2 * high
        for _ in range(40):
            middle = (low + high) / 2
            too_many = _truncated_normal_mean(noisy - middle).sum() * self.noise > total
            low, high = (middle, high) if too_many else (low, middle)
        counts = _truncated_normal_mean(noisy - high)
        return np.asarray(counts * (total / counts.sum()))


def _truncated_normal_mean(centre: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means of normal distributions of variance 1 truncated at zero; -1/centre far below zero.

    Examples
    --------
    >>> _truncated_normal_mean(np.array([5.0, 0.0, -50.0])).round(3)
    array([5.   , 0.798, 0.02 ])
    """
    near = np.maximum(centre, -30.0)
    hazard = np.exp(-(near**2) / 2 - special.log_ndtr(near)) / np.sqrt(2 * np.pi)
    return np.asarray(np.maximum(np.where(centre > -30, near + hazard, -1 / np.minimum(centre, -1.0)), 1e-9))


def noisy_rows(columns: Sequence[NoisyLevels]) -> float:
    """Estimate the number of rows from the totals of all columns, weighted by precision."""
    precision = np.array([1 / column.variance(0, column.levels.size) for column in columns])
    totals = np.array([column.counts.sum() for column in columns])
    return max(float((totals * precision).sum() / precision.sum()), columns[0].noise, 1.0)


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """The bins of a column: groups of its levels.

    Attributes
    ----------
    levels : ColumnLevels
        The levels of the column.
    of_level : ndarray of int
        Bin of each level.
    probabilities : ndarray
        Probability of each level, over all rows.
    """

    levels: ColumnLevels
    of_level: NDArray[np.intp]
    probabilities: NDArray[np.float64]

    @property
    def size(self) -> int:
        """The number of bins."""
        return int(self.of_level.max()) + 1

    @property
    def of_bins(self) -> NDArray[np.float64]:
        """The probability of each bin."""
        return np.asarray(np.bincount(self.of_level, weights=self.probabilities), dtype=np.float64)

    @property
    def within(self) -> NDArray[np.float64]:
        """The probability of each level within its bin."""
        return np.asarray(self.probabilities / self.of_bins[self.of_level])


def most_bins_of(levels: ColumnLevels) -> int:
    """Return the largest number of bins of a column, which is smaller if its levels are ordered."""
    return _MOST_ORDERED if levels.is_ordered else _MOST_UNORDERED


def choose_bins(
    levels: ColumnLevels, probabilities: NDArray[np.float64], noise: float, most: int
) -> ColumnBins:
    """Group the levels of a column into at most `most` bins, and one for missing cells.

    A level that stands out of the noise is a bin of its own. Ordered levels otherwise join their neighbours;
    the other unordered levels share one bin. All other bins have at least twice the probability `noise`.
    """
    n = levels.n_values
    values = probabilities[:n]
    if n <= 2:
        of_level = np.arange(n)
    elif levels.is_ordered:
        of_level = _runs(values, _CLEAR * noise, most)
    else:
        of_level = _heads(values, _CLEAR * noise, most)
    if levels.column.missing:
        of_level = np.append(of_level, of_level.max() + 1)
    return ColumnBins(levels, of_level, probabilities)


def _runs(values: NDArray[np.float64], least: float, most: int) -> NDArray[np.intp]:
    """Cut ordered levels into runs with equal sums of square-root probabilities: fine if rows are dense."""
    alone = values >= max(values.sum() / most, least)
    weight = np.where(alone, 0.0, np.sqrt(values))
    left = max(2, most - int(alone.sum()))
    run = np.floor(np.cumsum(weight) / max(weight.sum(), 1e-300) * left * (1 - 1e-9))
    cuts = (np.diff(run) != 0) | alone[1:] | alone[:-1]
    of_level = np.concatenate([[0], np.cumsum(cuts)])
    return _merged(of_level, values, least, most)


def _merged(
    of_level: NDArray[np.intp], values: NDArray[np.float64], least: float, most: int
) -> NDArray[np.intp]:
    """Merge the rarest run with its rarer neighbour until no run is too rare and there are not too many."""
    while of_level[-1] > 1:
        mass = np.bincount(of_level, weights=values)
        rarest = int(mass.argmin())
        if mass[rarest] >= least and len(mass) <= most:
            break
        before = mass[rarest - 1] if rarest > 0 else np.inf
        after = mass[rarest + 1] if rarest + 1 < len(mass) else np.inf
        of_level = np.where(of_level >= (rarest if before <= after else rarest + 1), of_level - 1, of_level)
    return of_level


def _heads(values: NDArray[np.float64], least: float, most: int) -> NDArray[np.intp]:
    """Give the most frequent levels a bin each, and all others one bin."""
    order = np.argsort(-values, kind="stable")
    heads = order[: most - 1][values[order[: most - 1]] >= least]
    if len(heads) >= len(values) - 1:
        return np.arange(len(values))
    of_level = np.full(len(values), len(heads), dtype=np.intp)
    of_level[np.sort(heads)] = np.arange(len(heads))
    return of_level
