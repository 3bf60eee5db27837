"""Generated rows in the forms that a fit accepts: files, batches, and tables of local clusters."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SOURCES", "can_open"]

_NAME = "rows"  # the same for all tables, so that public paths do not differ


def can_open(source: str) -> bool:
    """Whether the requirements of a source are installed: an extra, and Java for Spark."""
    needed = {"Dask": ("dask", "distributed"), "Spark": ("pyspark",)}.get(source, ())
    if any(importlib.util.find_spec(module) is None for module in needed):
        return False
    return source != "Spark" or shutil.which("java") is not None or "JAVA_HOME" in os.environ


@lru_cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="dpem-audit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _frame(rows: Any) -> Any:
    import pandas as pd  # noqa: PLC0415  (slow to import)

    if hasattr(rows, "columns"):
        return rows
    return pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])


def _as_text(rows: Any) -> Any:
    """Return a table of text cells or nulls, because files and clusters store one type per column."""
    frame = _frame(rows)
    return frame.map(_text).astype(object) if len(frame) else frame.astype(str).astype(object)


def _text(cell: Any) -> str | None:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return None
    if isinstance(cell, bytes):
        return cell.decode("latin-1")
    # Whole numbers without decimals: as text, "7.0" and "7" are the names of two persons.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _csv(rows: Any) -> Path:
    path = _folder() / f"{_NAME}.csv"
    _as_text(rows).to_csv(path, index=False)
    return path


def _csv_with_broken_lines(rows: Any) -> Path:
    """Cut lines off after an unreadable first cell. Such a line is still a row."""
    path = _csv(rows)
    lines = path.read_text(encoding="utf-8").split("\n")
    broken = [line.partition(",")[0] if line.startswith("?!") else line for line in lines]
    path.write_text("\n".join(broken), encoding="utf-8")
    return path


def _parquet(rows: Any) -> Path:
    """Write a Parquet file; cells of a table with a schema may be of any type, and are stored as text."""
    path = _folder() / f"{_NAME}.parquet"
    table = _as_text(rows) if hasattr(rows, "columns") else _frame(rows)
    table.to_parquet(path, row_group_size=37)
    return path


def _batches(rows: Any) -> Callable[[], Any]:
    """Return a function of batches: one row, none, an odd number, then many; arrays share one buffer."""
    n = len(rows)
    ends = sorted({0, min(1, n), *range(min(38, n), n, 11), n})
    if hasattr(rows, "columns"):
        return lambda: (rows.iloc[start:stop] for start, stop in pairwise([0, *ends]))

    def refilled() -> Iterator[Any]:
        buffer = np.empty((n, rows.shape[1]))
        for start, stop in pairwise([0, *ends]):
            buffer[: stop - start] = rows[start:stop]
            yield buffer[: stop - start]
            buffer[:] = 0.5  # a caller may overwrite its own memory after a batch

    return refilled


@lru_cache
def _dask_client() -> Any:
    from dask.distributed import Client, LocalCluster  # noqa: PLC0415  (an extra)

    # Workers are separate processes, so that a crash simulated by an audit does not stop them.
    cluster: Any = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    client: Any = Client(cluster)  # type: ignore[no-untyped-call]
    atexit.register(cluster.close)
    atexit.register(client.close)
    return client


def _dask(rows: Any) -> Any:
    import dask.dataframe  # noqa: PLC0415  (an extra)

    _dask_client()
    table = _as_text(rows) if hasattr(rows, "columns") else _frame(rows)
    return dask.dataframe.from_pandas(  # type: ignore[no-untyped-call]
        table, npartitions=12, sort=False
    )


@lru_cache
def _spark_session() -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (an extra)

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than the few rows
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",  # several batches in each partition
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    atexit.register(session.stop)
    return session


def _spark(rows: Any) -> Any:
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType  # noqa: PLC0415  (an extra)

    stored = StringType() if hasattr(rows, "columns") else DoubleType()
    table = _as_text(rows) if hasattr(rows, "columns") else _frame(rows)
    fields = StructType([StructField(name, stored) for name in table.columns])
    cells = table.astype(object).where(table.notna(), None if stored == StringType() else np.nan)
    return _spark_session().createDataFrame(cells.to_numpy().tolist(), fields).repartition(5)


SOURCES: dict[str, Callable[[Any], Any]] = {
    "CSV file": _csv,
    "CSV file with broken lines": _csv_with_broken_lines,
    "Parquet file": _parquet,
    "batches": _batches,
    "Dask": _dask,
    "Spark": _spark,
}
