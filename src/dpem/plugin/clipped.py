"""The statistic of a plug-in model: whatever it returns for a row, cut to a norm and checked in integers.

The model sees one row at a time. It is a copy made for that row, its parameters are read-only, and an error
or anything that is no vector of finite numbers counts as zero. So one row moves a sum by at most C, or 2 C
where it is replaced (sqrt 2 C where no entry is negative, which is enforced): Eq. (S-6), for every model
that keeps nothing outside its attributes (`dpem.plugin.memory`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from dpem._quiet import quiet
from dpem.data.domain import GRID, norm_squared
from dpem.plugin.family import BlockFamily, is_shipped
from dpem.privacy import sensitivity
from dpem.statistics.base import require_gaussian
from dpem.statistics.simple import LINEAR_BITS, unit_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.data.table_grid import TableGrid
    from dpem.gate.released import ReleasedStatistics
    from dpem.plugin.family import ExponentialFamily, Parameters
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = [
    "ClippedStatistic",
    "encoded_rows",
    "encoded_vectors",
    "read_only",
    "statistic_vectors",
    "treats_blocks",
]

# Cells of the vectors that are held at once.
_CELLS = 1 << 20


def treats_blocks(model: ExponentialFamily) -> TypeGuard[BlockFamily]:
    """Say whether a model may see many rows at once: one of this package, whose proof is known."""
    if not isinstance(model, BlockFamily) or not is_shipped(type(model)):
        return False
    # An instance may hide a method behind an attribute of its own.
    return not any(
        callable(value) or callable(getattr(type(model), name, None)) for name, value in vars(model).items()
    )


def read_only(parameters: Parameters) -> Parameters:
    """Return parameters that nobody can write to: views of arrays that are locked."""
    locked = {}
    for name, value in parameters.items():
        own = np.array(value, dtype=np.float64)
        locked[name] = np.frombuffer(own.tobytes(), np.float64).reshape(own.shape)  # bytes cannot be unlocked
    return MappingProxyType(locked)  # type: ignore[return-value]


def _row_vectors(
    model: ExponentialFamily,
    call: Callable[[ExponentialFamily, NDArray[np.float64]], Any],
    rows: NDArray[np.float64],
    size: int,
) -> NDArray[np.float64]:
    """Return what a model says of each of the rows (d, n), as vectors (size, n); zero for what is none.

    Each row is met by a fresh copy of the model: it cannot remember the rows before.
    """
    vectors = np.zeros((size, rows.shape[1]))
    with quiet():
        for i in range(rows.shape[1]):
            with (
                quiet()
            ):  # anew for every row: a model's own settings of warnings and errors end with the row
                try:
                    vector = np.asarray(call(copy.deepcopy(model), rows[:, i].copy()), dtype=np.float64)
                    if vector.shape == (size,) and np.isfinite(vector).all():
                        vectors[:, i] = vector
                except KeyboardInterrupt:
                    raise KeyboardInterrupt from None  # without words: a model may have put a row into them
                except BaseException:  # noqa: BLE001, S112  (an error would tell of a row)
                    continue
    return vectors


def _bounded(
    vectors: NDArray[np.float64], norm: float, unit: float, largest: float, *, nonnegative: bool
) -> NDArray[np.float64]:
    """Cut vectors (s, n) to `norm`, make that `unit` on the grid, round, and check in integers."""
    vectors = np.where(np.isfinite(vectors), vectors, 0.0)
    if nonnegative:
        vectors = np.maximum(vectors, 0.0)
    # In two steps, so that squares of whatever a model says stay within the floats.
    top = np.maximum(np.abs(vectors).max(axis=0, initial=0.0), norm)
    length = np.sqrt(norm_squared(vectors / top)) * top
    scaled = np.rint(vectors * (unit / np.maximum(length, norm)))
    scaled[:, ~(norm_squared(scaled) <= largest * largest)] = 0.0
    return np.asarray(scaled)


@dataclass(frozen=True, eq=False)
class ClippedStatistic:
    """The sum of a model's expected statistics, each row's vector cut to norm C (a `RowStatistic`)."""

    model: ExponentialFamily
    parameters: Parameters  # read-only
    grid: TableGrid
    size: int
    norm: float  # C
    nonnegative: bool  # read from the model once: what is charged and what is enforced must agree
    noise_shape: None = None
    coarse_bits: int = 0

    @property
    def unit(self) -> float:
        """What C is in the sums."""
        return unit_scale(self.size, LINEAR_BITS)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return that of vectors of norm C, in a cone where no entry is negative."""
        require_gaussian(norm)
        return sensitivity.clipped_vector(2.0**LINEAR_BITS, adjacency, cone=self.nonnegative)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the vectors of a block, each rounded by itself."""
        total = np.zeros(self.size)
        for part in _parts(rows, self.size):
            vectors = statistic_vectors(self.model, self.parameters, self.grid.to_units(part), self.size)
            largest = 2.0**LINEAR_BITS
            bounded = _bounded(vectors, self.norm, self.unit, largest, nonnegative=self.nonnegative)
            total += bounded.sum(axis=1)
        return total.astype(np.int64)

    def read(self, released: ReleasedStatistics) -> tuple[NDArray[np.float64], float]:
        """Return released sums in the model's units, and the standard deviation of their noise."""
        one = self.norm / self.unit
        return released.values * one, float(released.noise_stddev[0]) * one


def statistic_vectors(
    model: ExponentialFamily, parameters: Parameters, rows: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Return the expected statistics (size, n) of rows (d, n) in the user's units, as the model says them."""
    if treats_blocks(model):
        return model.statistics_of_rows(rows, parameters)
    # A dictionary of its own for every row: nothing that a row does to it is there for the next one.
    return _row_vectors(
        model, lambda copied, row: copied.expected_statistics(row, dict(parameters)), rows, size
    )


def encoded_vectors(
    model: ExponentialFamily, schema: Schema, rows: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Return the encoded rows (size, n) of rows (d, n) in the user's units, as the model says them."""
    if treats_blocks(model):
        return model.encode_rows(rows, schema)
    return _row_vectors(model, lambda copied, row: copied.encode(row, schema), rows, size)


def encoded_rows(
    model: ExponentialFamily, grid: TableGrid, size: int
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the map from rows of a table to encoded rows: integers of norm at most 2^24, each by itself."""

    def encode(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        vectors = encoded_vectors(model, grid.schema, grid.to_units(rows), size)
        unit = GRID * (1 - 2.0**-40) - math.sqrt(size) / 2
        return _bounded(vectors, 1.0, unit, GRID, nonnegative=False)

    return encode


def _parts(rows: NDArray[np.float64], size: int) -> Iterator[NDArray[np.float64]]:
    step = max(1, _CELLS // size)
    for start in range(0, rows.shape[1], step):
        yield rows[:, start : start + step]
