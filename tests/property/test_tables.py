"""Contingency tables and expected tables: sums are exact, and no row exceeds the sensitivity."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem.statistics.contingency import Histograms, PairTables
from dpem.statistics.mixture_tables import MixtureTables

RELATIONS = ["add_remove", "replace_one"]
SIZES = (2, 3, 5, 4)


def some_cells(rng):
    """Random combinations of levels that use every cell."""
    return [np.concatenate([np.arange(2), rng.integers(2, size=size - 2)]) for size in SIZES]


def expected_tables(rng, k=3):
    """EM over columns, the second and the last of which may be missing."""
    cells = [np.arange(size) for size in SIZES]
    missing = [None, rng.uniform(0.01, 0.9, k), None, rng.uniform(0.01, 0.9, k)]
    tables = [
        rng.dirichlet(np.full(size - (lost is not None), rng.choice([0.05, 1.0])), size=k).clip(1e-9)
        for size, lost in zip(SIZES, missing, strict=True)
    ]
    return MixtureTables(cells, rng.dirichlet(np.ones(k)), tables, missing)


def statistics(seed):
    rng = np.random.default_rng(seed)
    return {
        "histograms": Histograms([0, 1, 1, 3], [np.arange(SIZES[j]) for j in (0, 1, 1, 3)]),
        "split histograms": Histograms([0, 2], [some_cells(rng)[0], some_cells(rng)[2]], (1, np.arange(3))),
        "pairs": PairTables(some_cells(rng), [(0, 1, 2, 3)]),
        "split pairs": PairTables(some_cells(rng), [(0, 2, 3)], by=1),
        "blocks": PairTables(some_cells(rng), [(0, 3), (2, 1)]),
        "expected tables": expected_tables(rng),
    }


def all_rows():
    """Every combination of levels, and rows that no grid produces."""
    good = np.array(list(itertools.product(*(range(size) for size in SIZES))), dtype=float)
    odd = np.array([[-1.0, 1e9, np.nan, 2.0], [np.inf, -np.inf, 0.0, 1.0]])
    return np.concatenate([good, odd]).T


@pytest.mark.parametrize("name", statistics(0))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_sums_are_exact_and_rows_independent(name, seed):
    statistic, rows = statistics(seed)[name], all_rows()
    each = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])])
    assert each.shape == (rows.shape[1], statistic.size)
    assert np.array_equal(statistic.sum_block(rows), each.sum(axis=0))
    assert np.array_equal(statistic.sum_block(rows[:, ::-1]), each.sum(axis=0))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", statistics(0))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_no_row_exceeds_the_sensitivity(name, relation, seed):
    """Every row and every pair stays within the bound, which is nearly attained."""
    statistic, rows = statistics(seed)[name], all_rows()
    vectors = np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])]).astype(float)
    assert (vectors >= 0).all()
    squared = (vectors**2).sum(axis=1)
    if relation == "replace_one":
        squared = (squared[:, None] + squared - 2 * vectors @ vectors.T).ravel()
    bound = statistic.sensitivity(relation)
    assert np.sqrt(squared.max()) <= bound * (1 + 1e-12)
    if name != "expected tables":
        assert np.sqrt(squared.max()) > 0.99 * bound * (1 if relation == "add_remove" else 0.7)


def test_expected_tables_reach_their_bound():
    """With a certain component and a missing cell with a certain table, the norm is sqrt(1 + m + q)."""
    sure = [np.array([[1.0, 1e-12]]), np.array([[1.0, 1e-12]])]
    statistic = MixtureTables([np.arange(3), np.arange(2)], np.ones(1), sure, [np.array([1 - 1e-9]), None])
    vector = statistic.sum_block(np.array([[2.0], [0.0]])).astype(float)
    assert np.linalg.norm(vector) > 0.999 * statistic.sensitivity("add_remove")


def test_a_missing_cell_counts_as_its_expectation():
    """With one component, a missing cell adds the released table to the counts, and counts as missing."""
    table = np.array([[0.25, 0.75]])
    statistic = MixtureTables([np.arange(3)], np.ones(1), [table], [np.array([0.5])])
    unit = 2.0**28
    known = statistic.sum_block(np.array([[1.0]])) / unit
    np.testing.assert_allclose(known, [1.0, 0.0, 1.0, 0.0], atol=1e-4)
    lost = statistic.sum_block(np.array([[2.0]])) / unit
    np.testing.assert_allclose(lost, [1.0, 0.25, 0.75, 1.0], atol=1e-3)


def test_tables_are_those_of_the_rows():
    """Compared with direct counting: histograms split by a column, and every pair of a block."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(size, size=500) for size in SIZES]).astype(float)
    whole = [np.arange(size) for size in SIZES]
    split = Histograms([0, 2], [whole[0], whole[2]], (1, whole[1]))
    for j, table in zip((0, 2), split.split(split.sum_block(rows).astype(float)), strict=True):
        for part in range(3):
            here = rows[j][rows[1] == part]
            np.testing.assert_array_equal(table[part], np.bincount(here.astype(int), minlength=SIZES[j]))
    pairs = PairTables(whole, [(0, 2, 3)], by=1)
    (gram,) = pairs.grams(pairs.sum_block(rows).astype(float))
    starts = pairs.starts((0, 2, 3))
    assert gram.shape == (3, 11, 11)
    for part, (a, i), (b, j) in itertools.product(range(3), enumerate((0, 2, 3)), enumerate((0, 2, 3))):
        block = gram[part, starts[a] : starts[a + 1], starts[b] : starts[b + 1]]
        here = rows[:, rows[1] == part]
        count = np.zeros(block.shape)
        if i != j:
            np.add.at(count, (here[i].astype(int), here[j].astype(int)), 1)
        np.testing.assert_array_equal(block, count)
