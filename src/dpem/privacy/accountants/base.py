"""The interface of accountants, and the computation of delta from epsilon that they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpem import _validate
from dpem.errors import UnsupportedEventError
from dpem.privacy._solve import smallest_passing
from dpem.privacy.events import Event, GaussianEvent, LaplaceEvent, flatten

# Closed forms are evaluated in floating point and multiplied by this factor, so that they are never too low.
ROUND_UP = 1 + 1e-13


@dataclass(frozen=True)
class Mechanisms:
    """The elementary mechanisms of an event, as pairs of a parameter and a count."""

    gaussian: tuple[tuple[float, int], ...]  # (noise multiplier, count)
    laplace: tuple[tuple[float, int], ...]  # (epsilon, count)

    @property
    def n_gaussian(self) -> int:
        """The number of Gaussian mechanisms."""
        return sum(count for _, count in self.gaussian)

    @property
    def pure_epsilon(self) -> float:
        """The sum of the epsilons of the Laplace mechanisms."""
        return math.fsum(count * epsilon for epsilon, count in self.laplace)

    def is_pure(self, epsilon: float) -> bool:
        """Whether all mechanisms are Laplace, and the exact sum of their epsilons is at most epsilon."""
        total = sum((Fraction(each) * count for each, count in self.laplace), Fraction(0))
        return not self.gaussian and total <= Fraction(epsilon)


class Accountant(ABC):
    """Base class of accountants, which compute the guarantee of events.

    A subclass implements `name` and `epsilon`, and may replace `delta` by a closed form. Both results are
    upper bounds, rounded up. For an event that its proof does not cover, an accountant raises
    `UnsupportedEventError`.
    """

    name: ClassVar[str]

    @abstractmethod
    def epsilon(self, event: Event, delta: float) -> float:
        """Return an epsilon for which the event is (epsilon, delta)-DP."""

    def delta(self, event: Event, epsilon: float) -> float:
        """Return a delta for which the event is (epsilon, delta)-DP; 1 if none can be certified."""
        epsilon = _validate.non_negative(epsilon, "epsilon")
        smallest, largest = math.log(1e-280), math.log(1 - 2**-53)
        if self.epsilon(event, math.exp(largest)) > epsilon:
            return 1.0
        # epsilon(delta) falls as delta grows: the smallest log delta that passes.
        log_delta = smallest_passing(
            lambda log_delta: epsilon - self.epsilon(event, math.exp(log_delta)),
            smallest,
            largest,
        )
        return math.exp(log_delta)

    def slack(self, event: Event, epsilon: float, delta: float) -> float:
        """Return the log of epsilon over the event's epsilon: non-negative if the event fits the budget."""
        spent = self.epsilon(event, delta)
        if spent == math.inf:
            return -1e3  # finite, so that a solver can step back from it
        return math.log(epsilon / spent) if spent > 0 else math.inf

    def mechanisms(self, event: Event) -> Mechanisms:
        """Sort the elementary events by kind; raise for events that this accountant does not support."""
        gaussian, laplace = [], []
        for leaf, count in flatten(event).items():
            match leaf:
                case GaussianEvent(noise_multiplier):
                    gaussian.append((noise_multiplier, count))
                case LaplaceEvent(epsilon):
                    laplace.append((epsilon, count))
                case _:
                    raise UnsupportedEventError(
                        f"Expected Gaussian or Laplace events, got {type(leaf).__name__}. "
                        f"The proof of the accountant {self.name!r} does not cover it."
                    )
        return Mechanisms(tuple(gaussian), tuple(laplace))
