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
from dpem.statistics.base import CompiledStatistic, TensorStatistic
from support.statements import STATEMENTS

ROOT = Path(__file__).parents[2]
SOME_PAIRS = 12
HAS_TORCH = importlib.util.find_spec("torch") is not None


def backends(statistic):
    """Return the programs that compute a statistic: NumPy, compiled, and tensors if PyTorch is installed."""
    yield "numpy"
    if isinstance(statistic, CompiledStatistic):
        yield "compiled"
    if isinstance(statistic, TensorStatistic) and HAS_TORCH:
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
