"""Where a budget goes: the stages of a plan, the noise that an epsilon leaves, the charges of a ledger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.errors import InvalidArgumentError
from dpem.gate.plan import Plan
from dpem.planner.outlook import BLURRED, HIDDEN, Outlook, relative_noise
from dpem.planner.planning import plans
from dpem.plot.canvas import COLOURS, DARK, FAINT, LIGHT, MARKERS, axes_or_new, bar_names
from dpem.plot.released import fitted
from dpem.privacy.budget import Budget
from dpem.privacy.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["ledger", "noise", "plan"]

_MOST_NAMED = 40  # charges that are bars with names


def plan(model_or_plan: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how the budget of a fit is divided among its stages: one bar for each kind of release.

    The length of a bar is its share of mu squared, in which releases add up. A bar is divided where a stage
    follows another one of the same kind, such as the steps of EM.

    Parameters
    ----------
    model_or_plan : fitted estimator, Plan or Outlook
        `model.plan_`, a model that has one, or what :func:`dpem.plan` returns.
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
    >>> outlook = dpem.plan(dpem.KMeans(3, epsilon=1.0, bounds=(0, 1)), 10_000, columns=2)
    >>> ax = dpem.plot.plan(outlook)
    >>> bool(abs(sum(bar.get_width() for bar in ax.patches) - 1) < 1e-9)
    True
    """
    given = model_or_plan
    if isinstance(given, Outlook):
        given = given.plan
    elif not isinstance(given, Plan):
        given = fitted(given, "a Plan, an Outlook or a fitted model of dpem").plan_
    if given is None:
        raise InvalidArgumentError(
            "Expected a private model, got one that was fitted with epsilon = inf: it has no plan."
        )
    kinds = list(dict.fromkeys(stage.kind for stage in given.stages))
    ax = axes_or_new(ax, 5.6, 1.0 + 0.36 * len(kinds))
    for place, kind in enumerate(kinds):
        stages = given.numbered(kind)
        start = 0.0
        for stage in stages:
            ax.barh(place, stage.share, 0.7, left=start, color=LIGHT, edgecolor="white", linewidth=0.6)
            start += stage.share
        releases = sum(stage.repeats for stage in stages)
        many = f"{releases} releases" if releases > 1 else "1 release"
        ax.annotate(
            f"{start:.1%}, {many}",
            (start, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    bar_names(ax, kinds)
    largest = max(sum(stage.share for stage in given.numbered(kind)) for kind in kinds)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= 1])
    ax.set_xlim(0, 1.45 * largest)  # room for the text
    ax.set_xlabel("share of the budget (mu²)" if given.accountant == "gdp" else "share of the mechanisms")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def noise(
    model: Any,
    n_rows: int,
    epsilons: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    *,
    ax: Axes | None = None,
    **plan_arguments: Any,
) -> Axes:
    """Draw how much noise a fit would get at several epsilons: one line for each kind of parameter.

    Noise is one standard deviation, as a part of what the parameter is to be seen against, such as the spread
    of the rows: below 10 % it hardly counts, from 100 % on it hides what is looked for. Of several columns
    the noisiest is drawn. Open markers say that noise leaves room for less than was asked for, such as fewer
    components.

    Parameters
    ----------
    model : estimator
        A model of dpem that :func:`dpem.plan` can plan, with a schema or bounds; it need not be fitted.
    n_rows : int
        Rows of the table: public, or a guess.
    epsilons : sequence of float, default (0.03, 0.1, 0.3, 1, 3, 10)
        The budgets, instead of the model's own.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    **plan_arguments
        `columns` and `spread`, as in :func:`dpem.plan`.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    Only public numbers are drawn: no row is read, nothing is charged, and the figure may be published.

    Examples
    --------
    >>> import dpem
    >>> model = dpem.GaussianMixture(3, epsilon=1.0, bounds=(0, 1))
    >>> ax = dpem.plot.noise(model, 20_000, [0.1, 1, 10], columns=2)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['share of rows', 'mean', 'standard deviation']
    """
    given = _validate.each(epsilons, "epsilons", _validate.epsilon, _validate.EPSILONS)
    if not given:
        raise _validate.fail("at least one epsilon", "epsilons", epsilons)
    values = sorted(given)
    outlooks = plans(model, n_rows, values, **plan_arguments)
    ax = axes_or_new(ax, 5.6, 3.8)
    full = np.array([all(o.granted[what] >= n for what, n in o.asked.items()) for o in outlooks])
    parameters = dict.fromkeys(entry.parameter for outlook in outlooks for entry in outlook.noise)
    for i, parameter in enumerate(parameters):
        has = [any(entry.parameter == parameter for entry in outlook.noise) for outlook in outlooks]
        sizes = np.array(
            [relative_noise(o, parameter) if h else math.nan for o, h in zip(outlooks, has, strict=True)]
        )
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        ax.plot(values, sizes, color=colour, marker=marker, label=parameter)
        if not full.all():
            less: dict[str, Any] = {"color": colour, "markerfacecolor": "white", "label": "_"}
            ax.plot(np.array(values)[~full], sizes[~full], marker, **less)
    for limit, what in ((BLURRED, "blurred by noise"), (HIDDEN, "hidden by noise")):
        ax.axhline(limit, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), label="_")
        ax.annotate(
            what,
            (1, limit),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 2),
            textcoords="offset points",
            ha="right",
            fontsize="x-small",
            color="0.3",
        )
    if not full.all():
        ax.plot([], [], "o", color="0.3", markerfacecolor="white", label="less than was asked for")
    ax.set(xscale="log", yscale="log")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, BLURRED / 2), max(high, 2 * HIDDEN))
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.set_xticks([], minor=True)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    ax.set_xlabel("epsilon")
    ax.set_ylabel("noise, relative to what it blurs")
    ax.legend(frameon=False, fontsize="small")
    return ax


def ledger(ledger: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how a ledger fills up: the epsilon of all charges so far, after each of them, against the cap.

    Epsilons do not add up, squares of mu do: each bar begins where the charges before it end, at the ledger's
    delta. A hatched charge had noise from a seed. Of more than 40 charges a curve is drawn, without names.

    Parameters
    ----------
    ledger : Ledger or path
        The ledger.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.

    Returns
    -------
    matplotlib Axes

    Privacy
    -------
    A ledger holds charges and purposes, and no row: the figure is free. Purposes were written by people:
    read them before you publish it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dpem
    >>> from dpem.privacy import calibrate, GaussianEvent
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "patients.ledger"
    >>> ledger = dpem.Ledger.create(path, name="patients 2026", cap_epsilon=1.0, cap_delta=1e-5)
    >>> for purpose in ("mean age", "clusters"):
    ...     event = calibrate(GaussianEvent(1.0), epsilon=0.5, delta=1e-5)
    ...     charge = ledger.spend(event, purpose=purpose, analyst="registry team")
    >>> ax = dpem.plot.ledger(ledger)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['1 mean age', '2 clusters']
    """
    account = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    charges = account.history()
    delta = account.cap.delta
    squared = np.cumsum([0.0, *(charge.cost.mu**2 for charge in charges)])
    totals = [Budget.from_mu(math.sqrt(total), delta).epsilon for total in squared]
    named = len(charges) <= _MOST_NAMED
    ax = axes_or_new(ax, 6.0, 1.3 + 0.32 * max(len(charges), 1) if named else 3.6)
    if named:
        for i, (charge, before, after) in enumerate(zip(charges, totals, totals[1:], strict=False)):
            ax.barh(i, before, 0.7, color=FAINT, alpha=0.5)
            (bar,) = ax.barh(i, after - before, 0.7, left=before, color=LIGHT)
            if charge.insecure_noise:
                bar.set(hatch="///", alpha=0.6)
            ax.annotate(
                f"{after:.3g}",
                (after, i),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
            )
        bar_names(ax, [f"{charge.number} {charge.purpose}" for charge in charges])
        ax.axvline(account.cap.epsilon, color=DARK, linestyle="--")
        ax.set_xlabel(f"epsilon so far (delta = {delta:g})")
        place, shift = (account.cap.epsilon, 1.0), (3, -2)
        ax.set_xlim(0, 1.15 * account.cap.epsilon)
    else:
        ax.step(range(len(totals)), totals, where="post", color=DARK)
        ax.axhline(account.cap.epsilon, color=DARK, linestyle="--")
        ax.set(xlabel="charges", ylabel=f"epsilon so far (delta = {delta:g})")
        ax.set_ylim(0, 1.15 * account.cap.epsilon)
        place, shift = (0.0, account.cap.epsilon), (3, 12)
    along: Any = ("data", "axes fraction") if named else ("axes fraction", "data")
    look: dict[str, Any] = {"xytext": shift, "textcoords": "offset points", "va": "top", "fontsize": "small"}
    ax.annotate(f"cap {account.cap.epsilon:g}", place, xycoords=along, color=DARK, **look)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
