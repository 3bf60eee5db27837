"""Distinguishing games: their bounds, the optimal adversary, and wrong claims."""

import numpy as np
import pytest
from scipy import stats

import dpem
from dpem.audit.bits import distinguish_by_bits
from dpem.audit.bounds import epsilon_lower_bound, largest_rate, mu_lower_bound
from dpem.audit.run import Attack, perform
from dpem.audit.seeded_bugs import seeded_bug
from dpem.audit.subject import subject_of
from dpem.errors import AuditFailedError, InvalidArgumentError
from dpem.estimator.trials import points
from dpem.privacy import mechanisms
from dpem.privacy.gaussian_dp import epsilon_at

ROWS = points(60)
WITH_CANARY = np.vstack([ROWS, [0.0, -1.0]])


def quick(epsilon):
    """Return a subject that runs in milliseconds and has no more noise than needed."""
    return subject_of("private_bounds", epsilon, "add_remove")


@pytest.mark.parametrize(("errors", "runs"), [(0, 50), (3, 50), (25, 50), (49, 50), (50, 50)])
def test_rates_agree_with_clopper_and_pearson(errors, runs):
    expected = stats.binomtest(errors, runs).proportion_ci(0.9, method="exact").high  # one-sided 5 %
    assert largest_rate(errors, runs, 0.95) == pytest.approx(expected)


@pytest.mark.parametrize(("false_alarms", "reached"), [(stats.norm.cdf(-0.5), 0.78), (0.05, 0.6)])
def test_bounds_hold_with_their_confidence(false_alarms, reached):
    """For a true mu of 1, few bounds exceed it and they come close, for equal and unequal error rates."""
    rng = np.random.default_rng(5)
    misses = stats.norm.cdf(stats.norm.isf(false_alarms) - 1)
    drawn = rng.binomial(400, [false_alarms, misses], (4000, 2))
    found = np.array([mu_lower_bound(a, b, 400) for a, b in drawn])
    assert (found > 1).mean() < 0.05  # far fewer, since both errors must be small
    assert found.mean() > reached
    epsilons = [epsilon_lower_bound(a, b, 400, 1e-5) for a, b in drawn]
    assert np.mean(np.array(epsilons) > epsilon_at(1.0, 1e-5)) < 0.05
    assert mu_lower_bound(200, 210, 400) == epsilon_lower_bound(200, 210, 400, 1e-5) == 0.0


def test_the_transcript_proves_most_of_the_claim_and_no_more():
    """The likelihood ratio reaches most of the claim, so the noise is neither too large nor too small."""
    game = dpem.audit.distinguish(quick(16.0), ROWS, WITH_CANARY, runs=200)  # mu = 2.9
    assert game.passed
    assert game.tightness > 0.5  # 0.8 on average; below 0.5 far less than once in 10^9 runs
    game.require()


def test_a_wrong_claim_is_refuted(monkeypatch):
    """With a quarter of the noise, mu is four times the claim, and a game detects it."""
    sound = mechanisms.rounded_gaussian
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda stddev, size: sound(stddev / 4, size))
    game = dpem.audit.distinguish(quick(3.0), ROWS, WITH_CANARY, runs=150)
    assert not game.passed
    with pytest.raises(AuditFailedError, match="VIOLATION"):
        game.require()


def test_an_attribute_without_noise_is_found_in_the_model_alone():
    """The exact inertia of a model reveals a row; its centres do not."""
    subject = subject_of("paper.KMeans, Gaussian", 1.0, "replace_one")
    one, other = ROWS.copy(), ROWS.copy()
    one[0], other[0] = [0.0, 0.0], [0.0, -1.0]

    def play(score):
        return dpem.audit.distinguish(subject, one, other, score, runs=60, pilot=20)

    assert play(lambda model: float(np.abs(model.cluster_centers_).sum())).passed
    with seeded_bug("an attribute without noise"):

        def nearer_to_the_second(model):
            # Compare the rest of the inertia with what each of the two canaries would add.
            rows = np.vstack([ROWS[1:], one[0], other[0]])
            *others, first, second = ((rows[:, None] - model.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
            left = model.inertia_ - sum(others)
            return abs(left - first) - abs(left - second)

        assert not play(nearer_to_the_second).passed


def test_bits_of_released_arrays():
    """The most informative bit of a correct fit stays within its claim; with coarse noise it does not."""
    subject = subject_of("paper.KMeans, Gaussian", 1.0, "replace_one")
    one, other = ROWS.copy(), ROWS.copy()
    one[0], other[0] = [0.25, 0.0], [0.25 + 2.0**-24, 0.0]  # a step of the grid apart
    assert distinguish_by_bits(subject, one, other, runs=60, pilot=30).passed
    with seeded_bug("noise with holes"):
        assert not distinguish_by_bits(subject, one, other, runs=60, pilot=30).passed


def test_equal_tables_raise():
    with pytest.raises(InvalidArgumentError, match="differ in a row"):
        dpem.audit.distinguish(quick(1.0), ROWS, ROWS, runs=1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("model", "GaussianMixture, full"), ("samples", "MixedMixture, em"), ("bits", "KMeans")],
)
def test_games_on_what_is_published(kind, name):
    """They run, and a correct model stays within its claim."""
    finding = perform(Attack(kind, name, "add_remove", 16.0, effort=8))
    assert finding.passed, finding.text
    assert 0 <= finding.figures["wrong"] <= 1
