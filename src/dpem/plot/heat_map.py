"""A table of numbers as coloured, annotated cells."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.plot.canvas import axes_or_new, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["DIVERGING", "decimals", "heat_map"]

_LARGEST, _SMALLEST = 8.5, 4.5  # points of the text in a cell: a cell without room for it has none
_LETTER = 0.62  # the width of a letter, in its size
_INSIDE = 0.75  # of given axes, when labels and a colour bar have taken their part
_WIDEST = 12.0  # inches of all cells of a new figure
DIVERGING = "RdBu_r"


def heat_map(
    ax: Axes | None,
    values: NDArray[np.float64],
    texts: Sequence[Sequence[str]],
    row_names: Sequence[str],
    column_names: Sequence[str],
    legend: str,
    *,
    limits: tuple[float, float],
    colours: str,
    hatched: NDArray[np.bool_] | None = None,
    least_width: float = 0.75,
) -> Axes:
    """Draw a table with a colour bar; hatched cells are those that noise exceeds."""
    n, m = values.shape
    height = 0.55 if any("\n" in text for row in texts for text in row) else 0.42
    cell, is_new = min(least_width, _WIDEST / m), ax is None
    ax = axes_or_new(ax, 2.2 + cell * m, min(max(1.4 + height * n, 2.6), 12.0))
    if not is_new:
        cell = _INSIDE * ax.bbox.width / ax.figure.dpi / m
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    image = ax.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    names = [plain(name) for name in column_names]
    room = 72 * cell  # points
    turned = 10 * _LETTER * max(map(len, names)) > room
    ax.set_xticks(range(m), names, rotation=40 if turned else 0, ha="right" if turned else "center")
    for label in ax.get_xticklabels():
        label.set_rotation_mode("anchor" if turned else "default")
    ax.set_yticks(range(n), [plain(name) for name in row_names])
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(1, m) - 0.5, minor=True)
    ax.set_yticks(np.arange(1, n) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1.2)
    ax.tick_params(which="minor", length=0)
    ax.spines[:].set_visible(False)
    if hatched is not None:
        for i, j in np.argwhere(hatched):
            look: dict[str, Any] = {"fill": False, "hatch": "//", "linewidth": 0, "edgecolor": "0.6"}
            ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **look))
    longest = max(len(line) for row in texts for text in row for line in text.split("\n"))
    size = min(room / (_LETTER * longest), _LARGEST)
    if size >= _SMALLEST:
        for i, j in np.ndindex(n, m):
            red, green, blue, _ = image.cmap(image.norm(values[i, j]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
            text = ax.text(j, i, texts[i][j], ha="center", va="center", fontsize=size)
            text.set_color("white" if dark else "black")
            text.set_linespacing(1.05)
    ax.figure.colorbar(image, ax=ax, label=legend, pad=0.02)
    return ax


def decimals(value: float, width: float) -> str:
    """Return a number with digits down to a thousandth of what it could be.

    Examples
    --------
    >>> decimals(58.2431, 110.0), decimals(-0.001, 10.0)
    ('58.2', '0.00')
    """
    places = max(0, math.ceil(3 - math.log10(width)))
    return f"{round(value, places) + 0.0:.{places}f}"
