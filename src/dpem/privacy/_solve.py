"""Root finding with rounding to the safe side, to a few units in the last place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import scipy

if TYPE_CHECKING:
    from collections.abc import Callable


def smallest_passing(slack: Callable[[float], float], low: float, high: float) -> float:
    """Return the smallest x >= low with ``slack(x) >= 0``, for an increasing slack.

    `high` is a guess above the root; it is doubled until its slack is non-negative.
    """
    if slack(low) >= 0:
        return low
    while slack(high) < 0:
        high *= 2
    root = _root(slack, low, high)
    if slack(root - 1e-9 * abs(root)) >= 0:  # a flat part at zero: the solver stops anywhere on it
        root = _first_passing(slack, low, root)
    return _step_until_passing(slack, root, outward=1.0)


def _first_passing(slack: Callable[[float], float], low: float, high: float) -> float:
    """Find by bisection where slack changes from negative to non-negative."""
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if slack(middle) >= 0 else (middle, high)
    return high


def largest_passing(slack: Callable[[float], float], low: float, high: float) -> float:
    """Return the largest x <= high with ``slack(x) >= 0``, for a decreasing slack.

    `low` is a guess between zero and the root; it is halved until its slack is non-negative.
    """
    if slack(high) >= 0:
        return high
    while slack(low) < 0:
        low /= 2
    return _step_until_passing(slack, _root(slack, low, high), outward=-1.0)


def _root(slack: Callable[[float], float], low: float, high: float) -> float:
    return float(scipy.optimize.brentq(slack, low, high, xtol=1e-300, rtol=4 * 2.0**-52, maxiter=1000))


def _step_until_passing(slack: Callable[[float], float], x: float, outward: float) -> float:
    step = 2.0**-52
    while slack(x) < 0:
        x += outward * step * abs(x)
        step *= 2
    return x
