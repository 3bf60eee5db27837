"""A lock for audits: they observe the whole process (output, warnings, files), and so each other."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["one_at_a_time"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_LOCK = threading.RLock()


def one_at_a_time(audit: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let an audit wait for audits in other threads. It still observes what other threads print."""

    @functools.wraps(audit)
    def waiting(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with _LOCK:
            return audit(*arguments, **named)

    return waiting
