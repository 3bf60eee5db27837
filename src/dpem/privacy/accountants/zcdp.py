"""Zero-concentrated DP (Bun and Steinke 2016), in the form that the paper uses."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, ClassVar

from dpem import _validate
from dpem.privacy.accountants.base import ROUND_UP, Accountant

if TYPE_CHECKING:
    from dpem.privacy.events import Event


class ZcdpAccountant(Accountant):
    """zCDP: adds up rho, which is 1 / (2 multiplier^2) for Gaussian and epsilon^2 / 2 for Laplace mechanisms.

    The conversion is epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke, Proposition 1.3).

    Examples
    --------
    >>> from dpem.privacy.events import ComposedEvent, GaussianEvent
    >>> twenty = ComposedEvent(((GaussianEvent(20.0), 20),))
    >>> round(ZcdpAccountant().epsilon(twenty, delta=1e-5), 5)
    1.09798
    """

    name: ClassVar[str] = "zcdp"

    def rho(self, event: Event) -> float:
        """Return rho, rounded up."""
        mechanisms = self.mechanisms(event)
        total = math.fsum(
            [
                *(count / (2 * multiplier**2) for multiplier, count in mechanisms.gaussian),
                *(count * epsilon**2 / 2 for epsilon, count in mechanisms.laplace),
            ]
        )
        return total * ROUND_UP

    def epsilon(self, event: Event, delta: float) -> float:
        """Return Eq. (Z-1): rho + 2 sqrt(rho ln(1/delta))."""
        rho = self.rho(event)
        log_inverse_delta = -math.log(_validate.delta(delta))
        return (rho + 2 * math.sqrt(rho * log_inverse_delta)) * ROUND_UP

    def delta(self, event: Event, epsilon: float) -> float:
        """Return exp(-(epsilon - rho)^2 / (4 rho)), or 1 if epsilon is below rho."""
        rho = self.rho(event)
        epsilon = _validate.non_negative(epsilon, "epsilon")
        if epsilon <= rho:
            return 1.0
        # The exponent's own rounding error grows with its size.
        exponent = (epsilon - rho) ** 2 / (4 * rho)
        return max(sys.float_info.min, math.exp(-exponent * (2 - ROUND_UP)))  # no delta is nothing
