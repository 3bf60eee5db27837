"""The EM loop: as many steps as were planned, each through the gate, none that looks at a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from dpem._threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpem.gate.base import Releases
    from dpem.gate.plan import PlannedStage
    from dpem.gate.progress import Progress
    from dpem.gate.released import ReleasedStatistics
    from dpem.statistics.base import RowStatistic

__all__ = ["EMModel", "run_em"]

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
    gate: Releases, model: EMModel[P], start: P, stages: Sequence[PlannedStage], progress: Progress
) -> tuple[P, P, ReleasedStatistics]:
    """Run a step for each of the stages, at least one.

    Returns the last parameters, those before them, and the last release.
    """
    parameters = start
    for number, stage in enumerate(stages, 1):
        progress.step(f"{stage.kind} {number} of {len(stages)}")
        before = parameters
        with one_thread():  # eigenvalues and inverses change bits with the number of threads
            statistic = model.statistic(before)
        released = gate.release(stage.name, statistic)
        with one_thread():
            parameters = model.m_step(before, released)
    return parameters, before, released
