"""The released density of a model, over one or two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.estimator.summary import ranges_of
from dpem.plot.canvas import DARK, FAINT, LIGHT, RAW, SEQUENTIAL, axes_or_new
from dpem.plot.released import chosen_columns, gaussians_of, name_axis, rows_of, some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpem.estimator.summary import Gaussians
    from dpem.plot.released import ShownColumn

__all__ = ["density", "draw_curve", "points_of_axis"]

_REACH = 4.0  # deviations of each component that are drawn
_POINTS = 121  # on each axis, and in all around the components
_BINS = 40


def density(
    model: Any,
    columns: Any = None,
    *,
    rows: Any = None,
    levels: int | Sequence[float] = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density of a Gaussian mixture or a factor analysis: contours of two columns, a curve of one.

    All other columns are integrated out in closed form. The background of a mixture is part of the density.

    Parameters
    ----------
    model : fitted estimator
        A :class:`dpem.GaussianMixture` or :class:`dpem.FactorAnalysis`, or the paper's.
    columns : str, int or sequence of them, optional
        One or two columns by name or by place; the first two unless given.
    rows : table, optional
        Rows of the owner, drawn beneath: 5000 of them as points, or all as a histogram.
    levels : int or sequence of float, default 8
        How many contours there are, each enclosing an equal further part of the probability within the
        bounds; or their densities.
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
    >>> X = np.concatenate([rng.normal(m, 0.5, (5000, 2)) for m in (-2, 2)])
    >>> model = dpem.GaussianMixture(2, epsilon=1.0, bounds=(-5, 5)).fit(X)
    >>> ax = dpem.plot.density(model)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    """
    whole = gaussians_of(model, "Draw other models with dpem.plot.margins, k-means with dpem.plot.clusters.")
    shown = chosen_columns(model, columns, 2, default=2)
    marginal = whole.marginal([column.place for column in shown])
    grids = [points_of_axis(model, marginal, i, column) for i, column in enumerate(shown)]
    if len(shown) == 1:
        ax = axes_or_new(ax, 5.6, 3.4)
        known = None if rows is None else rows_of(model, rows)[:, shown[0].place]
        draw_curve(ax, shown[0], marginal, grids[0], known)
        if known is not None:
            ax.legend(frameon=False, fontsize="small")
        return ax
    x, y = grids
    points = np.stack(np.meshgrid(x, y), axis=-1)
    values = marginal.densities(points.reshape(-1, 2)).sum(axis=1).reshape(len(y), len(x))
    heights = _heights(values, x, y, levels)
    ax = axes_or_new(ax, 5.2, 4.2)
    if rows is None:
        top = max(float(values.max()), heights[-1]) * 1.0001
        filled = [height for height in heights if height < top]
        ax.contourf(x, y, values, [*filled, top], cmap=SEQUENTIAL, alpha=0.85)
        ax.contour(x, y, values, heights, colors=DARK, linewidths=0.5)
    else:
        known = rows_of(model, rows)[:, [column.place for column in shown]]
        known = known[some_of(len(known))]
        ax.scatter(known[:, 0], known[:, 1], s=4, color=FAINT, linewidths=0, rasterized=True, zorder=0)
        ax.contour(x, y, values, heights, colors=DARK, linewidths=0.9)
    name_axis(ax, "x", shown[0])
    name_axis(ax, "y", shown[1])
    return ax


def draw_curve(
    ax: Axes,
    column: ShownColumn,
    marginal: Gaussians,
    x: NDArray[np.float64],
    rows: NDArray[np.float64] | None,
) -> None:
    """Draw the density of one column: all of it, and each component."""
    if rows is not None:
        edges = _bins(x, is_whole=column.declared is not None and column.declared.is_whole)
        kept = np.clip(rows[~np.isnan(rows)], edges[0], edges[-1])
        ax.hist(kept, edges.tolist(), density=True, color=FAINT, label=RAW)
    parts = marginal.densities(x[:, None])
    ax.plot(x, parts.sum(axis=1), color=DARK, label="released density")
    if marginal.n_components > 1:
        for part in parts.T[: marginal.n_components]:
            ax.plot(x, part, color=LIGHT, linewidth=0.8, linestyle="--")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("density")
    name_axis(ax, "x", column)


def _bins(x: NDArray[np.float64], *, is_whole: bool) -> NDArray[np.float64]:
    """Return the edges of a histogram; as many whole numbers lie between any two."""
    if not is_whole:
        return np.linspace(x[0], x[-1], _BINS + 1)
    first, last = np.floor(x[0]), np.ceil(x[-1])
    step = max(np.ceil((last - first) / _BINS), 1.0)
    return np.asarray(np.arange(first, last + step + 1, step) - 0.5)


def points_of_axis(model: Any, marginal: Gaussians, i: int, column: ShownColumn) -> NDArray[np.float64]:
    """Return where a density is evaluated: where components are, within the bounds, finest around them."""
    means, deviations = marginal.components.means[:, i], marginal.components.deviations[:, i]
    low, high = float((means - _REACH * deviations).min()), float((means + _REACH * deviations).max())
    if model.plan_ is not None:
        box = ranges_of(model, marginal.means, marginal.deviations)
        low, high = max(low, float(box[0][column.place])), min(high, float(box[1][column.place]))
    each = max(_POINTS // len(means), 9)
    around = means[:, None] + deviations[:, None] * np.linspace(-_REACH, _REACH, each)
    points = np.concatenate([np.linspace(low, high, _POINTS), around.ravel()])
    return np.unique(points[(points >= low) & (points <= high)])


def _heights(
    values: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64], levels: Any
) -> list[float]:
    """Return the densities of contours: given ones, or such that enclose equal parts of the probability."""
    if not isinstance(levels, int | np.integer):
        expected = "a number of contours, or a list of positive densities, for levels"
        return sorted(
            set(_validate.each(levels, "levels", lambda x: _validate.positive(x, "level"), expected))
        )
    n = _validate.integer(levels, "levels")
    order = np.argsort(values, axis=None)[::-1]
    mass = (values * np.gradient(x) * np.gradient(y)[:, None]).ravel()[order]
    enclosed = np.cumsum(mass) / mass.sum()
    places = np.searchsorted(enclosed, np.arange(1, n + 1) / (n + 1))
    return sorted({float(value) for value in values.ravel()[order][places]})
