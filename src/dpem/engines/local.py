"""Sum rows on the threads of this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from dpem._threads import limit_this_thread, one_thread, thread_count
from dpem.engines.base import grid_rows, sum_blocks
from dpem.engines.memory import bytes_to_keep
from dpem.engines.totals import IntegerTotal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource, TableRows
    from dpem.engines.base import BlockSum

__all__ = ["LocalEngine"]


_LARGEST_SLAB = 1 << 24  # numbers: 64 MB


class LocalEngine:
    """An engine that sums pieces of rows on a few threads.

    Memory holds a constant number of pieces at a time, and the pieces that are kept between sums.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads, by default one per core. Sums do not depend on it.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = thread_count(n_jobs)
        self._kept = KeptBlocks()
        self._kept_of: tuple[RowSource, RowGrid] | None = None
        self._helpers: ThreadPoolExecutor | None = None  # kept, because starting threads takes milliseconds

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum over all rows."""
        if self._kept_of is None or self._kept_of[0] is not source or self._kept_of[1] is not domain:
            self._kept_of, self._kept = (source, domain), KeptBlocks()
        if hasattr(statistic, "warm_up"):
            statistic.warm_up()
        run = _Pass(statistic, source, domain, self._kept)
        self._kept_of = None  # until the pass is complete: a failed pass leaves gaps
        # These threads take pieces; additional BLAS threads would only compete with them.
        with one_thread():
            result = self._summed(run, self._n_helpers())
        self._kept.close()
        self._kept_of = source, domain
        return result.value(statistic.coarse_bits)

    def _n_helpers(self) -> int:
        """Return the number of threads beside this one: at most one for each further piece, if known."""
        return (min(self.n_jobs, len(self._kept.blocks)) if self._kept.is_whole else self.n_jobs) - 1

    def _summed(self, run: _Pass, n_helpers: int) -> IntegerTotal:
        if n_helpers <= 0:
            return run.work()
        if self._helpers is None:
            self._helpers = ThreadPoolExecutor(self.n_jobs - 1, initializer=limit_this_thread)
        works = [self._helpers.submit(copy_context().run, run.work) for _ in range(n_helpers)]
        try:
            own = run.work()
        except BaseException:
            run.stop()
            raise
        finally:
            wait(works)
        return IntegerTotal.merged([own, *(work.result() for work in works)])

    def close(self) -> None:
        """Free the kept rows and the threads."""
        self._kept, self._kept_of = KeptBlocks(), None
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None


class KeptBlocks:
    """Grid rows of the first pieces, in single precision. The first pass over the rows fills them."""

    def __init__(self) -> None:
        self.blocks: dict[int, list[NDArray[np.float32]]] = {}
        self._room: int | None = None
        self._slab = np.empty(0, dtype=np.float32)
        self._n_kept = 0  # numbers
        self.is_closed = False
        self.is_whole = False  # whether every piece is kept

    def reserve(self, rows: TableRows) -> NDArray[np.float32] | None:
        """Reserve memory for the next piece; None if it may not be kept. Kept pieces have no gaps."""
        if self.is_closed:
            return None
        if self._room is None:
            self._room = bytes_to_keep() // 4
        n = rows.n_rows * rows.n_columns
        self._room -= n
        self.is_closed = self._room < 0
        if self.is_closed:
            return None
        if len(self._slab) < n:
            # A first access to memory costs a fifth of the time in large arrays, which use large pages.
            size = max(n, min(self._n_kept, _LARGEST_SLAB, self._room))
            self._slab = np.empty(size, dtype=np.float32)
        self._n_kept += n
        found, self._slab = np.split(self._slab, [n])
        return found

    def close(self) -> None:
        """Keep no further pieces, because the pass has ended."""
        self.is_whole = self.is_whole or not self.is_closed
        self.is_closed = True


class _Pass:
    """One pass over the rows, shared by threads: each thread takes the next piece when it is idle."""

    def __init__(self, statistic: BlockSum, source: RowSource, grid: RowGrid, kept: KeptBlocks) -> None:
        self._statistic, self._grid, self._kept = statistic, grid, kept
        self._lock = Lock()
        n_kept = len(kept.blocks)
        fresh = enumerate(source.pieces(n_kept), start=n_kept)
        self._pieces: Iterator[tuple[int, TableRows | list[NDArray[np.float32]]]]
        self._pieces = chain(list(kept.blocks.items()), fresh)
        self._failed = False

    def work(self) -> IntegerTotal:
        """Sum over pieces until all are taken."""
        return sum_blocks(self._statistic, self._blocks())

    def stop(self) -> None:
        """Let no thread take a further piece."""
        self._failed = True

    def _blocks(self) -> Iterator[NDArray[np.float32]]:
        while True:
            with self._lock:
                if self._failed:
                    return
                try:
                    number, piece = next(self._pieces)
                except StopIteration:
                    return
                except BaseException:
                    self._failed = True
                    raise
                memory = None if isinstance(piece, list) else self._kept.reserve(piece)
            if isinstance(piece, list):
                yield from piece
                continue
            if memory is None:
                yield from grid_rows(piece, self._grid)
                continue
            self._kept.blocks[number] = blocks = grid_rows(piece, self._grid, memory.reshape)
            yield from blocks
