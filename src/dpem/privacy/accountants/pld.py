"""Privacy loss distributions, by Google's dp-accounting (the extra ``pld``)."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, ClassVar

from dpem import _validate
from dpem.errors import MissingExtraError, UnsupportedEventError
from dpem.privacy.accountants.base import Accountant

if TYPE_CHECKING:
    from dpem.privacy.accountants.base import Mechanisms
    from dpem.privacy.events import Event

# The library's discretised distributions have ten thousand points per unit of privacy loss.
_LARGEST_LOSS = 200.0
# Covers the library's floating-point error, observed up to 3.4e-10.
_ROUND_UP = 1 + 1e-8


class PldAccountant(Accountant):
    """Composition of discretised privacy loss distributions, the tightest for Laplace beside Gaussian noise.

    Its result is valid for schedules that are fixed in advance, not as a filter, so the ledger does not use
    it. Events are already relative to the sensitivity. The library is therefore called with add/remove, for
    which its results agree; its RDP and PLD disagree under replace-one (docs/proofs/accountants.md). Laplace
    noise is treated as noise on one number. For vectors no proof is known to us, so a statement cannot use
    this accountant for Laplace noise.
    """

    name: ClassVar[str] = "pld"

    def __init__(self) -> None:
        try:
            from dp_accounting import dp_event  # noqa: PLC0415  (an extra: imported when needed)
            from dp_accounting.pld import pld_privacy_accountant  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("The accountant 'pld'", "dp-accounting", "pld") from error
        self._events = dp_event
        self._make = pld_privacy_accountant.PLDAccountant

    def epsilon(self, event: Event, delta: float) -> float:
        """Return the library's epsilon, which is an upper bound because of its pessimistic rounding."""
        return _epsilon_of(self.mechanisms(event), _validate.delta(delta)) * _ROUND_UP

    def delta(self, event: Event, epsilon: float) -> float:
        """Return the library's delta, which is an upper bound because of its pessimistic rounding."""
        composed = self._composed(self.mechanisms(event))
        delta = composed.get_delta(_validate.non_negative(epsilon, "epsilon"))
        return min(1.0, float(delta) * _ROUND_UP)

    def _composed(self, mechanisms: Mechanisms) -> Any:
        mu = math.sqrt(sum(count / multiplier**2 for multiplier, count in mechanisms.gaussian))
        if mu * mu / 2 + 10 * mu + mechanisms.pure_epsilon > _LARGEST_LOSS:
            raise UnsupportedEventError(
                "Expected events with a moderate privacy loss for the accountant 'pld', got a loss for "
                "which it would need gigabytes of memory. Use another accountant; such an epsilon is beyond "
                "any use."
            )
        accountant = self._make()
        if mechanisms.gaussian:  # together they have the loss of a single one, see docs/proofs/accountants.md
            accountant.compose(self._events.GaussianDpEvent(1 / mu))
        for epsilon, count in mechanisms.laplace:
            accountant.compose(self._events.LaplaceDpEvent(1 / epsilon), count)
        return accountant


@functools.lru_cache(maxsize=256)
def _epsilon_of(mechanisms: Mechanisms, delta: float) -> float:
    """Return the library's epsilon, cached: plans, statements and reports need the same values again."""
    return float(PldAccountant()._composed(mechanisms).get_epsilon(delta))
