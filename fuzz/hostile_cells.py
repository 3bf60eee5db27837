"""Cells that are objects of any kind: no cell raises an error, warns, or changes another cell."""

import datetime as dt
import decimal
import fractions
import math

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from dpem import Schema
from dpem.data import TableRows
from fuzz.harness import Target

__all__ = ["TARGET", "Hostile"]

SCHEMA = Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
        "dose": {"kind": "continuous", "bounds": [0, 5], "missing": True},
        "stage": {"kind": "ordered", "categories": ["I", "II", "III"]},
        "ward": {"kind": "categorical", "categories": [1, "x", True], "missing": True},
        "smoker": {"kind": "boolean", "missing": True},
    }
)
_LOW, _HIGH = SCHEMA.bounds
_MAY_MISS = np.array([column.missing for column in SCHEMA.columns])


class Hostile:  # noqa: PLW1641  (its hash raises too)
    """A cell that raises an error on every operation."""

    def __init__(self, error=RuntimeError):
        object.__setattr__(self, "error", error)

    def __float__(self):
        raise object.__getattribute__(self, "error")("secret")

    __index__ = __bool__ = __hash__ = __str__ = __repr__ = __len__ = __iter__ = __array__ = __float__

    def __eq__(self, other):
        raise object.__getattribute__(self, "error")("secret")

    def __getattribute__(self, name):
        raise object.__getattribute__(self, "error")("secret")


class Liar(float):
    """A float that raises an error when it is converted."""

    def __float__(self):
        raise OverflowError("secret")

    def is_integer(self):
        raise ValueError("secret")


class Text(str):
    """A string that raises an error when it is printed, hashed or compared."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError("secret")

    def __hash__(self):
        raise RuntimeError("secret")

    def __eq__(self, other):
        raise RuntimeError("secret")


CELLS = [
    None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, 0, 1, 2.5, 130, True, False, 10**400, 10**5000,
    -(10**5000), "", "1", " 2 ", "I", "x", "true", "nan", "1e999", "secret", b"1", b"\xff", bytearray(b"1"),
    [], [1], {}, (), {1}, 1j, object(), Hostile(), Hostile(SystemExit), Hostile(MemoryError), Liar(1),
    Liar("nan"), Text("x"), dt.date(2020, 1, 1), dt.timedelta(1), pd.NA, pd.NaT, pd.Timestamp(0),
    pd.Interval(0, 1), decimal.Decimal("sNaN"), decimal.Decimal("-NaN"), decimal.Decimal(10) ** 400,
    fractions.Fraction(1, 3), fractions.Fraction(10**400, 3), np.array([1, 2]), np.array(1), np.ma.masked,
    np.float16("inf"), np.longdouble(10) ** 4000, np.datetime64("NaT", "s"), np.datetime64("2020"),
    np.bool_(True), np.str_("x"), np.bytes_(b"x"), np.int8(3), np.void(b"1"), lambda: 1, type, Ellipsis,
    NotImplemented, range(3),
]  # fmt: skip


_ROW = st.lists(st.integers(0, len(CELLS) - 1), min_size=5, max_size=5)


def _tables(drawn):
    """Yield the kind of table, its rows, the row to replace and its replacement."""
    rows, other = drawn
    for make in ("frame", "lists", "array", "masked"):
        for place in range(len(rows)):
            yield make, rows, place, other


def _made(make, rows):
    cells = [[CELLS[j] for j in row] for row in rows]
    if make == "lists":
        return cells
    array = np.empty((len(rows), 5), dtype=object)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            array[i, j] = cell
    if make == "array":
        return array
    if make == "masked":
        return np.ma.array(array, mask=[[j % 7 == 3 for j in row] for row in rows])
    return pd.DataFrame(
        {name: pd.Series(list(array[:, j]), dtype=object) for j, name in enumerate(SCHEMA.names)}
    )


def _block(table):
    with np.errstate(all="raise"):
        return TableRows(table, SCHEMA).block()


def check(value):
    """Read a table, each row alone, and the table with one row replaced."""
    make, rows, place, other = value
    block = _block(_made(make, rows))
    assert block.shape == (5, len(rows))
    inside = (block >= _LOW[:, None]) & (block <= _HIGH[:, None])
    assert (inside | np.isnan(block) & _MAY_MISS[:, None]).all()
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(_block(_made(make, [row]))[:, 0], block[:, i])
    replaced = _block(_made(make, [*rows[:place], other, *rows[place + 1 :]]))
    others = np.arange(len(rows)) != place
    np.testing.assert_array_equal(replaced[:, others], block[:, others])
    return True


TARGET = Target(
    "cells of objects",
    "data frames, arrays, masked arrays and lists of hostile objects; each row alone, one row replaced",
    25_000,
    st.tuples(st.lists(_ROW, min_size=1, max_size=4), _ROW),
    _tables,
    check,
)
