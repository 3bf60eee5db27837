"""The Gaussian-DP curve against 50 digits, and its inverses over the whole supported range."""

import itertools
import math

import mpmath
import pytest

from dpem.errors import InvalidArgumentError
from dpem.privacy import gaussian_dp
from dpem.privacy.budget import Budget

EPSILONS = [1e-3, 1e-2, 0.1, 0.5, 1, 3, 10, 100, 1000]
DELTAS = [1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.1]


def true_delta(mu, epsilon):
    with mpmath.workdps(50):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
@pytest.mark.parametrize("mu", [1e-6, 1e-4, 0.01, 0.3, 0.499, 0.5, 0.501, 1, 3, 10, 45])
def test_delta_is_never_below_the_exact_value(mu, epsilon):
    """delta_at is an upper bound within two parts in 10^12, wherever delta is above 1e-290."""
    truth = true_delta(mu, epsilon)
    if truth > mpmath.mpf("1e-290"):
        excess = gaussian_dp.delta_at(mu, epsilon) / truth - 1
        tolerance = 2e-12 if truth > mpmath.mpf("1e-20") else 1e-9  # far tails: exp(-x^2/2) itself
        assert abs(excess) < tolerance
        if truth > mpmath.mpf("1e-20"):
            assert excess >= 0


@pytest.mark.parametrize("mu", [300, 1000, 3000])
def test_delta_is_never_below_the_exact_value_for_a_huge_mu(mu):
    """Rounding errors grow with mu there, and so does the margin."""
    for x in range(-30, 80):
        epsilon = mu * (x / 10 + mu / 2)
        assert 0 <= gaussian_dp.delta_at(mu, epsilon) / true_delta(mu, epsilon) - 1 < 2e-12 * mu / 100


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_inverse_round_trips_and_never_exceeds_the_budget(epsilon, delta):
    """mu_for spends the budget to 1e-9 and not a bit more, by 50 digits; epsilon_at gives it back."""
    mu = gaussian_dp.mu_for(epsilon, delta)
    assert true_delta(mu, epsilon) <= delta
    assert true_delta(mu * (1 + 1e-9), epsilon) > delta
    back = gaussian_dp.epsilon_at(mu, delta)
    assert epsilon * (1 - 1e-9) <= back <= epsilon
    assert true_delta(mu, back) <= delta


def test_wrong_curve_would_be_caught():
    """The test above rejects the classical calibration, which over-spends at large epsilon."""
    epsilon, delta = 10.0, 1e-4
    classical_mu = epsilon / math.sqrt(2 * math.log(1.25 / delta))
    assert true_delta(classical_mu, epsilon) > 2.5 * delta  # FACTS: 2.7 times the stated delta


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-4, 0.1, 0.99, 1.0, 1.01, 5, 40, 700])
def test_pure_dp_as_gaussian_dp(epsilon):
    """Eq. (GDP-3): at mu the two trade-off curves meet at the kink alpha = 1/(1+e^eps), by 50 digits."""
    with mpmath.workdps(340):  # the tail at epsilon = 700 has 300 zeros
        kink = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        mu = gaussian_dp.mu_of_pure_dp(epsilon)
        power_at_kink = mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * kink) - mu)
        assert power_at_kink <= kink * (1 + mpmath.mpf(10) ** -40)  # mu is large enough ...
        if epsilon:
            less = mu * (1 - mpmath.mpf(10) ** -9)  # ... and hardly larger than needed
            assert mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * kink) - less) > kink


def test_limits():
    """At mu = 0 delta is 0; a delta that mu alone satisfies costs no epsilon."""
    assert gaussian_dp.delta_at(0, 1) == 0
    assert gaussian_dp.epsilon_at(0, 1e-9) == 0
    assert gaussian_dp.epsilon_at(1e-3, 0.1) == 0
    assert gaussian_dp.delta_at(100, 0.1) == 1


@pytest.mark.parametrize("epsilon", [-1, 0, math.nan, math.inf, "1", None, True, [1.0]])
def test_bad_epsilon(epsilon):
    """Every invalid epsilon raises an error with its value."""
    with pytest.raises(InvalidArgumentError, match=r"Expected .*epsilon"):
        gaussian_dp.mu_for(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [-1e-5, 0, 1, 2, math.nan, math.inf, "1e-5", None])
def test_bad_delta(delta):
    """Every invalid delta raises an error with its value."""
    with pytest.raises(InvalidArgumentError, match=r"Expected .*delta"):
        gaussian_dp.epsilon_at(1.0, delta)


def test_a_budget_from_epsilon_and_from_mu():
    """A budget from epsilon and one from its mu agree."""
    budget = Budget.from_epsilon(0.7, 1e-6)
    assert Budget.from_mu(budget.mu, 1e-6).epsilon == pytest.approx(0.7, rel=1e-9)
    assert str(budget) == "epsilon = 0.7 at delta = 1e-06"
