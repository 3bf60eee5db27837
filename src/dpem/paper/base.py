"""The common part of the paper's methods. Without noise they are plain EM with the same steps and start."""

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
    """A sum without noise. A model fitted with it is marked as not private."""

    values: NDArray[np.float64]
    noise_stddev: NDArray[np.float64]


class ExactGate:
    """A gate that sums statistics without noise, without a plan and without a charge."""

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
        """Free cached rows."""
        self._engine.close()


class PaperMethod(PrivateEstimator):
    """The base of the paper's methods: replace-one, and the same steps without noise for ``epsilon=inf``."""

    adjacency = Adjacency.REPLACE_ONE
    rows_per_person = 1
    person = None

    def _run_plain(
        self, source: RowSource, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        if isinstance(public.domain, Domain):
            self._plain_rows(source, public.domain)  # raises for NaN, which a non-private fit may reveal
        gate = ExactGate(source, public.domain, self._threads(public))
        try:
            return self._run(cast("Gate", gate), public, random_state, progress)
        finally:
            gate.close()
