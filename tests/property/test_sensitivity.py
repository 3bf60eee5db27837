"""Sensitivities: a search that tries to exceed each bound, and a pair of rows that attains it.

The search climbs from random starts over pairs of rows and responsibilities; it must never exceed the
claim, and it must come close to it, so that a bound that is too small or too loose fails.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize

from dpem.errors import InvalidArgumentError
from dpem.privacy import sensitivity
from dpem.privacy._rounding import digits_down, digits_up, float_down, float_up, root_up

RELATIONS = ["add_remove", "replace_one"]
K, D = 3, 3


# -- rows, as any point of R^n maps onto them ----------------------------------------------------------


def ball_row(z, radius=1.0):
    norm = np.linalg.norm(z)
    return z * (radius / norm) if norm > radius else z


def simplex(z):
    """Softmax of ten times the argument: reaches the vertices."""
    w = np.exp(10 * (z - z.max()))
    return w / w.sum()


def vec(m):
    """Upper triangle with off-diagonals times sqrt 2: Euclidean norm = Frobenius norm."""
    i, j = np.triu_indices(len(m))
    return m[i, j] * np.where(i == j, 1.0, math.sqrt(2))


def joint_row(a, b, c):
    def statistic(z):
        g, u = simplex(z[:K]), ball_row(z[K : K + D])
        return np.concatenate(
            [a * g, np.outer(b * g, u).ravel(), np.outer(c * g, vec(np.outer(u, u))).ravel()]
        )

    return statistic, K + D


def counts_row():
    return simplex, K


def histogram_row():
    return lambda z: np.eye(K)[z.argmax()], K


def sums_row(radius):
    def statistic(z):
        return np.outer(simplex(z[:K]), ball_row(z[K:], radius)).ravel()

    return statistic, K + D


def second_moments_row(radius):
    def statistic(z):
        u = ball_row(z[K:], radius)
        return np.outer(simplex(z[:K]), vec(np.outer(u, u))).ravel()

    return statistic, K + D


def clipped_row(bound, cone):
    def statistic(z):
        return ball_row(np.abs(z) if cone else z, bound)

    return statistic, D


def lloyd_row(domain):
    def statistic(z):
        u = np.clip(z[K:], -1, 1) if domain == "box" else ball_row(z[K:])
        g = np.eye(K)[z[:K].argmax()]
        return np.concatenate([g, np.outer(g, u).ravel()])

    return statistic, K + D


def largest_move(row, relation, norm=2, starts=12, seed=0):
    """Climb from random starts to the pair of rows that moves the sum most."""
    statistic, size = row
    rng = np.random.default_rng(seed)

    def move(z):
        difference = statistic(z[:size])
        if relation == "replace_one":
            difference = difference - statistic(z[size:])
        return -np.linalg.norm(difference, norm)

    best = 0.0
    for _ in range(starts):
        start = rng.normal(0, 2, 2 * size)
        found = optimize.minimize(
            move, start, method="Powell", options={"maxiter": 60, "xtol": 1e-5, "ftol": 1e-9}
        )
        best = max(best, -found.fun)
    return best


def check_bound(row, claim, relation, norm=2, tight=1e-3):
    reached = largest_move(row, relation, norm)
    assert reached <= claim * (1 + 1e-9)
    assert reached >= claim * (1 - tight)


# -- every bound holds and is reached ------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts(relation):
    check_bound(counts_row(), sensitivity.counts(relation), relation)
    check_bound(counts_row(), sensitivity.counts(relation, "l1"), relation, norm=1)


@pytest.mark.parametrize("relation", RELATIONS)
def test_histogram(relation):
    check_bound(histogram_row(), sensitivity.histogram(relation), relation)
    check_bound(histogram_row(), sensitivity.histogram(relation, "l1"), relation, norm=1)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("radius", [1.0, 2.5])
def test_sums(relation, radius):
    check_bound(sums_row(radius), sensitivity.sums(radius, relation), relation)
    check_bound(sums_row(radius), sensitivity.sums(radius, relation, "l1", D), relation, norm=1)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("radius", [1.0, 2.5])
def test_second_moments(relation, radius):
    check_bound(second_moments_row(radius), sensitivity.second_moments(radius, relation), relation)


# All four regimes of Eq. (S-4): disjoint components, an inner angle, opposite rows, single blocks.
WEIGHTS = [(1, 1, 1), (0.1, 1, 1), (0, 1, 2), (0, 1, 0.8), (0.1, 1, 0.3), (1, 1, 0), (0.3, 1, 0), (1, 0, 0)]
WEIGHTS += [(0, 1, 0), (0, 0, 1), (0.5, 0.2, 1)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_joint(relation, weights):
    check_bound(joint_row(*weights), sensitivity.joint(*weights, relation), relation)


@pytest.mark.parametrize("weights", [(0.1, 1, 1), (0.1, 1, 0.3), (0.3, 1, 0)])
def test_the_short_formula_is_refuted(weights):
    """Sqrt 2 times the row's norm, without the certificate 4 a^2 c^2 >= b^4, is refuted by the search."""
    short = math.sqrt(2 * sum(weight**2 for weight in weights))
    assert largest_move(joint_row(*weights), "replace_one") > short * 1.02


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("cone", [False, True])
def test_clipped_vector(relation, cone):
    claim = sensitivity.clipped_vector(3.0, relation, cone=cone)
    check_bound(clipped_row(3.0, cone), claim, relation)


def test_a_false_cone_certificate_would_be_caught():
    """Vectors of any sign exceed the bound for cones."""
    claim = sensitivity.clipped_vector(3.0, "replace_one", cone=True)
    assert largest_move(clipped_row(3.0, cone=False), "replace_one") > 1.4 * claim


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("counted", [False, True])
def test_interval(relation, counted):
    """A number from 0 to 3, together with a count of weight 3 or alone."""

    def statistic(z):
        value = 3 * min(max(z[0], 0.0), 1.0)
        return np.array([value, 3.0]) if counted else np.array([value])

    check_bound((statistic, 1), sensitivity.interval(3.0, relation, counted=counted), relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("domain", ["box", "ball"])
def test_lloyd(relation, domain):
    check_bound(lloyd_row(domain), sensitivity.lloyd_l1(D, relation, domain), relation, norm=1, tight=5e-3)


def test_the_papers_lloyd_sensitivity_is_too_small():
    """FACTS: on Gowalla (d = 2, unit ball, replace-one) 4.83 is needed where the paper takes 3."""
    assert sensitivity.lloyd_l1(2, "replace_one", "ball") == pytest.approx(4.828, abs=1e-3)


@pytest.mark.parametrize("rows", [2, 5])
def test_the_sensitivity_of_a_person_is_attained(rows):
    """The m rows of one person move a sum m times as far, and that bound is attained."""
    one = sensitivity.sums(1.0, "replace_one")
    claim = sensitivity.for_person(one, rows)
    u = np.array([0.6, 0.8])
    assert np.linalg.norm(rows * u - rows * -u) == pytest.approx(claim, rel=1e-12)
    assert sensitivity.for_person(one, 1) == one


def person_row(row, rows):
    """Return the sum over the rows of one person, each of which the search moves separately."""
    statistic, size = row

    def of_person(z):
        return sum(statistic(z[j * size : (j + 1) * size]) for j in range(rows))

    return of_person, rows * size


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ["sums", "counts", "clipped"])
def test_no_person_exceeds_the_sensitivity(relation, kind):
    """A search over all rows of a person at once finds no pair beyond the claim, and attains it."""
    row, one = {
        "sums": (sums_row(1.0), sensitivity.sums(1.0, relation)),
        "counts": (counts_row(), sensitivity.counts(relation)),
        "clipped": (clipped_row(2.0, cone=True), sensitivity.clipped_vector(2.0, relation, cone=True)),
    }[kind]
    check_bound(person_row(row, 2), sensitivity.for_person(one, 2), relation)


# -- closed forms --------------------------------------------------------------------------------------

SQUARES = [  # each claim with the square of its real number
    (lambda: sensitivity.counts("add_remove"), 1),
    (lambda: sensitivity.counts("add_remove", "l1"), 1),
    (lambda: sensitivity.counts("replace_one"), 2),
    (lambda: sensitivity.counts("replace_one", "l1"), 4),
    (lambda: sensitivity.histogram("replace_one", "l1"), 4),
    (lambda: sensitivity.histograms(5, "add_remove"), 5),
    (lambda: sensitivity.histograms(5, "replace_one"), 10),
    (lambda: sensitivity.sums(2.5, "add_remove"), Fraction(25, 4)),
    (lambda: sensitivity.sums(2.5, "replace_one"), 25),
    (lambda: sensitivity.sums(2.5, "add_remove", "l1", 3), Fraction(75, 4)),
    (lambda: sensitivity.sums(2.5, "replace_one", "l1", 3), 75),
    (lambda: sensitivity.second_moments(2.5, "add_remove"), Fraction(25, 4) ** 2),
    (lambda: sensitivity.second_moments(2.5, "replace_one"), 2 * Fraction(25, 4) ** 2),
    (lambda: sensitivity.joint(3, 2, 1, "add_remove"), 14),
    (lambda: sensitivity.joint(3, 2, 1, "replace_one"), 28),  # disjoint responsibilities
    (lambda: sensitivity.joint(0.125, 2, 3, "replace_one"), 8 + 18 + Fraction(16, 18)),  # an inner angle
    (lambda: sensitivity.joint(0.125, 2, 1.75, "replace_one"), 8 + Fraction(49, 8) + Fraction(128, 49)),
    (lambda: sensitivity.joint(0.125, 2, 1.25, "replace_one"), 16),  # opposite rows
    (lambda: sensitivity.joint(0.125, 2, 1, "replace_one"), 16),
    (lambda: sensitivity.joint(0.125, 2, 0, "replace_one"), 16),
    (lambda: sensitivity.joint(3, 0, 0, "replace_one"), 18),
    (lambda: sensitivity.joint(0, 0, 3, "replace_one"), 18),
    (lambda: sensitivity.interval(3.0, "add_remove"), 9),
    (lambda: sensitivity.interval(3.0, "add_remove", counted=True), 18),
    (lambda: sensitivity.interval(3.0, "replace_one", counted=True), 9),
    (lambda: sensitivity.clipped_vector(3.0, "add_remove"), 9),
    (lambda: sensitivity.clipped_vector(3.0, "replace_one"), 36),
    (lambda: sensitivity.clipped_vector(3.0, "replace_one", cone=True), 18),
    (lambda: sensitivity.coarse(4096.0, 10, [0.5, 0.5, 1.0]), (4 + 3) ** 2),
    (lambda: sensitivity.lloyd_l1(4, "add_remove"), 25),
    (lambda: sensitivity.lloyd_l1(4, "replace_one"), 100),
    (lambda: sensitivity.lloyd_l1(4, "add_remove", "ball"), 9),
    (lambda: sensitivity.lloyd_l1(4, "replace_one", "ball"), 36),
    (lambda: sensitivity.for_person(2.5, 3), Fraction(225, 4)),
]


@pytest.mark.parametrize(("claim", "square"), SQUARES)
def test_closed_forms(claim, square):
    """The result is the next float above the exact number."""
    claimed = Fraction(claim()) ** 2
    assert claimed >= square > claimed * (1 - Fraction(1, 2**50))


# -- rounding ------------------------------------------------------------------------------------------


@given(a=st.floats(0, 1e3), b=st.floats(1e-3, 1e3), c=st.floats(0, 1e3))
def test_joint_is_rounded_up(a, b, c):
    """In exact rationals the claimed square is never below the formula's."""
    a2, b2, c2 = (Fraction(w) ** 2 for w in (a, b, c))
    assert Fraction(sensitivity.joint(a, b, c, "add_remove")) ** 2 >= a2 + b2 + c2
    replace = Fraction(sensitivity.joint(a, b, c, "replace_one")) ** 2
    assert replace >= 2 * (a2 + b2 + c2)
    if c2 and b2 <= 2 * c2:
        assert replace >= 2 * b2 + 2 * c2 + b2 * b2 / (2 * c2)
    else:
        assert replace >= 4 * b2
    if 4 * a2 * c2 >= b2 * b2:
        assert float(replace) == pytest.approx(float(2 * (a2 + b2 + c2)), rel=1e-12)


@pytest.mark.parametrize("square", [0, Fraction(1, 10**600), Fraction(1, 10**330), 10**300, 10**600])
def test_roots_of_extreme_squares(square):
    """Roots neither hang nor overflow, from zero to far beyond the range of floats."""
    root = root_up(square)
    assert Fraction(root) ** 2 >= square
    assert Fraction(math.nextafter(root, 0)) ** 2 < square if square else str(root) == "0.0"


@given(
    st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(-300, 300)), min_size=1, max_size=20),
    st.integers(0, 12),
    st.sampled_from([1.0, math.sqrt(0.5)]),
)
def test_dropped_bits_add_at_most_one_to_every_entry(entries, bits, shape):
    """(S-10): sums that move by less than a remaining unit may still move it by one."""
    before = np.array([value for value, _ in entries])
    move = np.array([change for _, change in entries])
    if not move.any():
        return
    released = ((before + move) >> bits) - (before >> bits)
    bound = sensitivity.coarse(
        float(np.linalg.norm(move / shape)) * (1 + 1e-12), bits, np.full(len(entries), shape)
    )
    assert np.linalg.norm(released / shape) <= bound


def test_dropped_bits_can_move_a_sum_by_a_whole_unit():
    """A step from 4095 to 4096 moves the remaining bits by one, so dividing the sensitivity is not enough."""
    assert sensitivity.coarse(1.0, 12, [1.0]) >= 1


@given(st.floats(1e-12, 1e12))
@example(0.1)  # the float lies a hair above the decimal: its cost is a whole unit of the last digit higher
def test_digits(value):
    """Six digits, rounded to the stated side by less than a unit of the sixth."""
    assert digits_down(value) <= value <= digits_up(value)
    assert digits_up(value) == pytest.approx(value, rel=1.0001e-5)
    assert float(f"{digits_up(value):.6g}") == digits_up(value)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_rounding_helpers(value):
    """Up is the next float above, down the next below, and roots square to at least their argument."""
    assert Fraction(float_up(value)) >= value >= Fraction(float_down(value))
    assert math.nextafter(float_down(value), math.inf) >= float_up(value)
    root = root_up(value)
    assert Fraction(root) ** 2 >= value > Fraction(math.nextafter(root, 0)) ** 2


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sensitivity.counts("replace"), "adjacency"),
        (lambda: sensitivity.counts("replace_one", "l3"), "norm"),
        (lambda: sensitivity.counts("add_remove", "l3"), "norm"),
        (lambda: sensitivity.sums(1e308, "replace_one"), "radius"),
        (lambda: sensitivity.second_moments(1e-85, "replace_one"), "radius"),
        (lambda: sensitivity.sums(-1.0, "replace_one"), "radius"),
        (lambda: sensitivity.sums(1.0, "replace_one", "l1"), "dimension"),
        (lambda: sensitivity.second_moments(math.nan, "replace_one"), "radius"),
        (lambda: sensitivity.joint(0, 0, 0, "replace_one"), "a, b, c"),
        (lambda: sensitivity.joint(-1, 0, 0, "replace_one"), "a"),
        (lambda: sensitivity.clipped_vector(math.inf, "replace_one"), "norm_bound"),
        (lambda: sensitivity.lloyd_l1(0, "replace_one"), "dimension"),
        (lambda: sensitivity.lloyd_l1(2, "replace_one", "cube"), "domain"),
        (lambda: sensitivity.for_person(1.0, 0), "rows_per_person"),
    ],
)
def test_bad_input(call, name):
    """The message names the argument."""
    with pytest.raises(InvalidArgumentError, match=name):
        call()
