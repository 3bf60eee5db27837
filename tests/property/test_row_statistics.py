"""Every shared row statistic is additive over rows, and no pair of rows exceeds its sensitivity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpem.data.domain import GRID, onto_grid
from dpem.statistics.contingency import Histograms
from dpem.statistics.frame_sizes import FrameSizes
from dpem.statistics.gaussian import GaussianComponents
from dpem.statistics.simple import (
    BOX_BITS,
    BoxHistogram,
    ColumnSquares,
    DistanceHistogram,
    IntervalSum,
    RelativeSums,
    SecondMoments,
    SquaredDistances,
    Sums,
)

RELATIONS = ["add_remove", "replace_one"]


def statistics(d, seed):
    """One statistic of each kind, with frames and centres as a fit might release them."""
    rng = np.random.default_rng(seed)
    centres = onto_grid(rng.normal(size=(4, d)) * GRID * rng.choice([0.05, 0.5, 2.0]))
    radius = float(GRID * rng.choice([1e-5, 0.01, 0.3, 1.0, 2.0]))
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0][: min(d, 3)]
    factor = (np.tril(rng.normal(size=(d, d)), -1) + np.eye(d)) * radius / GRID
    frame = GaussianComponents.from_parameters(np.ones(1), centres[:1] / GRID, factor[None])
    return {
        "sums": Sums(d, counted=False),
        "counted sums": Sums(d, counted=True),
        "distances": DistanceHistogram(centres, radius * 2.0 ** np.arange(-9.0, 1.0)),
        "second moments": SecondMoments(centres[0], radius),
        "cells": BoxHistogram(
            centres[0],
            np.rint(axes * 2**20),
            np.full(len(axes), radius),
            tuple(np.arange(BOX_BITS) % len(axes)),
            np.append(0, 1 + np.sort(rng.choice(2**BOX_BITS - 1, 40, replace=False))),
        ),
        "relative sums": RelativeSums(centres, radius, 1.0),
        "interval": IntervalSum(counted=False),
        "counted interval": IntervalSum(counted=True),
        "squared distances": SquaredDistances(np.array([[-GRID, *np.zeros(d - 1)]]), counted=False),
        "counted distances": SquaredDistances(np.array([[-GRID, *np.zeros(d - 1)]]), counted=True),
        "column histograms": Histograms.of_columns((3, 2, 70, 5)[:d] + (4,) * max(0, d - 4)),
        "column squares": ColumnSquares(centres[0], radius * rng.uniform(0.1, 3.0, d), float(d)),
        "frame sizes": FrameSizes(frame, 3.0 * d),
        "light counts": RelativeSums(centres, radius, float(d**-0.25)),
    }


def extreme_rows(d, rng, n):
    """Rows that attain bounds: the sphere, its poles, near centres, zero, and their opposites."""
    sphere = rng.normal(size=(n, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    poles = np.concatenate([np.eye(d), -np.eye(d)])
    rows = np.concatenate(
        [sphere, -sphere, poles, 1e-6 * sphere, np.zeros((1, d)), rng.uniform(size=(n, 1)) * sphere]
    )
    return onto_grid(rows * GRID).T


def row_vectors(statistic, rows):
    """Return the contribution of every row."""
    return np.stack([statistic.sum_block(rows[:, [i]]) for i in range(rows.shape[1])])


@pytest.mark.parametrize("name", statistics(2, 0))
@given(d=st.sampled_from([1, 2, 3, 7]), seed=st.integers(0, 10**6), cut=st.integers(0, 60))
@settings(max_examples=25, deadline=None)
def test_sums_are_exact_and_rows_independent(name, d, seed, cut):
    """The sum of a block is the sum of its rows' vectors, bit for bit, for any split or order."""
    rng = np.random.default_rng(seed)
    statistic, rows = statistics(d, seed)[name], extreme_rows(d, rng, 12)
    each = row_vectors(statistic, rows)
    assert each.shape == (rows.shape[1], statistic.size)
    assert np.array_equal(statistic.sum_block(rows), each.sum(axis=0))
    assert np.array_equal(statistic.sum_block(rows[:, ::-1]), each.sum(axis=0))
    cut = min(cut, rows.shape[1] - 1)
    without = np.delete(rows, cut, axis=1)
    assert np.array_equal(statistic.sum_block(without), each.sum(axis=0) - each[cut])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", statistics(2, 0))
@given(d=st.sampled_from([1, 2, 3, 7]), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_no_pair_of_rows_exceeds_the_sensitivity(name, relation, d, seed):
    """All rows (add/remove) and all pairs (replace-one) of extreme rows stay within the sensitivity."""
    statistic = statistics(d, seed)[name]
    if name == "sums" and relation == "add_remove":
        return  # there the count is released beside the sum
    vectors = row_vectors(statistic, extreme_rows(d, np.random.default_rng(seed), 12)).astype(float)
    if statistic.noise_shape is not None:
        vectors /= statistic.noise_shape
    bound = statistic.sensitivity(relation)
    moves = (
        vectors
        if relation == "add_remove"
        else (vectors[:, None] - vectors[None]).reshape(-1, statistic.size)
    )
    assert np.sqrt((moves**2).sum(axis=1)).max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", statistics(2, 0))
def test_sensitivities_are_attained(name, relation):
    """Over many frames the worst pair comes within a hundredth of the bound, so noise is not wasted."""
    if name == "sums" and relation == "add_remove":
        return
    reached = 0.0
    for seed in range(30):
        statistic = statistics(3, seed)[name]
        vectors = row_vectors(statistic, extreme_rows(3, np.random.default_rng(seed), 12)).astype(float)
        if statistic.noise_shape is not None:
            vectors /= statistic.noise_shape
        moves = (
            vectors
            if relation == "add_remove"
            else (vectors[:, None] - vectors[None]).reshape(-1, statistic.size)
        )
        reached = max(reached, np.sqrt((moves**2).sum(axis=1)).max() / statistic.sensitivity(relation))
    assert reached > 0.99
