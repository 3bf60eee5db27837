"""Progress of long work: public facts only, on standard error or to whoever listens."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # The stage that is about to be released, how many releases are done, how many are planned.
    Listener = Callable[[str, int, int], None]

__all__ = ["Progress", "listening", "tell_listener"]

_listener: ContextVar[Listener | None] = ContextVar("dpem_listener", default=None)


class Progress:
    """Say which step runs, where `verbose` asks for it."""

    def __init__(self, name: str, verbose: int) -> None:
        self._name, self._verbose = name, verbose

    def step(self, text: str) -> None:
        """Announce a step."""
        if self._verbose:
            sys.stderr.write(f"[{self._name}] {text}\n")


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell a function of every release that fits inside the block are about to make."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell_listener(stage: str, done: int, planned: int) -> None:
    """Tell whoever listens which stage of how many comes next."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, planned)
