"""Levels: every cell has one, drawn values lie in their level, and widths are correct."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem import Schema
from dpem.data.column import UNREADABLE
from dpem.data.levels import LevelGrid
from dpem.data.schema import declared_column
from dpem.data.to_dataframe import to_dataframe

COLUMNS = {
    "continuous": {"kind": "continuous", "bounds": [-3.0, 5.0]},
    "tiny": {"kind": "continuous", "bounds": [0.0, 1e-9]},
    "missing": {"kind": "continuous", "bounds": [0.0, 1.0], "missing": True},
    "short": {"kind": "integer", "bounds": [-2, 7]},
    "exactly listed": {"kind": "integer", "bounds": [0, 257]},
    "just too long": {"kind": "integer", "bounds": [0, 258]},
    "long": {"kind": "integer", "bounds": [0, 99_999], "missing": True},
    "huge": {"kind": "integer", "bounds": [-(10**15), 10**15]},
    "boolean": {"kind": "boolean", "missing": True},
    "ordered": {"kind": "ordered", "categories": ["low", "middle", "high"]},
    "categorical": {"kind": "categorical", "categories": ["a", 2, "c"], "outside": "a"},
}


def levels_of(name):
    return LevelGrid(Schema({name: COLUMNS[name]})).columns[0]


@pytest.mark.parametrize("name", COLUMNS)
def test_values_drawn_from_a_level_lie_in_it(name):
    """A value that is drawn from a level is parsed to the same level."""
    levels = levels_of(name)
    every = np.arange(levels.size)
    for uniform in (0.0, 0.37, 1 - 1e-12):
        drawn = levels.values(every, np.full(levels.size, uniform))
        np.testing.assert_array_equal(levels.codes(drawn), every)
    parsed, changed = levels.column.parse(np.asarray(drawn[: levels.n_values], dtype=object))
    if levels.column.is_number:
        np.testing.assert_array_equal(parsed, drawn[: levels.n_values])
        assert not changed.any()
    assert np.isnan(drawn).sum() == levels.column.missing


@pytest.mark.parametrize("name", COLUMNS)
def test_widths_hold_all_values(name):
    """The levels of a number cover its range, or all of its integers, with a bound on either side."""
    levels = levels_of(name)
    low, high = levels.column.limits
    held = np.exp(levels.log_widths[: levels.n_values]).sum()
    expected = high - low + 2 if levels.column.kind == "continuous" else high - low + 1
    assert held == pytest.approx(expected, rel=1e-9)
    assert levels.centres.shape == (levels.size,)
    within = levels.centres[: levels.n_values]
    assert (within >= low).all()
    assert (within <= high).all()
    assert (np.diff(within) > 0).all()


@given(value=st.floats(allow_nan=True, allow_infinity=True), name=st.sampled_from(sorted(COLUMNS)))
@settings(max_examples=300, deadline=None)
def test_every_cell_has_a_level(value, name):
    levels = levels_of(name)
    cell = np.empty(1, dtype=object)
    cell[0] = value
    parsed, _ = levels.column.parse(cell)
    level = levels.codes(parsed)[0]
    assert level == int(level)
    assert 0 <= level < levels.size


def test_many_ordered_levels_have_coarse_parts():
    levels = levels_of("long")
    assert levels.parts is not None
    assert levels.parts.shape == (levels.size,)
    assert (np.diff(levels.parts) >= 0).all()
    assert levels.parts[-1] == levels.parts[-2] + 1  # the missing cell is no neighbour
    assert np.bincount(levels.parts)[:-1].min() >= 15
    assert levels_of("short").parts is None
    assert levels_of("categorical").parts is None


def test_dataframes_have_the_types_of_the_schema():
    schema = Schema(COLUMNS)
    frame = to_dataframe(schema, np.stack([levels_of(name).centres[[0, -1]] for name in COLUMNS]))
    assert list(frame.columns) == list(COLUMNS)
    types = frame.dtypes.astype(str).to_dict()
    assert types["continuous"] == "float64"
    assert types["short"] == "int64"
    assert types["long"] == "Int64"
    assert types["boolean"] == "boolean"
    assert types["categorical"] == "category"
    assert frame["ordered"].cat.ordered
    assert list(frame["categorical"]) == ["a", "c"]
    assert frame["long"][1] is pd.NA


def test_dataframes_are_parsed_to_the_same_cells():
    """A DataFrame is parsed by its schema to the cells from which it was built."""
    rng = np.random.default_rng(0)
    schema = Schema(COLUMNS)
    grid = LevelGrid(schema)
    drawn = np.stack(
        [levels.values(rng.integers(levels.size, size=50), rng.random(50)) for levels in grid.columns]
    )
    frame = to_dataframe(schema, drawn)
    for j, name in enumerate(COLUMNS):
        parsed, found = declared_column(name, COLUMNS[name]).parse(frame[name].to_numpy(dtype=object))
        np.testing.assert_array_equal(parsed, drawn[j])
        assert (found < UNREADABLE).all()
