"""Engines: each only answers "sum this over these rows", and every one gives the same integers."""

from dpem.engines.base import Engine
from dpem.engines.choice import engine_for, open_rows, rows_to_release
from dpem.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "engine_for", "open_rows", "rows_to_release"]
