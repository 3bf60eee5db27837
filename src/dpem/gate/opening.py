"""Open the gate for a fit or a single release: the one place that chooses the kind of gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpem.engines import engine_for
from dpem.gate.payment import open_ledger, warn_of_epsilon
from dpem.gate.release import ReleaseGate

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from dpem.data import RowGrid, RowSource, Schema
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan
    from dpem.privacy.ledger import Ledger

__all__ = ["open_gate"]


def open_gate(
    plan: Plan,
    source: RowSource,
    grid: RowGrid,
    *,
    ledger: Ledger | str | os.PathLike[str] | None,
    schema: Schema | None,
    n_jobs: int | None,
    purpose: str,
    identity: Any,
    bounds: Mapping[str, str] | None = None,
    bounds_source: str = "declared",
) -> Gate:
    """Charge the whole plan and return the gate that may read the rows.

    `schema` is compared with the ledger, see `open_ledger`. The other arguments are those of `ReleaseGate`,
    with `n_jobs` threads in the engine of the source.
    """
    account = open_ledger(ledger, schema)
    warn_of_epsilon(plan)
    return ReleaseGate(
        plan,
        source,
        grid,
        engine_for(source, n_jobs),
        ledger=account,
        purpose=purpose,
        identity=identity,
        bounds=bounds,
        bounds_source=bounds_source,
    )
