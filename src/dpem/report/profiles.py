"""Cluster profiles: where each part of a model lies, in original units, with what noise does to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpem.models.factor_analysis.estimator import FactorAnalysis
from dpem.models.gaussian_mixture.estimator import GaussianMixture
from dpem.models.kmeans.estimator import KMeans

__all__ = ["Cell", "Profile", "column_names", "profile_of"]


_MOST_ACROSS = 8


@dataclass(frozen=True)
class Cell:
    """A released value, what noise alone does to it, and how far rows of the part spread about it."""

    value: float
    error: float
    spread: float | None = None
    text: str | None = None  # the value in words, such as a date


@dataclass(frozen=True)
class Profile:
    """One row for every part of the model: a component, a cluster or a factor."""

    kind: str
    header: list[str]
    units: list[str | None]
    rows: list[tuple[str, list[Cell]]]
    has_shares: bool

    @property
    def is_wide(self) -> bool:
        """Whether columns are better shown one below the other."""
        return len(self.header) > _MOST_ACROSS and len(self.rows) < len(self.header)


def column_names(model: Any) -> list[str]:
    """Return the names of a fitted model's columns.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> column_names(dpem.KMeans(1, epsilon=1.0, data_norm=5.0).fit(np.zeros((1000, 2))))
    ['x0', 'x1']
    """
    if getattr(model, "schema", None) is not None:
        return list(model.schema.names)
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def profile_of(model: Any) -> Profile | None:
    """Return the profile of a model that has one; parts are numbered as `predict` numbers them, from 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> profile = profile_of(dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(np.zeros((1000, 2))))
    >>> profile.header, [name for name, _ in profile.rows]
    (['x0', 'x1'], ['1', '2'])
    """
    names = column_names(model)
    schema = getattr(model, "schema", None)
    columns = [None] * len(names) if schema is None else list(schema.columns)
    units = [None if column is None else column.step_unit for column in columns]
    if isinstance(model, GaussianMixture):
        errors = model.standard_errors_
        deviations = np.sqrt(np.diagonal(model._full_covariances(), axis1=1, axis2=2))
        rows = []
        for k in range(len(model.weights_)):
            share = Cell(float(model.weights_[k]), float(errors["weights"][k]))
            cells = [
                Cell(float(m), float(e), float(s), _moment(m, column))
                for m, e, s, column in zip(
                    model.means_[k], errors["means"][k], deviations[k], columns, strict=True
                )
            ]
            rows.append((str(k + 1), [share, *cells]))
        return Profile("component", ["share", *names], [None, *units], rows, has_shares=True)
    if isinstance(model, KMeans):
        rows = _rows(model.cluster_centers_, model.standard_errors_["cluster_centers"], columns)
        return Profile("cluster", names, units, rows, has_shares=False)
    if isinstance(model, FactorAnalysis):
        rows = [("mean", _cells(model.mean_, model.standard_errors_["mean"], columns))]
        rows += _rows(model.components_, model.standard_errors_["components"], [None] * len(names))
        return Profile("factor", names, units, rows, has_shares=False)
    return None


def _rows(values: Any, errors: Any, columns: list[Any]) -> list[tuple[str, list[Cell]]]:
    return [(str(i + 1), _cells(v, e, columns)) for i, (v, e) in enumerate(zip(values, errors, strict=True))]


def _cells(values: Any, errors: Any, columns: list[Any]) -> list[Cell]:
    return [
        Cell(float(value), float(error), text=_moment(value, column))
        for value, error, column in zip(values, errors, columns, strict=True)
    ]


def _moment(value: Any, column: Any) -> str | None:
    """Return a date, time or duration in words; None for other columns."""
    return column.value_text(round(float(value))) if column is not None and column.is_time else None
