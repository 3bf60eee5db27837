"""The public domain: rows become bounded integers, one at a time, and never raise."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dpem
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
    domain = Domain.from_arguments(2, bounds=(np.array([0, 70]), np.array([120, 220])))
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


def test_bounds_by_name_are_those_of_the_columns():
    bounds = {"dose": [18, 110], "age": (10, 60)}
    low, high = Domain.from_arguments(2, bounds=bounds, names=["age", "dose"]).box
    assert (low.tolist(), high.tolist()) == ([10, 18], [60, 110])


@pytest.mark.parametrize("pair", [[(10, 60), (18, 110)], ([10, 60], [18, 110]), ((0, 70), (120, 220))])
def test_bounds_of_two_columns_that_have_two_readings_are_refused(pair):
    """One pair for each column looks like lower and upper bounds, which would clip most rows away."""
    with pytest.raises(InvalidArgumentError) as caught:
        Domain.from_arguments(2, bounds=pair, names=["age", "dose"])
    assert "lower and upper" in str(caught.value)
    assert "one pair per column" in str(caught.value)
    assert "bounds={'age': (low, high), 'dose': (low, high)}" in str(caught.value)


@pytest.mark.parametrize(
    "bounds",
    [
        (np.array([10, 60]), np.array([18, 110])),
        ([0, 0], [120, 60]),  # a pair (0, 0) would be empty
        [(0, 1), (1, 2)],  # both readings are the same
    ],
)
def test_bounds_with_one_reading_are_lower_and_upper_bounds(bounds):
    low, high = Domain.from_arguments(2, bounds=bounds).box
    assert (low.tolist(), high.tolist()) == tuple(np.array(bound, dtype=float).tolist() for bound in bounds)


@pytest.mark.parametrize(
    ("bounds", "names", "message"),
    [
        ({"age": (0, 1)}, None, "columns without names"),
        ({"age": (0, 1)}, ["age", "dose"], "no bounds for 'dose'"),
        ({"age": (0, 1), "dos": (0, 1)}, ["age", "dose"], "Did you mean 'dose'"),
        ({"age": (0, 1), "dose": 3}, ["age", "dose"], r"bounds \(low, high\) for column 'dose'"),
        ({"age": (0, 1), "dose": (3, 2)}, ["age", "dose"], "low < high, got .3.0, 2.0. for column 'dose'"),
    ],
)
def test_bad_bounds_by_name(bounds, names, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Domain.from_arguments(2, bounds=bounds, names=names)


def test_pairs_for_three_columns_are_recognised():
    with pytest.raises(InvalidArgumentError, match=r"mapping, bounds=\{'x0': \(0, 9\), ...\}"):
        Domain.from_arguments(3, bounds=[(0, 9), (0, 8), (0, 7)])


@pytest.mark.parametrize(
    "bounds", [{"a": (-3, 3), "b": (-3, 4)}, (np.array([-3.0, -2.0]), np.array([-1.0, 4.0]))]
)
def test_a_model_with_bounds_by_name_or_in_arrays_is_saved_and_loaded(bounds, tmp_path):
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 2)), columns=["a", "b"])
    model = dpem.GaussianMixture(1, epsilon=5.0, bounds=bounds, random_state=0).fit(rows)
    model.save(tmp_path / "model.dpem")
    again = dpem.load(tmp_path / "model.dpem")
    np.testing.assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    assert again.privacy_.bounds == model.privacy_.bounds
    assert dpem.plan(again, 3000, columns=["a", "b"]).n_rows == 3000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of bounds, data_norm and schema, got none.*'age', 'dose'.*schema=dpem.Schema"),
        (
            {"bounds": (0, 1), "data_norm": 1.0},
            "got bounds and data_norm. Leave out bounds:",
        ),
        ({"bounds": (1, 0)}, "low < high, got .1.0, 0.0. for column 'age'"),
        ({"bounds": ([0, 0], [1, 0])}, "for column 'dose'"),
        ({"bounds": (0, np.inf)}, "finite bounds"),
        ({"bounds": (0, np.nan)}, "finite bounds"),
        ({"bounds": ([0, 0, 0], 1)}, "bounds for 2 columns"),
        ({"bounds": ([0, 0, 0], [1, 1, 1])}, "bounds for 2 columns, got 3 lower and 3 upper bounds"),
        ({"bounds": 3}, "bounds for 2 columns"),
        ({"bounds": ("a", "b")}, "bounds for 2 columns, got text instead of numbers"),
        ({"bounds": ("0", "100")}, "got text instead of numbers"),
        ({"bounds": (["0", "1"], ["100", "2"])}, "got text instead of numbers"),
        ({"bounds": (np.array(["0", 1], dtype=object), 100)}, "got text instead of numbers"),
        ({"bounds": [(0, 100), (0, 60)]}, r"pass a mapping, bounds=\{'age': \(0, 100\), ...\}"),
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
