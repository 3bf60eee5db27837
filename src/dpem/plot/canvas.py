"""Axes, colours and labels of all figures. matplotlib is imported when something is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = [
    "COLOURS",
    "DARK",
    "ERRORS",
    "FAINT",
    "LIGHT",
    "MARKERS",
    "RAW",
    "SEQUENTIAL",
    "array_of_axes",
    "axes_or_new",
    "bar_names",
    "figure_class",
    "plain",
    "shades",
]

# Distinct for colour-blind readers (Tol's bright scheme); with markers and numbers beside them, also in grey.
COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DARK, LIGHT, FAINT = "#1F3552", "#4477AA", "#BBBBBB"  # released values, bars, and what lies behind them
SEQUENTIAL = "Blues"  # from light to dark, in grey too
ERRORS = 2.0  # standard errors that an error bar shows on each side: about 95 %
RAW = "rows (do not publish)"  # in legends
_LONGEST = 40  # letters of a label
_ACROSS = 3  # axes in a row


def figure_class(feature: str = "Drawing a figure", extra: str = "plot") -> type[Figure]:
    """Return matplotlib's class of figures, or raise with the extra that installs it.

    Examples
    --------
    >>> figure_class().__name__
    'Figure'
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(feature, "matplotlib", extra) from error
    return Figure


def axes_or_new(ax: Axes | None, width: float = 6.0, height: float = 4.0) -> Axes:
    """Return the axes that were given, or those of a new figure of pyplot."""
    figure_class()
    from matplotlib.axes import Axes  # noqa: PLC0415

    if ax is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415

        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    given: Any = ax
    if not isinstance(given, Axes):
        remedy = "Give one of those that plt.subplots() returns."
        raise TypeError(f"Expected ax to be a matplotlib Axes, got {type(given).__name__}. {remedy}")
    return given


def array_of_axes(axes: Any, n: int) -> NDArray[Any]:
    """Return n axes: those that were given, or those of a new figure."""
    if axes is None:
        figure_class()
        import matplotlib.pyplot as plt  # noqa: PLC0415

        across = min(n, _ACROSS)
        down = math.ceil(n / across)
        size = (3.4 * across, 2.6 * down)
        found = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)[1].ravel()
        for unused in found[n:]:
            unused.remove()
        return np.asarray(found[:n])
    given = np.empty(np.size(axes), dtype=object)
    given[:] = np.ravel(np.asarray(axes, dtype=object))
    if len(given) < n:
        raise InvalidArgumentError(
            f"Expected axes for {n} columns, got {len(given)}. Draw fewer columns, or make more axes."
        )
    return np.array([axes_or_new(ax) for ax in given[:n]], dtype=object)


def plain(text: Any) -> str:
    r"""Return text as matplotlib shows it letter by letter, cut if it is long: a dollar starts no formula.

    Examples
    --------
    >>> print(plain("income in $"))
    income in \$
    """
    letters = " ".join(str(text).split())
    if len(letters) > _LONGEST:
        letters = letters[: _LONGEST - 1] + "…"
    return letters.replace("$", r"\$")


def bar_names(ax: Axes, names: Sequence[Any]) -> None:
    """Name horizontal bars, the first one at the top."""
    ax.set_yticks(range(len(names)), [plain(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def shades(n: int) -> list[Any]:
    """Return n shades of one colour that can be told apart in grey, from light to dark."""
    import matplotlib as mpl  # noqa: PLC0415

    return [mpl.colormaps[SEQUENTIAL](part) for part in np.linspace(0.45, 1.0, n)] if n > 1 else [DARK]
