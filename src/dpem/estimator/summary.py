"""Summaries of fitted models for commands and reports: profiles of their parts, and figures.

They contain released values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.fitting.projection import cholesky

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.gate.plan import PlannedStage

__all__ = [
    "MOST_COLUMNS",
    "ColumnLaw",
    "Gaussians",
    "Profile",
    "ReleasedValue",
    "Weakness",
    "abridged",
    "column_names",
    "columns_of_numbers",
    "gaussian_figures",
    "is_supported",
    "label_of",
    "label_of_part",
    "numbered_rows",
    "ranges_of",
    "schema_of",
    "short",
    "unsupported",
    "values_of",
]

MOST_COLUMNS = 24  # to choose from in a figure
_MOST_ACROSS = 8  # columns of a table on a page
_MOST_STAGES, _FIRST_STAGES, _LAST_STAGES = 14, 8, 4
_DIGITS = 6
_LEAST_SUPPORT = 4.0  # standard deviations of the noise of a count


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
        """Whether the table is easier to read on a page with columns one below the other."""
        return self.is_wider_than(_MOST_ACROSS)

    def is_wider_than(self, most_across: int) -> bool:
        """Whether the table is easier to read with columns one below the other, if so many fit abreast."""
        return len(self.header) > most_across and len(self.rows) < len(self.header)


@dataclass(frozen=True)
class Weakness:
    """A weak result of a fit, as a sentence, and what to do about it."""

    finding: str
    remedy: str = "Use a larger epsilon, more rows, or a smaller model."

    def __str__(self) -> str:
        return f"{self.finding} {self.remedy}"


@dataclass(frozen=True, eq=False)
class Gaussians:
    """A released density: a mixture of Gaussians, its components first and then its background.

    Attributes
    ----------
    weights : ndarray of shape (k,)
        Parts of the whole density.
    means : ndarray of shape (k, d)
    covariances : ndarray of shape (k, d, d)
    n_components : int
        How many of them are components.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    n_components: int

    @property
    def deviations(self) -> NDArray[np.float64]:
        """The standard deviation of every column, (k, d)."""
        return np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))

    @property
    def components(self) -> Gaussians:
        """The components, without the background."""
        k = self.n_components
        return Gaussians(self.weights[:k], self.means[:k], self.covariances[:k], k)

    def marginal(self, columns: Sequence[int]) -> Gaussians:
        """Return the density of some columns: the others are integrated out."""
        chosen = list(columns)
        covariances = self.covariances[:, chosen][:, :, chosen]
        return Gaussians(self.weights, self.means[:, chosen], covariances, self.n_components)

    def densities(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each part adds to the density at points (n, d), (n, k)."""
        found = np.empty((len(points), len(self.weights)))
        factors = cholesky(self.covariances)
        for k, (weight, mean, factor) in enumerate(zip(self.weights, self.means, factors, strict=True)):
            z = np.linalg.solve(factor, (points - mean).T)
            log_scale = np.log(np.diagonal(factor)).sum() + len(mean) / 2 * np.log(2 * np.pi)
            found[:, k] = weight * np.exp(-0.5 * (z * z).sum(axis=0) - log_scale)
        return found


@dataclass(frozen=True, eq=False)
class ColumnLaw:
    """The released distribution of one column.

    Attributes
    ----------
    name : str
    unit : str or None
    labels : sequence
        Values, or intervals of numbers.
    probabilities : ndarray
        One for each label. Together with `missing` they sum to 1.
    first : float
        The number, or the code, of the first label.
    edges : ndarray, optional
        Where intervals begin, and where the last one ends.
    whole : bool
        Whether the numbers of intervals are whole ones.
    missing : float, optional
        The probability of a missing cell, if cells may be missing.
    """

    name: str
    unit: str | None
    labels: Sequence[Any]
    probabilities: NDArray[np.float64]
    first: float = 0.0
    edges: NDArray[np.float64] | None = None
    whole: bool = False
    missing: float | None = None

    def figure(self) -> dict[str, Any]:
        """Return what a page draws."""
        labels, shares = list(map(label_of, self.labels)), self.probabilities
        if self.missing is not None:
            labels, shares = [*labels, label_of(None)], np.append(shares, self.missing)
        found: dict[str, Any] = {"name": self.name, "unit": self.unit, "labels": labels}
        return found | {"shares": short(shares)}


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


def is_supported(counts: NDArray[np.float64], noise: float) -> NDArray[np.bool_]:
    """Return which parts have more rows than noise alone would show.

    An empty part passes with a probability of 3e-5.
    """
    return np.asarray(counts > _LEAST_SUPPORT * noise)


def label_of_part(number: int, supported: NDArray[np.bool_]) -> str:
    """Return the number of a part, from 1, with a remark if it may be empty."""
    return str(number) if supported[number - 1] else f"{number} (may be empty)"


def unsupported(parts: str, supported: NDArray[np.bool_]) -> list[Weakness]:
    """Name the parts that may be empty."""
    numbers = np.flatnonzero(~supported) + 1
    if not len(numbers):
        return []
    named = ", ".join(map(str, numbers))
    return [
        Weakness(
            f"{len(numbers)} of {len(supported)} {parts} may be empty (number {named}): noise explains all "
            f"of their rows. They can lie anywhere, and their standard errors do not show it."
        )
    ]


def values_of(values: Any, errors: Any, columns: list[Any], spreads: Any = None) -> list[ReleasedValue]:
    """Return the released values of one part of a model."""
    spreads = [None] * len(columns) if spreads is None else [float(spread) for spread in spreads]
    return [
        ReleasedValue(float(value), float(error), spread, _time_text(value, column))
        for value, error, spread, column in zip(values, errors, spreads, columns, strict=True)
    ]


def _time_text(value: Any, column: Any) -> str | None:
    """Format a date, time or duration as text; return None for other columns."""
    return column.value_text(round(float(value))) if column is not None and column.is_time else None


def gaussian_figures(model: Any, density: Gaussians) -> dict[str, Any]:
    """Return the data with which a page draws a mixture of Gaussians, for the first columns."""
    k = density.n_components
    columns = columns_of_numbers(model, density.means[:k], 4 * density.deviations[:k].max(axis=0))
    d = len(columns)
    shown = density.marginal(range(d))
    parts = {"weights": shown.weights, "means": shown.means, "covariances": shown.covariances}
    found: dict[str, Any] = {"kind": "gaussians", "columns": columns}
    found |= {name: short(value[:k]) for name, value in parts.items()}
    found["background"] = {name: short(value[k:]) for name, value in parts.items()}
    return found


def columns_of_numbers(
    model: Any, centres: NDArray[np.float64], around: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return names, units and ranges of the first columns: their bounds, or else the range of the model."""
    schema = getattr(model, "schema", None)
    low, high = ranges_of(model, centres, around)
    columns = []
    for j, name in enumerate(column_names(model)[:MOST_COLUMNS]):
        unit = None if schema is None else schema.columns[j].unit_shown
        columns.append({"name": name, "unit": unit, "low": float(low[j]), "high": float(high[j])})
    return columns


def ranges_of(
    model: Any, centres: NDArray[np.float64], around: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the range of every column: its public bounds, or else where the model lies."""
    if model.plan_ is not None:
        box: tuple[NDArray[np.float64], NDArray[np.float64]] = model._domain(model.n_features_in_).box
        return box
    return centres.min(axis=0) - around, centres.max(axis=0) + around


def abridged(stages: Sequence[PlannedStage]) -> list[PlannedStage]:
    """Leave out the middle of a long list of stages."""
    if len(stages) <= _MOST_STAGES:
        return list(stages)
    return [*stages[:_FIRST_STAGES], *stages[-_LAST_STAGES:]]


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
