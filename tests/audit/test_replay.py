"""Record and replay of every estimator, mode and neighbouring relation, on hostile tables."""

from collections import Counter
from inspect import signature

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem import registry
from dpem.audit import run
from dpem.audit.neighbours import as_cells, neighbours
from dpem.audit.obligations import OBLIGATIONS, largest_ratio
from dpem.audit.run import _BASES, Attack, _has_base, perform
from dpem.audit.subject import subject_of
from dpem.audit.violations import SLACK
from dpem.errors import AuditFailedError, InvalidArgumentError
from dpem.estimator.saving import _MODELS
from dpem.estimator.trials import mixed_table, points
from dpem.plugin import clipped as clipped_statistic

TRIALS = registry.trials()
# Clusters and a hundred columns take seconds per fit: `make audit` replays all of them, the tests one. The
# modes of fits on the mixed table are included with other rows.
QUICK = {name: trial for name, trial in TRIALS.items() if not trial.slow and trial.rows is not mixed_table}
FITS = [(name, adjacency) for name, trial in QUICK.items() for adjacency in trial.relations]
FITS.append(("KMeans, Dask", "add_remove"))


def model(**changes):
    return dpem.paper.KMeans(
        2, **{"epsilon": 1.0, "data_norm": 1.0, "noise": "gaussian", "max_iter": 2} | changes
    )


@pytest.mark.parametrize(("name", "adjacency"), FITS)
def test_releases_of_neighbouring_tables_differ_by_at_most_the_sensitivity(name, adjacency):
    """For any replaced, added or removed row, all other visible output has the same bits."""
    subject = subject_of(name, TRIALS[name].epsilon, adjacency)
    found = dpem.audit.replay(subject, TRIALS[name].rows(40), hostile=6, search=6)
    found.require()
    assert found.pairs >= 7
    assert found.worst > 0.1  # otherwise the attack would be too weak


ODD = FITS[:-1:20]


@pytest.mark.parametrize(("name", "adjacency"), ODD)
def test_unusual_tables_are_as_safe_as_others(name, adjacency):
    """Tables have hostile rows, one row, one row many times, or none; `make audit` tests every fit so."""
    for base in _BASES[1:]:
        if _has_base(TRIALS[name], adjacency, base):
            finding = perform(Attack("replay", name, adjacency, TRIALS[name].epsilon, base))
            assert finding.passed, finding.text


def test_every_estimator_has_trials():
    """Every estimator and mode has trials for the audit and the conformance tests."""
    found = {model for model in _MODELS.values() if model.__module__.startswith("dpem.")}
    both = {model for model in found if "adjacency" in signature(model).parameters}
    fitted = {(type(QUICK[name].make(adjacency)), adjacency) for name, adjacency in FITS[:-1]}
    assert {(model, "replace_one") for model in found} | {(model, "add_remove") for model in both} <= fitted
    assert found == {type(trial.make()) for trial in TRIALS.values() if trial.rows is mixed_table}
    kinds = {getattr(trial.make(), "covariance_type", None) for trial in QUICK.values()}
    assert {"full", "tied", "diag", "spherical"} <= kinds


@pytest.mark.parametrize("name", registry.model_names())
def test_every_registered_model_has_trials(name):
    """Models of dpem have trials on own rows and on the shared table; those of other packages on own rows."""
    shared = {trial.rows is mixed_table for trial in registry.trials_of(name).values()}
    assert shared == ({True, False} if name in registry.shipped() else {False})


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_neighbours_are_neighbours(adjacency):
    """The tables of a pair differ in one row, or in the rows of one person."""
    for name, rows_changed in (
        ("KMeans", 1),
        ("KMeans, three rows a person", 3),
        ("MixedMixture", 1),
        ("KMeans, persons", 7),  # more than the cap
    ):
        subject = subject_of(name, 1.0, adjacency)
        rows = as_cells(subject, TRIALS[name].rows(20))
        for one, other in neighbours(subject, rows):
            if adjacency == "add_remove":
                assert 1 <= abs(len(one) - len(other)) <= rows_changed
                assert one is rows
                continue
            cells = [[tuple(map(repr, row)) for row in np.asarray(table)] for table in (one, other)]
            assert sum(a != b for a, b in zip(*cells, strict=True)) <= rows_changed


def test_tables_that_are_not_neighbours_are_detected():
    """The check fails if two rows change, although the relation allows one."""
    rows = points(40)
    other = rows.copy()
    other[0], other[1] = [1.0, 0.0], [0.0, -1.0]
    opposite = rows.copy()
    opposite[0], opposite[1] = [-1.0, 0.0], [0.0, 1.0]
    found = dpem.audit.replay(model(), rows, [(opposite, other)])
    assert {violation.check for violation in found.violations} == {"distance"}
    with pytest.raises(AuditFailedError, match="VIOLATION distance"):
        found.require()


class Halves(dpem.ExponentialFamily):
    """A plug-in model: half the means of two columns."""

    def start(self, schema, random_state, centres):
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row) / 2

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": statistics / n_rows}


class Peeking(dpem.PrivateEM):
    """A user's estimator that keeps a cell of the rows."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.first_ = repr(X.iloc[0, 0])
        return self


def test_a_users_plug_in_model_can_be_audited():
    """A correct model passes; an estimator that bypasses the gate does not."""
    schema = dpem.Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in "ab"})
    table = pd.DataFrame(points(30), columns=["a", "b"])
    settings = {"schema": schema, "epsilon": 1.0, "max_iter": 1, "clip_norm": 1.0}
    dpem.audit.replay(dpem.PrivateEM(Halves(), **settings), table, hostile=6, search=0).require()
    found = dpem.audit.replay(Peeking(Halves(), **settings), table, hostile=6, search=0)
    assert {(violation.check, violation.where) for violation in found.violations} >= {
        ("output", "result.first_")
    }


def test_the_users_ledger_is_not_charged(tmp_path):
    """An audit charges its own ledgers."""
    ledger = dpem.Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    assert dpem.audit.replay(model(ledger=ledger), points(20), hostile=2, search=0).passed
    assert ledger.history() == []


def test_a_person_of_many_rows_is_one_unit():
    """All rows of one person change together; those of other persons stay."""
    trial = TRIALS["KMeans, persons"]
    for adjacency in trial.relations:
        subject = subject_of("KMeans, persons", 1.0, adjacency)
        rows = as_cells(subject, trial.rows(60))
        for one, other in neighbours(subject, rows):
            cells = [Counter(tuple(map(repr, row)) for row in np.asarray(t)) for t in (one, other)]
            changed = (cells[0] - cells[1]) + (cells[1] - cells[0])
            assert len({row[-1].strip("b'").removesuffix(".0") for row in changed}) <= 1
            if adjacency == "replace_one":
                assert list(one["patient"]) == list(other["patient"])


@pytest.mark.parametrize("name", OBLIGATIONS)
def test_rows_reach_the_bound_of_a_proof_and_no_more(name):
    """Every step of a proof holds, and the attack comes close to its bound."""
    assert 0.9 < largest_ratio(name) <= 1 + SLACK


class NumbersByBlock(dpem.ExponentialFamily):
    """A plug-in model: the means of the columns."""

    def start(self, schema, random_state, centres):
        return {"mean": np.zeros(2)}

    def expected_statistics(self, row, parameters):
        return np.nan_to_num(row)

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": statistics / n_rows}


def test_a_row_that_changes_another_is_detected(monkeypatch):
    """The bug centres rows by the mean of their block, so that one row changes what all others add."""
    sound = clipped_statistic.statistic_vectors
    monkeypatch.setattr(
        clipped_statistic,
        "statistic_vectors",
        lambda *arguments: (found := sound(*arguments)) - found.mean(axis=1, keepdims=True),
    )
    model = dpem.PrivateEM(NumbersByBlock(), epsilon=1.0, bounds=(-1, 1), clip_norm=1.0, max_iter=1)
    found = dpem.audit.replay(model, points(30), hostile=2, search=0)
    assert ("rows", "em 1") in {(violation.check, violation.where) for violation in found.violations}


def test_missing_sources_are_left_out(monkeypatch):
    monkeypatch.setattr(run, "can_open", lambda source: source not in {"Dask", "Spark"})
    assert not [task for task in run.tasks("quick") if task.name.endswith(("Dask", "Spark"))]
    assert [task for task in run.tasks("quick") if task.name.endswith("Parquet file")]


def test_invalid_subjects_raise():
    with pytest.raises(InvalidArgumentError, match="with a schema"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=1.0, data_norm=1.0, person="who"), points(10))
    with pytest.raises(InvalidArgumentError, match="an estimator of dpem"):
        dpem.audit.replay("KMeans", points(10))
    with pytest.raises(InvalidArgumentError, match="finite epsilon"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=np.inf, data_norm=1.0), points(10))
    with pytest.raises(AuditFailedError, match=r"got an exception on these rows.*data_norm"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=1.0, bounds=(0, 1), data_norm=1.0), points(10))
    with pytest.raises(InvalidArgumentError, match="at least 3 rows"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=1.0, data_norm=1.0, rows_per_person=3), points(2))


def test_a_report_shows_no_value():
    """The printed report names stages and attributes only."""
    found = dpem.audit.replay(model(), points(20), hostile=3, search=0)
    assert "3 pairs of neighbours" in str(found)
    assert str(found).endswith("no violation")
