"""The interface of a release gate, between a fit and the rows.

`ReleaseGate` is the gate for rows in one place. A gate over several sites, each with its own ledger, would
implement the same protocol, and no model would change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpem.data import RowGrid
    from dpem.gate.plan import Plan, Stage
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.ledger import Charge
    from dpem.privacy.statement import PrivacyStatement
    from dpem.statistics.base import PreparedStatistic, RowStatistic

__all__ = ["Gate", "Releases"]


class Releases(Protocol):
    """The part of a gate that one step of a fit needs: the plan, and releases of its stages."""

    @property
    def plan(self) -> Plan:
        """The plan: all releases that the gate allows."""
        ...

    def release(self, name: str, statistic: RowStatistic) -> ReleasedStatistics:
        """Sum a statistic over all rows and release it in the stage `name` of the plan."""
        ...


class Gate(Releases, Protocol):
    """A gate that charges its whole plan before any value is read."""

    charge: Charge | None  # the ledger record of the charge
    n_rows: float | None  # the public number of rows, or a released one
    insecure_noise: bool  # whether seeded noise entered a release, or the bounds of the rows

    def release(
        self,
        name: str,
        statistic: RowStatistic,
        grid: RowGrid | None = None,
        *,
        of_findings: bool = False,
    ) -> ReleasedStatistics:
        """Release a statistic; `grid` replaces the one that maps rows to integers, see `ReleaseGate`."""
        ...

    def release_jointly(
        self, names: Sequence[str], parts: Sequence[PreparedStatistic]
    ) -> list[ReleasedStatistics]:
        """Release several statistics in one pass over the rows, each in its own stage."""
        ...

    def refine(self, name: str, stages: Sequence[Stage]) -> None:
        """Replace an unused stage by stages chosen from released values, within its charge."""
        ...

    def close(self) -> None:
        """End all releases."""
        ...

    def statement(self) -> PrivacyStatement:
        """Return the privacy statement of all releases."""
        ...
