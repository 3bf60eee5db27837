"""Every statement of proofs/ about a statistic, as a property of the kernels that compute it.

`support.statements` describes them; the tests here loop over them. All comparisons are in exact integers and
fractions: a kernel that exceeds the bound of its theorem by one unit fails.
"""

import importlib.util
import itertools
import math
import re
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from dpem import _compiled
from dpem.engines.totals import IntegerTotal
from dpem.privacy.neighbours import Adjacency
from dpem.statistics import gaussian
from dpem.statistics.base import CompiledStatistic, TensorStatistic
from dpem.statistics.gaussian import COVARIANCES, RESPONSIBILITY_BITS, FrameMoments
from dpem.statistics.gaussian_missing import IncompleteMoments
from dpem.statistics.simple import SQUARED_BITS
from support.statements import STATEMENTS

ROOT = Path(__file__).parents[2]
SOME_PAIRS = 12
HAS_TORCH = importlib.util.find_spec("torch") is not None


def backends(statistic):
    """Return the programs that compute a statistic: NumPy, compiled, and tensors if PyTorch is installed.

    Tensors have no missing cells.
    """
    yield "numpy"
    if isinstance(statistic, CompiledStatistic):
        yield "compiled"
    if HAS_TORCH and isinstance(statistic, TensorStatistic) and not isinstance(statistic, IncompleteMoments):
        yield "tensor"


def sum_of(statistic, rows, backend):
    """Return the sum over rows as Python's integers."""
    if backend == "tensor":
        import torch

        total = statistic.sum_tensor(torch.from_numpy(np.ascontiguousarray(rows))).numpy()
    else:
        setting = patch.object(_compiled, "ENABLED", False) if backend == "numpy" else nullcontext()
        with setting:
            total = statistic.sum_block(np.ascontiguousarray(rows))
    return total.astype(np.int64).astype(object)


def noise_of(statistic):
    """Return the relative noise of every entry, as fractions."""
    shape = statistic.noise_shape
    return [Fraction(1)] * statistic.size if shape is None else [Fraction(float(noise)) for noise in shape]


class Size:
    """The size of a move relative to its noise: squared in the Euclidean norm, and itself in L1."""

    def __init__(self, statistic, norm):
        noise = noise_of(statistic)
        self._norm = norm
        self._groups = [(one, np.array([one == other for other in noise])) for one in set(noise)]

    def __call__(self, move):
        if self._norm == 1:
            return sum(abs(entry) for entry in move)
        return sum((move[where] ** 2).sum() / one**2 for one, where in self._groups)


CASES = [(statement, backend) for statement in STATEMENTS for backend in backends(statement.statistic)]
IDS = [f"{number}-{statement}-{backend}" for number, (statement, backend) in enumerate(CASES)]


@pytest.mark.parametrize(("statement", "backend"), CASES, ids=IDS)
def test_no_neighbour_moves_a_sum_beyond_the_bound_of_the_theorem(statement, backend):
    """Single rows, pairs of rows, and whole tables of which one row is removed or replaced."""
    statistic, rows = statement.statistic, statement.rows
    size = Size(statistic, statement.norm)
    n = rows.shape[1]
    vectors = [sum_of(statistic, rows[:, i : i + 1], backend) for i in range(n)]
    longest = max(size(vector) for vector in vectors)
    assert longest <= statement.add_remove
    assert longest >= statement.add_remove / 4  # the test is not idle
    pairs = list(itertools.combinations(range(n), 2))
    assert max(size(vectors[i] - vectors[j]) for i, j in pairs) <= statement.replace_one
    table = sum_of(statistic, rows, backend)
    assert (table == sum(vectors)).all()
    for i, j in pairs[:: len(pairs) // SOME_PAIRS]:
        without = sum_of(statistic, np.delete(rows, i, axis=1), backend)
        assert size(table - without) <= statement.add_remove
        replaced = rows.copy()
        replaced[:, i] = rows[:, j]
        assert size(table - sum_of(statistic, replaced, backend)) <= statement.replace_one


def root_below(square):
    """Return a lower bound of a root, with 200 bits."""
    square = Fraction(square)
    return Fraction(math.isqrt((square.numerator << 400) // square.denominator), 1 << 200)


@pytest.mark.parametrize("statement", STATEMENTS, ids=str)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_sensitivity_that_is_charged_is_at_least_that_of_the_theorem(statement, adjacency):
    """`sensitivity()` is not below the bound of the theorem, and not above it by more than rounding.

    If low bits are dropped, the bound is that of `S10_low_bits`.
    """
    statistic, norm = statement.statistic, statement.norm
    bound = statement.add_remove if adjacency is Adjacency.ADD_REMOVE else statement.replace_one
    exact = Fraction(bound) if norm == 1 else root_below(bound)
    if statistic.coarse_bits:
        ones = sum(1 / noise**2 for noise in noise_of(statistic))
        exact = exact / 2**statistic.coarse_bits + root_below(ones)
    charged = Fraction(statistic.sensitivity(adjacency, "l1" if norm == 1 else "l2"))
    assert exact <= charged <= exact * (1 + Fraction(1, 2**49))


@pytest.mark.parametrize("statement", [one for one in STATEMENTS if one.statistic.coarse_bits], ids=str)
def test_released_sums_without_low_bits_move_by_at_most_the_bound(statement):
    """`S10_low_bits` and `totals_value`: sums in limbs without low bits, also near the limits."""
    statistic, rows = statement.statistic, statement.rows
    size = Size(statistic, 2)
    vectors = [sum_of(statistic, rows[:, i : i + 1], "numpy").astype(np.int64) for i in range(8)]
    for offset in (0, 2**40 + 4095, -(2**62) + 1, 2**62 - 1):
        released = []
        for vector in vectors:
            total = IntegerTotal(statistic.size)
            total.add(np.full(statistic.size, offset))
            total.add(vector)
            released.append(total.value(statistic.coarse_bits).astype(object))
        charged = Fraction(statistic.sensitivity(Adjacency.REPLACE_ONE))
        for first, second in itertools.combinations(released, 2):
            assert size(first - second) <= charged**2


@pytest.mark.parametrize("statement", STATEMENTS, ids=str)
def test_noise_beside_a_diagonal_is_at_least_that_of_the_theorem(statement):
    """`noise_beside`: relative noise is 1, or w with w^2 >= 1/2 and next to nothing above it."""
    for noise in set(noise_of(statement.statistic)) - {1}:
        assert Fraction(1, 2) <= noise**2 < Fraction(1, 2) + Fraction(1, 2**50)


# -- the checks in integers on which the theorems rest ----------------------------------------------------


def moments(covariance="full"):
    """Return moments in frames with one component."""
    return next(
        one.statistic
        for one in STATEMENTS
        if type(one.statistic) is FrameMoments and one.statistic.covariance == covariance
    )


@pytest.mark.parametrize("excess", [-1, 0, 1, 2])
def test_a_row_beyond_the_norm_counts_as_zero(excess):
    """`S9_checked`: |psi|^2 <= 4^13 including its first entry, also if clipping in floats had failed."""
    statistic = moments()
    room = 4**SQUARED_BITS - int(statistic.count_units) ** 2
    psi = integer_vector(room + excess)
    z = psi / statistic.per_unit
    on_grid = statistic._onto_grid(z, np.zeros(1))  # as if the row were short
    assert np.array_equal(on_grid, psi if excess <= 0 else 0 * psi)


def integer_vector(squared):
    """Return four integers (4, 1) whose squares sum to a number."""
    for first in range(math.isqrt(squared), 0, -1):
        rest = squared - first * first
        for others in itertools.product(range(math.isqrt(rest) + 1), repeat=2):
            left = rest - dot(others, others)
            if left >= 0 and math.isqrt(left) ** 2 == left:
                return np.array([first, *others, math.isqrt(left)], dtype=float)[:, None]
    raise AssertionError(squared)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_responsibilities_beyond_their_bound_count_as_zero(covariance):
    """`bounded_norm` and, for a tied covariance, `bounded_sum`: also if softmax had failed."""
    one = 2.0**RESPONSIBILITY_BITS
    g = np.array([[one, one, 0.6 * one, one, np.nan], [0.0, 1.0, 0.6 * one, one / 4, 0.0]]) / one
    with patch.object(gaussian, "softmax", lambda _: (g.copy(), None, None)):
        kept = moments(covariance)._responsibilities(np.zeros((2, 5)))
    limits = kept.sum(axis=0) <= one if covariance == "tied" else (kept**2).sum(axis=0) <= one**2
    assert limits.all()
    assert kept[0, 0] == one
    assert (kept[:, [1, 3, 4]] == 0).all()
    assert (kept[0, 2] > 0) == (covariance != "tied")


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_rows_with_missing_cells_are_checked_by_the_formula_of_the_theorem(covariance):
    """`squared_norm` of proofs/S13_MissingCells.v, at the border of 4^26, for any integers."""
    statistic = next(
        one.statistic
        for one in STATEMENTS
        if type(one.statistic) is IncompleteMoments and one.statistic.covariance == covariance
    )
    rng = np.random.default_rng(1)
    s2 = int(statistic.count_units) ** 2
    n, d, q = 400, 3, 2
    length = rng.uniform(0.3, 1.0, n) * 2**SQUARED_BITS
    psi, null = rng.normal(size=(d, n)), rng.normal(size=(q, d, n))
    psi = np.rint(psi / np.linalg.norm(psi, axis=0) * length)
    null = np.rint(null * rng.uniform(0.0, 2000, n))
    fits = statistic._within_norm(psi, null, np.arange(n))
    expected = []
    for i in range(n):
        z, vectors = psi[:, i].astype(int).tolist(), null[:, :, i].astype(int).tolist()
        square = dot(z, z)
        if covariance == "spherical":
            norm = s2**2 + 2 * s2 * square + (square + sum(dot(v, v) for v in vectors)) ** 2
        else:
            norm = (s2 + square) ** 2 + 2 * sum(dot(z, v) ** 2 for v in vectors)
            norm += sum(dot(v, w) ** 2 for v in vectors for w in vectors)
        expected.append(norm <= 16**SQUARED_BITS and square <= 4**SQUARED_BITS)
    assert fits.tolist() == expected
    assert 20 < sum(expected) < n - 20


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_every_statement_names_a_theorem():
    """The names are those of theorems in proofs/, and every numbered statement has a test."""
    known = {
        name
        for file in (ROOT / "proofs").glob("*.v")
        for name in re.findall(r"^Theorem (\w+)", file.read_text(), re.MULTILINE)
    }
    named = {statement.theorem for statement in STATEMENTS}
    assert named <= known
    numbers = {int(re.match(r"S(\d+)_", name)[1]) for name in named if name.startswith("S")}
    elsewhere = {7, 10}  # persons: test_arithmetic.py; low bits: above
    assert numbers | elsewhere == set(range(1, 15))
