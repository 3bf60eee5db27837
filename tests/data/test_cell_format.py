"""Formats of cells, and dates, times and durations: from every library, cell by cell, and back."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import dpem
from dpem import Schema
from dpem.data.column import ABOVE, ABSENT, MISSING, OUTSIDE, READ, UNREADABLE
from dpem.data.declarations import declared_column
from dpem.data.to_dataframe import formatted_dataframe, to_dataframe
from dpem.engines import open_rows
from dpem.errors import InvalidArgumentError

NUMBER = {"kind": "continuous", "bounds": [0, 20_000]}
DATE = {"kind": "date", "bounds": ["1900-01-01", "2030-12-31"]}


def days(text):
    return (dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days


def forms(cells):
    """Return text cells in the types of each library."""
    objects = np.array(cells, dtype=object)
    return {
        "objects": objects,
        "bytes": np.array([None if cell is None else str(cell).encode() for cell in cells], dtype=object),
        "arrow": pa.array([None if cell is None else str(cell) for cell in cells], pa.string()),
        "large arrow": pa.array([None if cell is None else str(cell) for cell in cells], pa.large_string()),
    }


NAN = np.nan
CASES = [
    (
        NUMBER | {"thousands": ","},
        ["1,234.50", " 12 ", "1,2,3", "12,3", "x", "1.5e3"],
        [1234.5, 12, NAN, NAN, NAN, 1500],
    ),
    (NUMBER | {"decimal": ","}, ["3,5", "3.5", "7", ",5"], [3.5, NAN, 7, 0.5]),
    (NUMBER | {"decimal": ",", "thousands": "."}, ["1.234,5", "12.345", "0,25"], [1234.5, 12345, 0.25]),
    (NUMBER | {"thousands": " "}, ["12 345", "1 2"], [12345, NAN]),
    (NUMBER | {"thousands": "'"}, ["12'345.5"], [12345.5]),
    (NUMBER | {"na_values": ["NA", -999]}, ["NA", " NA ", "-999", "3"], ["missing", "missing", "missing", 3]),
    ({"kind": "boolean"}, ["yes", "NO", " t ", "F", "1", "0", "ja"], [1, 0, 1, 0, 1, 0, NAN]),
    ({"kind": "boolean", "true": ["ja"], "false": ["nein"]}, ["Ja", "nein", "yes"], [1, 0, NAN]),
    (DATE, ["1970-01-02", " 1970-01-03 ", "02.01.1970", "1970-13-01", ""], [1, 2, NAN, NAN, "missing"]),
    (DATE | {"format": "%d.%m.%Y"}, ["02.01.1970", "1970-01-02"], [1, NAN]),
    (DATE | {"format": "%Y%m%d"}, ["19700102"], [1]),
    (
        {"kind": "datetime", "bounds": ["1960-01-01", "1980-01-01"]},
        ["1970-01-01T00:00:30", "1970-01-01 00:01", "1970-01-01T01:00:00+01:00", "1969-12-31T23:59:59"],
        [30, 60, 0, -1],
    ),
    (
        {"kind": "duration", "bounds": ["0:00:00", "5 days"], "resolution": "minute"},
        ["0:30:00", "1 day, 0:00:00", "2 days 01:00:00", "-0:05:00", "soon", "PT1H30M", "90", "P1D"],
        [30, 1440, 2940, "below", NAN, 90, 90, 1440],
    ),
]


@pytest.mark.parametrize(("declared", "cells", "expected"), CASES, ids=lambda value: str(value)[:40])
def test_text_is_read_as_declared(declared, cells, expected):
    """From objects, bytes and Arrow, all at once and one by one; cells in another format are unreadable."""
    column = declared_column("c", declared | {"missing": True})
    for name, held in forms(cells).items():
        values, found = column.parse(held)
        for i, value in enumerate(expected):
            alone = column.parse(held[i : i + 1])
            np.testing.assert_array_equal(alone[0], values[i : i + 1], err_msg=name)
            assert alone[1][0] == found[i]
            if value == "missing":
                assert found[i] == MISSING
            elif value == "below":
                assert values[i] == column.limits[0]
            elif np.isnan(value):
                assert found[i] == UNREADABLE, (name, cells[i])
            else:
                assert (values[i], found[i]) == (value, READ), (name, cells[i])


def test_unknown_words_are_outside_or_unreadable():
    ward = declared_column("w", {"kind": "categorical", "categories": ["a", "b"]})
    values, found = ward.parse(np.array([" a", "b ", "c", None], dtype=object))
    np.testing.assert_array_equal(values, [0, 1, 0, 0])
    np.testing.assert_array_equal(found, [READ, READ, OUTSIDE, ABSENT])


MOMENTS = ["2001-02-03T04:05:06", "1965-01-01T00:00:00", None]


def tables():
    """Return one column of times in the types of each library."""
    objects = [None if text is None else dt.datetime.fromisoformat(text) for text in MOMENTS]
    frame = pd.DataFrame({"at": pd.to_datetime(pd.Series(MOMENTS))})
    return {
        "pandas": frame,
        "pandas, seconds": frame.astype("datetime64[s]"),
        "pandas, zone": pd.DataFrame({"at": frame["at"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}),
        "pandas, arrow": frame.astype(pd.ArrowDtype(pa.timestamp("ms"))),
        "objects": pd.DataFrame({"at": pd.Series(objects, dtype=object)}),
        "text": pd.DataFrame({"at": pd.Series(MOMENTS, dtype=object)}),
        "arrow": pa.table({"at": pa.array(objects, pa.timestamp("us"))}),
        "polars": pl.DataFrame({"at": objects}),
        "rows": [[cell] for cell in objects],
    }


@pytest.mark.parametrize("name", tables())
def test_times_of_every_library(name):
    schema = Schema({"at": {"kind": "datetime", "bounds": ["1960-01-01", "2020-01-01"], "missing": True}})
    block = open_rows(tables()[name], schema).in_memory().block()
    seconds = [(dt.datetime.fromisoformat(t) - dt.datetime(1970, 1, 1)).total_seconds() for t in MOMENTS[:2]]
    np.testing.assert_array_equal(block, [[*seconds, np.nan]])


def test_dates_of_every_library():
    schema = Schema({"on": DATE | {"missing": True}})
    cells = [dt.date(1999, 12, 31), dt.date(1969, 12, 31), None]
    expected = [[days("1999-12-31"), -1, np.nan]]
    for table in (
        pa.table({"on": pa.array(cells, pa.date32())}),
        pa.table({"on": pa.array(cells, pa.date64())}),
        pl.DataFrame({"on": cells}),
        pd.DataFrame({"on": pd.Series(cells, dtype=object)}),
        pd.DataFrame({"on": pd.to_datetime(pd.Series(cells))}),
    ):
        np.testing.assert_array_equal(open_rows(table, schema).in_memory().block(), expected)


def test_durations_of_every_library():
    schema = Schema({"took": {"kind": "duration", "bounds": [0, 7200], "missing": True}})
    cells = [dt.timedelta(minutes=30), dt.timedelta(hours=9), None]
    for table in (
        pd.DataFrame({"took": pd.to_timedelta(pd.Series(cells))}),
        pa.table({"took": pa.array(cells, pa.duration("s"))}),
        pl.DataFrame({"took": cells}),
        pd.DataFrame({"took": [1800.0, 32400.0, np.nan]}),
        pd.DataFrame({"took": pd.Series(["0:30:00", "9:00:00", None], dtype=object)}),
    ):
        np.testing.assert_array_equal(open_rows(table, schema).in_memory().block(), [[1800, 7200, np.nan]])
    assert schema.columns[0].parse(np.array(cells, dtype=object))[1].tolist() == [READ, ABOVE, MISSING]


def test_declarations_are_checked_and_kept():
    schema = Schema(
        {
            "born": DATE | {"format": "%d.%m.%Y"},
            "pay": NUMBER | {"decimal": ",", "thousands": ".", "na_values": ["-", -1], "missing": True},
            "smoker": {"kind": "boolean", "true": ["ja"], "false": ["nein"]},
            "took": {"kind": "duration", "bounds": ["0:00:00", "2 days"], "resolution": "hour"},
        }
    )
    assert Schema(schema.to_dict()) == schema
    assert schema.describe()["born"] == "1900-01-01 to 2030-12-31"
    assert schema.columns[3].limits == (0.0, 48.0)
    assert schema.columns[0].unit_shown == "days since 1970"
    for column, message in (
        (NUMBER | {"decimal": ",,"}, "one character"),
        (NUMBER | {"thousands": "."}, "other than the decimal"),
        (NUMBER | {"thousands": "3"}, "one character"),
        (NUMBER | {"format": "%Y"}, "no format for column 'x'"),
        ({"kind": "boolean", "true": ["no"]}, "different words"),
        (DATE | {"format": "day"}, "such as '%d.%m.%Y'"),
        (DATE | {"resolution": "hour"}, "leave it out"),
        ({"kind": "date", "bounds": ["01.02.2003", "2010-01-01"]}, "such as '2024-01-31'"),
        ({"kind": "date", "bounds": ["2010-01-01", "2009-01-01"]}, "low < high"),
        ({"kind": "duration", "bounds": ["soon", "1 day"]}, "such as '1 day, 2:30:00'"),
        (NUMBER | {"missing": True, "na_values": [None]}, "a list of words"),
        (DATE | {"format": "%d.%m.%y"}, "a year of four digits"),
        ({"kind": "datetime", "bounds": ["2000-01-01", "2001-01-01"], "format": "%d.%m.%Y"}, "and hours"),
        (NUMBER | {"from_rows": 1}, "true or false"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            Schema({"x": column})


def test_schemas_with_dates_are_saved(tmp_path):
    """Schemas with dates survive TOML and JSON; dates in TOML may be written without quotes."""
    schema = Schema({"born": DATE, "took": {"kind": "duration", "bounds": [0, 60], "resolution": "minute"}})
    for ending in ("toml", "json"):
        schema.save(tmp_path / f"s.{ending}")
        assert Schema.read(tmp_path / f"s.{ending}") == schema
    (tmp_path / "plain.toml").write_text('[born]\nkind = "date"\nbounds = [1900-01-01, 2030-12-31]\n')
    assert Schema.read(tmp_path / "plain.toml") == schema.select(["born"])


def test_types_suggest_kinds():
    frame = pd.DataFrame(
        {"at": pd.to_datetime([]), "took": pd.to_timedelta([]), "n": pd.Series([], dtype=int)}
    )
    assert [column.kind for column in Schema.from_types(frame).columns] == ["datetime", "duration", "integer"]
    table = pa.table({"on": pa.array([], pa.date32()), "at": pa.array([], pa.timestamp("s"))})
    assert [column.kind for column in Schema.from_types(table).columns] == ["date", "datetime"]
    named = Schema.from_types({"on": dt.date, "at": dt.datetime, "took": dt.timedelta})
    assert [column.kind for column in named.columns] == ["date", "datetime", "duration"]


def test_dataframes_have_declared_types_and_formats():
    schema = Schema(
        {
            "born": DATE | {"format": "%d.%m.%Y", "missing": True},
            "at": {"kind": "datetime", "bounds": ["1970-01-01", "2030-01-01"], "resolution": "minute"},
            "took": {"kind": "duration", "bounds": [0, 100], "resolution": "hour"},
            "pay": NUMBER | {"decimal": ","},
            "smoker": {"kind": "boolean", "true": ["ja"], "false": ["nein"]},
        }
    )
    block = np.array([[1.0, np.nan], [90.0, 0.0], [26.0, 1.0], [2.5, 1e4], [1.0, 0.0]])
    frame = to_dataframe(schema, block)
    assert [dtype.kind for dtype in frame.dtypes] == ["M", "M", "m", "f", "b"]
    assert frame["born"].tolist()[0] == pd.Timestamp("1970-01-02")
    assert pd.isna(frame["born"][1])
    text = formatted_dataframe(schema, frame)
    first = ["02.01.1970", "1970-01-01T01:30:00", "1 day, 2:00:00", "2,5", "ja"]
    assert text.iloc[0].tolist() == first
    assert text["smoker"].tolist() == ["ja", "nein"]
    for table in (frame, text):  # both are read by the schema that they were written by
        np.testing.assert_array_equal(open_rows(table, schema).in_memory().block(), block)


REFUSED = {
    "a date for a number": (pa.array([dt.date(2000, 1, 1)]), NUMBER, "Declare it as 'date'"),
    "a time for an integer": (
        pa.array([dt.datetime(2000, 1, 1)]),
        {"kind": "integer", "bounds": [0, 9]},
        "dates or times",
    ),
    "a date for categories": (
        pa.array([dt.date(2000, 1, 1)]), {"kind": "categorical", "categories": ["a", "b"]}, "dates",
    ),
    "a list": (pa.array([[1.0]]), NUMBER, "lists, records"),
    "a record": (pa.array([{"a": 1}]), NUMBER, "lists, records"),
    "bytes": (pa.array([b"1"]), NUMBER, "Decode them"),
    "a duration for a date": (pa.array([dt.timedelta(1)]), DATE, "durations"),
    "a number for a date": (pa.array([20000101]), DATE, "format='%Y%m%d'"),
    "a boolean for a date": (pa.array([True]), DATE, "booleans"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_stored_type_that_cannot_hold_the_kind_is_refused_before_the_charge(name, tmp_path):
    cells, declared, message = REFUSED[name]
    table = pa.table({"c": cells, "n": pa.array([1.0])})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.arrow")
    schema = Schema({"c": declared, "n": NUMBER})
    ledger = dpem.Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-3)
    sources = [table, tmp_path / "t.parquet", tmp_path / "t.arrow", lambda: [table]]
    sources += [pl.from_arrow(table)] if name != "a record" else []
    for data in sources:
        with pytest.raises(InvalidArgumentError, match=message):
            dpem.MixedMixture(schema=schema, epsilon=0.5, delta=1e-4, ledger=ledger).fit(data)
    assert ledger.history() == []


def test_objects_and_csv_are_never_refused_for_their_cells(tmp_path):
    cells = pd.Series([dt.date(2000, 1, 1), [1], b"x", object(), "1"], dtype=object)
    schema = Schema({"c": NUMBER})
    _, found = schema.columns[0].parse(cells.to_numpy())
    assert found.tolist() == [UNREADABLE] * 4 + [READ]
    assert open_rows(pd.DataFrame({"c": cells}), schema).n_rows == 5
    (tmp_path / "t.csv").write_text("c\n2000-01-01\n[1]\n1\n")
    assert open_rows(tmp_path / "t.csv", schema).n_rows == 3


def test_private_bounds_of_dates():
    """Private bounds of a column of dates are dates, and contain most of its values."""
    rng = np.random.default_rng(0)
    born = np.datetime64("1950-01-01") + rng.integers(0, 15_000, 20_000).astype("timedelta64[D]")
    found = dpem.private_bounds(pd.DataFrame({"born": born}), Schema({"born": {"kind": "date"}}), epsilon=1.0)
    low, high = found.schema.to_dict()["born"]["bounds"]
    assert "1930" < low < "1951"
    assert "1985" < high < "2015"


NULLABLE = {
    "continuous": (NUMBER, [1.0, 2.0]),
    "integer": ({"kind": "integer", "bounds": [0, 9]}, [1, 2]),
    "integer categories": ({"kind": "categorical", "categories": [1, 2]}, [1, 2]),
    "text categories": ({"kind": "categorical", "categories": ["a", "b"]}, ["a", "b"]),
    "boolean": ({"kind": "boolean"}, [True, False]),
    "boolean in other words": ({"kind": "boolean", "true": ["ja"], "false": ["nein"]}, [True, False]),
    "date": (DATE, [dt.date(2000, 1, 1), dt.date(2001, 1, 1)]),
    "date as a number": (DATE | {"format": "%Y%m%d"}, [20000101, 20010101]),
    "datetime": (
        {"kind": "datetime", "bounds": ["1990-01-01", "2010-01-01"]},
        [dt.datetime(2000, 1, 1), dt.datetime(2001, 1, 1)],
    ),
    "duration": (
        {"kind": "duration", "bounds": [0, 100]},
        [dt.timedelta(seconds=5), dt.timedelta(seconds=6)],
    ),
    "duration as a number": ({"kind": "duration", "bounds": [0, 100]}, [5, 6]),
    "na_values": (NUMBER | {"missing": True, "na_values": [-999]}, [1, -999]),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", NULLABLE)
def test_a_null_changes_no_other_cell_in_any_library(name, missing, tmp_path):
    """Libraries change the type of a column if one cell is null, which must not affect other rows."""
    declared, cells = NULLABLE[name]
    column = declared_column("c", declared | ({"missing": True} if missing else {}))
    schema = Schema.from_columns([column])
    whole, holed = cells * 3, [*cells * 2, cells[0], None]
    for make in (
        lambda cells: pd.DataFrame({"c": cells}),
        lambda cells: pd.DataFrame({"c": pd.Series(cells, dtype="category")}),
        lambda cells: pd.DataFrame({"c": pd.array(cells)}),
        lambda cells: pl.DataFrame({"c": cells}),
        lambda cells: pa.table({"c": cells}),
        lambda cells: pa.table({"c": pa.array(cells).dictionary_encode()}),
        lambda cells: _written(pa.table({"c": cells}), tmp_path),
        lambda cells: [[cell] for cell in cells],
    ):
        one, two = (open_rows(make(held), schema).in_memory().block()[0] for held in (whole, holed))
        np.testing.assert_array_equal(one[:5], two[:5])
        assert column.is_number or not np.isnan(one).any()


def _written(table, folder):
    pa.parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def test_na_values_match_in_every_stored_type():
    number = declared_column("c", NUMBER | {"missing": True, "na_values": [-999]})
    for cells in (np.array([-999.0, 3.0]), np.array(["-999.0", "3"], dtype=object), np.array([-999, 3])):
        np.testing.assert_array_equal(number.parse(cells)[1], [MISSING, READ])
    date = declared_column("d", DATE | {"missing": True, "na_values": ["1999-12-31", "NA"]})
    stored = np.array(["1999-12-31", "2000-01-01"], dtype="datetime64[s]")
    np.testing.assert_array_equal(date.parse(stored)[1], [MISSING, READ])
    blank = declared_column("d", DATE | {"missing": True, "na_values": ["", "NA"]})
    np.testing.assert_array_equal(blank.parse(stored)[1], [READ, READ])


def test_times_beyond_every_calendar_are_clipped():
    column = declared_column("c", {"kind": "duration", "bounds": [0, 100]})
    values, _ = column.parse(np.array([2**60, -(2**60), 5], dtype="timedelta64[s]"))
    np.testing.assert_array_equal(values, [100, 0, 5])
