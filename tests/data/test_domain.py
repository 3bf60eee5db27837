"""The public domain: rows become bounded integers, one at a time, and never raise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpem import Schema
from dpem.data import Domain
from dpem.data.domain import GRID, onto_grid
from dpem.errors import InvalidArgumentError

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)
BLOCKS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12), elements=ANY_FLOAT
)


def domains(n_columns):
    return [
        Domain.from_arguments(n_columns, data_norm=1.0),
        Domain.from_arguments(n_columns, data_norm=1e-99),
        Domain.from_arguments(n_columns, bounds=(-3, 5)),
        Domain.from_arguments(n_columns, bounds=(np.arange(n_columns), np.arange(n_columns) + 1e6)),
    ]


@given(BLOCKS)
@settings(max_examples=200)
def test_any_row_becomes_bounded_integers(block):
    """Any floats, also NaN and infinities, become integers of squared norm at most 2^48, without warnings."""
    for domain in domains(len(block)):
        grid = domain.to_grid(block)
        assert np.array_equal(grid, np.rint(grid))
        exact = [sum(int(v) ** 2 for v in row) for row in grid.T]
        assert max(exact) <= 2**48
        bad = ~np.isfinite(block).all(axis=0)
        assert not grid[:, bad].any()


@given(BLOCKS, st.data())
def test_bits_of_a_row_do_not_depend_on_other_rows(block, data):
    """A single row has the same bits as inside a block, in any position."""
    i = data.draw(st.integers(0, block.shape[1] - 1))
    for domain in domains(len(block)):
        whole = domain.to_grid(block)
        assert np.array_equal(domain.to_grid(block[:, [i]])[:, 0], whole[:, i])
        assert np.array_equal(domain.to_grid(block[:, ::-1]), whole[:, ::-1])


def test_the_whole_box_and_ball_are_used():
    """Corners of the box and points of the sphere keep their norm up to rounding."""
    domain = Domain.from_arguments(3, bounds=(-1, 1))
    corner = domain.to_grid(np.ones((3, 1)))[:, 0]
    assert np.linalg.norm(corner) > GRID * (1 - 1e-6)
    domain = Domain.from_arguments(2, data_norm=5.0)
    assert domain.to_grid(np.array([[3.0], [-4.0]]))[:, 0] == pytest.approx(
        np.array([0.6, -0.8]) * GRID, rel=1e-6
    )


def test_round_trip_and_clipping():
    """Rows inside the bounds return within a grid step; values outside return as the bounds."""
    domain = Domain.from_arguments(2, bounds=([0, 70], [120, 220]))
    rows = np.array([[30.0, 119.0, 500.0, -3.0], [80.0, 219.0, 100.0, 1e9]])
    back = domain.from_grid(domain.to_grid(rows).T).T
    step = domain.radius / GRID
    assert np.abs(back[:, :2] - rows[:, :2]).max() < 2 * step
    assert back[:, 2] == pytest.approx([120, 100], abs=1e-3)
    assert back[:, 3] == pytest.approx([0, 220], abs=1e-3)
    assert pytest.approx(domain.to_grid(rows), abs=2) == domain.points_to_grid(back.T).T


def test_public_points_stay_in_the_ball():
    """Centres far outside, or not finite because of noise, are moved into the ball."""
    points = onto_grid(np.array([[1e30, 1e30], [np.nan, 3.0], [1.2, -7.9]]))
    assert (np.linalg.norm(points, axis=1) <= GRID).all()
    assert points[2].tolist() == [1.0, -8.0]


def test_description_for_the_statement():
    """Bounds are described in words, by column name if there are names."""
    assert Domain.from_arguments(2, bounds=(0, 1)).describe(["a", "b"]) == {"a": "0 to 1", "b": "0 to 1"}
    assert Domain.from_arguments(2, data_norm=3).describe() == {"every row": "Euclidean norm at most 3"}
    schema = Schema({"x": {"kind": "continuous", "bounds": [0, 1]}})
    assert Domain.from_arguments(1, schema=schema).source == "schema"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of bounds, data_norm and schema, got none.*age, dose"),
        ({"bounds": (0, 1), "data_norm": 1.0}, "got bounds and data_norm"),
        ({"bounds": (1, 0)}, "low < high, got 1 and 0 for column x0"),
        ({"bounds": ([0, 0], [1, 0])}, "for column x1"),
        ({"bounds": (0, np.inf)}, "finite bounds"),
        ({"bounds": (0, np.nan)}, "finite bounds"),
        ({"bounds": ([0, 0, 0], 1)}, "bounds for 2 columns"),
        ({"bounds": 3}, "bounds for 2 columns"),
        ({"bounds": ("a", "b")}, "bounds for 2 columns"),
        ({"data_norm": -1}, "data_norm"),
        ({"data_norm": np.nan}, "data_norm"),
        ({"data_norm": "1"}, "data_norm"),
        ({"data_norm": 5e-324}, "data_norm"),
        ({"bounds": (-1e-170, 1e-170)}, "bounds between"),
        ({"bounds": (-1e200, 1e200)}, "bounds between"),
        ({"bounds": (-1.7e308, 1.7e308)}, "bounds between"),
    ],
)
def test_bad_bounds(arguments, message):
    """The error states how to declare bounds, and names columns."""
    with pytest.raises(InvalidArgumentError, match=message):
        Domain.from_arguments(2, names=["age", "dose"], **arguments)
