"""What the paper's methods share; without noise they are plain EM with the same priors, steps and start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpem.data import Domain
from dpem.engines import engine_for
from dpem.estimator.base import Adjacency, PrivateEstimator
from dpem.statistics.base import JointStatistic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource
    from dpem.estimator.base import PublicFacts, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.progress import Progress
    from dpem.statistics.base import PreparedStatistic, RowStatistic

__all__ = ["ExactGate", "PaperMethod"]


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


class PaperMethod(PrivateEstimator):
    """What the paper's methods share: replace-one, and the same steps without noise for ``epsilon=inf``."""

    adjacency = Adjacency.REPLACE_ONE
    rows_per_person = 1
    person = None

    def _run_plain(
        self, source: RowSource, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        if isinstance(public.domain, Domain):
            self._plain_rows(source, public.domain)  # raises for NaN: without privacy nothing is hidden
        gate = ExactGate(source, public.domain, self._threads(public))
        try:
            return self._run(cast("Gate", gate), public, random_state, progress)
        finally:
            gate.close()
