"""Rows in memory, as blocks of columns.

Errors of shape and type are public and raise. Errors of values are private and never raise. With a schema,
every cell is parsed as its column declares, whatever its type. Without a schema, cells are not parsed: the
type of a column must be numeric.
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dpem import _validate
from dpem._compiled import are_used
from dpem.data.cells import as_bytes, is_arrow, is_null, suppress_errors
from dpem.data.sources.base import RowSource
from dpem.data.sources.owners import owners_of
from dpem.data.table_types import did_you_mean, doubled_names
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from dpem.data.schema import Schema
    from dpem.data.sources.owners import Owners

__all__ = ["BLOCK_CELLS", "TableRows", "require_columns", "require_number"]

# Number of cells in a block: small enough that a block and its temporaries stay in the cache.
BLOCK_CELLS = 1 << 16
# Blocks of a piece at most, and about how many pieces a table of that size at least has.
_MOST_BLOCKS = 8
_PIECES = 64


class TableRows(RowSource):
    """Rows of a NumPy array, or of a DataFrame of pandas, polars, pyarrow or another library.

    Parameters
    ----------
    data : array-like or DataFrame of shape (n, d)
        The table. Without a schema, its columns must be numeric: float32 is widened exactly, booleans and
        integers are numbers, a masked or null cell is NaN. Sparse matrices raise.
    schema : Schema, optional
        The columns to use, in order, and how to parse their cells. A table without column names must have
        exactly these columns.
    by_position : bool, default False
        Whether the columns of a DataFrame match those of the schema by position instead of by name.
    columns : sequence, optional
        The columns of a DataFrame to use, in order, if their names differ from those in the schema.
    person : str, optional
        The column of a DataFrame that identifies persons; it must not be one of the columns to use.
    """

    def __init__(
        self,
        data: Any,
        schema: Schema | None = None,
        *,
        by_position: bool = False,
        columns: Sequence[Any] | None = None,
        person: str | None = None,
    ) -> None:
        if schema is not None:
            schema.require_complete()
        self.schema = schema
        try:
            frame = nw.from_native(data, eager_only=True, pass_through=True)
        except nw.exceptions.DuplicateError as error:
            raise doubled_names(error) from error
        self.names: tuple[str, ...] | None = None
        self.labels: tuple[Any, ...] | None = None
        if isinstance(frame, nw.DataFrame):
            if columns is None and schema is not None and not by_position:
                columns = schema.names
            self._owners = None if person is None else _owners(frame, person, columns)
            self._columns, self.labels = _frame_columns(
                frame, columns, parsed=schema is not None, person=person
            )
            # Integer labels are positions, not names, as in scikit-learn.
            self.names = self.labels if all(isinstance(name, str) for name in self.labels) else None
        else:
            if person is not None:
                raise InvalidArgumentError(
                    f"Expected a table with column names for person={_validate.shown(person)}, got an "
                    f"array. Pass a DataFrame."
                )
            self._owners = None
            self._columns = _array_columns(data, None if schema is None else len(schema.columns))
        self._together = _together(self._columns)
        self.n_columns: int = len(self._columns)
        self._n_rows = len(self._columns[0]) if self.n_columns else 0
        self._of_findings = False
        self._copies = True
        if self.n_columns == 0:
            raise InvalidArgumentError(
                f"Expected at least one column: Found array with 0 feature(s) (shape=({self.n_rows}, 0)) "
                f"while a minimum of 1 is required."
            )
        if schema is not None and self.n_columns != len(schema.columns):
            raise InvalidArgumentError(
                f"Expected the {len(schema.columns)} columns of the schema, got {self.n_columns}."
            )

    @classmethod
    def joined(cls, tables: Sequence[TableRows]) -> TableRows:
        """Return the rows of all tables, which have the same columns."""
        whole = copy.copy(tables[0])
        whole._columns = [_joined(parts) for parts in zip(*(t._columns for t in tables), strict=True)]
        whole._together = _together(whole._columns)
        whole._owners = None  # owners are indices into the names of each part
        whole._n_rows = sum(table.n_rows for table in tables)
        return whole

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    @property
    def owners(self) -> Owners:
        """The owner of each row, if the rows were opened with `person`."""
        if self._owners is None:
            raise InvalidArgumentError(
                "Expected rows that were opened with person=, got rows without owners."
            )
        return self._owners

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the rows a few blocks at a time, starting with piece number `first`."""
        # Few large pieces, for less work under the interpreter's lock, but enough of them for many threads.
        blocks = min(max(1, round(self.n_rows / (_PIECES * self.block_rows))), _MOST_BLOCKS)
        size = blocks * self.block_rows
        for start in range(first * size, self.n_rows, size):
            yield self._slice(start, start + size)

    def in_memory(self) -> TableRows:
        """Return these rows."""
        return self

    def only(self, columns: Sequence[int]) -> TableRows:
        """Return the same rows with some of the columns."""
        other = copy.copy(self)
        other._columns = [self._columns[j] for j in columns]
        other._together = _together(other._columns)
        other.n_columns = len(columns)
        other.names = None if self.names is None else tuple(self.names[j] for j in columns)
        if self.schema is not None:
            other.schema = self.schema.select([self.schema.names[j] for j in columns])
        return other

    def of_findings(self) -> TableRows:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""
        other = copy.copy(self)
        other._of_findings = True
        return other

    # -- blocks ------------------------------------------------------------------------------------------

    @property
    def block_rows(self) -> int:
        """The number of rows in a block; the last block may have fewer."""
        return max(64, BLOCK_CELLS // self.n_columns)

    def blocks(self, block_rows: int | None = None) -> Iterator[NDArray[np.float64]]:
        """Yield all rows in order, in blocks of shape (columns, rows)."""
        block_rows = block_rows or self.block_rows
        for start in range(0, self.n_rows, block_rows):
            yield self._slice(start, start + block_rows).block()

    def block(self) -> NDArray[np.float64]:
        """Return all rows as an array of shape (columns, rows). Every read of rows goes through here."""
        view = None if self._copies else self._view()
        if view is not None:
            return view
        block = np.empty((self.n_columns, self.n_rows))
        with np.errstate(all="ignore"):  # a warning or an exception here would depend on a row
            if self.schema is None:
                for j, column in enumerate(self._columns):
                    block[j] = column
                return block
            others: Iterable[int] = range(self.n_columns)
            if are_used(block.size):
                others = self.schema._stored.parse(
                    self._columns, self._together, block, findings=self._of_findings
                )
            for j in others:
                self.schema.columns[j].parse_into(block[j], self._columns[j], findings=self._of_findings)
        return block

    def without_copy(self) -> Self:
        """Return the same rows; `block` then returns a read-only view if no cell needs parsing."""
        other = copy.copy(self)
        other._copies = False
        return other

    def _view(self) -> NDArray[np.float64] | None:
        """Return a read-only view (columns, rows) of float64 cells that need no parsing, else None."""
        if self.schema is not None or self._together is None or self._together.dtype != np.float64:
            return None
        return self._together

    def null(self) -> NDArray[np.bool_]:
        """Return which cells are null before parsing, with shape (columns, rows)."""
        return np.stack([is_null(column) for column in self._columns])

    def first_rows(self, n: int) -> TableRows:
        """Return the first rows."""
        return self._slice(0, n)

    def where(self, kept: NDArray[np.bool_]) -> TableRows:
        """Return the rows that are kept."""
        other = copy.copy(self)
        other._columns = [_where(column, kept) for column in self._columns]
        other._together = None
        other._owners = None if self._owners is None else self._owners[kept]
        other._n_rows = int(np.count_nonzero(kept))
        return other

    def _slice(self, start: int, stop: int) -> TableRows:
        other = copy.copy(self)
        other._columns = [column[start:stop] for column in self._columns]
        other._together = None if self._together is None else self._together[:, start:stop]
        other._owners = None if self._owners is None else self._owners[start:stop]
        other._n_rows = max(0, min(stop, self.n_rows) - start)
        return other


def _together(columns: Sequence[Any]) -> NDArray[Any] | None:
    """Return a read-only view (columns, rows) of numbers of one type, evenly spaced in memory, else None."""
    if not columns or is_arrow(columns[0]) or columns[0].dtype.kind not in "fiu":
        return None
    first = columns[0]
    if any(
        is_arrow(one) or one.dtype != first.dtype or one.strides != first.strides or len(one) != len(first)
        for one in columns
    ):
        return None
    places = np.array([column.__array_interface__["data"][0] for column in columns])
    steps = np.diff(places)
    if len(set(steps.tolist())) > 1:
        return None
    between = int(steps[0]) if len(steps) else 0
    shape, strides = (len(columns), len(first)), (between, first.strides[0])
    return np.lib.stride_tricks.as_strided(first, shape, strides, writeable=False)


def _frame_columns(
    frame: nw.DataFrame[Any], wanted: Sequence[Any] | None, *, parsed: bool, person: str | None
) -> tuple[list[NDArray[Any]], tuple[Any, ...]]:
    by_name = {series.name: series for series in frame.iter_columns()}  # labels in pandas need not be text
    wanted = tuple(name for name in by_name if name != person) if wanted is None else tuple(wanted)
    require_columns(wanted, by_name)
    columns = []
    for name in wanted:
        series = by_name[name]
        if not parsed:
            number = series.dtype.is_numeric() or series.dtype == nw.Boolean
            # A column without cells may have no type. Accept it: an exception would reveal that there are
            # none.
            untyped = (len(series) == 0 and _may_be_untyped(series)) or _is_all_null(series)
            require_number(name, is_number=number or untyped, is_text=_is_declared_text(series))
        columns.append(_as_cells(series) if parsed else _as_array(series))
    return columns, wanted


def _owners(frame: nw.DataFrame[Any], person: str, used: Sequence[Any] | None) -> Owners:
    by_name = {series.name: series for series in frame.iter_columns()}
    if used is not None and person in used:
        raise InvalidArgumentError(
            f"Expected person={_validate.shown(person)} to be a column that is not fitted, got it among the "
            f"columns to fit. Leave it out of the schema or the columns."
        )
    require_columns([person], by_name)
    return owners_of(by_name[person])


def _where(cells: Any, kept: NDArray[np.bool_]) -> Any:
    if is_arrow(cells):
        import pyarrow as pa  # noqa: PLC0415  (installed, because the cells come from it)

        return cells.filter(pa.array(kept))
    return cells[kept]


def require_columns(
    wanted: Sequence[Any],
    found: Collection[Any],
    *,
    remedy: Callable[[Sequence[Any]], str] | None = None,
) -> None:
    """Raise if columns are missing; of the other columns, the message shows only similar names.

    `remedy` returns further words for the missing columns.
    """
    missing = [name for name in wanted if name not in found]
    if missing:
        question = did_you_mean(missing, list(found), exact=True)
        raise InvalidArgumentError(
            f"Expected the columns {_validate.shown_names(wanted)}, got a table without "
            f"{_validate.shown_names(missing)}. "
            f"{question}{'' if remedy is None else remedy(missing)}".rstrip()
        )


def require_number(name: Any, *, is_number: bool, is_text: bool = False) -> None:
    """Raise if a column is not numeric: without a schema its cells are not parsed."""
    if not is_number:
        # The message shows no other type: categories are values, and libraries infer the type of objects.
        found = "text" if is_text else "another type"
        raise InvalidArgumentError(
            f"Expected a numeric column, got {found} for column {_validate.shown(name)}. Convert the column, "
            f"leave it out, or declare it in a schema."
        )


def _may_be_untyped(series: nw.Series[Any]) -> bool:
    """Whether a column without cells has the type that its library uses for unknown types."""
    dtype = getattr(series.to_native(), "dtype", None)  # Arrow columns always have a type
    return getattr(dtype, "kind", None) == "O" or (dtype is not None and series.dtype == nw.Unknown)


def _is_declared_text(series: nw.Series[Any]) -> bool:
    """Whether a column has a type for text; pandas may infer such a type from cells."""
    return series.dtype == nw.String and not series.implementation.is_pandas_like()


def _is_all_null(series: nw.Series[Any]) -> bool:
    """Whether a column has the null type of polars and Arrow, which a single value would change."""
    native = series.to_native()
    return str(getattr(native, "dtype", getattr(native, "type", ""))).lower() == "null"


def _as_array(series: nw.Series[Any]) -> NDArray[Any]:
    """Return the column as an array, without a copy if its library allows; blocks are widened one by one."""
    if _is_all_null(series):
        return np.full(len(series), np.nan)
    array = np.asarray(series.to_numpy())
    if array.dtype.kind not in "fiub":  # nulls in a column of integers or booleans, decimals
        array = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    return array


def _joined(parts: Sequence[Any]) -> Any:
    """Join the cells of all parts, as Arrow text if all parts are Arrow text."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if all(is_arrow(part) for part in parts):
        import pyarrow as pa  # noqa: PLC0415  (installed, because the cells come from it)

        return pa.concat_arrays([as_bytes(part).cast(pa.large_binary()) for part in parts])
    return np.concatenate([part.to_numpy(zero_copy_only=False) if is_arrow(part) else part for part in parts])


def _as_cells(series: nw.Series[Any]) -> Any:
    """Return the cells of a column of any type, one by one if its library fails on some of them.

    Text becomes an Arrow array; all other cells become a NumPy array.
    """
    native = series.to_native()
    text = None
    with suppress_errors():
        text = _text_cells(series, native)
    if text is not None:
        return text
    with suppress_errors():
        if series.implementation.is_pyarrow() and series.dtype == nw.Categorical:
            native = native.cast(native.type.value_type)  # nulls of a dictionary would be lost
            array = np.asarray(native.to_numpy())
        else:
            array = np.asarray(series.to_numpy())
        if array.ndim == 1:
            return array
    cells = np.full(len(series), None, dtype=object)
    for i in range(len(series)):
        with suppress_errors():
            cell = series.item(i)
            cells[i] = cell if np.ndim(cell) == 0 else None
    return cells


def _text_cells(series: nw.Series[Any], native: Any) -> Any:
    """Return a column of text as one Arrow array, or None for other columns."""
    if series.implementation.is_pyarrow():
        return _arrow_text(native.cast(native.type.value_type) if series.dtype == nw.Categorical else native)
    if series.implementation.is_polars():
        if series.dtype in (nw.Categorical, nw.Enum):
            import polars as pl  # noqa: PLC0415  (installed, because the column comes from it)

            native = native.cast(pl.String)
        return _arrow_text(native.to_arrow()) if series.dtype in _TEXT else None
    if not series.implementation.is_pandas():
        return None
    import pandas as pd  # noqa: PLC0415  (slow to import)
    import pyarrow as pa  # noqa: PLC0415  (slow to import)

    if isinstance(native.dtype, pd.CategoricalDtype):
        texts, codes = _object_text(native.cat.categories.to_numpy()), native.cat.codes.to_numpy()
        return None if texts is None else texts.take(pa.array(codes, mask=codes < 0))
    if isinstance(native.dtype, pd.StringDtype | pd.ArrowDtype):
        return _arrow_text(pa.array(native.array))
    return _object_text(native.to_numpy())


_TEXT = (nw.String, nw.Categorical, nw.Enum)


def _arrow_text(native: Any) -> Any:
    """Return a text column of Arrow as one array, or None for other columns."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import)

    if isinstance(native, pa.ChunkedArray):
        native = native.combine_chunks()
    if not isinstance(native, pa.Array):
        return None
    if native.type in (pa.string_view(), pa.binary_view()):
        native = native.cast(pa.large_string() if native.type == pa.string_view() else pa.large_binary())
    return native if native.type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()) else None


def _object_text(cells: NDArray[Any]) -> Any:
    """Return objects that are all text or missing as one Arrow array, and None for other cells.

    Arrow text is parsed by the same rules, many times faster and outside the interpreter's lock.
    """
    import pyarrow as pa  # noqa: PLC0415  (slow to import)

    if cells.dtype.kind != "O" or not set(map(type, cells)) <= {str, type(None), float}:
        return None
    found: list[Any] = []
    with suppress_errors():  # a number, or text that is not valid Unicode
        found.append(pa.array(cells, pa.large_string(), from_pandas=True))
    return found[0] if found else None


def _nested_rows(rows: Sequence[Any], width: int | None) -> NDArray[Any]:
    """Convert lists of lists to an array; rows of another length and cells without a number become NaN.

    NumPy would choose a type, or raise, depending on all values. With a schema, rows have its width and cells
    are kept for it to parse. Without one, the width is that of most rows. Text does not raise: in a list the
    type of a cell is as private as its value.
    """
    if any(_is_table(row) for row in rows):
        raise InvalidArgumentError(
            "Expected rows in a list, got a list of tables, files or arrays. Join them, or pass a function "
            "that returns an iterator of them."
        )
    lists = [isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1) for row in rows]
    parsed = width is not None
    if width is None:
        if not any(lists):
            return np.empty(0)
        lengths = np.bincount([len(row) for row, is_list in zip(rows, lists, strict=True) if is_list])
        width = int(lengths.argmax())
    array = np.full((len(rows), width), np.nan, dtype=object if parsed else np.float64)
    for i, row in enumerate(rows):
        if lists[i] and len(row) == width:
            for j, cell in enumerate(row):
                if parsed:
                    array[i, j] = cell
                elif isinstance(cell, numbers.Real):
                    with suppress_errors():
                        array[i, j] = float(cell)
    return array


def _is_table(row: Any) -> bool:
    """Whether an item is a table, a path or an array of rows instead of a row, which is public."""
    return hasattr(row, "columns") or hasattr(row, "__fspath__") or getattr(row, "ndim", 1) > 1


def _array_columns(data: Any, width: int | None) -> list[NDArray[Any]]:
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise TypeError(
            "Expected a dense table, got a sparse matrix. Sparse data is not supported, because zeros are "
            "values like any other. Convert it with .toarray() if it fits in memory."
        )
    if isinstance(data, Mapping):
        raise InvalidArgumentError(
            "Expected an array or a DataFrame, got a mapping of columns. Pass a DataFrame, such as "
            "pandas.DataFrame(columns)."
        )
    if isinstance(data, list | tuple):
        data = _nested_rows(data, width)
    try:
        array = np.ma.getdata(data) if np.ma.isMaskedArray(data) else np.asarray(data)
    except (TypeError, ValueError):  # depends on the type only: lists are converted above
        raise InvalidArgumentError(
            f"Expected an array or a DataFrame, got {_validate.described(data)}, which is not a table of "
            f"rows. Convert it to an array first."
        ) from None
    if array.ndim != 2:
        raise InvalidArgumentError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data either using "
            f"array.reshape(-1, 1) if it has one column or array.reshape(1, -1) if it has one row."
        )
    if array.dtype.kind == "c" and width is None:
        raise InvalidArgumentError("Expected real numbers. Complex data not supported.")
    if array.dtype.kind not in "fiub" and width is None:
        raise InvalidArgumentError(
            "Expected a numeric array, got an array of text or objects. Types are never inferred from cells: "
            "convert the columns to numbers, or declare them in a schema."
        )
    if np.ma.isMaskedArray(data):
        array = array.astype(np.float64 if array.dtype.kind in "fiub" else object)
        array[np.ma.getmaskarray(data)] = np.nan
    columns = [array[:, j] for j in range(array.shape[1])]
    if width is None or array.dtype.kind != "O":
        return columns
    return [cells if (text := _object_text(cells)) is None else text for cells in columns]
