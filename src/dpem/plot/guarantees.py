"""What a guarantee means: its curve of epsilon and delta, and what an adversary can achieve at best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.plot.canvas import COLOURS, DARK, FAINT, axes_or_new, shades
from dpem.plot.released import fitted
from dpem.privacy.accountants import accountant_named
from dpem.privacy.gaussian_dp import mu_for
from dpem.privacy.statement import PrivacyStatement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

__all__ = ["privacy_curve", "trade_off"]

_POINTS = {"gdp": 200}  # on a curve; other accountants take long
_FEW = 25
_DECADES = 6  # of delta below the stated one
_LINES = ("-", "--", "-.", ":")


def privacy_curve(statement_or_model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw every (epsilon, delta) that a release guarantees, and the pair that its statement names.

    One release has many guarantees: the same noise gives a larger epsilon with a smaller delta. The curve is
    computed from the events of the statement by its accountant.

    Parameters
    ----------
    statement_or_model : PrivacyStatement or fitted estimator
        `model.privacy_`, or a model that has one.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only public numbers are drawn: the figure is free, and may be published.

    Examples
    --------
    >>> import dpem
    >>> from dpem.privacy import GaussianEvent
    >>> statement = dpem.PrivacyStatement(1.0, 1e-5, GaussianEvent(4.0), insecure_noise=False)
    >>> ax = dpem.plot.privacy_curve(statement)
    >>> ax.get_yscale()
    'log'
    """
    given = statement_or_model
    if isinstance(given, PrivacyStatement):
        statement = given
    else:
        statement = fitted(given, "a PrivacyStatement or a fitted model of dpem").privacy_
    if statement.event is None:
        raise InvalidArgumentError(
            "Expected a private release, got one with epsilon = inf: it has no guarantee to draw."
        )
    accountant = accountant_named(statement.accountant)
    top = 2 * statement.epsilon
    epsilons = np.linspace(0.0, top, _POINTS.get(statement.accountant, _FEW))
    deltas = np.array([accountant.delta(statement.event, float(epsilon)) for epsilon in epsilons])
    ax = axes_or_new(ax, 5.2, 3.6)
    ax.semilogy(epsilons, deltas, color=DARK, label=f"accountant {statement.accountant}")
    warned = "\nNOT PRIVATE: insecure noise" if statement.insecure_noise else ""
    stated = f"stated: epsilon = {statement.epsilon:.4g}, delta = {statement.delta:.4g}{warned}"
    ax.plot(statement.epsilon, statement.delta, "o", color=COLOURS[1], markeredgecolor="black", label=stated)
    lowest = max(float(deltas.min()), statement.delta * 10.0**-_DECADES)
    ax.set_ylim(lowest / 2, min(2 * max(float(deltas.max()), statement.delta), 1.5))
    ax.set_xlim(0, max(float(epsilons[deltas >= lowest].max()), 1.2 * statement.epsilon))
    ax.set_xlabel("epsilon")
    ax.set_ylabel("delta")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    return ax


def trade_off(epsilons: Any, *, delta: float = 1e-6, ax: Axes | None = None) -> Axes:
    r"""Draw what an adversary can achieve at best: false negatives against false positives, by epsilon.

    The adversary knows two neighbouring tables, and decides from what a fit of dpem released which of them it
    was fitted to. A test with a false positive rate of alpha has a false negative rate of at least
    :math:`\Phi(\Phi^{-1}(1 - \alpha) - \mu)`, where mu is what (epsilon, delta) buys. The dotted line is that
    of guesses: the closer a curve is to it, the stronger the guarantee.

    Parameters
    ----------
    epsilons : float or sequence of float
        One curve for each.
    delta : float, default 1e-6
        The delta of all of them.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only public numbers are drawn: the figure is free, and may be published.

    Examples
    --------
    >>> import dpem
    >>> ax = dpem.plot.trade_off([0.5, 1, 4])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['epsilon = 0.5', 'epsilon = 1', 'epsilon = 4', 'a guess']
    """
    delta = _validate.delta(delta)
    values = _validate.each(_several(epsilons), "epsilons", _validate.epsilon, _validate.EPSILONS)
    mus = [mu_for(epsilon, delta) for epsilon in values]
    ax = axes_or_new(ax, 4.4, 4.2)
    for i, (epsilon, mu, shade) in enumerate(zip(values, mus, shades(len(values)), strict=True)):
        z = np.linspace(-6.0 - mu, 6.0, 400)  # of the threshold: alpha = Phi(-z)
        ax.plot(
            special.ndtr(-z),
            special.ndtr(z - mu),
            color=shade,
            linestyle=_LINES[i % len(_LINES)],
            label=f"epsilon = {epsilon:g}",
        )
    ax.plot([0, 1], [1, 0], color=FAINT, linestyle=(0, (1, 2)), linewidth=1.2, label="a guess")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("smallest false negative rate")
    ax.legend(frameon=False, fontsize="small", title=f"delta = {delta:g}", title_fontsize="small")
    return ax


def _several(epsilons: Any) -> Iterable[Any]:
    if isinstance(epsilons, int | float | str | bytes | Mapping | None):
        return [epsilons]
    if not hasattr(epsilons, "__len__") or not len(epsilons):
        raise _validate.fail("at least one epsilon", "epsilons", epsilons)
    return list(epsilons) if isinstance(epsilons, list | tuple) else np.asarray(epsilons)
