"""Charged measures of clusterings: correct within their stated error, and charged."""

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem import Ledger, clipped_fraction, nicv, private_nicv
from dpem.errors import InsufficientBudgetError, InvalidArgumentError
from dpem.testing import record, replay

RELATIONS = ["replace_one", "add_remove"]
X = np.random.default_rng(0).normal(size=(20_000, 3))
CENTRES = np.array([[-1.0, 0, 0], [1.0, 0, 0]])


def test_nicv_is_the_mean_squared_distance():
    truth = ((X[:, None] - CENTRES[None]) ** 2).sum(axis=2).min(axis=1).mean()
    assert nicv(X, CENTRES) == pytest.approx(truth, rel=1e-12)
    assert nicv(pd.DataFrame(X), CENTRES) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_private_nicv(adjacency):
    """The value is within eight standard errors of the truth, and the statement has the budget."""
    released = private_nicv(X, CENTRES, epsilon=0.5, data_norm=6.0, adjacency=adjacency)
    assert abs(float(released) - nicv(X, CENTRES)) < 8 * released.standard_error + 1e-3
    assert 0 < released.standard_error < 0.5
    assert released.privacy.epsilon == 0.5
    assert released.privacy.is_private


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_clipped_fraction(adjacency):
    """Rows beyond the bounds, with NaN or with infinite values count as clipped; no others do."""
    rows = X.copy()
    rows[:1000, 0] = np.nan
    rows[1000:2000, 1] = -np.inf
    rows[2000:4000, 2] = 99.0
    for limits in ({"bounds": (-8, 8)}, {"data_norm": 20.0}):
        released = clipped_fraction(rows, epsilon=1.0, adjacency=adjacency, **limits)
        assert abs(released.value - 0.2) < 8 * released.standard_error
    assert clipped_fraction(X, epsilon=1.0, bounds=(-8, 8)).value < 0.05


def test_charged_and_refused(tmp_path):
    """Each call is charged before any row is read; an invalid call spends nothing."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    clipped_fraction(X, epsilon=0.9, bounds=(-1, 1), ledger=ledger.path)
    assert ledger.history()[0].purpose == "dpem.clipped_fraction"
    with pytest.raises(InsufficientBudgetError):
        private_nicv(X, CENTRES, epsilon=0.9, bounds=(-1, 1), ledger=ledger)
    with pytest.raises(InvalidArgumentError, match="exactly one of bounds"):
        private_nicv(X, CENTRES, epsilon=0.1, ledger=ledger)
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        clipped_fraction(X, epsilon=-1, bounds=(-1, 1), ledger=ledger)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(
    "centers", [[1.0, 2.0, 3.0], np.zeros((0, 3)), np.zeros((2, 1)), [[np.nan, 0, 0]], [[100.0, 0, 0]]]
)
def test_invalid_centres_are_refused_before_the_charge(tmp_path, centers):
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-5)
    with pytest.raises(InvalidArgumentError, match="Expected centers of shape"):
        private_nicv(X, centers, epsilon=0.1, bounds=(-3, 3), ledger=ledger)
    assert ledger.history() == []


def test_the_value_depends_on_the_release_alone():
    """Replayed on other rows, the released number is the same, so the true count is not used."""
    arguments = {"epsilon": 1.0, "bounds": (-3, 3), "adjacency": "add_remove"}
    with record() as first:
        value = private_nicv(X[:50], CENTRES, **arguments).value
    with replay(first):
        assert private_nicv(X[:49], CENTRES, **arguments).value == value


def test_an_empty_table_does_not_raise_if_its_size_is_private():
    assert np.isfinite(clipped_fraction(X[:0], epsilon=1.0, bounds=(-1, 1), adjacency="add_remove").value)
    assert dpem.nicv(X[:0], CENTRES) == 0.0
