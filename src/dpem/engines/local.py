"""Blocks of rows on this machine's threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from dpem import _validate
from dpem.engines.totals import IntegerTotal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from dpem.data import Domain, RowSource
    from dpem.engines.base import BlockSum

__all__ = ["LocalEngine"]


class LocalEngine:
    """Sum over blocks with a few threads; memory is a constant number of blocks.

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

    def sum(self, statistic: BlockSum, source: RowSource, domain: Domain) -> NDArray[np.int64]:
        """Return the exact integer sum over all rows."""

        def sum_blocks(starts: Iterable[int]) -> IntegerTotal:
            total = IntegerTotal(statistic.size)
            with np.errstate(all="ignore"):  # else a caller's settings turn a row into an error or a warning
                for start in starts:
                    rows = domain.to_grid(source.block(start, self.block_rows))
                    total.add(statistic.sum_block(rows))
            return total

        starts = source.starts(self.block_rows)
        with threadpool_limits(
            1
        ):  # our threads take blocks; BLAS threads below them would only get in the way
            if self.n_jobs == 1 or len(starts) <= 1:
                return sum_blocks(starts).value()
            with ThreadPoolExecutor(self.n_jobs) as pool:
                shares = [islice(starts, i, None, self.n_jobs) for i in range(self.n_jobs)]
                totals = [pool.submit(copy_context().run, sum_blocks, share) for share in shares]
                result = IntegerTotal(statistic.size)
                for total in totals:
                    result.merge(total.result())
        return result.value()
