"""Blocks of any length: no number of rows in one batch or partition overflows a sum."""

import numpy as np
import pytest

from dpem import _compiled
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine, open_rows
from dpem.engines import base as engines
from dpem.statistics.gaussian import ROW_BITS, FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import IncompleteMoments

ROWS = 3_000_000


def widest(statistic_class=FrameMoments):
    """Return a statistic whose rows at the border add nearly 2^42 to one entry."""
    one = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), 1e-3))
    return statistic_class(one, 1, "full", 100.0, 1e-2)


def test_sums_of_the_largest_block_fit_in_64_bits():
    """A row adds at most 2^ROW_BITS to an entry, and a total takes sums below 2^63."""
    assert engines.LARGEST_BLOCK * 2**ROW_BITS < 2**62
    block = np.zeros((1, 5 * engines.LARGEST_BLOCK // 2), dtype=np.float32)
    lengths = [part.shape[1] for part in engines._parts(widest(), block)]
    assert sum(lengths) == block.shape[1]
    assert max(lengths) <= engines.LARGEST_BLOCK


@pytest.mark.parametrize("statistic_class", [FrameMoments, IncompleteMoments])
def test_a_long_batch_has_the_sum_of_its_rows(statistic_class):
    """One batch of many rows at the border: their moments sum to more than 2^63."""
    statistic, domain = widest(statistic_class), Domain.from_arguments(1, data_norm=1.0)
    row = np.ones((1, 1))
    grid = domain.to_grid(row.T)
    each = statistic.sum_block(grid)
    assert int(each.max()) * ROWS > 2**63
    source = open_rows(lambda: iter([np.broadcast_to(row, (ROWS, 1))]))
    found = LocalEngine(1).sum(statistic, source, domain)
    np.testing.assert_array_equal(found, [int(entry) * ROWS >> statistic.coarse_bits for entry in each])
    assert _compiled.are_used(ROWS)
    in_memory = LocalEngine(2).sum(statistic, TableRows(np.broadcast_to(row, (ROWS, 1))), domain)
    np.testing.assert_array_equal(found, in_memory)
