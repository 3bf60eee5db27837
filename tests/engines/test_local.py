"""Threads on this machine: their number, the cache of rows, and failures."""

import os

import numpy as np
import pytest

from dpem._threads import thread_count
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine, memory
from dpem.errors import DataError, InvalidArgumentError
from dpem.statistics.simple import Sums
from support.blocks import blocks_of

CORES = len(os.sched_getaffinity(0))
GRID = Domain.from_arguments(2, bounds=(-1, 1))
X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))


@pytest.mark.parametrize(
    ("n_jobs", "threads"),
    [(None, CORES), (-1, CORES), (-2, max(1, CORES - 1)), (-1000, 1), (1, 1), (5, 5), (np.int64(3), 3)],
)
def test_n_jobs_has_the_meaning_of_scikit_learn(n_jobs, threads):
    assert thread_count(n_jobs) == LocalEngine(n_jobs).n_jobs == threads


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", True])
def test_invalid_n_jobs_is_refused(n_jobs):
    with pytest.raises(InvalidArgumentError, match="n_jobs"):
        thread_count(n_jobs)


class Counting(TableRows):
    """Count how often rows are read."""

    reads = 0

    def block(self):
        type(self).reads += 1
        return super().block()


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_grid_rows_are_cached_up_to_the_memory_limit(n_jobs, monkeypatch):
    """Only rows beyond the limit are read again on every pass; sums do not change."""
    with blocks_of(100):
        expected = LocalEngine(1).sum(Sums(2, counted=True), TableRows(X), GRID)
        for n_kept in (0, 4, 10):
            monkeypatch.setattr("dpem.engines.local.bytes_to_keep", lambda n=n_kept: n * 100 * 2 * 4)
            Counting.reads, engine, source = 0, LocalEngine(n_jobs), Counting(X)
            for passes in range(1, 4):
                np.testing.assert_array_equal(engine.sum(Sums(2, counted=True), source, GRID), expected)
                assert Counting.reads == 10 + (passes - 1) * (10 - n_kept)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_failed_pass_leaves_no_threads_and_no_cache(n_jobs):
    """The exception propagates, threads end, and the next pass reads all rows again."""

    class Failing(TableRows):
        broken = True

        def pieces(self, first=0):
            for i, piece in enumerate(super().pieces(first)):
                if self.broken and i == 5:
                    raise DataError("gone")
                yield piece

    with blocks_of(100):
        engine, source = LocalEngine(n_jobs), Failing(X)
        with pytest.raises(DataError, match="gone"):
            engine.sum(Sums(2, counted=False), source, GRID)
        Failing.broken = False
        found = engine.sum(Sums(2, counted=False), source, GRID)
        np.testing.assert_array_equal(found, LocalEngine().sum(Sums(2, counted=False), TableRows(X), GRID))


def test_the_cache_leaves_memory_free(monkeypatch):
    """The cache takes a quarter of the free memory under every limit, and at most two gigabytes."""
    assert 0 <= memory.bytes_to_keep() <= 1 << 31
    monkeypatch.setattr(memory, "_free", lambda: [1 << 40, 100 << 20])
    assert memory.bytes_to_keep() == 25 << 20
    monkeypatch.setattr(memory, "_free", lambda: [1 << 40, -5])
    assert memory.bytes_to_keep() == 0
