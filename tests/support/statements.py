"""One description of the statements that proofs/ makes about statistics: a loop tests them all.

A statement names its theorem, a statistic that it is about with rows for it, and the squares of the bounds
under add/remove and replace-one, as in the theorem, before low bits are dropped.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpem.data.domain import GRID, onto_grid
from dpem.paper.cluster_sums import ClusterCounts, ClusterSums, CountsAndSums
from dpem.plugin import clipped
from dpem.privacy import sensitivity
from dpem.statistics.contingency import Histograms, PairTables
from dpem.statistics.frame_sizes import FrameSizes
from dpem.statistics.gaussian import COVARIANCES, ROW_BITS, FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import CentredMoments, IncompleteMoments
from dpem.statistics.mixture_tables import MixtureTables
from dpem.statistics.simple import (
    LINEAR_BITS,
    SQUARED_BITS,
    BoxHistogram,
    ColumnSquares,
    CountedRows,
    DistanceHistogram,
    IntervalSum,
    RelativeSums,
    SecondMoments,
    SquaredDistances,
    Sums,
)

N_ROWS = 24
K, D = 3, 3


@dataclass(frozen=True)
class Statement:
    """A theorem, and a statistic of which it is true.

    Attributes
    ----------
    theorem : str
        The name of the theorem in proofs/.
    statistic : object
        A row statistic.
    rows : ndarray of shape (columns, rows)
        Rows for it, some of which are extreme.
    add_remove, replace_one : Fraction or int
        The squares of the bounds. In L1, `norm` is 1, and they are the bounds themselves.
    norm : {1, 2}
        The norm of the bounds.
    """

    theorem: str
    statistic: object
    rows: np.ndarray
    add_remove: Fraction | int
    replace_one: Fraction | int
    norm: int = 2

    def __str__(self):
        kind = getattr(self.statistic, "covariance", "")
        return "-".join(filter(None, [self.theorem, type(self.statistic).__name__, kind, f"L{self.norm}"]))


# -- rows ----------------------------------------------------------------------------------------


def ball(rng, d=D):
    """Return grid rows: random ones, opposite and orthogonal rows at the border, and the centre."""
    rows = rng.normal(0, 0.4, (N_ROWS, d))
    rows[::3] *= 100
    rows[: 2 * d : 2], rows[1 : 2 * d : 2] = 9 * np.eye(d), -9 * np.eye(d)
    rows[2 * d] = 0.0
    return np.ascontiguousarray(onto_grid(rows * GRID).T)


def levels(rng, sizes):
    """Return levels of columns, also out of range and missing."""
    rows = np.stack([rng.integers(0, size, N_ROWS) for size in sizes]).astype(float)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = 0, np.array(sizes) - 1, 99, np.nan
    return rows


def components(rng, k, d=D, width=0.15):
    factors = width * (np.eye(d) + 0.2 * np.tril(rng.normal(size=(k, d, d)), -1))
    means = rng.normal(0, 0.2, (k, d))
    return GaussianComponents.from_parameters(rng.dirichlet(np.ones(k)), means, factors)


class PlugInVectors:
    """The vectors of a plug-in model, here the rows themselves times a large number."""

    size, noise_shape, coarse_bits = D, None, 0

    def __init__(self, nonnegative):
        self.nonnegative = nonnegative

    def sensitivity(self, adjacency, norm="l2"):
        assert norm == "l2"
        return sensitivity.clipped_vector(2.0**LINEAR_BITS, adjacency, cone=self.nonnegative)

    def sum_block(self, rows):
        largest = 2.0**LINEAR_BITS
        unit = largest - 2
        vectors = clipped._bounded(rows * 3.0, GRID, unit, largest, nonnegative=self.nonnegative)
        return vectors.sum(axis=1).astype(np.int64)


# -- the statements ------------------------------------------------------------------------------


def statements():
    """Yield every statement with each of its statistics."""
    rng = np.random.default_rng(0)
    rows = ball(rng)
    grid, linear, squared, row = int(GRID) ** 2, 4**LINEAR_BITS, 16**SQUARED_BITS, 4**ROW_BITS
    points = np.rint(rng.normal(0, 0.3 * GRID, (K, D)))

    def cone(theorem, statistic, square, its_rows=rows):
        return Statement(theorem, statistic, its_rows, square, 2 * square)

    yield cone("S1_counts", ClusterCounts(points), 1)
    yield Statement("S1_counts_l1", ClusterCounts(points), rows, 1, 2, norm=1)
    yield Statement("S2_sums", ClusterSums(points), rows, grid, 4 * grid)
    yield Statement("S2_sums", Sums(D, counted=False), rows, grid, 4 * grid)
    yield cone("S3_released", SecondMoments(np.zeros(D), 0.5 * GRID), squared)
    yield Statement("S4_joint", Sums(D, counted=True), rows, 2 * grid, 4 * grid)
    for weight in (0.3, 1.5):
        relative = RelativeSums(points, 0.5 * GRID, weight)
        a = relative.count_units**2
        yield Statement("S4_counts_and_sums", relative, rows, a + linear, max(2 * (a + linear), 4 * linear))
    stretched = RelativeSums(points, 0.5 * GRID, 1.0, np.array([1.0, 0.5, 0.25]))
    yield Statement("S4_counts_and_sums", stretched, rows, 2 * linear, 4 * linear)
    axes = np.rint(np.eye(D)[:2] * 2.0**20)
    halved = tuple(i % 2 for i in range(18))
    boxes = BoxHistogram(np.zeros(D), axes, np.full(2, GRID), halved, np.arange(0, 1 << 18, 1 << 14))
    for cells in (CountedRows(), DistanceHistogram(points, np.array([0.2, 0.5, 2.0]) * GRID), boxes):
        yield cone("S5_histogram", cells, 1)
        yield Statement("S5_histogram", cells, rows, 1, 2, norm=1)
    yield Statement("S6_any_vector", PlugInVectors(nonnegative=False), rows, linear, 4 * linear)
    yield cone("S6_nonnegative", PlugInVectors(nonnegative=True), linear)
    for counted in (False, True):
        theorem = "S8_counted" if counted else "S8_alone"
        yield Statement(theorem, IntervalSum(counted=counted), rows[:1], (1 + counted) * grid, grid)
        distances = SquaredDistances(counted=counted, points=np.array([[GRID, 0.0, 0.0]]))
        yield Statement(theorem, distances, rows, (1 + counted) * linear, linear)
    yield Statement("S8_alone", FrameSizes(components(rng, 1), 9.0), rows, linear, linear)
    for kind in COVARIANCES:
        for k in (K, 2 * K):
            yield cone("S9_in_integers", FrameMoments(components(rng, k), K, kind, 2.0, 0.7), row)
    yield cone("S11_column_squares", ColumnSquares(np.zeros(D), np.full(D, GRID / 4), 2.0), linear)
    sizes = [2, 3, 4, 5]
    bins = [np.arange(size) for size in sizes]
    table = levels(rng, sizes)
    yield cone("S12_contingency_tables", Histograms.of_columns(sizes), 4, table)
    yield cone("S12_contingency_tables", Histograms([0, 2], [bins[0], bins[2]], (1, bins[1])), 2, table)
    yield cone("S12_contingency_tables", PairTables(bins, [range(4)]), 6, table)
    yield cone("S12_contingency_tables", PairTables(bins, [[0, 1], [2, 3]], by=0), 2, table)
    holes = np.where(rng.random(rows.shape) < 0.4, np.nan, rows)
    for kind in COVARIANCES:
        theorem = "S13_spherical" if kind == "spherical" else "S13_in_integers"
        yield cone(theorem, IncompleteMoments(components(rng, K), K, kind, 3.0, 1.0), row, holes)
    diagonal = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, D)), 0.3 * np.eye(D)[None])
    centred = CentredMoments(FrameMoments(diagonal, 1, "diag", 2.0, 0.7))
    yield cone("S13_known_cells", centred, row + D * centred.one_cell**2, holes)
    for missing in ([None] * 4, [np.full(K, 0.2), None, np.full(K, 0.1), None]):
        q = sum(one is not None for one in missing)
        with_missing = [
            np.append(one, len(one)) if lost is not None else one
            for one, lost in zip(bins, missing, strict=True)
        ]
        probabilities = [rng.dirichlet(np.ones(size), K) for size in sizes]
        mixture = MixtureTables(with_missing, rng.dirichlet(np.ones(K)), probabilities, missing)
        yield cone("S14_in_integers", mixture, 4 ** (16 + 12) * (1 + 4 + q), table)
    lloyd = Fraction(1 + D**0.5) * int(GRID)
    yield Statement("Lloyd_ball", CountsAndSums(points), rows, lloyd, 2 * lloyd, norm=1)


STATEMENTS = list(statements())
