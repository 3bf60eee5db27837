"""Scikit-learn's common tests of its mixtures, on dpem's Gaussian mixture at epsilon = inf."""

import sklearn.mixture

from support.foreign_tests import ForeignTests
from support.plain_estimators import GaussianMixture

SUITE = ForeignTests(
    "sklearn.mixture.tests.test_mixture",
    sklearn.mixture,
    GaussianMixture,
    not_applicable={},
    known_defects={},
    parameters={
        "dpem has no variational mixture": lambda name, value: not isinstance(value, GaussianMixture),
    },
)
globals().update(SUITE.collected())
