"""The moments accountant (Abadi et al. 2016), with the paper's moments of Laplace noise."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from dpem import _validate
from dpem.privacy.accountants.base import ROUND_UP, Accountant, Mechanisms

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpem.privacy.events import Event


class MomentsAccountant(Accountant):
    """The moments accountant with integer orders, as in the paper.

    Eq. (MA-1): delta = min over lambda of exp(sum alpha(lambda) - lambda epsilon), where

    - Gaussian: alpha = (lambda^2 + lambda) / (2 multiplier^2),
    - Laplace: alpha = log[(lambda+1)/(2 lambda+1) e^(lambda eps) + lambda/(2 lambda+1) e^(-eps (lambda+1))].

    Parameters
    ----------
    max_order : int, optional
        The largest lambda. The authors' limit of 100 cannot certify an epsilon below ln(1/delta)/100. By
        default there is no limit.

    Examples
    --------
    >>> from dpem.privacy.events import ComposedEvent, GaussianEvent
    >>> twenty = ComposedEvent(((GaussianEvent(20.0), 20),))
    >>> round(MomentsAccountant().epsilon(twenty, delta=1e-5), 4)
    1.0982
    """

    name: ClassVar[str] = "moments"
    _smallest_order: ClassVar[float] = 1.0

    def __init__(self, max_order: int | None = None) -> None:
        self.max_order = None if max_order is None else _validate.integer(max_order, "max_order")

    def epsilon(self, event: Event, delta: float) -> float:
        """Return the minimum over orders of (sum alpha(lambda) + ln(1/delta)) / lambda."""
        mechanisms = self.mechanisms(event)
        log_inverse_delta = -math.log(_validate.delta(delta))
        order = self._best_order(lambda order: (_log_moment(mechanisms, order) + log_inverse_delta) / order)
        epsilon = (_log_moment(mechanisms, order) + log_inverse_delta) / order
        if not mechanisms.gaussian and self.max_order is None:  # the limit of infinite order
            epsilon = min(epsilon, mechanisms.pure_epsilon)
        return epsilon * ROUND_UP

    def delta(self, event: Event, epsilon: float) -> float:
        """Return the minimum over orders of exp(sum alpha(lambda) - lambda epsilon)."""
        mechanisms = self.mechanisms(event)
        epsilon = _validate.non_negative(epsilon, "epsilon")
        if mechanisms.is_pure(epsilon):
            return 0.0
        order = self._best_order(lambda order: _log_moment(mechanisms, order) - order * epsilon)
        moment = _log_moment(mechanisms, order) * ROUND_UP
        least = sys.float_info.min  # delta is never 0
        return max(least, math.exp(min(0.0, moment - order * epsilon * (2 - ROUND_UP))))

    def _best_order(self, objective: Callable[[float], float]) -> float:
        """Minimise over the orders; both objectives fall, then rise (docs/proofs/accountants.md)."""
        real = _minimise_on_log_scale(objective, self._smallest_order, self.max_order or 1e12)
        whole = math.floor(real)
        candidates = [max(1, whole - 1), max(1, whole), whole + 1, whole + 2]
        allowed = [order for order in candidates if order <= (self.max_order or math.inf)]
        return float(min(allowed, key=objective))


class RealMomentsAccountant(MomentsAccountant):
    """The moments accountant with real orders: for Gaussian mechanisms it equals zCDP.

    Examples
    --------
    >>> from dpem.privacy.events import GaussianEvent
    >>> round(RealMomentsAccountant().epsilon(GaussianEvent(5.0), delta=1e-5), 4)
    0.9797
    """

    name: ClassVar[str] = "moments_real"
    _smallest_order: ClassVar[float] = 1e-9

    def __init__(self) -> None:
        super().__init__(max_order=None)

    def _best_order(self, objective: Callable[[float], float]) -> float:
        return _minimise_on_log_scale(objective, self._smallest_order, 1e12)


def _minimise_on_log_scale(objective: Callable[[float], float], smallest: float, largest: float) -> float:
    # Start with a coarse grid: far from the optimum the objective is too steep for golden-section search.
    grid = np.geomspace(smallest, largest, 64)
    best = int(np.argmin([objective(order) for order in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    result = scipy.optimize.minimize_scalar(
        lambda log_order: objective(math.exp(log_order)),
        bounds=(math.log(low), math.log(high)),
        method="bounded",
        options={"xatol": 1e-11},
    )
    return float(min(math.exp(result.x), largest))


def _log_moment(mechanisms: Mechanisms, order: float) -> float:
    """Return the sum of alpha(lambda) over all mechanisms."""
    gaussian = (
        count * (order * order + order) / (2 * multiplier * multiplier)
        for multiplier, count in mechanisms.gaussian
    )
    laplace = (count * _laplace_log_moment(order, epsilon) for epsilon, count in mechanisms.laplace)
    return math.fsum([*gaussian, *laplace])


def _laplace_log_moment(order: float, epsilon: float) -> float:
    up, down = (order + 1) / (2 * order + 1), order / (2 * order + 1)
    if order * epsilon < 1:  # the first-order terms cancel; expm1 keeps what is left
        return math.log1p(up * math.expm1(order * epsilon) + down * math.expm1(-(order + 1) * epsilon))
    return float(np.logaddexp(math.log(up) + order * epsilon, math.log(down) - (order + 1) * epsilon))
