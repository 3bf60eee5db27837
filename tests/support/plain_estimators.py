"""dpem at epsilon = inf behind scikit-learn's constructors, for scikit-learn's own tests.

The classes have scikit-learn's names and arguments. Arguments that dpem supports are passed on. Arguments of
the computation (a start, a number of starts, a solver) are stored and have no effect. Arguments that would
change the result raise `NotOffered`, unless they have their default value.
"""

import copy
import inspect
import math
import warnings
from contextlib import contextmanager

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.fixes import parse_version

import dpem
from dpem.errors import InvalidArgumentError

__all__ = ["FactorAnalysis", "GaussianMixture", "KMeans", "NotOffered"]

# Wider than all rows of scikit-learn's tests: nothing is clipped.
PLAIN = {"epsilon": math.inf, "bounds": (-1e6, 1e6), "n_jobs": 1}

_SCALES = parse_version(sklearn.__version__) >= parse_version("1.7")  # one message ends differently

# Scikit-learn's tests match the messages of scikit-learn, so those of dpem are translated.
WORDS = {
    "Expected means_init of shape": "The parameter 'means' should have the shape of",
    "Expected covariances of full rank": (
        "Fitting the mixture model failed because some components have ill-defined empirical covariance (for "
        "instance caused by singleton or collapsed samples). Try to decrease the number of components, "
        + ("increase reg_covar, or scale the input data." if _SCALES else "or increase reg_covar.")
    ),
    "Expected at least n_clusters=": "n_samples should be >= n_clusters.",
    "got n_samples=0": "Invalid value for 'n_samples'",
    "did not converge in max_iter": (
        "Best performing initialization did not converge. Try different init parameters, or increase "
        "max_iter, tol, or check for degenerate data."
    ),
}


class NotOffered(Exception):  # noqa: N818  (a reason to stop, not an error of dpem)
    """A feature of scikit-learn that dpem does not have."""


def _require(name, value, default):
    if value is not default and not (isinstance(value, type(default)) and value == default):
        raise NotOffered(f"{name}={value!r}")


def _translated(message):
    for ours, theirs in WORDS.items():
        if ours in message:
            return f"{theirs} {message}"
    return message


@contextmanager
def _as_in_scikit_learn(estimator):
    """Draw from NumPy's global generator if no seed is given; translate errors and warnings.

    Yields the list of warnings.
    """
    given = estimator.random_state
    estimator.random_state = np.random.mtrand._rand if given is None else given
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield caught
            except InvalidArgumentError as error:
                raise InvalidArgumentError(_translated(str(error))) from error
    finally:
        estimator.random_state = given
    for warning in caught:
        warnings.warn(_translated(str(warning.message)), warning.category, stacklevel=4)


class GaussianMixture(dpem.GaussianMixture):
    """Plain EM. `converged_` is False if dpem warned; `aic` and `bic` are those of `to_sklearn`.

    dpem has no warm start. With ``warm_start=True`` the adapter starts again from the same seed and runs the
    additional steps, which gives the same path. On a long path it runs a tenth more steps at once, because a
    test that requests single steps would otherwise repeat all of them every time.
    """

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        tol=1e-3,
        reg_covar=1e-6,
        max_iter=100,
        n_init=1,
        init_params="kmeans",
        weights_init=None,
        means_init=None,
        precisions_init=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        verbose_interval=10,
    ):
        super().__init__(
            n_components,
            covariance_type=covariance_type,
            tol=tol,
            reg_covar=reg_covar,
            max_iter=max_iter,
            means_init=means_init,
            random_state=random_state,
            verbose=verbose,
            **PLAIN,
        )
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.precisions_init = precisions_init
        self.warm_start = warm_start
        self.verbose_interval = verbose_interval

    def fit(self, X, y=None):
        given = self.random_state, self.max_iter
        taken, seed = getattr(self, "_warm", (0, copy.deepcopy(self.random_state)))
        if self.warm_start:
            self.random_state, self.max_iter = copy.deepcopy(seed), taken + max(self.max_iter, taken // 10)
        try:
            with _as_in_scikit_learn(self) as caught:
                super().fit(X, y)
        finally:
            self.random_state, self.max_iter = given
        if self.warm_start:
            self._warm = self.n_iter_, seed
            self.n_iter_ -= taken
        self.converged_ = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
        return self

    def fit_predict(self, X, y=None):
        return self.fit(X, y).predict(X)

    def sample(self, n_samples=1):  # scikit-learn always returns the components, too
        with _as_in_scikit_learn(self):
            return super().sample(n_samples, return_components=True)

    def aic(self, X):
        return self.to_sklearn().aic(X)

    def bic(self, X):
        return self.to_sklearn().bic(X)

    def _n_parameters(self):
        return self.to_sklearn()._n_parameters()


class KMeans(dpem.KMeans):
    """Plain k-means. `labels_` and `inertia_` are `predict` and `score` of the rows of the fit."""

    def __init__(
        self,
        n_clusters=8,
        *,
        init="k-means++",
        n_init="auto",
        max_iter=300,
        tol=1e-4,
        verbose=0,
        random_state=None,
        copy_x=True,
        algorithm="lloyd",
    ):
        super().__init__(n_clusters, max_iter=max_iter, verbose=verbose, random_state=random_state, **PLAIN)
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.copy_x = copy_x
        self.algorithm = algorithm

    def fit(self, X, y=None, sample_weight=None):
        _require("tol", self.tol, 1e-4)
        _require("sample_weight", sample_weight, None)
        with _as_in_scikit_learn(self):
            super().fit(X, y)
        self.labels_, self.inertia_ = self.predict(X), -self.score(X)
        return self

    def fit_predict(self, X, y=None, sample_weight=None):
        return self.fit(X, y, sample_weight).labels_


class FactorAnalysis(dpem.FactorAnalysis):
    """Plain factor analysis. `loglike_` has the last value only.

    There is no `tol`: scikit-learn's refers to the total log-likelihood, dpem's to its mean per column.
    """

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        max_iter=1000,
        noise_variance_init=None,
        svd_method="randomized",
        iterated_power=3,
        rotation=None,
        random_state=0,
        verbose=False,
    ):
        # Versions with max_iter receive it; versions without it are a known defect.
        steps = (
            {"max_iter": max_iter} if "max_iter" in inspect.signature(dpem.FactorAnalysis).parameters else {}
        )
        super().__init__(n_components, random_state=random_state, verbose=verbose, **steps, **PLAIN)
        self.copy = copy
        self.max_iter = max_iter
        self.noise_variance_init = noise_variance_init
        self.svd_method = svd_method
        self.iterated_power = iterated_power
        self.rotation = rotation

    def fit(self, X, y=None):
        _require("rotation", self.rotation, None)
        if self.n_components in (None, 0):
            raise NotOffered(f"n_components={self.n_components}")
        with _as_in_scikit_learn(self):
            super().fit(X, y)
        self.loglike_ = [self.score_samples(X).sum()]
        return self
