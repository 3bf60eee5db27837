"""Fast parsing of whole columns: the same values and findings as cell by cell, in every type of column."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem import Schema, _compiled
from dpem.data import TableRows
from dpem.data.levels import LevelGrid
from dpem.data.table_grid import TableGrid
from dpem.estimator.data_quality import _FindingLevels

NUMBER = {"kind": "continuous", "bounds": [-3.5, 100.0]}
LISTED = {"kind": "categorical", "categories": [0, 1, 2, 5, -7]}
DECLARED = {
    "number": NUMBER,
    "number, missing": NUMBER | {"missing": True},
    "number, outside missing": NUMBER | {"missing": True, "outside": "missing"},
    "number, marks": NUMBER | {"na_values": ["NA", -1, "1e2", "true", "0.5", "nan"], "missing": True},
    "number, marks, complete": NUMBER | {"na_values": [-1, "inf", 7]},
    "decimal comma": NUMBER | {"decimal": ",", "thousands": "."},
    "zero bound": {"kind": "continuous", "bounds": [0.0, 1.0]},
    "integer": {"kind": "integer", "bounds": [-5, 20]},
    "integer, far": {"kind": "integer", "bounds": [-(2**62), 2**63]},
    "integer, missing": {"kind": "integer", "bounds": [0, 255], "missing": True, "na_values": [99]},
    "boolean": {"kind": "boolean"},
    "boolean, words": {"kind": "boolean", "true": ["ja", "2"], "false": ["nein", "-1"], "missing": True},
    "boolean, marks": {"kind": "boolean", "na_values": ["1", "false", "9"], "missing": True},
    "listed": LISTED,
    "listed, missing": LISTED | {"missing": True},
    "listed, marks": LISTED | {"missing": True, "na_values": [2, "-7", "zzz"], "outside": 5},
    "listed, other": LISTED | {"outside": "other"},
    "far apart": {"kind": "ordered", "categories": [-1e300, 0.5, 1e22, 2**53, 1e6, "inf"]},
    "words": {"kind": "categorical", "categories": ["a", "é", "1.5", "true", "1", "nan"], "missing": True},
    "words, outside": {"kind": "ordered", "categories": ["low", " high ", "0.0"], "outside": "low"},
    "date": {"kind": "date", "bounds": ["1950-01-01", "2030-01-01"], "missing": True},
    "date, numbers": {"kind": "date", "bounds": ["1950-01-01", "2030-01-01"], "format": "%Y%m%d"},
    "datetime": {"kind": "datetime", "bounds": ["1950-01-01", "2030-01-01"], "resolution": "hour"},
    "duration": {"kind": "duration", "bounds": [0, 100], "resolution": "hour"},
    "duration, marks": {"kind": "duration", "bounds": [0, 100], "resolution": "hour", "na_values": [3]},
}
WHOLE = [0, 1, -1, 2, 3, 5, -7, 9, 20, 21, 99, 100, 101, 127, -128]
LARGE = [2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1, 10**15, 10**17, 20240131]
FLOATS = [0.0, -0.0, 0.5, 1.5, 2.5, -3.5, -3.6, 1e2, 1e22, 1e300, -1e300, np.inf, -np.inf, np.nan, 5e-324]
TEXTS = [
    *(
        "a",
        " a",
        "a ",
        "A",
        "é",
        "é ",
        "1",
        "1.0",
        "01",
        "1.5",
        "+1",
        "1e0",
        "1,5",
        "1.000,5",
        "true",
        "True",
    ),
    *(
        "TRUE",
        "ja",
        "Ja",
        "nein",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "",
        " ",
        "\t",
        "\u2003",
        "\u0661",
        "0.0",
        "-0",
    ),
    *("low", "high", " high ", "NA", "zzz", "99", "-1", "2024-01-31", "1 day, 2:00:00", "x\0", "9" * 400),
]
TIMES = [dt.datetime(2000, 1, 1), dt.datetime(1900, 1, 1, 5), dt.datetime(2029, 12, 31, 23, 59), None]
ARRAYS = {
    **{kind: np.array([0, 1, 2, 3, 5, 9, 99, 100, 101, 127], dtype=kind) for kind in ("u1", "i1", "f2")},
    **{kind: np.array([*WHOLE, *LARGE]) for kind in ("i8",)},
    **{kind: np.array(WHOLE, dtype=kind) for kind in ("i2", "i4", ">i4", "f4", ">f8", "g")},
    "u8": np.array([0, 1, 2, 2**53 + 1, 2**63, 2**64 - 1], dtype="u8"),
    "f8": np.array([*FLOATS, *map(float, WHOLE)]),
    "single": np.array([0.1, 1.5, 1e30, np.nan, np.inf, -0.0], dtype="f4"),
    "bool": np.array([True, False, True]),
    "times": np.array([*TIMES], dtype="M8[us]"),
    "far times": np.array(["NaT", "-200000-01-01", "900000-01-01"], dtype="M8[D]"),
    "durations": np.array([1, 3600, -5, 10**12, None], dtype="m8[s]"),
}


def as_objects(cells):
    array = np.empty(len(cells), dtype=object)
    array[:] = list(cells)
    return array


def tables(cells):
    """Yield one column of text in every type, with some cells missing."""
    yield pd.DataFrame({"c": pd.Series(cells, dtype=object)})
    yield pd.DataFrame({"c": pd.Series([np.nan if cell is None else cell for cell in cells], dtype=object)})
    yield pd.DataFrame({"c": pd.Series(cells, dtype="str")})
    yield pd.DataFrame({"c": pd.Series(cells, dtype="string[python]")})
    yield pd.DataFrame({"c": pd.Series(cells, dtype=pd.ArrowDtype(pa.string()))})
    yield pd.DataFrame({"c": pd.Series(cells, dtype="category")})
    yield pl.DataFrame({"c": pl.Series(cells, dtype=pl.String)})
    yield pl.DataFrame({"c": pl.Series(cells, dtype=pl.String).cast(pl.Categorical)})
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.string_view()):
        yield pa.table({"c": pa.array(cells, pa.string()).cast(kind)})
    yield pa.table({"c": pa.chunked_array([pa.array(cells, pa.string()).dictionary_encode()] * 2)}).slice(
        0, len(cells)
    )
    yield as_objects(cells)[:, None]


def read(table, schema):
    """Return the values and the findings of a table, by the fast code."""
    rows = TableRows(table, schema, by_position=True)
    with _compiled.for_any_size():
        return rows.block()[0], rows.of_findings().block()[0]


def one_by_one(cells, column):
    """Return the values and the findings of cells, each parsed alone as a Python object."""
    parsed = [column.parse_each(as_objects([cell])) for cell in cells]
    return np.array([value[0] for value, _ in parsed]), np.array([found[0] for _, found in parsed])


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("kind", ARRAYS)
def test_stored_cells_are_parsed_like_the_reference(name, kind):
    """Compiled code gives the values and findings of NumPy, for each type of array."""
    schema, cells = Schema({"c": DECLARED[name]}), ARRAYS[kind]
    expected = schema.columns[0].parse_each(cells)
    for table in (cells[:, None], pd.DataFrame({"c": cells}) if cells.dtype.isnative else cells[:, None]):
        if isinstance(table, pd.DataFrame) and kind in ("g", "far times", "f2"):
            continue  # pandas has no such type
        for one, other in zip(read(table, schema), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    if cells.dtype.kind in "fiub":
        objects = cells.tolist() if kind == "bool" else cells  # an object of type np.bool is not a number
        for one, other in zip(one_by_one(objects, schema.columns[0]), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", DECLARED)
def test_text_is_parsed_like_each_cell_alone(name):
    """Arrow text from every library gives the values and findings of its cells as Python objects."""
    schema, cells = Schema({"c": DECLARED[name]}), [*TEXTS, None, *TEXTS[:7]]
    expected = one_by_one(cells, schema.columns[0])
    for table in tables(cells):
        for one, other in zip(read(table, schema), expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(getattr(table, "dtypes", type(table))))


@pytest.mark.parametrize("name", DECLARED)
def test_mixed_objects_are_parsed_like_each_cell_alone(name):
    """Objects of several types stay as they are."""
    schema = Schema({"c": DECLARED[name]})
    hostile = [b"a", b"\xff", "\ud800", 1, 1.0, np.float32(1.5), True, np.True_, 10**400, 1j, [1], pd.NA]
    for cells in (hostile, [*TEXTS, 1], [*TEXTS, 0.5], [*TEXTS, b"a"], [*TEXTS, "\ud800"], [None, np.nan]):
        expected = one_by_one(cells, schema.columns[0])
        for table in (
            as_objects(cells)[:, None],
            pd.DataFrame({"c": pd.Series(as_objects(cells), dtype=object)}),
        ):
            for one, other in zip(read(table, schema), expected, strict=True):
                np.testing.assert_array_equal(one, other)


def test_invalid_bytes_are_parsed_like_each_cell_alone():
    cells = [b"a", b"\xff", b" 1 ", b"", b"\xc3\xa9", None]
    for name, declared in DECLARED.items():
        schema = Schema({"c": declared})
        for kind in (pa.binary(), pa.large_binary()):
            found = read(pa.table({"c": pa.array(cells, kind)}), schema)
            for one, other in zip(found, one_by_one(cells, schema.columns[0]), strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name)


@given(
    st.lists(st.floats() | st.sampled_from(FLOATS) | st.integers(-10, 110).map(float), min_size=1),
    st.sampled_from(sorted(DECLARED)),
)
@settings(max_examples=300, deadline=None)
def test_any_floats_are_parsed_like_the_reference(cells, name):
    schema, cells = Schema({"c": DECLARED[name]}), np.array(cells)
    for one, other in zip(read(cells[:, None], schema), schema.columns[0].parse_each(cells), strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.lists(st.none() | st.sampled_from(TEXTS) | st.text(max_size=5)), st.sampled_from(sorted(DECLARED)))
@settings(max_examples=200, deadline=None)
def test_any_text_is_parsed_like_each_cell_alone(cells, name):
    schema = Schema({"c": DECLARED[name]})
    expected = one_by_one(cells, schema.columns[0])
    for one, other in zip(read(pa.table({"c": pa.array(cells, pa.string())}), schema), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def mixed_block(layout):
    rng = np.random.default_rng(0)
    whole = rng.choice([*WHOLE, 2**40], (500, 6))
    cells = {
        "rows": whole,
        "columns": np.asfortranarray(whole),
        "floats": np.where(rng.random(whole.shape) < 0.2, np.nan, whole),
        "every second": np.repeat(whole, 2, axis=1)[:, ::2],
        "backwards": whole[::-1, ::-1],
    }[layout]
    names = ["listed", "number, missing", "integer", "far apart", "boolean, words", "duration"]
    return cells, Schema({name: DECLARED[name] for name in names})


@pytest.mark.parametrize("layout", ["rows", "columns", "floats", "every second", "backwards"])
def test_columns_together_are_parsed_like_each_alone(layout):
    """A table of one type is parsed in one call, whatever its layout in memory; so are parts of it."""
    cells, schema = mixed_block(layout)
    for names in (schema.names, schema.names[:5]):  # with and without a time, which is parsed by itself
        part = schema.select(names)
        rows = TableRows(cells, schema).only(range(len(names)))
        with _compiled.for_any_size():
            whole = np.concatenate([piece.block() for piece in rows.pieces()], axis=1)
            some = rows.where(np.arange(len(cells)) % 3 == 0).block()
            joined = TableRows.joined([rows.first_rows(100), rows]).block()
        for j, column in enumerate(part.columns):
            expected = column.parse_each(cells[:, j])[0]
            np.testing.assert_array_equal(whole[j], expected)
            np.testing.assert_array_equal(some[j], expected[::3])
            np.testing.assert_array_equal(joined[j], np.concatenate([expected[:100], expected]))


@pytest.mark.parametrize("make", [LevelGrid, TableGrid, lambda _: _FindingLevels()])
def test_compiled_grids_equal_numpy(make):
    """Levels, grid cells and findings are the same integers, in single precision."""
    from dpem.data import grid_kernel

    rng = np.random.default_rng(1)
    wide = {
        "long": {"kind": "integer", "bounds": [0, 10**6]},
        "huge": {"kind": "integer", "bounds": [0, 1e15]},
    }
    wide |= {"tiny": {"kind": "continuous", "bounds": [1.0, 1.0 + 1e-13]}}
    schema = Schema(DECLARED | wide)
    grid = make(schema)
    blocks = []
    for column in schema.columns:
        low, high = column.limits
        edges = LevelGrid(Schema.from_columns([column])).columns[0]
        cells = np.clip(np.concatenate([rng.uniform(low, high, 300), [low, high] * 10]), low, high)
        if not edges.is_listed:
            at = np.concatenate(
                [edges.edges, np.nextafter(edges.edges, low), np.nextafter(edges.edges, high)]
            )
            cells = np.concatenate([cells, np.clip(at, low, high)])
        cells = np.resize(np.rint(cells) if column.kind != "continuous" else cells, 1200)
        if column.missing:
            cells[::7] = np.nan
        blocks.append(cells)
    block = np.stack(blocks)
    if make not in (LevelGrid, TableGrid):
        block = rng.integers(0, 7, block.shape).astype(float)
    expected = grid.to_grid(block).astype(np.float32)
    found = np.full(block.shape, 77, dtype=np.float32)
    grid.write_single(block, grid_kernel, found)
    np.testing.assert_array_equal(found, expected)


def test_a_pickle_does_not_reveal_that_cells_were_parsed():
    schema = Schema(DECLARED)
    before = pickle.dumps(schema)
    for name in DECLARED:
        read(pa.table({"c": ["a", "1"]}), Schema.from_columns([schema.select([name]).columns[0]]))
        schema.columns[schema.names.index(name)].parse(pa.array(["a", "1", None]))
    with _compiled.for_any_size():
        TableRows(np.zeros((3, len(DECLARED))), schema).block()
    assert pickle.dumps(schema) == before
