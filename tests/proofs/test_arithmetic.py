"""Properties of the rational arithmetic that proofs/RootUp.v, proofs/Ledger.v and (S-7) speak about.

Fractions have no bits to run symbolically. So Hypothesis draws them, and every comparison is exact.
"""

import ast
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpem.errors import InsufficientBudgetError
from dpem.privacy import ledger as ledger_module
from dpem.privacy import noise, sensitivity
from dpem.privacy._rounding import float_down, float_up, root_up
from dpem.privacy.events import GaussianEvent
from dpem.privacy.ledger import Ledger
from dpem.privacy.neighbours import Adjacency
from dpem.statistics.gaussian import EXACT_ROWS
from dpem.statistics.simple import unit_scale

UNITS = 2**100
ROOT = Path(__file__).parents[2]
FRACTIONS = st.fractions(min_value=Fraction(1, 10**12), max_value=10**12, max_denominator=10**12)


# -- proofs/RootUp.v -----------------------------------------------------------------------------


@given(FRACTIONS)
@example(Fraction(2**53 + 1))
@example(Fraction(1) + Fraction(1, 2**54))
def test_float_up_is_the_smallest_float_above(x):
    """`float_up_smallest`."""
    result = float_up(x)
    assert Fraction(math.nextafter(result, -math.inf)) < x <= Fraction(result)
    assert Fraction(float_down(x)) <= x < Fraction(math.nextafter(float_down(x), math.inf))


@given(FRACTIONS)
@example(Fraction(2))
@example(Fraction(4))
@example(Fraction(2**106 + 1))
@example(Fraction(3, 2**70))
def test_root_up_is_the_smallest_float_above_the_root(x):
    """`root_up_smallest`."""
    result = root_up(x)
    assert Fraction(math.nextafter(result, 0)) ** 2 < x <= Fraction(result) ** 2


@given(st.integers(1, 200), st.sampled_from([13, 20]))
def test_room_for_rounding(n, bits):
    """`norm_after_rounding`: the unit leaves room for the rounding of n entries."""
    unit = Fraction(unit_scale(n, bits))
    assert unit <= Fraction(2) ** bits - Fraction(math.isqrt(n * 4**60), 2**61)


# -- (S-7) and (S-10) ----------------------------------------------------------------------------


@given(st.floats(1e-6, 1e6), st.integers(1, 10**6))
def test_a_person_costs_as_many_sensitivities_as_rows(one, rows):
    """`S7_persons`: m times the sensitivity of a row, rounded up."""
    assert Fraction(sensitivity.for_person(one, rows)) >= rows * Fraction(one)


@given(
    st.floats(1, 1e12),
    st.integers(0, 20),
    st.lists(st.sampled_from([1.0, 0.75, 0.5]), min_size=1, max_size=9),
)
def test_dropped_bits_add_the_norm_of_ones(one, bits, shape):
    """`S10_low_bits`: Delta / 2^b plus the norm of ones over their noise."""
    rest = Fraction(sensitivity.coarse(one, bits, shape)) - Fraction(one) / 2**bits
    assert rest >= 0
    assert rest**2 >= sum(1 / Fraction(noise) ** 2 for noise in shape)


# -- proofs/Ledger.v -----------------------------------------------------------------------------


@given(st.lists(st.floats(0.05, 50), min_size=1, max_size=5))
def test_charges_are_rounded_up_and_caps_down(multipliers):
    """`charge` and `cap_units`: whole units that cover the exact sum of mu^2."""
    for z in multipliers:
        exact = 1 / Fraction(z) ** 2 * UNITS
        charged = ledger_module._units_of(GaussianEvent(z))
        assert exact <= charged < exact + 1
        cap = Fraction(z) ** 2 * UNITS
        assert cap - 1 < ledger_module._units_down(z) <= cap


def test_a_ledger_is_a_filter_without_refunds(tmp_path):
    """`filter_sound`, `no_refund` and `total_covers`, for attempts of which some are refused."""
    ledger = Ledger.create(tmp_path / "some.ledger", name="some", cap_epsilon=1.0, cap_delta=1e-6)
    cap = Fraction(ledger._cap_units, UNITS)
    true_sum, spent, refusals = Fraction(0), 0, 0
    for z in (20.0, 9.0, 3.7, 30.0, 11.0, 5.0, 7.0, 50.0, 6.0, 100.0):
        cost = 1 / Fraction(z) ** 2
        before = spent
        try:
            ledger.spend(GaussianEvent(z), purpose="test")
            true_sum += cost
        except InsufficientBudgetError:
            refusals += 1
            assert true_sum + cost > cap - Fraction(20, UNITS)
        with ledger._store.reading() as records:
            spent = ledger._last_link(records)[2]
        assert before <= spent <= ledger._cap_units
        assert true_sum * UNITS <= spent
        assert true_sum <= cap
    assert refusals >= 2


# -- proofs/Lemma3.v -----------------------------------------------------------------------------


@given(
    st.integers(0, 15),
    st.integers(0, 2**63 - 1),
    st.floats(2**-10, 2**54),
    st.booleans(),
    st.sampled_from([0, 1]),
)
@example(15, 2**63 - 1, 2.0**54, True, 1)
def test_the_computed_exponent_is_near_the_exact_one(v, fraction, scale, is_gaussian, end):
    """`lemma3_gaussian` and `lemma3_laplace`: less than 2^-41, at both ends of the unknown bits of U."""
    if is_gaussian:
        law = noise._Law(scale, round(math.log2(scale)), noise._gaussian_exponent)
        assert Fraction(70, 100) <= law.ratio <= Fraction(142, 100)
    else:
        mantissa, exponent = math.frexp(scale)
        law = noise._Law(scale, exponent - (mantissa == 0.5), noise._laplace_exponent)
        assert 1 <= law.ratio < 2
    u = np.array([fraction], dtype=np.uint64) * 2.0**-63
    computed = law.exponent(np.array([float(v)]), u, float(law.ratio))[0]
    exact = law.exponent(Fraction(v), Fraction(fraction + end, 2**63), law.ratio)
    assert abs(Fraction(float(computed)) - exact) < Fraction(1, 2**41)


def test_thresholds_of_v_are_rounded_down():
    """`threshold_decides`: T_j = floor(2^32 e^-j), between rational bounds."""
    for j, threshold in enumerate(noise._E_POWERS.tolist(), start=1):
        lower, upper = noise._exp_bounds(Fraction(j), Fraction(j), 200)
        assert threshold <= lower * 2**32
        assert upper * 2**32 < threshold + 1


# -- proofs/FloatSums.v --------------------------------------------------------------------------


def exact_products():
    """Return every call of `exact_product` in the package, with its file."""
    for path in sorted((ROOT / "src").glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "exact_product":
                yield path.name, {keyword.arg: keyword.value for keyword in node.keywords}


def test_every_exact_product_states_a_bound_within_its_theorem():
    """Numbers as bounds are at most 2^52. A group of CHECKED_TOGETHER rows goes with sums below 2^51.

    With a group of all responsibilities of a row, which sum to at most 2^16, the sums check themselves.
    """
    calls = list(exact_products())
    assert len(calls) >= 6
    for file, keywords in calls:
        bound = ast.unparse(keywords["bound"])
        if not any(isinstance(node, ast.Name | ast.Attribute) for node in ast.walk(keywords["bound"])):
            assert eval(bound, {"__builtins__": {}}) <= 2**52, file
        if "group" in keywords:
            group = ast.unparse(keywords["group"])
            assert group in {"CHECKED_TOGETHER", "len(g)"}, file
            assert group == "len(g)" or bound == "2.0 ** 51", file
    assert EXACT_ROWS * 2**42 <= 2**51


@pytest.mark.parametrize("adjacency", list(Adjacency))
@given(a=st.floats(0, 8), b=st.floats(0, 8), c=st.floats(0, 8))
@example(a=0.0, b=1.0, c=0.0)
@example(a=0.1, b=1.0, c=0.9)
def test_joint_is_the_formula_of_the_theorem(adjacency, a, b, c):
    """`S4_joint`, with the case distinction of `within`."""
    a2, b2, c2 = (Fraction(weight) ** 2 for weight in (a, b, c))
    if a2 + b2 + c2 < Fraction(1, 10**20):
        return
    if adjacency is Adjacency.ADD_REMOVE:
        square = a2 + b2 + c2
    else:
        within = 2 * b2 + 2 * c2 + b2**2 / (2 * c2) if 0 < b2 <= 2 * c2 else 4 * b2
        square = max(2 * (a2 + b2 + c2), within)
    claimed = sensitivity.joint(a, b, c, adjacency)
    assert Fraction(math.nextafter(claimed, 0)) ** 2 < square <= Fraction(claimed) ** 2
