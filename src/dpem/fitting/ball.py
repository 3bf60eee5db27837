"""Private location and scale of the rows, so that later noise is relative to them.

Small shares of the budget pay for a centre, a radius that contains most rows, and a clipping radius. If noise
would dominate one of them, the public domain is used instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpem.data.domain import GRID, onto_grid
from dpem.fitting.shrinkage import kept_part
from dpem.statistics.simple import DistanceHistogram, SecondMoments, Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.base import Releases
    from dpem.gate.released import ReleasedStatistics

__all__ = [
    "Ball",
    "Box",
    "clip_radius",
    "column_stretch",
    "first_ball",
    "inside_box",
    "narrower_ball",
    "private_ball",
    "private_second_moment",
]

# Bins of distance histograms: each spans half an octave, from the largest distance down to 1/181 of it.
_BINS = 16
_EDGES: NDArray[np.float64] = np.exp2(-np.arange(_BINS - 1.0, -1.0, -1.0) / 2)
# A radius may exclude at most one in twenty rows that noise hides, and at most this share of the second
# moment.
_MOST_HIDDEN = 0.05


Box = tuple["NDArray[np.float64]", "NDArray[np.float64]"]  # lower and upper corner, in grid units


@dataclass(frozen=True, eq=False)
class Ball:
    """A ball that probably contains most rows, by released values.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        The centre: integers in grid units.
    radius : float
        The radius, in grid units.
    n_rows : float
        The number of rows: public, or noisy and at least 1.
    """

    centre: NDArray[np.float64]
    radius: float
    n_rows: float

    def clip(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip public points of shape (k, d) to the ball and round them to the grid."""
        relative = points - self.centre
        norm = np.sqrt((relative**2).sum(axis=1, keepdims=True))
        return onto_grid(
            self.centre + relative * np.minimum(1.0, self.radius / np.maximum(norm, self.radius))
        )


def private_ball(
    gate: Releases,
    n_columns: int,
    n_rows: float | None,
    quantile: float,
    names: tuple[str, str],
    box: Box | None = None,
) -> Ball:
    """Release a centre, and a radius that contains about a fraction `quantile` of rows.

    If the number of rows is private, `n_rows` is None, and the first release contains it too. The centre is
    clipped to the public `box`, in grid units.
    """
    centre_stage, radius_stage = names
    released = gate.release(centre_stage, Sums(n_columns, counted=n_rows is None))
    n = float(n_rows) if n_rows is not None else float(released.values[-1] / GRID)
    n = max(n, 1.0)
    mean = released.values[:n_columns] / n
    # James-Stein: a mean that could be noise alone is shrunk to the public centre.
    noise = n_columns * (released.noise_stddev[0] / n) ** 2
    centre = onto_grid(inside_box((mean * kept_part(float(mean @ mean), noise))[None], box))[0]

    largest = GRID + float(np.sqrt(centre @ centre))
    found = narrower_ball(gate, Ball(centre, largest, n), quantile, radius_stage)
    return found if found.radius < GRID else Ball(np.zeros(n_columns), GRID, n)


def inside_box(points: NDArray[np.float64], box: Box | None) -> NDArray[np.float64]:
    """Clip points of shape (k, d) to a public box, if there is one."""
    return points if box is None else np.minimum(np.maximum(points, box[0]), box[1])


def column_stretch(radius: float, widths: NDArray[np.float64]) -> NDArray[np.float64] | None:
    r"""Return the factors by which to divide columns before clipping, so that narrow columns get less noise.

    Rows relative to a centre lie in a ball of radius R and in a box: column j differs by at most its public
    width b_j. The ellipsoid of least volume around both has the half-axes R s_j, with s_j = sqrt(d) b_j / R
    for the narrowest columns and one common value 1 / sqrt(lambda) for the others, where lambda = (d - m) /
    (d - d sum b_j^2 / R^2) over the m narrow columns. Rows that are divided by s lie in the same ball as
    before, and the noise of a narrow column is in proportion to its width. The result is None if no column is
    narrow.
    """
    d = len(widths)
    squared = np.sort((widths / radius) ** 2)
    level, m = 1.0, 0  # the common half-axis, squared: 1 / lambda
    while m < d and d * squared[m] < level:
        m += 1
        left = d * (1.0 - squared[:m].sum())
        if m == d or left <= 0:
            level = np.inf
            break
        level = left / (d - m)
    if m == 0:
        return None
    return np.sqrt(np.minimum(d * (widths / radius) ** 2, level))


def first_ball(gate: Releases, n_columns: int, n_rows: float | None, quantile: float, stage: str) -> Ball:
    """Release a radius around the public centre, together with the number of rows if it is private (None)."""
    everything = Ball(np.zeros(n_columns), GRID, 1.0 if n_rows is None else n_rows)
    histogram = _distances(gate, everything, stage)
    if n_rows is None:
        everything = replace(everything, n_rows=max(1.0, float(histogram.values.sum())))
    return _narrower(everything, histogram, quantile)


def narrower_ball(gate: Releases, ball: Ball, quantile: float, stage: str) -> Ball:
    """Release a radius that contains about a fraction `quantile` of rows within a ball, or keep the ball."""
    return _narrower(ball, _distances(gate, ball, stage), quantile)


def _distances(gate: Releases, ball: Ball, stage: str) -> ReleasedStatistics:
    return gate.release(stage, DistanceHistogram(ball.centre[None], ball.radius * _EDGES))


def _narrower(ball: Ball, histogram: ReleasedStatistics, quantile: float) -> Ball:
    edges = ball.radius * _EDGES
    noise = float(histogram.noise_stddev[0])
    radius = _quantile_radius(histogram.values, noise, edges, ball.n_rows, quantile)
    return ball if radius is None else replace(ball, radius=radius)


def _quantile_radius(
    histogram: NDArray[np.float64], noise: float, edges: NDArray[np.float64], n: float, quantile: float
) -> float | None:
    """Return the smallest edge with a noisy count beyond it that the allowed tail, or noise, explains.

    If noise could hide too many rows, the radius errs to the large side, which only costs resolution. A few
    distant rows can matter more than many close ones: a bin that clearly contains rows is not excluded if the
    second moment from this bin on is more than a small share of the whole.
    """
    if 2 * noise * np.sqrt(len(edges)) > 0.5 * n:
        return None
    middles = edges * 2.0**-0.25
    whole_moment = float((np.maximum(histogram, 0.0) * middles**2).sum())
    tail, tail_moment = 0.0, 0.0
    for j in range(len(edges) - 1, 0, -1):
        tail += histogram[j]
        tail_moment += histogram[j] * middles[j] ** 2
        matters = histogram[j] > 2 * noise and tail_moment > _MOST_HIDDEN * whole_moment
        hidden = min(2 * noise * np.sqrt(len(edges) - j), _MOST_HIDDEN * n)
        if matters or tail > max((1 - quantile) * n, hidden):
            return float(edges[j])
    return float(edges[0])


def clip_radius(
    gate: Releases,
    stage: str,
    points: NDArray[np.float64],
    ball: Ball,
    noise_per_radius: float,
    fallback: float,
) -> float:
    """Release the radius with the smallest total error from clipping rows around their nearest point.

    A larger radius means more noise: the noise moves a centre by `noise_per_radius` times the radius. A
    smaller radius clips more rows. Both errors are estimated from a noisy histogram of distances.
    """
    edges = ball.radius * _EDGES
    released = gate.release(stage, DistanceHistogram(points, edges))
    noise = float(released.noise_stddev[0])
    if 2 * noise * np.sqrt(_BINS) > 0.5 * ball.n_rows:
        return fallback
    counts = np.where(released.values > noise, released.values, 0.0)
    middles = (edges + np.concatenate([[0.0], edges[:-1]])) / 2
    bias = np.array([(counts * np.maximum(middles - edge, 0)).sum() for edge in edges]) / ball.n_rows
    cost = (noise_per_radius * edges) ** 2 + (0.5 * bias) ** 2
    best = np.flatnonzero(cost == cost.min())[-1]
    return float(edges[best])


def private_second_moment(gate: Releases, stage: str, ball: Ball) -> tuple[NDArray[np.float64], float]:
    """Release the second moment of rows about the ball's centre, in units of its radius.

    The result is the noisy symmetric matrix (a sum over rows) and the standard deviation of its diagonal
    noise.
    """
    statistic = SecondMoments(ball.centre, ball.radius)
    released = gate.release(stage, statistic)
    d = len(ball.centre)
    unit = statistic.unit
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = released.values / unit
    matrix = matrix + np.triu(matrix, 1).T
    return matrix, float(released.noise_stddev[0] / unit)
