"""Scikit-learn's tests of its k-means, on dpem's at epsilon = inf."""

import inspect

import sklearn.cluster
from scipy import sparse
from sklearn.base import BaseEstimator

from support.foreign_tests import ForeignTests
from support.plain_estimators import KMeans

_MINI_BATCH = "dpem has no mini-batch k-means"
_HELPERS = "it tests private functions of scikit-learn, not the estimator"
_FUNCTIONS = "it tests a function of scikit-learn, not the estimator"
_WEIGHTS = "dpem refuses sample_weight, because weights change the sensitivity"
_SPARSE = "dpem does not support sparse matrices"
_START = "dpem has no init, which the test needs: a fit chooses its start"
_STARTS = "dpem has no n_init: a plain fit is the best of ten starts"
_TOL = "dpem's k-means has no tol"


def _is_another_estimator(name, value):
    return inspect.isclass(value) and issubclass(value, BaseEstimator) and value is not KMeans


def _is_sparse(name, value):
    classes = (sparse.spmatrix, sparse.sparray)
    return issubclass(value, classes) if inspect.isclass(value) else isinstance(value, classes)


def _is_another_start(name, value):
    if name in ("param", "kwargs"):
        return _is_another_start("init", value.get("init", "k-means++"))
    return name == "init" and not (isinstance(value, str) and value == "k-means++")


SUITE = ForeignTests(
    "sklearn.cluster.tests.test_k_means",
    sklearn.cluster,
    KMeans,
    not_applicable={
        "test_minibatch_update_consistency": _MINI_BATCH,
        "test_minibatch_kmeans_partial_fit_init": _MINI_BATCH,
        "test_minibatch_kmeans_verbose": _MINI_BATCH,
        "test_minibatch_kmeans_warning_init_size": _MINI_BATCH,
        "test_minibatch_sensible_reassign": _MINI_BATCH,
        "test_minibatch_reassign": _MINI_BATCH,
        "test_minibatch_with_many_reassignments": _MINI_BATCH,
        "test_minibatch_kmeans_init_size": _MINI_BATCH,
        "test_minibatch_declared_convergence": _MINI_BATCH,
        "test_minibatch_iter_steps": _MINI_BATCH,
        "test_relocate_empty_clusters": _HELPERS,
        "test_euclidean_distance": _HELPERS,
        "test_inertia": _HELPERS,
        "test_is_same_clustering": _HELPERS,
        "test_k_means_function": _FUNCTIONS,
        "test_kmeans_plusplus_wrong_params": _FUNCTIONS,
        "test_kmeans_plusplus_output": _FUNCTIONS,
        "test_kmeans_plusplus_norms": _FUNCTIONS,
        "test_kmeans_plusplus_dataorder": _FUNCTIONS,
        "test_kmeans_results": _WEIGHTS,
        "test_weighted_vs_repeated": _WEIGHTS,
        "test_unit_weights_vs_no_weights": _WEIGHTS,
        "test_scaled_weights": _WEIGHTS,
        "test_kmeans_empty_cluster_relocated": _WEIGHTS,
        "test_sample_weight_unchanged": _WEIGHTS,
        "test_sample_weight_init": _WEIGHTS,
        "test_sample_weight_zero": _WEIGHTS,
        "test_dense_sparse": _SPARSE,
        "test_predict_dense_sparse": _SPARSE,
        "test_kmeans_relocated_clusters": _START,
        "test_kmeans_init_fitted_centers": _START,
        "test_k_means_1_iteration": _START,
        "test_relocating_with_duplicates": _START,
        "test_kmeans_init_auto_with_initial_centroids": _STARTS,
        "test_warning_n_init_precomputed_centers": _STARTS,
        "test_n_init_auto": _STARTS,
        "test_kmeans_elkan_results": _TOL,
        "test_kmeans_convergence": _TOL,
        "test_kmeans_verbose": _TOL,
        "test_warning_elkan_1_cluster": "dpem has no algorithm=: it always runs Lloyd's algorithm",
        "test_float_precision": "dpem works in float64: float32 rows give float64 centres",
    },
    known_defects={},
    parameters={
        "dpem has only one k-means": _is_another_estimator,
        _SPARSE: _is_sparse,
        "dpem starts from k-means++ only": _is_another_start,
        "dpem has Lloyd's algorithm only": lambda name, value: (
            name in ("algo", "algorithm") and value == "elkan"
        ),
    },
)
globals().update(SUITE.collected())
