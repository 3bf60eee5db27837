"""Choose the row source and the engine for the given data. Only this module knows all of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dpem import _validate
from dpem.data import TableRows
from dpem.data.schema import require_schema
from dpem.data.sources.batches import BatchRows, dataset_batches
from dpem.data.sources.files import FileRows, Files
from dpem.data.sources.on_device import OnDevice
from dpem.data.sources.persons import LimitedRows
from dpem.data.stored_types import require_types
from dpem.engines.base import ClusterRows
from dpem.engines.local import LocalEngine
from dpem.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from dpem.data import RowSource, Schema
    from dpem.engines.base import Engine
    from dpem.privacy.neighbours import Adjacency

__all__ = ["engine_for", "open_rows", "rows_to_release"]

_OF_EXTRAS = ("dask", "dask_expr", "pyspark", "torch")  # libraries whose rows have engines of their own


def open_rows(
    data: Any, schema: Schema | None = None, *, by_position: bool = False, person: str | None = None
) -> RowSource:
    """Return a row source for any data that `fit` accepts. It reads column names and types, but no values.

    Parameters
    ----------
    data : array, DataFrame, path, Files, function, Dask or Spark table, tensor, or OnDevice
        Paths are strings or path-likes, or a list of them. A function returns an iterator of batches.
    schema : Schema, optional
        The columns to use, in order, with their types.
    by_position : bool, default False
        Whether to match the table's columns to the schema by position instead of by name.
    person : str, optional
        The column that identifies persons. It is supported for tables in memory, files and batches.
    """
    if schema is not None:
        require_schema(schema)
    if person is not None:
        _validate.text(person, "person", "Name the column that identifies persons.")
    if isinstance(data, OnDevice):
        return _on_device(open_rows(data.data, schema, by_position=by_position, person=person), data.device)
    home = type(data).__module__.partition(".")[0]
    if isinstance(data, str | os.PathLike) or _is_list_of_paths(data):
        data = Files(data)
    if isinstance(data, Files):
        return FileRows(data, schema, by_position=by_position, person=person)
    if person is not None and home in _OF_EXTRAS:
        raise InvalidArgumentError(
            f"Expected a table in memory, files or batches with person={_validate.shown(person)}, got a "
            f"{type(data).__name__} of {home}. Drop each person's rows above the limit there (such as with a "
            f"window function), and pass rows_per_person= without person=."
        )
    if home in _OF_EXTRAS:
        return _rows_of_extra(home, data, schema, by_position=by_position)
    if home == "pyarrow" and hasattr(data, "get_fragments"):
        columns = None if schema is None or by_position else schema.names
        data = dataset_batches(data, columns if columns is None or person is None else (*columns, person))
    if callable(data):
        return BatchRows(data, schema, by_position=by_position, person=person)
    if hasattr(data, "__next__") or type(data).__name__ in {"LazyFrame", "DuckDBPyRelation"}:
        raise InvalidArgumentError(
            f"Expected rows that can be read many times, got {_validate.described(data)}. Collect it, or "
            f"pass a function that opens it again on every call and returns an iterator of batches."
        )
    rows = TableRows(data, schema, by_position=by_position, person=person)
    if schema is not None:
        require_types(data, schema, rows.labels)
    return rows


def rows_to_release(
    data: Any,
    schema: Schema | None,
    adjacency: Adjacency,
    rows_per_person: int,
    person: str | None,
    *,
    by_position: bool = False,
) -> RowSource:
    """Return the rows that a release may read: with a person column, at most `rows_per_person` per person.

    Raises an error if the number of rows is public and there are no rows.
    """
    rows = data.data if isinstance(data, OnDevice) else data
    source = open_rows(rows, schema, by_position=by_position, person=person)
    if person is not None:
        source = LimitedRows(source, rows_per_person)
    if isinstance(data, OnDevice):
        source = _on_device(source, data.device)
    if adjacency.n_rows_public:
        source.require_rows()
    return source


def engine_for(source: RowSource, n_jobs: int | None = None) -> Engine:
    """Return an engine that sums over these rows where they are stored."""
    if isinstance(source, ClusterRows):
        return source.engine()
    if hasattr(source, "engine"):  # a tensor, or rows that are streamed to a device
        return source.engine(n_jobs)  # type: ignore[no-any-return]
    return LocalEngine(n_jobs)


def _rows_of_extra(home: str, data: Any, schema: Schema | None, *, by_position: bool) -> RowSource:
    """Return the rows of a library whose engine needs an extra."""
    if home == "torch":
        from dpem.engines.device_rows import TensorRows  # noqa: PLC0415

        return TensorRows(data, schema)
    if home == "pyspark":
        from dpem.engines.spark_cluster import SparkRows  # noqa: PLC0415

        return SparkRows(data, schema, by_position=by_position)
    from dpem.engines.dask_cluster import DaskRows  # noqa: PLC0415

    return DaskRows(data, schema, by_position=by_position)


def _on_device(source: RowSource, device: Any) -> RowSource:
    try:
        from dpem.engines.device_rows import rows_on_device  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise MissingExtraError("A sum on a device", "torch", "gpu") from None
    return rows_on_device(source, device)


def _is_list_of_paths(data: Any) -> bool:
    return (
        isinstance(data, list | tuple)
        and bool(data)
        and all(isinstance(path, str | os.PathLike) for path in data)
    )
