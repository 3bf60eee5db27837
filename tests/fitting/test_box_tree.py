"""The tree of boxes: leaves cover all codes once, and exact counts are reproduced exactly."""

import numpy as np
import pytest

from dpem.fitting.box_tree import BoxTree
from dpem.statistics.simple import BOX_BITS, LINEAR_BITS, BoxHistogram

HALF_WIDTHS = [np.ones(1), np.ones(2), np.array([1.0, 0.3, 0.5])]
RADIUS = 2.0**22


def refined(half_widths, n_rows, seed, rounds=3):
    """Return a tree whose leaves were split at random, some by several halvings at once."""
    rng = np.random.default_rng(seed)
    tree = BoxTree(half_widths, n_rows)
    for _ in range(rounds):
        split_at_random(tree, rng)
    return tree


def split_at_random(tree, rng):
    """Split each leaf by up to three halvings; the first box by at least one."""
    tree.refine(
        [
            np.minimum(depth + rng.integers(depth == 0, 4, int(layer.leaf.sum())), BOX_BITS)
            for depth, layer in enumerate(tree.layers)
        ]
    )


def count_leaves(tree, rows):
    """Return the exact counts of all leaves in order of codes; rows are (p, n), in units of the tree."""
    p = len(rows)
    query = BoxHistogram(
        np.zeros(p),
        np.eye(p) * 2.0**LINEAR_BITS,
        tree.half_widths * RADIUS,
        tree.halved,
        np.sort(tree.starts),
    )
    return query.sum_block(np.rint(rows * RADIUS)).astype(float)


@pytest.mark.parametrize("half_widths", HALF_WIDTHS)
@pytest.mark.parametrize("seed", range(5))
def test_leaves_are_disjoint_and_complete(half_widths, seed):
    tree = refined(half_widths, 1.0, seed)
    sizes = np.concatenate(
        [np.full(int(layer.leaf.sum()), 1 << (BOX_BITS - depth)) for depth, layer in enumerate(tree.layers)]
    )
    order = np.argsort(tree.starts)
    assert (tree.starts[order] == np.append(0, np.cumsum(sizes[order])[:-1])).all()
    assert sizes.sum() == 1 << BOX_BITS
    for above, layer in zip(tree.layers, tree.layers[1:], strict=False):
        assert (layer.code == (2 * above.code[~above.leaf][:, None] + np.arange(2)).ravel()).all()


@pytest.mark.parametrize("half_widths", HALF_WIDTHS)
def test_exact_counts_are_reconciled_exactly(half_widths):
    """From releases without noise, each finer than the last, every box gets its own count."""
    rng = np.random.default_rng(2)
    rows = (rng.uniform(-1, 1, (2000, len(half_widths))) * half_widths).T
    tree = BoxTree(half_widths, 2000.0)
    for _ in range(3):
        split_at_random(tree, rng)
        tree.add(count_leaves(tree, rows))
    finest = BoxTree(half_widths, 2000.0)
    finest.refine([np.array([BOX_BITS])])
    counts = count_leaves(finest, rows)
    for depth, (layer, value) in enumerate(zip(tree.layers, tree.estimate()[0], strict=True)):
        truth = counts.reshape(1 << depth, -1).sum(axis=1)[layer.code]
        np.testing.assert_allclose(value, truth, atol=1e-8)


def test_estimates_add_up_and_averages_have_less_variance():
    """With noise, halves add up to their box, and a box that was counted more often varies less."""
    rng = np.random.default_rng(3)
    tree = refined(np.ones(2), 100.0, 3, rounds=1)
    once = tree.layers[-1]
    tree.add(rng.normal(size=len(tree.starts)))
    first = tree.estimate()[1][-1][once.leaf]
    tree.add(rng.normal(size=len(tree.starts)))
    values, variances = tree.estimate()
    assert np.allclose(first, 1.0)
    assert np.allclose(variances[-1][once.leaf], 0.5)
    for layer, value, below in zip(tree.layers, values, values[1:], strict=False):
        np.testing.assert_allclose(below.reshape(-1, 2).sum(axis=1), value[~layer.leaf], atol=1e-9)


@pytest.mark.parametrize("half_widths", HALF_WIDTHS)
def test_codes_of_rows_agree_with_the_boxes(half_widths):
    """A row at the centre of a leaf's box is counted in that leaf."""
    tree = refined(half_widths, 1.0, 4)
    starts = np.sort(tree.starts)
    for depth, layer in enumerate(tree.layers):
        if not layer.leaf.any():
            continue
        middle, half = tree.boxes(depth)
        assert (np.abs(middle) + half <= tree.half_widths * (1 + 1e-12)).all()
        counts = count_leaves(tree, middle[layer.leaf].T)
        expected = np.isin(starts, layer.code[layer.leaf] << (BOX_BITS - depth))
        assert (counts == expected).all()
