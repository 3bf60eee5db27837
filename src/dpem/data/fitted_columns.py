"""Column names and number of columns of a fitted estimator, handled as in scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpem._warnings import warn
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from dpem.data.sources.base import RowSource

__all__ = ["check_columns", "keep_columns"]


def keep_columns(estimator: Any, source: RowSource) -> None:
    """Store the columns of a finished fit on the estimator."""
    estimator.n_features_in_ = source.n_columns
    if source.names is not None:
        estimator.feature_names_in_ = np.array(source.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_columns(estimator: Any, source: RowSource) -> None:
    """Raise unless the columns are those of the fit, with the messages of scikit-learn."""
    check_is_fitted(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    if (names is None) != (source.names is None) and getattr(estimator, "schema", None) is None:
        has, other = ("has", "without") if names is None else ("does not have valid", "with")
        warn(  # the message of scikit-learn
            f"X {has} feature names, but {type(estimator).__name__} was fitted {other} feature names",
            UserWarning,
        )
    if names is not None and source.names is not None and list(names) != list(source.names):
        raise InvalidArgumentError(
            "The feature names should match those that were passed during fit: "
            f"{', '.join(map(str, names))}, in this order."
        )
    if source.n_columns != estimator.n_features_in_:
        raise InvalidArgumentError(
            f"X has {source.n_columns} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
