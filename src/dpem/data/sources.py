"""Sources of rows: whatever `fit` accepts, as blocks of columns.

Problems of shape and type are public and raise; problems of values are private and never do. Cells are
never parsed by looking at them: a column is numeric by its type, or it is refused.
"""

from __future__ import annotations

import contextlib
import numbers
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dpem import _validate
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["BLOCK_CELLS", "RowSource"]

# Cells in a block: small enough that a block and its temporaries stay in the cache.
BLOCK_CELLS = 1 << 16


class RowSource:
    """Rows in memory: a NumPy array, or a DataFrame of pandas, polars, pyarrow or their kin.

    Parameters
    ----------
    data : array-like or DataFrame of shape (n, d)
        Numeric columns. float32 is widened exactly; booleans and integers are numbers; a masked or null
        cell is a NaN. Sparse matrices are refused: their zeros are values like any other here.
    names : sequence of str, optional
        The columns to use, in order: all of them unless given.

    Attributes
    ----------
    names : tuple of str or None
        Column names, where the data has them.
    n_rows, n_columns : int
        The shape.
    """

    def __init__(self, data: Any, names: Sequence[str] | None = None) -> None:
        frame = nw.from_native(data, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            self._columns, self.names = _frame_columns(frame, names)
        else:
            self._columns, self.names = _array_columns(data), None
        self.n_columns = len(self._columns)
        self.n_rows = len(self._columns[0]) if self.n_columns else 0
        if self.n_columns == 0:
            raise InvalidArgumentError(
                f"Expected at least one column: Found array with 0 feature(s) (shape=({self.n_rows}, 0)) "
                f"while a minimum of 1 is required."
            )

    @property
    def block_rows(self) -> int:
        """How many rows a block has (the last one may have fewer)."""
        return max(64, BLOCK_CELLS // self.n_columns)

    def starts(self, block_rows: int | None = None) -> range:
        """Return the first row of every block."""
        return range(0, self.n_rows, block_rows or self.block_rows)

    def block(self, start: int, block_rows: int | None = None) -> NDArray[np.float64]:
        """Return the block that begins at row `start`, of shape (columns, rows)."""
        stop = min(start + (block_rows or self.block_rows), self.n_rows)
        block = np.empty((self.n_columns, stop - start))
        with np.errstate(all="ignore"):  # a warning or an error here would depend on a row
            for j, column in enumerate(self._columns):
                block[j] = column[start:stop]
        return block

    def blocks(self, block_rows: int | None = None) -> Iterator[NDArray[np.float64]]:
        """Yield all blocks in order."""
        for start in self.starts(block_rows):
            yield self.block(start, block_rows)


def _frame_columns(
    frame: nw.DataFrame[Any], names: Sequence[str] | None
) -> tuple[list[NDArray[Any]], tuple[str, ...] | None]:
    by_name = {series.name: series for series in frame.iter_columns()}  # labels need not be text in pandas
    wanted = list(names) if names is not None else list(by_name)
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise InvalidArgumentError(
            f"Expected the columns {', '.join(map(repr, wanted))}, got a table without "
            f"{', '.join(map(repr, missing))}."
        )
    columns = []
    for name in wanted:
        series = by_name[name]
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            # No word of the type: categories are values, and the type of objects is told by looking at them.
            raise InvalidArgumentError(
                f"Expected a numeric column, got another type for column {name!r}. Convert it, or leave it "
                f"out."
            )
        columns.append(_as_array(series))
    # Integer labels are positions, not names (scikit-learn's convention too).
    return columns, tuple(wanted) if all(isinstance(name, str) for name in wanted) else None


def _as_array(series: nw.Series[Any]) -> NDArray[Any]:
    """Return the column without copying it, where its library allows; blocks are widened one by one."""
    array = np.asarray(series.to_numpy())
    if array.dtype.kind not in "fiub":  # nulls in a column of integers or booleans, decimals
        array = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    return array


def _nested_rows(rows: Sequence[Any]) -> NDArray[np.float64]:
    """Return lists of lists as an array; what is no number, and a row of another length, becomes NaN.

    numpy would choose a type, or raise, by looking at all values.
    """
    first: Any = rows[0] if len(rows) else 0.0
    if not isinstance(first, list | tuple | np.ndarray) or np.ndim(first[0] if len(first) else 0.0) > 0:
        return np.empty(0 if np.ndim(first) == 0 else (0, 0, 0))
    array = np.full((len(rows), len(first)), np.nan)
    for i, row in enumerate(rows):
        if isinstance(row, list | tuple | np.ndarray) and len(row) == len(first):
            for j, cell in enumerate(row):
                if isinstance(cell, numbers.Real):
                    with contextlib.suppress(OverflowError):
                        array[i, j] = float(cell)
    return array


def _array_columns(data: Any) -> list[NDArray[Any]]:
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise TypeError(
            "Expected a dense table, got a sparse matrix. Sparse data is not supported: zeros are values "
            "like any other here. Convert it with .toarray() if it fits."
        )
    if isinstance(data, list | tuple):
        data = _nested_rows(data)
    array = np.ma.filled(data.astype(np.float64), np.nan) if np.ma.isMaskedArray(data) else np.asarray(data)
    if array.ndim != 2:
        raise InvalidArgumentError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data either using "
            f"array.reshape(-1, 1) if it has one column or array.reshape(1, -1) if it has one row."
        )
    if array.dtype.kind == "c":
        raise InvalidArgumentError("Expected real numbers. Complex data not supported.")
    if array.dtype.kind not in "fiub":
        raise InvalidArgumentError(
            "Expected a numeric array, got one of text or objects. Cells are never parsed by looking at "
            "them: convert the columns to numbers first."
        )
    _validate.integer(array.shape[1], "number of columns", minimum=0)
    return [array[:, j] for j in range(array.shape[1])]
