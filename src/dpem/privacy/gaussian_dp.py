r"""The Gaussian-DP curve and its inverses (Dong, Roth and Su 2022), rounded to the safe side.

A mechanism is mu-GDP if distinguishing neighbouring tables is at least as hard as distinguishing N(0, 1) from
N(mu, 1). For Gaussian mechanisms the following curve is exact, so that no accountant can do better
(docs/proofs/gaussian-dp.md):

    delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)        Eq. (GDP-1)

Every function errs to the safe side by about one part in 10^12: `delta_at` and `epsilon_at` never return less
than the exact value, `mu_for` never more.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpem import _validate
from dpem.privacy._solve import largest_passing, smallest_passing

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["delta_at", "epsilon_at", "mu_for", "mu_of_pure_dp"]

# Covers the error of the formulas below, which is under 2e-13 (tests/privacy/test_gaussian_dp.py compares
# them with 50 digits).
_SAFETY = 1e-12

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_QUADRATURE_BELOW = 0.5


def delta_at(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which a mu-GDP mechanism is (epsilon, delta)-DP.

    Examples
    --------
    >>> round(delta_at(1.0, epsilon=1.0), 6)
    0.126937
    """
    mu = _validate.non_negative(mu, "mu")
    epsilon = _validate.non_negative(epsilon, "epsilon")
    if mu == 0:
        return 0.0
    # Eq. (GDP-2): with x = epsilon/mu - mu/2 and the Mills ratio R(x) = Phi(-x)/phi(x),
    # e^epsilon phi(x + mu) = phi(x), so delta = phi(x) (R(x) - R(x + mu)).
    x = epsilon / mu - mu / 2
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if mu < _QUADRATURE_BELOW:
        delta = density * _mills_drop(x, mu)
    elif x > 0:
        delta = density * (_mills(x) - _mills(x + mu))
    else:  # R(x) overflows far to the left; Phi(-x) does not
        delta = float(special.ndtr(-x)) - density * _mills(x + mu)
    # The error of x is relative to mu, so that a huge mu needs a larger margin.
    return min(1.0, max(delta * (1 + _SAFETY * max(1.0, mu / 100)), sys.float_info.min))


def epsilon_at(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which a mu-GDP mechanism is (epsilon, delta)-DP.

    Examples
    --------
    >>> round(epsilon_at(1.0, delta=1e-5), 4)
    4.3772
    """
    return _epsilon_at(_validate.non_negative(mu, "mu"), _validate.delta(delta))


@lru_cache(maxsize=4096)  # a ledger shows the epsilon of every charge, and charges are often the same
def _epsilon_at(mu: float, delta: float) -> float:
    if delta_at(mu, 0.0) <= delta:
        return 0.0
    # Gaussian DP implies mu^2/2-zCDP, whose epsilon bounds the root from above.
    high = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    return smallest_passing(lambda epsilon: math.log(delta / delta_at(mu, epsilon)), 0.0, high)


def mu_for(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP.

    Examples
    --------
    >>> round(mu_for(epsilon=1.0, delta=1e-5), 6)
    0.268051
    """
    return _mu_for(_validate.epsilon(epsilon), _validate.delta(delta))


@lru_cache(maxsize=1024)  # calibration asks for the same budget many times
def _mu_for(epsilon: float, delta: float) -> float:
    # From below, start with the mu that zCDP allows. From above, double mu until delta_at, which tends to 1,
    # exceeds delta.
    root = math.sqrt(-math.log(delta))
    low = math.sqrt(2) * epsilon / (math.sqrt(root * root + epsilon) + root)
    high = 2 * low
    while delta_at(high, epsilon) <= delta:
        low, high = high, 2 * high
    # Slightly smaller, so that `epsilon_at` returns epsilon and not the next float.
    target = delta * (1 - _SAFETY / 10)
    return largest_passing(lambda mu: math.log(target / delta_at(mu, epsilon)), low, high)


def mu_of_pure_dp(epsilon: float) -> float:
    r"""Return the mu for which every epsilon-DP mechanism, such as Laplace, is mu-GDP.

    Eq. (GDP-3): mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), tight for randomised response.

    Examples
    --------
    >>> round(mu_of_pure_dp(0.1), 6)
    0.125309
    """
    epsilon = _validate.non_negative(epsilon, "epsilon")
    if epsilon < 1:  # e^eps/(1+e^eps) - 1/2 = tanh(eps/2)/2 keeps its digits for small epsilon
        mu = 2 * math.sqrt(2) * float(special.erfinv(math.tanh(epsilon / 2)))
    else:  # the same by symmetry from the tail, which keeps its digits for large epsilon
        log_tail = -float(np.logaddexp(0.0, epsilon))
        mu = -2 * float(special.ndtri_exp(log_tail))
    return mu * (1 + _SAFETY)


def _mills(x: float) -> float:
    """Return R(x) = Phi(-x) / phi(x)."""
    return math.sqrt(math.pi / 2) * float(special.erfcx(x / math.sqrt(2)))


def _mills_drop(x: float, mu: float) -> float:
    """Return R(x) - R(x + mu) for small mu without cancellation, as the integral of -R'."""
    points = x + mu / 2 * (_NODES + 1)
    return float(mu / 2 * (_WEIGHTS @ _mills_slope(points)))


def _mills_slope(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -R'(t) = 1 - t R(t); for large t, where the difference cancels, by its asymptotic series."""
    direct = 1 - t * math.sqrt(math.pi / 2) * special.erfcx(t / math.sqrt(2))
    inverse = 1 / np.maximum(t, 1.0) ** 2
    # -R'(t) = 1/t^2 - 3/t^4 + 15/t^6 - ...; at t = 30 the first term left out is below 1e-13.
    series = inverse * (1 - 3 * inverse * (1 - 5 * inverse * (1 - 7 * inverse * (1 - 9 * inverse))))
    return np.where(t > 30, series, direct)
