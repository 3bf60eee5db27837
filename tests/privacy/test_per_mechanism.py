"""The paper's per-mechanism budgets against its formulas."""

import math
from fractions import Fraction

import pytest

from dpem.errors import InvalidArgumentError, UnreachableBudgetError
from dpem.privacy import GaussianEvent, gaussian_dp
from dpem.privacy.accountants import GdpAccountant, MomentsAccountant, ZcdpAccountant
from dpem.privacy.per_mechanism import COMPOSITIONS, mixture_mechanisms, per_mechanism_budget

J, K = 10, 3  # the paper's Life Science setting
SCENARIOS = ["LLG", "GGG"]


def paper_total(composition, scenario, budget, delta):
    """Total epsilon by section 5 of the paper, written out again."""
    e, d_i = budget.epsilon_i, budget.delta_i
    mechanisms = J * (2 * K + 1)
    n_gaussian = J * K if scenario == "LLG" else mechanisms
    ratio = e**2 / (2 * math.log(1.25 / d_i))  # Delta^2 / sigma^2
    if composition == "linear":
        return mechanisms * e
    if composition == "advanced":
        left = delta - n_gaussian * d_i
        return mechanisms * e * math.expm1(e) + math.sqrt(2 * mechanisms * math.log(1 / left)) * e
    if composition == "zcdp":
        rho = n_gaussian * ratio / 2 + (J * (K + 1) * e**2 / 2 if scenario == "LLG" else 0)
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    def alpha(order):
        laplace = math.log(
            (order + 1) / (2 * order + 1) * math.exp(order * e)
            + order / (2 * order + 1) * math.exp(-e * (order + 1))
        )
        return n_gaussian * (order**2 + order) * ratio / 2 + (
            J * (K + 1) * laplace if scenario == "LLG" else 0
        )

    return min((alpha(order) + math.log(1 / delta)) / order for order in range(1, 101))


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta_i", [None, 1e-8])
def test_total_epsilon_is_that_of_the_paper(composition, scenario, epsilon, delta_i):
    """Every composition's formula, at the solved epsilon_i, gives the declared epsilon to 1e-9."""
    laplace, gaussian = mixture_mechanisms(scenario, K, J)
    budget = per_mechanism_budget(
        composition, epsilon, 1e-4, n_laplace=laplace, n_gaussian=gaussian, delta_i=delta_i
    )
    assert paper_total(composition, scenario, budget, 1e-4) == pytest.approx(epsilon, rel=1e-9)
    assert paper_total(composition, scenario, budget, 1e-4) <= epsilon
    assert budget.noise_multiplier == pytest.approx(
        math.sqrt(2 * math.log(1.25 / budget.delta_i)) / budget.epsilon_i, rel=1e-15
    )


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_events_cost_at_most_the_budget(composition, scenario):
    """The exact (for GGG) or bounding (for LLG) accountant confirms the paper's formulas."""
    laplace, gaussian = mixture_mechanisms(scenario, K, J)
    budget = per_mechanism_budget(composition, 1.0, 1e-4, n_laplace=laplace, n_gaussian=gaussian)
    assert sum(count for _, count in budget.event.parts) == J * (2 * K + 1)
    accountant = GdpAccountant() if scenario == "GGG" else ZcdpAccountant()
    spent = accountant.epsilon(budget.event, 1e-4)
    slack = MomentsAccountant().epsilon(budget.event, 1e-4)
    assert min(spent, slack) <= 1.0


def test_counts():
    """2K + 1 mechanisms an iteration."""
    assert mixture_mechanisms("GGG", 3, 10) == (0, 70)
    assert mixture_mechanisms("LLG", 3, 10) == (40, 30)
    with pytest.raises(InvalidArgumentError, match="'LLG', 'GGG'"):
        mixture_mechanisms("LGG", 3, 10)


def test_all_laplace():
    """k-means with Laplace noise has no delta_i."""
    budget = per_mechanism_budget("linear", 1.0, 1e-4, n_laplace=60, n_gaussian=0)
    assert budget.delta_i is None
    assert budget.noise_multiplier is None
    assert budget.epsilon_i == pytest.approx(1 / 60)
    zcdp = per_mechanism_budget("zcdp", 1.0, 1e-4, n_laplace=60, n_gaussian=0)
    assert ZcdpAccountant().epsilon(zcdp.event, 1e-4) == pytest.approx(1.0, rel=1e-9)


def test_the_papers_stroke_setting_overspends_delta():
    """J = 20, K = 10, delta_i = 1e-6 with advanced composition spends 4.2 times delta: refused."""
    laplace, gaussian = mixture_mechanisms("GGG", 10, 20)
    with pytest.raises(InvalidArgumentError, match=r"delta_i below delta / 420"):
        per_mechanism_budget("advanced", 1.0, 1e-4, n_laplace=laplace, n_gaussian=gaussian, delta_i=1e-6)
    fits = per_mechanism_budget("advanced", 1.0, 1e-4, n_laplace=laplace, n_gaussian=gaussian)
    assert fits.delta_i == pytest.approx(1e-4 / 840)


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("n_gaussian", [1, 3, 30, 49])
def test_deltas_of_mechanisms_add_up_to_at_most_delta(composition, n_gaussian):
    """By default they add up to at most delta under linear composition, and to half of it otherwise."""
    delta = 1e-4
    budget = per_mechanism_budget(composition, 0.5, delta, n_laplace=n_gaussian, n_gaussian=n_gaussian)
    part = Fraction(delta) if composition == "linear" else Fraction(delta) / 2
    assert part * (1 - Fraction(1, 10**12)) < n_gaussian * Fraction(budget.delta_i) <= part


def test_a_given_delta_may_use_up_delta_under_linear_composition_only():
    """Advanced composition needs some of delta for itself."""
    arguments = {"n_laplace": 0, "n_gaussian": 4, "delta_i": 2.0**-12}
    assert per_mechanism_budget("linear", 1.0, 2.0**-10, **arguments).delta_i == 2.0**-12
    for composition, delta in (("linear", math.nextafter(2.0**-10, 0)), ("advanced", 2.0**-10)):
        with pytest.raises(InvalidArgumentError, match="delta_i below"):
            per_mechanism_budget(composition, 1.0, delta, **arguments)


@pytest.mark.parametrize("composition", ["linear", "advanced"])
def test_classical_sigma_is_refused_if_it_is_invalid(composition):
    """At epsilon_i = 10 the classical sigma has 2.7 times its delta; zCDP does not rely on it."""
    with pytest.raises(UnreachableBudgetError, match="classical Gaussian sigma"):
        per_mechanism_budget(
            composition, 10.0 if composition == "linear" else 1e5, 1e-4, n_laplace=0, n_gaussian=1
        )
    assert per_mechanism_budget("zcdp", 10.0, 1e-4, n_laplace=0, n_gaussian=1).epsilon_i > 0


def test_classical_sigma_holds_below_one():
    """Where the theorem applies (epsilon_i < 1) the exact curve never refuses it."""
    for epsilon in (0.01, 0.3, 0.99):
        for delta in (1e-12, 1e-5, 1e-2):
            budget = per_mechanism_budget("linear", epsilon, delta, n_laplace=0, n_gaussian=1)
            mu = 1 / GaussianEvent(budget.noise_multiplier).noise_multiplier
            assert gaussian_dp.delta_at(mu, budget.epsilon_i) <= budget.delta_i


def test_moments_with_the_authors_orders_cannot_reach_small_epsilon():
    """Integer orders up to 100 stop at ln(1/delta)/100 = 0.0921 for delta = 1e-4."""
    per_mechanism_budget("moments", 0.1, 1e-4, n_laplace=0, n_gaussian=70)
    with pytest.raises(UnreachableBudgetError, match="Orders up to 100"):
        per_mechanism_budget("moments", 0.09, 1e-4, n_laplace=0, n_gaussian=70)


@pytest.mark.parametrize(
    "arguments",
    [
        {"composition": "renyi"},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"delta": 0.0},
        {"n_laplace": 0, "n_gaussian": 0},
        {"n_laplace": -1},
        {"n_gaussian": -1},
        {"delta_i": 2.0},
        {"delta_i": 1e-4},
    ],
)
def test_bad_arguments(arguments):
    """The message names the argument."""
    good = {"composition": "linear", "epsilon": 1.0, "delta": 1e-4, "n_laplace": 4, "n_gaussian": 3}
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        per_mechanism_budget(**{**good, **arguments})


@pytest.mark.parametrize(
    ("epsilon", "with_cap"),
    [
        (0.1, 0.538147),
        (0.2, 1.0),
        (0.5, 1.0),
        (1.0, 1.0),
        (2.0, 0.9996),
        (3.0, 0.9986),
        (3.6841, 0.9965),
        (4.0, 1.0),
    ],
)
def test_only_limited_orders_lose_clearly_to_zcdp(epsilon, with_cap):
    """Integer orders lose at most 0.36 % beside zCDP, near 3.684; orders up to 100 nearly half at 0.1."""
    laplace, gaussian = mixture_mechanisms("GGG", n_components=10, n_iterations=20)
    common = {"n_laplace": laplace, "n_gaussian": gaussian, "delta_i": 1e-8}
    zcdp = per_mechanism_budget("zcdp", epsilon, 1e-4, **common).epsilon_i
    capped = per_mechanism_budget("moments", epsilon, 1e-4, **common).epsilon_i
    integers = per_mechanism_budget("moments", epsilon, 1e-4, **common, max_order=None).epsilon_i
    assert integers / zcdp == pytest.approx(1, abs=3.6e-3)
    assert integers <= zcdp
    assert capped / zcdp == pytest.approx(with_cap, abs=1e-3)


@pytest.mark.parametrize(("k", "steps", "least", "most"), [(10, 20, 0.0065, 0.0175), (3, 10, 0.040, 0.0725)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_with_laplace_noise_moments_leave_more_than_zcdp(epsilon, k, steps, least, most):
    """The claim of docs/paper/methods.md about LLG, for K and J of Stroke and of Life Science."""
    laplace, gaussian = mixture_mechanisms("LLG", n_components=k, n_iterations=steps)
    common = {"n_laplace": laplace, "n_gaussian": gaussian, "delta_i": 1e-8}
    zcdp = per_mechanism_budget("zcdp", epsilon, 1e-4, **common).epsilon_i
    integers = per_mechanism_budget("moments", epsilon, 1e-4, **common, max_order=None).epsilon_i
    assert least < integers / zcdp - 1 < most
