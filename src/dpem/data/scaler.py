"""A scaler for pipelines that uses public bounds and learns nothing from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.data.domain import Domain
from dpem.data.fitted_columns import check_columns, keep_columns
from dpem.data.schema import require_schema
from dpem.data.sources.memory import TableRows
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.schema import Schema

__all__ = ["BoundsScaler"]


class BoundsScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale every column from its public bounds to the interval from 0 to 1.

    A `StandardScaler` or `MinMaxScaler` before a private model reveals means, deviations or extremes of the
    rows without a charge. `BoundsScaler` reads no value in `fit`. Values beyond the bounds are clipped. Cells
    that are not numbers become NaN, and each private estimator documents how it treats NaN. No value raises.

    Parameters
    ----------
    bounds : (low, high), or mapping of str to (low, high)
        Public limits, each a number or one number for each column, or the pairs of columns by name.
    schema : Schema
        A schema of numbers or ordered categories, instead of bounds.

    Attributes
    ----------
    data_min_, data_max_ : ndarray of shape (d,)
        The bounds of the columns.
    n_features_in_, feature_names_in_
        Number and names of the columns, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> import dpem
    >>> ages_and_doses = np.random.default_rng(0).uniform([0, 0], [100, 2], size=(5000, 2))
    >>> model = make_pipeline(
    ...     dpem.BoundsScaler(bounds=([0, 0], [120, 5])), dpem.KMeans(3, epsilon=1.0, bounds=(0, 1))
    ... )
    >>> model.fit(ages_and_doses)[-1].cluster_centers_.shape
    (3, 2)
    """

    data_min_: NDArray[np.float64]
    data_max_: NDArray[np.float64]

    def __init__(self, *, bounds: Any = None, schema: Schema | None = None) -> None:
        self.bounds = bounds
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Store columns and bounds, without reading any value."""
        if self.schema is not None:
            require_schema(self.schema).require_numbers(missing=True)
        source = TableRows(X, self.schema)
        domain = Domain.from_arguments(
            source.n_columns, bounds=self.bounds, schema=self.schema, names=source.names
        )
        if domain.low is not None and domain.high is not None:
            self.data_min_, self.data_max_ = domain.low, domain.high
        keep_columns(self, source)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Clip the rows and scale them. The result is as private as the rows."""
        check_is_fitted(self)
        source = TableRows(X, self.schema)
        check_columns(self, source)
        scaled = np.empty((source.n_rows, source.n_columns))
        with np.errstate(all="ignore"):  # a warning would reveal a row
            start = 0
            for columns in source.blocks():
                block = columns.T
                inside = np.minimum(np.maximum(block, self.data_min_), self.data_max_)
                width = self.data_max_ / 2 - self.data_min_ / 2  # halves: the difference itself may overflow
                scaled[start : start + len(block)] = (inside / 2 - self.data_min_ / 2) / width
                start += len(block)
        return scaled

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Convert scaled rows, or means of scaled rows, back to the units of the columns."""
        check_is_fitted(self)
        scaled = _validate.array(X, "X")
        width = len(self.data_min_)
        if scaled.shape[-1:] != (width,):
            raise InvalidArgumentError(
                f"Expected X of shape (n, {width}), got shape {scaled.shape}. Pass one number per column."
            )
        return np.asarray((1 - scaled) * self.data_min_ + scaled * self.data_max_)

    def __sklearn_tags__(self) -> Any:
        """Declare that missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
