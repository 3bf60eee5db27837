"""Proof obligations: steps of the proofs of sensitivities, attacked with generated parameters.

In a fit, rows usually stay below the sensitivity (because of rounding and soft responsibilities), so that a
replay does not see a mistake smaller than that margin. Each obligation is one step of a proof in
docs/proofs/sensitivity.md: the largest value that generated rows reach, over the bound of the proof.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from dpem import _compiled
from dpem.data import Domain
from dpem.data.domain import GRID
from dpem.plugin import clipped as clipped_statistic
from dpem.privacy import sensitivity
from dpem.privacy.neighbours import Adjacency
from dpem.privacy.randomness import public_random
from dpem.statistics.contingency import PairTables
from dpem.statistics.gaussian import COVARIANCES, ROW_BITS, FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import IncompleteMoments
from dpem.statistics.missing_cells import fill_rows
from dpem.statistics.mixture_tables import MixtureTables
from dpem.statistics.simple import LINEAR_BITS, SQUARED_BITS, ColumnSquares, RelativeSums, onto_unit_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dpem.privacy.randomness import PublicRandom
    from dpem.statistics.gaussian import Covariance

    Array = NDArray[np.float64]

__all__ = ["OBLIGATIONS", "Obligation", "largest_ratio"]

_ROWS = 400


@dataclass(frozen=True)
class Obligation:
    """One step of a proof.

    Attributes
    ----------
    proof : str
        Equation of docs/proofs/sensitivity.md that needs it.
    reached : callable
        Function of a source of randomness. It draws rows and returns the largest value over the bound: at
        most 1, or infinity if something is not on the grid.
    """

    proof: str
    reached: Callable[[PublicRandom], float]


# -- rows ------------------------------------------------------------------------------------------------


def _wild_rows(random: PublicRandom, d: int, n: int = _ROWS) -> Array:
    """Return rows of all lengths, (d, n): inside the ball, on its border, far outside, infinite."""
    rows = random.normal(size=(d, n))
    rows /= np.sqrt((rows**2).sum(axis=0))
    rows *= np.exp2(random.randint(-3, 6, size=n))
    rows[:, :20] = np.sign(rows[:, :20])
    rows[0, 20:24] = np.inf, -np.inf, 1e308, 5e-324
    return np.asarray(rows)


def _length(columns: Array, largest: float) -> float:
    """Return the largest length of integer columns over the bound, or infinity if they are not integers."""
    if not np.array_equal(columns, np.rint(columns)):
        return math.inf
    return float(np.sqrt((columns**2).sum(axis=0).max())) / largest


def _grid_rows(random: PublicRandom) -> float:
    found = 0.0
    for d in (1, 2, 7):
        rows = _wild_rows(random, d)
        for domain in ({"data_norm": 1.0}, {"bounds": (-1.0, 1.0)}):
            grid = Domain.from_arguments(d, **domain)
            with np.errstate(all="ignore"):
                found = max(found, _length(grid.to_grid(rows), GRID))
    return found


def _grid_of(random: PublicRandom, d: int, n: int = _ROWS) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(Domain.from_arguments(d, data_norm=1.0).to_grid(_wild_rows(random, d, n)))


def _filled_rows(random: PublicRandom) -> float:
    """Fill rows with known cells at the border, whose missing cells have distant expectations."""
    d = 4
    factor = np.tril(np.full((d, d), 0.5)) + 0.01 * np.eye(d)
    components = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, d)), factor[None])
    rows = _with_holes(random, _grid_of(random, d))
    return _length(fill_rows(components, rows), GRID)


def _with_holes(random: PublicRandom, rows: Array) -> Array:
    return np.where(random.random_sample(rows.shape) < 0.3, np.nan, rows)


def _clipped_rows(random: PublicRandom) -> float:
    return max(
        _length(onto_unit_grid(_grid_of(random, d), GRID * 2.0**-j, bits), 2.0**bits)
        for d in (1, 3, 10)
        for j in (0, 4)
        for bits in (SQUARED_BITS, LINEAR_BITS)
    )


# -- vectors of one row ----------------------------------------------------------------------------------


def _each(statistic: Any, rows: Array) -> Iterator[Array]:
    for i in range(rows.shape[1]):
        yield statistic.sum_block(rows[:, i : i + 1]).astype(np.float64)


def _longest(statistic: Any, rows: Array, allowed: float) -> float:
    """Return the length of the longest row vector, in the norm of the noise, over the bound."""
    shape = 1.0 if statistic.noise_shape is None else statistic.noise_shape
    return max(float(np.linalg.norm(vector / shape)) for vector in _each(statistic, rows)) / allowed


def _farthest(statistic: Any, rows: Array) -> float:
    """Return the largest distance between the vectors of two rows, over the replace-one sensitivity."""
    vectors = np.stack(list(_each(statistic, rows)))
    squared = (vectors**2).sum(axis=1)
    apart = squared[:, None] + squared - 2 * vectors @ vectors.T
    return float(np.sqrt(np.maximum(apart, 0.0).max())) / float(statistic.sensitivity(Adjacency.REPLACE_ONE))


def _components(random: PublicRandom, k: int, d: int, width: float) -> GaussianComponents:
    means = random.normal(0, 0.3, (k, d))
    factors = np.stack([np.eye(d) * width] * k) * np.exp(random.normal(0, 0.2, (k, 1, 1)))
    return GaussianComponents.from_parameters(np.full(k, 1 / k), means, factors)


def _moments(random: PublicRandom, covariance: Covariance, k: int, d: int, width: float) -> FrameMoments:
    return FrameMoments(_components(random, k, d, width), k, covariance, 3.0, 1.0)


def _counted_once(random: PublicRandom) -> float:
    """Sum the responsibilities of a row with a tied covariance and many components."""
    return max(_counts(random, "tied", 0.4, 1))


def _counted_by_norm(random: PublicRandom) -> float:
    return max(max(_counts(random, kind, 0.02, 2)) for kind in ("full", "diag", "spherical"))


def _counts(random: PublicRandom, covariance: Covariance, width: float, norm: int) -> Iterator[float]:
    """Yield the norm of a row's counts over the bound, with compiled kernels and without."""
    k, d = 60, 2
    statistic = _moments(random, covariance, k, d, width)
    shared = d * (d + 1) // 2 if covariance == "tied" else 0
    one = 2.0 ** (ROW_BITS - 2 * SQUARED_BITS) * statistic.count_units**2
    rows = _grid_of(random, d)
    for setting in (nullcontext(), patch.object(_compiled, "ENABLED", False)):
        with setting:
            for vector in _each(statistic, rows):
                counts = vector[: statistic.size - shared].reshape(k, -1)[:, 0]
                yield float(np.linalg.norm(counts, norm)) / one


def _gaussian_rows(random: PublicRandom) -> float:
    return max(
        _longest(_moments(random, kind, k, 2, 0.2), _grid_of(random, 2, 150), 2.0**ROW_BITS)
        for kind in COVARIANCES
        for k in (1, 5)
    )


def _incomplete_rows(random: PublicRandom) -> float:
    found = 0.0
    for kind in COVARIANCES:
        for k in (1, 4):
            statistic = IncompleteMoments(_components(random, k, 3, 0.1), k, kind, 3.0, 1.0)
            rows = _with_holes(random, _grid_of(random, 3, 150))
            found = max(found, _longest(statistic, rows, 2.0**ROW_BITS))
    return found


def _expected_tables(random: PublicRandom) -> float:
    """Use one component with nearly certain tables: a row of missing cells then has the longest vector."""
    m, cells = 5, 3
    sure = np.full((1, cells), 1e-9)
    sure[0, 0] = 1 - 2e-9
    found = []
    for missing in (np.full(1, 0.5), None):
        codes = np.arange(cells + (missing is not None))
        statistic = MixtureTables([codes] * m, np.ones(1), [sure] * m, [missing] * m)
        rows = random.randint(len(codes), size=(m, 200)).astype(np.float64)
        rows[:, 0] = len(codes) - 1
        found.append(_longest(statistic, rows, float(statistic.sensitivity(Adjacency.ADD_REMOVE))))
    return max(found)


def _pair_tables(random: PublicRandom) -> float:
    """Use three blocks of columns, split by another column."""
    blocks = ((0, 1, 2), (3, 4), (5, 6, 7))
    statistic = PairTables([np.arange(3)] * 9, blocks, by=8)
    rows = random.randint(3, size=(9, 60)).astype(np.float64)
    rows[:, 0], rows[:, 1] = 0, 1
    return _farthest(statistic, rows)


def _column_squares(random: PublicRandom) -> float:
    d = 6
    statistic = ColumnSquares(np.zeros(d), np.full(d, GRID / 4), 2.0)
    return _longest(statistic, _grid_of(random, d), 2.0**LINEAR_BITS)


def _relative_sums(random: PublicRandom) -> float:
    """Check counts and sums together, for an added row and for a replaced one."""
    found = 0.0
    for stretch in (None, np.array([1.0, 0.25])):
        statistic = RelativeSums(np.zeros((1, 2)), GRID / 8, 0.8, stretch)
        rows = _grid_of(random, 2)
        added = _longest(statistic, rows, float(statistic.sensitivity(Adjacency.ADD_REMOVE)))
        found = max(found, added, _farthest(statistic, rows))
    return found


def _plug_in_vectors(random: PublicRandom) -> float:
    """Clip arbitrary vectors of a model, with and without negative entries."""
    largest = 2.0**LINEAR_BITS
    found = 0.0
    for nonnegative in (False, True):
        vectors = np.concatenate([_wild_rows(random, 5), -_wild_rows(random, 5)], axis=1)
        vectors[1, 30:33] = np.nan, np.inf, -np.inf
        with np.errstate(all="ignore"):
            bounded = clipped_statistic._bounded(vectors, 0.7, largest - 2, largest, nonnegative=nonnegative)
        if nonnegative and (bounded < 0).any():
            return math.inf
        found = max(found, _length(bounded, largest))
    return found


# -- sensitivities ---------------------------------------------------------------------------------------


def _coarse_sums(random: PublicRandom) -> float:
    """Round down sums with changes large and small relative to the unit, which may add one to each entry."""
    found = 0.0
    for bits in (1, 4, 12):
        for exponent in (-2, 0, 3):
            shape = np.where(random.random_sample(6) < 0.5, 1.0, math.sqrt(0.5))
            direction = random.normal(size=6)
            change = np.abs(direction / np.linalg.norm(direction / shape)) * 2.0 ** (bits + exponent)
            norm = float(np.linalg.norm(change / shape))
            moved = np.linalg.norm(np.floor(change / 2**bits + 1 - 2.0**-40) / shape)
            found = max(found, float(moved) / sensitivity.coarse(norm * (1 + 1e-12), bits, shape))
    return found


def _formulas(random: PublicRandom) -> float:
    """Compare worst-case and random rows with each formula of `dpem.privacy.sensitivity`."""
    radius, d, k = 1.5, 4, 3
    reached: list[float] = []
    for _ in range(200):
        # Two rows of full length, each in one component, as counts, sums and second moments.
        u = random.normal(size=(2, d))
        u *= radius / np.linalg.norm(u, axis=1)[:, None]
        if random.random_sample() < 0.3:
            u[1] = -u[0]
        where = random.randint(k, size=2)
        g = np.zeros((2, k))
        g[[0, 1], where] = 1.0
        sums = g[:, :, None] * u[:, None, :]
        squares = g[:, :, None] * np.einsum("ni,nj->nij", u, u).reshape(2, 1, d * d)
        a, b, c = np.exp(random.normal(size=3))
        joint = np.concatenate(
            [a * g, b * sums.reshape(2, -1) / radius, c * squares.reshape(2, -1) / radius**2], axis=1
        )
        cells = random.randint(3, size=(2, 5))
        hot = np.eye(3)[cells].reshape(2, -1)
        for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE):
            vectors: list[tuple[Any, float, int]] = [
                (g, sensitivity.counts(adjacency), 2),
                (g, sensitivity.counts(adjacency, "l1"), 1),
                (hot, sensitivity.histograms(5, adjacency), 2),
                (sums.reshape(2, -1), sensitivity.sums(radius, adjacency), 2),
                (sums.reshape(2, -1), sensitivity.sums(radius, adjacency, "l1", d), 1),
                (squares.reshape(2, -1), sensitivity.second_moments(radius, adjacency), 2),
                (joint, sensitivity.joint(a, b, c, adjacency), 2),
                (u, sensitivity.clipped_vector(radius, adjacency), 2),
                (np.abs(u), sensitivity.clipped_vector(radius, adjacency, cone=True), 2),
                (np.concatenate([g, np.sign(u)], axis=1), sensitivity.lloyd_l1(d, adjacency), 1),
                (
                    np.concatenate([g, u / radius], axis=1),
                    sensitivity.lloyd_l1(d, adjacency, "ball"),
                    1,
                ),
                (
                    np.array([[0.0, 2.0], [2.0, 2.0]])[:, :: random.choice([1, -1])],
                    sensitivity.interval(2.0, adjacency, counted=True),
                    2,
                ),
            ]
            for rows, claimed, norm in vectors:
                change = rows[0] - rows[1] if adjacency == Adjacency.REPLACE_ONE else rows[1]
                reached.append(float(np.linalg.norm(change, norm)) / claimed)
    reached += [
        m * one / sensitivity.for_person(one, m) for m in (1, 2, 7) for one in (1.0, math.sqrt(2), 1e9)
    ]
    return max(reached)


OBLIGATIONS: dict[str, Obligation] = {
    "rows on the grid lie in the ball": Obligation("S-2", _grid_rows),
    "filled rows lie in the ball": Obligation("S-13", _filled_rows),
    "clipped rows lie in the ball": Obligation("S-3", _clipped_rows),
    "a row counts once under a tied covariance": Obligation("S-9", _counted_once),
    "a row's responsibilities have norm one": Obligation("S-9", _counted_by_norm),
    "moments of a row": Obligation("S-9", _gaussian_rows),
    "moments of a row with missing cells": Obligation("S-13", _incomplete_rows),
    "expected tables of a row": Obligation("S-14", _expected_tables),
    "tables of pairs in blocks of columns": Obligation("S-12", _pair_tables),
    "squares of a row's columns": Obligation("S-11", _column_squares),
    "counts and relative sums of a row": Obligation("S-4", _relative_sums),
    "vectors of plug-in models": Obligation("S-6", _plug_in_vectors),
    "sums without their low bits": Obligation("S-10", _coarse_sums),
    "formulas of sensitivities": Obligation("S-1 to S-8", _formulas),
}


@_compiled.for_any_size()
def largest_ratio(name: str) -> float:
    """Return the largest ratio of an obligation for rows from a fixed source of randomness."""
    return OBLIGATIONS[name].reached(public_random(0))
