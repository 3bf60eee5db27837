"""Data quality: its plan, sensitivity, counts and warning."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem import Schema
from dpem.errors import DataQualityWarning, InvalidArgumentError, LedgerError, NoLedgerWarning
from dpem.estimator.data_quality import FINDINGS, DataQuality, with_quality_stage
from dpem.gate.plan import Plan, Stage
from dpem.privacy.events import flatten
from dpem.privacy.gaussian_dp import epsilon_at, mu_for
from dpem.testing import record, replay, trial_table
from support.model_files import with_metadata

SCHEMA = Schema(
    {
        "amount": {"kind": "continuous", "bounds": [0, 20_000]},
        "age": {"kind": "integer", "bounds": [0, 120]},
    }
)
RELATIONS = ("replace_one", "add_remove")


def squared_mu(plan):
    return sum(count / Fraction(event.noise_multiplier) ** 2 for event, count in flatten(plan.event).items())


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_data_quality_costs_a_hundredth_of_the_budget(adjacency):
    """With the stage the plan costs no more than without, and loses almost nothing to rounding."""
    plan = Plan.build(
        [Stage("a", 0.3, 2.0), Stage("b", 0.7, 1.0, repeats=5)], epsilon=1.0, delta=1e-6, adjacency=adjacency
    )
    shared = with_quality_stage(plan, 7)
    assert squared_mu(shared) <= squared_mu(plan)
    assert squared_mu(shared) > squared_mu(plan) * Fraction(999_999, 1_000_000)
    first = shared.stages[0]
    part = Fraction(1) / Fraction(first.event.noise_multiplier) ** 2 / squared_mu(plan)
    assert float(part) == pytest.approx(0.01, rel=1e-6)
    root = 14 if adjacency == "replace_one" else 7
    assert first.sensitivity == pytest.approx(math.sqrt(root), rel=1e-9)
    assert sum(stage.share for stage in shared.stages) == pytest.approx(1.0)


FITS = {
    "KMeans": lambda **a: dpem.KMeans(2, **a),
    "GaussianMixture": lambda **a: dpem.GaussianMixture(1, **a),
    "FactorAnalysis": lambda **a: dpem.FactorAnalysis(1, **a),
    "MixedMixture": dpem.MixedMixture,
    "MixedMixture, em": lambda **a: dpem.MixedMixture(2, method="em", max_iter=2, **a),
}


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("name", FITS)
def test_unreadable_amounts_cause_a_warning(name, adjacency, tmp_path):
    """Text such as "1,234.50" is detected in every fit with a schema; model and file contain the counts."""
    table = trial_table("amounts", n_rows=6000)
    make = FITS[name]
    with pytest.warns(DataQualityWarning, match=r"'amount': \d+% unreadable.*their format in the schema"):
        model = make(schema=SCHEMA, epsilon=2.0, adjacency=adjacency).fit(table)
    shares = model.data_quality_.to_frame()
    true = (table["amount"].str.len() > 6).mean()  # below 1,000 there is no separator
    assert shares.loc["amount", "unreadable"] == pytest.approx(true, abs=8 * shares["standard_error"].iloc[0])
    assert list(model.data_quality_.bad) == ["amount"]
    assert "The schema does not fit the rows of 'amount'" in str(model)
    model.save(tmp_path / "m")
    again = dpem.load(tmp_path / "m").data_quality_
    np.testing.assert_array_equal(again.counts, model.data_quality_.counts)
    assert str(again) == str(model.data_quality_)
    read = SCHEMA.declare({"amount": {"thousands": ","}})
    fine = make(schema=read, epsilon=2.0, adjacency=adjacency).fit(table)
    assert fine.data_quality_.bad == {}


@pytest.mark.filterwarnings("ignore::dpem.errors.WeakSignalWarning")
def test_it_can_be_turned_off_and_is_absent_without_a_schema():
    table = trial_table("amounts", n_rows=2000)
    off = dpem.MixedMixture(schema=SCHEMA, epsilon=1.0, data_quality=False).fit(table)
    assert off.data_quality_ is None
    assert all(stage.name != "data quality" for stage in off.plan_.stages)
    assert dpem.KMeans(2, epsilon=1.0, bounds=(0, 120)).fit(table[["age"]]).data_quality_ is None
    with pytest.raises(InvalidArgumentError, match="data_quality"):
        dpem.MixedMixture(schema=SCHEMA, epsilon=1.0, data_quality="yes").fit(table)


@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize("person", [None, "id"])
def test_one_row_or_person_moves_the_counts_by_no_more_than_the_sensitivity(adjacency, person):
    """From all good to all bad cells, in every way; and the bound is attained."""
    rng = np.random.default_rng(0)
    n, columns = 60, list("abcdef")
    number = {"kind": "continuous", "bounds": [0, 1]}
    schema = Schema(dict.fromkeys(columns, number))
    table = pd.DataFrame({name: rng.random(n).astype(object) for name in columns})
    rows_per_person = 1 if person is None else 3
    if person is not None:
        table["id"] = np.arange(n) // 3
    arguments = {"schema": schema, "epsilon": 1.0, "adjacency": adjacency, "random_state": 0}
    arguments |= {"rows_per_person": rows_per_person, "person": person}
    with record() as first:
        dpem.MixedMixture(**arguments).fit(table)
    largest = 0.0
    for bad in ("?", None, 7.0, -3.0):
        other = table.copy()
        other.loc[: rows_per_person - 1, columns] = bad
        if adjacency == "add_remove":
            extra = other.iloc[:rows_per_person].copy()
            if person is not None:
                extra["id"] = 10**6
            other = pd.concat([table, extra], ignore_index=True)
        with replay(first) as second:
            dpem.MixedMixture(**arguments).fit(other)
        assert first.releases[0].stage == "data quality"
        largest = max(largest, first.releases[0].distance(second.releases[0]))
        pairs = zip(first.releases, second.releases, strict=True)
        assert max(a.distance(b) for a, b in pairs) <= 1
    assert largest > 0.999


def test_columns_that_are_clearly_bad():
    """A column is clearly bad if its count minus six deviations of noise exceeds one row in fifty."""
    counts = np.zeros((2, len(FINDINGS)))
    counts[0, 1], counts[1, 3] = 600, 1000
    quality = DataQuality(("a", "b"), counts, noise=100.0, n_rows=10_000.0)
    assert quality.bad == {"b": {"clipped": 0.1}}
    with pytest.warns(DataQualityWarning, match=r"'b': 10% clipped.*wider bounds.*dpem check, may not"):
        quality.warn()


@pytest.mark.parametrize(
    ("finding", "about_formats"), list(zip(FINDINGS, (True, True, False, False), strict=True))
)
def test_a_check_of_the_rows_is_advised_for_formats_only(finding, about_formats):
    """Bounds and categories may follow from the released shares, never from a look at the rows."""
    counts = np.where(np.array(FINDINGS) == finding, 1000.0, 0.0)[None]
    with pytest.warns(DataQualityWarning) as caught:
        DataQuality(("a",), counts, noise=10.0, n_rows=10_000.0).warn()
    assert ("Run dpem check" in str(caught[0].message)) is about_formats
    assert ("dpem check, may not" in str(caught[0].message)) is not about_formats


# -- marks and charges -----------------------------------------------------------------------------------


def test_a_loaded_model_needs_a_ledger_for_its_score(tmp_path):
    """A file does not contain the ledger: without a ledger the score and another fit are refused."""
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    ledger = dpem.Ledger.create(tmp_path / "l", name="rows", cap_epsilon=9.0, cap_delta=1e-3)
    model = dpem.GaussianMixture(1, epsilon=1.0, bounds=(-4, 4), ledger=ledger).fit(rows)
    model.save(tmp_path / "m")
    loaded = dpem.load(tmp_path / "m")
    with pytest.raises(InvalidArgumentError, match=r"charged to the ledger of 'rows'.*ledger="):
        loaded.private_score(rows, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match=r"charged to the ledger of 'rows'"):
        loaded.fit(rows)
    assert len(ledger.history()) == 1
    loaded.private_score(rows, epsilon=1.0, ledger=ledger)
    assert len(ledger.history()) == 2


def test_forged_bounds_are_found(tmp_path):
    """Forged arguments are found at loading, forged arguments and statements by the ledger's record."""
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    ledger = dpem.Ledger.create(tmp_path / "l", name="rows", cap_epsilon=9.0, cap_delta=1e-3)
    dpem.KMeans(2, epsilon=1.0, bounds=(-4, 4), ledger=ledger).fit(rows).save(tmp_path / "m")

    def forge(metadata):
        metadata["parameters"]["bounds"] = [-400, 400]

    def forge_both(metadata):
        forge(metadata)
        metadata["privacy"]["bounds"] = {"x0": "-400 to 400", "x1": "-400 to 400"}

    with pytest.raises(dpem.errors.ModelFileError, match="statement with the same bounds"):
        dpem.load(with_metadata(tmp_path / "m", tmp_path / "one", forge))
    both = dpem.load(with_metadata(tmp_path / "m", tmp_path / "two", forge_both))
    with pytest.raises(LedgerError, match="differ in bounds or budget"):
        both.verify_charge(ledger)
    dpem.load(tmp_path / "m").verify_charge(ledger)
    other = dpem.Ledger.create(tmp_path / "o", name="other", cap_epsilon=9.0, cap_delta=1e-3)
    with pytest.raises(LedgerError, match="ledger of 'rows'"):
        dpem.load(tmp_path / "m").verify_charge(other)


def test_fits_without_a_ledger_are_counted(monkeypatch):
    """The second, fourth and eighth fit warn, with the total cost."""
    monkeypatch.setattr("dpem.gate.payment._count", 0)
    monkeypatch.setattr("dpem.gate.payment._mu_squared", 0.0)
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(8):
            dpem.KMeans(2, epsilon=0.5, bounds=(-4, 4)).fit(rows)
    told = [str(w.message) for w in caught if issubclass(w.category, NoLedgerWarning)]
    assert [words.split()[0] for words in told] == ["2", "4", "8"]
    total = float(told[1].split("epsilon = ")[1].split()[0])
    assert total == pytest.approx(epsilon_at(2 * mu_for(0.5, 1e-6), 1e-6), rel=0.01)
