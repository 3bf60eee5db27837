r"""Coordinates of rows with missing cells in the frames of Gaussian components.

A complete row has the coordinates z = W (x - c), with W = L^-1. If the cells M of a row are missing, all rows
with its known cells have coordinates that differ by W_M u: the columns of W that belong to M span the null
space of L_O. With the Cholesky factor C C' = W_M' W_M and V = W_M C'^-1, an orthonormal basis of that space::

    E[z | x_O] = z - V V' z,   Cov[z | x_O] = V V',   |L_O L_O'|^(1/2) = |L| |C|,

whatever stands in the missing cells. C depends on the pattern of missing cells, and only V takes a number of
operations in proportion to the columns of the table.

Operations on a row and on its pattern follow one order, element by element. So no row changes the result of
another, not even its last bit, and compiled kernels give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from dpem._compiled import kernel_module
from dpem._threads import one_thread
from dpem.data.domain import GRID, norm_squared
from dpem.statistics.softmax import log_of_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpem.statistics.gaussian import GaussianComponents

__all__ = [
    "FilledRows",
    "IncompletePart",
    "fill_rows",
    "incomplete_parts",
    "missing_patterns",
    "of_missing_cells",
]

# Number of incomplete rows at a time. The weight of a pattern is then 2^25 at most, so that its products with
# entries of P, which are below 2^26, are exact as those of `EXACT_ROWS` complete rows.
PART_ROWS = 1 << 9
_ONE_AT_A_TIME = Lock()
_Real = TypeVar("_Real", bound="np.floating[Any]")
SMALLEST, LARGEST = 2.0**-900, 2.0**900  # limits of squared sizes, so that no division overflows


@dataclass(frozen=True, eq=False)
class IncompletePart:
    """Some rows with missing cells, sorted by the number of missing cells and by pattern.

    Attributes
    ----------
    held : ndarray of shape (n,)
        Which rows of the block these are.
    rows : ndarray of shape (d, n)
        Grid rows, with NaN in missing cells.
    missing : ndarray of shape (p, d)
        The patterns of missing cells.
    which : ndarray of shape (n,)
        The pattern of each row, in ascending order.
    """

    held: NDArray[np.intp]
    rows: NDArray[np.float64]
    missing: NDArray[np.bool_]
    which: NDArray[np.intp]

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """Number of missing cells of each pattern, (p,)."""
        return np.asarray(self.missing.sum(axis=1))

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Missing columns of each pattern, filled up with d, (p, largest size)."""
        p, d = self.missing.shape
        found = np.full((p, int(self.sizes.max(initial=0))), d)
        pattern, column = np.nonzero(self.missing)
        found[pattern, np.arange(len(pattern)) - np.repeat(self.sizes.cumsum() - self.sizes, self.sizes)] = (
            column
        )
        return found

    def factor(self, frame: Frame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return C of each pattern, (q, q, p), with ones beyond its size, and log |C|, (p,)."""
        p, q = self.columns.shape
        c = np.zeros((q, q, p))
        fraction, octaves = np.ones(p), np.zeros(p)
        for j in range(q):
            for i in range(j + 1):
                entry = frame.gram[self.columns[:, j], self.columns[:, i]]
                if i == j:
                    entry = np.where(j < self.sizes, entry, 1.0)
                for t in range(i):
                    entry = entry - c[j, t] * c[i, t]
                c[j, i] = _root(entry) if i == j else entry / c[i, i]
            part, more = np.frexp(c[j, j])
            fraction, last = np.frexp(fraction * part)
            octaves += more
            octaves += last
        return c, log_of_parts(fraction, octaves)

    def places(self, frame: Frame, c: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected coordinates of the rows in a frame, (d, n)."""
        d, n = self.rows.shape
        relative = np.nan_to_num(self.rows - frame.centre[:, None])
        z = np.zeros((d, n))
        for column, cells in zip(frame.whitening.T, relative, strict=True):  # integers below 2^49: exact
            z += column[:, None] * cells
        z *= frame.scales[:, None]
        of_row, lost = c[:, :, self.which], self.columns[self.which].T
        u: list[NDArray[np.float64]] = []
        for j, column in enumerate(lost):
            u.append(_dots(frame.columns[:, column], z))
            for t in range(j):
                u[j] = u[j] - of_row[j, t] * u[t]
            u[j] = u[j] / of_row[j, j]
        for j in range(len(lost) - 1, -1, -1):
            for t in range(len(lost) - 1, j, -1):
                u[j] = u[j] - of_row[t, j] * u[t]
            u[j] = u[j] / of_row[j, j]
        for column, factor in zip(lost, u, strict=True):
            z -= frame.columns[:, column] * factor
        return z

    def basis(self, frame: Frame, c: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return V of each pattern, (q, d, p), with zeros beyond its size."""
        vectors = np.zeros((len(c), len(frame.columns), len(self.missing)))
        for j, column in enumerate(self.columns.T):
            vector = frame.columns[:, column]
            for t in range(j):
                vector = vector - vectors[t] * c[j, t]
            vectors[j] = vector * (1.0 / c[j, j])
        return vectors


@dataclass(frozen=True, eq=False)
class Frame:
    """The frame of one component, with real whitening matrix and its products.

    Attributes
    ----------
    whitening, scales, centre : ndarray of shapes (d, d), (d,) and (d,)
        As in `GaussianComponents`, all on the grid.
    columns : ndarray of shape (d, d + 1)
        The whitening matrix W in real units, and a column of zeros.
    gram : ndarray of shape (d + 1, d + 1)
        W'W, with zeros for the column of zeros, which stands for no column.
    constant : float
        Logarithm of the weight over the normalising constant of all cells.
    """

    whitening: NDArray[np.float64]
    scales: NDArray[np.float64]
    centre: NDArray[np.float64]
    columns: NDArray[np.float64]
    gram: NDArray[np.float64]
    constant: float

    @classmethod
    def of(cls, components: GaussianComponents, k: int) -> Frame:
        """Return the frame of component k."""
        d = components.offsets.shape[1]
        whitening = components.whitening.reshape(-1, d, d)[k]
        scales = components.scales[k]
        columns = np.zeros((d, d + 1))
        columns[:, :d] = whitening * (scales * GRID)[:, None]  # scales are powers of two: exact
        with one_thread(), np.errstate(all="ignore"):
            gram = columns.T @ columns
        return cls(whitening, scales, components.centres[k] * GRID, columns, gram, components.constants[k])

    def log_joint(
        self, part: IncompletePart, z: NDArray[np.float64], log_size: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the logarithm of weight times density of the known cells, (n,)."""
        constant = self.constant - log_size + of_missing_cells(len(z))[part.sizes]
        squared = norm_squared(z)
        # Which coordinates of a decomposition that failed are infinite, and which are NaN, depends on the
        # other patterns of a part. So it is NaN in both cases.
        return np.asarray(constant[part.which] - 0.5 * (squared + 0.0 * squared))


def _root(squared: NDArray[np.float64]) -> NDArray[np.float64]:
    inside = np.where(squared >= SMALLEST, squared, SMALLEST)  # NaN is not larger, either
    return np.asarray(np.sqrt(np.where(inside <= LARGEST, inside, LARGEST)))


def _dots(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of each column of `a` with that of `b`, summed in order."""
    products = a * b
    if products.shape[1] == 1:  # NumPy would sum a single column pairwise
        return np.asarray(np.cumsum(products, axis=0)[-1])
    return np.asarray(np.add.reduce(products, axis=0))


def of_missing_cells(d: int) -> NDArray[np.float64]:
    """Return what 0 to d missing cells add to the logarithm of a normalising constant."""
    return np.asarray(np.arange(d + 1) * (0.5 * math.log(2 * math.pi)), dtype=np.float64)


def missing_patterns(
    missing: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Return the patterns (p, d) of missing cells (d, n), an order of rows by pattern, and their patterns.

    Patterns with fewer missing cells come first.
    """
    packed = np.packbits(missing, axis=0).T
    words = np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))).view(np.uint64)
    order = np.lexsort((*words.T, missing.sum(axis=0)))
    words = words[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (words[1:] != words[:-1]).any(axis=1)
    return missing.T[order[is_new]], order, is_new.cumsum() - 1


def incomplete_parts(rows: NDArray[np.floating], incomplete: NDArray[np.intp]) -> Iterator[IncompletePart]:
    """Yield the rows (d, n) that have missing cells, a few at a time."""
    for start in range(0, len(incomplete), PART_ROWS):
        held = incomplete[start : start + PART_ROWS]
        cells = rows.take(held, axis=1)
        missing, order, which = missing_patterns(np.isnan(cells))
        yield IncompletePart(held[order], cells.take(order, axis=1).astype(np.float64), missing, which)


@dataclass(frozen=True, eq=False)
class FilledRows:
    """A map that replaces missing cells of grid rows (d, n) by their expectation under a single Gaussian.

    The results are grid rows again: integers of norm at most 2^24, each a function of one row.
    """

    components: GaussianComponents
    has_kernel: ClassVar[bool] = True

    def __call__(self, rows: NDArray[_Real]) -> NDArray[_Real]:
        """Return the rows, with the precision of their cells."""
        kernels = kernel_module("dpem.statistics.kernels.missing_places", rows.size)
        with _ONE_AT_A_TIME:  # threads start together: the first one prepares what all of them read
            frame, factor = self._frame, GRID * self.components.factors[0]
        if kernels is None:
            return self._fill_numpy(rows.astype(np.float64), frame, factor).astype(rows.dtype)
        filled = np.empty(rows.shape, rows.dtype)
        kernels.fill(
            np.ascontiguousarray(rows),
            frame.whitening,
            frame.scales,
            frame.centre,
            frame.columns,
            frame.gram,
            factor,
            GRID,
            self._longest,
            filled,
        )
        return filled

    @cached_property
    def _frame(self) -> Frame:
        return Frame.of(self.components, 0)

    @property
    def _longest(self) -> float:
        """Norm that rounding cannot lift above 2^24."""
        return GRID - math.sqrt(self.components.offsets.shape[1])

    def _fill_numpy(
        self, rows: NDArray[np.float64], frame: Frame, factor: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        filled = np.nan_to_num(rows)
        for part in incomplete_parts(rows, np.flatnonzero(np.isnan(rows).any(axis=0))):
            z = part.places(frame, part.factor(frame)[0])
            expected = np.repeat(frame.centre[:, None], len(part.held), axis=1)
            for j, column in enumerate(z):  # in a fixed order, so that no row changes the bits of another
                expected += factor[:, j][:, None] * column
            own = np.where(part.missing[part.which].T, expected, filled[:, part.held])
            own = np.rint(own * (self._longest / np.maximum(np.sqrt(norm_squared(own)), self._longest)))
            own[:, ~(norm_squared(own) <= GRID * GRID)] = 0.0
            filled[:, part.held] = own
        return filled


def fill_rows(components: GaussianComponents, rows: NDArray[_Real]) -> NDArray[_Real]:
    """Replace missing cells of grid rows (d, n), as `FilledRows`."""
    return FilledRows(components)(rows)
