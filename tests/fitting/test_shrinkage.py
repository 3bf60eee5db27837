"""Shrinkage with known noise: noise is removed, and strong signals are kept almost entirely."""

import numpy as np
import pytest

from dpem.fitting.shrinkage import clear_part, noise_edge, spectrum_above_noise


def noise_matrix(d, noise, rng):
    upper = np.triu(rng.normal(0, noise / np.sqrt(2), (d, d)), 1)
    return upper + upper.T + np.diag(rng.normal(0, noise, d))


@pytest.mark.parametrize("d", [5, 50, 300])
def test_the_edge_of_the_noise(d):
    rng = np.random.default_rng(d)
    largest = [np.linalg.eigvalsh(noise_matrix(d, 0.3, rng))[-1] for _ in range(20)]
    assert np.median(largest) == pytest.approx(noise_edge(0.3, d), rel=d ** (-2 / 3))


@pytest.mark.parametrize("d", [50, 200])
def test_noise_alone_is_removed(d):
    rng = np.random.default_rng(d)
    left = [np.linalg.norm(spectrum_above_noise(noise_matrix(d, 1.0, rng), 1.0)) for _ in range(10)]
    assert np.median(left) == 0
    assert max(left) < 0.5 * np.linalg.norm(noise_matrix(d, 1.0, rng))


@pytest.mark.parametrize("strength", [2.0, 5.0, 20.0])
def test_a_strong_direction_is_estimated_better_than_unshrunk(strength):
    """The estimate is closer to the truth than the noisy matrix and than zero."""
    rng = np.random.default_rng(0)
    direction = np.linalg.qr(rng.normal(size=(100, 1)))[0]
    truth = strength * noise_edge(1.0, 100) * direction @ direction.T
    noisy = truth + noise_matrix(100, 1.0, rng)
    error = np.linalg.norm(spectrum_above_noise(noisy, 1.0) - truth)
    assert error < 0.6 * np.linalg.norm(noisy - truth)
    assert error < 0.9 * np.linalg.norm(truth)


def test_without_noise_nothing_changes():
    matrix = noise_matrix(20, 1.0, np.random.default_rng(0))
    np.testing.assert_allclose(spectrum_above_noise(matrix, 1e-9), matrix, atol=1e-12)


def test_noise_rarely_stands_out_clearly():
    rng = np.random.default_rng(0)
    for p in (1, 4, 100):
        kept = [clear_part(rng.normal(0, 2.0, p), 2.0) for _ in range(1000)]
        assert np.mean(np.array(kept) > 0) < 0.1
    assert clear_part(np.full(100, 10.0), 1.0) > 0.98
