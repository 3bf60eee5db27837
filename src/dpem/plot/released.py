"""What a figure asks of a model: released attributes, columns by name, and the rows of an owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.estimator.base import PrivateEstimator
from dpem.estimator.summary import column_names
from dpem.plot.canvas import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

    from dpem.estimator.summary import Gaussians

__all__ = [
    "ShownColumn",
    "chosen_columns",
    "errors_of",
    "fitted",
    "fitted_with",
    "gaussians_of",
    "name_axis",
    "rows_of",
    "some_of",
    "wrong_kind",
]

_MOST_ROWS = 5000  # of a cloud of points


@dataclass(frozen=True)
class ShownColumn:
    """A column of a model: its place, its name, and what a schema declares of it."""

    place: int
    name: str
    declared: Any

    @property
    def label(self) -> str:
        """The name, with the unit if the schema has one; dates need none."""
        unit = None if self.declared is None or self.declared.is_time else self.declared.unit
        return plain(self.name) if unit is None else f"{plain(self.name)} ({plain(unit)})"


def wrong_kind(expected: str, model: Any, remedy: str) -> TypeError:
    """Return the error for a model that has no such figure."""
    name = getattr(model, "_public_name", type(model).__name__)
    return TypeError(f"Expected {expected}, got {name}. {remedy}")


def fitted(model: Any, expected: str = "a fitted model of dpem", remedy: str = "") -> Any:
    """Return a fitted estimator of dpem as it is; raise for anything else."""
    if not isinstance(model, PrivateEstimator):
        raise wrong_kind(expected, model, remedy or "Fit one, or load it with dpem.load.")
    check_is_fitted(model)
    return model


def fitted_with(attribute: str, model: Any, expected: str, remedy: str) -> Any:
    """Return a fitted estimator that has an attribute; raise for anything else."""
    if not hasattr(fitted(model, expected, remedy), attribute):
        raise wrong_kind(expected, model, remedy)
    return model


def errors_of(model: Any, parameter: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard errors of a parameter; zero for the paper's methods, whose noise is not known."""
    return np.asarray(getattr(model, "standard_errors_", {}).get(parameter, np.zeros_like(values)))


def gaussians_of(model: Any, remedy: str) -> Gaussians:
    """Return the density of a model that has one, in full."""
    expected = "a fitted Gaussian mixture or factor analysis"
    density: Gaussians | None = fitted(model, expected, remedy)._gaussians()
    if density is None:
        raise wrong_kind(expected, model, remedy)
    return density


def chosen_columns(model: Any, columns: Any, most: int, *, default: int) -> list[ShownColumn]:
    """Return columns that are given by name or by place; the first ones unless given."""
    names, schema = column_names(model), getattr(model, "schema", None)
    if columns is None:
        places = list(range(min(default, len(names))))
    else:
        given = [columns] if isinstance(columns, str | int | np.integer) else columns
        if not isinstance(given, list | tuple | np.ndarray | range) and not hasattr(given, "get_indexer"):
            raise _wrong_columns(names, columns)
        found = [_place(names, column) for column in given]
        places = [place for place in found if place is not None]
        if len(places) < len(found):
            raise _wrong_columns(names, given)
    if not 1 <= len(set(places)) == len(places) <= most:
        expected = "one column" if most == 1 else f"one to {most} different columns"
        raise _validate.fail(expected, "columns", columns, f"The model has {_listed(names)}.")
    return [ShownColumn(j, names[j], None if schema is None else schema.columns[j]) for j in places]


def _place(names: list[str], column: Any) -> int | None:
    if isinstance(column, str) and column in names:
        return names.index(column)
    whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if whole and 0 <= column < len(names):
        return int(column)
    return None


def _wrong_columns(names: list[str], given: Any) -> InvalidArgumentError:
    words = _validate.shown(given)
    if isinstance(given, list | tuple) and all(isinstance(column, str | int) for column in given):
        words = ", ".join(_validate.shown(column) for column in given if _place(names, column) is None)
    return InvalidArgumentError(
        f"Expected columns of the model, by name or by place from 0, got {words}. It has {_listed(names)}."
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(map(repr, names[:12])) + more


def name_axis(ax: Axes, axis: str, column: ShownColumn) -> None:
    """Label an axis with a column; dates and ordered categories are written in words."""
    shown: Axis = getattr(ax, f"{axis}axis")
    shown.set_label_text(column.label)
    declared = column.declared
    if declared is None:
        return
    if declared.is_time:
        low, high = declared.limits
        shown.set_major_formatter(lambda value, _: declared.value_text(round(min(max(value, low), high))))
        ax.tick_params(axis=axis, labelrotation=30 if axis == "x" else 0)  # type: ignore[arg-type]
    elif declared.categories is not None:
        shown.set_ticks(range(len(declared.categories)), [plain(value) for value in declared.categories])


def rows_of(model: Any, rows: Any) -> NDArray[np.float64]:
    """Return all rows (n, d) of the owner as the model reads them; NaN is a missing cell."""
    return np.asarray(model._rows(rows))


def some_of(n: int) -> NDArray[np.intp]:
    """Return which of n rows a cloud of points shows: all, or evenly chosen ones if they are many."""
    return np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.intp)
