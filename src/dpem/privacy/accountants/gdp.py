"""Gaussian DP: exact for Gaussian mechanisms, an upper bound for Laplace. The default, also of ledgers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpem.privacy import gaussian_dp
from dpem.privacy._rounding import root_up
from dpem.privacy.accountants.base import Accountant

if TYPE_CHECKING:
    from dpem.privacy.events import Event


class GdpAccountant(Accountant):
    """Gaussian DP: adds up mu^2, Eq. (GDP-4), and computes epsilon by the exact curve.

    A Gaussian mechanism has mu = 1 / noise multiplier. An epsilon-DP mechanism is treated as Gaussian DP with
    mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)). Sums of mu^2 are valid under fully adaptive composition, so
    that they can be spent step by step (docs/proofs/gaussian-dp.md).

    Examples
    --------
    >>> from dpem.privacy.events import ComposedEvent, GaussianEvent
    >>> twenty = ComposedEvent(((GaussianEvent(20.0), 20),))
    >>> round(GdpAccountant().epsilon(twenty, delta=1e-5), 4)
    0.8197
    """

    name: ClassVar[str] = "gdp"

    def mu_squared(self, event: Event) -> Fraction:
        """Return the sum of mu^2 as an exact fraction of the events' float parameters."""
        mechanisms = self.mechanisms(event)
        gaussian = sum(
            (count / Fraction(multiplier) ** 2 for multiplier, count in mechanisms.gaussian),
            Fraction(0),
        )
        laplace = sum(
            (
                count * Fraction(gaussian_dp.mu_of_pure_dp(epsilon)) ** 2
                for epsilon, count in mechanisms.laplace
            ),
            Fraction(0),
        )
        return gaussian + laplace

    def mu(self, event: Event) -> float:
        """Return mu, rounded up."""
        return root_up(self.mu_squared(event))

    def epsilon(self, event: Event, delta: float) -> float:
        """Return the smallest epsilon at `delta`."""
        return gaussian_dp.epsilon_at(self.mu(event), delta)

    def delta(self, event: Event, epsilon: float) -> float:
        """Return the smallest delta at `epsilon`."""
        return gaussian_dp.delta_at(self.mu(event), epsilon)

    def slack(self, event: Event, epsilon: float, delta: float) -> float:
        """Return the log of the allowed mu over the event's mu, as a ledger with this cap compares them."""
        return math.log(gaussian_dp.mu_for(epsilon, delta) / self.mu(event))
