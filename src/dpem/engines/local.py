"""Blocks of rows on this machine's threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dpem import _validate
from dpem._threads import one_thread
from dpem.engines.totals import IntegerTotal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource
    from dpem.engines.base import BlockSum

__all__ = ["LocalEngine"]

# Grid rows are kept between the steps of a fit up to this size, and made again beyond it.
KEPT_BYTES = 1 << 29


class LocalEngine:
    """Sum over blocks with a few threads; memory is a constant number of blocks, and what is kept.

    Parameters
    ----------
    n_jobs : int, optional
        Threads: one per core unless given. Sums do not depend on it.
    block_rows : int, optional
        Rows per block, for tests: sums do not depend on it.
    """

    def __init__(self, n_jobs: int | None = None, block_rows: int | None = None) -> None:
        if n_jobs is None or n_jobs == -1:
            n_jobs = os.cpu_count() or 1
        self.n_jobs = _validate.integer(n_jobs, "n_jobs", remedy="Or -1 for all cores.")
        self.block_rows = block_rows
        self._kept_of: tuple[RowSource, RowGrid] | None = None
        self._kept: dict[int, NDArray[np.float32]] = {}

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum over all rows."""
        if self._kept_of is None or self._kept_of[0] is not source or self._kept_of[1] is not domain:
            self._kept_of, self._kept = (source, domain), {}

        def sum_blocks(starts: Iterable[int]) -> IntegerTotal:
            total = IntegerTotal(statistic.size)
            with np.errstate(all="ignore"):  # else a caller's settings turn a row into an error or a warning
                for start in starts:
                    total.add(statistic.sum_block(self._rows(start, source, domain)))
            return total

        starts = source.starts(self.block_rows)
        # Our threads take blocks; BLAS threads below them would only get in the way.
        with one_thread():
            if self.n_jobs == 1 or len(starts) <= 1:
                return sum_blocks(starts).value(statistic.coarse_bits)
            with ThreadPoolExecutor(self.n_jobs) as pool:
                shares = [islice(starts, i, None, self.n_jobs) for i in range(self.n_jobs)]
                totals = [pool.submit(copy_context().run, sum_blocks, share) for share in shares]
                result = IntegerTotal(statistic.size)
                for total in totals:
                    result.merge(total.result())
        return result.value(statistic.coarse_bits)

    def _rows(self, start: int, source: RowSource, domain: RowGrid) -> NDArray[np.float64]:
        """Return a block of grid rows; single precision holds their integers of up to 2^24 exactly."""
        kept = self._kept.get(start)
        if kept is not None:
            return kept.astype(np.float64)
        rows = domain.to_grid(source.block(start, self.block_rows))
        if (start + rows.shape[1]) * rows.shape[0] * 4 <= KEPT_BYTES:
            self._kept[start] = rows.astype(np.float32)
        return rows
