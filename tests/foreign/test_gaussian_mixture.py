"""Scikit-learn's tests of its Gaussian mixture, on dpem's at epsilon = inf."""

import sklearn.mixture

from support.foreign_tests import ForeignTests
from support.plain_estimators import GaussianMixture

_HELPERS = "it tests private functions of scikit-learn, not the estimator"
_PRECISIONS = "dpem has no precisions_init: a fit starts from k-means or from means_init"
_STEPS = "dpem runs at least one step, so max_iter=0 is refused"
_BOUND = "dpem has no lower_bound_, because a training likelihood is not private"
_ARRAY_API = "dpem computes on NumPy arrays; tensors are tested separately"

SUITE = ForeignTests(
    "sklearn.mixture.tests.test_gaussian_mixture",
    sklearn.mixture,
    GaussianMixture,
    not_applicable={
        "test_suffstat_sk_full": _HELPERS,
        "test_suffstat_sk_tied": _HELPERS,
        "test_suffstat_sk_diag": _HELPERS,
        "test_gaussian_suffstat_sk_spherical": _HELPERS,
        "test_compute_log_det_cholesky": _HELPERS,
        "test_gaussian_mixture_log_probabilities": _HELPERS,
        "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": _HELPERS,
        "test_gaussian_mixture_precisions_init": _PRECISIONS,
        "test_check_precisions": _PRECISIONS,
        "test_check_weights": "dpem has no weights_init: a fit starts from k-means",
        "test_max_iter_zero": _STEPS,
        "test_init_means_not_duplicated": _STEPS,
        "test_init": _BOUND,
        "test_gaussian_mixture_setting_best_params": _BOUND,
        "test_gaussian_mixture_n_parameters": "to_sklearn, which has aic and bic, is of type full",
        "test_gaussian_mixture_array_api_compliance": _ARRAY_API,
        "test_gaussian_mixture_raises_where_array_api_not_implemented": _ARRAY_API,
    },
    known_defects={},
    parameters={
        "dpem starts from k-means only": lambda name, value: name == "init_params" and value != "kmeans",
    },
    since={
        "test_gaussian_mixture_array_api_compliance": "1.8",
        "test_gaussian_mixture_raises_where_array_api_not_implemented": "1.8",
    },
)
globals().update(SUITE.collected())
