r"""The paper's parametrisation: the same (epsilon_i, delta_i) for every mechanism.

Park, Foulds, Chaudhuri and Welling give each of J(2K+1) mechanisms the same epsilon_i and delta_i and
solve one of four compositions for epsilon_i. Gaussian mechanisms take the classical
sigma = sqrt(2 ln(1.25 / delta_i)) Delta / epsilon_i, Laplace ones the scale Delta / epsilon_i.
This module is for comparison with the paper; `calibrate` gives the same guarantee with far less noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpem import _validate
from dpem.errors import UnreachableBudgetError
from dpem.privacy import gaussian_dp
from dpem.privacy._rounding import float_down
from dpem.privacy._solve import largest_passing
from dpem.privacy.accountants import MomentsAccountant, ZcdpAccountant
from dpem.privacy.accountants.base import ROUND_UP
from dpem.privacy.accountants.composition import advanced_epsilon
from dpem.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["COMPOSITIONS", "PerMechanismBudget", "mixture_mechanisms", "per_mechanism_budget"]

COMPOSITIONS = ("linear", "advanced", "zcdp", "moments")
_AUTHORS_MAX_ORDER = 100


@dataclass(frozen=True)
class PerMechanismBudget:
    """The budget of each mechanism.

    Attributes
    ----------
    epsilon_i : float
        Epsilon of each mechanism.
    delta_i : float or None
        Delta of each Gaussian mechanism; None if all are Laplace. Under zCDP and moments composition it only
        determines the ratio of noise to sensitivity.
    n_laplace, n_gaussian : int
        Number of mechanisms of each kind.
    """

    epsilon_i: float
    delta_i: float | None
    n_laplace: int
    n_gaussian: int

    @property
    def noise_multiplier(self) -> float | None:
        """Gaussian noise over sensitivity, sqrt(2 ln(1.25 / delta_i)) / epsilon_i."""
        if self.delta_i is None:
            return None
        return math.sqrt(2 * math.log(1.25 / self.delta_i)) / self.epsilon_i

    @property
    def event(self) -> ComposedEvent:
        """All mechanisms as one event."""
        parts: list[tuple[Event, int]] = []
        if self.n_laplace:
            parts.append((LaplaceEvent(self.epsilon_i), self.n_laplace))
        if self.noise_multiplier is not None:
            parts.append((GaussianEvent(self.noise_multiplier), self.n_gaussian))
        return ComposedEvent(tuple(parts))


def mixture_mechanisms(scenario: str, n_components: int, n_iterations: int) -> tuple[int, int]:
    """Return the numbers of Laplace and Gaussian mechanisms in the paper's mixture.

    ``"LLG"``: weights and K means by Laplace, K covariances by Gaussian noise. ``"GGG"``: all
    Gaussian.

    Examples
    --------
    >>> mixture_mechanisms("LLG", n_components=3, n_iterations=10)
    (40, 30)
    """
    scenario = _validate.one_of(scenario, "scenario", ("LLG", "GGG"))
    k = _validate.integer(n_components, "n_components")
    j = _validate.integer(n_iterations, "n_iterations")
    return (j * (k + 1), j * k) if scenario == "LLG" else (0, j * (2 * k + 1))


def per_mechanism_budget(
    composition: str,
    epsilon: float,
    delta: float,
    *,
    n_laplace: int,
    n_gaussian: int,
    delta_i: float | None = None,
    max_order: int | None = _AUTHORS_MAX_ORDER,
) -> PerMechanismBudget:
    """Solve the paper's composition for epsilon_i.

    Parameters
    ----------
    composition : {"linear", "advanced", "zcdp", "moments"}
        One of the paper's four compositions. Moments uses integer orders lambda.
    epsilon, delta : float
        The total budget.
    n_laplace, n_gaussian : int
        Number of mechanisms of each kind (see `mixture_mechanisms`).
    delta_i : float, optional
        Delta of each Gaussian mechanism. By default the mechanisms share all of delta under linear
        composition, and half of it under the others.
    max_order : int or None, default 100
        The largest order of moments: 100 in the authors' code, not stated in the paper. None means no limit.

    Returns
    -------
    PerMechanismBudget

    Raises
    ------
    UnreachableBudgetError
        If linear or advanced composition would rely on a classical sigma that, by the exact curve, does not
        give (epsilon_i, delta_i).

    Examples
    --------
    >>> laplace, gaussian = mixture_mechanisms("LLG", n_components=3, n_iterations=10)
    >>> budget = per_mechanism_budget(
    ...     "linear", 1.0, 1e-4, n_laplace=laplace, n_gaussian=gaussian
    ... )
    >>> round(budget.epsilon_i * 70, 9)
    1.0
    """
    composition = _validate.one_of(composition, "composition", COMPOSITIONS)
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    n_laplace = _validate.integer(n_laplace, "n_laplace", minimum=0)
    n_gaussian = _validate.integer(n_gaussian, "n_gaussian", minimum=0)
    if n_laplace + n_gaussian == 0:
        raise _validate.fail("at least one mechanism", "n_laplace + n_gaussian", 0)
    rests_on_delta_i = composition in ("linear", "advanced")
    delta_i = _checked_delta_i(composition, delta, n_gaussian, delta_i)

    def budget(epsilon_i: float) -> PerMechanismBudget:
        return PerMechanismBudget(epsilon_i, delta_i, n_laplace, n_gaussian)

    total = _total_epsilon(composition, delta, budget, max_order)

    def slack(epsilon_i: float) -> float:
        return math.log(epsilon / total(epsilon_i))

    smallest = epsilon / (n_laplace + n_gaussian)
    while slack(smallest) < 0:
        smallest /= 4
        if smallest < 1e-15 * epsilon:
            raise UnreachableBudgetError(
                f"Expected a budget that composition {composition!r} can certify, got "
                f"epsilon={epsilon!r} at delta={delta!r}. Orders up to {max_order} cannot certify an epsilon "
                f"below ln(1/delta)/{max_order}. Use 'zcdp' or a larger epsilon."
            )
    largest = 4 * smallest
    while slack(largest) >= 0:
        smallest, largest = largest, 4 * largest
    result = budget(largest_passing(slack, smallest, largest))
    if rests_on_delta_i:
        _refuse_classical_sigma_that_misses(result)
    return result


def _checked_delta_i(composition: str, delta: float, n_gaussian: int, delta_i: float | None) -> float | None:
    if delta_i is not None:
        delta_i = _validate.delta(delta_i, "delta_i")
    if n_gaussian == 0:
        return None
    if delta_i is None:
        # Rounded down, because n_gaussian * delta_i must not exceed this part of delta.
        part = 1.0 if composition == "linear" else 0.5
        return part * delta / n_gaussian * (2 - ROUND_UP)
    spent = n_gaussian * Fraction(delta_i)
    fits = spent < delta or (composition == "linear" and spent <= delta)
    if composition in ("linear", "advanced") and not fits:
        raise _validate.fail(
            f"delta_i below delta / {n_gaussian} = {delta / n_gaussian:.3g} for {n_gaussian} "
            f"Gaussian mechanisms under {composition} composition",
            "delta_i",
            delta_i,
            f"Use {delta / (2 * n_gaussian):.3g}.",
        )
    return delta_i


def _total_epsilon(
    composition: str,
    delta: float,
    budget: Callable[[float], PerMechanismBudget],
    max_order: int | None,
) -> Callable[[float], float]:
    """Return the total epsilon as a function of epsilon_i."""
    any_budget = budget(1.0)  # counts and delta_i are those of every epsilon_i
    n = any_budget.n_laplace + any_budget.n_gaussian
    spent = any_budget.n_gaussian * Fraction(any_budget.delta_i or 0.0)
    delta_prime = float_down(Fraction(delta) - spent)
    match composition:
        case "linear":
            return lambda epsilon_i: n * epsilon_i * ROUND_UP
        case "advanced":
            return lambda epsilon_i: advanced_epsilon([(epsilon_i, n)], delta_prime) * ROUND_UP
        case "zcdp":
            return lambda epsilon_i: ZcdpAccountant().epsilon(budget(epsilon_i).event, delta)
        case _:
            moments = MomentsAccountant(max_order=max_order)
            return lambda epsilon_i: moments.epsilon(budget(epsilon_i).event, delta)


def _refuse_classical_sigma_that_misses(budget: PerMechanismBudget) -> None:
    """Check the classical sigma with the exact curve: it is proved only for epsilon_i < 1."""
    if budget.delta_i is None or budget.noise_multiplier is None:
        return
    true_delta = gaussian_dp.delta_at(1 / budget.noise_multiplier, budget.epsilon_i)
    if true_delta > budget.delta_i:
        raise UnreachableBudgetError(
            f"Expected a budget for which the classical Gaussian sigma is valid, got "
            f"epsilon_i={budget.epsilon_i:.4g}, delta_i={budget.delta_i:.3g}, where its true delta is "
            f"{true_delta:.3g}. Lower epsilon, or use composition 'zcdp'."
        )
