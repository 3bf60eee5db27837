"""Tables: the distribution of each column, association of pairs, and counts of cells that went wrong."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.errors import InvalidArgumentError
from dpem.estimator.base import PrivateEstimator
from dpem.estimator.data_quality import FINDINGS
from dpem.estimator.summary import MOST_COLUMNS, column_names, label_of
from dpem.plot.canvas import (
    COLOURS,
    ERRORS,
    LIGHT,
    RAW,
    SEQUENTIAL,
    array_of_axes,
    axes_or_new,
    bar_names,
    plain,
)
from dpem.plot.densities import draw_curve, points_of_axis
from dpem.plot.heat_map import heat_map
from dpem.plot.released import chosen_columns, fitted, name_axis, rows_of, wrong_kind

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpem.estimator.summary import ColumnLaw
    from dpem.plot.released import ShownColumn

__all__ = ["association", "data_quality", "margins"]

_MOST_BARS = 24  # numbers with a bar of their own; more are steps
_DRAWN = 20_000  # synthetic rows behind the association of a model
_PARTS = 8  # of a column of numbers, of equal size
_SEED = 0


def margins(model: Any, columns: Any = None, *, rows: Any = None, axes: Any = None) -> NDArray[Any]:
    """Draw the released distribution of each column: as bars, or as steps or curves for numbers.

    Parameters
    ----------
    model : fitted estimator
        A synthetic table (:class:`dpem.MixedMixture`), a mixture or a factor analysis.
    columns : str, int or sequence of them, optional
        Columns by name or by place; the first 24 unless given.
    rows : table, optional
        Rows of the owner, whose distribution is drawn beside the released one.
    axes : array of matplotlib Axes, optional
        Where to draw, at least one for each column; a new figure unless given.

    Returns
    -------
    ndarray of matplotlib Axes
        One for each column.

    Privacy
    -------
    Without `rows`, only released numbers are drawn: the figure is free, and may be published like the model.
    With `rows`, it shows exact counts of raw rows. Keep it with the data and do not publish it.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> p = np.array([[0.9, 0.9, 0.1], [0.1, 0.2, 0.8]])
    >>> X = rng.random((5000, 3)) < p[rng.integers(2, size=5000)]
    >>> model = dpem.BernoulliMixture(2, epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> axes = dpem.plot.margins(model, ["x0", "x2"])
    >>> axes.shape
    (2,)
    """
    expected = "a fitted synthetic table, mixture or factor analysis"
    remedy = "Draw k-means with dpem.plot.clusters."
    density = fitted(model, expected, remedy)._gaussians()
    if density is None and model._law(0) is None:
        raise wrong_kind(expected, model, remedy)
    shown = chosen_columns(model, columns, max(model.n_features_in_, 1), default=MOST_COLUMNS)
    known = None if rows is None else rows_of(model, rows)
    found = array_of_axes(axes, len(shown))
    for ax, column in zip(found, shown, strict=True):
        cells = None if known is None else known[:, column.place]
        if density is None:
            _draw_law(ax, column, model._law(column.place), cells)
        else:
            marginal = density.marginal([column.place])
            draw_curve(ax, column, marginal, points_of_axis(model, marginal, 0, column), cells)
    if known is not None:
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
        found[0].legend(frameon=False, fontsize="small", ncols=2, columnspacing=1, **above)
    return found


def _draw_law(ax: Axes, column: ShownColumn, law: ColumnLaw, cells: NDArray[np.float64] | None) -> None:
    """Draw a table of probabilities, and the shares of an owner's cells."""
    n = len(law.probabilities)
    ax.set_xlabel(column.label)
    if law.edges is None and n > _MOST_BARS and isinstance(law.labels[0], int | np.integer):
        edges = law.first - 0.5 + np.arange(n + 1)
    elif law.edges is None:
        _draw_bars(ax, law, cells)
        return
    else:
        edges = law.edges.copy()
        if law.whole:  # a bar of whole numbers reaches half a number beyond them
            edges -= 0.5
            edges[-1] += 1.0
    widths = np.diff(edges)
    ax.stairs(law.probabilities / widths, edges, fill=True, color=LIGHT, alpha=0.8, label="released")
    if cells is not None:
        counts = np.histogram(np.clip(cells[~np.isnan(cells)], edges[0], edges[-1]), edges)[0]
        ax.stairs(counts / len(cells) / widths, edges, color="black", label=RAW)
    name_axis(ax, "x", column)
    ax.set_ylabel("density")
    if law.missing is not None:
        ax.set_title(f"missing: {law.missing:.1%}", fontsize="small", loc="right")


def _draw_bars(ax: Axes, law: ColumnLaw, cells: NDArray[np.float64] | None) -> None:
    """Draw one bar for each value, and for missing cells."""
    labels, shares = [label_of(value) for value in law.labels], law.probabilities
    n = len(labels)
    if law.missing is not None:
        labels, shares = [*labels, "missing"], np.append(shares, law.missing)
    places, width = np.arange(len(labels)), 0.8 if cells is None else 0.4
    ax.bar(places - (0.8 - width) / 2, shares, width, color=LIGHT, label="released")
    if cells is not None:
        code = np.where(np.isnan(cells), n, np.clip(np.rint(cells - law.first), 0, n - 1)).astype(int)
        counts = np.bincount(code, minlength=n + 1)[: len(labels)]
        ax.bar(
            places + 0.2,
            counts / len(cells),
            width,
            color="white",
            edgecolor="black",
            hatch="////",
            linewidth=0.8,
            label=RAW,
        )
    step = -(-len(labels) // 12)  # every value that there is room for
    turned = max(map(len, labels)) * len(labels[::step]) > 30
    ax.set_xticks(
        places[::step],
        [plain(label) for label in labels[::step]],
        rotation=40 if turned else 0,
        ha="right" if turned else "center",
        rotation_mode="anchor" if turned else "default",
    )
    ax.set_ylim(bottom=0)
    ax.set_ylabel("probability")


def association(model_or_table: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a heat map of how strongly each pair of columns goes together: Cramér's V, from 0 to 1.

    Columns of more than 8 numbers are cut into 8 groups of equal size, and a missing cell counts as a value.
    The bias of small tables is taken off. Draw a synthetic table and a real one side by side to compare them.

    Parameters
    ----------
    model_or_table : fitted estimator, DataFrame or array of shape (n, d)
        A model that can be sampled, of which 20,000 synthetic rows are drawn; or a table.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given. A colour bar is added to its figure.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Of a model, or of its synthetic rows, the figure is free, and may be published like the model. Of a table
    of raw rows, it shows exact statistics of them. Keep it with the data and do not publish it.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"a": rng.integers(3, size=1000), "b": rng.integers(2, size=1000)})
    >>> ax = dpem.plot.association(table.assign(c=table["a"] > 0))
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['a', 'b', 'c']
    """
    table = _table_of(model_or_table)
    names = [str(name) for name in table.columns]
    if len(names) < 2 or len(table) < 2:
        shape = f"{len(table)} rows and {len(names)} columns"
        raise InvalidArgumentError(f"Expected a table of at least 2 rows and 2 columns, got {shape}.")
    codes = [_codes(table.iloc[:, j]) for j in range(len(names))]
    values = np.eye(len(names))
    for i, j in itertools.combinations(range(len(names)), 2):
        values[i, j] = values[j, i] = cramers_v(codes[i], codes[j])
    texts = [[f"{value:.2f}" for value in row] for row in values]
    return heat_map(
        ax, values, texts, names, names, "Cramér's V", limits=(0.0, 1.0), colours=SEQUENTIAL, least_width=0.55
    )


def _table_of(given: Any) -> pd.DataFrame:
    """Return a table, or synthetic rows of a model, as a DataFrame."""
    import pandas as pd  # noqa: PLC0415

    names = None
    if isinstance(given, PrivateEstimator):
        expected = "a fitted model that can be sampled, or a table"
        if not hasattr(fitted(given), "sample"):
            raise wrong_kind(expected, given, "Of k-means, draw dpem.plot.clusters.")
        names = column_names(given)
        sampled: Any = given
        given = sampled.sample(_DRAWN, random_state=_SEED)
    if hasattr(given, "to_pandas"):  # of polars, and of Arrow
        given = given.to_pandas()
    if isinstance(given, pd.DataFrame):
        return given
    cells = np.asarray(given)
    if cells.ndim != 2:
        raise TypeError(
            f"Expected a fitted model that can be sampled, or a table, got {type(given).__name__}. Give a "
            f"DataFrame or an array of shape (n, d)."
        )
    return pd.DataFrame(cells, columns=names or [f"x{j}" for j in range(cells.shape[1])])


def _codes(column: pd.Series[Any]) -> NDArray[np.intp]:
    """Return cells as groups from 0: values, or parts of equal size of many numbers; the last is missing."""
    import pandas as pd  # noqa: PLC0415

    kind = getattr(column.dtype, "kind", "O")
    if kind in "iufmM" and column.nunique() > _PARTS:
        ranks = column.rank(method="average", pct=True)
        found = np.ceil(ranks.to_numpy(dtype=np.float64, na_value=np.nan) * _PARTS) - 1
        codes = np.where(np.isnan(found), -1, found)
    else:
        codes = pd.factorize(column)[0]
    return np.unique(codes, return_inverse=True)[1]


def cramers_v(first: NDArray[np.intp], second: NDArray[np.intp]) -> float:
    """Return Cramér's V of two columns of codes, without the bias of small tables (Bergsma 2013).

    Examples
    --------
    >>> cramers_v(np.array([0, 1] * 50), np.array([1, 0] * 50))
    1.0
    """
    n, shape = len(first), (int(first.max()) + 1, int(second.max()) + 1)
    if min(shape) < 2:
        return 0.0
    counts = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / n
    squared = float(((counts - expected) ** 2 / expected).sum() / n)
    rows, columns = shape
    squared = max(squared - (rows - 1) * (columns - 1) / (n - 1), 0.0)
    rows_left = rows - (rows - 1) ** 2 / (n - 1)
    columns_left = columns - (columns - 1) ** 2 / (n - 1)
    return float(np.sqrt(min(squared / max(min(rows_left, columns_left) - 1, 1e-12), 1.0)))


def data_quality(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the paid counts of cells that the schema could not take as they are, column by column.

    Noisy counts may be negative. An error bar shows two standard deviations of the noise. A hatched bar is
    a count that is clearly bad.

    Parameters
    ----------
    model : fitted estimator
        A model that was fitted with a schema, and has `data_quality_`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only released numbers are drawn, which the fit has paid for: the figure is free, and may be published like
    the model.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> schema = dpem.Schema({name: {"kind": "continuous", "bounds": [-3, 3]} for name in "ab"})
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> model = dpem.KMeans(2, epsilon=1.0, schema=schema).fit(X)
    >>> ax = dpem.plot.data_quality(model)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['a', 'b']
    """
    quality = fitted(model).data_quality_
    if quality is None:
        raise InvalidArgumentError(
            "Expected a model with data_quality_, got one without. Fit with a schema and data_quality=True."
        )
    n = len(quality.columns)
    ax = axes_or_new(ax, 6.0, 1.2 + 0.55 * n)
    height = 0.8 / len(FINDINGS)
    bad = []
    for i, (finding, colour) in enumerate(zip(FINDINGS, COLOURS, strict=False)):
        places = np.arange(n) + (i - (len(FINDINGS) - 1) / 2) * height
        counts = quality.counts[:, i]
        bars = ax.barh(places, counts, height, color=colour, label=finding)
        ax.errorbar(counts, places, xerr=ERRORS * quality.noise, fmt="none", ecolor="black", elinewidth=0.8)
        of_columns = zip(bars, quality.columns, strict=True)
        bad += [bar for bar, name in of_columns if finding in quality.bad.get(name, {})]
    bar_names(ax, quality.columns)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(f"cells (noisy counts, of {quality.n_rows:,.0f} rows)")
    ax.legend(frameon=False, fontsize="small")
    for bar in bad:  # after the legend, which shows colours alone
        bar.set(hatch="///", edgecolor="black")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
