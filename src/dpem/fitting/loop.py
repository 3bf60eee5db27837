"""The EM loop: the planned number of steps, each with one release of the gate."""

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
    """The part of a model in the EM loop: the statistic of a row, and the next parameters from released sums.

    A model implements two methods over immutable parameters P. The package provides exact sums, accounting,
    the ledger, replay and standard errors.
    """

    def statistic(self, parameters: P) -> RowStatistic:
        """Return the bounded row statistic under these released parameters (the E-step)."""
        ...

    def m_step(self, parameters: P, released: ReleasedStatistics) -> P:
        """Return the next parameters from released statistics, with any noise in them."""
        ...


def run_em(
    gate: Releases, model: EMModel[P], start: P, stages: Sequence[PlannedStage], progress: Progress
) -> tuple[P, P, ReleasedStatistics]:
    """Run one step for each stage; there must be at least one.

    The result is the last parameters, the parameters before them, and the last release.
    """
    parameters = start
    for number, stage in enumerate(stages, 1):
        progress.step(f"{stage.kind} {number} of {len(stages)}")
        before = parameters
        with one_thread():  # the last bits of eigenvalues and inverses depend on the number of threads
            statistic = model.statistic(before)
        released = gate.release(stage.name, statistic)
        with one_thread():
            parameters = model.m_step(before, released)
    return parameters, before, released
