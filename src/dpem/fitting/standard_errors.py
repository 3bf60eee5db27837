"""Standard errors of released parameters due to noise, by drawing the noise again (post-processing)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpem._threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dpem.fitting.loop import EMModel
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.randomness import PublicRandom

__all__ = ["deviations_of_draws", "deviations_of_stacks", "few_draws", "standard_errors"]

T = TypeVar("T")

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
    stddev = released.noise_stddev

    def draw(n: int) -> NDArray[np.float64]:
        return random_state.normal(0.0, stddev, (n, len(stddev)))

    def redrawn(noise: NDArray[np.float64]) -> tuple[NDArray[np.float64]]:
        return (model.m_step(before, released.with_more_noise(noise)),)

    return deviations_of_stacks(redrawn, draw, _DRAWS, before.size)[0]


def deviations_of_stacks(
    redrawn: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], ...]],
    draw: Callable[[int], NDArray[np.float64]],
    n_draws: int,
    numbers: int,
    n_threads: int = 1,
) -> tuple[NDArray[np.float64], ...]:
    """Return the standard deviation of each array over draws of the noise.

    Parameters
    ----------
    redrawn : callable
        Returns the arrays of a stack of draws, each with an axis of draws first. A draw has the same bits in
        every stack, so that the result depends neither on the size of stacks nor on the threads.
    draw : callable
        Returns the noise of the next n draws, (n, p). It is called by one thread, in order.
    n_draws : int
        Number of draws; fewer inside `few_draws`.
    numbers : int
        About how many numbers a draw keeps in memory. Stacks fit the processor's cache.
    n_threads : int
        Number of threads. Stacks are computed outside the interpreter's lock, unless they are small.
    """
    most = _most_draws.get()
    n = n_draws if most is None else min(n_draws, most)
    stacks = np.array_split(np.arange(n), -(-n // max(1, _NUMBERS_OF_STACK // numbers)))
    threads = ThreadPoolExecutor(n_threads) if min(n_threads, len(stacks)) > 1 else nullcontext()
    with one_thread(), threads as pool:
        found = _each(redrawn, (draw(len(stack)) for stack in stacks), pool)
        return tuple(_deviation(np.concatenate(parts), pool) for parts in zip(*found, strict=True))


def _each(function: Callable[[Any], T], items: Iterable[Any], pool: ThreadPoolExecutor | None) -> list[T]:
    if pool is None:
        return [function(item) for item in items]
    waiting = [pool.submit(copy_context().run, function, item) for item in items]
    return [work.result() for work in waiting]


def _deviation(stack: NDArray[np.float64], pool: ThreadPoolExecutor | None) -> NDArray[np.float64]:
    """Return the standard deviation over the first axis, of one part of the entries after the other."""
    entries = stack.reshape(len(stack), -1)
    parts = np.array_split(entries, -(-entries.size // _NUMBERS_OF_STACK), axis=1)
    return np.concatenate(_each(partial(np.std, axis=0), parts, pool)).reshape(stack.shape[1:])


def deviations_of_draws(
    draws: Iterable[Callable[[], tuple[NDArray[np.float64], ...]]],
) -> tuple[NDArray[np.float64], ...]:
    """Return the standard deviation of each array over draws, of a model that cannot take a stack of them."""
    with one_thread():
        found = [draw() for draw in islice(draws, _most_draws.get())]
        return tuple(np.asarray(np.std(np.stack(column), axis=0)) for column in zip(*found, strict=True))


@contextmanager
def few_draws(n: int) -> Iterator[None]:
    """Limit the draws for standard errors inside the block, for audits, which repeat thousands of fits."""
    token = _most_draws.set(n)
    try:
        yield
    finally:
        _most_draws.reset(token)
