"""Compare the stored types of a table's columns with the kinds that a schema declares.

A stored type is public. If the type of a column cannot hold the declared kind, the fit raises before anything
is charged. Python objects and the cells of CSV files have no stored type: they are parsed one by one and
never raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpem.data.column import Column
    from dpem.data.schema import Schema

__all__ = ["require_types", "stored_type", "stored_types"]

_VALUES = {"number", "boolean", "text"}
_ALLOWED = dict.fromkeys(("continuous", "integer", "boolean", "ordered", "categorical"), _VALUES) | {
    "date": {"moment", "text"},
    "datetime": {"moment", "text"},
    "duration": {"duration", "number", "text"},
}
_WORDS = {
    "number": "numbers",
    "boolean": "booleans",
    "text": "text",
    "moment": "dates or times",
    "duration": "durations",
    "clock": "times of day",
    "nested": "lists, records or intervals",
    "bytes": "bytes",
}
_REMEDIES = {
    "moment": "Declare it as 'date' or 'datetime', or convert it.",
    "duration": "Declare it as 'duration', or convert it to a number.",
    "nested": "Extract single values into columns of their own.",
    "clock": "Convert it to a number of seconds, or to text.",
    "bytes": "Decode them to text or numbers first.",
    "number": "Declare it as a number, or give the format of dates that are written as numbers, such as "
    "format='%Y%m%d'.",
    "boolean": "Declare it as 'boolean'.",
}


def require_types(table: Any, schema: Schema, columns: Sequence[Any] | None) -> None:
    """Raise if a stored type cannot hold the declared kind of its column.

    Parameters
    ----------
    table : array or DataFrame
        A table, or an empty one with the same types.
    schema : Schema
        The declared columns.
    columns : sequence, optional
        The names of the columns in the table, in the order of the schema; by default columns match by
        position.
    """
    stored = stored_types(table)
    found = list(stored.values()) if columns is None else [stored.get(name, "unknown") for name in columns]
    for column, kind in zip(schema.columns, found, strict=False):
        if not _holds(column, kind):
            raise InvalidArgumentError(
                f"Expected a column of kind {column.kind!r}, got {_WORDS[kind]} in column {column.name!r}. "
                f"{_REMEDIES[kind]} Nothing was charged and nothing was read."
            )


def _holds(column: Column, stored: str) -> bool:
    if stored == "unknown":
        return True
    dates_as_numbers = column.kind in {"date", "datetime"} and column.cell_format.format is not None
    return stored in _ALLOWED[column.kind] or (stored == "number" and dates_as_numbers)


def stored_types(table: Any) -> dict[Any, str]:
    """Return a word for the type of each column: number, boolean, text, moment, ..., or unknown."""
    if isinstance(table, np.ndarray):
        kind = _of_letter(table.dtype.kind)
        return dict.fromkeys(range(table.shape[1] if table.ndim == 2 else 0), kind)
    if nw.dependencies.is_pandas_dataframe(
        table
    ):  # narwhals would read cells to distinguish text from objects
        return {name: _of_pandas(dtype) for name, dtype in table.dtypes.items()}
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return {}
    odd = _odd_types(table)
    return {name: odd.get(name, stored_type(dtype)) for name, dtype in frame.schema.items()}


def _odd_types(table: Any) -> dict[str, str]:
    """Return a word for the types of columns with Arrow types that narwhals does not know."""
    if nw.get_native_namespace(table).__name__ != "pyarrow":
        return {}
    import pyarrow as pa  # noqa: PLC0415  (installed, because the table comes from it)

    found = {}
    for column in table.schema:
        if pa.types.is_fixed_size_binary(column.type):
            found[column.name] = "bytes"
        elif pa.types.is_interval(column.type):
            found[column.name] = "nested"
    return found


def _of_letter(letter: str) -> str:
    kinds = dict.fromkeys("fiu", "number") | {"b": "boolean", "M": "moment", "m": "duration", "U": "text"}
    return kinds.get(letter, "unknown")


def _of_pandas(dtype: Any) -> str:
    if hasattr(dtype, "pyarrow_dtype"):
        import pyarrow as pa  # noqa: PLC0415  (installed, because the column comes from it)

        frame = nw.from_native(pa.table({"x": pa.array([], dtype.pyarrow_dtype)}), eager_only=True)
        return stored_type(frame.schema["x"])
    if dtype.name.startswith(("period", "interval")):
        return "nested"
    if dtype.name == "category":
        return "text"  # whatever the type of its categories: categories are values, and private
    return _of_letter(dtype.kind)


def stored_type(dtype: Any) -> str:
    """Return a word for a narwhals type."""
    tests = {
        "boolean": dtype == nw.Boolean,
        "number": dtype.is_numeric(),
        "duration": dtype == nw.Duration,
        "clock": dtype == nw.Time,
        "moment": dtype.is_temporal(),
        "nested": dtype.is_nested(),
        "bytes": dtype == nw.Binary,
        "text": dtype in (nw.String, nw.Categorical, nw.Enum),
    }
    return next((kind for kind, holds in tests.items() if holds), "unknown")
