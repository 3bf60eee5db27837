"""Summaries of fitted models for commands and reports: profiles of their parts, and figures.

They contain released values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MOST_COLUMNS",
    "Profile",
    "ReleasedValue",
    "column_names",
    "columns_of_numbers",
    "gaussian_figures",
    "label_of",
    "numbered_rows",
    "schema_of",
    "short",
    "values_of",
]

MOST_COLUMNS = 24  # to choose from in a figure
_MOST_ACROSS = 8
_DIGITS = 6


@dataclass(frozen=True)
class ReleasedValue:
    """A released value, its standard error, and the spread of rows of the part around it."""

    value: float
    error: float
    spread: float | None = None
    text: str | None = None  # the value in words, such as a date


@dataclass(frozen=True)
class Profile:
    """A table with one row for each part of the model: a component, a cluster or a factor."""

    kind: str
    header: list[str]
    units: list[str | None]
    rows: list[tuple[str, list[ReleasedValue]]]
    has_shares: bool

    @property
    def is_wide(self) -> bool:
        """Whether the table is easier to read with columns one below the other."""
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


def schema_of(model: Any) -> tuple[list[Any], list[str | None]]:
    """Return the declared columns of a model, or None for each, and their units."""
    schema = getattr(model, "schema", None)
    columns = [None] * len(column_names(model)) if schema is None else list(schema.columns)
    return columns, [None if column is None else column.step_unit for column in columns]


def numbered_rows(values: Any, errors: Any, columns: list[Any]) -> list[tuple[str, list[ReleasedValue]]]:
    """Return the rows of a profile, numbered from 1."""
    return [
        (str(i + 1), values_of(v, e, columns)) for i, (v, e) in enumerate(zip(values, errors, strict=True))
    ]


def values_of(values: Any, errors: Any, columns: list[Any], spreads: Any = None) -> list[ReleasedValue]:
    """Return the released values of one part of a model."""
    spreads = [None] * len(columns) if spreads is None else [float(spread) for spread in spreads]
    return [
        ReleasedValue(float(value), float(error), spread, _moment(value, column))
        for value, error, spread, column in zip(values, errors, spreads, columns, strict=True)
    ]


def _moment(value: Any, column: Any) -> str | None:
    """Format a date, time or duration as text; return None for other columns."""
    return column.value_text(round(float(value))) if column is not None and column.is_time else None


def gaussian_figures(
    model: Any,
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
    background: tuple[NDArray[np.float64], ...] | None = None,
) -> dict[str, Any]:
    """Return the data with which a page draws a mixture of Gaussians, for the first columns."""
    spread = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2)).max(axis=0)
    columns = columns_of_numbers(model, means, 4 * spread)
    d = len(columns)
    parts = {"weights": weights, "means": means[:, :d], "covariances": covariances[:, :d, :d]}
    found = {"kind": "gaussians", "columns": columns} | {name: short(value) for name, value in parts.items()}
    wide = (np.zeros(0), np.zeros((0, d)), np.zeros((0, d, d))) if background is None else background
    found["background"] = {
        "weights": short(wide[0]),
        "means": short(wide[1][:, :d]),
        "covariances": short(wide[2][:, :d, :d]),
    }
    return found


def columns_of_numbers(
    model: Any, centres: NDArray[np.float64], around: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return names, units and ranges of the first columns: their bounds, or else the range of the model."""
    schema = getattr(model, "schema", None)
    if model.plan_ is not None:
        low, high = model._domain(model.n_features_in_).box
    else:
        low, high = centres.min(axis=0) - around, centres.max(axis=0) + around
    columns = []
    for j, name in enumerate(column_names(model)[:MOST_COLUMNS]):
        unit = None if schema is None else schema.columns[j].unit_shown
        columns.append({"name": name, "unit": unit, "low": float(low[j]), "high": float(high[j])})
    return columns


def label_of(value: Any) -> str:
    """Format a value of a column for a figure."""
    if value is None:
        return "missing"
    if hasattr(value, "left"):  # an interval
        return f"{value.left:.4g} to {value.right:.4g}"
    return str(value)


def short(values: Any) -> Any:
    """Round numbers to the digits that a page shows."""
    return (
        np.asarray([float(f"{v:.{_DIGITS}g}") for v in np.ravel(values)]).reshape(np.shape(values)).tolist()
    )
