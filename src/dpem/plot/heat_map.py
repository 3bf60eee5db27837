"""A table of numbers as coloured, annotated cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpem.plot.canvas import axes_or_new, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["heat_map"]

_MOST_CELLS = 400  # that are annotated
_STRAIGHT = 5  # columns whose names need no turn
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
    ax = axes_or_new(ax, min(2.2 + least_width * m, 14.0), min(max(1.4 + height * n, 2.6), 12.0))
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    image = ax.imshow(values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto")
    names = [plain(name) for name in column_names]
    turned = m > _STRAIGHT or max(map(len, names)) > 12
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
            cell = Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="///", linewidth=0, edgecolor="0.45")
            ax.add_patch(cell)
    if n * m <= _MOST_CELLS:
        for i, j in np.ndindex(n, m):
            red, green, blue, _ = image.cmap(image.norm(values[i, j]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
            text = ax.text(j, i, texts[i][j], ha="center", va="center", fontsize="small")
            text.set_color("white" if dark else "black")
            text.set_linespacing(1.05)
    ax.figure.colorbar(image, ax=ax, label=legend, pad=0.02)
    return ax
