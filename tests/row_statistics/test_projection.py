"""Rows in a basis are bounded integers, independent of other rows, and keep their length."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem.data import Domain
from dpem.data.domain import GRID
from dpem.statistics.projection import ProjectedDomain, cosine_basis


def projection(d, p, seed):
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0][:, :p]
    return ProjectedDomain(Domain.from_arguments(d, data_norm=2.0), basis)


def rows_of_all_kinds(d, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(d, 40)) * rng.choice([1e-9, 0.5, 1.0, 1e12], 40)
    rows[:, 0], rows[0, 1], rows[0, 2], rows[:, 3] = np.nan, np.inf, 1e308, 0.0
    return rows


@given(d=st.sampled_from([1, 2, 5, 30]), seed=st.integers(0, 10**6), part=st.floats(0.0, 1.0))
@settings(max_examples=40, deadline=None)
def test_rows_stay_in_the_ball_and_are_independent(d, seed, part):
    """Projected rows are integers of norm at most 2^24, and depend on their own row only."""
    grid = projection(d, max(1, round(part * d)), seed)
    columns = rows_of_all_kinds(d, seed)
    rows = grid.to_grid(columns)
    assert rows.shape == (grid.n_columns, 40)
    assert np.array_equal(rows, np.rint(rows))
    assert all(sum(int(x) ** 2 for x in row) <= 2**48 for row in rows.T)
    for i in range(40):
        assert np.array_equal(grid.to_grid(columns[:, [i]]), rows[:, [i]])


@pytest.mark.parametrize("p", [1, 4, 9, 10])
def test_coordinates_and_lengths_are_preserved(p):
    """Coordinates are those of the basis; together with the rest they have the length of the row."""
    grid = projection(10, p, 0)
    columns = np.random.default_rng(1).normal(size=(10, 50)) * 0.3
    whole = grid.domain.to_grid(columns)
    rows = grid.to_grid(columns) / grid.shrinkage
    np.testing.assert_allclose(rows[:p], grid.basis.T @ whole, atol=100)
    np.testing.assert_allclose((rows**2).sum(axis=0), (whole**2).sum(axis=0), rtol=1e-4)
    assert grid.shrinkage > 0.9999


def test_no_row_is_lost_with_many_columns():
    """At the size of the paper's pictures, rounding loses no row."""
    basis = cosine_basis((64, 64), 100)
    grid = ProjectedDomain(Domain.from_arguments(4096, data_norm=1.0), basis)
    columns = basis[:, :5] * 5.0  # beyond the ball, in the basis: clipped to its surface
    rows = grid.to_grid(columns)
    np.testing.assert_allclose(np.sqrt((rows**2).sum(axis=0)), GRID, rtol=2e-3)
