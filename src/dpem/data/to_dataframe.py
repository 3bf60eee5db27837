"""Convert parsed cells to a DataFrame with the names and types that a schema declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data.cell_format import CellFormat
from dpem.data.times import array_steps, from_steps, text_of_steps

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.data.column import Column
    from dpem.data.schema import Schema

__all__ = ["formatted_dataframe", "to_dataframe"]

_PANDAS_UNITS = {"millisecond": "ms", "microsecond": "us"}


def to_dataframe(schema: Schema, columns: NDArray[np.float64]) -> pd.DataFrame:
    """Convert parsed cells of shape (columns, rows) to a DataFrame.

    Parsed cells are numbers, codes of categories, and NaN for missing cells. The DataFrame has integers for
    whole numbers, NumPy times for dates and times, and categoricals for categories. Columns that may have
    missing cells get nullable types.

    Examples
    --------
    >>> from dpem.data import Schema
    >>> schema = Schema({"age": {"kind": "integer", "bounds": [0, 120], "missing": True},
    ...                  "sex": {"kind": "categorical", "categories": ["F", "M"], "outside": "F"}})
    >>> to_dataframe(schema, np.array([[31.0, np.nan], [1.0, 0.0]]))
        age sex
    0    31   M
    1  <NA>   F
    """
    import pandas as pd  # noqa: PLC0415  (slow to import, and not needed to fit)

    return pd.DataFrame(
        {column.name: _typed(column, cells) for column, cells in zip(schema.columns, columns, strict=True)}
    )


def _typed(column: Column, cells: NDArray[np.float64]) -> Any:
    import pandas as pd  # noqa: PLC0415

    missing = np.isnan(cells)
    if column.kind == "continuous":
        return cells
    if column.is_time:
        times = from_steps(cells, column.kind, column.resolution)
        # The next finer unit that pandas supports.
        return times.astype(f"{times.dtype.kind}8[{_PANDAS_UNITS.get(column.resolution, 's')}]")
    if column.kind == "integer":
        return _integers(column, cells, missing)
    if column.kind == "boolean":
        yes = np.where(missing, 0.0, cells) > 0.5
        return pd.arrays.BooleanArray(yes, missing) if column.missing else yes
    codes = np.where(missing, -1.0, cells).astype(np.int64)
    categories = list(column.categories or ())
    if len(set(categories)) < len(categories):  # 1 and True, which pandas treats as equal
        values = np.empty(len(categories) + 1, dtype=object)
        values[:-1] = categories
        return values[codes]
    return pd.Categorical.from_codes(codes, categories=categories, ordered=column.kind == "ordered")


def _integers(column: Column, cells: NDArray[np.float64], missing: NDArray[np.bool_]) -> Any:
    import pandas as pd  # noqa: PLC0415

    if max(-column.limits[0], column.limits[1]) > 2.0**62:
        return np.rint(cells)
    whole = np.where(missing, column.limits[0], np.rint(cells)).astype(np.int64)
    return pd.arrays.IntegerArray(whole, missing) if column.missing else whole


def formatted_dataframe(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    """Convert a DataFrame of `to_dataframe` to cells in the declared formats, for a text file.

    The same schema can read these cells.

    Examples
    --------
    >>> from dpem.data import Schema
    >>> years = ["1900-01-01", "2030-01-01"]
    >>> schema = Schema({"born": {"kind": "date", "bounds": years, "format": "%d.%m.%Y"},
    ...                  "pay": {"kind": "continuous", "bounds": [0, 10], "decimal": ","}})
    >>> formatted_dataframe(schema, to_dataframe(schema, np.array([[1.0], [2.5]])))
             born  pay
    0  02.01.1970  2,5
    """
    import pandas as pd  # noqa: PLC0415

    written = {}
    for column in schema.columns:
        cells, cell_format = frame[column.name], column.cell_format
        if column.is_time:
            steps = array_steps(cells.to_numpy(), column.kind, column.resolution)
            texts = [
                text_of_steps(step, column.kind, column.resolution, cell_format.format) for step in steps
            ]
            cells = pd.Series([text or None for text in texts], dtype=object)
        elif column.kind == "continuous" and cell_format.decimal != ".":
            cells = pd.Series([None if pd.isna(cell) else repr(float(cell)) for cell in cells], dtype=object)
            cells = cells.str.replace(".", cell_format.decimal, regex=False)
        elif column.kind == "boolean" and (cell_format.true, cell_format.false) != (
            CellFormat().true,
            CellFormat().false,
        ):
            words = {True: cell_format.true[0], False: cell_format.false[0]}
            cells = pd.Series([None if pd.isna(cell) else words[bool(cell)] for cell in cells], dtype=object)
        written[column.name] = cells.reset_index(drop=True)
    return pd.DataFrame(written)
