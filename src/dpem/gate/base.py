"""What a release gate offers to models: the seam between a fit and whatever holds the rows.

`ReleaseGate` is the gate over rows of one holder. A gate over several sites, each with a ledger of its own,
would implement the same protocol, and no model would change.
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
    """What one step of a fit needs: the plan, and releases under its stages."""

    @property
    def plan(self) -> Plan:
        """What may be released."""
        ...

    def release(self, name: str, statistic: RowStatistic) -> ReleasedStatistics:
        """Sum a statistic over all rows and release it under the stage `name` of the plan."""
        ...


class Gate(Releases, Protocol):
    """A gate whose whole plan is charged before the first row is read."""

    charge: Charge | None  # the record of the ledger that paid
    n_rows: float | None  # public, or as a release of the fit gave it

    def release(
        self,
        name: str,
        statistic: RowStatistic,
        rows: RowGrid | None = None,
        *,
        of_findings: bool = False,
    ) -> ReleasedStatistics:
        """Release a statistic; `rows` replaces the map of rows to integers, see `ReleaseGate.release`."""
        ...

    def release_jointly(
        self, names: Sequence[str], parts: Sequence[PreparedStatistic]
    ) -> list[ReleasedStatistics]:
        """Release several statistics that share a pass over the rows, each under its own stage."""
        ...

    def refine(self, name: str, stages: Sequence[Stage]) -> None:
        """Replace an unused stage by others chosen from released values, within what it was charged."""
        ...

    def close(self) -> None:
        """Release no more."""
        ...

    def statement(self) -> PrivacyStatement:
        """Return the guarantee of what was released."""
        ...
