"""How much of the relations between columns a fitted table keeps, from released values alone.

Whether a table of two columns shows a relation depends on its number of entries e, on the noise sigma in each
of them, and on the number of rows n. Let phi^2 be the mean-square contingency, rho^2 / (1 - rho^2) for two
Gaussian columns of correlation rho. If rows and relation are spread evenly over the entries, the squared
differences from independence, each divided by its variance sigma^2 + n / e, sum to e plus

    n^2 phi^2 / (e sigma^2 + n).

Noise alone deviates from e by sqrt(2 e). So the smallest visible relation, at `CLEAR` such deviations, has

    phi^2 = CLEAR sqrt(2 e) (e sigma^2 + n) / n^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpem.estimator.summary import Weakness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.plan import Plan
    from dpem.models.table.estimator import MixedMixture
    from dpem.models.table.one_shot import OneShotRequest

__all__ = [
    "Relations",
    "planned_relations",
    "relations_of",
    "remarks_of",
    "visible_correlation",
    "warning_of_relations",
    "weaknesses_of",
    "what_to_expect",
]

# Chosen on 384 generated tables (experiments/weak_tables.py). The warning after the fit comes for 97 of 107
# fits that keep less than half of the rank correlations, and for none of 160 that keep three quarters. The
# warning before the charge comes for 77 of those 107, and for 6 of those 160. Of 64 tables of independent
# columns, 21 give a warning; all but one could not have shown a correlation of 0.4.
CLEAR = 3.0  # standard deviations of a table of two columns beyond which it shows a relation
MODERATE = 0.4  # a correlation that nearly all tables should show
MOST_LOST = 0.25  # of the dependence that the release shows
_CHANCE = 0.01  # that the clearest of all pairs is this clear if columns are independent
_NEARLY_ALL = 0.75  # of the pairs
_REMEDY = (
    "Use a larger epsilon, more rows or fewer columns, or name the column whose relations matter most as "
    "target."
)


@dataclass(frozen=True)
class Relations:
    """The relations between columns that a release shows, and the part of them that a model keeps.

    Attributes
    ----------
    n_pairs : int
        Pairs of columns that were counted.
    n_clear : int
        Pairs whose dependence is beyond the noise.
    kept : float
        Share of the dependence of these pairs, as an amplitude, that the model has; NaN if there are none.
    is_certain : bool
        Whether independent columns would rarely show a pair as clear as the clearest one.
    visible : float or None
        The correlation that three quarters of the tables would show; None if no number of rows is known.
    """

    n_pairs: int
    n_clear: int
    kept: float
    is_certain: bool
    visible: float | None

    @property
    def is_flattened(self) -> bool:
        """Whether the model loses much of the dependence that the release shows."""
        return self.is_certain and self.kept < 1 - MOST_LOST

    @property
    def is_hidden(self) -> bool:
        """Whether noise would hide a moderate correlation, and the release shows few relations."""
        return self.visible is not None and self.visible > MODERATE and 2 * self.n_clear < self.n_pairs


def visible_correlation(entries: NDArray[np.float64], noise: float, n_rows: float) -> float:
    """Return the correlation that three quarters of the tables of pairs would show.

    Examples
    --------
    >>> round(visible_correlation(np.array([256.0]), 30.0, 6000), 2)  # two columns of numbers, 16 bins each
    0.56
    >>> round(visible_correlation(np.array([16.0]), 30.0, 6000), 2)  # two columns of four categories
    0.1
    """
    squared = CLEAR * np.sqrt(2 * entries) * (entries * noise**2 + n_rows) / n_rows**2
    return float(np.quantile(np.sqrt(squared / (1 + squared)), _NEARLY_ALL))


def planned_relations(request: OneShotRequest, plan: Plan, n_rows: float) -> float | None:
    """Return the visible correlation of a plan, for as many bins as columns can have; None without pairs."""
    if not _counts_pairs(plan):
        return None
    entries = request.most_entries()
    return visible_correlation(entries, plan.stage("pairs").noise_stddev, n_rows) if entries.size else None


def what_to_expect(visible: float | None) -> str:
    """Return what the planned noise of counts means for the model, as a sentence."""
    text = "The noise is that of one released count."
    if visible is None:
        return f"{text} A fit to all counts reduces it."
    return (
        f"{text} A fit to all counts reduces it, but can lose what a table does not show: {_within(visible)}"
    )


def warning_of_relations(request: OneShotRequest, plan: Plan, n_rows: float) -> str | None:
    """Return a warning, from public numbers, if noise will hide moderate correlations; None otherwise."""
    visible = planned_relations(request, plan, n_rows)
    if visible is None or visible <= MODERATE:
        return None
    # The noise with which three quarters of the tables would show a moderate correlation.
    entries = float(np.quantile(request.most_entries(), _NEARLY_ALL))
    squared = MODERATE**2 / (1 - MODERATE**2)
    variance = (squared * n_rows**2 / (CLEAR * np.sqrt(2 * entries)) - n_rows) / entries
    needed = np.inf
    if variance > 0:
        needed = plan.epsilon_for_mu(plan.budget.mu * plan.stage("pairs").noise_stddev / variance**0.5)
    by_epsilon = f"epsilon of about {needed:.2g}, " if needed < 1e3 else ""
    return (
        f"Noise will blur relations between columns: {_within(visible)} Synthetic rows may lose them. "
        f"Remedies: {by_epsilon}more rows, fewer columns, or a target, whose relations are kept best."
    )


def relations_of(model: MixedMixture) -> Relations | None:
    """Return what a fitted model keeps of the released relations; None if no pairs were counted."""
    fitted, plan = model._table, model.plan_
    first, second = np.triu_indices(len(fitted.density.bins), 1)
    dependence, misfit = fitted.dependence[first, second], fitted.misfit[first, second]
    counted = np.isfinite(dependence) & np.isfinite(misfit)
    if plan is None or not _counts_pairs(plan) or not counted.any():
        return None
    sizes = np.array([column.size for column in fitted.density.bins], dtype=np.float64)
    entries = (sizes[first] * sizes[second] * len(fitted.density.parts))[counted]
    dependence, misfit = dependence[counted], misfit[counted]
    clear = dependence > CLEAR
    kept = float("nan")
    if clear.any():
        # Both are in units of sqrt(2 entries); as squared distances they add up over pairs.
        scale = np.sqrt(2 * entries[clear])
        lost = max(float((misfit[clear] * scale).sum()), 0.0) / float((dependence[clear] * scale).sum())
        kept = max(1 - lost**0.5, 0.0)
    n_rows = _known_rows(model)
    noise = plan.stage("pairs").noise_stddev
    visible = None if n_rows is None else visible_correlation(entries, noise, n_rows)
    # The squared differences of one table, if columns are independent, have a chi-squared distribution.
    squares = np.maximum(entries + dependence * np.sqrt(2 * entries), 0.0)
    chances = np.asarray(special.gammaincc(entries / 2, squares / 2))
    is_certain = bool(chances.min() * len(chances) < _CHANCE)
    return Relations(len(dependence), int(clear.sum()), kept, is_certain, visible)


def remarks_of(model: MixedMixture) -> list[str]:
    """Say how many relations between columns the release shows, and what the model keeps of them."""
    if model.method != "oneshot" or len(model.schema.names) == 1:
        return []
    relations = relations_of(model)
    if relations is None:
        given = "" if model._table.density.target is None else ", given the target"
        return [f"Relations: no pairs of columns were counted. They are independent in the model{given}."]
    return [_counted(relations)]


def weaknesses_of(model: MixedMixture) -> list[Weakness]:
    """Return whether noise hides relations between columns, or the fit flattens those that were released."""
    relations = relations_of(model)
    if relations is None or not (relations.is_flattened or relations.is_hidden):
        return []
    finding = _counted(relations)
    if relations.is_hidden and relations.visible is not None:
        within = _within(relations.visible)
        finding += f" {within[0].upper()}{within[1:]}"
    return [Weakness(f"{finding} Relations in synthetic rows can be weaker than in the real rows.", _REMEDY)]


def _counts_pairs(plan: Plan) -> bool:
    return any(stage.name == "pairs" for stage in plan.stages)


def _within(visible: float) -> str:
    return (
        f"in a quarter of the tables of pairs or more, correlations below about {visible:.2f} are within the "
        f"noise."
    )


def _known_rows(model: MixedMixture) -> float | None:
    """Return the public number of rows, or the noisy one that was released with the data quality."""
    if model.n_rows_ is not None:
        return model.n_rows_
    return None if model.data_quality_ is None else model.data_quality_.n_rows


def _counted(relations: Relations) -> str:
    clear = f"{relations.n_clear} of {relations.n_pairs} pairs of columns depend beyond the noise"
    if not relations.n_clear:
        return f"Relations: in the release, {clear}."
    whose = "its" if relations.n_clear == 1 else "their"
    kept = f"the model keeps about {relations.kept:.0%} of {whose} dependence"
    return f"Relations: in the release, {clear}, and {kept}."
