"""The density of mixed tables, against brute force over all combinations of levels."""

import itertools

import numpy as np
import pytest
from scipy import special

from dpem import Schema
from dpem.data.levels import LevelGrid
from dpem.models.table.bins import ColumnBins, NoisyLevels, choose_bins, noisy_rows
from dpem.models.table.density import MixedBlock, MixedDensity

SCHEMA = Schema(
    {
        "a": {"kind": "ordered", "categories": ["x", "y", "z"], "missing": True},
        "b": {"kind": "boolean"},
        "c": {"kind": "categorical", "categories": list("pqrs"), "outside": "p"},
        "d": {"kind": "integer", "bounds": [1, 3]},
    }
)


def density(seed=0, target=None, blocks=((0, 2), (1, 3)), k=3):
    """Return a density with random tables; the last two levels of the third column share a bin."""
    rng = np.random.default_rng(seed)
    grid = LevelGrid(SCHEMA)
    of_level = [np.arange(levels.size) for levels in grid.columns]
    of_level[2] = np.array([0, 1, 2, 2])
    cells = tuple(
        ColumnBins(levels, cell, rng.dirichlet(np.ones(levels.size)))
        for levels, cell in zip(grid.columns, of_level, strict=True)
    )
    parts = np.ones(1) if target is None else rng.dirichlet(np.ones(cells[target].size))
    found = []
    for block in blocks:
        columns = tuple(j for j in block if j != target)
        weights = rng.dirichlet(np.ones(k), size=len(parts))
        tables = tuple(rng.dirichlet(np.ones(cells[j].size), size=k) for j in columns)
        found.append(MixedBlock(columns, weights, tables))
    return MixedDensity(cells, tuple(found), parts, target)


def brute_force(model):
    """Return the probability of every combination of levels from the definition."""
    sizes = [column.levels.size for column in model.bins]
    table = np.zeros(sizes)
    for row in itertools.product(*(range(size) for size in sizes)):
        cell = [column.of_level[level] for column, level in zip(model.bins, row, strict=True)]
        total = 0.0
        for c, part in enumerate(model.parts):
            if model.target is not None and cell[model.target] != c:
                continue
            product = part
            for block in model.blocks:
                product *= sum(
                    block.weights[c, k]
                    * np.prod([t[k, cell[j]] for j, t in zip(block.columns, block.tables, strict=True)])
                    for k in range(block.weights.shape[1])
                )
            total += product
        table[row] = total * np.prod([c.within[x] for c, x in zip(model.bins, row, strict=True)])
    return table


@pytest.mark.parametrize("target", [None, 0, 2])
def test_log_density_agrees_with_the_definition(target):
    model = density(1, target)
    table = brute_force(model)
    assert table.sum() == pytest.approx(1.0)
    rows = np.array(list(itertools.product(*(range(size) for size in table.shape)))).T
    widths = sum(c.levels.log_widths[r] for c, r in zip(model.bins, rows, strict=True))
    np.testing.assert_allclose(model.log_density(rows) + widths, np.log(table.ravel()), rtol=1e-9)


@pytest.mark.parametrize("target", [None, 0, 2])
def test_conditional_probabilities_sum_over_unknown_cells(target):
    model = density(2, target)
    table = brute_force(model)
    rows = np.array([[0, 1, -1, 2], [-1, 0, 3, -1], [3, -1, -1, -1], [-1, -1, -1, -1]]).T
    for i, row in enumerate(rows.T):
        index = tuple(slice(None) if level == -1 else level for level in row)
        known = table[index].sum()
        assert model.log_density(rows[:, [i]])[0] == pytest.approx(np.log(known), abs=1e-9)
    for column in range(4):
        law = model.conditional(rows, column)
        for i, row in enumerate(rows.T):
            index = tuple(slice(None) if level == -1 or j == column else level for j, level in enumerate(row))
            other = tuple(j for j in range(4) if j != column and row[j] == -1)
            free = table[index]
            kept = [j for j in range(4) if j == column or row[j] == -1]
            expected = free.sum(axis=tuple(kept.index(j) for j in other))
            np.testing.assert_allclose(law[i], expected / expected.sum(), rtol=1e-9)


@pytest.mark.parametrize("target", [None, 0, 2])
def test_given_is_conditional(target):
    model = density(3, target)
    table = brute_force(model)
    conditioned = brute_force(model.given(np.array([1, -1, 2, -1])))
    expected = table[1, :, 2, :] / table[1, :, 2, :].sum()
    got = conditioned.sum(axis=(0, 2))
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize("target", [None, 0, 2])
def test_joint_tables_are_marginals(target):
    model = density(4, target)
    table = brute_force(model)
    levels = [np.arange(column.levels.size) for column in model.bins]
    for columns in ([0], [2], [2, 0], [1, 3], [3, 0, 2]):
        other = tuple(j for j in range(4) if j not in columns)
        expected = table.sum(axis=other).transpose(np.argsort(np.argsort(columns)))
        np.testing.assert_allclose(model.joint(columns, [levels[j] for j in columns]), expected, atol=1e-12)


def draws_against(table, rows):
    """Return the chi-squared statistic of a table, in units of its standard deviation."""
    counts = np.zeros(table.shape)
    np.add.at(counts, tuple(rows), 1)
    expected = table * rows.shape[1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    return (statistic - table.size) / np.sqrt(2 * table.size)


@pytest.mark.parametrize("target", [None, 0])
def test_draws_have_the_distribution_of_the_model(target):
    """Single rows follow it; rows drawn together lie closer to it than independent ones."""
    model = density(5, target)
    table = brute_force(model)
    random_state = np.random.RandomState(0)
    together = model.draw(40_000, random_state)
    assert draws_against(table, together) < 6
    alone = np.concatenate([model.draw(1, random_state) for _ in range(4000)], axis=1)
    assert abs(draws_against(table, alone)) < 8
    # The statistic can fail: it detects another distribution.
    assert draws_against(brute_force(density(6, target)), alone) > 20


def test_spread_draws_leave_less_sampling_error():
    model = density(7)
    table = brute_force(model).sum(axis=(1, 2, 3))
    random_state = np.random.RandomState(0)
    rows = [model.draw(200, random_state)[0] for _ in range(200)]
    counts = np.stack([np.bincount(row, minlength=len(table)) for row in rows]) / 200
    independent = np.sqrt(table * (1 - table) / 200)
    np.testing.assert_allclose(counts.mean(axis=0), table, atol=0.01)
    assert (counts.std(axis=0) < 0.7 * independent).all()


# -- histograms ----------------------------------------------------------------------------------------------


def measured(levels, truth, noise, rng):
    fine = truth + noise * rng.normal(size=len(truth))
    coarse = None
    if levels.parts is not None:
        coarse = np.bincount(levels.parts, weights=truth)
        coarse = coarse + noise * rng.normal(size=len(coarse))
    return NoisyLevels.measured(levels, fine, coarse, noise)


AMOUNT = {"kind": "continuous", "bounds": [0, 100], "missing": True}


def test_variances_agree_with_simulated_sums():
    levels = LevelGrid(Schema({"amount": AMOUNT})).columns[0]
    rng = np.random.default_rng(0)
    truth = rng.gamma(1.0, 50.0, size=levels.size)
    of_level = np.arange(levels.size) // 20
    ranges = [(0, 5), (3, 17), (0, 258), (100, 200), (258, 259)]
    sums, errors = [], []
    for _ in range(4000):
        noisy = measured(levels, truth, 10.0, rng)
        sums.append([noisy.counts[a:b].sum() - truth[a:b].sum() for a, b in ranges])
        errors.append(noisy.of_bins(of_level)[0] - np.bincount(of_level, weights=truth))
    expected = [noisy.variance(a, b) for a, b in ranges]
    np.testing.assert_allclose(np.var(sums, axis=0), expected, rtol=0.15)
    np.testing.assert_allclose(np.var(errors, axis=0), noisy.of_bins(of_level)[1], rtol=0.15)
    assert expected[2] < 0.1 * 258 * 100  # coarse parts keep noise from adding up


def test_probabilities_are_close_at_small_noise_and_flat_at_large_noise():
    levels = LevelGrid(Schema({"amount": AMOUNT})).columns[0]
    rng = np.random.default_rng(1)
    truth = np.zeros(levels.size)
    truth[0], truth[-1] = 4000, 1000  # a spike at zero, and missing cells
    truth[1:60] = 5000 / 59
    quiet = measured(levels, truth, 2.0, rng).probabilities(10_000.0)
    assert np.abs(quiet - truth / 10_000).sum() / 2 < 0.03
    assert (quiet > 0).all()
    loud = measured(levels, truth, 1e5, rng).probabilities(10_000.0)
    assert loud.sum() == pytest.approx(1.0)
    assert (loud > 0).all()


def test_two_releases_are_more_precise_than_one():
    levels = LevelGrid(Schema({"amount": AMOUNT})).columns[0]
    rng = np.random.default_rng(2)
    truth = rng.gamma(1.0, 50.0, size=levels.size)
    first, second = measured(levels, truth, 10.0, rng), measured(levels, truth, 5.0, rng)
    both = first.averaged_with(second)
    assert both.noise == pytest.approx((1 / 100 + 1 / 25) ** -0.5)
    assert np.abs(both.counts - truth).mean() < np.abs(second.counts - truth).mean()
    assert abs(noisy_rows([both]) - truth.sum()) < 6 * np.sqrt(both.variance(0, levels.size))


def test_spikes_get_their_own_bin_and_rare_levels_are_merged():
    levels = LevelGrid(Schema({"amount": AMOUNT})).columns[0]
    law = np.full(levels.size, 1e-6)
    law[0], law[40], law[-1] = 0.5, 0.2, 0.05
    law[1:40] = 0.2 / 39
    law /= law.sum()
    bins = choose_bins(levels, law, 0.001, 16)
    alone = np.bincount(bins.of_level)
    assert alone[bins.of_level[0]] == 1
    assert bins.within[40] > 0.99  # the nearly empty levels beyond the spike join its bin
    assert alone[bins.of_level[-1]] == 1
    assert bins.size <= 17
    assert (np.diff(bins.of_level) >= 0).all()
    assert (bins.of_bins[:-1] > 0.001).all()
    np.testing.assert_allclose(np.bincount(bins.of_level, weights=bins.within), 1.0)


def test_rare_categories_share_a_bin():
    many = {"kind": "categorical", "categories": [f"c{i}" for i in range(500)], "outside": "c0"}
    levels = LevelGrid(Schema({"many": many})).columns[0]
    law = special.softmax(-np.arange(500) / 10)
    bins = choose_bins(levels, law, 0.005, 48)
    assert bins.size < 48
    assert len(set(bins.of_level[:10])) == 10
    assert (bins.of_level[100:] == bins.of_level[-1]).all()
