"""The schema of numeric columns."""

import pytest

from dpem import Schema
from dpem.errors import InvalidArgumentError


def test_round_trip():
    """A schema is its declaration."""
    declared = {
        "age": {"kind": "integer", "bounds": [0, 120]},
        "x": {"kind": "continuous", "bounds": [-1, 1]},
    }
    schema = Schema(declared)
    assert Schema(schema.to_dict()) == schema
    assert hash(Schema(declared)) == hash(schema)
    assert schema.to_dict()["age"] == {"kind": "integer", "bounds": [0, 120]}
    assert "age" in repr(schema)


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
        ({"age": {"kind": "integer"}}, r"bounds \[low, high\] for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0]}}, "for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [1, 0]}}, "low < high for column 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, float("inf")]}}, "finite bounds"),
        ({"age": {"kind": "integer", "bounds": [0, "x"]}}, "bounds of 'age'"),
        ({"age": {"kind": "integer", "bounds": [0, 1], "bonds": 1}}, "got 'bonds' too"),
    ],
)
def test_bad_declarations(columns, message):
    """Errors name the column."""
    with pytest.raises(InvalidArgumentError, match=message):
        Schema(columns)
