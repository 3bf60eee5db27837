"""The parts of a model: clusters, components, classes and factors, with the noise in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.summary import column_names, ranges_of
from dpem.plot.canvas import COLOURS, ERRORS, LIGHT, MARKERS, SEQUENTIAL, axes_or_new
from dpem.plot.heat_map import DIVERGING, decimals, heat_map
from dpem.plot.released import (
    chosen_columns,
    errors_of,
    fitted,
    fitted_with,
    name_axis,
    rows_of,
    some_of,
    wrong_kind,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpem.estimator.summary import Profile, ReleasedValue

__all__ = ["clusters", "loadings", "profiles", "weights"]

_DEVIATIONS = 2.0  # that an ellipse reaches
_MOST_ERRORS = 10  # columns of a heat map whose noise is written too


@dataclass(frozen=True, eq=False)
class _Groups:
    """Centres (k, d) with their noise; of a mixture also covariances (k, d, d) and shares (k,)."""

    centres: NDArray[np.float64]
    errors: NDArray[np.float64]
    covariances: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None

    def hidden(self, places: list[int]) -> NDArray[np.bool_]:
        """Whether noise exceeds the spread of a component in one of some columns, (k,)."""
        if self.covariances is None:
            return np.zeros(len(self.centres), dtype=bool)
        spread = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        return np.asarray((self.errors > spread)[:, places].any(axis=1))

    def label(self, k: int) -> str:
        """Return the number of a group, from 1 as in reports, and its share."""
        return f"{k + 1}" if self.shares is None else f"{k + 1}: {self.shares[k]:.0%}"

    @classmethod
    def of_model(cls, model: Any) -> _Groups:
        """Return the groups of a model that has some."""
        expected = "a fitted k-means or Gaussian mixture"
        remedy = "Draw other models with dpem.plot.profiles or dpem.plot.margins."
        if hasattr(fitted(model, expected, remedy), "cluster_centers_"):
            centres = model.cluster_centers_
            return cls(centres, errors_of(model, "cluster_centers", centres))
        density = model._gaussians()
        if density is None or not hasattr(model, "weights_"):
            raise wrong_kind(expected, model, remedy)
        parts = density.components
        return cls(parts.means, errors_of(model, "means", parts.means), parts.covariances, model.weights_)


def clusters(model: Any, columns: Any = None, *, rows: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the centres of k-means, or the means and ellipses of a Gaussian mixture, with the noise in them.

    An ellipse reaches two deviations of its component, and is labelled with its number and share. An error
    bar shows two standard errors of the noise. A dashed ellipse is one whose noise exceeds its spread in a
    column that is drawn.

    Parameters
    ----------
    model : fitted estimator
        A :class:`dpem.KMeans` or :class:`dpem.GaussianMixture`, or the paper's, whose noise is not known.
    columns : str, int or sequence of them, optional
        One or two columns by name or by place; the first two unless given.
    rows : table, optional
        Rows of the owner, of which 5000 are drawn beneath, coloured by predicted cluster.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Without `rows`, only released numbers are drawn: the figure is free, and may be published like the model.
    With `rows`, it shows raw rows. Keep it with the data and do not publish it.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.3, (2000, 2)) for m in (-2, 2)])
    >>> model = dpem.KMeans(2, epsilon=1.0, bounds=(-4, 4)).fit(X)
    >>> ax = dpem.plot.clusters(model)
    >>> [text.get_text() for text in ax.texts]
    ['1', '2']
    """
    groups = _Groups.of_model(model)
    shown = chosen_columns(model, columns, 2, default=2)
    places = [column.place for column in shown]
    hidden = groups.hidden(places)
    one = len(shown) == 1
    ax = axes_or_new(ax, 5.6, 1.2 + 0.4 * len(groups.centres)) if one else axes_or_new(ax, 5.2, 4.2)
    if rows is not None:
        _draw_rows(ax, rows_of(model, rows)[:, places], np.asarray(model.predict(rows)))
    for k in range(len(groups.centres)):
        _draw_group(ax, groups, k, places, is_hidden=bool(hidden[k]))
    name_axis(ax, "x", shown[0])
    if one:
        ax.set_yticks(range(len(groups.centres)), [groups.label(k) for k in range(len(groups.centres))])
        ax.set_ylim(len(groups.centres) - 0.4, -0.6)
        ax.set_ylabel("cluster" if groups.shares is None else "component")
    else:
        name_axis(ax, "y", shown[1])
        ax.margins(0.08)
    return ax


def _draw_rows(ax: Axes, rows: NDArray[np.float64], labels: NDArray[np.intp]) -> None:
    kept = some_of(len(rows))
    rows, labels = rows[kept], labels[kept]
    colours = [COLOURS[label % len(COLOURS)] for label in labels]
    look: dict[str, Any] = {"c": colours, "alpha": 0.4, "rasterized": True, "zorder": 0}
    if rows.shape[1] == 1:
        ax.scatter(rows[:, 0], labels, s=60, marker="|", linewidths=0.5, **look)
    else:
        ax.scatter(rows[:, 0], rows[:, 1], s=5, linewidths=0, **look)


def _draw_group(ax: Axes, groups: _Groups, k: int, places: list[int], *, is_hidden: bool) -> None:
    """Draw one centre with its noise, and the ellipse (of one column: the range) of its rows."""
    colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
    line: dict[str, Any] = {"linestyle": "--" if is_hidden else "-", "alpha": 0.6 if is_hidden else 1.0}
    x, error = groups.centres[k, places], ERRORS * groups.errors[k, places]
    bar: dict[str, Any] = {"xerr": error[0], "fmt": marker, "color": colour, "ecolor": "black"}
    bar |= {"markeredgecolor": "black", "markersize": 6, "capsize": 2, "elinewidth": 1, "zorder": 4}
    covariance = None if groups.covariances is None else groups.covariances[k][np.ix_(places, places)]
    if len(places) == 1:
        ax.errorbar(x[0], k, **bar)
        if covariance is not None:
            reach = _DEVIATIONS * float(np.sqrt(covariance[0, 0]))
            ax.plot([x[0] - reach, x[0] + reach], [k, k], color=colour, linewidth=2.5, zorder=1, **line)
        return
    ax.errorbar(x[0], x[1], yerr=error[1], **bar)
    if covariance is not None:
        ax.add_patch(_ellipse(x, covariance, edgecolor=colour, linewidth=1.6, **line))
        ax.update_datalim(x + np.array([[-1], [1]]) * _DEVIATIONS * np.sqrt(np.diagonal(covariance)))
    text = ax.annotate(
        groups.label(k),
        (float(x[0]), float(x[1])),
        xytext=(6, 6),
        textcoords="offset points",
        fontsize="small",
        zorder=5,
    )
    text.set_bbox({"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.8})


def _ellipse(centre: NDArray[np.float64], covariance: NDArray[np.float64], **look: Any) -> Any:
    """Return the ellipse of two deviations."""
    from matplotlib.patches import Ellipse  # noqa: PLC0415

    values, vectors = np.linalg.eigh(covariance)
    width, height = 2 * _DEVIATIONS * np.sqrt(np.maximum(values, 0.0))
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    return Ellipse((float(centre[0]), float(centre[1])), width, height, angle=angle, fill=False, **look)


def weights(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the share of rows of each component or class, with the noise in it.

    An error bar shows two standard errors of the noise. A hatched bar is one that the noise could explain:
    its error bar reaches zero.

    Parameters
    ----------
    model : fitted estimator
        A model with `weights_`: a Gaussian, categorical, Bernoulli or Poisson mixture.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only released numbers are drawn: the figure is free, and may be published like the model.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.5, (5000, 2)) for m in (-2, 2)])
    >>> model = dpem.GaussianMixture(2, epsilon=1.0, bounds=(-5, 5)).fit(X)
    >>> ax = dpem.plot.weights(model)
    >>> bool(np.allclose([bar.get_height() for bar in ax.patches], model.weights_))
    True
    """
    expected = "a fitted mixture with weights_"
    remedy = "k-means, factor analysis and synthetic tables release no shares."
    shares = fitted_with("weights_", model, expected, remedy).weights_
    errors = errors_of(model, "weights", shares)
    ax = axes_or_new(ax, min(max(1.6 + 0.55 * len(shares), 3.2), 10.0), 3.2)
    bars = ax.bar(range(len(shares)), shares, 0.7, color=LIGHT, edgecolor="white", linewidth=0)
    for bar, share, error in zip(bars, shares, errors, strict=True):
        if error > 0 and share <= ERRORS * error:
            bar.set(hatch="///", alpha=0.6)
    if errors.any():
        ax.errorbar(range(len(shares)), shares, ERRORS * errors, fmt="none", ecolor="black", capsize=3)
    ax.set_xticks(range(len(shares)), [str(k + 1) for k in range(len(shares))])
    ax.set_ylim(bottom=0)
    ax.set_xlabel(model._part)
    ax.set_ylabel("share of rows")
    return ax


def profiles(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a heat map of clusters, components or classes: one row for each, one column for each column.

    Means and centres are written in the columns' own units. Their colour is the distance to the mean of all
    of them (weighted by shares where a model has some), in widths of the column's public bounds.
    Probabilities of latent classes are coloured by themselves. Standard errors of the noise follow ±. A
    hatched cell is one whose noise exceeds the spread of the component's rows.

    Parameters
    ----------
    model : fitted estimator
        A k-means, or a Gaussian, categorical, Bernoulli or Poisson mixture.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given. A colour bar is added to its figure.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only released numbers are drawn: the figure is free, and may be published like the model.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.3, (2000, 2)) for m in (-2, 2)])
    >>> model = dpem.KMeans(2, epsilon=1.0, bounds=(-4, 4)).fit(X)
    >>> ax = dpem.plot.profiles(model)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['x0', 'x1']
    """
    expected = "a fitted k-means or mixture"
    remedy = "Draw factors with dpem.plot.loadings, and synthetic tables with dpem.plot.margins."
    profile: Profile | None = fitted(model, expected, remedy)._profile()
    if profile is None or profile.kind not in ("cluster", "component", "class"):
        raise wrong_kind(expected, model, remedy)
    first = int(profile.has_shares)
    cells = [row[first:] for _, row in profile.rows]
    header = profile.header[first:]
    values = np.array([[cell.value for cell in row] for row in cells])
    names = [
        f"{profile.kind} {name} ({row[0].value:.0%})" if first else f"{profile.kind} {name}"
        for name, row in profile.rows
    ]
    hatched = np.array([[cell.error > (cell.spread or np.inf) for cell in row] for row in cells])
    with_errors = len(header) <= _MOST_ERRORS and any(cell.error > 0 for row in cells for cell in row)
    low, high = np.zeros(len(header)), np.full(len(header), 10.0)  # two places for a probability
    is_law = hasattr(model, "probabilities_")
    if not is_law:
        low, high = ranges_of(model, values, np.ptp(values, axis=0) + 1e-9)
    widths = high - low
    texts = [
        [_text(cell, width, with_errors=with_errors) for cell, width in zip(row, widths, strict=True)]
        for row in cells
    ]
    if is_law:
        look: dict[str, Any] = {"limits": (0.0, 1.0), "colours": SEQUENTIAL}
        return heat_map(ax, values, texts, names, header, "probability", hatched=hatched, **look)
    shares = np.array([row[0].value for _, row in profile.rows]) if first else np.ones(len(values))
    apart = (values - np.average(values, axis=0, weights=shares)) / widths
    most = float(np.abs(apart).max()) or 1.0
    named = [name if unit is None else f"{name} ({unit})" for name, unit in _units(model, header)]
    legend = "from the mean of all,\nin widths of the bounds"
    return heat_map(
        ax, apart, texts, names, named, legend, limits=(-most, most), colours=DIVERGING, hatched=hatched
    )


def _units(model: Any, names: list[str]) -> list[tuple[str, str | None]]:
    return [
        (column.name, None if column.declared is None or column.declared.is_time else column.declared.unit)
        for column in chosen_columns(model, None, len(names), default=len(names))
    ]


def _text(cell: ReleasedValue, width: float, *, with_errors: bool) -> str:
    """Return a value as a cell of a heat map shows it."""
    if cell.text is not None:
        return cell.text
    return decimals(cell.value, width) + (f"\n±{cell.error:.2g}" if with_errors else "")


def loadings(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a heat map of the loadings of a factor analysis: one row for each factor.

    A loading is divided by the released standard deviation of its column: it is the correlation of the column
    with the factor, from -1 to 1. A hatched cell is one whose noise exceeds the loading.

    Parameters
    ----------
    model : fitted estimator
        A :class:`dpem.FactorAnalysis`, or the paper's.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given. A colour bar is added to its figure.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only released numbers are drawn: the figure is free, and may be published like the model.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1)) + 0.5 * rng.normal(size=(5000, 3))
    >>> model = dpem.FactorAnalysis(1, epsilon=1.0, bounds=(-5, 5)).fit(X)
    >>> ax = dpem.plot.loadings(model)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['factor 1']
    """
    expected = "a fitted factor analysis"
    remedy = "Draw clusters and components with dpem.plot.profiles."
    fitted_with("components_", model, expected, remedy)
    deviations = np.sqrt(np.diagonal(model.get_covariance()))
    values = model.components_ / deviations
    errors = errors_of(model, "components", model.components_) / deviations
    texts = [[decimals(value, 10.0) for value in row] for row in values]
    names = [f"factor {k + 1}" for k in range(len(values))]
    return heat_map(
        ax,
        values,
        texts,
        names,
        column_names(model),
        "loading / standard deviation",
        limits=(-1.0, 1.0),
        colours=DIVERGING,
        hatched=errors > np.abs(values),
    )
