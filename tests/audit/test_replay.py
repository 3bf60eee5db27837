"""Record and replay of every estimator, mode and relation, on tables that an adversary chose."""

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem.audit.catalogue import CATALOGUE, points
from dpem.audit.neighbours import as_cells, neighbours
from dpem.audit.run import _BASES, Task, _has_base, perform
from dpem.em.estimator import _MODELS
from dpem.errors import AuditFailedError, InvalidArgumentError

FITS = [(name, adjacency) for name, entry in CATALOGUE.items() for adjacency in entry.relations]


def model(**changes):
    return dpem.paper.KMeans(
        2, **{"epsilon": 1.0, "data_norm": 1.0, "noise": "gaussian", "max_iter": 2} | changes
    )


@pytest.mark.parametrize(("name", "adjacency"), FITS)
def test_neighbours_move_no_release_further_than_it_says(name, adjacency):
    """Whatever row is replaced, added or removed; all else that can be seen stays the same bits."""
    entry = CATALOGUE[name]
    subject = entry.subject(name, entry.epsilon, adjacency)
    found = dpem.audit.replay(subject, entry.rows(40), hostile=6, search=6)
    found.require()
    assert found.pairs >= 7
    assert found.worst > 0.1  # an attack that reaches nothing attacks nothing


ODD = FITS[::20]


@pytest.mark.parametrize(("name", "adjacency"), ODD)
def test_odd_tables_are_as_safe_as_others(name, adjacency):
    """Hostile rows, one row, the same row many times, none: `make audit` does so for every fit."""
    for base in _BASES[1:]:
        if _has_base(name, adjacency, base):
            finding = perform(Task("replay", name, adjacency, CATALOGUE[name].epsilon, base))
            assert finding.passed, finding.said


def test_every_estimator_is_in_the_catalogue():
    """A new estimator, or mode of one, is attacked from its first day."""
    made = {type(entry.make(1.0, relation)) for entry in CATALOGUE.values() for relation in entry.relations}
    assert {model for model in _MODELS.values() if model.__module__.startswith("dpem.")} <= made
    kinds = {getattr(entry.make(1.0, "replace_one"), "covariance_type", None) for entry in CATALOGUE.values()}
    assert {"full", "tied", "diag", "spherical"} <= kinds


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_neighbours_are_neighbours(adjacency):
    """Made pairs differ in one row, or in as many as a person owns."""
    for name, rows_changed in (("KMeans", 1), ("KMeans, three rows a person", 3), ("MixedMixture", 1)):
        entry = CATALOGUE[name]
        subject = entry.subject(name, 1.0, adjacency)
        rows = as_cells(subject, entry.rows(20))
        for one, other in neighbours(subject, rows):
            if adjacency == "add_remove":
                assert abs(len(one) - len(other)) == rows_changed
                continue
            cells = [[tuple(map(repr, row)) for row in np.asarray(table)] for table in (one, other)]
            assert sum(a != b for a, b in zip(*cells, strict=True)) <= rows_changed


def test_tables_that_are_no_neighbours_are_told():
    """The check can fail: two rows that change under a relation of one."""
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
    """A user's own estimator that keeps something of the rows."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.first_ = repr(X.iloc[0, 0])
        return self


def test_a_plug_in_model_of_a_user():
    """A sound model passes; an estimator that looks at rows behind the gate's back does not."""
    schema = dpem.Schema({name: {"kind": "continuous", "bounds": [-1, 1]} for name in "ab"})
    table = pd.DataFrame(points(30), columns=["a", "b"])
    settings = {"schema": schema, "epsilon": 1.0, "max_iter": 1, "clip_norm": 1.0}
    dpem.audit.replay(dpem.PrivateEM(Halves(), **settings), table, hostile=6, search=0).require()
    found = dpem.audit.replay(Peeking(Halves(), **settings), table, hostile=6, search=0)
    assert {(violation.check, violation.where) for violation in found.violations} >= {
        ("output", "result.first_")
    }


def test_the_users_ledger_is_left_alone(tmp_path):
    """An audit charges ledgers of its own."""
    ledger = dpem.Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    assert dpem.audit.replay(model(ledger=ledger), points(20), hostile=2, search=0).passed
    assert ledger.history() == []


def test_what_cannot_be_audited():
    with pytest.raises(InvalidArgumentError, match="an estimator of dpem"):
        dpem.audit.replay("KMeans", points(10))
    with pytest.raises(InvalidArgumentError, match="finite epsilon"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=np.inf, data_norm=1.0), points(10))
    with pytest.raises(AuditFailedError, match=r"cannot be audited.*data_norm"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=1.0, bounds=(0, 1), data_norm=1.0), points(10))
    with pytest.raises(InvalidArgumentError, match="at least 3 rows"):
        dpem.audit.replay(dpem.KMeans(2, epsilon=1.0, data_norm=1.0, rows_per_person=3), points(2))


def test_a_report_names_no_value():
    """What is printed names stages and attributes."""
    found = dpem.audit.replay(model(), points(20), hostile=3, search=0)
    assert "3 pairs of neighbours" in str(found)
    assert str(found).endswith("no violation")
