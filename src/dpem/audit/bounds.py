"""Lower bounds on mu and epsilon from the wrong guesses in a distinguishing game."""

from __future__ import annotations

import math

from scipy import special

__all__ = ["epsilon_lower_bound", "largest_rate", "mu_lower_bound"]


def largest_rate(errors: int, runs: int, confidence: float) -> float:
    """Return the Clopper-Pearson upper bound on an error rate, one-sided.

    Examples
    --------
    >>> round(largest_rate(0, 100, 0.95), 4)  # the rule of three
    0.0295
    """
    return 1.0 if errors >= runs else float(special.betaincinv(errors + 1, runs - errors, confidence))


def mu_lower_bound(false_alarms: int, misses: int, runs: int, confidence: float = 0.95) -> float:
    """Return a lower bound on mu from wrong guesses in `runs` games of each world.

    Error rates of a mu-GDP mechanism lie on or above Phi(Phi^-1(1 - alpha) - mu), and their average is at
    least Phi(-mu / 2). Each of the two resulting bounds has half the error probability, so the larger one
    holds (docs/proofs/audits.md). The average is tighter if both error rates are similar, and the separate
    rates if they differ.

    Examples
    --------
    >>> mu_lower_bound(159, 159, 1000) < 2 < mu_lower_bound(100, 100, 1000)
    True
    """
    half = 1 - (1 - confidence) / 2
    alpha, beta = _rates(false_alarms, misses, runs, half)
    separate = -special.ndtri(alpha) - special.ndtri(beta) if alpha + beta < 1 else 0.0
    average = -2 * special.ndtri(largest_rate(false_alarms + misses, 2 * runs, half))
    return max(0.0, float(separate), float(average))


def epsilon_lower_bound(
    false_alarms: int, misses: int, runs: int, delta: float, confidence: float = 0.95
) -> float:
    """Return a lower bound on epsilon at `delta` for any mechanism.

    (epsilon, delta)-DP requires alpha + e^epsilon beta >= 1 - delta, and the same with alpha and beta
    exchanged.
    """
    alpha, beta = _rates(false_alarms, misses, runs, confidence)
    found = 0.0
    for one, other in ((alpha, beta), (beta, alpha)):
        if 1 - delta - one > other:
            found = max(found, math.log((1 - delta - one) / other))
    return found


def _rates(false_alarms: int, misses: int, runs: int, confidence: float) -> tuple[float, float]:
    each = 1 - (1 - confidence) / 2
    return largest_rate(false_alarms, runs, each), largest_rate(misses, runs, each)
