"""Scikit-learn's tests of what its mixtures share, on dpem's Gaussian mixture at epsilon = inf."""

import sklearn.mixture

from support.foreign_tests import ForeignTests
from support.plain_estimators import GaussianMixture

SUITE = ForeignTests(
    "sklearn.mixture.tests.test_mixture",
    sklearn.mixture,
    GaussianMixture,
    not_applicable={},
    known_defects={
        "test_mixture_n_components_greater_than_n_samples_error": (
            "the error for fewer rows than components is that of k-means, which names n_clusters"
        ),
    },
    parameters={
        "dpem has no variational mixture": lambda name, value: not isinstance(value, GaussianMixture),
    },
)
globals().update(SUITE.collected())
