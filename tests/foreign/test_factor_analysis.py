"""Scikit-learn's test of its factor analysis, on dpem's at epsilon = inf."""

import sklearn.decomposition

from support.foreign_tests import ForeignTests
from support.plain_estimators import FactorAnalysis

SUITE = ForeignTests(
    "sklearn.decomposition.tests.test_factor_analysis",
    sklearn.decomposition,
    FactorAnalysis,
    not_applicable={},
    known_defects={},
    # The rest of the test is about models without factors and about rotations.
    up_to={"test_factor_analysis": "n_components=0"},
)
globals().update(SUITE.collected())
