"""The private fit of factor analysis: the location of rows, the widths of columns, then second moments.

Each second moment is released in a frame from the release before. Every release is one Gaussian mechanism on
integers; docs/guide/factor-analysis.md explains the stages. All values are in units of the public ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem._threads import one_thread
from dpem.data.domain import GRID, onto_grid
from dpem.fitting.ball import Ball, first_ball, narrower_ball
from dpem.fitting.reserve import RESERVED, plan_of_first
from dpem.fitting.shrinkage import clear_part, noise_edge, relative_sensitivity
from dpem.gate.plan import Stage, StageName
from dpem.models.factor_analysis.em import LARGEST_DENSE, DenseMoment, fit_factors
from dpem.models.factor_analysis.one_round import Estimate, MomentRound
from dpem.statistics.frame_sizes import FrameSizes
from dpem.statistics.gaussian import FrameMoments
from dpem.statistics.simple import ColumnSquares, DistanceHistogram, RelativeSums

if TYPE_CHECKING:
    from typing import Unpack

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan, Terms
    from dpem.gate.progress import Progress
    from dpem.gate.released import ReleasedStatistics
    from dpem.models.factor_analysis.em import Factors, Moment
    from dpem.privacy.neighbours import Adjacency
    from dpem.statistics.base import RowStatistic

__all__ = ["FactorRequest", "FactorShape", "FittedMoment", "fit_moment"]

# Shares of the budget. Moments and sizes depend on the number of rounds, which the noise level decides.
_RADIUS, _CENTRE, _SPREAD, _SCALE = 0.05, 0.06, 0.03, 0.06
_MOMENTS = {4: (0.07, 0.10, 0.18, 0.45), 2: (0.30, 0.50), 1: (0.80,)}
_SIZE = {4: 0.015, 2: 0.03, 1: 0.04}
_HELD = 0.9  # share of the rows within the first two radii
_STEPS_ON_THE_WAY, _MOST_STEPS = 200, 2000  # of EM, before the last moment and on it
_LEAST_SIZE = 0.05  # smaller sizes are noise
_GOOD_SIZE = 0.1  # largest noise of a size that is treated as known
_PASSED_ON = 0.03  # smallest noise variances relative to their columns, over the edge of the noise


@dataclass(frozen=True)
class FactorRequest:
    """The public arguments of a fit.

    Attributes
    ----------
    n_components : int
        Number of factors.
    n_columns : int
        Number of coordinates of a row: its columns, or its coordinates in a basis and the length of the rest.
    basis_shape : (int, int), optional
        Number of columns of the table and of directions of the basis. Directions are in decreasing order of
        expected variance.
    """

    n_components: int
    n_columns: int
    basis_shape: tuple[int, int] | None = None

    @cached_property
    def expected(self) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
        """The expected shares of variance of the coordinates, and groups of coordinates with similar shares.

        Columns have equal shares and form one group. The i-th direction of a basis has an expected share
        proportional to 1/i, the spectrum of natural images; the directions of an octave form a group.
        """
        d = self.n_columns
        if self.basis_shape is None:
            return np.full(d, 1 / d), [np.arange(d)]
        columns, directions = self.basis_shape
        rank = np.arange(1, directions + 1)
        octave = np.floor(np.log2(rank))
        groups = [np.flatnonzero(octave == o) for o in range(int(octave[-1]) + 1)]
        weights = 1 / rank
        if directions < columns:
            weights = np.append(weights, math.log(columns / directions))
            groups.append(np.array([directions]))
        return weights / weights.sum(), groups

    def plan(self, **terms: Unpack[Terms]) -> Plan:
        """Return the plan of the first radius; the rest is refined once the number of rows is known."""
        first = DistanceHistogram(np.zeros((1, self.n_columns)), np.ones(1)).sensitivity(terms["adjacency"])
        return plan_of_first("radius", _RADIUS, first, **terms)

    def shape(self, n_rows: float, plan: Plan) -> FactorShape:
        """Choose by nu = Delta d sqrt(2 d) / (n mu): if noise hides everything, one release is best."""
        mu = plan.budget.mu * math.sqrt(sum(_MOMENTS[4]))
        one_row = relative_sensitivity(plan) * self.n_columns
        level = noise_edge(one_row / (n_rows * mu), self.n_columns)
        rounds = 4 if level < 1.5 else 2 if level < 3 else 1
        return FactorShape(1 if self.n_columns > LARGEST_DENSE else rounds, level)

    def shapes(self) -> list[FactorShape]:
        """Return a shape for each number of rounds that a released value may choose."""
        return [FactorShape(rounds, 1.0) for rounds in _MOMENTS]

    def stages(self, shape: FactorShape, adjacency: Adjacency) -> list[Stage]:
        """Return the stages after the first."""
        # Any frame, centre and radius will do: sensitivities do not depend on them.
        origin = np.zeros(self.n_columns)
        frame = Estimate(origin, np.ones(self.n_columns)).components(0.0)
        statistics: dict[str, RowStatistic] = {
            "centre": RelativeSums(origin[None], 1.0, 0.0),
            "spread": DistanceHistogram(origin[None], np.ones(1)),
            "scale": ColumnSquares(origin, np.ones(self.n_columns), 1.0),
            "size": FrameSizes(frame, 1.0),
            "moment": FrameMoments(frame, 1, "full", 1.0, 1.0),
        }
        one_row = {name: statistic.sensitivity(adjacency) for name, statistic in statistics.items()}
        first = {"centre": _CENTRE, "spread": _SPREAD, "scale": _SCALE}
        stages = [Stage(name, share, one_row[name]) for name, share in first.items()]
        size = _SIZE[shape.rounds]
        for number, share in enumerate(_MOMENTS[shape.rounds], 1):
            stages.append(Stage(StageName("size", number), size, one_row["size"]))
            stages.append(Stage(StageName("moment", number), share, one_row["moment"]))
        return [*stages, Stage("size", size, one_row["size"])] if shape.rounds > 1 else stages


@dataclass(frozen=True)
class FactorShape:
    """The number of rounds that the noise level allows.

    It depends on public numbers, or on the noisy number of rows if that is private.

    Attributes
    ----------
    rounds : int
        Number of released moments, each in the frame of the one before.
    noise_level : float
        nu: the largest eigenvalue of a moment's noise if columns are uncorrelated with variance 1.
    """

    rounds: int
    noise_level: float

    @property
    def factors(self) -> float:
        """The number of factors per column that noise leaves visible.

        It assumes K factors of equal strength that explain half of the variance together. Each has the excess
        variance d / (2 K) in standardised columns, which must exceed nu.
        """
        return 1 / (2 * self.noise_level)

    @property
    def widening(self) -> float:
        """The reach of a frame, in standard deviations of |z|^2 above its mean: larger if noise is small."""
        return min(3.0, max(-1.0, math.log2(0.4 / self.noise_level)))


@dataclass(frozen=True, eq=False)
class FittedMoment:
    """The released mean and second moment; `redrawn` repeats the last round with fresh noise."""

    mean: NDArray[np.float64]
    moment: Moment
    factors: Factors | None  # fitted to the last moment without a basis, in `n_iter` EM steps
    n_iter: int
    size: float  # factor by which the moment is still to be multiplied
    least_noise: float  # smallest noise variances of a factor model, relative to its columns
    single: bool  # whether noise allowed one round only
    last: MomentRound
    released: ReleasedStatistics

    def redrawn(self, noise: NDArray[np.float64]) -> tuple[NDArray[np.float64], Moment]:
        """Return mean and moment of the last round with fresh noise, or a stack of it."""
        return self.last.moment(self.released.with_more_noise(noise), redrawn=True)


def fit_moment(
    gate: Gate,
    request: FactorRequest,
    n_rows: int | None,
    random_state: PublicRandom,
    progress: Progress,
) -> FittedMoment:
    """Run all stages. If the number of rows is private, the first stage estimates it and shapes the rest."""
    progress.step("radius")
    ball = first_ball(gate, request.n_columns, n_rows, _HELD, "radius")
    n = gate.n_rows = ball.n_rows
    shape = request.shape(n, gate.plan)
    if n_rows is None:
        gate.refine(RESERVED, request.stages(shape, gate.plan.adjacency))
    progress.step("scale")
    with one_thread():
        estimate = _first_estimate(gate, request, ball)
    factors, n_iter = None, 0
    for j in range(1, shape.rounds + 1):
        progress.step(f"moment {j} of {shape.rounds}")
        with one_thread():  # the bits of eigenvalues and inverses depend on the number of threads
            size, size_noise = _size(gate, StageName("size", j), estimate, n)
            estimate = estimate.times(size)
            step = MomentRound.build(
                gate.plan,
                StageName("moment", j),
                estimate,
                n,
                widening=shape.widening,
                n_components=request.n_components,
                sized=size_noise < _GOOD_SIZE,
                single=shape.rounds == 1,
            )
            released = gate.release(StageName("moment", j), step.statistic)
            mean, moment = step.moment(released)
            least_noise = min(0.4, max(0.003, _PASSED_ON * step.edge(released)))
            if request.basis_shape is None and isinstance(moment, DenseMoment):
                last = j == shape.rounds
                factors, n_iter = fit_factors(
                    moment,
                    request.n_components,
                    random_state if last else None,
                    least_noise=least_noise,
                    max_iter=_MOST_STEPS if last else _STEPS_ON_THE_WAY,
                )
                estimate = Estimate(mean, factors.covariance)
            elif isinstance(moment, DenseMoment):
                estimate = Estimate(mean, moment.matrix)
    size = 1.0
    if shape.rounds > 1:
        with one_thread():
            size, _ = _size(gate, "size", estimate, n)
        size = min(size, 1 / max(float(moment.diagonal.sum()), 1e-300))  # rows lie in the unit ball
    return FittedMoment(mean, moment, factors, n_iter, size, least_noise, shape.rounds == 1, step, released)


def _first_estimate(gate: Gate, request: FactorRequest, ball: Ball) -> Estimate:
    """Release a centre within the first radius, a radius about it, and the width of each column."""
    d, n = request.n_columns, ball.n_rows
    sums = RelativeSums(ball.centre[None], ball.radius, 0.0)
    released = gate.release("centre", sums)
    unit = ball.radius / (sums.unit * n)
    centre, noise = released.values[1:] * unit, float(released.noise_stddev[1]) * unit
    centre = onto_grid((centre * clear_part(centre, noise))[None])[0]
    reach = min(2 * ball.radius, GRID + float(np.sqrt(centre @ centre)))
    ball = narrower_ball(gate, Ball(centre, reach, n), _HELD, "spread")

    weights, groups = request.expected
    expected = (ball.radius / GRID) ** 2 * weights
    # Gaussian columns of the expected width have squares of norm about sqrt(3 d).
    clip = min(2 * math.sqrt(3 * d), d + 3 * math.sqrt(2 * d))
    squares = ColumnSquares(centre, np.sqrt(expected) * GRID, clip)
    released = gate.release("scale", squares)
    unit = 1 / (squares.unit * n)
    relative = _relative_variances(
        released.values * unit, float(released.noise_stddev[0]) * unit, weights, groups
    )
    return Estimate(centre / GRID, np.maximum(expected * relative, 1e-12)).times(1.0)


def _relative_variances(
    noisy: NDArray[np.float64], noise: float, weights: NDArray[np.float64], groups: list[NDArray[np.intp]]
) -> NDArray[np.float64]:
    """Shrink noisy variances, relative to the expected ones, towards their groups and these to their mean.

    A value moves only if it stands out of the noise clearly. The move is shrunk as if values deviated by
    about their own size.
    """
    whole = float(weights @ noisy / weights.sum())
    floor = noise * float(np.sqrt(weights @ weights)) / weights.sum()
    whole = min(max(whole, floor), 4.0)

    def shrunk(values: NDArray[np.float64], to: float, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        kept = clear_part(values - to, noise)
        return np.asarray(to + kept * (np.maximum(values, 0) - to) * whole**2 / (whole**2 + noise**2))

    sizes = np.array([len(group) for group in groups])
    means = shrunk(np.array([noisy[group].mean() for group in groups]), whole, noise / np.sqrt(sizes))
    means = np.maximum(means, 0.02 * whole)
    result = np.empty_like(noisy)
    for group, mean in zip(groups, means, strict=True):
        least = max(0.02 * mean, 0.3 * min(noise, mean))
        result[group] = np.maximum(shrunk(noisy[group], mean, np.full(len(group), noise)), least)
    return result


def _size(gate: Gate, stage: str, estimate: Estimate, n: float) -> tuple[float, float]:
    """Release the factor on a covariance for which |z|^2 is d on average; return it and its noise.

    The |z|^2 of a row is capped: at three times the average, or higher if noise allows, because tails matter.
    """
    d = len(estimate.mean)
    planned = gate.plan.stage(stage)
    cap = min(20.0, max(3.0, 0.02 * n / (gate.plan.unit.rows_per_person * planned.noise_multiplier)))
    statistic = FrameSizes(estimate.components(0.0), cap * d)
    mean, noise = statistic.mean(gate.release(stage, statistic), n)
    excess = mean / d - 1
    kept = float(clear_part(np.array([excess]), noise / d))
    return max(_LEAST_SIZE, 1 + kept * excess), noise / d
