"""A comparison of all accountants on the same events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpem import _validate
from dpem.errors import MissingExtraError, UnsupportedEventError
from dpem.privacy._rounding import digits_up
from dpem.privacy.accountants.registry import ACCOUNTANTS, accountant_named
from dpem.privacy.events import as_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dpem.privacy.events import Event

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """The epsilon of the same events by each accountant.

    Iterate to get ``(name, epsilon)`` pairs; print to get a table, rounded up. `missing` states why `pld` is
    absent: its library is not installed, or the privacy loss is too large for it.
    """

    delta: float
    epsilons: dict[str, float]
    missing: dict[str, str]

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(self.epsilons.items())

    def __str__(self) -> str:
        lines = [f"{'accountant':<14}epsilon at delta = {self.delta:g}"]
        lines += [f"{name:<14}{digits_up(epsilon):.6g}" for name, epsilon in self]
        lines += [f"{name:<14}- ({reason})" for name, reason in self.missing.items()]
        return "\n".join(lines)


def compare(
    events: Event | Iterable[Event], delta: float, accountants: Sequence[str] = tuple(ACCOUNTANTS)
) -> Comparison:
    """Return the epsilon at `delta` that each accountant gives for the same event, or list of events.

    All numbers are valid upper bounds on the same privacy loss. The smallest is the tightest.

    Examples
    --------
    >>> from dpem.privacy.events import ComposedEvent, GaussianEvent
    >>> twenty = ComposedEvent(((GaussianEvent(20.0), 20),))
    >>> print(compare(twenty, 1e-5, ["gdp", "zcdp", "advanced", "linear"]))
    accountant    epsilon at delta = 1e-05
    gdp           0.819729
    zcdp          1.09799
    advanced      5.46659
    linear        3.94606
    """
    delta, event = _validate.delta(delta), as_event(events)
    epsilons, missing = {}, {}
    expected = f"names of accountants: {', '.join(ACCOUNTANTS)}"

    def known(name: str) -> str:
        return _validate.one_of(name, "accountant", ACCOUNTANTS)

    for name in _validate.each(accountants, "accountants", known, expected):
        try:
            epsilons[name] = accountant_named(name).epsilon(event, delta)
        except (MissingExtraError, UnsupportedEventError) as error:
            if name != "pld":
                raise
            missing[name] = str(error)
    return Comparison(delta, epsilons, missing)
