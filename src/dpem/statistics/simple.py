"""Row statistics that several models share: integer vectors with a norm that is checked per row.

All take grid rows: integers of norm at most 2^24 (`dpem.data.domain`). Centres, radii and axes are public or
released values. Operations are element-wise or exact integer products, in a fixed order. So no row changes
the bits of another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem.data.domain import GRID, norm_squared
from dpem.privacy import sensitivity
from dpem.statistics.base import Statistic, TensorStatistic, require_gaussian
from dpem.statistics.exact import exact_product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = [
    "BoundedNumber",
    "BoxHistogram",
    "ColumnSquares",
    "CountedRows",
    "DistanceHistogram",
    "IntervalSum",
    "RelativeSums",
    "SecondMoments",
    "SquaredDistances",
    "Sums",
    "nearest",
    "onto_unit_grid",
]

# Bits of the entries that are summed after a change of frame. Products of two entries have 13 bits each, so
# that 2^26 times the rows of a block stays below 2^53. Entries that are summed alone have 20 bits.
SQUARED_BITS = 13
LINEAR_BITS = 20
# 2^20, less room for rounding.
BELOW_ONE = 2.0**LINEAR_BITS * (1 - 2.0**-40)
# Number of halvings from the box that contains all rows to the smallest one.
BOX_BITS = 18


@dataclass(frozen=True, eq=False)
class Sums(TensorStatistic):
    """The sum of the rows, and with `counted` their number, which is then private.

    The count has weight 2^24: Eq. (S-4) with a = b. Without it, the sensitivity is Eq. (S-2).
    """

    n_columns: int
    counted: bool
    kernels: ClassVar[str] = "simple"
    tensor_kernel: ClassVar[str] = "sums"

    @property
    def size(self) -> int:
        """Number of entries: one per column, and one for the count."""
        return self.n_columns + self.counted

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of the sum, or the joint sensitivity of count and sum."""
        require_gaussian(norm)
        return sensitivity.joint(GRID if self.counted else 0.0, GRID, 0.0, adjacency)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the column sums, then the weighted count."""
        sums = rows.sum(axis=1).astype(np.int64)
        return np.append(sums, int(GRID) * rows.shape[1]) if self.counted else sums

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.sums(rows, total)
        if self.counted:
            total[-1] += int(GRID) * rows.shape[1]


@dataclass(frozen=True, eq=False)
class CountedRows(Statistic):
    """The number of rows. Eq. (S-5) with a single cell."""

    size = 1

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of a histogram."""
        return sensitivity.histogram(adjacency, norm)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the rows of the block."""
        return np.array([rows.shape[1]])

    def sum_tensor(self, rows: Any) -> Any:
        """Count the rows of the tensor."""
        from dpem.statistics import kernels_torch_sizes  # noqa: PLC0415  (needs the extra `gpu`)

        return kernels_torch_sizes.counted_rows(rows)


@dataclass(frozen=True, eq=False)
class DistanceHistogram(TensorStatistic):
    """A histogram of the distances of rows from the nearest of some points. Eq. (S-5).

    `edges` are the upper ends of the bins, in increasing order. The last bin contains all rows beyond.
    """

    points: NDArray[np.float64]  # (k, d), integers
    edges: NDArray[np.float64]  # grid units
    kernels: ClassVar[str] = "nearest"
    tensor_kernel: ClassVar[str] = "distance_histogram"

    @property
    def size(self) -> int:
        """One entry per bin."""
        return len(self.edges)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of a histogram."""
        return sensitivity.histogram(adjacency, norm)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the rows of each bin."""
        _, distance_squared = nearest(rows, self.points)
        bins = np.searchsorted(self.edges[:-1] ** 2, distance_squared, side="left")
        return np.bincount(bins, minlength=self.size)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.distance_histogram(rows, self.points, self.edges[:-1] ** 2, total)


@dataclass(frozen=True, eq=False)
class SecondMoments(TensorStatistic):
    """The second moments of rows about a centre, clipped to a radius. Eq. (S-3).

    The sum holds the upper triangle. Noise off the diagonal is smaller by a factor of sqrt 2, so that the
    Euclidean norm of the release is the Frobenius norm of the matrix.
    """

    centre: NDArray[np.float64]  # (d,), integers
    radius: float  # grid units
    kernels: ClassVar[str] = "simple"
    tensor_kernel: ClassVar[str] = "second_moments"

    @property
    def size(self) -> int:
        """Number of entries of the upper triangle."""
        return len(self.centre) * (len(self.centre) + 1) // 2

    @cached_property
    def noise_shape(self) -> NDArray[np.float64]:
        """1 on the diagonal, 1/sqrt 2 (rounded up) off it."""
        i, j = np.triu_indices(len(self.centre))
        return np.where(i == j, 1.0, math.nextafter(math.sqrt(0.5), 1.0))

    @property
    def unit(self) -> float:
        """The squared radius in units of the sums."""
        return unit_scale(len(self.centre), SQUARED_BITS) ** 2

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of second moments in the ball of 13-bit rows."""
        require_gaussian(norm)
        return sensitivity.second_moments(2.0**SQUARED_BITS, adjacency)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum of the outer products of the rows."""
        z = onto_unit_grid(rows - self.centre[:, None], self.radius, SQUARED_BITS)
        product = exact_product(z, z.T, bound=4.0**SQUARED_BITS * max(1, rows.shape[1]))
        return product[np.triu(np.ones(product.shape, dtype=bool))].astype(np.int64)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        scale = unit_scale(len(self.centre), SQUARED_BITS)
        kernels.second_moments(rows, self.centre, self.radius, scale, 4.0**SQUARED_BITS, total)


@dataclass(frozen=True, eq=False)
class BoxHistogram(TensorStatistic):
    """Counts of rows in the leaves of a tree of boxes along some axes. Eq. (S-5).

    The code of a row has `BOX_BITS` bits. The box from -h to h is halved along the axes `halved`, in that
    order, and each bit is the half that contains the row. A leaf contains the codes up to the next start.
    """

    centre: NDArray[np.float64]  # (d,), integers
    axes: NDArray[np.float64]  # (p, d), integers: orthonormal axes times 2^20
    half_widths: NDArray[np.float64]  # (p,), grid units
    halved: tuple[int, ...]  # the axis of each bit
    starts: NDArray[np.int64]  # in increasing order, from 0
    kernels: ClassVar[str] = "simple"
    tensor_kernel: ClassVar[str] = "box_histogram"

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self.starts)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of a histogram."""
        return sensitivity.histogram(adjacency, norm)

    @cached_property
    def _tables(self) -> list[NDArray[np.int64]]:
        """For each axis, the contribution to the code of each of its finest intervals."""
        tables = [np.zeros(1, np.int64) for _ in self.half_widths]
        for bit, axis in enumerate(self.halved):
            tables[axis] = np.repeat(tables[axis], 2)
            tables[axis][1::2] += 1 << (BOX_BITS - 1 - bit)
        return tables

    @cached_property
    def _padded_tables(self) -> NDArray[np.int64]:
        padded = np.zeros((len(self._tables), max(map(len, self._tables))), dtype=np.int64)
        for row, table in zip(padded, self._tables, strict=True):
            row[: len(table)] = table
        return padded

    def warm_up(self) -> None:
        """Compute the tables, before every thread does."""
        _ = self._padded_tables, self._leaves

    @cached_property
    def _leaves(self) -> NDArray[np.int32]:
        """The leaf of every code."""
        sizes = np.diff(self.starts, append=1 << BOX_BITS)
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the rows of each leaf. Rows outside the box count at its border."""
        # |axis| <= 2^20 + rounding, |row - centre| <= 2^25: products below 2^46.
        along = exact_product(self.axes, rows - self.centre[:, None], bound=2.0**47)
        code = np.zeros(rows.shape[1], dtype=np.int64)
        for position, half_width, table in zip(along, self.half_widths, self._tables, strict=True):
            part = np.floor((position / (half_width * 2.0**LINEAR_BITS) + 1) * (len(table) / 2))
            code += table[np.minimum(np.maximum(part, 0), len(table) - 1).astype(np.int64)]
        return np.add.reduceat(np.bincount(code, minlength=1 << BOX_BITS), self.starts)

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        units = self.half_widths * 2.0**LINEAR_BITS
        sizes = np.array([len(table) for table in self._tables], dtype=np.float64)
        kernels.box_histogram(
            rows, self.centre, self.axes, units, self._padded_tables, sizes, self._leaves, total
        )


@dataclass(frozen=True, eq=False)
class BoundedNumber(Statistic):
    """The sum of a number from 0 to `most` for each row, and with `counted` the number of rows. Eq. (S-8)."""

    counted: bool = field(kw_only=True)
    most: ClassVar[float] = 2.0**LINEAR_BITS

    @property
    def size(self) -> int:
        """Number of entries: one, and one for the count."""
        return 1 + self.counted

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity for numbers in an interval."""
        require_gaussian(norm)
        return sensitivity.interval(self.most, adjacency, counted=self.counted)


@dataclass(frozen=True, eq=False)
class IntervalSum(BoundedNumber):
    """The sum of a column of integers from 0 to 2^24, and optionally the number of rows. Eq. (S-8)."""

    most: ClassVar[float] = GRID

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum of the column, clipped to the interval, then the weighted count."""
        total = int(np.minimum(np.maximum(rows[0], 0.0), GRID).sum())
        return np.array([total, int(GRID) * rows.shape[1]][: self.size])


@dataclass(frozen=True, eq=False)
class SquaredDistances(BoundedNumber, TensorStatistic):
    """Squared distances to the nearest point over the squared diameter, with 20 bits. Eq. (S-8)."""

    points: NDArray[np.float64]  # (k, d), integers
    kernels: ClassVar[str] = "nearest"
    tensor_module: ClassVar[str] = "kernels_torch_sizes"
    tensor_kernel: ClassVar[str] = "squared_distances"

    @property
    def unit(self) -> float:
        """One unit of the sum as a squared distance in grid units."""
        return 4 * GRID * GRID / 2.0**LINEAR_BITS

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum of the scaled squared distances, then the weighted count."""
        _, squared = nearest(rows, self.points)
        scaled = np.minimum(np.floor(squared / self.unit), 2.0**LINEAR_BITS)
        return np.array([int(scaled.sum()), rows.shape[1] << LINEAR_BITS][: self.size])

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.squared_distances(rows, self.points, self.unit, 2.0**LINEAR_BITS, total)
        if self.counted:
            total[1] += rows.shape[1] << LINEAR_BITS


@dataclass(frozen=True, eq=False)
class ColumnSquares(TensorStatistic):
    """Squared deviations of columns from a centre, in units of public widths; each row is clipped to a norm.

    Squares are non-negative, so that the vectors of two rows have a non-negative product: Eq. (S-11). The
    vector of squares is clipped and not the row, which keeps noise small if many columns vary.
    """

    centre: NDArray[np.float64]  # (d,), integers
    widths: NDArray[np.float64]  # (d,), grid units
    clip: float
    kernels: ClassVar[str] = "simple"
    tensor_module: ClassVar[str] = "kernels_torch_sizes"
    tensor_kernel: ClassVar[str] = "column_squares"

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @property
    def unit(self) -> float:
        """A square of 1 in units of the sums."""
        return 2.0**LINEAR_BITS / self.clip

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity for clipped non-negative vectors."""
        require_gaussian(norm)
        return sensitivity.clipped_vector(2.0**LINEAR_BITS, adjacency, cone=True)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the squares, rounded down so that the norm stays below the clip. Check it in integers."""
        squares = ((rows - self.centre[:, None]) / self.widths[:, None]) ** 2
        norm = np.sqrt(norm_squared(squares))
        scaled = np.floor(squares * (BELOW_ONE / np.maximum(norm, self.clip)))
        scaled[:, ~(norm_squared(scaled) <= 4.0**LINEAR_BITS)] = 0.0
        return np.asarray(scaled.sum(axis=1).astype(np.int64))

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        kernels.column_squares(rows, self.centre, self.widths, self.clip, BELOW_ONE, 4.0**LINEAR_BITS, total)


@dataclass(frozen=True, eq=False)
class RelativeSums(TensorStatistic):
    """Counts, and sums of rows relative to their nearest centre, clipped to a radius. Eq. (S-4) with c = 0.

    So noise is in proportion to the size of a cluster, and not of the domain. In units of the radius, counts
    have weight `count_weight`, and sums have weight 1. With `stretch`, columns are divided by it before they
    are clipped, so that the noise of a column is in proportion to its entry.
    """

    centres: NDArray[np.float64]  # (k, d), integers
    radius: float  # grid units
    count_weight: float
    stretch: NDArray[np.float64] | None = None  # (d,), public or released
    kernels: ClassVar[str] = "nearest"
    tensor_kernel: ClassVar[str] = "relative_sums"

    @property
    def size(self) -> int:
        """Number of entries: counts, then sums."""
        k, d = self.centres.shape
        return int(k * (d + 1))

    @property
    def unit(self) -> float:
        """The radius in units of the sums."""
        return unit_scale(self.centres.shape[1], LINEAR_BITS)

    @property
    def count_units(self) -> int:
        """The weight of a count, rounded to the grid."""
        return math.floor(self.count_weight * 2.0**LINEAR_BITS)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the joint sensitivity of counts and sums."""
        require_gaussian(norm)
        return sensitivity.joint(float(self.count_units), 2.0**LINEAR_BITS, 0.0, adjacency)

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the counts, then the sums of relative rows, by nearest centre."""
        k = len(self.centres)
        labels, _ = nearest(rows, self.centres)
        relative = rows - self.centres.T[:, labels]
        if self.stretch is not None:
            relative /= self.stretch[:, None]
        relative = onto_unit_grid(relative, self.radius, LINEAR_BITS)
        counts = np.bincount(labels, minlength=k) * self.count_units
        # Entries are integers below 2^20, so that their float sums over a block are exact.
        sums = [np.bincount(labels, weights=column, minlength=k) for column in relative]
        return np.concatenate([counts, np.stack(sums, axis=1).astype(np.int64).ravel()])

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        stretch = np.zeros(0) if self.stretch is None else self.stretch
        kernels.relative_sums(
            rows,
            self.centres,
            stretch,
            self.radius,
            self.unit,
            4.0**LINEAR_BITS,
            self.count_units,
            total,
        )


def nearest(
    rows: NDArray[np.float64], points: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the index of the nearest point of each row and its exact squared distance. Ties take the first.

    Rows (d, n) and points (k, d) are integers of norm at most 2^24, so that all terms stay below 2^51.
    """
    products = exact_product(points, rows, bound=2.0**49)
    point_norms = (points**2).sum(axis=1)
    best = point_norms[0] - 2 * products[0]
    labels = np.zeros(rows.shape[1], dtype=np.intp)
    for k in range(1, len(points)):
        score = point_norms[k] - 2 * products[k]
        closer = score < best
        labels[closer] = k
        np.minimum(best, score, out=best)
    best += norm_squared(rows)
    return labels, best


def onto_unit_grid(columns: NDArray[np.float64], radius: float, bits: int) -> NDArray[np.float64]:
    """Clip integer rows (d, n) to a radius and scale the radius to 2^bits; check the norm in integers."""
    norm = np.sqrt(norm_squared(columns))
    scaled = np.rint(columns * (unit_scale(len(columns), bits) / np.maximum(norm, radius)))
    scaled[:, ~(norm_squared(scaled) <= 4.0**bits)] = 0.0  # NaN too
    return scaled


def unit_scale(n_columns: int, bits: int) -> float:
    """Return the clipping radius in grid units: 2^bits, less a margin for rounding."""
    return 2.0**bits * (1 - 2.0**-40) - math.sqrt(n_columns) / 2
