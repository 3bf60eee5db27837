"""Standard errors of released parameters due to noise, by drawing the noise again (post-processing)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
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

__all__ = ["deviations_of_draws", "few_draws", "standard_errors"]

_DRAWS = 200
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

    def draw(again: ReleasedStatistics) -> tuple[NDArray[np.float64]]:
        return (model.m_step(before, again),)

    draws = (
        partial(draw, released.with_more_noise(random_state.normal(0.0, released.noise_stddev)))
        for _ in range(_DRAWS)
    )
    return deviations_of_draws(draws)[0]


def deviations_of_draws(
    draws: Iterable[Callable[[], tuple[NDArray[np.float64], ...]]], n_threads: int = 1
) -> tuple[NDArray[np.float64], ...]:
    """Return the standard deviation of each array over draws, which several threads may compute.

    A draw has its noise when the iterable yields it, so that the result does not depend on the threads.
    """
    chosen = islice(draws, _most_draws.get())
    with one_thread():
        if n_threads == 1:
            found = [draw() for draw in chosen]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                waiting = [pool.submit(copy_context().run, draw) for draw in chosen]
                found = [work.result() for work in waiting]
        columns = zip(*found, strict=True)
        return tuple(np.asarray(np.std(np.stack(column), axis=0)) for column in columns)


@contextmanager
def few_draws(n: int) -> Iterator[None]:
    """Limit the draws for standard errors inside the block, for audits, which repeat thousands of fits."""
    token = _most_draws.set(n)
    try:
        yield
    finally:
        _most_draws.reset(token)
