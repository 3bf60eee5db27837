"""Made rows in the forms that a fit accepts: files, batches, and tables of real clusters on this machine."""

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
    from collections.abc import Callable

__all__ = ["SOURCES", "can_open"]

_NAME = "rows"  # the same for all tables: a path is public, and the same path tells nothing


def can_open(source: str) -> bool:
    """Say whether what a source needs is installed: an extra, and Java for Spark."""
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
    """Return a table whose cells are text, or null: files and clusters store one type per column."""
    frame = _frame(rows)
    return frame.map(_text).astype(object) if len(frame) else frame.astype(str).astype(object)


def _text(cell: Any) -> str | None:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return None
    if isinstance(cell, bytes):
        return cell.decode("latin-1")
    # Whole numbers as such: in text, "7.0" and "7" are the names of two persons.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _csv(rows: Any) -> Path:
    path = _folder() / f"{_NAME}.csv"
    _as_text(rows).to_csv(path, index=False)
    return path


def _parquet(rows: Any) -> Path:
    """Numbers are stored as such; cells of a table with a schema may be anything, and are text."""
    path = _folder() / f"{_NAME}.parquet"
    table = _as_text(rows) if hasattr(rows, "columns") else _frame(rows)
    table.to_parquet(path, row_group_size=37)
    return path


def _batches(rows: Any) -> Callable[[], Any]:
    """Return a function of batches: one row, none, an odd number, the rest."""
    frame = _frame(rows)
    ends = [0, 1, 1, min(38, len(frame)), len(frame)]
    return lambda: (frame.iloc[start:stop] for start, stop in pairwise(ends))


@lru_cache
def _dask_client() -> Any:
    from dask.distributed import Client, LocalCluster  # noqa: PLC0415  (an extra)

    # In processes of their own: a crash that an audit stages here must not stop a worker.
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
        table, npartitions=3, sort=False
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
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than so few rows
        "spark.sql.adaptive.enabled": "false",
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
    null = stored == StringType()
    cells = [
        tuple(None if null and cell != cell else cell for cell in row) for row in table.to_numpy().tolist()
    ]  # noqa: PLR0124
    return _spark_session().createDataFrame(cells, fields).repartition(3)


SOURCES: dict[str, Callable[[Any], Any]] = {
    "CSV file": _csv,
    "Parquet file": _parquet,
    "batches": _batches,
    "Dask": _dask,
    "Spark": _spark,
}
