"""The statistic of a plug-in model: its vector for each row, clipped to a norm and checked in integers.

The model sees one row at a time. Each row gets a fresh copy of the model with read-only parameters. An
exception, or a result other than a vector of finite numbers, counts as zero. One row therefore changes a sum
by at most C, or 2 C if it is replaced (sqrt 2 C without negative entries, which is enforced): Eq. (S-6). This
holds for every model that keeps nothing outside its attributes (`dpem.plugin.memory`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from dpem._quiet import quiet
from dpem.data.domain import GRID, norm_squared
from dpem.plugin.family import BlockFamily, is_shipped
from dpem.privacy import sensitivity
from dpem.statistics.base import Statistic, require_gaussian
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
    "EncodedRows",
    "encoded_vectors",
    "read_only",
    "statistic_vectors",
    "treats_blocks",
]

# Most entries of vectors in memory at once.
_BATCH_ENTRIES = 1 << 20


def treats_blocks(model: ExponentialFamily) -> TypeGuard[BlockFamily]:
    """Whether a model may see many rows at once: only unchanged models of this package, with a proof."""
    if not isinstance(model, BlockFamily) or not is_shipped(type(model)):
        return False
    # An attribute of the instance may replace a method.
    return not any(
        callable(value) or callable(getattr(type(model), name, None)) for name, value in vars(model).items()
    )


def read_only(parameters: Parameters) -> Parameters:
    """Return the parameters as read-only arrays."""
    locked = {}
    for name, value in parameters.items():
        own = np.array(value, dtype=np.float64)
        locked[name] = np.frombuffer(own.tobytes(), np.float64).reshape(own.shape)  # bytes stay read-only
    return MappingProxyType(locked)  # type: ignore[return-value]


def _row_vectors(
    model: ExponentialFamily,
    call: Callable[[ExponentialFamily, NDArray[np.float64]], Any],
    rows: NDArray[np.float64],
    size: int,
) -> NDArray[np.float64]:
    """Return the vectors (size, n) of a model for rows (d, n); anything but a finite vector becomes zero.

    Each row gets a fresh copy of the model, which cannot remember earlier rows.
    """
    vectors = np.zeros((size, rows.shape[1]))
    with quiet():
        for i in range(rows.shape[1]):
            with quiet():  # resets any settings of warnings and errors by the model after every row
                try:
                    vector = np.asarray(call(copy.deepcopy(model), rows[:, i].copy()), dtype=np.float64)
                    if vector.shape == (size,) and np.isfinite(vector).all():
                        vectors[:, i] = vector
                except KeyboardInterrupt:
                    raise KeyboardInterrupt from None  # no message: the model may have put a row into it
                except BaseException:  # noqa: BLE001, S112  (an exception would reveal the row)
                    continue
    return vectors


def _bounded(
    vectors: NDArray[np.float64], norm: float, unit: float, largest: float, *, nonnegative: bool
) -> NDArray[np.float64]:
    """Clip vectors (s, n) to `norm`, scale `norm` to `unit`, round, and check the norm in integers."""
    vectors = np.where(np.isfinite(vectors), vectors, 0.0)
    if nonnegative:
        vectors = np.maximum(vectors, 0.0)
    # In two steps, so that squares of large entries do not overflow.
    top = np.maximum(np.abs(vectors).max(axis=0, initial=0.0), norm)
    length = np.sqrt(norm_squared(vectors / top)) * top
    scaled = np.rint(vectors * (unit / np.maximum(length, norm)))
    scaled[:, ~(norm_squared(scaled) <= largest * largest)] = 0.0
    return np.asarray(scaled)


@dataclass(frozen=True, eq=False)
class ClippedStatistic(Statistic):
    """The sum of a model's expected statistics, each row's vector clipped to norm C (a `RowStatistic`)."""

    model: ExponentialFamily
    parameters: Parameters  # read-only
    grid: TableGrid
    size: int
    norm: float  # C
    nonnegative: bool  # read from the model once, so that charge and enforcement agree

    @property
    def unit(self) -> float:
        """The value of C in the sums."""
        return unit_scale(self.size, LINEAR_BITS)

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity for vectors of norm C, smaller if no entry is negative."""
        require_gaussian(norm)
        return sensitivity.clipped_vector(2.0**LINEAR_BITS, adjacency, cone=self.nonnegative)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the vectors of a block, each rounded separately."""
        total = np.zeros(self.size)
        for part in _parts(rows, self.size):
            vectors = statistic_vectors(self.model, self.parameters, self.grid.to_units(part), self.size)
            largest = 2.0**LINEAR_BITS
            bounded = _bounded(vectors, self.norm, self.unit, largest, nonnegative=self.nonnegative)
            total += bounded.sum(axis=1)
        return total.astype(np.int64)

    @property
    def sum_tensor(self) -> Any:
        """The sum over a tensor, for models of this package that treat blocks; else None."""
        return _on_device(self.model, "clipped_sum", self)

    def read(self, released: ReleasedStatistics) -> tuple[NDArray[np.float64], float]:
        """Return released sums in the units of the model, and the standard deviation of their noise."""
        one = self.norm / self.unit
        return released.values * one, float(released.noise_stddev[0]) * one


def statistic_vectors(
    model: ExponentialFamily, parameters: Parameters, rows: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Return the model's expected statistics (size, n) for rows (d, n) in the units of the columns."""
    if treats_blocks(model):
        return model.statistics_of_rows(rows, parameters)
    # Each row gets its own dictionary, so that changes do not reach the next row.
    return _row_vectors(
        model, lambda copied, row: copied.expected_statistics(row, dict(parameters)), rows, size
    )


def encoded_vectors(
    model: ExponentialFamily, schema: Schema, rows: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Return the model's encodings (size, n) of rows (d, n) in the units of the columns."""
    if treats_blocks(model):
        return model.encode_rows(rows, schema)
    return _row_vectors(model, lambda copied, row: copied.encode(row, schema), rows, size)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """A map that encodes each row separately, as integers of norm at most 2^24."""

    model: ExponentialFamily
    grid: TableGrid
    size: int

    @property
    def unit(self) -> float:
        """The value of 1 in the integers."""
        return GRID * (1 - 2.0**-40) - math.sqrt(self.size) / 2

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Encode grid rows (d, n)."""
        vectors = encoded_vectors(self.model, self.grid.schema, self.grid.to_units(rows), self.size)
        return _bounded(vectors, 1.0, self.unit, GRID, nonnegative=False)

    @property
    def map_tensor(self) -> Any:
        """The same for tensors, for models of this package that treat blocks; else None."""
        return _on_device(self.model, "encoded", self)


def _on_device(model: ExponentialFamily, function: str, argument: Any) -> Any:
    """Return a function of `device_mixture` for tensors, or None if the model sees one row at a time."""
    if not treats_blocks(model):
        return None

    def on_tensor(rows: Any) -> Any:
        module = import_module("dpem.plugin.device_mixture")  # needs the extra `gpu`
        return getattr(module, function)(argument, rows.double())

    return on_tensor


def _parts(rows: NDArray[np.float64], size: int) -> Iterator[NDArray[np.float64]]:
    step = max(1, _BATCH_ENTRIES // size)
    for start in range(0, rows.shape[1], step):
        yield rows[:, start : start + step]
