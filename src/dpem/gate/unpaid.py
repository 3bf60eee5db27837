"""What this process has released without a ledger: nobody else keeps count of it."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from dpem._warnings import warn
from dpem.errors import NoLedgerWarning
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.budget import Budget

if TYPE_CHECKING:
    from dpem.gate.plan import Plan

__all__ = ["warn_of_total"]

_lock = threading.Lock()
_count = 0
_mu_squared = 0.0


def warn_of_total(plan: Plan) -> None:
    """Add a plan that no ledger pays for, and warn of the total: at the second one, the fourth, the eighth.

    A grid search or a cross-validation on private rows is many fits; their epsilons add up.
    """
    global _count, _mu_squared  # noqa: PLW0603  (a count of the process, by its nature)
    cost = float(GdpAccountant().mu_squared(plan.event))
    with _lock:
        _count += 1
        _mu_squared += cost
        count, total = _count, _mu_squared
    if count < 2 or count & (count - 1):
        return
    spent = Budget.from_mu(math.nextafter(math.sqrt(total), math.inf), plan.delta)
    warn(
        f"{count} private releases in this process were charged to no ledger. If they are of the same "
        f"people, together they cost epsilon = {spent.epsilon:.3g} at delta = {plan.delta:g}. Give a ledger "
        f"to keep count; a grid search or cross-validation on private rows makes many of them.",
        NoLedgerWarning,
    )
