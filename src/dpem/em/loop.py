"""The EM loop: as many steps as were planned, each through the gate, none that looks at a row."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from dpem._threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.em.progress import Progress
    from dpem.em.release import Gate
    from dpem.em.statistics import ReleasedStatistics, RowStatistic
    from dpem.privacy.randomness import PublicRandom

__all__ = ["EMModel", "few_draws", "run_em", "spread_of_draws", "standard_errors"]

P = TypeVar("P")

_most_draws: ContextVar[int | None] = ContextVar("dpem_most_draws", default=None)


class EMModel(Protocol[P]):
    """What a model adds to the path: the statistic of a row, and what follows from released sums.

    Implement two methods over immutable parameters P. Exact sums, accounting, the ledger, replay and
    standard errors then come free.
    """

    def statistic(self, parameters: P) -> RowStatistic:
        """Return the bounded row statistic under these released parameters (the E-step)."""
        ...

    def m_step(self, parameters: P, released: ReleasedStatistics) -> P:
        """Return the next parameters. Accepts any noise, and sees released statistics only."""
        ...


def run_em(
    gate: Gate, model: EMModel[P], start: P, stages: Sequence[str], progress: Progress
) -> tuple[P, P, ReleasedStatistics]:
    """Run the planned steps, at least one; return the last parameters, those before them, and the release."""
    parameters = start
    for step, stage in enumerate(stages):
        progress.step(f"{stage.rstrip(' 0123456789')} {step + 1} of {len(stages)}")
        before = parameters
        with one_thread():  # eigenvalues and inverses change bits with the number of threads
            statistic = model.statistic(before)
        released = gate.release(stage, statistic)
        with one_thread():
            parameters = model.m_step(before, released)
    return parameters, before, released


def standard_errors(
    model: EMModel[NDArray[np.float64]],
    before: NDArray[np.float64],
    released: ReleasedStatistics,
    random_state: PublicRandom,
    n_draws: int = 200,
) -> NDArray[np.float64]:
    """Return what the noise of the last release alone does to each parameter.

    Fresh noise of the same size is added to the released statistics, the M-step repeated, and the spread
    taken: post-processing, free of charge. It knows nothing of sampling error, nor of noise in earlier steps.
    """
    draws = (
        (model.m_step(before, released.with_more_noise(random_state.normal(0.0, released.noise_stddev))),)
        for _ in range(n_draws)
    )
    return spread_of_draws(draws)[0]


def spread_of_draws(draws: Iterable[tuple[NDArray[np.float64], ...]]) -> tuple[NDArray[np.float64], ...]:
    """Return the standard deviation of each array over draws of them."""
    with one_thread():
        columns = zip(*islice(draws, _most_draws.get()), strict=True)
        return tuple(np.asarray(np.std(np.stack(column), axis=0)) for column in columns)


@contextmanager
def few_draws(n: int) -> Iterator[None]:
    """Make standard errors from so few draws inside the block: for audits, which fit by the thousand."""
    token = _most_draws.set(n)
    try:
        yield
    finally:
        _most_draws.reset(token)
