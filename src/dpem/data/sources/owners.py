"""The owners of rows: each cell of one column is converted to the name of a person, by itself.

Names are text: 7, 7.0, "7" and b"7" are the same person, whatever the other cells of the column and whichever
part of the table they are in. Otherwise the cell of one person could change how others are identified.
"""

from __future__ import annotations

import datetime as dt
import decimal
import numbers
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dpem.data.cells import as_bytes, suppress_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NOBODY", "Owners", "owners_of"]

NOBODY = -1
_LARGEST_EXPONENT = 4000  # Python does not convert longer integers to text
_STR_TYPES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64, uuid.UUID)  # named by `str`


@dataclass(frozen=True, eq=False)
class Owners:
    """The owner of every row, as an index into `names`; `NOBODY` if the cell names no person."""

    places: NDArray[np.int64]
    names: tuple[str, ...]

    def __getitem__(self, rows: Any) -> Owners:
        return Owners(self.places[rows], self.names)


def owners_of(series: nw.Series[Any]) -> Owners:
    """Return the owners of rows from a column of names; no cell raises.

    Examples
    --------
    >>> import pandas as pd
    >>> column = pd.Series([7, "7", b"7", 7.0, None, float("nan"), "ann", [7]], name="patient")
    >>> found = owners_of(nw.from_native(column, series_only=True))
    >>> found.places.tolist(), found.names
    ([0, 0, 0, 0, -1, -1, 1, -1], ('7', 'ann'))
    """
    library, dtype = nw.get_native_namespace(series).__name__, series.dtype
    if library == "pyarrow":
        return _of_arrow(series.to_native())
    if (
        library == "polars" and dtype.is_temporal()
    ):  # as numbers: some times exceed the range of Python's types
        series = nw.from_native(series.to_native().to_physical(), series_only=True)
        dtype = series.dtype
    if dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128):
        # Avoid floats, to which a null would convert the column: large numbers would become equal.
        null = np.asarray(series.is_null().to_numpy(), dtype=bool)
        kind = np.uint64 if dtype.is_unsigned_integer() else np.int64
        return _of_values(np.asarray(series.fill_null(0).to_numpy(), dtype=kind), null)
    if dtype.is_float():
        with np.errstate(all="ignore"):  # a warning would reveal a row
            cells = np.asarray(series.to_numpy(), dtype=np.float64)
            return _of_values(cells, np.isnan(cells))
    return _of_cells(_listed(series))


def _of_arrow(column: Any) -> Owners:
    """Return the owners from an Arrow column, chunk by chunk: joining or decoding chunks can fail."""
    chunks = [_of_chunk(chunk) for chunk in getattr(column, "chunks", [column])]
    known: dict[str, int] = {}
    places = [np.empty(0, np.int64)]
    for chunk in chunks:
        place_of = [known.setdefault(name, len(known)) for name in chunk.names]
        places.append(np.array([*place_of, NOBODY], dtype=np.int64)[chunk.places])
    return Owners(np.concatenate(places), tuple(known))


def _of_chunk(cells: Any) -> Owners:
    import pyarrow as pa  # noqa: PLC0415  (installed, because the column comes from it)

    if pa.types.is_dictionary(cells.type):
        values = _of_chunk(cells.dictionary)
        index = cells.indices.cast(pa.int64()).fill_null(NOBODY).to_numpy(zero_copy_only=False)
        return Owners(np.append(values.places, NOBODY)[index], values.names)
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(test(cells.type) for test in text):
        coded = as_bytes(cells).dictionary_encode()  # as bytes: text may be invalid
        places = np.asarray(coded.indices.fill_null(NOBODY).to_numpy(zero_copy_only=False), dtype=np.int64)
        return _named(places, coded.dictionary.to_pylist())
    if pa.types.is_integer(cells.type):
        null = cells.is_null().to_numpy(zero_copy_only=False)
        return _of_values(cells.fill_null(0).to_numpy(zero_copy_only=False), null)
    listed = [None] * len(cells)
    for i in range(len(cells)):
        with suppress_errors():
            listed[i] = cells[i].as_py()
    return _of_cells(listed)


def _listed(series: nw.Series[Any]) -> list[Any]:
    """Return the cells as a list; if the library fails on some, convert them one by one."""
    listed: Any = None
    with suppress_errors():
        listed = list(series.to_list())
    if isinstance(listed, list):
        return listed
    listed = [None] * len(series)
    for i in range(len(series)):
        with suppress_errors():
            listed[i] = series.item(i)
    return list(listed)


def _of_values(cells: NDArray[Any], null: NDArray[np.bool_]) -> Owners:
    values, places = np.unique(cells, return_inverse=True)
    return _named(np.where(null, NOBODY, places.reshape(-1)).astype(np.int64), values.tolist())


def _of_cells(cells: Sequence[Any]) -> Owners:
    known: dict[str, int] = {}
    places = np.full(len(cells), NOBODY, dtype=np.int64)
    for i, cell in enumerate(cells):
        name = _name(cell)
        if name is not None:
            places[i] = known.setdefault(name, len(known))
    return Owners(places, tuple(known))


def _named(places: NDArray[np.int64], values: Sequence[Any]) -> Owners:
    """Return owners from distinct values, of which several may have the same name."""
    known: dict[str, int] = {}
    names = [_name(value) for value in values]
    place_of = [NOBODY if name is None else known.setdefault(name, len(known)) for name in names]
    return Owners(np.array([*place_of, NOBODY], dtype=np.int64)[places], tuple(known))


def _name(cell: Any) -> str | None:
    """Return the name in a cell, or None if it names nobody."""
    with suppress_errors():
        if isinstance(cell, str):
            return str.__str__(cell)
        if isinstance(cell, bytes):
            return cell.decode("utf-8", "surrogateescape")
        if isinstance(cell, _STR_TYPES):
            return str(cell) if cell == cell else None  # noqa: PLR0124  (NaT differs from itself)
        if isinstance(cell, numbers.Integral | np.bool_):
            return str(int(cell))
        if isinstance(cell, decimal.Decimal | float | np.floating):
            number = cell if isinstance(cell, decimal.Decimal) else decimal.Decimal(repr(float(cell)))
            return _number_name(number)
    return None


def _number_name(number: decimal.Decimal) -> str | None:
    """Format a number without the zeros that a column's scale adds; return None for extreme exponents."""
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        return None
    if number == int(number):
        return str(int(number))
    return str(number.normalize(decimal.Context(prec=len(number.as_tuple().digits))))
