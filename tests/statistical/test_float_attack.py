"""The attack on gaps between floats (Mironov 2012; FACTS: diffprivlib), on naive noise and on ours."""

import numpy as np
from scipy import stats

from dpem.privacy.mechanisms import GaussianMechanism
from support.laws import ACCEPT

N = 100_000
GRID = 2**20


def attack(outputs):
    """Guess that the true value is 0 if an output is not a multiple of 2^-53, which x = 1 never gives."""
    with np.errstate(over="ignore"):
        return outputs * 2.0**53 != np.floor(outputs * 2.0**53)


def test_naive_float_noise_reveals_the_value():
    """With x + sigma Z in floats, a quarter of outputs at x = 0 are impossible at x = 1."""
    rng = np.random.default_rng()
    assert attack(0.0 + rng.normal(0, 1, N)).mean() > 0.2
    assert attack(1.0 + rng.normal(0, 1, N)).mean() == 0.0


def test_exact_noise_does_not_reveal_the_value():
    """On the integer grid every output is possible at either value, with equally distributed low bits."""
    mechanism = GaussianMechanism(sensitivity=GRID, noise_stddev=GRID)

    def released(value):
        return mechanism.release(np.full(N, value * GRID, dtype=np.int64)).values

    at_zero, at_one = released(0), released(1)
    assert not attack(at_zero / GRID).any()
    assert not attack(at_one / GRID).any()
    for bits in (1, 4, 8):
        counts = [np.bincount(values % 2**bits, minlength=2**bits) for values in (at_zero, at_one)]
        assert stats.chi2_contingency(counts).pvalue > ACCEPT
    # The attack's own search, generalised: no residue class belongs to one value alone.
    assert set(at_zero % 64) == set(at_one % 64)
