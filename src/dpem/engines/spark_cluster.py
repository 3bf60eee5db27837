"""Rows in a Spark DataFrame, summed by its executors. It needs the extra `spark`.

A sum takes two steps of `mapInArrow`. The first converts each part of the table to grid rows, which Spark
keeps in memory as far as they fit. The second sums each part to one total. Totals carry the number of their
part, so that a total that arrives twice counts once.
"""

from __future__ import annotations

import gc
import math
import pickle
import sys
import weakref
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions
from pyspark.sql.types import BooleanType, NullType, NumericType

from dpem.data.sources.memory import require_number
from dpem.data.stored_types import require_types
from dpem.data.table_types import doubled
from dpem.engines.base import ClusterRows
from dpem.engines.remote import Failure, grid_part, merge_parts, sum_part, total_of
from dpem.errors import EngineError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource, Schema
    from dpem.data.sources.streams import TableReader
    from dpem.engines.base import BlockSum

__all__ = ["SparkEngine", "SparkRows"]

_ROWS = "width int, cells binary"  # one row per block, or one row with a failure
_TOTALS = "part int, total binary"
_COLLECTED = 32  # most totals that the driver collects; executors merge the others first


class SparkRows(ClusterRows):
    """A Spark DataFrame."""

    def __init__(self, data: Any, schema: Schema | None, *, by_position: bool = False) -> None:
        if not hasattr(data, "mapInArrow"):
            raise InvalidArgumentError(
                f"Expected a Spark DataFrame, got {type(data).__name__} of pyspark. Convert it first."
            )
        lower = [name.lower() for name in data.columns]  # Spark ignores case in names
        twice = [name for name in data.columns if lower.count(name.lower()) > 1]
        if twice:
            raise doubled(sorted(set(twice)))
        numbers = NumericType | BooleanType | NullType
        is_number = {field.name: isinstance(field.dataType, numbers) for field in data.schema.fields}
        kinds = [pa.array([], pa.float64() if number else pa.string()) for number in is_number.values()]
        super().__init__(pa.table(kinds, names=list(is_number)), schema, by_position=by_position)
        columns = list(self._reader.columns or ())
        if schema is not None:
            require_types(_stored(data), schema, columns)
        if schema is None:
            for name in columns:
                require_number(name, is_number=is_number[name])
        _require_repeatable(data)
        # Plain names, because Spark gives a meaning to dots and other characters in a name.
        plain = tuple(f"c{j}" for j in range(len(columns)))
        quoted = [functions.col("`" + name.replace("`", "``") + "`") for name in columns]
        self._data = data.select([column.alias(name) for column, name in zip(quoted, plain, strict=True)])
        self._reader = replace(self._reader, columns=plain)

    def engine(self) -> SparkEngine:
        """Return an engine for these rows."""
        return SparkEngine()

    def _count(self) -> int:
        return int(_guarded(self._data.count))

    def grid_rows(self, grid: RowGrid) -> Any:
        """Return a DataFrame of grid rows with one block per row."""
        return self._data.mapInArrow(_grid_maker(self._reader, grid), _ROWS)


_STORED = {
    "StringType": pa.string(),
    "VarcharType": pa.string(),
    "CharType": pa.string(),
    "BooleanType": pa.bool_(),
    "DateType": pa.date32(),
    "TimestampType": pa.timestamp("us", "UTC"),
    "TimestampNTZType": pa.timestamp("us"),
    "DayTimeIntervalType": pa.duration("us"),
    "BinaryType": pa.binary(),
    "ArrayType": pa.list_(pa.null()),
    "MapType": pa.list_(pa.null()),
    "StructType": pa.list_(pa.null()),
}


def _stored(data: Any) -> Any:
    """Return an empty Arrow table with the types of a Spark DataFrame; unknown types are null."""
    kinds = {}
    for field in data.schema.fields:
        number = isinstance(field.dataType, NumericType)
        kinds[field.name] = pa.float64() if number else _STORED.get(type(field.dataType).__name__, pa.null())
    return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})


class SparkEngine:
    """An engine on Spark executors. The driver receives the totals of parts, and never rows."""

    def __init__(self) -> None:
        self._kept: Any = None
        self._kept_of: tuple[RowSource, RowGrid] | None = None
        self._n_parts = 0
        self._unpersist: Any = None

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum."""
        if not isinstance(source, SparkRows):
            raise TypeError("Expected rows of a Spark DataFrame.")
        if self._kept_of is None or self._kept_of[0] is not source or self._kept_of[1] is not domain:
            self.close()
            self._kept = source.grid_rows(domain).persist(StorageLevel.MEMORY_ONLY)
            self._kept_of = source, domain
            self._n_parts = _n_parts(self._kept)
            self._unpersist = weakref.finalize(self, self._kept.unpersist)
            self._unpersist.atexit = False  # the session may have ended by then
        found = _guarded(lambda: _collect(self._kept, statistic, self._n_parts))
        by_part = {row["part"]: row["total"] for row in found}
        totals = [pickle.loads(total) for total in by_part.values()]  # noqa: S301  (written by dpem)
        total = merge_parts([sum_part(statistic, []), *totals])  # a table may have no partitions
        return total_of(total).value(statistic.coarse_bits)

    def close(self) -> None:
        """Free the rows that executors keep in memory."""
        if self._unpersist is not None:
            self._unpersist()
        self._kept = self._kept_of = self._unpersist = None


def _collect(rows: Any, statistic: BlockSum, n_parts: int) -> list[Any]:
    totals = rows.mapInArrow(_summer(statistic), _TOTALS)
    if n_parts > _COLLECTED:
        groups = math.ceil(math.sqrt(n_parts))
        # Group by a column: a part that Spark recomputes must go to the same group.
        totals = totals.repartition(groups, functions.col("part") % groups).mapInArrow(_merge, _TOTALS)
    return list(totals.collect())


def _n_parts(frame: Any) -> int:
    try:
        return int(frame.rdd.getNumPartitions())
    except Exception:  # noqa: BLE001  (unknown under Spark Connect)
        return _COLLECTED + 1


def _grid_maker(reader: TableReader, grid: RowGrid) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def make(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            blocks = grid_part(pa.Table.from_batches([batch]), reader, grid)
            if isinstance(blocks, Failure):
                yield _batch([-1], [pickle.dumps(blocks)], "width", "cells")
                return
            if blocks:
                yield _batch([len(b) for b in blocks], [b.tobytes() for b in blocks], "width", "cells")

    return make


def _summer(statistic: BlockSum) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def summed(batches: Iterable[Any]) -> Iterator[Any]:
        part = _part()
        total = sum_part(statistic, [])
        for batch in batches:
            for width, cells in zip(*(batch.column(j).to_pylist() for j in range(2)), strict=True):
                if width < 0:
                    yield _batch([part], [cells], "part", "total")
                    return
                block = np.frombuffer(cells, dtype=np.float32).reshape(width, -1)
                total = merge_parts([total, sum_part(statistic, [block])])
        _spare(len(sys.modules))
        yield _batch([part], [pickle.dumps(total)], "part", "total")

    return summed


def _merge(batches: Iterable[Any]) -> Iterator[Any]:
    """Add the totals of a group, counting each part once."""
    by_part: dict[int, bytes] = {}
    for batch in batches:
        by_part.update(zip(*(batch.column(j).to_pylist() for j in range(2)), strict=True))
    if by_part:
        total = merge_parts([pickle.loads(total) for total in by_part.values()])  # noqa: S301  (written by dpem)
        yield _batch([min(by_part)], [pickle.dumps(total)], "part", "total")


@cache
def _spare(n_modules: int) -> None:  # noqa: ARG001  (runs once per number of modules)
    """Exempt imported modules from garbage collection.

    PySpark collects garbage after every task, which would take longer than the sums.
    """
    gc.freeze()


def _part() -> int:
    context = TaskContext.get()
    if context is None:  # without its number, one total would replace all others
        raise EngineError("Expected a Spark task that knows its partition, got code outside a task.")
    return int(context.partitionId())


def _batch(numbers: list[int], binaries: list[bytes], *names: str) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int32()), pa.array(binaries, pa.binary())], names=list(names)
    )


def _require_repeatable(data: Any) -> None:
    """Raise an error if Spark reports that a DataFrame gives other rows each time it is computed."""
    try:
        repeatable = bool(data._jdf.queryExecution().analyzed().deterministic())
    except Exception:  # noqa: BLE001  (unknown under Spark Connect)
        return
    if not repeatable:
        raise InvalidArgumentError(
            "Expected rows that are the same whenever Spark computes them, got a DataFrame with random "
            "columns or the like. Write it to files first, and read those."
        )


def _guarded(run: Callable[[], Any]) -> Any:
    """Run a call on Spark and report only the type of its errors, since their messages may show rows."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001
        raise EngineError(
            f"Spark failed: {type(error).__name__}. Nothing more was released. Its logs give details; they "
            f"may show rows."
        ) from None
