"""Payment for releases: open the ledger to charge, or keep a total of releases without a ledger."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from dpem import _validate
from dpem._warnings import warn
from dpem.data.table_types import listed
from dpem.errors import (
    DeltaWarning,
    LargeEpsilonWarning,
    LedgerError,
    NoLedgerWarning,
    RepeatedChargeWarning,
)
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.budget import Budget
from dpem.privacy.ledger import Ledger

if TYPE_CHECKING:
    import os

    from dpem.data import Schema
    from dpem.gate.plan import Plan

__all__ = ["open_ledger", "warn_of_epsilon", "warn_of_repetition", "warn_of_total"]

_lock = threading.Lock()
_count = 0
_mu_squared = 0.0


def open_ledger(ledger: Ledger | str | os.PathLike[str] | None, schema: Schema | None) -> Ledger | None:
    """Open the ledger; raise if the schema names another data set.

    Bounds that were estimated from rows must have been charged to the same ledger: otherwise its total would
    be too small.
    """
    if ledger is None:
        return None
    if not isinstance(ledger, Ledger):
        ledger = Ledger(ledger)
    if schema is not None and schema.dataset is not None and schema.dataset != ledger.name:
        raise LedgerError(
            f"Expected the ledger of {schema.dataset!r}, which the schema describes, got the ledger of "
            f"{ledger.name!r}. Nothing was charged and nothing was read."
        )
    if schema is not None and any(column.bounds_cost for column in schema.columns):
        paid = {(ledger.name, spend.number, spend.hash) for spend in ledger.history()}
        unpaid = [c.name for c in schema.columns if c.bounds_cost and c.bounds_charge not in paid]
        if unpaid:
            raise LedgerError(
                f"Expected bounds that were charged to the ledger of {ledger.name!r}, got estimated bounds "
                f"of {listed(unpaid)} without such a charge. Nothing was charged and nothing was read. "
                f"Estimate them with ledger=..., or declare bounds from public knowledge."
            )
    return ledger


def warn_of_epsilon(plan: Plan) -> None:
    """Warn before the charge if the guarantee protects nobody."""
    if plan.delta > _validate.LARGE_DELTA and not plan.adjacency.n_rows_public:  # else compared with 1 / rows
        warn(
            f"delta={plan.delta:g} is large. {_validate.DELTA_MEANS} Choose a delta well below one over the "
            f"number of rows.",
            DeltaWarning,
        )
    if plan.epsilon > _validate.LARGE_EPSILON:
        warn(
            f"epsilon={plan.epsilon:g} protects nobody: the release may reveal with near certainty whether a "
            f"person is in the table. Choose an epsilon from 0.1 to 1, or at most 10. If the result is then "
            f"too noisy, use fewer components or more rows.",
            LargeEpsilonWarning,
        )


def warn_of_repetition(ledger: Ledger, plan: Plan, purpose: str, facts: str) -> None:
    """Warn before a fit whose charge equals an earlier one of the ledger, as when a notebook cell runs again.

    Other releases, such as scores, may be of different models.
    """
    earlier = ledger._equal_charge(plan.event, purpose, facts) if purpose.endswith(".fit") else None
    if earlier is not None:
        number, left = earlier
        warn(
            f"This release has the same purpose, plan and bounds as record {number} of the ledger of "
            f"{ledger.name!r}, and is charged again: {left} is left after it. If it is the same fit of the "
            f"same rows, use the model of record {number}, and keep models with save() and dpem.load.",
            RepeatedChargeWarning,
        )


def warn_of_total(plan: Plan) -> None:
    """Add a plan without a ledger to the total, and warn of the total after 2, 4, 8, ... such plans.

    A grid search or a cross-validation on private rows makes many fits, whose epsilons add up.
    """
    global _count, _mu_squared  # noqa: PLW0603  (one count for the whole process)
    cost = float(GdpAccountant().mu_squared(plan.event))
    with _lock:
        _count += 1
        _mu_squared += cost
        count, total = _count, _mu_squared
    if count < 2 or count & (count - 1):
        return
    spent = Budget.from_mu(math.nextafter(math.sqrt(total), math.inf), plan.delta)
    warn(
        f"{count} private releases in this process were charged to no ledger. If they are about the same "
        f"people, together they cost epsilon = {spent.epsilon:.3g} at delta = {plan.delta:g}. Give a ledger "
        f"to keep count. A grid search or cross-validation on private rows makes many releases.",
        NoLedgerWarning,
    )
