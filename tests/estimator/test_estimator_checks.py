"""Scikit-learn's checks of estimators in other than the default settings, which the tests of models cover."""

import math

import pytest

import dpem
from dpem.testing import insecure_noise
from support.scikit_learn import checks

_OBJECTS = {"check_dtype_object": "types are never inferred from cells: object arrays are refused"}
_VALUES = {"check_estimators_nan_inf": "a private fit never raises on a value: an error would tell of a row"}
_EMPTY = {
    "check_estimators_empty_data_messages": "under add/remove the number of rows, also none, is private"
}


class SeededMixture(dpem.GaussianMixture):
    """Two fits of the same rows agree, as the checks require, because the noise is seeded."""

    def fit(self, X, y=None):
        with insecure_noise(0):
            return super().fit(X, y)


class SeededKMeans(dpem.KMeans):
    def fit(self, X, y=None):
        with insecure_noise(0):
            return super().fit(X, y)


class SeededFactors(dpem.FactorAnalysis):
    def fit(self, X, y=None):
        with insecure_noise(0):
            return super().fit(X, y)


PRIVATE = {"epsilon": 10.0, "data_norm": 100.0, "random_state": 0}
PLAIN = {"epsilon": math.inf, "data_norm": 1e6, "random_state": 0}
PLAIN_FACTORS = PLAIN | {"tol": 1e-2}
SETTINGS = {
    "mixture, add/remove": (SeededMixture(2, **PRIVATE, adjacency="add_remove"), _OBJECTS | _VALUES | _EMPTY),
    "mixture, missing": (SeededMixture(2, **PRIVATE, missing="em"), _OBJECTS),
    "mixture, missing, add/remove": (
        SeededMixture(2, **PRIVATE, missing="em", adjacency="add_remove"),
        _OBJECTS | _EMPTY,
    ),
    "mixture, plain": (dpem.GaussianMixture(2, **PLAIN), _OBJECTS),
    "k-means, add/remove": (SeededKMeans(2, **PRIVATE, adjacency="add_remove"), _OBJECTS | _VALUES | _EMPTY),
    "k-means, plain": (dpem.KMeans(2, **PLAIN), _OBJECTS),
    "factors, add/remove": (SeededFactors(1, **PRIVATE, adjacency="add_remove"), _OBJECTS | _VALUES | _EMPTY),
    "factors, plain": (dpem.FactorAnalysis(1, **PLAIN_FACTORS), _OBJECTS),
}


def _cases():
    for name, (estimator, expected_failures) in SETTINGS.items():
        for case in checks(estimator, expected_failures):
            yield pytest.param(*case.values, id=f"{name}: {case.id}", marks=case.marks)


@pytest.mark.parametrize(("estimator", "check"), list(_cases()))
@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
def test_scikit_learn_checks(estimator, check):
    """Every check passes, or fails for a documented reason of privacy."""
    check(estimator)
