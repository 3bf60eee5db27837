"""Engines that sum a statistic over rows; every engine returns the same integers.

May import: data and argument checks. Never sees: noise, budgets, models.
"""

from dpem.engines.base import Engine
from dpem.engines.choice import engine_for, open_rows, rows_to_release
from dpem.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "engine_for", "open_rows", "rows_to_release"]
