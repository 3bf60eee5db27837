"""The density of a fitted factor analysis, with scikit-learn's methods and inverses of K x K matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.estimator.saved_arrays import require_numbers, require_positive
from dpem.estimator.summary import Gaussians

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import Domain
    from dpem.estimator.base import PrivacyStatement, PublicRandom
    from dpem.models.factor_analysis.em import Factors

__all__ = ["FactorDensityMixin", "arrays_of"]


def arrays_of(mean: NDArray[np.float64], factors: Factors) -> dict[str, Any]:
    """Return mean and factors as attributes with the names of scikit-learn."""
    factors = factors.rotated()
    components = np.ascontiguousarray(factors.loadings.T)
    return {"mean_": mean, "components_": components, "noise_variance_": factors.noise}


class FactorDensityMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """Transform, score and sample with `mean_`, `components_` and `noise_variance_`."""

    mean_: NDArray[np.float64]
    components_: NDArray[np.float64]
    noise_variance_: NDArray[np.float64]
    n_components: int
    n_features_in_: int
    privacy_: PrivacyStatement

    if TYPE_CHECKING:

        def _rows(self, X: Any) -> NDArray[np.float64]: ...
        def _random(self, random_state: Any = None) -> PublicRandom: ...
        def _domain(
            self, n_columns: int, names: Sequence[str] | None = ..., *, keep_distances: bool = ...
        ) -> Domain: ...
        @property
        def _keeps_distances(self) -> bool: ...

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _inner(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return W' Psi^-1, (k, d), and I + W' Psi^-1 W."""
        check_is_fitted(self)
        weighted = self.components_ / self.noise_variance_
        return weighted, np.eye(len(weighted)) + weighted @ self.components_.T

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the expected factors of each row, (n, k). As sensitive as X: do not publish them."""
        weighted, inner = self._inner()
        relative = self._rows(X) - self.mean_
        return np.asarray(np.linalg.solve(inner, weighted @ relative.T).T)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-density of each row. As sensitive as X."""
        weighted, inner = self._inner()
        relative = self._rows(X) - self.mean_
        projected = weighted @ relative.T
        squared = (relative**2 / self.noise_variance_).sum(axis=1)
        squared -= (projected * np.linalg.solve(inner, projected)).sum(axis=0)
        log_det = np.log(self.noise_variance_).sum() + np.linalg.slogdet(inner)[1]
        return np.asarray(-0.5 * (squared + log_det + len(self.mean_) * np.log(2 * np.pi)))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of the rows. As sensitive as X."""
        return float(self.score_samples(X).mean())

    def get_covariance(self) -> NDArray[np.float64]:
        """Return the model's covariance, W W' + Psi, (d, d)."""
        check_is_fitted(self)
        return np.asarray(self.components_.T @ self.components_ + np.diag(self.noise_variance_))

    def get_precision(self) -> NDArray[np.float64]:
        """Return the inverse of the model's covariance, (d, d)."""
        weighted, inner = self._inner()
        return np.asarray(np.diag(1 / self.noise_variance_) - weighted.T @ np.linalg.solve(inner, weighted))

    def _gaussians(self) -> Gaussians:
        return Gaussians(np.ones(1), self.mean_[None], self.get_covariance()[None], 1)

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """Draw rows from the density, without any charge: the density is released.

        Parameters
        ----------
        n_samples : int, default 1
            Number of rows.
        random_state : int or RandomState, optional
            Seed of this draw; the `random_state` of the estimator by default.

        Returns
        -------
        ndarray of shape (n_samples, n_features), or DataFrame
            Rows; those of a private model are clipped to its bounds, like the rows of the fit. With a
            schema, a DataFrame with its names and types; whole numbers are rounded.
        """
        check_is_fitted(self)
        n = _validate.integer(n_samples, "n_samples")
        random_state = self._random(random_state)
        k, d = self.components_.shape
        rows = self.mean_ + random_state.normal(size=(n, k)) @ self.components_
        rows += random_state.normal(size=(n, d)) * np.sqrt(self.noise_variance_)
        if self.privacy_.event is not None:
            rows = self._domain(d, keep_distances=self._keeps_distances).clip(rows)
        return self._as_declared(rows)

    def _saved_shapes(self) -> dict[str, tuple[int, ...]]:
        d, k = self.n_features_in_, self.n_components
        return {"mean_": (d,), "components_": (k, d), "noise_variance_": (d,)}

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        require_numbers(arrays, self._saved_shapes())
        require_positive("noise_variance_", arrays["noise_variance_"])
        self.mean_, self.components_ = arrays["mean_"], arrays["components_"]
        self.noise_variance_ = arrays["noise_variance_"]
