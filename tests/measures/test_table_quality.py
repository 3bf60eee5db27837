"""Comparisons of synthetic rows with real ones: by hand, of equal tables, and their mark."""

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem import Schema, compare_tables
from dpem.errors import InvalidArgumentError
from dpem.measures.table_quality import comparison_codes

SCHEMA = Schema(
    {
        "a": {"kind": "categorical", "categories": ["x", "y"], "missing": True},
        "b": {"kind": "continuous", "bounds": [0, 16]},
        "c": {"kind": "integer", "bounds": [0, 99]},
    }
)


def table(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.choice(["x", "y", None], n), "b": rng.uniform(0, 16, n)})
    frame["c"] = (frame["b"] * 6 + shift).clip(0, 99).astype(int)
    return frame


def test_equal_and_different_tables():
    same = compare_tables(table(500, 0), table(500, 0), SCHEMA)
    assert same.one_way == same.two_way == same.three_way == 0
    apart = compare_tables(table(5000, 0), table(5000, 1, shift=50), SCHEMA)
    assert apart.columns["column"][0] == "c"
    assert apart.columns["total_variation"][0] > 0.4
    assert apart.one_way < apart.two_way < apart.three_way
    assert set(apart.pairs.loc[0, ["first", "second"]]) == {"b", "c"}


def test_total_variation_by_hand():
    real = pd.DataFrame({"a": ["x", "x", "y", None], "b": [0.5] * 4, "c": [1] * 4})
    other = pd.DataFrame({"a": ["x", "y", "y", "y"], "b": [0.5] * 4, "c": [1] * 4})
    comparison = compare_tables(real, other, SCHEMA)
    assert comparison.columns.set_index("column")["total_variation"]["a"] == pytest.approx(0.5)
    assert comparison.one_way == pytest.approx(0.5 / 3)
    codes, sizes = comparison_codes(real, SCHEMA)
    assert sizes == [3, 16, 16]
    assert codes[:, 0].tolist() == [0, 0, 1, 2]


def test_the_comparison_is_marked_as_not_for_release():
    comparison = compare_tables(table(300, 0), table(300, 1), SCHEMA, target="a")
    for text in (str(comparison), repr(comparison)):
        assert text.startswith("NOT FOR RELEASE")
    assert 0.3 < comparison.target_auc < 0.7  # the target is independent of the other columns
    assert "AUC" in str(comparison)


def test_invalid_arguments():
    with pytest.raises(InvalidArgumentError, match="schema"):
        compare_tables(table(10, 0), table(10, 1), {"a": 1})
    with pytest.raises(InvalidArgumentError, match="target"):
        compare_tables(table(10, 0), table(10, 1), SCHEMA, target="z")
    with pytest.raises(InvalidArgumentError, match="synthetic"):
        compare_tables(table(10, 0), table(0, 1), SCHEMA)
    assert dpem.compare_tables is compare_tables
