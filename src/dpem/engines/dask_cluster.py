"""Rows in a Dask table, summed by the workers that hold its partitions. It needs the extra `dask`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import persist
from dask.delayed import Delayed, delayed

from dpem.data.sources.memory import require_number
from dpem.data.stored_types import require_types
from dpem.engines.base import ClusterRows
from dpem.engines.memory import bytes_to_keep
from dpem.engines.remote import grid_part, merge_parts, part_rows, sum_part, total_of
from dpem.errors import EngineError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource, Schema
    from dpem.engines.base import BlockSum

__all__ = ["DaskEngine", "DaskRows"]

_MERGED_TOGETHER = 8


class DaskRows(ClusterRows):
    """A `dask.dataframe`, or a `dask.array` with two dimensions."""

    def __init__(self, data: Any, schema: Schema | None, *, by_position: bool = False) -> None:
        if isinstance(data, Delayed):
            raise InvalidArgumentError(
                "Expected a dask.dataframe or dask.array, got a delayed object. Convert it with "
                "dask.dataframe.from_delayed."
            )
        is_frame = hasattr(data, "columns")
        if is_frame:
            head = data._meta
        else:
            if getattr(data, "ndim", 0) != 2 or np.isnan(data.shape[1]):
                raise InvalidArgumentError(
                    "Expected a dask.dataframe or a dask.array of rows and columns, got another "
                    "Dask collection."
                )
            head = np.empty((0, data.shape[1]), dtype=data.dtype)
            data = data.rechunk({1: -1})
        super().__init__(head, schema, by_position=by_position)
        if schema is not None:
            require_types(head, schema, self._reader.columns)
        if is_frame:
            columns = list(self._reader.columns or ())
            if schema is None:
                for name in columns:
                    require_number(name, is_number=head[name].dtype.kind in "fiub")
            data = data[columns]
        self._data = data
        self.partitions: Sequence[Delayed] = np.ravel(data.to_delayed()).tolist()

    def engine(self) -> DaskEngine:
        """Return an engine for these rows."""
        return DaskEngine()

    def _count(self) -> int:
        counts = [delayed(part_rows)(part) for part in self.partitions]
        return int(_compute(delayed(sum)(counts)))

    def grid_rows(self, grid: RowGrid) -> list[Delayed]:
        """Return the grid rows of every partition, as tasks that Dask has not run yet."""
        reader, shared = (delayed(thing, traverse=False) for thing in (self._reader, grid))
        return [delayed(grid_part)(part, reader, shared) for part in self.partitions]


class DaskEngine:
    """An engine on the active Dask scheduler: a `distributed` cluster if there is a client, else threads."""

    def __init__(self) -> None:
        self._kept: list[Delayed] = []
        self._kept_of: tuple[RowSource, RowGrid] | None = None

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum: workers sum their partitions, and totals are merged as a tree."""
        if not isinstance(source, DaskRows):
            raise TypeError("Expected rows of a Dask table.")
        if self._kept_of is None or self._kept_of[0] is not source or self._kept_of[1] is not domain:
            self.close()
            rows = source.grid_rows(domain)
            fits = source.n_rows * source.n_columns * 4 <= _room()
            self._kept = list(_guarded(persist, *rows)) if fits else rows
            self._kept_of = source, domain
        shared = delayed(statistic, traverse=False)
        totals = [delayed(sum_part)(shared, rows) for rows in self._kept]
        totals.append(delayed(sum_part)(shared, []))  # a table may have no partitions
        while len(totals) > 1:
            groups = range(0, len(totals), _MERGED_TOGETHER)
            totals = [delayed(merge_parts)(totals[start : start + _MERGED_TOGETHER]) for start in groups]
        return total_of(_compute(totals[0])).value(statistic.coarse_bits)

    def close(self) -> None:
        """Free the rows that workers keep in memory."""
        self._kept, self._kept_of = [], None


def _room() -> int:
    """Return the memory for grid rows: a quarter of the workers' memory, or the limit of one process."""
    try:
        from distributed import get_client  # noqa: PLC0415  (not installed for threads alone)

        workers = get_client().scheduler_info(n_workers=-1)["workers"].values()
    except (ImportError, ValueError):
        return bytes_to_keep()
    return int(sum(worker["memory_limit"] or 0 for worker in workers)) // 4


def _compute(task: Delayed) -> Any:
    return _guarded(task.compute)


def _guarded(run: Any, *arguments: Any) -> Any:
    """Run a call on Dask and report only the type of its errors, since their messages may show rows."""
    try:
        return run(*arguments)
    except Exception as error:  # noqa: BLE001
        raise EngineError(
            f"Dask failed: {type(error).__name__}. Nothing more was released. The logs of its workers give "
            f"details; they may show rows."
        ) from None
