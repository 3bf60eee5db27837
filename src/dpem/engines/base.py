"""What an engine is."""

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
    """What an engine needs to know of a statistic: its length and its sum over a block of grid rows."""

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    @property
    def coarse_bits(self) -> int | NDArray[np.int64]:
        """How many low bits of the whole sum, or of each entry, are dropped."""
        ...

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block of grid rows of shape (columns, rows)."""
        ...


class Engine(Protocol):
    """Sums a statistic over all rows of a source, exactly."""

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum; the same bits from every engine, block size and thread count."""
        ...

    def close(self) -> None:
        """Let go of rows that are kept between sums."""
        ...


class ClusterRows(StreamedRows):
    """Rows that lie elsewhere and stay there: statistics travel to them, and sums come back."""

    @abstractmethod
    def engine(self) -> Engine:
        """Return what sums over them."""

    def pieces(self, first: int = 0) -> Iterator[TableRows]:  # noqa: ARG002
        """Rows do not come here."""
        raise self._stays()

    def in_memory(self) -> NoReturn:
        """Rows do not come here."""
        raise self._stays()

    def _stays(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            "Expected rows in memory or in files here: those of a cluster stay where they are. Call the "
            "fitted model on each part of the table, such as table.map_partitions(model.predict)."
        )


def grid_blocks(rows: TableRows, grid: RowGrid) -> Iterator[NDArray[np.float64]]:
    """Turn rows into blocks of grid rows."""
    for block in rows.blocks():
        yield grid.to_grid(block)


def sum_blocks(statistic: BlockSum, blocks: Iterable[NDArray[np.floating[Any]]]) -> IntegerTotal:
    """Sum a statistic over blocks of grid rows, on one BLAS thread: what every engine does with its rows.

    Blocks may be kept in single precision, which holds their integers of up to 2^24 exactly.
    """
    total = IntegerTotal(statistic.size)
    with one_thread(), np.errstate(all="ignore"):  # else a caller's settings turn a row into an error
        for block in blocks:
            total.add(statistic.sum_block(block.astype(np.float64, copy=False)))
    return total
