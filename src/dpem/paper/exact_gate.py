"""The paper's methods without noise: plain EM with the same priors, steps and start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.engines import engine_for
from dpem.statistics.base import JointStatistic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dpem.data import Domain, RowGrid, RowSource, TableGrid
    from dpem.estimator.base import PrivateEstimator
    from dpem.gate.plan import Plan
    from dpem.gate.release import ReleaseGate
    from dpem.statistics.base import PreparedStatistic, RowStatistic

__all__ = ["ExactGate", "finish", "gate_for"]


@dataclass(frozen=True, eq=False)
class ExactStatistics:
    """What a release would be without noise; the model of such a fit says that it is not private."""

    values: NDArray[np.float64]
    noise_stddev: NDArray[np.float64]


class ExactGate:
    """Sums statistics without noise. It has no plan and charges nothing."""

    def __init__(self, source: RowSource, grid: RowGrid, n_jobs: int | None) -> None:
        self._source, self._grid, self._engine = source, grid, engine_for(source, n_jobs)

    def release(self, name: str, statistic: RowStatistic) -> ExactStatistics:  # noqa: ARG002
        """Return the exact sum over all rows."""
        total = self._engine.sum(statistic, self._source, self._grid)
        return ExactStatistics(total.astype(np.float64), np.zeros(total.size))

    def release_jointly(
        self,
        names: Sequence[str],  # noqa: ARG002
        parts: Sequence[PreparedStatistic],
    ) -> list[ExactStatistics]:
        """Return the exact sums of several statistics, in one pass over the rows."""
        joint = JointStatistic(parts)
        totals = joint.split(self._engine.sum(joint, self._source, self._grid))
        return [ExactStatistics(total.astype(np.float64), np.zeros(total.size)) for total in totals]

    def close(self) -> None:
        """Let go of kept rows."""
        self._engine.close()


def gate_for(
    estimator: PrivateEstimator,
    plan: Callable[[], Plan],
    source: RowSource,
    domain: Domain | TableGrid,
    n_jobs: int | None = None,
) -> ReleaseGate | ExactGate:
    """Charge the plan and return its gate; where epsilon is infinite, return one without noise."""
    if estimator._plain:
        return ExactGate(source, domain, n_jobs or estimator.n_jobs)
    return estimator._gate(plan(), source, domain, n_jobs=n_jobs)


def finish(estimator: PrivateEstimator, gate: Any, source: RowSource) -> None:
    """Write the privacy statement of a fit, or that it has none."""
    if isinstance(gate, ExactGate):
        gate.close()
        estimator._state_not_private(source)
    else:
        estimator._state(gate, source)
