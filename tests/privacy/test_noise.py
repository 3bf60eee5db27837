"""The sampler's parts: fast against exact decisions, rounding, limits and sources."""

import threading
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpem.errors import InsecureNoiseWarning, InvalidArgumentError
from dpem.privacy import noise
from dpem.privacy.noise import rounded_gaussian, rounded_laplace
from dpem.privacy.randomness import SeededEntropy, entropy, fresh_seed, public_random
from dpem.testing import insecure_noise

SAMPLERS = [rounded_gaussian, rounded_laplace]


class Recorded:
    """Returns prepared bytes first, then seeded ones."""

    is_secure = False

    def __init__(self, first):
        self._first, self._rest = first, SeededEntropy(1)

    def draw(self, n_bytes):
        first, self._first = self._first, None
        return first if first is not None else self._rest.draw(n_bytes)


def words(sign_and_fraction, v_word, coin):
    """Return the bytes of attempts, as the sampler reads them."""
    parts = np.asarray(sign_and_fraction, "<u8"), np.asarray(v_word, "<u4"), np.asarray(coin, "<u4")
    return b"".join(part.tobytes() for part in parts)


LAWS = {
    "gaussian": lambda scale: noise._Law(scale, round(np.log2(scale)), noise._gaussian_exponent),
    "laplace": lambda scale: noise._Law(scale, int(np.ceil(np.log2(scale))), noise._laplace_exponent),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0.01, 0.3, 0.71, 1.0, 1.41, 123.4, 2.0**54])
def test_fast_decisions_equal_exact_ones(law, scale):
    """Attempt by attempt, the margin path and rational arithmetic accept the same and round the same."""
    law = LAWS[law](scale)
    rng = np.random.default_rng(5)
    for _ in range(300):
        sign_and_fraction, v_word = int(rng.integers(2**64, dtype=np.uint64)), int(rng.integers(2**32))
        coin = int(rng.integers(2**32))
        fast = noise._attempt(law, 1, Recorded(words([sign_and_fraction], [v_word], [coin])))
        exact = noise._decide_exactly(law, sign_and_fraction & (2**63 - 1), v_word, coin, SeededEntropy(2))
        assert (len(fast) == 0) == (exact is None)
        if exact is not None:
            assert abs(int(fast[0])) == exact
            assert exact == 0 or (fast[0] < 0) == bool(sign_and_fraction >> 63)


def test_decimal_settings_of_the_caller_do_not_matter(monkeypatch):
    """Traps and limits of the caller's decimal context do not affect a draw."""
    import decimal

    monkeypatch.setattr(noise, "_MARGIN", 1.0)
    with decimal.localcontext() as context:
        context.traps[decimal.Inexact] = True
        context.Emin = -3
        assert len(rounded_gaussian(3.0, 50)) == 50


def test_margin_is_needed_at_the_edge():
    """A coin that only further bits can decide goes to the exact path, which refines it."""
    law = LAWS["gaussian"](1.0)
    fraction = 2**62  # U = 1/2, V = 0: accept below exp(-(1/2 - 1)^2/2 - 1/2)
    with mpmath.workdps(50):
        edge = int(mpmath.floor(mpmath.exp(mpmath.mpf("-0.625")) * 2**32))
    v_word = 2**32 - 1
    drawn = []
    source = SeededEntropy(3)
    draw = source.draw
    source.draw = lambda n: drawn.append(n) or draw(n)
    noise._decide_exactly(law, fraction, v_word, edge, source)
    assert drawn  # more bits were asked for
    drawn.clear()
    assert noise._decide_exactly(law, fraction, v_word, edge - 2**4, source) is not None
    assert noise._decide_exactly(law, fraction, v_word, edge + 2**4, source) is None
    assert not drawn


def exact_calls(monkeypatch, law, sign_and_fraction, v_word, coin):
    """Return which of these attempts the fast path passes to the exact one."""
    asked = []
    monkeypatch.setattr(noise, "_decide_exactly", lambda *attempt: asked.append(attempt[1:4]) and None)
    noise._attempt(law, len(coin), Recorded(words(sign_and_fraction, v_word, coin)))
    return asked


@pytest.mark.parametrize("law", LAWS)
def test_fast_path_decides_only_what_is_clear(law, monkeypatch):
    """Coins next to the edge of acceptance go to the exact path; those a few units off do not."""
    for j in range(1, 30):
        fraction, exponent = j << 58 | 1, Fraction(j, 32)
        if law == "gaussian":
            exponent = (exponent - 1) ** 2 / 2 + exponent
        with mpmath.workdps(50):
            edge = int(
                mpmath.floor(mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**32)
            )
        coins = list(range(edge - 9, edge + 10))
        bits = [fraction | 2**63] * 19  # a negative sign
        asked = exact_calls(monkeypatch, LAWS[law](1.0), bits, [2**32 - 1] * 19, coins)
        assert {(known, v_word) for known, v_word, _ in asked} == {(fraction, 2**32 - 1)}
        assert {edge - 1, edge, edge + 1} <= {coin for _, _, coin in asked} <= set(coins[3:-3])


def test_integer_parts_are_decided_only_where_clear(monkeypatch):
    """Words equal to floor(2^32 e^-j), and all below e^-16, go to the exact path; words beside do not."""
    with mpmath.workdps(50):
        edges = [int(mpmath.floor(mpmath.exp(-j) * 2**32)) for j in range(1, 17)]
    v_words = [edge + step for edge in edges for step in (-1, 0, 1)]
    asked = exact_calls(monkeypatch, LAWS["laplace"](1.0), [0] * 48, v_words, [0] * 48)
    assert [v_word for _, v_word, _ in asked] == [*edges[:-1], edges[-1] - 1, edges[-1]]


def test_more_bits_extend_the_known_ones():
    """A refined uniform number stays within its known bounds; each step is 2^64 times finer."""
    source = SeededEntropy(4)
    for numerator in range(8):
        uniform = noise._LazyUniform(numerator, 3)
        for step in range(1, 4):
            low, high = uniform.low, uniform.high
            uniform.refine(source)
            assert low <= uniform.low < uniform.high <= high
            assert uniform.high - uniform.low == Fraction(1, 2 ** (3 + 64 * step))


@pytest.mark.parametrize("bits", [8, 32, 63, 96, 200])
def test_bounds_of_powers_of_e_are_valid_and_narrow(bits):
    """Bounds lie on both sides of e^-x, and are closer to it than the bits to compare."""
    rng = np.random.default_rng(bits)
    for _ in range(200):
        x = Fraction(int(rng.integers(1, 2**40)), int(rng.integers(2**35, 2**41)))
        lower, upper = noise._exp_bounds(x, x, bits)
        with mpmath.workdps(400):
            truth = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
            assert mpmath.mpf(lower.numerator) / lower.denominator < truth
            assert truth < mpmath.mpf(upper.numerator) / upper.denominator
        assert upper - lower < Fraction(1, 2**bits)
        wide = noise._exp_bounds(x, 2 * x, bits)
        assert wide[0] < noise._exp_bounds(2 * x, 2 * x, bits)[1] <= lower < wide[1]


def test_undecided_comparisons_return_none():
    """A uniform number that may lie on either side of e^-x is undecided."""
    x, doubled = Fraction(1, 2), Fraction(1)
    for bits in (3, 10, 40):
        edge = int(2**bits * np.exp(-0.5))
        assert noise._below_exp(noise._LazyUniform(edge, bits), x, x) is None
        assert noise._below_exp(noise._LazyUniform(edge - 1, bits), x, x) is True
        assert noise._below_exp(noise._LazyUniform(edge + 1, bits), x, x) is False
    # Between e^-1 and e^-1/2, x itself decides.
    for numerator in range(5, 10):
        assert noise._below_exp(noise._LazyUniform(numerator, 4), x, doubled) is None
    assert noise._below_exp(noise._LazyUniform(4, 4), x, doubled) is True
    assert noise._below_exp(noise._LazyUniform(10, 4), x, doubled) is False


class Constant:
    """Always returns the same byte."""

    is_secure = False

    def __init__(self, byte):
        self._byte = byte

    def draw(self, n_bytes):
        return bytes([self._byte]) * n_bytes


class Scripted:
    """Prepared bytes, one piece for each call."""

    is_secure = False

    def __init__(self, *pieces):
        self._pieces = list(pieces)

    def draw(self, n_bytes):
        piece = self._pieces.pop(0)
        assert len(piece) == n_bytes
        return piece


def test_a_coin_between_the_ends_of_what_is_known_waits_for_more_of_the_fraction():
    """With x = U in [1/2, 1/2 + 2^-63), bits of U that follow decide on a coin between e^-x at both ends."""
    law = LAWS["laplace"](1.0)
    with mpmath.workdps(80):
        middle = (mpmath.exp(-mpmath.mpf(1) / 2) + mpmath.exp(-mpmath.mpf(1) / 2 - mpmath.mpf(2) ** -63)) / 2
        coin_word, rest = divmod(int(mpmath.floor(middle * 2**96)), 2**64)
    for following, is_accepted in ((b"\0", True), (b"\xff", False)):
        source = Scripted(rest.to_bytes(8, "little"), following * 8)
        found = noise._decide_exactly(law, 2**62, 2**32 - 1, coin_word, source)
        assert (found is not None) == is_accepted


@pytest.mark.parametrize("end", [0, 1])
def test_both_ends_of_what_is_known_of_the_fraction_count(end):
    """A coin that begins, or ends, within e^-x of a fraction's last bit is decided by bits that follow."""
    law, decided = LAWS["laplace"](1.0), []
    for word in range(3 * 2**30, 3 * 2**30 + 20):
        with mpmath.workdps(80):
            fraction = int(mpmath.floor(-mpmath.log(mpmath.mpf(word + end) / 2**32) * 2**63))
        following = b"\xff" * 8 if end else bytes(8)
        found = noise._decide_exactly(law, fraction, 2**32 - 1, word, Scripted(following, following))
        decided.append(found is None)
    assert decided == [bool(end)] * 20


def test_an_unsure_integer_part_is_not_accepted_by_the_fast_path():
    """At the edge of V = 1 the fast path would take V = 0 and accept; the bits that follow say V = 1."""
    law = LAWS["laplace"](0.75)
    edge, fraction, coin = int(noise._E_POWERS[0]), 2**63 // 10, 3 * 2**30
    first = words([fraction], [edge], [coin])
    assert len(noise._attempt(law, 1, Scripted(first, bytes(8)))) == 0
    assert len(noise._attempt(law, 1, Scripted(first, b"\xff" * 8))) == 1


def test_an_integer_part_at_the_edge_is_decided_by_further_bits():
    """A word equal to floor(2^32 e^-j) is below e^-j where zeros follow, and above it where ones do."""
    law = LAWS["laplace"](1.0)
    for j in range(1, 20):
        with mpmath.workdps(50):
            edge = int(mpmath.floor(mpmath.exp(-j) * 2**32))
        assert noise._decide_exactly(law, 0, edge, 0, Constant(0)) == j
        assert noise._decide_exactly(law, 0, edge, 0, Constant(255)) == j - 1


def test_large_integer_parts_take_the_exact_path():
    """V beyond the table is found by refinement: a zero word is below e^-22."""
    law = LAWS["laplace"](1.0)
    calls = [noise._decide_exactly(law, 0, 0, 0, SeededEntropy(seed)) for seed in range(20)]
    assert min(calls) >= 22
    fast = noise._attempt(law, 1, Recorded(words([0], [0], [0])))
    assert fast[0] >= 22


@pytest.mark.parametrize("least", [0, 1, Fraction(5, 7), 40, 500])
def test_exponential_bounds_enclose_the_truth(least):
    """The rational bounds on e^-x hold by 200 digits and are tight to the bits asked for."""
    lower, upper = noise._exp_bounds(Fraction(least), Fraction(least), 128)
    with mpmath.workdps(200):
        exact = Fraction(least)
        truth = mpmath.exp(-mpmath.mpf(exact.numerator) / exact.denominator)
        low, high = (mpmath.mpf(bound.numerator) / bound.denominator for bound in (lower, upper))
        assert low <= truth <= high
        assert (high - low) / truth < mpmath.mpf(2) ** -128


@pytest.mark.parametrize("log2_cell", [-10, -3, -2, -1, 0, 1, 17, 54])
def test_rounding_is_exact(log2_cell):
    """round(2^log2_cell (V + U)) by shifts equals rational rounding, at every known bit of U."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        v, fraction = int(rng.integers(16)), int(rng.integers(2**63))
        magnitude = Fraction(2) ** log2_cell * (v + Fraction(fraction, 2**63))
        assert noise._round_cells(v, fraction, log2_cell) == int(magnitude + Fraction(1, 2))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0, -1.0, 2.0**-11, 2.0**55, np.nan, np.inf, "1", None])
def test_scale_out_of_range_is_refused(sampler, scale):
    """Scales outside the sampler's range raise InvalidArgumentError."""
    with pytest.raises(InvalidArgumentError, match=r"Expected .*noise_s.*got noise_s"):
        sampler(scale, 3)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sizes(sampler):
    """Any number of draws, none included."""
    for size in (0, 1, 2, 100_001):
        assert sampler(3.0, size).shape == (size,)
    with pytest.raises(InvalidArgumentError, match="size=-1"):
        sampler(3.0, -1)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_numpy_seeds_do_not_touch_noise(sampler):
    """Seeding numpy's global generator changes nothing: noise comes from the operating system."""
    draws = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002  (the point of the test)
        draws.append(sampler(1e9, 20))
    assert (draws[0] != draws[1]).all()


def test_insecure_noise_warns_repeats_and_ends():
    """Inside the block draws repeat; on leaving it, also by an error, the secure source is back."""
    with pytest.warns(InsecureNoiseWarning, match="seed 3"), insecure_noise(3):
        first = rounded_gaussian(1e9, 20)
    with pytest.warns(InsecureNoiseWarning), insecure_noise(3):
        second = rounded_gaussian(1e9, 20)
    with pytest.warns(InsecureNoiseWarning), insecure_noise(4):
        third = rounded_gaussian(1e9, 20)
    assert (first == second).all()
    assert (first != third).any()
    with pytest.warns(InsecureNoiseWarning), pytest.raises(KeyError), insecure_noise(3):
        {}["missing"]
    assert entropy().is_secure


def test_insecure_noise_stays_in_its_thread():
    """A new thread draws secure noise even if its parent uses a seed."""
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(3):
            thread = threading.Thread(target=lambda: seen.append(entropy().is_secure))
            thread.start()
            thread.join()
    assert seen == [True]


def test_public_randomness_follows_its_seed():
    """As in scikit-learn: a seed repeats, a generator is used unchanged, None is new each time."""
    for seed in (0, 7):
        assert public_random(seed).randint(2**31) == np.random.RandomState(seed).randint(2**31)
    generator = np.random.RandomState(1)
    assert public_random(generator) is generator
    assert public_random(None).bytes(16) != public_random(None).bytes(16)
    with pytest.raises(InvalidArgumentError, match="random_state=-1"):
        public_random(-1)
    # All of 64 seeds lie in the lower half of their range once in 10^19 runs.
    assert 2**30 <= max(fresh_seed() for _ in range(64)) < 2**31


@pytest.mark.parametrize("seed", [-1, 1.5, None, "7", True])
def test_bad_seed(seed):
    """A seed is an integer of at least zero."""
    with pytest.raises(InvalidArgumentError, match="seed"), insecure_noise(seed):
        pass
