"""Rows of numbers and codes as a DataFrame with the names and types that a schema declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.data.column import Column
    from dpem.data.schema import Schema

__all__ = ["frame_of"]


def frame_of(schema: Schema, columns: NDArray[np.float64]) -> pd.DataFrame:
    """Return a DataFrame of parsed cells, (columns, rows): numbers, codes of categories, NaN for missing.

    Whole numbers are integers and categories of a categorical type; where a column may be missing, of the
    type that allows it.

    Examples
    --------
    >>> from dpem.data import Schema
    >>> schema = Schema({"age": {"kind": "integer", "bounds": [0, 120], "missing": True},
    ...                  "sex": {"kind": "categorical", "categories": ["F", "M"], "outside": "F"}})
    >>> frame_of(schema, np.array([[31.0, np.nan], [1.0, 0.0]]))
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
    if column.kind == "integer":
        if max(-column.limits[0], column.limits[1]) > 2.0**62:
            return np.rint(cells)
        whole = np.where(missing, column.limits[0], np.rint(cells)).astype(np.int64)
        return pd.arrays.IntegerArray(whole, missing) if column.missing else whole
    if column.kind == "boolean":
        yes = np.where(missing, 0.0, cells) > 0.5
        return pd.arrays.BooleanArray(yes, missing) if column.missing else yes
    codes = np.where(missing, -1.0, cells).astype(np.int64)
    categories = list(column.categories or ())
    if len(set(categories)) < len(categories):  # 1 and True, which are one to pandas
        values = np.empty(len(categories) + 1, dtype=object)
        values[:-1] = categories
        return values[codes]
    return pd.Categorical.from_codes(codes, categories=categories, ordered=column.kind == "ordered")
