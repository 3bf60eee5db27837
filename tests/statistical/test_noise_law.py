"""The distribution of secure noise: tests accept the true scale and reject a scale that is 3 % off."""

import numpy as np
import pytest
from scipy import stats

from dpem.privacy import noise
from dpem.privacy.noise import rounded_gaussian, rounded_laplace
from support.laws import ACCEPT, REJECT, law_p_value

SAMPLERS = {"gaussian": rounded_gaussian, "laplace": rounded_laplace}
# Scale and how many draws make 3 % visible; below about 0.2 nearly every draw is zero.
SCALES = [(0.15, 3_000_000), (0.3, 500_000), (0.5, 500_000), (0.75, 300_000), (1.0, 300_000), (1.3, 300_000)]
SCALES += [
    (3.7, 800_000),
    (50.0, 1_500_000),
    (1e6 + 0.1, 1_500_000),
    (2.0**40, 1_500_000),
    (2.0**54, 1_500_000),
]


@pytest.mark.parametrize("law", SAMPLERS)
@pytest.mark.parametrize(("scale", "size"), SCALES)
def test_true_scale_accepted_and_three_percent_off_rejected(law, scale, size):
    """A chi-squared test over integers accepts the declared scale and rejects 3 % to either side."""
    draws = SAMPLERS[law](scale, size)
    assert law_p_value(draws, law, scale) > ACCEPT
    assert law_p_value(draws, law, scale * 1.03) < REJECT
    assert law_p_value(draws, law, scale / 1.03) < REJECT


@pytest.mark.parametrize("law", SAMPLERS)
def test_the_other_distribution_is_rejected(law):
    """A Laplace sample is rejected as Gaussian of the same variance, and vice versa."""
    other = {"gaussian": ("laplace", 10 / np.sqrt(2)), "laplace": ("gaussian", 10 * np.sqrt(2))}[law]
    assert law_p_value(SAMPLERS[law](10.0, 100_000), *other) < REJECT


@pytest.mark.parametrize("law", SAMPLERS)
def test_smallest_scale_is_all_zero(law):
    """At 2^-10 a Gaussian rounds to zero except with probability e^-131072, a Laplace with e^-512."""
    assert not SAMPLERS[law](2.0**-10, 100_000).any()


@pytest.mark.parametrize("law", SAMPLERS)
@pytest.mark.parametrize("scale", [0.4, 1.0, 5.3, 3e9])
def test_the_exact_path_has_the_same_distribution(law, scale, monkeypatch):
    """With a huge margin, every draw is decided in rational arithmetic."""
    monkeypatch.setattr(noise, "_MARGIN", 1.0)
    calls = []
    decide = noise._decide_exactly

    def counted(*arguments):
        calls.append(1)
        return decide(*arguments)

    monkeypatch.setattr(noise, "_decide_exactly", counted)
    draws = SAMPLERS[law](scale, 4000)
    assert len(calls) >= 4000
    assert law_p_value(draws, law, scale) > ACCEPT


@pytest.mark.parametrize("law", SAMPLERS)
def test_low_bits_are_uniform_and_draws_uncorrelated(law):
    """At a large scale the low byte is uniform; neighbouring draws and their signs do not correlate."""
    draws = SAMPLERS[law](2.0**30, 400_000)
    low_byte = np.bincount(draws & 255, minlength=256)
    assert stats.chisquare(low_byte).pvalue > ACCEPT
    ranks = stats.rankdata(draws)
    assert stats.pearsonr(ranks[:-1], ranks[1:]).pvalue > ACCEPT
    assert stats.binomtest(int((draws > 0).sum()), len(draws)).pvalue > ACCEPT
    assert stats.pearsonr(np.abs(draws[:-1]).astype(float) ** 0.5, np.sign(draws[1:])).pvalue > ACCEPT


def test_opendp_agrees_at_large_scale():
    """OpenDP's discrete Gaussian is another distribution, but indistinguishable at a large scale."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scale = 5000.0
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l2_distance(T="f64")
    oracle = np.array(dp.m.make_gaussian(*space, scale)([0] * 5000))
    ours = rounded_gaussian(scale, 50_000)
    assert stats.ks_2samp(ours, oracle).pvalue > ACCEPT
    assert stats.ks_2samp(rounded_gaussian(1.5 * scale, 50_000), oracle).pvalue < REJECT


@pytest.mark.audit
@pytest.mark.parametrize("law", SAMPLERS)
@pytest.mark.parametrize("scale", [0.5, 1.0, 1.4142, 7.7, 300.0, 2.0**33])
def test_audit_thirty_million_draws(law, scale):
    """With 30 million draws, an error of three in a thousand is detected."""
    draws = SAMPLERS[law](scale, 30_000_000)
    assert law_p_value(draws, law, scale) > ACCEPT
    assert law_p_value(draws, law, scale * 1.003) < REJECT
