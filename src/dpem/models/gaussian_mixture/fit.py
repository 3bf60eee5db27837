"""The private fit of a Gaussian mixture: a pooled Gaussian, a k-means start, and EM steps.

Each EM step releases moments in the components' own frames. Every release is one Gaussian mechanism on
integers; docs/guide/gaussian-mixture.md explains the stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpem._threads import one_thread
from dpem.data.domain import GRID, onto_grid
from dpem.fitting.ball import Ball
from dpem.fitting.centres import fit_centres, kmeans_stages
from dpem.fitting.loop import run_em
from dpem.fitting.projection import count_weights
from dpem.fitting.reserve import RESERVED, plan_of_first
from dpem.fitting.shrinkage import relative_sensitivity
from dpem.gate.mapped_rows import MappedRowsGate
from dpem.gate.plan import Stage, StageName
from dpem.models.gaussian_mixture.m_step import Background, MixtureState, MixtureStep
from dpem.models.gaussian_mixture.pool import Pool, PoolRound, frame_limits
from dpem.statistics.gaussian import FrameMoments, GaussianComponents
from dpem.statistics.missing_cells import FilledRows

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan, Terms
    from dpem.gate.progress import Progress
    from dpem.privacy.neighbours import Adjacency
    from dpem.statistics.gaussian import Covariance

__all__ = ["FittedMixture", "MixtureRequest", "MixtureShape", "fit_mixture"]

# Shares of mu^2.
_FIRST_POOL, _START = 0.05, 0.10
# With missing cells, or with a single component, there is one more round.
_LATER_POOL, _INCOMPLETE_POOL, _LONE_POOL = (0.05,), (0.04, 0.04), (0.05, 0.10)
_START_STEPS = 4
_GROWTH = 2.0  # of the budget from the first EM step to the last
_STEPS, _FEWEST, _MOST = 5.0, 3, 40  # EM steps: more if there is less noise
# Largest weight of the background: beside a single component, it holds the rows that do not fit it.
_LARGEST_BACKGROUND = {False: 0.5, True: 0.4}
_LARGEST_NOISE = 0.4  # of a component's covariance, relative to it; more would hide the component
_FEWEST_OF_MORE = 3  # if noise allows fewer components than requested, two are no better than one
_SMALLEST = 0.08  # smallest eigenvalue relative to the pooled one, at a noise level of 1
_REACH = 10.0  # radius of the start, in pooled standard deviations
_LEAST_BACKGROUND = 0.1  # smallest weight of the background, relative to its first weight


@dataclass(frozen=True)
class MixtureRequest:
    """The public arguments of a fit."""

    n_components: int
    n_columns: int
    covariance: Covariance
    iterations: int | None
    means_init: NDArray[np.float64] | None  # in units of the ball
    background_weight: float
    incomplete: bool = False  # whether rows may have missing cells

    def plan(self, **terms: Unpack[Terms]) -> Plan:
        """Return the plan of the first round; the rest is refined once the number of rows is known."""
        first = self._pool_sensitivity(terms["adjacency"], first=True)
        return plan_of_first(StageName("pool", 1), _FIRST_POOL, first, **terms)

    def shape(self, n_rows: float, plan: Plan) -> MixtureShape:
        """Choose by nu(K) = Delta / mu K / n sqrt(2 d), with Delta = sqrt 2 (s^2 + tau^2) (replace-one)."""
        tau, s = frame_limits(self.n_columns)
        delta = relative_sensitivity(plan) * (s * s + tau * tau)
        mu = plan.budget.mu
        # Norm of the noise of a full covariance; for simpler forms the noise of the mean is as large.
        norm = math.sqrt(2 * self.n_columns)
        per_component = delta / mu / n_rows * (norm if self.covariance == "full" else min(norm, 2.0))
        k = int(np.clip(math.floor(_LARGEST_NOISE / per_component), 1, self.n_components))
        if k < min(self.n_components, _FEWEST_OF_MORE):
            k = 1
        nu = k * per_component
        steps = self.iterations or int(np.clip(round(_STEPS / math.sqrt(nu)), _FEWEST, _MOST))
        return MixtureShape(k, steps, nu, mu * self.n_components * per_component / _LARGEST_NOISE)

    def shapes(self) -> list[MixtureShape]:
        """Return the shapes with the smallest shares of the budget that a released value may choose."""
        steps = self.iterations or _MOST
        return [MixtureShape(k, steps, 1.0, 1.0) for k in sorted({1, self.n_components})]

    def stages(self, shape: MixtureShape, adjacency: Adjacency) -> list[Stage]:
        """Return the stages after the first, for a mixture of this shape."""
        rounds = self.later_pool(shape)
        pool = self._pool_sensitivity(adjacency, first=False)
        stages = Stage.numbered("pool", rounds, pool, first=2)
        start = self._start_share(shape)
        if start:
            stages += kmeans_stages(self.n_columns, adjacency, _START_STEPS, centred=False, share=start)
        left = 1 - _FIRST_POOL - sum(rounds) - start
        growth = _GROWTH ** (np.arange(shape.iterations) / shape.iterations)
        one = self._em_sensitivity(shape.n_components, adjacency)
        return stages + Stage.numbered("em", left * growth / growth.sum(), one)

    def later_pool(self, shape: MixtureShape) -> tuple[float, ...]:
        """Return the budget shares of the rounds of the pooled Gaussian after the first."""
        if self.incomplete:
            return _INCOMPLETE_POOL
        return _LATER_POOL if shape.n_components > 1 else _LONE_POOL

    def _start_share(self, shape: MixtureShape) -> float:
        """Return the budget share of the start: zero for a public start or a single component."""
        return _START if self.means_init is None and shape.n_components > 1 else 0.0

    def pool_round(self, n_rows: float | None) -> PoolRound:
        """Return a round of the pooled Gaussian."""
        return PoolRound(self.covariance, self.n_columns, n_rows, self.incomplete)

    def _pool_sensitivity(self, adjacency: Adjacency, *, first: bool) -> float:
        d = self.n_columns
        anywhere = None if first else Pool(np.zeros(d), np.eye(d), 1.0)
        return self.pool_round(None).statistic(anywhere).sensitivity(adjacency)

    def _em_sensitivity(self, k: int, adjacency: Adjacency) -> float:
        d, m = self.n_columns, k + 2 * (self.background_weight > 0)
        anything = GaussianComponents.from_parameters(
            np.ones(m), np.zeros((m, d)), np.repeat(np.eye(d)[None], m, axis=0)
        )
        return FrameMoments(anything, k, self.covariance, *frame_limits(d)).sensitivity(adjacency)


@dataclass(frozen=True)
class MixtureShape:
    """The numbers of components and steps that the noise level allows.

    They depend on public numbers, or on the noisy number of rows if that is private.

    Attributes
    ----------
    n_components : int
        Number of components that the noise allows, at most the requested number.
    iterations : int
        Number of EM steps.
    noise_level : float
        nu: the noise of a component's covariance, relative to it.
    mu_for_all : float
        The mu of Gaussian DP that would allow all requested components.
    """

    n_components: int
    iterations: int
    noise_level: float
    mu_for_all: float


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """The result of a fit; `redrawn` repeats the last M-step with fresh noise of size `noise_stddev`."""

    state: MixtureState
    pool: Pool
    shape: MixtureShape
    noise_stddev: NDArray[np.float64]
    redrawn: Callable[[NDArray[np.float64]], MixtureState]  # by a stack of noise
    counts: tuple[NDArray[np.float64], float]  # averaged counts of the components, and their noise

    @property
    def background(self) -> Background:
        """The background components."""
        return Background.around(self.pool)


def fit_mixture(
    gate: Gate,
    request: MixtureRequest,
    n_rows: int | None,
    random_state: PublicRandom,
    progress: Progress,
) -> FittedMixture:
    """Run all stages. If the number of rows is private, the first stage estimates it and shapes the rest."""
    adjacency = gate.plan.adjacency
    pool = _pool_round(gate, request, StageName("pool", 1), n_rows, None, progress)
    n = pool.n_rows
    shape = request.shape(n, gate.plan)
    if n_rows is None:
        gate.refine(RESERVED, request.stages(shape, adjacency))
    for stage in gate.plan.numbered("pool")[1:]:
        pool = _pool_round(gate, request, stage.name, n, pool, progress)
    weight = request.background_weight
    background = np.full(2, weight / 2) if weight > 0 else np.zeros(0)
    start = _start(gate, request, pool, shape, background, random_state, progress)
    # Smaller eigenvalues, relative to the pooled ones, are noise. The limit rises steeply with its level.
    smallest = float(np.clip(_SMALLEST * shape.noise_level**4, 1e-5, 0.01))
    step = MixtureStep(
        pool,
        Background.around(pool),
        request.covariance,
        *frame_limits(request.n_columns),
        smallest_eigenvalue=smallest,
        n_steps=shape.iterations,
        least_background=_LEAST_BACKGROUND * weight / 2,
        largest_background=_LARGEST_BACKGROUND[shape.n_components > 1],
        incomplete=request.incomplete,
    )
    state, before, released = run_em(gate, step, start, gate.plan.numbered("em"), progress)
    average = state.average
    noise_stddev = released.noise_stddev * average.noise_of_last
    with one_thread():
        frames = step.frames(before)

    def redrawn(noise: NDArray[np.float64]) -> MixtureState:
        return step.m_step(before, released.with_more_noise(noise), frames)

    counts = average.sums[0][:, 0, 0], average.noise / step.count_scale**2
    return FittedMixture(state, pool, shape, noise_stddev, redrawn, counts)


def _pool_round(
    gate: Gate,
    request: MixtureRequest,
    stage: str,
    n_rows: float | None,
    before: Pool | None,
    progress: Progress,
) -> Pool:
    progress.step(stage)
    model = request.pool_round(n_rows)
    with one_thread():
        return model.m_step(before, gate.release(stage, model.statistic(before)))


def _start(
    gate: Gate,
    request: MixtureRequest,
    pool: Pool,
    shape: MixtureShape,
    background: NDArray[np.float64],
    random_state: PublicRandom,
    progress: Progress,
) -> MixtureState:
    """Return the first state: means from private k-means (or public ones), and scaled pooled covariances."""
    k, d = shape.n_components, request.n_columns
    if k == 1 and request.means_init is None:
        means, weights = pool.mean[None], np.ones(1)
    elif request.means_init is None:
        # Look only where the pooled Gaussian found rows: bounds may be far wider.
        reach = GRID * min(2.0, _REACH * math.sqrt(np.trace(pool.covariance)))
        known = Ball(onto_grid(pool.mean[None] * GRID)[0], reach, pool.n_rows)
        rows = _filled(gate, pool) if request.incomplete else gate
        centres, lloyd, before, released = fit_centres(rows, d, pool.n_rows, k, random_state, progress, known)
        means = centres / GRID
        weights = count_weights(*lloyd.counts(before, released), pool.n_rows)
    else:
        means, weights = request.means_init[:k], np.full(k, 1 / k)
    covariances = np.repeat((k ** (-2 / d) * pool.covariance)[None], k, axis=0)
    return MixtureState(weights, means, covariances, background)


def _filled(gate: Gate, pool: Pool) -> MappedRowsGate:
    """Fill missing cells by their conditional expectations under the pooled Gaussian."""
    with one_thread():
        alone = GaussianComponents.from_parameters(np.ones(1), pool.mean[None], pool.factor[None])
    return MappedRowsGate(gate, FilledRows(alone))
