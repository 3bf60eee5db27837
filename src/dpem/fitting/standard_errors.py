"""Standard errors of released parameters due to noise, by drawing the noise again (post-processing)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dpem._threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dpem.fitting.loop import EMModel
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.randomness import PublicRandom

__all__ = ["deviations_of_draws", "deviations_of_stacks", "few_draws", "number_of_draws", "standard_errors"]

_DRAWS = 200
_NUMBERS_OF_STACK = 1 << 16  # fit the processor's cache
_most_draws: ContextVar[int | None] = ContextVar("dpem_most_draws", default=None)


def standard_errors(
    model: EMModel[NDArray[np.float64]],
    before: NDArray[np.float64],
    released: ReleasedStatistics,
    random_state: PublicRandom,
) -> NDArray[np.float64]:
    """Return the standard deviation of each parameter due to the noise of the last release.

    New noise of the same size is added to the released statistics, and the M-step is repeated. The result is
    the standard deviation over draws, which is free post-processing. It does not include sampling error, or
    noise in earlier steps.
    """
    size = number_of_draws(_DRAWS), len(released.values)
    noise = random_state.normal(0.0, released.noise_stddev, size)

    def redrawn(noise: NDArray[np.float64]) -> tuple[NDArray[np.float64]]:
        return (model.m_step(before, released.with_more_noise(noise)),)

    return deviations_of_stacks(redrawn, noise, before.size)[0]


def number_of_draws(most: int) -> int:
    """Return the number of draws: `most`, or fewer inside `few_draws`."""
    limit = _most_draws.get()
    return most if limit is None else min(most, limit)


def deviations_of_stacks(
    redrawn: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], ...]],
    noise: NDArray[np.float64],
    numbers: int,
    n_threads: int = 1,
) -> tuple[NDArray[np.float64], ...]:
    """Return the standard deviation of each array over draws of the noise, shape (n, p).

    Parameters
    ----------
    redrawn : callable
        Returns the arrays of a stack of draws, each with an axis of draws first. A draw has the same bits in
        every stack, so that the result depends neither on the size of stacks nor on the threads.
    noise : ndarray of shape (n, p)
        The noise of each draw.
    numbers : int
        About how many numbers a draw keeps in memory. Stacks fit the processor's cache.
    n_threads : int
        Number of threads. Stacks are computed outside the interpreter's lock, unless they are small.
    """
    largest = max(1, _NUMBERS_OF_STACK // numbers)
    stacks = np.array_split(noise, -(-len(noise) // largest))
    n_threads = min(n_threads, len(stacks))
    with one_thread():
        if n_threads == 1:
            found = [redrawn(stack) for stack in stacks]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                waiting = [pool.submit(copy_context().run, redrawn, stack) for stack in stacks]
                found = [work.result() for work in waiting]
        return _deviations(np.concatenate(parts) for parts in zip(*found, strict=True))


def deviations_of_draws(
    draws: Iterable[Callable[[], tuple[NDArray[np.float64], ...]]],
) -> tuple[NDArray[np.float64], ...]:
    """Return the standard deviation of each array over draws, of a model that cannot take a stack of them."""
    with one_thread():
        found = [draw() for draw in islice(draws, _most_draws.get())]
        return _deviations(np.stack(column) for column in zip(*found, strict=True))


def _deviations(stacks: Iterable[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    return tuple(np.asarray(np.std(stack, axis=0)) for stack in stacks)


@contextmanager
def few_draws(n: int) -> Iterator[None]:
    """Limit the draws for standard errors inside the block, for audits, which repeat thousands of fits."""
    token = _most_draws.set(n)
    try:
        yield
    finally:
        _most_draws.reset(token)
