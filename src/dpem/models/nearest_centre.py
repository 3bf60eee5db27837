"""What every clustering by centres offers once it is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances

from dpem.em.saved_arrays import require_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NearestCentreMixin", "squared_distance_to_nearest"]


class NearestCentreMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """Predict, transform and score by distances to `cluster_centers_`."""

    cluster_centers_: NDArray[np.float64]
    n_clusters: int
    n_features_in_: int
    _fitted_arrays: ClassVar[tuple[str, ...]] = ("cluster_centers_",)
    _saved_names: ClassVar[tuple[str, ...]] = ("cluster_centers_",)

    if TYPE_CHECKING:

        def _rows(self, X: Any) -> NDArray[np.float64]: ...

    @property
    def _n_features_out(self) -> int:
        """For scikit-learn's names of what `transform` returns."""
        return len(self.cluster_centers_)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the index of the nearest centre for each row. As sensitive as X: keep it with the data."""
        rows = self._rows(X)
        return _nearest(rows, self.cluster_centers_)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the distance of each row to each centre. As sensitive as X: keep it with the data."""
        rows = self._rows(X)
        distances: NDArray[np.float64] = euclidean_distances(rows, self.cluster_centers_)
        return distances

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return minus the sum of squared distances to the nearest centre. As sensitive as X."""
        return -squared_distance_to_nearest(self._rows(X), self.cluster_centers_)

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        require_numbers(arrays, dict.fromkeys(self._saved_names, (self.n_clusters, self.n_features_in_)))
        self.cluster_centers_ = arrays["cluster_centers_"]


def squared_distance_to_nearest(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> float:
    """Return the sum of squared distances to the nearest centre, precise at any offset of the data."""
    return float(((rows - centres[_nearest(rows, centres)]) ** 2).sum())


def _nearest(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.intp]:
    # Shifted to the centres first: the fast formula for distances loses its digits far from zero.
    middle = centres.mean(axis=0)
    labels: NDArray[np.intp] = pairwise_distances_argmin_min(rows - middle, centres - middle)[0]
    return labels
