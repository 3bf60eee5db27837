"""Estimated bounds: their accuracy, charge, records and warnings."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpem
from dpem import Ledger, Schema, private_bounds
from dpem.errors import InsufficientBudgetError, InvalidArgumentError, LedgerError, WeakSignalWarning
from dpem.testing import insecure_noise

RELATIONS = ["replace_one", "add_remove"]


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(45, 15, n).clip(0, 110).round().astype(int),
            "income": rng.lognormal(10.5, 0.8, n),
            "gain": np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(8, 1, n)),
            "balance": rng.normal(-5, 1, n),
            "zero": np.zeros(n),
        }
    )


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_bounds_fit_the_rows(adjacency):
    """Nearly all rows are within the bounds, and no bound is far beyond the rows."""
    rows = table()
    found = private_bounds(rows, epsilon=1.0, adjacency=adjacency)
    for column in found.schema.columns:
        low, high = column.bounds
        values = rows[column.name]
        assert values.between(low, high).mean() > 0.95
        assert high <= max(2 * values.max(), 1)
        assert low >= min(2 * values.min(), -1)
    whole = Schema({"age": {"kind": "integer"}})
    bounds = private_bounds(rows[["age"]], whole, epsilon=1.0, adjacency=adjacency).schema.columns[0].bounds
    assert bounds == tuple(map(round, bounds))
    assert found.privacy.epsilon == 1.0
    assert found.privacy.adjacency == adjacency


def test_the_cost_is_recorded_with_the_bounds(tmp_path):
    """The schema, its file and the statement of a fit record it; the ledger is charged for both."""
    ledger = Ledger.create(tmp_path / "l.db", name="people", cap_epsilon=2.0, cap_delta=1e-5)
    rows = table()[["age", "income"]]
    found = private_bounds(rows, epsilon=0.5, delta=1e-6, ledger=ledger)
    assert all(column.bounds_cost == (0.5, 1e-6) for column in found.schema.columns)
    found.schema.save(tmp_path / "s.toml")
    assert Schema.read(tmp_path / "s.toml") == found.schema
    left = ledger.remaining().epsilon
    assert left < 1.95
    model = dpem.KMeans(2, epsilon=0.5, delta=1e-6, schema=found.schema, ledger=ledger).fit(rows)
    assert ledger.remaining().epsilon < left
    assert [spend.purpose for spend in ledger.history()] == ["dpem.private_bounds", "dpem.KMeans.fit"]
    assert model.privacy_.bounds_source == "estimated"
    assert "comes on top" in str(model.privacy_)
    with pytest.raises(InsufficientBudgetError):
        private_bounds(rows, epsilon=5.0, delta=1e-6, ledger=tmp_path / "l.db")


def test_declared_bounds_are_kept_and_cost_nothing():
    rows = table()[["age", "income"]]
    draft = Schema.from_types(rows).declare({"age": {"bounds": [0, 120]}})
    found = private_bounds(rows, draft, epsilon=1.0).schema
    assert found.columns[0].bounds == (0, 120)
    assert found.columns[0].bounds_cost is None
    with pytest.raises(InvalidArgumentError, match="Nothing was charged"):
        private_bounds(rows, found, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match=r"a dpem\.Schema"):
        private_bounds(rows, {"age": {}}, epsilon=1.0)


def test_other_kinds_of_table():
    rows = table()[["age", "balance"]]
    assert private_bounds(pl.from_pandas(rows), epsilon=1.0).schema.names == ("age", "balance")
    assert private_bounds(rows.to_numpy(), epsilon=1.0).schema.names == ("x0", "x1")
    text = rows.astype(str)
    draft = Schema({"balance": {"kind": "continuous"}, "name": {"kind": "categorical"}})
    found = private_bounds(text, draft, epsilon=1.0).schema
    assert found.lacking == ("name",)


def test_arrays_with_bounds_for_some_columns():
    rows = table()[["age", "balance"]].to_numpy()
    half = Schema({"a": {"kind": "integer", "bounds": [0, 120]}, "b": {"kind": "continuous"}})
    found = private_bounds(rows, half, epsilon=1.0).schema
    assert found.columns[0].bounds == (0, 120)
    assert found.columns[1].bounds[1] < 1
    huge = private_bounds(rows[:, :1] * 1e60, epsilon=1.0).schema.columns[0].bounds
    assert huge[1] > 5e61
    endless = private_bounds(np.where(rows > 0, np.inf, -np.inf), epsilon=1.0).schema.columns[0].bounds
    assert endless[1] == 1e100


def test_columns_hidden_by_noise_stay_without_bounds():
    with pytest.warns(WeakSignalWarning, match="no bounds were found"):
        found = private_bounds(table(20), epsilon=0.1, delta=1e-3)
    assert found.schema.lacking == found.schema.names


def test_a_null_does_not_change_the_draft():
    """Integers become floats in pandas if one cell is null, but the drafted kinds are the same."""
    whole = pd.DataFrame({"age": np.arange(5000) % 90})
    holed = whole.astype(float)
    holed.loc[7, "age"] = np.nan
    kinds = [private_bounds(rows, epsilon=1.0).schema.columns[0].kind for rows in (whole, holed)]
    assert kinds == ["continuous", "continuous"]


def test_seeded_noise_marks_the_bounds_and_models_fitted_with_them(tmp_path):
    """The mark is in the schema, its file, the statement and file of a model, and the ledger."""
    rows = table()[["age", "income"]]
    ledger = Ledger.create(tmp_path / "l.db", name="people", cap_epsilon=9.0, cap_delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(0):
            found = private_bounds(rows, epsilon=0.5, ledger=ledger)
    found.schema.save(tmp_path / "s.toml")
    schema = Schema.read(tmp_path / "s.toml")
    assert all(column.bounds_insecure for column in schema.columns)
    model = dpem.KMeans(2, epsilon=0.5, schema=schema, ledger=ledger).fit(rows)
    assert not model.privacy_.is_private
    assert "seeded noise" in str(model.privacy_)
    model.save(tmp_path / "m")
    assert not dpem.load(tmp_path / "m").privacy_.is_private
    assert [spend.insecure_noise for spend in ledger.history()] == [True, True]
    model.verify_charge(ledger)


def test_a_ledger_must_have_the_charge_of_the_bounds_of_a_fit(tmp_path):
    """Bounds estimated without this ledger are refused, and nothing is charged."""
    rows = table()[["age", "income"]]
    ledgers = [Ledger.create(tmp_path / name, name=name, cap_epsilon=9.0, cap_delta=1e-5) for name in "ab"]
    unpaid = private_bounds(rows, epsilon=0.5).schema
    elsewhere = private_bounds(rows, epsilon=0.5, ledger=ledgers[1]).schema
    for schema in (unpaid, elsewhere):
        with pytest.raises(LedgerError, match="bounds that were charged to the ledger of 'a'"):
            dpem.KMeans(2, epsilon=0.5, schema=schema, ledger=ledgers[0]).fit(rows)
    assert ledgers[0].history() == []
    forged = elsewhere.to_dict()
    for column in forged.values():
        column["bounds_charge"] = {"ledger": "a", "number": 1, "hash": "0" * 64}
    with pytest.raises(LedgerError, match="without such a charge"):
        dpem.KMeans(2, epsilon=0.5, schema=Schema(forged), ledger=ledgers[0]).fit(rows)
    dpem.KMeans(2, epsilon=0.5, schema=elsewhere, ledger=ledgers[1]).fit(rows)


def test_bounds_chosen_after_looking_at_rows_are_marked():
    rows = table()[["age", "income"]]
    schema = private_bounds(rows, epsilon=0.5).schema.declare({"age": {"from_rows": True}})
    model = dpem.KMeans(2, epsilon=0.5, schema=schema).fit(rows)
    assert "chosen after looking at rows, which this guarantee does not cover" in str(model.privacy_)
