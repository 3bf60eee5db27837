"""What the page draws, all of it from the released model: densities, pairs of columns, a sample."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.models.discrete.estimator import CategoricalMixture
from dpem.models.factor_analysis.estimator import FactorAnalysis
from dpem.models.gaussian_mixture.estimator import GaussianMixture
from dpem.models.kmeans.estimator import KMeans
from dpem.models.table.estimator import MixedMixture
from dpem.report.profiles import column_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["columns_of", "figures_of", "sample_of", "spread_of"]

_MOST_COLUMNS = 24  # that one can choose among
_MOST_ENTRIES = 200_000  # of all tables of pairs
_DIGITS = 6

columns_of = column_names


def figures_of(model: Any) -> dict[str, Any]:
    """Return the parameters from which the page draws, as JSON; of many columns the first."""
    if isinstance(model, GaussianMixture):
        inside = 1 - float(model.background_.weights.sum())
        covariances = model._full_covariances()
        return _gaussians(
            model,
            model.weights_ * inside,
            model.means_,
            covariances,
            background=(model.background_.weights, model.background_.means, model.background_.covariances),
        )
    if isinstance(model, FactorAnalysis):
        return _gaussians(model, np.ones(1), model.mean_[None], model.get_covariance()[None])
    if isinstance(model, KMeans):
        columns = _number_columns(model)
        d = len(columns)
        return {
            "kind": "centres",
            "columns": columns,
            "centres": _short(model.cluster_centers_[:, :d]),
            "errors": _short(model.standard_errors_["cluster_centers"][:, :d]),
        }
    if isinstance(model, MixedMixture):
        return _tables(model)
    if isinstance(model, CategoricalMixture):
        return _class_tables(model)
    return {"kind": "none", "columns": []}


def _gaussians(
    model: Any,
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
    background: tuple[NDArray[np.float64], ...] | None = None,
) -> dict[str, Any]:
    columns = _number_columns(model)
    d = len(columns)
    parts = {"weights": weights, "means": means[:, :d], "covariances": covariances[:, :d, :d]}
    found = {"kind": "gaussians", "columns": columns} | {name: _short(value) for name, value in parts.items()}
    wide = (np.zeros(0), np.zeros((0, d)), np.zeros((0, d, d))) if background is None else background
    found["background"] = {
        "weights": _short(wide[0]),
        "means": _short(wide[1][:, :d]),
        "covariances": _short(wide[2][:, :d, :d]),
    }
    return found


def _number_columns(model: Any) -> list[dict[str, Any]]:
    names = column_names(model)
    schema = getattr(model, "schema", None)
    low, high = _range(model)
    columns = []
    for j, name in enumerate(names[:_MOST_COLUMNS]):
        unit = None if schema is None else schema.columns[j].unit_shown
        columns.append({"name": name, "unit": unit, "low": float(low[j]), "high": float(high[j])})
    return columns


def _range(model: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of the columns, or without any where the model lies."""
    if model.plan_ is not None:
        low, high = model._domain(model.n_features_in_).box
        return np.asarray(low), np.asarray(high)
    means = model.mean_[None] if isinstance(model, FactorAnalysis) else getattr(model, "means_", None)
    if means is None:
        means = model.cluster_centers_
    spread = (
        4 * np.array(list(spread_of(model).values()))
        if spread_of(model)
        else np.ptp(means, axis=0) / 2 + 1e-9
    )
    return means.min(axis=0) - spread, means.max(axis=0) + spread


def spread_of(model: Any) -> Any:
    """Return the deviation of each column within a part of the model, where it says so."""
    names = column_names(model)
    if isinstance(model, GaussianMixture):
        variances = np.diagonal(model._full_covariances(), axis1=1, axis2=2)
        within = np.sqrt(np.average(variances, axis=0, weights=model.weights_))
    elif isinstance(model, FactorAnalysis):
        within = np.sqrt(np.diagonal(model.get_covariance()))
    else:
        return None
    return dict(zip(names, map(float, within), strict=True))


def _tables(model: MixedMixture) -> dict[str, Any]:
    """Return the distribution of every column, and tables of pairs as far as they are few enough."""
    shown = list(model.schema.columns[:_MOST_COLUMNS])
    columns = []
    for column in shown:
        series = model.marginals(column.name)
        labels = [_label(value) for value in series.index]
        edges = [float(value.left) for value in series.index if hasattr(value, "left")]
        columns.append(
            {
                "name": column.name,
                "unit": column.unit_shown,
                "labels": labels,
                "edges": edges or None,
                "shares": _short(series.to_numpy()),
            }
        )
    pairs, entries = {}, 0
    for (i, a), (j, b) in itertools.combinations(enumerate(shown), 2):
        size = len(columns[i]["labels"]) * len(columns[j]["labels"])
        if entries + size > _MOST_ENTRIES:
            continue
        entries += size
        table = model.marginals(a.name, b.name).to_numpy().reshape(len(columns[i]["labels"]), -1)
        pairs[f"{i},{j}"] = _short(table)
    return {"kind": "tables", "columns": columns, "pairs": pairs}


def _class_tables(model: CategoricalMixture) -> dict[str, Any]:
    columns = []
    for name, categories, law in zip(
        column_names(model), model.categories_, model.probabilities_, strict=False
    ):
        shares = model.weights_ @ law
        labels = [_label(category) for category in categories]
        columns.append({"name": name, "unit": None, "labels": labels, "shares": _short(shares)})
    return {"kind": "tables", "columns": columns[:_MOST_COLUMNS], "pairs": {}}


def _label(value: Any) -> str:
    if value is None:
        return "missing"
    if hasattr(value, "left"):  # an interval
        return f"{value.left:.4g} to {value.right:.4g}"
    return str(value)


def sample_of(model: Any, n: int) -> Any:
    """Return a few rows drawn from the model as header and cells; None where it is no density."""
    import pandas as pd  # noqa: PLC0415

    if not hasattr(model, "sample"):
        return None
    drawn = model.sample(500)
    if not isinstance(drawn, pd.DataFrame):
        drawn = pd.DataFrame(drawn, columns=column_names(model))
    few = drawn.iloc[np.linspace(0, len(drawn) - 1, n).astype(int)]  # of every part
    header = [str(name) for name in few.columns]
    return header, [[_cell(value) for value in row] for row in few.itertuples(index=False)]


def _cell(value: Any) -> str:
    import pandas as pd  # noqa: PLC0415

    if pd.isna(value):
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _short(values: Any) -> Any:
    """Return numbers with as many digits as a page can show."""
    return (
        np.asarray([float(f"{v:.{_DIGITS}g}") for v in np.ravel(values)]).reshape(np.shape(values)).tolist()
    )
