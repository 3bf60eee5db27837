"""`dpem.load`, for models of every kind.

A class can be loaded once its module is imported, so this module imports all of them.
"""

from __future__ import annotations

from importlib import import_module

import dpem.paper
import dpem.plugin.estimator  # noqa: F401
from dpem.estimator.saving import load
from dpem.registry import shipped

__all__ = ["load"]

for _entry in shipped().values():
    import_module(_entry.estimator.partition(":")[0])
