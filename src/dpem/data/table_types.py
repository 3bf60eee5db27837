"""Find the kinds of columns from the names and types of a table, without reading values."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dpem import _validate
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["did_you_mean", "doubled", "doubled_names", "is_name", "kinds_of_table", "listed"]


def kinds_of_table(table: Any) -> dict[str, str]:
    """Return the kind of every column of a table, or of a mapping of names to types."""
    if isinstance(table, Mapping):
        kinds = [(name, _kind_of_type(name, declared)) for name, declared in table.items()]
    else:
        kinds = _table_kinds(table)
    unnamed = [str(j) for j, (name, _) in enumerate(kinds) if not is_name(name)]
    if unnamed:
        raise InvalidArgumentError(
            f"Expected a text name for every column, got other labels at position {', '.join(unnamed)}. Name "
            f"or drop these columns."
        )
    return dict(kinds)


def is_name(name: Any) -> bool:
    """Whether a column's label is one line of text."""
    return isinstance(name, str) and bool(name.strip()) and name.isprintable()


def listed(names: Sequence[str], most: int = 20) -> str:
    """Format names for a message; of many, the first ones."""
    shown = ", ".join(map(_validate.shown, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def did_you_mean(wanted: Sequence[Any], found: Sequence[Any], *, exact: bool = False) -> str:
    """Return a question that suggests similar names, or nothing.

    With `exact`, only names that differ in capital letters or spaces are suggested.

    Examples
    --------
    >>> did_you_mean(["age", "ward"], ["Age", "wards"])
    "Did you mean 'Age', 'wards'? "
    >>> did_you_mean(["age", "ward"], ["Age", "wards"], exact=True)
    "Did you mean 'Age'? "
    """
    plain = {str(name).strip().casefold(): str(name) for name in found}
    close = []
    for name in wanted:
        if not isinstance(name, str):
            continue
        key = name.strip().casefold()
        near = [key] if key in plain else []
        if not near and not exact:
            near = difflib.get_close_matches(key, plain, n=1, cutoff=0.75)
        close += [plain[match] for match in near]
    return f"Did you mean {listed(list(dict.fromkeys(close)), 5)}? " if close else ""


def _kind_of_type(name: Any, declared: Any) -> str:
    kinds: dict[Any, str] = {
        bool: "boolean",
        int: "integer",
        float: "continuous",
        str: "categorical",
        dt.date: "date",
        dt.datetime: "datetime",
        dt.timedelta: "duration",
    }
    for python_type, kind in kinds.items():
        if declared is python_type or declared == python_type.__name__:
            return kind
    try:
        letter = np.dtype(declared).kind
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"Expected a type such as int, float, bool or str for column {_validate.shown(name)}, got "
            f"{_validate.shown(declared)}."
        ) from None
    return _KIND_OF_LETTER.get(letter, "categorical")


_KIND_OF_LETTER = {
    "b": "boolean",
    "i": "integer",
    "u": "integer",
    "f": "continuous",
    "M": "datetime",
    "m": "duration",
}


def _table_kinds(table: Any) -> list[tuple[Any, str]]:
    """Return the names and kinds of a table's columns, from its types."""
    try:
        frame = nw.from_native(table, pass_through=True)
        if nw.dependencies.is_pandas_dataframe(
            table
        ):  # narwhals would read cells to distinguish text from objects
            return [
                (name, _KIND_OF_LETTER.get(dtype.kind, "categorical")) for name, dtype in table.dtypes.items()
            ]
        if isinstance(frame, nw.DataFrame | nw.LazyFrame):
            return [(name, _kind_of_dtype(dtype)) for name, dtype in frame.collect_schema().items()]
    except nw.exceptions.DuplicateError as error:
        raise doubled_names(error) from error
    raise InvalidArgumentError(
        f"Expected a table of pandas, polars or pyarrow, or a mapping of names to types, got "
        f"{_validate.described(table)}."
    )


def _kind_of_dtype(dtype: nw.dtypes.DType) -> str:
    if dtype == nw.Boolean:
        return "boolean"
    if dtype.is_integer():
        return "integer"
    if dtype.is_temporal():
        return "date" if dtype == nw.Date else "duration" if dtype == nw.Duration else "datetime"
    return "continuous" if dtype.is_numeric() else "categorical"


def doubled_names(error: Exception) -> InvalidArgumentError:
    """Return the error for a table with two columns of the same name, from that of narwhals."""
    return doubled([line.strip(" -") for line in str(error).splitlines()[1:]])


def doubled(names: Sequence[str]) -> InvalidArgumentError:
    """Return the error for column names that occur more than once; narwhals adds how often."""
    which = listed([str(name) for name in names])
    return InvalidArgumentError(
        f"Expected columns with different names, got duplicates: {which}. Rename or drop some columns."
    )
