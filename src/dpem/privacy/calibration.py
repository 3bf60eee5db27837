"""Calibration: the least noise with which events meet a budget (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dpem import _validate
from dpem.errors import UnreachableBudgetError
from dpem.privacy._solve import smallest_passing
from dpem.privacy.accountants import Accountant, accountant_named
from dpem.privacy.events import ComposedEvent, Event, GaussianEvent, as_event

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["calibrate", "split"]

_EventT = TypeVar("_EventT", bound=Event)
_LARGEST_FACTOR = 2.0**60


@overload
def calibrate(
    plan: _EventT, epsilon: float, delta: float, accountant: str | Accountant = "gdp"
) -> _EventT: ...
@overload
def calibrate(
    plan: Iterable[Event], epsilon: float, delta: float, accountant: str | Accountant = "gdp"
) -> ComposedEvent: ...
def calibrate(
    plan: Event | Iterable[Event], epsilon: float, delta: float, accountant: str | Accountant = "gdp"
) -> Event:
    """Scale all noise of a plan by one factor so that the plan just meets the budget.

    Parameters
    ----------
    plan : Event or list of Event
        The mechanisms with their noise relative to each other, such as twenty `GaussianEvent(1.0)`.
    epsilon, delta : float
        The budget for all mechanisms together.
    accountant : str or Accountant, default "gdp"
        The accountant that certifies the budget.

    Returns
    -------
    Event
        The plan with its final noise. By the accountant, its epsilon is never above the budget, and within
        one part in 10^9 of it. The accountant 'pld' has discretised distributions: its result is within one
        part in 10^6 and takes seconds, and it raises if its epsilon jumps (a delta of 1e-12 and below).

    Examples
    --------
    >>> plan = ComposedEvent(((GaussianEvent(1.0), 20),))
    >>> calibrate(plan, epsilon=1.0, delta=1e-5).parts[0][0].noise_multiplier
    16.68...
    """
    event = as_event(plan)
    return event.with_noise_times(_noise_factor(event, epsilon, delta, accountant_named(accountant)))


def split(epsilon: float, delta: float, shares: Sequence[float]) -> list[GaussianEvent]:
    """Share a budget among Gaussian mechanisms, each with its part of mu^2.

    Parameters
    ----------
    epsilon, delta : float
        The budget for all mechanisms together.
    shares : sequence of float
        The part of each mechanism, relative to the others.

    Returns
    -------
    list of GaussianEvent
        One event for each share, in order.

    Examples
    --------
    >>> few, much = split(1.0, 1e-5, [0.1, 0.9])
    >>> round(few.noise_multiplier / much.noise_multiplier, 6)
    3.0
    """
    given: Any = shares
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _validate.fail("a list of shares", "shares", given)
    expected = "positive numbers as shares"
    weights = _validate.each(given, "shares", lambda share: _validate.positive(share, "share"), expected)
    parts = [GaussianEvent(1 / math.sqrt(weight)) for weight in weights]
    if not parts:
        raise _validate.fail("at least one share", "shares", shares, "A plan cannot be empty.")
    factor = _factor_of_parts(tuple(parts), _validate.epsilon(epsilon), _validate.delta(delta))
    return [part.with_noise_times(factor) for part in parts]


@lru_cache(maxsize=1024)  # fits, plans and reports share the same budget in the same way many times
def _factor_of_parts(parts: tuple[GaussianEvent, ...], epsilon: float, delta: float) -> float:
    return _noise_factor(ComposedEvent.of(list(parts)), epsilon, delta, accountant_named("gdp"))


def _noise_factor(plan: Event, epsilon: float, delta: float, accountant: Accountant) -> float:
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    accountant.mechanisms(plan)  # raises if the accountant has no proof for an event

    def slack(factor: float) -> float:
        return accountant.slack(plan.with_noise_times(factor), epsilon, delta)

    discretised = accountant.name == "pld"  # slow, so it starts from the result of the closed form
    high = _noise_factor(plan, epsilon, delta, accountant_named("gdp")) if discretised else 1.0
    while slack(high) < 0:
        high *= 4
        if high > _LARGEST_FACTOR:
            raise UnreachableBudgetError(
                f"Expected a budget that the accountant {accountant.name!r} can certify, got "
                f"epsilon={epsilon!r} at delta={delta!r}. Its epsilon stays above that with any amount of "
                f"noise. Use another accountant, or a larger epsilon or delta."
            )
    low = high / 4
    while slack(low) >= 0:
        low, high = low / 4, low
    factor, step = smallest_passing(slack, low, high), 2.0**-52
    while (
        accountant.epsilon(plan.with_noise_times(factor), delta) > epsilon
    ):  # corrects the last unit in the last place
        factor, step = factor * (1 + step), 2 * step
    if discretised and accountant.epsilon(plan.with_noise_times(factor), delta) < epsilon * (1 - 1e-6):
        raise UnreachableBudgetError(
            f"Expected a budget that the accountant 'pld' can resolve, got epsilon={epsilon!r} at "
            f"delta={delta!r}, where its epsilon jumps. Use the accountant 'gdp', or a larger delta."
        )
    return factor
