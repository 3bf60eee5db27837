"""Engines: each only answers "sum this over these blocks", and every one gives the same integers."""

from dpem.engines.base import Engine
from dpem.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine"]
