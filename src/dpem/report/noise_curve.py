"""The chart of expected noise against epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.planner.outlook import BLURRED, HIDDEN, relative_noise
from dpem.planner.planning import plans

if TYPE_CHECKING:
    from dpem.planner import Outlook

__all__ = ["NoiseCurve", "noise_curve_of"]

_LOW, _HIGH, _POINTS = 0.01, 100.0, 33
_WIDTH, _HEIGHT = 640.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 14.0, 44.0


@dataclass(frozen=True)
class NoiseCurve:
    """Expected noise against epsilon: coordinates of an SVG chart, and its numbers as text."""

    width: float
    height: float
    path: str
    zones: list[tuple[float, float, str]]  # top, height, CSS class
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    chosen: tuple[float, float]
    components: list[tuple[float, str]]
    what: str
    against: str
    words: str
    table: list[tuple[str, str, str]]


def noise_curve_of(estimator: Any, chosen: Outlook, spread: Any) -> NoiseCurve:
    """Return the relative noise, at epsilons from 0.01 to 100, of the parameter with the most noise."""
    # Without a schema, take the columns of the given outlook.
    columns = list(dict.fromkeys(e.column for e in chosen.noise if e.column is not None)) or None
    epsilons = np.geomspace(_LOW, _HIGH, _POINTS)
    own = float(estimator.epsilon)
    outlooks = plans(estimator, chosen.n_rows, epsilons, columns=columns, spread=spread)
    parameter, against = chosen.worst.parameter, chosen.worst.against
    noise = [relative_noise(outlook, parameter) for outlook in outlooks]
    here = relative_noise(chosen, parameter)
    low = 10.0 ** math.floor(math.log10(min([*noise, here, 0.05])))
    high = 10.0 ** math.ceil(math.log10(max([*noise, here, 1.0])))

    def x(epsilon: float) -> float:
        part = math.log(min(max(epsilon, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
        return round(_LEFT + part * (_WIDTH - _LEFT - _RIGHT), 2)

    def y(value: float) -> float:
        part = math.log(value / low) / math.log(high / low)
        return round(_HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM), 2)

    path = "M" + " L".join(f"{x(e)} {y(v)}" for e, v in zip(epsilons, noise, strict=True))
    edges = [high, HIDDEN, BLURRED, low]
    zones = [
        (y(top), round(y(bottom) - y(top), 2), name)
        for top, bottom, name in zip(edges[:-1], edges[1:], ("much", "some", "little"), strict=True)
        if top > bottom
    ]
    decades = range(round(math.log10(low)), round(math.log10(high)) + 1)
    return NoiseCurve(
        _WIDTH,
        _HEIGHT,
        path,
        zones,
        [(x(e), f"{e:g}") for e in (0.01, 0.1, 1, 10, 100)],
        [(y(10.0**p), _percent(10.0**p)) for p in decades],
        (x(own), y(here)),
        _component_steps(epsilons, outlooks, x),
        parameter,
        against,
        f"At epsilon = {own:g} the noise of a {parameter} is {_percent(here)} of {against}: "
        f"{_verdict(here)}.",
        [(f"{e:g}", _percent(v), _granted(o)) for e, v, o in _every_fourth(epsilons, noise, outlooks)],
    )


def _verdict(relative: float) -> str:
    if relative >= HIDDEN:
        return "mostly noise"
    return "noticeable noise" if relative >= BLURRED else "little noise"


def _percent(value: float) -> str:
    return f"{value:.3g} times" if value >= 10 else f"{100 * value:.3g}%"


def _granted(outlook: Outlook) -> str:
    return ", ".join(f"{number} {what}" for what, number in outlook.granted.items())


def _component_steps(epsilons: Any, outlooks: list[Outlook], x: Any) -> list[tuple[float, str]]:
    """Return the epsilons, as positions on the x axis, at which the noise allows more components."""
    found, before = [], None
    for epsilon, outlook in zip(epsilons, outlooks, strict=True):
        granted = outlook.granted.get("components")
        if granted is not None and granted != before:
            found.append((x(float(epsilon)), f"{granted}"))
            before = granted
    return found if len(found) > 1 else []


def _every_fourth(epsilons: Any, noise: list[float], outlooks: list[Outlook]) -> Any:
    return list(zip(epsilons.round(4), noise, outlooks, strict=True))[:: (_POINTS - 1) // 8]
