"""Sources: the same numbers from every kind of table, and errors that show no value."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from dpem import Schema
from dpem.data import TableRows
from dpem.errors import InvalidArgumentError

DATA = {"age": [31, 47, 5], "dose": [0.5, None, 2.0], "smoker": [True, False, True]}
FRAMES = {
    "pandas": pd.DataFrame(DATA),
    "pandas nullable": pd.DataFrame(DATA).convert_dtypes(),
    "pandas arrow": pd.DataFrame(DATA).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame(DATA),
    "pyarrow": pa.table(DATA),
}
SCHEMA = Schema(
    {
        "dose": {"kind": "continuous", "bounds": [0, 9], "missing": True},
        "age": {"kind": "integer", "bounds": [0, 99]},
    }
)
EXPECTED = np.array([[31, 47, 5], [0.5, np.nan, 2.0], [1, 0, 1]])


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_blocks(kind):
    """Column names are kept, integers and booleans are numbers, nulls are NaN."""
    source = TableRows(FRAMES[kind])
    assert source.names == ("age", "dose", "smoker")
    assert (source.n_rows, source.n_columns) == (3, 3)
    np.testing.assert_array_equal(source.block(), EXPECTED)
    np.testing.assert_array_equal(TableRows(FRAMES[kind], SCHEMA).block(), EXPECTED[[1, 0]])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64", "bool", "float16", ">f8"])
def test_numeric_dtypes_are_widened(dtype):
    """Narrow types widen exactly; byte order does not matter."""
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    np.testing.assert_array_equal(TableRows(array).block(), array.T.astype(float))
    np.testing.assert_array_equal(TableRows(np.asfortranarray(array)).block(), array.T.astype(float))


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, None])
def test_blocks_cover_all_rows_once(block_rows):
    """Blocks of any size yield all rows in order."""
    array = np.arange(14.0).reshape(7, 2)
    np.testing.assert_array_equal(np.concatenate(list(TableRows(array).blocks(block_rows)), axis=1), array.T)


def test_blocks_have_constant_size():
    """The size of a block depends on the number of columns only, not on that of rows."""
    assert TableRows(np.zeros((10, 4))).block_rows == TableRows(np.zeros((10_000, 4))).block_rows


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(3), "Expected 2D array, got 1D array"),
        (np.zeros((2, 2, 2)), "got 3D array"),
        (np.zeros((3, 0)), "at least one column"),
        (np.array([["secret", "x"]]), "numeric array"),
        (np.array([[object(), 1]]), "numeric array"),
        (np.array([[1j]]), "Complex data not supported"),
        (pd.DataFrame({"name": ["secret"]}), "numeric column, got another type.*'name'"),
        (pl.DataFrame({"name": ["secret"]}), "numeric column, got text for column 'name'"),
        (pd.DataFrame({"c": pd.Categorical(["b"], ["b", "secret"], ordered=True)}), "numeric column.*'c'"),
        (pd.DataFrame({"o": ["secret", 1]}, dtype=object), "numeric column.*'o'"),
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}), "numeric column.*'day'"),
    ],
)
def test_bad_shapes_and_types(data, message):
    """Errors in shape and type raise; the message never shows a cell."""
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        TableRows(data)
    assert "secret" not in str(caught.value)


def test_messages_do_not_depend_on_rows():
    """Longer text, other objects and more rows give the same message."""

    def message(data):
        with pytest.raises(InvalidArgumentError) as caught:
            TableRows(data)
        return str(caught.value)

    assert message(np.array([["a"]])) == message(np.array([["a much longer cell"], ["b"]]))
    assert message(np.zeros(3)) == message(np.zeros(1234))
    assert message(pd.DataFrame({"o": ["a"]}, dtype=object)) == message(
        pd.DataFrame({"o": [{}]}, dtype=object)
    )


@pytest.mark.parametrize("cell", [None, "secret", 2**5000, {}, [1], float("nan"), 1 + 2j])
def test_one_cell_of_a_list_never_raises(cell):
    """In nested lists, cells that are not numbers are NaN, and so are rows of another length."""
    np.testing.assert_array_equal(TableRows([[1, 2.5], [cell, 4]]).block(), [[1, np.nan], [2.5, 4]])
    ragged = TableRows([[1, 2.5], [3], "xy", (5, True)]).block()  # most rows have two cells
    np.testing.assert_array_equal(ragged, [[1, np.nan, np.nan, 5], [2.5, np.nan, np.nan, 1]])


def test_a_mapping_of_columns_is_refused_with_a_remedy():
    with pytest.raises(InvalidArgumentError, match=r"mapping of columns\. Pass a DataFrame"):
        TableRows({"a": [1, 2]})


def test_masked_cells_are_nan():
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
    np.testing.assert_array_equal(TableRows(masked).block(), [[1, 3], [np.nan, 4]])


def test_sparse_is_refused_with_a_reason():
    with pytest.raises(TypeError, match="zeros are values"):
        TableRows(scipy.sparse.eye(3).tocsr())


def test_numbered_columns_have_no_names():
    """Integer labels are positions, as in scikit-learn."""
    source = TableRows(pd.DataFrame(np.eye(3)))
    assert source.names is None
    np.testing.assert_array_equal(source.block(), np.eye(3))


def test_missing_columns_are_named():
    with pytest.raises(InvalidArgumentError, match="without 'height'"):
        TableRows(FRAMES["pandas"], Schema({"height": {"kind": "continuous", "bounds": [0, 3]}}))
