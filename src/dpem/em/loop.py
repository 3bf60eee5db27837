"""The EM loop: as many steps as were planned, each through the gate, none that looks at a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.em.progress import Progress
    from dpem.em.release import ReleaseGate
    from dpem.em.statistics import ReleasedStatistics, RowStatistic
    from dpem.privacy.randomness import PublicRandom

__all__ = ["EMModel", "run_em", "standard_errors"]

P = TypeVar("P")


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
    gate: ReleaseGate, model: EMModel[P], start: P, stage: str, iterations: int, progress: Progress
) -> tuple[P, P, ReleasedStatistics]:
    """Run the planned steps, at least one; return the last parameters, those before them, and the release."""
    parameters = start
    for step in range(iterations):
        progress.step(f"{stage} {step + 1} of {iterations}")
        before = parameters
        released = gate.release(stage, model.statistic(before))
        with threadpool_limits(1):  # eigenvalues and inverses change bits with the number of threads
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
    with threadpool_limits(1):
        draws = [
            model.m_step(before, released.with_more_noise(random_state.normal(0.0, released.noise_stddev)))
            for _ in range(n_draws)
        ]
    spread: NDArray[np.float64] = np.std(np.stack(draws), axis=0)
    return spread
