"""The interface of engines, and what all of them share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from dpem._threads import one_thread
from dpem.data.sources.streams import StreamedRows
from dpem.engines.totals import IntegerTotal
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource, TableRows

__all__ = ["BlockSum", "ClusterRows", "Engine", "grid_blocks", "sum_blocks"]


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
        """Return the sum over a block of grid rows of shape (columns, rows)."""
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


def grid_blocks(rows: TableRows, grid: RowGrid) -> Iterator[NDArray[np.float64]]:
    """Convert rows to grid rows, block by block."""
    for block in rows.blocks():
        yield grid.to_grid(block)


def sum_blocks(statistic: BlockSum, blocks: Iterable[NDArray[np.floating[Any]]]) -> IntegerTotal:
    """Sum a statistic over blocks of grid rows, on one BLAS thread. Every engine calls this.

    Blocks may be kept in single precision, which represents their integers of up to 2^24 exactly.
    """
    total = IntegerTotal(statistic.size)
    with one_thread(), np.errstate(all="ignore"):  # the caller's settings must not turn a row into an error
        for block in blocks:
            total.add(statistic.sum_block(block.astype(np.float64, copy=False)))
    return total
