"""The density of a fitted Gaussian mixture, in floating-point arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special
from sklearn.base import DensityMixin
from sklearn.mixture import GaussianMixture as PlainGaussianMixture
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.estimator.summary import Gaussians
from dpem.fitting.projection import cholesky
from dpem.models.gaussian_mixture.missing import incomplete_log_joint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import Domain
    from dpem.estimator.base import PrivacyStatement, PublicRandom

__all__ = [
    "BackgroundComponents",
    "GaussianDensityMixin",
    "log_joint",
    "log_sum",
    "precision_cholesky",
    "public_means",
    "sample_gaussian",
]

_BLOCK = 1 << 14


def public_means(means_init: Any, k: int, n_columns: int) -> NDArray[np.float64] | None:
    """Return the public starting means as a validated array, or None."""
    if means_init is None:
        return None
    remedy = "Pass public means, never means of the rows."
    means = _validate.array(means_init, "means_init", remedy)
    if means.shape != (k, n_columns) or not np.isfinite(means).all():
        raise InvalidArgumentError(
            f"Expected means_init of shape ({k}, {n_columns}) with finite numbers, got shape {means.shape} "
            f"or a non-finite number. {remedy}"
        )
    return means


def precision_cholesky(covariances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper factors P of the precisions P P', as in scikit-learn, for covariances (k, d, d)."""
    inverse = np.linalg.inv(cholesky(covariances))
    return np.asarray(inverse.transpose(0, 2, 1))


def log_joint(
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    precisions_cholesky: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return log(weight) plus the log-density of each row in each component, (n, k), for rows (n, d)."""
    n, d = rows.shape
    result = np.empty((n, len(weights)))
    log_det = np.log(np.diagonal(precisions_cholesky, axis1=1, axis2=2)).sum(axis=1)
    constants = np.log(np.maximum(weights, 1e-300)) + log_det - d / 2 * np.log(2 * np.pi)
    for k, (mean, factor) in enumerate(zip(means, precisions_cholesky, strict=True)):
        for start in range(0, n, _BLOCK):
            z = (rows[start : start + _BLOCK] - mean) @ factor
            result[start : start + _BLOCK, k] = constants[k] - 0.5 * (z * z).sum(axis=1)
    return result


def _log_joint_of_known(
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return `log_joint` of the known cells."""
    incomplete = np.isnan(rows).any(axis=1)
    if not incomplete.any():
        return log_joint(rows, weights, means, precision_cholesky(covariances))
    result = np.empty((len(rows), len(weights)))
    result[~incomplete] = log_joint(rows[~incomplete], weights, means, precision_cholesky(covariances))
    result[incomplete] = incomplete_log_joint(rows[incomplete], weights, means, covariances)
    return result


def log_sum(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-density of a mixture from `log_joint`."""
    return np.asarray(special.logsumexp(joint, axis=1))


def sample_gaussian(
    random_state: PublicRandom, n: int, mean: NDArray[np.float64], factor: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw n rows from a Gaussian with the given mean and lower factor of the covariance."""
    return np.asarray(mean + random_state.normal(size=(n, len(mean))) @ factor.T)


@dataclass(frozen=True, eq=False)
class BackgroundComponents:
    """Wide components of the density beside the mixture's `n_components_`.

    Attributes
    ----------
    weights : ndarray of shape (b,)
        Weights in the density. The mixture has the rest.
    means : ndarray of shape (b, d)
    covariances : ndarray of shape (b, d, d)
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]

    @classmethod
    def none(cls, n_columns: int) -> BackgroundComponents:
        """Return no background."""
        return cls(np.zeros(0), np.zeros((0, n_columns)), np.zeros((0, n_columns, n_columns)))


class GaussianDensityMixin(DensityMixin):  # type: ignore[misc]  # scikit-learn has no types
    """Predict, score and sample with `weights_`, `means_`, `covariances_` and `background_`."""

    covariance_type: str
    random_state: Any
    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covariances_: NDArray[np.float64]
    background_: BackgroundComponents
    n_components_: int
    n_iter_: int
    n_features_in_: int
    privacy_: PrivacyStatement

    if TYPE_CHECKING:

        def _rows(self, X: Any) -> NDArray[np.float64]: ...
        def _random(self, random_state: Any = None) -> PublicRandom: ...
        def _domain(
            self, n_columns: int, names: Sequence[str] | None = None, *, keep_distances: bool = True
        ) -> Domain: ...

    def _full_covariances(self) -> NDArray[np.float64]:
        k, d = self.means_.shape
        match self.covariance_type:
            case "tied":
                return np.repeat(self.covariances_[None], k, axis=0)
            case "diag":
                return np.asarray(self.covariances_[:, :, None] * np.eye(d))
            case "spherical":
                return np.asarray(self.covariances_[:, None, None] * np.eye(d))
        return self.covariances_

    @property
    def precisions_cholesky_(self) -> NDArray[np.float64]:
        """Cholesky factors of the precisions, in the shapes of scikit-learn."""
        check_is_fitted(self)
        match self.covariance_type:
            case "diag" | "spherical":
                return np.asarray(1 / np.sqrt(self.covariances_))
            case "tied":
                return np.array(precision_cholesky(self.covariances_[None])[0])
        return precision_cholesky(self.covariances_)

    @property
    def precisions_(self) -> NDArray[np.float64]:
        """Inverse covariances, in the shapes of scikit-learn."""
        factors = self.precisions_cholesky_
        if self.covariance_type in ("diag", "spherical"):
            return np.asarray(factors**2)
        return np.asarray(factors @ np.swapaxes(factors, -1, -2))

    def _all_components(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return weights, means and full covariances of the whole density, background included."""
        check_is_fitted(self)
        wide = self.background_
        return (
            np.concatenate([self.weights_ * (1 - wide.weights.sum()), wide.weights]),
            np.concatenate([self.means_, wide.means]),
            np.concatenate([self._full_covariances(), wide.covariances]),
        )

    def _gaussians(self) -> Gaussians:
        return Gaussians(*self._all_components(), self.n_components_)

    def _joint(self, X: Any) -> NDArray[np.float64]:
        return _log_joint_of_known(self._rows(X), self.weights_, self.means_, self._full_covariances())

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable component for each row. As sensitive as X: do not publish it."""
        return np.asarray(self._joint(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each component for each row, (n, k). As sensitive as X."""
        joint = self._joint(X)
        return np.asarray(np.exp(joint - log_sum(joint)[:, None]))

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-density of each row, background included. As sensitive as X."""
        return log_sum(_log_joint_of_known(self._rows(X), *self._all_components()))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of the rows. As sensitive as X; see `private_score`."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, *, random_state: Any = None, return_components: bool = False) -> Any:
        """Draw rows from the density, without any charge: the density is released.

        Parameters
        ----------
        n_samples : int, default 1
            Number of rows.
        random_state : int or RandomState, optional
            Seed of this draw; the `random_state` of the estimator by default.
        return_components : bool, default False
            Whether to return the component of each row too, as scikit-learn does.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or DataFrame
            Rows; those of a private model are clipped to its bounds, like the rows of the fit. With a
            schema, a DataFrame with its names and types; whole numbers are rounded.
        y : ndarray of shape (n_samples,)
            With `return_components`, the component of each row in increasing order, and -1 for the
            background.
        """
        check_is_fitted(self)
        n = _validate.integer(n_samples, "n_samples")
        both = _validate.flag(return_components, "return_components")
        weights, means, covariances = self._all_components()
        random_state = self._random(random_state)
        counts = random_state.multinomial(n, weights / weights.sum())
        factors = cholesky(covariances)
        labels = np.concatenate([np.arange(self.n_components_), np.full(len(self.background_.weights), -1)])
        rows = [
            sample_gaussian(random_state, count, mean, factor)
            for count, mean, factor in zip(counts, means, factors, strict=True)
        ]
        order = np.argsort(labels, kind="stable")
        X = np.concatenate([rows[i] for i in order])
        if self.privacy_.event is not None:
            X = self._domain(self.n_features_in_).clip(X)
        drawn = self._as_declared(X)
        return (drawn, np.repeat(labels[order], counts[order])) if both else drawn

    def to_sklearn(self) -> PlainGaussianMixture:
        """Return scikit-learn's mixture with the same density; the background becomes further components."""
        weights, means, covariances = self._all_components()
        plain = PlainGaussianMixture(len(weights), covariance_type="full", random_state=self.random_state)
        plain.weights_, plain.means_, plain.covariances_ = weights, means, covariances
        plain.precisions_cholesky_ = precision_cholesky(covariances)
        factors = plain.precisions_cholesky_
        plain.precisions_ = factors @ np.swapaxes(factors, -1, -2)
        plain.converged_, plain.n_iter_, plain.lower_bound_ = True, self.n_iter_, -np.inf
        plain.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            plain.feature_names_in_ = self.feature_names_in_
        return plain
