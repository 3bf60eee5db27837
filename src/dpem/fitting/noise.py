"""How far one row moves moments in a frame."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpem.gate.plan import Plan

__all__ = ["noise_of_one_row"]


def noise_of_one_row(plan: Plan) -> float:
    """Return Delta over (s^2 + tau^2): sqrt 2 where a row is replaced, for all rows of a person."""
    one = math.sqrt(2) if plan.adjacency.n_rows_public else 1.0
    return one * plan.unit.rows_per_person
