"""Private k-means: a private ball, a start from noisy counts of boxes, and Lloyd steps with clipping.

Every stage is one Gaussian mechanism on integers; docs/guide/kmeans.md explains the stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpem._threads import one_thread
from dpem.data.domain import onto_grid
from dpem.fitting.ball import (
    Ball,
    clip_radius,
    column_stretch,
    inside_box,
    narrower_ball,
    private_ball,
    private_second_moment,
)
from dpem.fitting.box_tree import BoxTree
from dpem.fitting.centres_start import centres_from_boxes, refine
from dpem.fitting.loop import run_em
from dpem.fitting.shrinkage import kept_part
from dpem.gate.plan import Plan, Stage
from dpem.statistics.simple import (
    LINEAR_BITS,
    BoxHistogram,
    DistanceHistogram,
    RelativeSums,
    SecondMoments,
    Sums,
)

if TYPE_CHECKING:
    from typing import Unpack

    from numpy.typing import NDArray

    from dpem.estimator.base import PublicRandom
    from dpem.fitting.ball import Box
    from dpem.gate.base import Releases
    from dpem.gate.plan import Terms
    from dpem.gate.progress import Progress
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.neighbours import Adjacency
    from dpem.statistics.base import RowStatistic

__all__ = ["LloydModel", "fit_centres", "kmeans_stages", "plan_kmeans"]

DEFAULT_ITERATIONS = 5
_MOST_AXES = 4
_GRID_RELEASES = 3  # each may refine the boxes of the previous one
_LOW_DIMENSION = 2  # with at most so many columns the boxes cover all columns, with more the leading axes

# The density of rows in boxes that an axis needs to be used (experiments/kmeans_constants.py).
_DENSITY = 0.3
# Shares of mu^2, with and without a second moment to find axes.
_LOW_SHARES = {"centre": 0.03, "scale": 0.03, "grid": 0.55, "radius": 0.04, "lloyd": 0.35}
_HIGH_SHARES = {"centre": 0.04, "scale": 0.04, "axes": 0.10, "grid": 0.30, "radius": 0.04, "lloyd": 0.48}


def plan_kmeans(n_columns: int, iterations: int, **terms: Unpack[Terms]) -> Plan:
    """Return the plan of a fit, which depends on public arguments only."""
    return Plan.build(kmeans_stages(n_columns, terms["adjacency"], iterations), **terms)


def kmeans_stages(
    n_columns: int, adjacency: Adjacency, iterations: int, *, centred: bool = True, share: float = 1.0
) -> list[Stage]:
    """Return the stages of a fit with the share `share` of the budget; `centred` includes a centre."""
    shares = _LOW_SHARES if n_columns <= _LOW_DIMENSION else _HIGH_SHARES
    origin = np.zeros(n_columns)
    histogram = DistanceHistogram(origin[None], np.ones(1))
    # Statistics of the right kind are enough here: balls and centres do not change sensitivities.
    statistics: dict[str, RowStatistic] = {
        "centre": Sums(n_columns, counted=not adjacency.n_rows_public),
        "scale": histogram,
        "axes": SecondMoments(origin, 1.0),
        "grid": histogram,
        "radius": histogram,
        "lloyd": RelativeSums(origin[None], 1.0, _count_weight(n_columns, adjacency)),
    }
    return [
        Stage(
            name,
            share * part,
            statistics[name].sensitivity(adjacency),
            {"lloyd": iterations, "grid": _GRID_RELEASES}.get(name, 1),
        )
        for name, part in shares.items()
        if centred or name != "centre"
    ]


def _count_weight(n_columns: int, adjacency: Adjacency) -> float:
    # Under replace-one, counts of weight up to 1 cost nothing beside sums, Eq. (S-4). Under add/remove they
    # do, and sums of many columns need more of the budget.
    return 1.0 if adjacency.n_rows_public else float(n_columns**-0.25)


@dataclass(frozen=True)
class LloydModel:
    """One Lloyd step on relative sums: C_k += clip(S_k / N_k, R).

    The parameters are the centres, integers of shape (k, d) in grid units, inside the public box.
    """

    ball: Ball
    radius: float
    count_weight: float
    box: Box | None = None

    @cached_property
    def _stretch(self) -> NDArray[np.float64] | None:
        return None if self.box is None else column_stretch(self.radius, self.box[1] - self.box[0])

    def statistic(self, parameters: NDArray[np.float64]) -> RelativeSums:
        """Return the statistic of counts and relative sums around these centres."""
        return RelativeSums(parameters, self.radius, self.count_weight, self._stretch)

    def counts(
        self, parameters: NDArray[np.float64], released: ReleasedStatistics
    ) -> tuple[NDArray[np.float64], float]:
        """Return the released counts of the clusters, and the standard deviation of their noise."""
        units = self.statistic(parameters).count_units
        return released.values[..., : len(parameters)] / units, float(released.noise_stddev[0]) / units

    def m_step(self, parameters: NDArray[np.float64], released: ReleasedStatistics) -> NDArray[np.float64]:
        """Move each centre by its mean relative row, with twice the noise in place of smaller counts.

        A stack of releases gives a stack of centres.
        """
        statistic = self.statistic(parameters)
        k, d = parameters.shape
        counts, noise = self.counts(parameters, released)
        sums = released.values[..., k:].reshape(*counts.shape, d) / statistic.unit
        moves = sums / np.maximum(counts, 2 * noise)[..., None]
        # James-Stein, for at least three columns: a sum that could be noise alone moves its centre less.
        noise_squared = max(d - 2, 0) * (float(released.noise_stddev[k]) / statistic.unit) ** 2
        moves *= kept_part((sums**2).sum(axis=-1), noise_squared)[..., None]
        norms = np.sqrt((moves**2).sum(axis=-1, keepdims=True))
        moves *= self.radius / np.maximum(norms, 1.0)
        if self._stretch is not None:
            moves *= self._stretch
        return onto_grid(inside_box(parameters + moves, self.box))


def fit_centres(
    gate: Releases,
    n_columns: int,
    n_rows: float | None,
    n_clusters: int,
    random_state: PublicRandom,
    progress: Progress,
    known: Ball | None = None,
    box: Box | None = None,
) -> tuple[NDArray[np.float64], LloydModel, NDArray[np.float64], ReleasedStatistics]:
    """Run all stages; return the centres, the model of the last step, its start, and its release.

    `known` is a ball from earlier releases that contains most rows; it replaces the stage of the centre.
    `box` is the public box of all rows, in grid units; all centres are clipped to it.
    """
    steps = gate.plan.stage("lloyd")
    low = n_columns <= _LOW_DIMENSION
    progress.step("centre and scale")
    quantile = 0.998 if low else 0.95
    if known is None:
        ball = private_ball(gate, n_columns, n_rows, quantile, ("centre", "scale"), box)
    else:
        ball = narrower_ball(gate, known, quantile, "scale")
    axes, half_widths = (
        (np.eye(n_columns), np.ones(n_columns)) if low else _leading_axes(gate, ball, n_clusters, progress)
    )
    start = _start(gate, ball, axes, half_widths, n_clusters, random_state, progress)
    start = onto_grid(inside_box(start, box))
    weight = _count_weight(n_columns, gate.plan.adjacency)
    lloyd = LloydModel(ball, ball.radius, weight, box)
    done = 0
    if len(axes) < n_columns and steps.repeats > 1:  # a wide step moves centres off the leading axes
        start, _, _ = run_em(gate, lloyd, start, [steps], progress)
        done = 1
    progress.step("clipping radius")
    multiplier = _row_noise_multiplier(gate, "lloyd")
    # Noise of one coordinate sum is about 2 / mu of the radius; a centre averages n / K rows.
    noise_per_radius = 2 * multiplier * np.sqrt(n_columns) * n_clusters / ball.n_rows
    fallback = ball.radius * min(1.0, n_clusters ** (-1 / n_columns))
    radius = clip_radius(gate, "radius", start, ball, noise_per_radius, fallback)
    lloyd = LloydModel(ball, radius, weight, box)
    centres, before, released = run_em(gate, lloyd, start, [steps] * (steps.repeats - done), progress)
    return centres, lloyd, before, released


def _leading_axes(
    gate: Releases, ball: Ball, n_clusters: int, progress: Progress
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the axes along which clusters stand out from noise, and the extent of the rows along each."""
    progress.step("leading axes")
    moment, noise = private_second_moment(gate, "axes", ball)
    d = len(moment)
    with one_thread():
        values, vectors = np.linalg.eigh(moment)
    values, vectors = values[::-1], vectors[:, ::-1]
    # The largest eigenvalue of symmetric noise is about 2 sigma sqrt(d/2). The margin above it is sqrt 2.
    clear = int((values > 2 * noise * np.sqrt(d)).sum())
    p = int(np.clip(clear, 2, max(2, min(max(n_clusters - 1, 3), _MOST_AXES, d))))
    multiplier = _row_noise_multiplier(gate, "grid") / np.sqrt(gate.plan.stage("grid").repeats)
    while p > 2 and (_DENSITY * ball.n_rows / multiplier) ** (2 / (2 + p)) < 6:
        p -= 1
    spread = np.sqrt(np.maximum(values[:p], noise) / ball.n_rows)
    return vectors[:, :p].T, np.clip(2.5 * spread, 0.05, 1.0)


def _row_noise_multiplier(gate: Releases, stage: str) -> float:
    """Return the noise of a stage over the sensitivity of one row, whatever the privacy unit is."""
    return gate.plan.stage(stage).noise_multiplier * gate.plan.unit.rows_per_person


def _start(
    gate: Releases,
    ball: Ball,
    axes: NDArray[np.float64],
    half_widths: NDArray[np.float64],
    n_clusters: int,
    random_state: PublicRandom,
    progress: Progress,
) -> NDArray[np.float64]:
    """Release noisy counts of ever smaller boxes along the axes; return starting centres on the grid."""
    integer_axes = np.rint(axes * 2.0**LINEAR_BITS)
    tree = BoxTree(half_widths, ball.n_rows)
    stage = gate.plan.stage("grid")
    noise = stage.noise_multiplier * stage.sensitivity
    for release in range(stage.repeats):
        progress.step(f"noisy counts {release + 1} of {stage.repeats}")
        refine(tree, noise, n_clusters, stage.repeats - 1 - release)
        statistic = BoxHistogram(
            ball.centre, integer_axes, half_widths * ball.radius, tree.halved, np.sort(tree.starts)
        )
        tree.add(gate.release("grid", statistic).values)
    progress.step("starting centres")
    centres = centres_from_boxes(tree, noise, n_clusters, random_state)
    return ball.clip(ball.centre + ball.radius * (centres @ axes))
