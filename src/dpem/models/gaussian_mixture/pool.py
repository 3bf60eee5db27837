"""All rows as one private Gaussian: where the data lies, and what is left of a mixture when noise is large.

Each round is one release, in the frame of the round before: the first in the public ball, where noise is
large beside narrow data, the next relative to what the first one found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID, onto_grid
from dpem.fitting.projection import cholesky, symmetric
from dpem.fitting.shrinkage import kept_part
from dpem.statistics.gaussian import FrameMoments, GaussianComponents, kept_variance
from dpem.statistics.gaussian_missing import CentredMoments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.statistics.gaussian import Covariance

__all__ = ["Pool", "PoolRound", "drawn_to_simpler", "frame_limits", "james_stein"]

_COUNT_SCALE, _LEAST_COUNT_SCALE = 0.6, 0.35  # s over tau, in one column and in many
_FIRST_COUNT_SCALE = 0.6  # in the unit ball, where tau is 1
_WIDEST_FRAME = 10.0  # variances in a frame beyond are noise
_NARROWEST = 1e-10  # variance in the unit ball: some hundred grid steps
_CLEAR = 2.0  # deviations of its noise at which a mean variance counts as seen


def frame_limits(n_columns: int, spread: float = 1.0) -> tuple[float, float]:
    """Return tau and s of a frame: most of a Gaussian lies within tau; few columns weigh counts more.

    |z|^2 has mean d and standard deviation sqrt(2 d), of which `spread` are kept.
    """
    tau = math.sqrt(n_columns + spread * math.sqrt(2 * n_columns))
    return tau, max(_LEAST_COUNT_SCALE, _COUNT_SCALE * n_columns**-0.25) * tau


@dataclass(frozen=True, eq=False)
class Pool:
    """Mean (d,) and covariance (d, d) of all rows in units of the ball, and their number, public or noisy."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    n_rows: float

    @cached_property
    def factor(self) -> NDArray[np.float64]:
        """Lower Cholesky factor of the covariance."""
        return cholesky(self.covariance)


@dataclass(frozen=True, eq=False)
class PoolRound:
    """One round (an `EMModel`); the parameters before the first are None.

    Attributes
    ----------
    covariance : str
        Form of the covariance.
    n_columns : int
        Columns of a row.
    n_rows : float, optional
        Number of rows where it is public or known from an earlier round; else this round yields it.
    incomplete : bool
        Whether rows may have missing cells.
        Then moments are those of known cells, column by column.
    """

    covariance: Covariance
    n_columns: int
    n_rows: float | None
    incomplete: bool = False

    def statistic(self, parameters: Pool | None) -> FrameMoments | CentredMoments:
        """Return the moments of all rows: in the unit ball, or in the frame of the round before."""
        d = self.n_columns
        kind: Covariance = "full" if self.covariance == "tied" else self.covariance
        if parameters is None:
            components = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
            first = FrameMoments(components, 1, kind, 1.0, _FIRST_COUNT_SCALE)
            return CentredMoments(first) if self.incomplete else first
        components = GaussianComponents.from_parameters(
            np.ones(1), parameters.mean[None], self._factor(parameters)[None]
        )
        later = FrameMoments(components, 1, kind, *frame_limits(d, 3.0))
        return CentredMoments(later) if self.incomplete else later

    def _factor(self, parameters: Pool) -> NDArray[np.float64]:
        """Return the frame of the next round: of columns, where their cells are taken one by one."""
        if self.incomplete:
            return np.diag(np.sqrt(np.diagonal(parameters.covariance)))
        return parameters.factor

    def m_step(self, parameters: Pool | None, released: ReleasedStatistics) -> Pool:
        """Return mean and covariance, drawn to a round shape as far as noise could explain what they show."""
        d = self.n_columns
        statistic = self.statistic(parameters)
        framed = statistic.read(released)
        frame = statistic.moments if isinstance(statistic, CentredMoments) else statistic
        moments, s = framed.moments[0], frame.count_scale
        n = max(1.0, self.n_rows if self.n_rows is not None else float(moments[0, 0]) / s**2)
        beside = framed.noise / math.sqrt(2) / n  # noise of an entry beside the diagonal
        shift = moments[0, 1:] / (s * n)
        shift *= kept_part(float(shift @ shift), d * (beside / s) ** 2)
        second = moments[1:, 1:] / n
        if parameters is not None:
            second = second / kept_variance(d, frame.clip)
        inside = self._repaired(
            symmetric(second - np.outer(shift, shift)),
            framed.noise / n,
            first=parameters is None,
        )
        if parameters is None:
            return Pool(onto_grid(shift[None] * GRID)[0] / GRID, inside, n)
        factor = self._factor(parameters)
        mean = onto_grid((parameters.mean + factor @ shift)[None] * GRID)[0] / GRID
        return Pool(mean, _within_ball(symmetric(factor @ inside @ factor.T)), n)

    def _repaired(self, inside: NDArray[np.float64], noise: float, *, first: bool) -> NDArray[np.float64]:
        d = self.n_columns
        alone = first and self.incomplete  # columns by themselves: see `CentredMoments`
        # In the unit ball no trace is above 1; in a frame the round before was too wide rather than narrow.
        widest, narrowest = (1 / d, 1e-7) if first else (1.0, 1e-3)
        least = min(_CLEAR * noise / math.sqrt(d), widest)
        inside, floor = drawn_to_simpler(inside, noise, "diag" if alone else self.covariance, least, widest)
        values, vectors = np.linalg.eigh(inside)
        values = np.clip(values, min(max(floor, narrowest), 1.0), _WIDEST_FRAME)
        if first:
            values = np.minimum(values + 0.5 * floor, 1.0)
        return symmetric(vectors * values @ vectors.T)


def _within_ball(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound eigenvalues by what rows in the unit ball can have, whatever noise says."""
    values, vectors = np.linalg.eigh(covariance)
    return symmetric(vectors * np.clip(values, _NARROWEST, 1.0) @ vectors.T)


def drawn_to_simpler(
    covariance: NDArray[np.float64], noise: float, form: Covariance, least: float, largest: float
) -> tuple[NDArray[np.float64], float]:
    """Return a noisy covariance as far as noise does not explain it, and how much noise is left of it.

    A round shape is clear first (d noises in one mean), then a variance for each column (d numbers), then
    what columns share (d^2 / 2): each is believed by its own evidence. `noise` is that of a variance.
    """
    d = len(covariance)
    variances = np.diagonal(covariance)
    mean = float(np.clip(variances.mean(), least, largest))
    own = variances - mean
    shared = covariance - np.diag(variances)
    kept_own = kept_shared = 0.0
    if form != "spherical":
        kept_own = float(kept_part(float(own @ own), d * noise**2))
    if form in ("full", "tied") and d > 1:
        kept_shared = float(james_stein(shared, noise**2 * d * (d - 1) / 2))
    drawn = mean * np.eye(d) + kept_own * np.diag(own) + kept_shared * shared
    return drawn, noise * max(kept_own, kept_shared * math.sqrt(d / 2))


def james_stein(
    difference: NDArray[np.float64], noise_energy: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return the part of a difference (over the last two axes) that noise does not explain, 0 to 1."""
    return kept_part((difference**2).sum(axis=(-2, -1)), noise_energy)
