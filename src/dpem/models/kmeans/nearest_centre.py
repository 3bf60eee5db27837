"""Predictions, distances and scores of every fitted model with cluster centres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.estimator.saved_arrays import require_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data import Schema

__all__ = ["SCALES", "NearestCentreMixin", "keeps_distances", "squared_distance_to_nearest"]

SCALES = ("bounds", "none")


def keeps_distances(scale: str | None, bounds: Any, schema: Schema | None) -> bool:
    """Whether distances are in the units of the columns, and not in widths of their bounds.

    By default they are if no column has bounds of its own.
    """
    if scale is None:
        return schema is None and not (bounds is not None and _is_of_columns(bounds))
    _validate.one_of(scale, "scale", ("bounds", "none"))
    if scale == "bounds" and bounds is None and schema is None:
        raise InvalidArgumentError(
            "Expected bounds or a schema for scale='bounds', got neither. With data_norm, which bounds whole "
            "rows, use scale='none'."
        )
    return scale == "none"


def _is_of_columns(bounds: Any) -> bool:
    """Whether bounds are given by column, and not as two numbers for all columns."""
    if isinstance(bounds, Mapping):
        return True
    return hasattr(bounds, "__iter__") and any(np.ndim(bound) for bound in bounds)


class NearestCentreMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """Predict, transform and score by distances to `cluster_centers_`."""

    cluster_centers_: NDArray[np.float64]
    n_clusters: int
    n_features_in_: int
    _fitted_arrays: ClassVar[tuple[str, ...]] = ("cluster_centers_",)
    _saved_names: ClassVar[tuple[str, ...]] = ("cluster_centers_",)

    if TYPE_CHECKING:

        def _rows(self, X: Any) -> NDArray[np.float64]: ...

    def _column_units(self, n_columns: int) -> NDArray[np.float64]:
        """Return the unit of distances in each column: 1 for the column's own unit."""
        return np.ones(n_columns)

    def _scaled(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return rows and centres in the units of distances.

        Both are centred first, because the fast formula for distances loses precision far from zero.
        """
        check_is_fitted(self)
        units = self._column_units(self.n_features_in_)
        middle = self.cluster_centers_.mean(axis=0)
        return (self._rows(X) - middle) / units, (self.cluster_centers_ - middle) / units

    @property
    def _n_features_out(self) -> int:
        """The number of output columns of `transform`, which scikit-learn names."""
        return len(self.cluster_centers_)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the index of the nearest centre for each row. As sensitive as X: do not publish it."""
        return _nearest(*self._scaled(X))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the distance of each row to each centre. As sensitive as X: do not publish it."""
        distances: NDArray[np.float64] = cdist(*self._scaled(X))
        return distances

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return minus the sum of squared distances to the nearest centre. As sensitive as X."""
        return -squared_distance_to_nearest(*self._scaled(X))

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        require_numbers(arrays, dict.fromkeys(self._saved_names, (self.n_clusters, self.n_features_in_)))
        self.cluster_centers_ = arrays["cluster_centers_"]


def squared_distance_to_nearest(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> float:
    """Return the sum of squared distances to the nearest centre, precisely at any offset of the data."""
    return float(((rows - centres[_nearest(rows, centres)]) ** 2).sum())


def _nearest(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.intp]:
    middle = centres.mean(axis=0)  # see `_scaled`
    labels: NDArray[np.intp] = pairwise_distances_argmin_min(rows - middle, centres - middle)[0]
    return labels
