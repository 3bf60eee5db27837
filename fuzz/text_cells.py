"""Text cells: dpem parses each cell alone and reads numbers as Python does."""

import math

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dpem.data.cells import is_null
from dpem.data.declarations import declared_column
from fuzz.harness import Target

__all__ = ["CELL", "PIECES", "TARGET", "float_of"]

_WORDS = (
    "0 1 7 42 9999999999999999999 . - + e E e5 e-9 e999 _ inf nan NaN NA null None true True TRUE false F M "
    "other missing I II x é \u0661 \u2028 \ufeff \u00a0 \0 \x1a \\ ' # = 0x1F 1_0 1e400 4.9e-324 "
    "1.7976931348623157e308 0.1 123456789.123456789 100000000000000000000000000"
)
PIECES = [*_WORDS.split(" "), "", " ", "\t", "\udcff", "\udcc3"]  # the last two are bytes that are not text
CELL = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)

_COLUMNS = [
    declared_column("x", declared)
    for declared in (
        {"kind": "continuous", "bounds": [-9e9, 9e9], "missing": True},
        {"kind": "continuous", "bounds": [-1, 1]},
        {"kind": "integer", "bounds": [0, 120], "missing": True, "outside": "missing"},
        {"kind": "categorical", "categories": ["F", "M", 1, 42, "\ufeff"]},
        {"kind": "ordered", "categories": ["I", "II", "x"], "missing": True},
        {"kind": "boolean"},
    )
]


def float_of(cell):
    """Return Python's float of a cell, NaN if it is not a number."""
    try:
        return math.nan if cell is None else float(cell)
    except ValueError:
        return math.nan


def as_bytes(cell):
    """Return a cell as bytes in a file."""
    return None if cell is None else cell.encode("utf-8", "surrogateescape")


def check(value):
    """Parse a column as Arrow text, as objects and cell by cell."""
    column, cells = value
    raw = [as_bytes(cell) for cell in cells]
    objects = np.empty(len(cells), dtype=object)
    objects[:] = raw
    whole, changed = column.parse(pa.array(raw, pa.binary()))
    for other in (column.parse(objects), column.parse(pa.array(raw, pa.large_binary()))):
        np.testing.assert_array_equal(other[0], whole)
        np.testing.assert_array_equal(other[1], changed)
    blank = [cell is None or not as_bytes(cell).decode(errors="replace").strip() for cell in cells]
    np.testing.assert_array_equal(is_null(objects), blank)
    np.testing.assert_array_equal(is_null(pa.array(raw, pa.binary())), blank)
    for i, cell in enumerate(cells):
        alone, _ = column.parse(objects[i : i + 1])
        np.testing.assert_array_equal(alone[0], whole[i])
        if column.is_number:
            _check_number(column, cell, whole[i])
    return True


def _check_number(column, cell, found):
    """Compare with Python's float and the declared limits."""
    number = float_of(cell)
    low, high = column.limits
    if math.isnan(number) or (column.outside == "missing" and not low <= number <= high):
        expected = math.nan if column.missing else low / 2 + high / 2
    else:
        expected = min(max(number, low), high)
    if column.kind == "integer" and not math.isnan(expected):
        expected = round(expected)
    np.testing.assert_array_equal(found, expected)


def _columns(cells):
    """Yield every kind of column with the cells, a few at a time."""
    for start in range(0, len(cells), 2):
        for column in _COLUMNS:
            yield column, cells[start : start + 3]


TARGET = Target(
    "cells of text",
    "columns of every kind, as Arrow arrays, as objects and cell by cell",
    150_000,
    st.lists(st.none() | CELL, min_size=1, max_size=8),
    _columns,
    check,
)
