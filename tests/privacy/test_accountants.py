"""A conformance suite for every accountant, and a comparison of each accountant with its oracle."""

import itertools
import math
import sys
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from dpem.errors import InvalidArgumentError, MissingExtraError, UnreachableBudgetError, UnsupportedEventError
from dpem.privacy import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    calibrate,
    compare,
    gaussian_dp,
    split,
)
from dpem.privacy.accountants import (
    ACCOUNTANTS,
    AdvancedAccountant,
    GdpAccountant,
    LinearAccountant,
    MomentsAccountant,
    PldAccountant,
    RealMomentsAccountant,
    ZcdpAccountant,
    accountant_named,
)

FAST = [name for name in ACCOUNTANTS if name != "pld"]
PLANS = {
    "one gaussian": GaussianEvent(1.0),
    "twenty gaussians": ComposedEvent(((GaussianEvent(1.0), 20),)),
    "unequal gaussians": ComposedEvent(((GaussianEvent(1.0), 3), (GaussianEvent(5.0), 40))),
    "laplace": ComposedEvent(((LaplaceEvent(1.0), 20),)),
    "mixed": ComposedEvent(((LaplaceEvent(0.3), 40), (GaussianEvent(2.0), 30))),
}
BUDGETS = list(itertools.product([1e-3, 0.1, 1.0, 30.0, 1e3], [1e-15, 1e-5, 0.1]))


# -- every accountant ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_calibration_meets_the_budget_and_never_exceeds_it(name, plan, epsilon, delta):
    """The accountant's own total lies within 1e-9 below the declared epsilon."""
    calibrated = calibrate(PLANS[plan], epsilon, delta, name)
    assert type(calibrated) is type(PLANS[plan])
    total = accountant_named(name).epsilon(calibrated, delta)
    assert epsilon * (1 - 1e-9) <= total <= epsilon
    # A hair less noise would over-spend: the calibration is tight.
    assert accountant_named(name).epsilon(calibrated.with_noise_times(1 - 1e-6), delta) > epsilon


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("plan", PLANS)
def test_delta_and_epsilon_are_inverse(name, plan):
    """delta(epsilon(delta)) = delta where the curve is not flat."""
    accountant = accountant_named(name)
    event = PLANS[plan].with_noise_times(30.0)
    for delta in (1e-8, 1e-4):
        epsilon = accountant.epsilon(event, delta)
        back = accountant.delta(event, epsilon)
        assert back <= delta * (1 + 1e-6)
        if plan != "laplace" and epsilon > 0:
            assert back == pytest.approx(delta, rel=1e-2 if name == "pld" else 1e-6)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_monotone(name):
    """More noise costs less; more releases cost more; a smaller delta costs more."""
    accountant = accountant_named(name)
    base = ComposedEvent(((GaussianEvent(20.0), 5), (LaplaceEvent(0.05), 5)))
    more = ComposedEvent(((GaussianEvent(20.0), 10), (LaplaceEvent(0.05), 5)))
    epsilon = accountant.epsilon(base, 1e-6)
    assert accountant.epsilon(base.with_noise_times(1.5), 1e-6) < epsilon
    assert accountant.epsilon(more, 1e-6) > epsilon
    assert accountant.epsilon(base, 1e-9) > epsilon
    assert accountant.delta(base, 0.5 * epsilon) > accountant.delta(base, epsilon)


@pytest.mark.parametrize("name", ACCOUNTANTS)
@pytest.mark.parametrize("multiplier", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("count", [1, 25])
def test_no_accountant_is_below_the_exact_curve(name, multiplier, count):
    """For Gaussian mechanisms the exact curve is known, and every accountant is above it."""
    event = ComposedEvent(((GaussianEvent(multiplier), count),))
    truth = gaussian_dp.epsilon_at(math.sqrt(count) / multiplier, 1e-6)
    assert accountant_named(name).epsilon(event, 1e-6) >= truth * (1 - 1e-9)


def laplace_delta(epsilons, epsilon):
    """Return the delta of composed Laplace mechanisms at one unit of distance, by convolving losses."""
    # One mechanism's loss takes +e and -e as atoms, and is continuous between: discretise downwards.
    step = 1e-4
    total = np.array([1.0])
    for e in epsilons:
        n = round(e / step)
        losses = np.arange(-n, n + 1) * step
        cdf = 0.5 * np.exp((losses - e) / 2)  # P(loss <= l) for -e <= l < e, noise seen from x
        cdf[-1] = 1.0
        pmf = np.diff(np.concatenate([[0.0], cdf]))
        total = np.convolve(total, pmf)
    grid = (np.arange(len(total)) - len(total) // 2) * step
    return float((total * np.maximum(0, 1 - np.exp(epsilon - grid))).sum())


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_no_accountant_is_below_the_exact_laplace_delta(name):
    """For six Laplace mechanisms of epsilon 0.3, every accountant's delta is above an exact one."""
    event = ComposedEvent(((LaplaceEvent(0.3), 6),))
    for epsilon in (0.3, 0.8, 1.5):
        truth = laplace_delta([0.3] * 6, epsilon)
        assert accountant_named(name).delta(event, epsilon) >= truth * (1 - 2e-3)


class MysteryEvent(Event):
    """An event that no accountant supports."""


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_unknown_events_are_refused_by_name(name):
    """An event without a proof is refused, alone or inside a composition."""
    accountant = accountant_named(name)
    for event in (MysteryEvent(), ComposedEvent(((GaussianEvent(1.0), 1), (MysteryEvent(), 2)))):
        with pytest.raises(UnsupportedEventError, match=f"MysteryEvent.*{name}"):
            accountant.epsilon(event, 1e-5)
        with pytest.raises(UnsupportedEventError, match="MysteryEvent"):
            accountant.delta(event, 1.0)


@pytest.mark.parametrize("name", ACCOUNTANTS)
def test_bad_arguments(name):
    """Invalid events and deltas raise."""
    accountant = accountant_named(name)
    with pytest.raises(InvalidArgumentError, match="an Event"):
        accountant.epsilon("gaussian", 1e-5)
    for delta in (0, 1, -0.1, math.nan, "x"):
        with pytest.raises(InvalidArgumentError, match="delta"):
            accountant.epsilon(GaussianEvent(1.0), delta)
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        accountant.delta(GaussianEvent(1.0), -1)


# -- each against its oracle ---------------------------------------------------------------------------


def test_gdp_is_the_closed_form():
    """mu^2 = sum of 1/multiplier^2, exactly, and delta by 50 digits."""
    event = ComposedEvent(((GaussianEvent(3.0), 7), (GaussianEvent(11.5), 13)))
    assert GdpAccountant().mu(event) == pytest.approx(math.sqrt(7 / 9 + 13 / 11.5**2), rel=1e-15)
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.mpf(7) / 9 + 13 / mpmath.mpf(11.5) ** 2)
        truth = mpmath.ncdf(-1 / mu + mu / 2) - mpmath.e * mpmath.ncdf(-1 / mu - mu / 2)
        assert 0 <= GdpAccountant().delta(event, 1.0) / truth - 1 < 2e-12


def test_zcdp_is_the_closed_form():
    """Epsilon = rho + 2 sqrt(rho ln(1/delta)) by 50 digits, rounded up."""
    event = ComposedEvent(((GaussianEvent(3.0), 7), (LaplaceEvent(0.2), 13)))
    with mpmath.workdps(50):
        rho = mpmath.mpf(7) / 18 + 13 * mpmath.mpf(0.2) ** 2 / 2
        truth = rho + 2 * mpmath.sqrt(rho * mpmath.log(1 / mpmath.mpf(1e-6)))
        assert 0 <= ZcdpAccountant().epsilon(event, 1e-6) / truth - 1 < 1e-12
        delta = mpmath.exp(-((3 - rho) ** 2) / (4 * rho))
        assert 0 <= ZcdpAccountant().delta(event, 3.0) / delta - 1 < 1e-10
        far = mpmath.exp(-((30 - rho) ** 2) / (4 * rho))  # where the exponent's rounding shows
        assert 0 <= ZcdpAccountant().delta(event, 30.0) / far - 1 < 1e-9
    rounded = ZcdpAccountant().rho(event)
    for epsilon in (0.0, float(rho) / 2, rounded):
        assert ZcdpAccountant().delta(event, epsilon) == 1.0
    assert 0.99 < ZcdpAccountant().delta(event, math.nextafter(rounded, 9)) <= 1.0


def log_moment(order, event_counts):
    """Return the paper's alpha(lambda) with mpmath."""
    total = mpmath.mpf(0)
    for event, count in event_counts:
        if isinstance(event, GaussianEvent):
            total += count * (order**2 + order) / (2 * mpmath.mpf(event.noise_multiplier) ** 2)
        else:
            e = mpmath.mpf(event.epsilon)
            up, down = (order + 1) / (2 * order + 1), order / (2 * order + 1)
            total += count * mpmath.log(up * mpmath.exp(order * e) + down * mpmath.exp(-e * (order + 1)))
    return total


def test_laplace_moment_is_the_moment_of_the_loss():
    """The paper's alpha equals log E exp(lambda loss) by numerical integration."""
    from dpem.privacy.accountants.moments import _laplace_log_moment

    for order, epsilon in ((1.0, 0.3), (7.0, 0.05), (2.5, 1.2)):
        density, other = stats.laplace(0, 1 / epsilon), stats.laplace(1, 1 / epsilon)

        def integrand(y, density=density, other=other, order=order):
            return math.exp((order + 1) * density.logpdf(y) - order * other.logpdf(y))

        moment = sum(integrate.quad(integrand, *span)[0] for span in ((-600, 0), (0, 1), (1, 600)))
        assert _laplace_log_moment(order, epsilon) == pytest.approx(math.log(moment), rel=1e-6)


@pytest.mark.parametrize("max_order", [None, 100, 32])
def test_moments_equal_a_brute_force_over_integer_orders(max_order):
    """Min over lambda = 1, 2, ... of (alpha + ln 1/delta) / lambda, by 50 digits."""
    parts = ((GaussianEvent(25.0), 30), (LaplaceEvent(0.03), 40))
    orders = range(1, (max_order or 300) + 1)
    with mpmath.workdps(50):
        moments = [(order, log_moment(mpmath.mpf(order), parts)) for order in orders]
        truth = min((moment + mpmath.log(1 / mpmath.mpf(1e-5))) / order for order, moment in moments)
        got = MomentsAccountant(max_order).epsilon(ComposedEvent(parts), 1e-5)
        assert 0 <= got / truth - 1 < 1e-12
        delta = min(mpmath.exp(moment - order * 2) for order, moment in moments)
        assert 0 <= MomentsAccountant(max_order).delta(ComposedEvent(parts), 2.0) / delta - 1 < 1e-9


def test_moments_delta_is_the_formula_rounded_up():
    """At large moments, where rounding would show; and never more than one."""
    event, counts = GaussianEvent(0.1), [(GaussianEvent(0.1), 1)]
    with mpmath.workdps(50):
        truth = min(mpmath.exp(log_moment(order, counts) - order * 400) for order in range(1, 9))
        assert 0 <= MomentsAccountant().delta(event, 400.0) / truth - 1 < 1e-9
    assert MomentsAccountant().delta(event, 0.0) == 1.0
    assert RealMomentsAccountant().delta(event, 0.0) == 1.0


def test_moments_of_laplace_noise_reach_its_pure_epsilon():
    """The limit of infinite order: exactly, however small delta is."""
    assert MomentsAccountant().epsilon(LaplaceEvent(0.3), 1e-200) == pytest.approx(0.3, rel=1e-12)
    assert MomentsAccountant(max_order=100).epsilon(LaplaceEvent(0.3), 1e-200) > 1


def test_real_orders_give_zcdp_for_gaussian_mechanisms():
    """FACTS: with real lambda the moments accountant equals zCDP; integers can only be worse."""
    event = ComposedEvent(((GaussianEvent(25.0), 30),))
    zcdp = ZcdpAccountant().epsilon(event, 1e-5)
    assert RealMomentsAccountant().epsilon(event, 1e-5) == pytest.approx(zcdp, rel=1e-10)
    assert MomentsAccountant().epsilon(event, 1e-5) >= zcdp * (1 - 1e-10)


def test_limited_orders_cannot_reach_small_budgets():
    """Orders up to 100 certify nothing below ln(1/delta)/100 with any noise: this raises."""
    with pytest.raises(UnreachableBudgetError, match=r"moments.*epsilon=0.05"):
        calibrate(GaussianEvent(1.0), 0.05, 1e-4, MomentsAccountant(max_order=100))


def test_linear_composition_of_a_single_mechanism():
    one = GaussianEvent(4.0)
    exact = GdpAccountant().epsilon(one, 1e-5)
    assert exact <= LinearAccountant().epsilon(one, 1e-5) < exact * (1 + 1e-9)


def test_linear_and_advanced_are_their_formulas():
    """Sums of the exact per-mechanism epsilons; Eq. (AC-1) with half of delta for delta'."""
    gaussian, laplace = GaussianEvent(30.0), LaplaceEvent(0.01)
    event = ComposedEvent(((gaussian, 20), (laplace, 50)))
    per = gaussian_dp.epsilon_at(1 / 30, 1e-5 / 20)
    assert LinearAccountant().epsilon(event, 1e-5) == pytest.approx(20 * per + 0.5, rel=1e-10)
    per = gaussian_dp.epsilon_at(1 / 30, 1e-5 / 40)
    drift = 20 * per * math.expm1(per) + 50 * 0.01 * math.expm1(0.01)
    spread = math.sqrt(2 * math.log(2e5) * (20 * per**2 + 50 * 1e-4))
    assert AdvancedAccountant().epsilon(event, 1e-5) == pytest.approx(drift + spread, rel=1e-10)
    assert LinearAccountant().delta(ComposedEvent(((laplace, 50),)), 0.51) == 0
    assert LinearAccountant().delta(ComposedEvent(((laplace, 50),)), 0.49) == 1


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 1 / 3, 0.7])
@pytest.mark.parametrize("count", [1, 3, 7, 50])
def test_linear_and_advanced_are_never_below_their_formulas(epsilon, count):
    """By 50 digits, for Laplace mechanisms, whose own epsilons are exact."""
    event = ComposedEvent(((LaplaceEvent(epsilon), count),))
    with mpmath.workdps(50):
        e, delta = mpmath.mpf(epsilon), mpmath.mpf(1e-5)
        linear = count * e
        advanced = linear * mpmath.expm1(e) + mpmath.sqrt(-2 * mpmath.log(delta) * count) * e
        assert 0 <= LinearAccountant().epsilon(event, 1e-5) / linear - 1 < 1e-12
        assert 0 <= AdvancedAccountant().epsilon(event, 1e-5) / advanced - 1 < 1e-12


def test_dp_accounting_agrees_under_add_remove():
    """PLD brackets the exact curve; FACTS: under REPLACE_ONE its RDP and PLD disagree, so we avoid it."""
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event = ComposedEvent(((GaussianEvent(4.0), 20),))
    exact = GdpAccountant().epsilon(event, 1e-5)
    assert accountant_named("pld").epsilon(event, 1e-5) == pytest.approx(exact, rel=1e-3)
    theirs = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(4.0), 20)
    rdp = RdpAccountant().compose(theirs).get_epsilon(1e-5)
    assert exact < rdp < ZcdpAccountant().epsilon(event, 1e-5)  # RDP converts better than plain zCDP
    relation = NeighboringRelation.REPLACE_ONE
    replace = [
        RdpAccountant(neighboring_relation=relation).compose(theirs).get_epsilon(1e-5),
        PLDAccountant(neighboring_relation=relation).compose(theirs).get_epsilon(1e-5),
    ]
    assert replace[1] > 2 * replace[0]


def test_pld_refuses_losses_that_would_take_gigabytes():
    """Events with a huge loss raise, and the table of all accountants states the reason."""
    with pytest.raises(UnsupportedEventError, match="moderate privacy loss"):
        accountant_named("pld").epsilon(GaussianEvent(1e-3), 1e-5)
    table = compare(GaussianEvent(1e-3), 1e-5)
    assert "moderate privacy loss" in table.missing["pld"]
    assert table.epsilons["gdp"] > 1e5


@pytest.mark.parametrize(
    ("event", "is_taken"),
    [
        (GaussianEvent(1 / 12.3), True),  # 12.3^2 / 2 + 123 = 198.6
        (GaussianEvent(1 / 12.5), False),  # 203.1
        (ComposedEvent(((GaussianEvent(2 / 12.5), 4),)), False),
        (ComposedEvent(((GaussianEvent(0.5), 1), (LaplaceEvent(177.5), 1))), True),  # 2 + 20 + 177.5
        (ComposedEvent(((GaussianEvent(0.5), 1), (LaplaceEvent(178.5), 1))), False),
    ],
)
def test_pld_takes_losses_up_to_two_hundred(event, is_taken):
    """Most of a loss is below mu^2 / 2 + 10 mu and pure epsilons."""
    accountant = accountant_named("pld")
    made = []
    accountant._make = lambda: SimpleNamespace(compose=lambda *composed: made.append(composed))
    if is_taken:
        accountant._composed(accountant.mechanisms(event))
        assert made
    else:
        with pytest.raises(UnsupportedEventError, match="moderate privacy loss"):
            accountant._composed(accountant.mechanisms(event))


def test_pld_of_many_gaussians_is_that_of_each_composed():
    """One distribution for all of them: not below the exact curve, nor above dp-accounting's own sum."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    parts = ((3.0, 2), (5.0, 1), (8.0, 7))
    event = ComposedEvent((*((GaussianEvent(z), count) for z, count in parts), (LaplaceEvent(0.1), 2)))
    theirs = PLDAccountant()
    for z, count in parts:
        theirs.compose(dp_event.GaussianDpEvent(z), count)
    gaussian = ComposedEvent(event.parts[:-1])
    ours = accountant_named("pld").epsilon(gaussian, 1e-6)
    assert GdpAccountant().epsilon(gaussian, 1e-6) <= ours <= theirs.get_epsilon(1e-6) * (1 + 2e-8)
    theirs.compose(dp_event.LaplaceDpEvent(10.0), 2)
    whole = accountant_named("pld").epsilon(event, 1e-6)
    assert ours < whole
    assert whole == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-4)


def test_pld_composes_the_same_events_once(monkeypatch):
    """A second call with the same arguments is cached; another delta or event is composed."""
    made, compose = [], PldAccountant._composed
    monkeypatch.setattr(PldAccountant, "_composed", lambda *one: made.append(one) or compose(*one))
    event, other = GaussianEvent(4.0625), GaussianEvent(4.125)
    first = compare(event, 1e-5, ["pld"])
    assert compare([event], 1e-5, ["pld"]) == first
    assert len(made) == 1
    answers = {
        first.epsilons["pld"],
        *(accountant_named("pld").epsilon(event, delta) for delta in (1e-6, 0.1)),
    }
    assert len({*answers, accountant_named("pld").epsilon(other, 1e-5)}) == 4
    assert len(made) == 4


def test_pld_calibrates_to_its_own_precision_or_refuses():
    """With discretised distributions it calibrates to one part in 10^6, and raises if its epsilon jumps."""
    calibrated = calibrate(GaussianEvent(1.0), 1.0, 1e-5, "pld")
    assert 1 - 1e-6 <= accountant_named("pld").epsilon(calibrated, 1e-5) <= 1
    with pytest.raises(UnreachableBudgetError, match=r"'pld'.*delta=1e-20"):
        calibrate(GaussianEvent(1.0), 1.0, 1e-20, "pld")


def test_delta_at_the_start_of_a_flat_curve():
    """If epsilon is the same for all larger deltas, the smallest such delta is returned."""
    event = ComposedEvent(((LaplaceEvent(0.01), 1), (GaussianEvent(1e4), 1)))
    linear = LinearAccountant()
    epsilon = linear.epsilon(event, 0.01)
    found = linear.delta(event, epsilon)
    assert found == pytest.approx(linear.delta(event, epsilon * (1 + 1e-9)), rel=1e-3)
    assert linear.epsilon(event, found) <= epsilon < linear.epsilon(event, 0.99 * found)
    for accountant in (linear, MomentsAccountant()):
        assert accountant.delta(LaplaceEvent(0.1), 0.1) == 0
        assert accountant.delta(LaplaceEvent(0.1), math.nextafter(0.1, 0)) > 0


def test_opendp_converts_zcdp_no_looser_than_we_do():
    """OpenDP's rho -> (epsilon, delta) lies between the exact curve and the paper's conversion."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l2_distance(T="f64")
    measurement = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, 4.0))
    theirs = measurement.map(1.0).epsilon(1e-6)
    assert GdpAccountant().epsilon(GaussianEvent(4.0), 1e-6) <= theirs
    assert theirs <= ZcdpAccountant().epsilon(GaussianEvent(4.0), 1e-6)


# -- plans ---------------------------------------------------------------------------------------------


def test_split_shares_mu_squared():
    """Shares are of mu^2, and together they fit the budget exactly."""
    shares = [0.1, 0.2, 0.3, 0.4]
    events = split(0.7, 1e-6, shares)
    mu_squared = np.array([event.noise_multiplier**-2.0 for event in events])
    assert mu_squared / mu_squared.sum() == pytest.approx(shares, rel=1e-12)
    total = GdpAccountant().epsilon(ComposedEvent.of(events), 1e-6)
    assert 0.7 * (1 - 1e-9) <= total <= 0.7


@pytest.mark.parametrize("shares", [[], [0.5, 0], [0.5, -1], [0.5, math.nan], ["a"], None, "ab"])
def test_bad_shares(shares):
    """Empty plans and invalid shares are refused."""
    with pytest.raises(InvalidArgumentError, match="share"):
        split(1.0, 1e-5, shares)


def test_empty_plans_and_bad_budgets():
    """Empty plans and invalid budgets raise."""
    with pytest.raises(InvalidArgumentError, match="at least one event"):
        ComposedEvent(())
    with pytest.raises(InvalidArgumentError, match="infinite epsilon gives no privacy"):
        calibrate(GaussianEvent(1.0), math.inf, 1e-5)
    with pytest.raises(InvalidArgumentError, match="one of 'gdp'"):
        calibrate(GaussianEvent(1.0), 1.0, 1e-5, "renyi")
    with pytest.raises(InvalidArgumentError, match="at least one event"):
        calibrate([], 1.0, 1e-5)
    for nothing in (None, 5, [[1]], [None]):
        with pytest.raises(InvalidArgumentError, match="an Event, or a list of them"):
            calibrate(nothing, 1.0, 1e-5)
    for parts in (5, [5], None):
        with pytest.raises(InvalidArgumentError, match="parts"):
            ComposedEvent(parts)
    with pytest.raises(InvalidArgumentError, match="count"):
        ComposedEvent(((GaussianEvent(1.0), 10**400),))


@pytest.mark.parametrize("name", FAST)
def test_calibration_refuses_unknown_events_by_name(name):
    class Mystery(Event):
        pass

    with pytest.raises(UnsupportedEventError, match=f"Mystery.*{name!r}"):
        calibrate(Mystery(), 1.0, 1e-5, name)


def test_lists_of_events_are_composed():
    events = [GaussianEvent(30.0), LaplaceEvent(0.01), GaussianEvent(30.0)]
    assert compare(events, 1e-5) == compare(ComposedEvent.of(events), 1e-5)
    assert calibrate(events, 1.0, 1e-5) == calibrate(ComposedEvent.of(events), 1.0, 1e-5)


def test_compare_lists_all_accountants():
    """The table holds one epsilon per accountant, the exact one smallest."""
    table = compare(PLANS["twenty gaussians"].with_noise_times(20.0), 1e-5)
    assert list(table.epsilons) == list(ACCOUNTANTS)
    assert min(table.epsilons.values()) == table.epsilons["gdp"]
    assert "gdp" in str(table)
    assert dict(table) == table.epsilons


def test_deltas_are_never_below_the_exact_ones():
    """ZCDP's and the moments' formulas in fifty digits, where exponents are large enough to show a margin."""
    for multiplier, epsilon in itertools.product((0.7, 3.0, 11.3), (12.0, 40.0, 90.0)):
        with mpmath.workdps(50):
            z = mpmath.mpf(multiplier)
            rho = 1 / (2 * z * z)
            zcdp = mpmath.exp(-((epsilon - rho) ** 2) / (4 * rho))
            best = max(1, int(z * z * epsilon - 0.5) - 1)
            moments = min(
                mpmath.exp((order * order + order) / (2 * z * z) - order * epsilon)
                for order in range(best, best + 4)
            )
            event = GaussianEvent(multiplier)
            assert mpmath.mpf(ZcdpAccountant().delta(event, epsilon)) >= zcdp
            assert mpmath.mpf(MomentsAccountant().delta(event, epsilon)) >= moments


def test_one_mechanism_with_a_huge_epsilon():
    """e^600 exceeds the range of floats: the result is a number that no budget covers, not an error."""
    hopeless = ComposedEvent(((LaplaceEvent(1000.0), 1), (LaplaceEvent(0.1), 1)))
    assert accountant_named("advanced").epsilon(hopeless, 1e-6) >= 1e290


def test_pld_without_its_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match=r"the extra 'pld' of dpem"):
        accountant_named("pld")
