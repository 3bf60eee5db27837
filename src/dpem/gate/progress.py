"""Progress reports of a fit, with public facts only, on standard error or to a listener."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Called with the next stage, the number of releases done, and the number of planned releases.
    Listener = Callable[[str, int, int], None]

__all__ = ["Progress", "listening", "notify_listener"]

_listener: ContextVar[Listener | None] = ContextVar("dpem_listener", default=None)


class Progress:
    """Print each step of a fit, if `verbose` is set."""

    def __init__(self, name: str, verbose: int) -> None:
        self._name, self._verbose = name, verbose

    def step(self, text: str) -> None:
        """Print the name of a step."""
        if self._verbose:
            sys.stderr.write(f"[{self._name}] {text}\n")


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function before every release of the fits inside the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def notify_listener(stage: str, done: int, planned: int) -> None:
    """Call the current listener, if any, before a release."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, planned)
