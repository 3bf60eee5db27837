"""Linear and advanced composition: sums over the (epsilon_i, delta_i) of each mechanism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from dpem import _validate
from dpem.privacy import gaussian_dp
from dpem.privacy.accountants.base import ROUND_UP, Accountant, Mechanisms

if TYPE_CHECKING:
    from dpem.privacy.events import Event


_NO_PRIVACY = 1e290  # finite, so that a solver can step back from it


def _epsilons(mechanisms: Mechanisms, delta_i: float) -> list[tuple[float, int]]:
    """Return the epsilon of every mechanism, for Gaussian ones at `delta_i` by the exact curve."""
    gaussian = [
        (gaussian_dp.epsilon_at(ROUND_UP / multiplier, delta_i), count)
        for multiplier, count in mechanisms.gaussian
    ]
    return [*gaussian, *mechanisms.laplace]


class LinearAccountant(Accountant):
    """Linear composition: the sum of the epsilons, with delta shared evenly by the Gaussian mechanisms.

    The epsilon of a Gaussian mechanism is that of its exact curve. The paper's form, with the classical
    sigma, is in `dpem.privacy.per_mechanism`.

    Examples
    --------
    >>> from dpem.privacy.events import ComposedEvent, LaplaceEvent
    >>> round(LinearAccountant().epsilon(ComposedEvent(((LaplaceEvent(0.1), 20),)), delta=1e-5), 6)
    2.0
    """

    name: ClassVar[str] = "linear"

    def epsilon(self, event: Event, delta: float) -> float:
        """Return the sum of the mechanisms' epsilons."""
        mechanisms = self.mechanisms(event)
        delta_i = _validate.delta(delta) / max(1, mechanisms.n_gaussian)
        epsilons = _epsilons(mechanisms, delta_i)
        return math.fsum(count * epsilon for epsilon, count in epsilons) * ROUND_UP

    def delta(self, event: Event, epsilon: float) -> float:
        """Return 0 if all mechanisms are Laplace and their epsilons fit, else the delta for Gaussian ones."""
        mechanisms = self.mechanisms(event)
        epsilon = _validate.non_negative(epsilon, "epsilon")
        if mechanisms.is_pure(epsilon):
            return 0.0
        return super().delta(event, epsilon)


class AdvancedAccountant(Accountant):
    """Advanced composition (Dwork, Rothblum and Vadhan 2010).

    Eq. (AC-1): epsilon = sum eps_i (e^eps_i - 1) + sqrt(2 ln(1/delta') sum eps_i^2), with half of delta for
    delta' and half shared evenly by the Gaussian mechanisms (without Gaussian mechanisms, all of it for
    delta'). Kairouz, Oh and Viswanath 2017, Theorem 3.5, cover heterogeneous epsilons. The formula is the
    paper's. The epsilon of a Gaussian mechanism is that of its exact curve, whereas the paper's form, with
    the classical sigma, is in `dpem.privacy.per_mechanism`.

    Examples
    --------
    >>> from dpem.privacy.events import ComposedEvent, LaplaceEvent
    >>> many = ComposedEvent(((LaplaceEvent(0.01), 1000),))
    >>> round(AdvancedAccountant().epsilon(many, delta=1e-5), 4)
    1.6179
    """

    name: ClassVar[str] = "advanced"

    def epsilon(self, event: Event, delta: float) -> float:
        """Return Eq. (AC-1)."""
        mechanisms = self.mechanisms(event)
        delta = _validate.delta(delta)
        n_gaussian = mechanisms.n_gaussian
        delta_prime = delta / 2 if n_gaussian else delta
        epsilons = _epsilons(mechanisms, delta / (2 * max(1, n_gaussian)))
        return advanced_epsilon(epsilons, delta_prime) * ROUND_UP


def advanced_epsilon(epsilons: list[tuple[float, int]], delta_prime: float) -> float:
    """Return Eq. (AC-1) for (epsilon_i, count) pairs."""
    if max(epsilon for epsilon, _ in epsilons) > 500:  # e^eps_i would leave the floats
        return _NO_PRIVACY
    drift = math.fsum(count * epsilon * math.expm1(epsilon) for epsilon, count in epsilons)
    squares = math.fsum(count * epsilon**2 for epsilon, count in epsilons)
    return drift + math.sqrt(-2 * math.log(delta_prime) * squares)
