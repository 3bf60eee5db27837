"""The gate between private rows and everything else: charge, then read, then add noise.

The gate owns the rows. A model passes it a row statistic and gets back released statistics; it never sees a
row or a raw sum. Each stage of the plan allows as many releases as were planned and charged, and no more.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.errors import PlanViolationError
from dpem.gate import released as released_types
from dpem.gate.interrupts import uninterrupted
from dpem.gate.payment import warn_of_repetition, warn_of_total
from dpem.gate.progress import notify_listener
from dpem.gate.recording import RecordedRelease, active_recording
from dpem.gate.released import RawStatistics, ReleasedStatistics
from dpem.gate.resume import active_resume_file, require_no_recording
from dpem.privacy.ledger import Charge
from dpem.privacy.mechanisms import LaplaceMechanism
from dpem.privacy.randomness import entropy
from dpem.privacy.sensitivity import for_person
from dpem.privacy.statement import PrivacyStatement, facts_of
from dpem.statistics.base import JointStatistic, RowStatistic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource
    from dpem.engines.base import Engine
    from dpem.gate.plan import Plan, PlannedStage, Stage
    from dpem.privacy.ledger import Ledger
    from dpem.statistics.base import PreparedStatistic

__all__ = ["CHARGED", "ReleaseGate"]


CHARGED = "The ledger was charged before the data was read, and stays charged."


class ReleaseGate:
    """Release statistics of private rows, within the plan.

    Parameters
    ----------
    plan : Plan
        All releases that the gate allows.
    source, grid : RowSource, RowGrid
        The rows, and the public grid that maps them to bounded integers.
    engine : Engine
        The engine that sums a statistic over blocks of rows.
    ledger : Ledger, optional
        The ledger to which the whole plan is charged before any value is read.
    purpose : str
        The purpose in the ledger's record.
    identity : optional
        Public facts that identify this fit, so that the right fit continues after a crash.
    bounds, bounds_source : mapping of str to str, and str
        The bounds to which rows are clipped, in words, and their origin: for ledger and statement.
    """

    def __init__(
        self,
        plan: Plan,
        source: RowSource,
        grid: RowGrid,
        engine: Engine,
        *,
        ledger: Ledger | None,
        purpose: str,
        identity: Any = None,
        bounds: Mapping[str, str] | None = None,
        bounds_source: str = "declared",
    ) -> None:
        self.plan = plan
        self._bounds, self._bounds_source = dict(bounds or {}), bounds_source
        # Bounds that were estimated with seeded noise reveal rows, whatever noise is added later.
        self.insecure_noise = source.schema is not None and source.schema.insecure_bounds
        self._source, self._grid, self._engine = source, grid, engine
        self._used: Counter[str] = Counter()
        self._process = os.getpid()
        self._resume_file = active_resume_file()
        require_no_recording(recording=active_recording() is not None)
        self.charge: Charge | None = None
        self.n_rows: float | None = None  # the public number of rows, or a released one
        if self._resume_file is None or not self._resume_file.begin(purpose, plan, ledger, identity):
            if ledger is not None and active_recording() is None and entropy().is_secure:
                warn_of_repetition(ledger, plan, purpose, self._facts)
            with uninterrupted(CHARGED if ledger is not None else None):
                self._pay(ledger, purpose)
        else:
            self.charge = self._resume_file.charge

    def _pay(self, ledger: Ledger | None, purpose: str) -> None:
        """Charge the plan and record that in the resume file: both, or neither."""
        if ledger is not None:
            spend = ledger.spend(
                self.plan.event,
                purpose=purpose,
                adjacency=self.plan.adjacency,
                unit=self.plan.unit,
                facts=self._facts,
                insecure_noise=active_recording() is not None or self.insecure_noise,
            )
            self.charge = Charge(ledger.name, spend.number, spend.hash)
        elif active_recording() is None and entropy().is_secure:
            warn_of_total(self.plan)
        if self._resume_file is not None:
            self._resume_file.paid(self.charge)

    @property
    def _facts(self) -> str:
        """The hash of public facts for the ledger record."""
        plan = self.plan
        return facts_of(plan.epsilon, plan.delta, plan.accountant, self._bounds, self._bounds_source)

    def close(self) -> None:
        """End all releases, and let the engine free the rows that it holds."""
        self._used.update({stage.name: stage.repeats for stage in self.plan.stages})
        self._engine.close()

    def statement(self) -> PrivacyStatement:
        """Return the privacy statement of all releases, with the bounds to which rows were clipped."""
        plan = self.plan
        return PrivacyStatement(
            plan.epsilon,
            plan.delta,
            plan.event,
            adjacency=plan.adjacency,
            unit=plan.unit,
            accountant=plan.accountant,
            bounds=self._bounds,
            bounds_source=self._bounds_source,
            insecure_noise=self.insecure_noise,
            releases=plan.releases,
        )

    def refine(self, name: str, stages: Sequence[Stage]) -> None:
        """Replace an unused stage by stages chosen from released values, within its charge."""
        if self._used[name]:
            raise PlanViolationError(
                f"Expected an unused stage to refine, got {name!r}, which is used up. Refine a stage before "
                f"its release."
            )
        self.plan = self.plan.refined(name, stages, by_release=True)

    def release(
        self,
        name: str,
        statistic: RowStatistic,
        grid: RowGrid | None = None,
        *,
        of_findings: bool = False,
    ) -> ReleasedStatistics:
        """Sum a statistic over all rows and release it in the stage `name` of the plan.

        `grid` replaces the one that maps rows to integers, for a statistic that needs another grid. With
        `of_findings`, the grid maps the findings about cells instead of their values.
        """
        stage = self._use(name, statistic)
        released = self._released_before(stage, statistic)
        if released is None:
            grid = grid or self._grid
            source = self._source.of_findings() if of_findings else self._source
            raw = RawStatistics(self._engine.sum(statistic, source, grid))
            released = self._add_noise(stage, statistic, raw, grid, of_findings=of_findings)
            if self._resume_file is not None:
                self._resume_file.add(released)
        self.insecure_noise |= released.insecure_noise
        return released

    def release_jointly(
        self, names: Sequence[str], parts: Sequence[PreparedStatistic]
    ) -> list[ReleasedStatistics]:
        """Sum several statistics in one pass over the rows, and release each in its own stage.

        The releases are the same as one by one, because none depends on the noise of another.
        """
        stages = [self._use(name, part) for name, part in zip(names, parts, strict=True)]
        joint = JointStatistic(parts)
        raw: list[RawStatistics] = []
        released: list[ReleasedStatistics] = []
        for stage, part in zip(stages, parts, strict=True):
            found = self._released_before(stage, part)
            if found is None:
                if not raw:
                    total = self._engine.sum(joint, self._source, self._grid)
                    raw = [RawStatistics(values) for values in joint.split(total)]
                own = raw[len(released)]
                found = self._add_noise(stage, part, own, self._grid, of_findings=False)
                if self._resume_file is not None:
                    self._resume_file.add(found)
            self.insecure_noise |= found.insecure_noise
            released.append(found)
        return released

    def _use(self, name: str, statistic: RowStatistic) -> PlannedStage:
        """Use one planned release of a stage; raise if the plan does not cover this statistic."""
        stage = self.plan.stage(name)
        if os.getpid() != self._process:
            raise PlanViolationError(
                f"Expected a release of stage {name!r} in the process that charged the plan, got one in a "
                f"process that was forked from it: both would release the rest of the plan. Start a new fit "
                f"in the forked process."
            )
        if self._used[name] >= stage.repeats:
            raise PlanViolationError(
                f"Expected at most {stage.repeats} releases of stage {name!r}, got one more: the stage is "
                f"used up. Plan as many releases as the fit makes."
            )
        one_row = statistic.sensitivity(self.plan.adjacency, stage.noise.norm)
        if for_person(one_row, self.plan.unit.rows_per_person) > stage.sensitivity:
            raise PlanViolationError(
                f"Expected a statistic with a sensitivity of at most {stage.sensitivity:g} in stage "
                f"{name!r}, got a larger one: the stage was planned for a smaller sensitivity. Plan the "
                f"stage with the sensitivity of its statistic."
            )
        planned = sum(stage.repeats for stage in self.plan.stages)
        notify_listener(stage.name, self._used.total(), planned)
        self._used[name] += 1
        return stage

    def _released_before(self, stage: PlannedStage, statistic: RowStatistic) -> ReleasedStatistics | None:
        """Return this release if an earlier run of the same fit made it, from the resume file."""
        found = None
        if self._resume_file is not None:
            found = self._resume_file.next_release(stage.name, statistic.size)
        if found is None:
            return None
        return ReleasedStatistics(
            stage.name, found[0], _stddev(stage, statistic), found[1], released_types._GATE
        )

    def _add_noise(
        self,
        stage: PlannedStage,
        statistic: RowStatistic,
        raw: RawStatistics,
        grid: RowGrid,
        *,
        of_findings: bool,
    ) -> ReleasedStatistics:
        shape, mechanism = statistic.noise_shape, stage.mechanism
        if isinstance(mechanism, LaplaceMechanism):
            if shape is not None:
                raise PlanViolationError(
                    f"Expected a statistic without a noise shape for Laplace noise in stage {stage.name!r}, "
                    f"got one with a noise shape, which is released with Gaussian noise only. Plan the stage "
                    f"with Gaussian noise."
                )
            noisy = mechanism.release(raw._values)
        else:
            noisy = mechanism.release(raw._values, shape)
        stddev = _stddev(stage, statistic)
        values, insecure = noisy.values.astype(np.float64), noisy.insecure_noise
        recording = active_recording()
        if recording is not None:
            release = RecordedRelease(
                stage.name,
                raw._values.copy(),
                values,
                stage.sensitivity,
                stage.event,
                statistic,
                grid,
                of_findings,
            )
            values, insecure = recording.pass_through(release), True
        return ReleasedStatistics(stage.name, values, stddev, insecure, released_types._GATE)


def _stddev(stage: PlannedStage, statistic: RowStatistic) -> NDArray[np.float64]:
    shape = statistic.noise_shape
    return stage.noise_stddev * (np.ones(statistic.size) if shape is None else shape)
