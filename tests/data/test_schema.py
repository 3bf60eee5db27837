"""The schema: declarations, round trips, drafts from types, and cells that never raise."""

import datetime as dt
import decimal
import json
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpem
from dpem import Schema
from dpem.data import TableRows
from dpem.data.column import ABOVE, MISSING, READ
from dpem.data.declarations import declared_column
from dpem.errors import InvalidArgumentError, OutputError

PATIENTS = Schema(
    {
        "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
        "dose": {"kind": "continuous", "bounds": [0, 5], "missing": True},
        "stage": {"kind": "ordered", "categories": ["I", "II", "III"]},
        "sex": {"kind": "categorical", "categories": ["F", "M"]},
        "ward": {"kind": "categorical", "categories": [1, 2, 3], "missing": True},
        "smoker": {"kind": "boolean", "missing": True},
    }
)


# -- declarations ----------------------------------------------------------------------------------------


def test_round_trip():
    """A schema is equal to one from its declaration."""
    declared = {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "x": {"kind": "continuous", "bounds": [-1, 1]},
    }
    schema = Schema(declared)
    assert Schema(schema.to_dict()) == schema
    assert hash(Schema(declared)) == hash(schema)
    assert schema.to_dict()["age"] == {"kind": "integer", "bounds": [0, 120]}
    assert "age" in repr(schema)
    assert schema.describe()["age"] == "0 to 120"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one column"),
        (None, "at least one column"),
        ([1], "a mapping"),
        ({"": {}}, "column name"),
        ({"age": 3}, "mapping for column 'age'"),
        ({"age": {"kind": "float", "bounds": [0, 1]}}, "kind of column 'age'"),
        ({"age": {"bounds": [0, 1]}}, "kind of column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0]}}, "for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [1, 0]}}, "low < high for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, float("inf")]}}, "finite bounds"),
        ({"age": {"kind": "integer", "bounds": [0, "x"]}}, "bounds of 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "bonds": 1}}, "got the unknown 'bonds'"),
        ({"age": {"kind": "integer", "categories": [0, 1]}}, "no categories for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0.5, 3]}}, "whole numbers as bounds of column 'age'"),
        ({"age": {"kind": "continuous", "bounds": [0, 1e300]}}, "bounds within 1e.100.*for column 'age'"),
        ({"sex": {"kind": "categorical", "bounds": [0, 1]}}, "no bounds for column 'sex'"),
        ({"sex": {"kind": "categorical", "categories": "FM"}}, "list of categories for column 'sex'"),
        ({"sex": {"kind": "categorical", "categories": ["F"]}}, "at least two categories for column 'sex'"),
        ({"sex": {"kind": "categorical", "categories": ["F", ""]}}, "text or numbers as categories"),
        (
            {"sex": {"kind": "categorical", "categories": [1, 2, "1"]}},
            "different categories.*got '1' more than once",
        ),
        ({"sex": {"kind": "categorical", "categories": [1.0, math.nan]}}, "text or numbers as categories"),
        ({"sex": {"kind": "ordered", "categories": ["F", "M"], "outside": "other"}}, "for column 'sex'"),
        ({"sex": {"kind": "boolean", "outside": "missing"}}, "if missing is true"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "outside": "drop"}}, "'clip'.*for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "missing": "no"}}, "true or false for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "unit": ""}}, "unit of column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "bounds_cost": 1}}, "for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "bounds_cost": [0, 1e-5]}}, "epsilon > 0"),
    ],
)
def test_bad_declarations(columns, message):
    """Errors name the column."""
    with pytest.raises(InvalidArgumentError, match=message):
        Schema(columns)


_NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=8)
_CATEGORY = st.one_of(
    st.text(min_size=1, max_size=6), st.integers(-99, 99), st.floats(-9, 9, allow_nan=False), st.booleans()
)


@st.composite
def _columns(draw):
    kind = draw(st.sampled_from(["continuous", "integer", "ordered", "categorical", "boolean"]))
    declared = {"kind": kind, "missing": draw(st.booleans())}
    if kind in ("continuous", "integer"):
        low = draw(st.floats(-1e9, 1e9))
        declared["bounds"] = [low, low + draw(st.floats(1.0, 1e9))]
        if kind == "integer":
            declared["bounds"] = [math.floor(bound) for bound in declared["bounds"]]
        if draw(st.booleans()):
            declared["bounds_cost"] = [0.25, 1e-6]
    elif kind != "boolean":
        from dpem.data.cells import category_key

        declared["categories"] = draw(
            st.lists(_CATEGORY, min_size=2, max_size=5, unique_by=category_key).filter(
                lambda found: all(map(category_key, found))
            )
        )
        if draw(st.booleans()):
            declared["outside"] = draw(st.sampled_from(declared["categories"]))
    if declared["missing"] and draw(st.booleans()):
        declared["outside"] = "missing"
    if draw(st.booleans()):
        declared["unit"] = draw(_NAMES)
    return declared


@settings(max_examples=150, deadline=None)
@given(declared=st.dictionaries(_NAMES, _columns(), min_size=1, max_size=5), toml=st.booleans())
def test_every_schema_survives_a_file(declared, toml, tmp_path_factory):
    """A dict, TOML and JSON preserve the schema, with any names and categories."""
    schema = Schema(declared)
    assert Schema(schema.to_dict()) == schema
    path = tmp_path_factory.mktemp("schema") / ("s.toml" if toml else "s.json")
    schema.save(path)
    assert Schema.read(path) == schema
    assert Schema.from_columns(schema.columns) == schema
    assert Schema(json.loads(json.dumps(schema.to_dict()))).to_dict() == schema.to_dict()


def test_files_that_are_not_schemas(tmp_path):
    for name, content, message in [
        ("s.yaml", "", "ends in .toml or .json"),
        ("s.toml", "age = [", "schema in TOML"),
        ("s.json", "{", "schema in JSON"),
        ("s.json", "[1]", "a mapping"),
    ]:
        (tmp_path / name).write_text(content)
        with pytest.raises(InvalidArgumentError, match=message):
            Schema.read(tmp_path / name)
    with pytest.raises(InvalidArgumentError, match="No such file"):
        Schema.read(tmp_path / "absent.toml")
    with pytest.raises(OutputError, match="can be written"):
        PATIENTS.save(tmp_path / "no folder" / "s.toml")


# -- drafts ----------------------------------------------------------------------------------------------


WATCHED = set()  # names of tests in which nobody may look


class Unreadable:
    """A cell that raises when anything reads it."""

    def __getattribute__(self, name):
        if WATCHED:
            raise AssertionError("a value was read")
        return object.__getattribute__(self, name)


FRAME = pd.DataFrame(
    {
        "age": np.array([1, 2], dtype="int16"),
        "dose": [0.5, 1.5],
        "smoker": [True, False],
        "name": pd.Series([Unreadable(), Unreadable()], dtype=object),
        "ward": pd.Categorical(["secret", "b"]),
    }
)


def test_a_draft_reads_names_and_types_only():
    """Neither objects nor the categories of a categorical type are read."""
    WATCHED.add("draft")
    draft = Schema.from_types(FRAME)
    WATCHED.clear()
    assert [column.kind for column in draft.columns] == [
        "integer",
        "continuous",
        "boolean",
        "categorical",
        "categorical",
    ]
    assert draft.lacking == ("age", "dose", "name", "ward")
    assert "secret" not in repr(draft)
    same = {"age": "int16", "dose": float, "smoker": bool, "name": str, "ward": "category_of_mine"}
    with pytest.raises(InvalidArgumentError, match=r"type such as int.*'ward'"):
        Schema.from_types(same)
    assert Schema.from_types(same | {"ward": "object"}) == draft
    for other in (pl.from_pandas(FRAME[["age", "dose"]]), pa.table({"age": [1], "dose": [0.5]})):
        assert Schema.from_types(other) == draft.select(["age", "dose"])
    assert Schema.from_types(pl.LazyFrame({"age": [1]})).names == ("age",)
    with pytest.raises(InvalidArgumentError, match="a table of pandas"):
        Schema.from_types(3)


def test_a_draft_is_refused_by_every_estimator_until_it_is_declared():
    draft = Schema.from_types(FRAME[["age", "dose"]])
    with pytest.raises(InvalidArgumentError, match=r"public bounds for column 'age'.*dpem.private_bounds"):
        dpem.KMeans(2, epsilon=1.0, schema=draft).fit(FRAME)
    with pytest.raises(InvalidArgumentError, match=r"Use dpem\.Schema\.read\('k\.toml'\)\."):
        dpem.KMeans(2, epsilon=1.0, schema="k.toml").fit(FRAME)
    whole = draft.declare({"age": {"bounds": [0, 9]}, "dose": {"bounds": [0, 2], "unit": "mg"}})
    assert whole.lacking == ()
    assert whole.columns[1].unit == "mg"
    with pytest.raises(
        InvalidArgumentError, match=r"columns of the schema, got 'height'\. It has 'age', 'dose'"
    ):
        draft.declare({"height": {}})
    with pytest.raises(InvalidArgumentError, match="got 'height'"):
        draft.select(["height"])
    with pytest.raises(InvalidArgumentError, match="categories for column 'name'"):
        TableRows(FRAME, Schema.from_types(FRAME[["name"]]))


# -- cells -----------------------------------------------------------------------------------------------

CELLS = [
    (
        PATIENTS.columns[0],
        [31, "47", 31.4, -5, 1e9, math.inf, None, "old"],
        [31, 47, 31, 0, 120, 120, 60, 60],
    ),
    (PATIENTS.columns[1], [0.5, " 2 ", 9, None, "x", math.nan], [0.5, 2, 5, math.nan, math.nan, math.nan]),
    (PATIENTS.columns[2], ["I", "III", "IV", None, 1], [0, 2, 0, 0, 0]),
    (PATIENTS.columns[3], ["F", " M ", "f", None, "other", 3], [0, 1, 0, 0, 0, 0]),
    (
        declared_column("sex", {"kind": "categorical", "categories": ["F", "M"], "outside": "other"}),
        ["F", "M", "f", None, "other", 3],
        [0, 1, 2, 2, 2, 2],
    ),
    (PATIENTS.columns[4], [1, 2.0, "3", "4", None, True], [0, 1, 2, math.nan, math.nan, math.nan]),
    (PATIENTS.columns[5], [True, "false", 1, 0.0, " YES", "ja", None], [1, 0, 1, 0, 1, math.nan, math.nan]),
]


@pytest.mark.parametrize(("column", "cells", "expected"), CELLS, ids=lambda value: getattr(value, "kind", ""))
def test_cells_are_replaced_as_declared(column, cells, expected):
    values, _ = column.parse(np.array(cells, dtype=object))
    np.testing.assert_array_equal(values, expected)
    for i, cell in enumerate(cells):  # and one by one: no cell changes another
        alone, _ = column.parse(np.array([cell], dtype=object))
        np.testing.assert_array_equal(alone, expected[i : i + 1])


def test_outside_may_mean_missing():
    column = Schema(
        {"a": {"kind": "continuous", "bounds": [0, 1], "missing": True, "outside": "missing"}}
    ).columns[0]
    values, found = column.parse(np.array([0.5, 2.0, np.nan, np.inf]))
    np.testing.assert_array_equal(values, [0.5, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(found, [READ, ABOVE, MISSING, ABOVE])
    filled = Schema.from_columns([column]).filled().columns[0]
    np.testing.assert_array_equal(filled.parse(np.array([0.5, 2.0, np.nan]))[0], [0.5, 1.0, 0.5])


class Hostile:  # noqa: PLW1641  (its hash raises too)
    """A cell that raises on every operation."""

    def __float__(self):
        raise RuntimeError("secret")

    __index__ = __bool__ = __hash__ = __str__ = __repr__ = __float__

    def __eq__(self, other):
        raise RuntimeError("secret")


HOSTILE_CELLS = [
    None, math.nan, math.inf, -math.inf, 10**5000, -(10**5000), "", "nan", "1e999", "secret", b"1", [1],
    {}, (), 1 + 2j, object(), Hostile(), np.datetime64("NaT", "s"), dt.date(2020, 1, 1), pd.NA, pd.NaT,
    decimal.Decimal("sNaN"), decimal.Decimal(10) ** 400, np.array([1, 2]), np.ma.masked, lambda: 1, True,
]  # fmt: skip


def test_a_hostile_table_neither_raises_nor_warns():
    """Every cell in every kind of column, in frames, arrays and lists, with NumPy's errors set to raise."""
    frame = pd.DataFrame({name: pd.Series(HOSTILE_CELLS, dtype=object) for name in PATIENTS.names})
    listed = [[cell] * 6 for cell in HOSTILE_CELLS]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        blocks = [TableRows(table, PATIENTS).block() for table in (frame, listed)]
    np.testing.assert_array_equal(*blocks)
    low, high = PATIENTS.bounds
    assert ((blocks[0] >= low[:, None]) & (blocks[0] <= high[:, None]) | np.isnan(blocks[0])).all()
    allowed = np.array([column.missing for column in PATIENTS.columns])
    assert not np.isnan(blocks[0][~allowed]).any()
    model = dpem.KMeans(2, epsilon=1.0, delta=1e-3, schema=PATIENTS.select(["age", "stage"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame)
    assert np.isfinite(model.cluster_centers_).all()


def test_no_cell_raises_whatever_its_type():
    """Types that libraries infer from all rows, and types without numbers, do not raise."""
    schema = Schema({"x": {"kind": "continuous", "bounds": [0, 10]}})
    tables = [
        pd.DataFrame({"x": pd.to_datetime(["2020-01-01"] * 3)}),
        pd.DataFrame({"x": pd.Categorical(["1", "b", None])}),
        pl.DataFrame({"x": [[1], [2], [3]]}),
        pl.DataFrame({"x": [{"a": 1}, {"a": 2}, {"a": 3}]}),
        pl.DataFrame({"x": ["1", None, "x"]}).with_columns(pl.col("x").cast(pl.Categorical)),
        pa.table({"x": pa.array(["1", None, "x"]).dictionary_encode()}),
        np.array([["1"], ["x"], [""]]),
        np.array([[1j], [2], [3]]),
    ]
    for table in tables:
        block = TableRows(table, schema).block()
        assert block.shape == (1, 3)
        assert set(block.ravel()) <= {1.0, 5.0}


@pytest.mark.parametrize("cells", [[1, 2, 3], [1.0, 2.5, 3.0], [True, False, True], ["a", "b", "c"]])
def test_a_null_changes_no_other_cell(cells):
    """In every library and type, integers do not become other categories if another cell is null."""
    schema = Schema({"x": {"kind": "categorical", "categories": sorted(set(cells)), "missing": True}})
    holes = [*cells[:-1], None]
    whole = schema.columns[0].parse(np.array(cells, dtype=object))[0]
    tables = {
        "pandas": lambda c: pd.DataFrame({"x": c}),
        "pandas categorical": lambda c: pd.DataFrame({"x": pd.Categorical(c, categories=sorted(set(cells)))}),
        "pandas nullable": lambda c: pd.DataFrame({"x": c}).convert_dtypes(),
        "pandas arrow": lambda c: pd.DataFrame({"x": c}).convert_dtypes(dtype_backend="pyarrow"),
        "polars": lambda c: pl.DataFrame({"x": c}),
        "pyarrow": lambda c: pa.table({"x": c}),
        "pyarrow dictionary": lambda c: pa.table({"x": pa.array(c).dictionary_encode()}),
        "lists": lambda c: [[cell] for cell in c],
    }
    for name, table in tables.items():
        np.testing.assert_array_equal(TableRows(table(cells), schema).block()[0], whole, err_msg=name)
        np.testing.assert_array_equal(
            TableRows(table(holes), schema).block()[0], [*whole[:-1], np.nan], err_msg=name
        )


def test_cells_that_their_library_cannot_convert():
    """One date out of Python's range or one invalid text leaves the other cells unchanged."""
    dates = pa.array([1, 2, 2**30], type=pa.int32()).cast(pa.date32())
    texts = pa.array([b"1", b"\xff", b"3"])
    schema = Schema({"x": {"kind": "continuous", "bounds": [0, 4]}})
    for table in (
        pa.table({"x": dates}),
        pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(dates)}),
        np.ma.array([["old"], ["1"], ["2"]]),
    ):
        assert np.isfinite(TableRows(table, schema).block()).all()
    for table in (pa.table({"x": texts.dictionary_encode()}), pa.table({"x": texts})):
        np.testing.assert_array_equal(TableRows(table, schema).block(), [[1, 2, 3]])
    with pytest.raises(InvalidArgumentError, match="numeric array"):
        TableRows(np.ma.array([["old"], ["1"]]))


def test_categories_match_other_spellings():
    column = Schema({"x": {"kind": "categorical", "categories": [True, "F", 1.5, 7]}}).columns[0]
    cells = ["True", "TRUE", True, b"F", decimal.Decimal("1.5"), np.float64(7.0), "7", np.int8(7), "g"]
    np.testing.assert_array_equal(column.parse(np.array(cells, dtype=object))[0], [0, 0, 0, 1, 2, 3, 3, 3, 0])


def test_added_categories_are_not_declared():
    """The category "other" appears and disappears with `outside`; true is not 1."""
    plain = Schema({"x": {"kind": "categorical", "categories": ["a", "b"]}})
    assert plain.columns[0].categories == ("a", "b")  # no phantom that a sample could draw
    schema = plain.declare({"x": {"outside": "other"}})
    assert schema.columns[0].categories == ("a", "b", "other")
    assert Schema(schema.to_dict()) == schema
    assert schema.declare({"x": {"missing": True, "outside": None}}).columns[0].categories == ("a", "b")
    one, two = (Schema({"x": {"kind": "ordered", "categories": c}}) for c in ([True, 2], [1, 2]))
    assert one != two
    with pytest.raises(InvalidArgumentError, match="different columns"):
        schema.select(["x", "x"])


def test_lists_of_lists():
    """The schema defines the width of rows; an invalid row is missing, in any position."""
    schema = Schema({name: {"kind": "continuous", "bounds": [0, 9], "missing": True} for name in "ab"})
    odd = [[1.0], [1, [2]], None, np.array(3.0), "xy", (1, 2, 3), [[4], 5], {}, 7]
    for first in odd:
        block = TableRows([first, [5, 6], [7, 8]], schema).block()
        np.testing.assert_array_equal(block[:, 1:], [[5, 7], [6, 8]])
        plain = TableRows([first, [5, 6], [7, 8]]).block()
        np.testing.assert_array_equal(plain[:, 1:], [[5, 7], [6, 8]])
    assert TableRows([], schema).block().shape == (2, 0)
    assert TableRows(pd.DataFrame([], columns=["a"])).n_rows == 0


def test_duplicate_and_empty_names():
    """Names are public: duplicate and empty names raise, but only if they matter."""
    double = pd.DataFrame([[1, 2, 3]], columns=["a", "a", ""])
    schema = Schema({"a": {"kind": "integer", "bounds": [0, 9]}})
    for use in (Schema.from_types, lambda table: TableRows(table, schema), TableRows):
        with pytest.raises(InvalidArgumentError, match=r"different names.*'a' 2 times"):
            use(double)
    unnamed = pd.DataFrame([[1, 2, 3]], columns=["a", "", " "])
    with pytest.raises(InvalidArgumentError, match="position 1, 2"):
        Schema.from_types(unnamed)
    np.testing.assert_array_equal(TableRows(unnamed, schema).block(), [[1.0]])


def test_ten_thousand_columns():
    names = [f"c{j}" for j in range(10_000)]
    frame = pd.DataFrame(np.zeros((20, 10_000), dtype="int8"), columns=names)
    draft = Schema.from_types(frame)
    with pytest.raises(InvalidArgumentError, match="'c0'") as caught:
        TableRows(frame, draft)
    assert len(str(caught.value)) < 500
    schema = draft.declare({name: {"bounds": [0, 1]} for name in names})
    assert TableRows(frame, schema).block().shape == (10_000, 20)
    with pytest.raises(InvalidArgumentError, match="and 9980 more") as caught:
        TableRows(frame[["c0"]], schema)
    assert len(str(caught.value)) < 1500


# -- estimators ------------------------------------------------------------------------------------------


def test_every_estimator_takes_a_schema():
    """Numbers and ordered categories from text cells are accepted; other columns are refused by name."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 90, 2000).astype(str),
            "stage": rng.choice(["I", "II", "III"], 2000),
            "sex": "F",
            "smoker": True,
        }
    )
    schema = PATIENTS.filled().select(["age", "stage", "smoker"])
    for model in (
        dpem.KMeans(2, epsilon=1.0, schema=schema),
        dpem.GaussianMixture(1, epsilon=1.0, schema=schema),
        dpem.FactorAnalysis(1, epsilon=1.0, schema=schema),
        dpem.paper.GaussianMixture(1, epsilon=9.0, delta=1e-4, schema=schema),
        dpem.paper.KMeans(2, epsilon=9.0, schema=schema),
        dpem.paper.DPLloyd(2, epsilon=9.0, schema=schema),
        dpem.paper.FactorAnalysis(1, epsilon=0.5, schema=schema),
    ):
        model.fit(table)
        assert model.privacy_.bounds["age"] == "0 to 120 years"
        assert list(model.feature_names_in_) == ["age", "stage", "smoker"]
        with pytest.raises(InvalidArgumentError, match=r"categorical column 'sex'"):
            type(model)(epsilon=1.0, schema=PATIENTS.select(["age", "sex"])).fit(table)
        with pytest.raises(InvalidArgumentError, match=r"missing=True for column 'dose'"):
            type(model)(epsilon=1.0, schema=PATIENTS.select(["age", "dose"])).fit(table)


def test_the_fraction_of_rows_that_are_not_as_declared():
    table = pd.DataFrame({"age": ["30"] * 6000 + ["130"] * 2000 + ["old"] * 2000, "sex": ["F"] * 10_000})
    share = dpem.clipped_fraction(table, epsilon=1.0, schema=PATIENTS.select(["age", "sex"]))
    assert abs(share.value - 0.4) < 0.02


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"kind": "integer", "bound": [0, 1]}, "from_rows,.*Did you mean 'bounds'"),
        ({"kind": "int"}, "Did you mean 'integer'"),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_the_right_word(declared, expected):
    with pytest.raises(InvalidArgumentError, match=expected):
        Schema({"x": declared})


def test_a_filled_schema_keeps_the_marks_of_missing_cells():
    """Without missing cells, a mark goes where missing cells go, also a mark that is a number."""
    marked = {"missing": True, "na_values": ["n/a", -999]}
    schema = Schema(
        {
            "x": {"kind": "continuous", "bounds": [0, 10], **marked},
            "k": {"kind": "categorical", "categories": ["a", "b"], **marked},
        }
    ).filled()
    assert Schema.from_columns(schema.columns).columns == schema.columns
    x, k = schema.columns
    cells = np.array(["1", "n/a", "-999", "12"], dtype=object)
    np.testing.assert_array_equal(x.parse(cells)[0], [1.0, 5.0, 5.0, 10.0])
    np.testing.assert_array_equal(k.parse(np.array(["b", "n/a"], dtype=object))[0], [1.0, 0.0])
