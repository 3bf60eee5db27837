"""Moments in frames are exact, equal with and without compiled kernels, and within their sensitivity."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpem.data.domain import GRID, onto_grid
from dpem.engines.totals import IntegerTotal
from dpem.gate.released import _GATE, ReleasedStatistics
from dpem.statistics.gaussian import COVARIANCES, FrameMoments, GaussianComponents, noise_entries
from dpem.statistics.kernels import gaussian as kernels
from dpem.statistics.softmax import exp_non_positive, softmax

KINDS = COVARIANCES
RELATIONS = ["replace_one", "add_remove"]


def components(d, m, seed, width=None):
    """Return narrow and wide components, as a fit may release them."""
    rng = np.random.default_rng(seed)
    width = width or rng.choice([1e-4, 0.01, 0.1, 1.0])
    factors = width * (np.eye(d) + 0.3 * np.tril(rng.normal(size=(m, d, d)), -1))
    factors *= rng.choice([0.3, 1.0, 3.0], size=(m, 1, 1))
    means = rng.normal(size=(m, d)) * rng.choice([0.0, 0.2, 1.0])
    return GaussianComponents.from_parameters(rng.dirichlet(np.ones(m)), means, factors)


def moments(kind, d, seed, n_framed=3, n_others=2):
    tau = math.sqrt(d + math.sqrt(2 * d))
    return FrameMoments(components(d, n_framed + n_others, seed), n_framed, kind, tau, 0.35 * tau)


def compiled_sum(statistic, rows):
    total = np.zeros(statistic.size, dtype=np.int64)
    statistic._add_compiled(kernels, np.ascontiguousarray(rows), total)
    return total


def extreme_rows(d, statistic, rng, n=10):
    """Return rows with the largest norms: on the sphere, at centres and three widths from them."""
    sphere = rng.normal(size=(n, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    centres = statistic.components.centres
    beside = np.concatenate([3 * sphere[:4], -3 * sphere[:4]])
    near = (centres[:, None] + beside @ statistic.components.factors.transpose(0, 2, 1)).reshape(-1, d)
    rows = np.concatenate([sphere, -sphere, np.eye(d), -np.eye(d), centres, near, np.zeros((1, d))])
    return onto_grid(rows * GRID).T


@pytest.mark.parametrize("kind", KINDS)
@given(d=st.sampled_from([1, 2, 3, 7]), seed=st.integers(0, 10**6), cut=st.integers(0, 30))
@settings(max_examples=20, deadline=None)
def test_sums_are_exact_and_rows_independent(kind, d, seed, cut):
    """The sum of a block equals the sum of single rows, bit for bit, compiled or not."""
    statistic = moments(kind, d, seed)
    rows = extreme_rows(d, statistic, np.random.default_rng(seed))
    each = np.stack([statistic._sum_numpy(rows[:, [i]]) for i in range(rows.shape[1])])
    assert each.shape[1] == statistic.size
    assert np.array_equal(statistic._sum_numpy(rows), each.sum(axis=0))
    cut = min(cut, rows.shape[1] - 1)
    without = np.ascontiguousarray(np.delete(rows, cut, axis=1))
    assert np.array_equal(statistic._sum_numpy(without), each.sum(axis=0) - each[cut])
    assert np.array_equal(compiled_sum(statistic, rows), each.sum(axis=0))
    assert np.array_equal(compiled_sum(statistic, without), each.sum(axis=0) - each[cut])


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_sums_equal_numpy_on_many_rows(kind):
    """Sizes of blocks are near those of the kernels' chunks, also beyond the limit of one product."""
    rng = np.random.default_rng(0)
    statistic = moments(kind, 4, 3)
    rows = onto_grid(rng.normal(0, 0.3, (3000, 4)) * GRID).T
    for n in (1, 255, 256, 257, 511, 513, 3000):
        part = np.ascontiguousarray(rows[:, :n])
        assert np.array_equal(compiled_sum(statistic, part), statistic._sum_numpy(part))


@pytest.mark.parametrize("kind", KINDS)
def test_products_in_bands_equal_those_of_single_rows(kind):
    """With more columns than a band and with rows of zero weight, each row keeps its vector."""
    rng = np.random.default_rng(1)
    statistic = moments(kind, 60, 5)
    near = statistic.components.centres[rng.integers(5, size=700)]
    rows = onto_grid((near + 0.05 * rng.normal(size=near.shape)) * GRID).T
    weights = statistic._responsibilities(statistic.components.frames(rows)[1])
    assert 0 < (weights[:3] == 0).mean() < 1
    assert np.array_equal(statistic._sum_numpy(rows), compiled_sum(statistic, rows))
    few = np.ascontiguousarray(rows[:, :20])
    each = sum(statistic._sum_numpy(few[:, [i]]) for i in range(20))
    assert np.array_equal(statistic._sum_numpy(few), each)


def whitened(statistic, rows):
    vectors = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])])
    return vectors / statistic.noise_shape / 2.0**statistic.coarse_bits


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", KINDS)
@given(d=st.sampled_from([1, 2, 3, 7]), seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_changes_of_the_sum_are_within_the_sensitivity(kind, relation, d, seed):
    """All rows (add/remove) and all pairs (replace-one) of extreme rows stay within the sensitivity."""
    statistic = moments(kind, d, seed)
    vectors = whitened(statistic, extreme_rows(d, statistic, np.random.default_rng(seed)))
    bound = statistic.sensitivity(relation)
    moves = vectors if relation == "add_remove" else vectors[:, None] - vectors[None]
    assert np.sqrt((moves**2).sum(axis=-1)).max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_sensitivities_are_attained(kind, relation):
    """Over many frames the worst pair is within a hundredth of the bound, so no noise is wasted."""
    reached = 0.0
    for seed in range(40):
        statistic = moments(kind, 3, seed)
        vectors = whitened(statistic, extreme_rows(3, statistic, np.random.default_rng(seed)))
        moves = vectors if relation == "add_remove" else vectors[:, None] - vectors[None]
        reached = max(reached, np.sqrt((moves**2).sum(axis=-1)).max() / statistic.sensitivity(relation))
    assert reached > 0.99


def test_rows_with_invalid_distances_contribute_nothing(monkeypatch):
    """Components of zero width are refused; if a distance still overflows, the row contributes zero."""
    with pytest.raises(ArithmeticError, match="positive, finite weights"):
        GaussianComponents.from_parameters(np.ones(1), np.zeros((1, 2)), 1e-200 * np.eye(2)[None])
    for kind in KINDS:
        statistic = moments(kind, 2, 5)
        broken = statistic.components.scales * np.inf
        statistic = FrameMoments(
            dataclasses.replace(statistic.components, scales=broken),
            3,
            kind,
            statistic.clip,
            statistic.count_scale,
        )
        rows = onto_grid(np.array([[0.5, 0.1]]) * GRID).T
        with np.errstate(all="ignore"):
            assert not statistic._sum_numpy(rows).any()
            assert not compiled_sum(statistic, rows).any()


def test_other_noise_than_gaussian_is_refused():
    with pytest.raises(TypeError, match="Gaussian noise only"):
        moments("full", 2, 0).sensitivity("replace_one", "l1")


@pytest.mark.parametrize("kind", KINDS)
def test_released_sums_are_read_as_moments(kind):
    """Without noise, counts, means and covariances are exact to the precision of the grids."""
    rng = np.random.default_rng(4)
    d, n = 3, 20_000
    X = 0.05 * rng.normal(size=(n, d)) @ np.array([[1, 0, 0], [0.5, 1, 0], [0, -0.4, 0.7]]) + [0.1, -0.2, 0.0]
    rows = onto_grid(X * GRID).T
    tau = 50.0  # nothing is clipped
    statistic = FrameMoments(components(d, 1, 1, width=0.1), 1, kind, tau, 0.35 * tau)
    values = (statistic.sum_block(rows) >> statistic.coarse_bits).astype(float)
    released = ReleasedStatistics("x", values, statistic.noise_shape * 1000.0, False, _GATE)
    framed = statistic.read(released)
    G = framed.moments[0]
    count = G[0, 0] / statistic.count_scale**2
    assert count == pytest.approx(n, rel=1e-6)
    z = (X - statistic.components.centres[0]) @ np.linalg.inv(statistic.components.factors[0]).T
    np.testing.assert_allclose(G[0, 1:] / (n * statistic.count_scale), z.mean(axis=0), atol=1e-4)
    second = z.T @ z / n
    if kind == "diag":
        second = np.diag(np.diag(second))
    if kind == "spherical":
        second = np.eye(d) * np.trace(second) / d
    np.testing.assert_allclose(G[1:, 1:] / n, second, atol=2e-3)
    assert framed.noise == pytest.approx(1000 * 2.0 ** (12 - 16) / statistic.per_unit**2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_of_entries_agrees_with_the_noise_shape(kind):
    """The stated energy of a covariance's noise follows from the noise shape."""
    d = 5
    statistic = moments(kind, d, 0, n_framed=1, n_others=0)
    rng = np.random.default_rng(0)
    energies = []
    for _ in range(4000):
        values = rng.normal(0, 1e9 * statistic.noise_shape)
        values[: d + 1] = 0
        framed = statistic.read(ReleasedStatistics("x", values, 1e9 * statistic.noise_shape, False, _GATE))
        energies.append((framed.moments[0, 1:, 1:] ** 2).sum() / framed.noise**2)
    assert np.mean(energies) == pytest.approx(noise_entries(kind, d), rel=0.1)


def test_log_joint_equals_the_log_density():
    """They agree for grid rows, to the precision of the grid."""
    rng = np.random.default_rng(0)
    cov = 0.02 * np.array([[2, 0.3], [0.3, 1]])
    parts = GaussianComponents.from_parameters(
        np.array([0.25]), np.array([[0.1, 0.2]]), np.linalg.cholesky(cov)[None]
    )
    X = rng.normal(0, 0.2, (50, 2))
    _, squared = parts.frames(onto_grid(X * GRID).T)
    expected = np.log(0.25) + stats.multivariate_normal([0.1, 0.2], cov).logpdf(X)
    np.testing.assert_allclose(parts.log_joint(squared)[0], expected, atol=1e-4)


def test_softmax_is_precise():
    """Exponentials are correct to 1e-12, sums are one, and extreme logits do not raise."""
    x = -np.concatenate([np.linspace(0, 1, 1000), np.geomspace(1e-300, 699, 2000), [0.0, 700.0]])
    np.testing.assert_allclose(exp_non_positive(x), np.exp(x), rtol=1e-12)
    assert exp_non_positive(np.array([-1e300, -np.inf])).max() < 1e-303
    logits = np.array([[0.0, -1e9, 5.0], [1.0, 3.0, -np.inf], [-2.0, 3.0, 5.0]])
    weights, largest, total = softmax(logits)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    np.testing.assert_allclose(largest + np.log(total), np.logaddexp.reduce(logits, axis=0))


@given(st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=40), st.integers(0, 20))
def test_low_bits_of_sums_are_dropped(values, bits):
    """The total is rounded down, not each term."""
    total = IntegerTotal(1)
    for value in values:
        total.add(np.array([value]))
    assert total.value(bits)[0] == sum(values) >> bits
