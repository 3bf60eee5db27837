"""Engines answer one question, "sum this statistic over these rows", with the same integers from each.

May import: data and argument checks. Never sees: noise, budgets, models.
"""

from dpem.engines.base import Engine
from dpem.engines.choice import engine_for, open_rows, rows_to_release
from dpem.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "engine_for", "open_rows", "rows_to_release"]
