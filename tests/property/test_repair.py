"""Repair accepts any noisy input: every release gives a proper mixture."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem.data.domain import GRID, onto_grid
from dpem.gate.released import _GATE, ReleasedStatistics
from dpem.models.gaussian_mixture.m_step import Background, MixtureState, MixtureStep
from dpem.models.gaussian_mixture.pool import PoolRound, frame_limits

KINDS = ["full", "tied", "diag", "spherical"]


def released(statistic, rng, size, noise):
    """Return noise of any size around zero, with a stated noise level that may be far from it."""
    pattern = rng.choice(4)
    values = {
        0: lambda: rng.normal(0, size, statistic.size),
        1: lambda: np.full(statistic.size, size),
        2: lambda: np.full(statistic.size, -size),
        3: lambda: np.where(rng.random(statistic.size) < 0.5, 0.0, rng.normal(0, size, statistic.size)),
    }[int(pattern)]()
    return ReleasedStatistics("x", values, noise * statistic.noise_shape, False, _GATE)


def check(statistic, d, rng):
    """Run the next E-step on any rows."""
    rows = onto_grid(rng.normal(size=(50, d)) * GRID).T
    assert statistic.sum_block(rows).shape == (statistic.size,)


@pytest.mark.parametrize("kind", KINDS)
@given(
    d=st.sampled_from([1, 2, 5, 12]),
    k=st.sampled_from([1, 2, 7]),
    seed=st.integers(0, 10**6),
    size=st.floats(0, 18),
    noise=st.floats(0, 18),
    private_n=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_release_gives_a_proper_mixture(kind, d, k, seed, size, noise, private_n):
    """Pool, then steps, each with values that no data could give."""
    rng = np.random.default_rng(seed)
    pool = None
    n_rows = None if private_n else float(rng.choice([1, 100, 10**6]))
    for _ in range(3):
        model = PoolRound(kind, d, n_rows)
        statistic = model.statistic(pool)
        pool = model.m_step(pool, released(statistic, rng, 10**size, 10**noise))
        assert np.linalg.eigvalsh(pool.covariance).min() > 0
        assert np.isfinite(pool.mean).all()
        n_rows = pool.n_rows
        assert 1 <= n_rows < np.inf
    background = np.full(2, 0.01) if rng.random() < 0.5 else np.zeros(0)
    step = MixtureStep(
        pool,
        Background.around(pool),
        kind,
        *frame_limits(d),
        smallest_eigenvalue=float(rng.choice([1e-5, 0.01])),
        n_steps=2,
        least_background=0.001 * (background.size > 0),
        largest_background=0.4,
    )
    means = onto_grid(rng.normal(size=(k, d)) * GRID) / GRID
    state = MixtureState(np.full(k, 1 / k), means, np.repeat(pool.covariance[None], k, axis=0), background)
    for _ in range(4):
        statistic = step.statistic(state)
        check(statistic, d, rng)
        state = step.m_step(state, released(statistic, rng, 10**size, 10**noise))
        assert state.weights.sum() == pytest.approx(1)
        assert state.weights.min() > 0
        assert 0 <= state.background.sum() <= 0.4 + 1e-12
        assert (np.linalg.norm(state.means, axis=1) <= 1 + 1e-9).all()
        assert np.isfinite(state.covariances).all()
    check(step.statistic(state), d, rng)
