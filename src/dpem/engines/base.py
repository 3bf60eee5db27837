"""The interface of engines, and what all of them share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from dpem import _compiled
from dpem._compiled import kernel_module
from dpem.data.sources.memory import BLOCK_CELLS
from dpem.data.sources.streams import StreamedRows
from dpem.engines.totals import IntegerTotal
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource, TableRows

__all__ = ["BlockSum", "ClusterRows", "Engine", "grid_rows", "sum_blocks"]


# Rows in one 64-bit sum, and in one call of a statistic. A row adds less than 2^43 to an entry, so that these
# sums cannot overflow.
# A batch of a function and a partition of a cluster may have any number of rows.
LARGEST_BLOCK = 1 << 19


def _empty(shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.empty(shape, dtype=np.float32)


class BlockSum(Protocol):
    """The part of a statistic that an engine uses: its length and its sum over a block of grid rows."""

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    @property
    def coarse_bits(self) -> int | NDArray[np.int64]:
        """Number of low bits that are dropped from the whole sum, or from each of its entries."""
        ...

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block of grid rows of shape (columns, rows).

        A statistic with the attribute `has_kernel` takes large blocks, and blocks in single precision.
        """
        ...


class Engine(Protocol):
    """Sums a statistic over all rows of a source, exactly."""

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum: the same bits for every engine, block size and thread count."""
        ...

    def close(self) -> None:
        """Free the rows that are kept between sums."""
        ...


class ClusterRows(StreamedRows):
    """Rows that stay on a cluster: dpem sends the statistic to the workers, and they return sums."""

    @abstractmethod
    def engine(self) -> Engine:
        """Return an engine for these rows."""

    def pieces(self, first: int = 0) -> Iterator[TableRows]:  # noqa: ARG002
        """Raise: rows do not leave the cluster."""
        raise self._rows_stay()

    def in_memory(self) -> NoReturn:
        """Raise: rows do not leave the cluster."""
        raise self._rows_stay()

    def _rows_stay(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            "Expected rows in memory or in local files, got rows on a cluster, where they stay. Call the "
            "fitted model on each part of the table, such as table.map_partitions(model.predict)."
        )


def grid_rows(
    rows: TableRows, grid: RowGrid, empty: Callable[[tuple[int, int]], NDArray[np.float32]] = _empty
) -> list[NDArray[np.float32]]:
    """Convert rows to one array of grid rows, or none; single precision holds their integers up to 2^24.

    `empty` returns memory of a shape for them.
    """
    kernels = kernel_module("dpem.data.grid_kernel", rows.n_rows * rows.n_columns)
    write_single = getattr(grid, "write_single", None)
    if kernels is not None and write_single is not None:
        columns = rows.without_copy().block()
        out = empty(columns.shape)
        write_single(columns, kernels, out)
        return [out]
    blocks = [grid.to_grid(block).astype(np.float32) for block in rows.blocks()]
    return [np.concatenate(blocks, axis=1)] if len(blocks) > 1 else blocks


def sum_blocks(statistic: BlockSum, blocks: Iterable[NDArray[np.float32]]) -> IntegerTotal:
    """Sum a statistic over blocks of grid rows: what every engine does with its rows, on one BLAS thread."""
    total = IntegerTotal(statistic.size)
    recent, n_rows = np.zeros(statistic.size, dtype=np.int64), 0  # few steps under the interpreter's lock
    with np.errstate(all="ignore"):  # the caller's settings must not turn a row into an error
        for block in blocks:
            for part in _parts(statistic, block):
                if n_rows + part.shape[1] > LARGEST_BLOCK:
                    total.add(recent)
                    recent[:], n_rows = 0, 0
                recent += statistic.sum_block(part)
                n_rows += part.shape[1]
    total.add(recent)
    return total


def _parts(statistic: BlockSum, block: NDArray[np.float32]) -> Iterator[NDArray[Any]]:
    """Yield a block as it is to a compiled kernel, and else in parts that stay in the cache."""
    n_columns, n_rows = block.shape
    if getattr(statistic, "has_kernel", False) and _compiled.are_used(block.size):
        for start in range(0, n_rows, LARGEST_BLOCK):
            yield block[:, start : start + LARGEST_BLOCK]
        return
    size = max(64, BLOCK_CELLS // max(1, n_columns))
    for start in range(0, n_rows, size):
        yield block[:, start : start + size].astype(np.float64, order="C")
