"""Progress of long work: public facts only, on standard error."""

from __future__ import annotations

import sys

__all__ = ["Progress"]


class Progress:
    """Say which step runs, where `verbose` asks for it."""

    def __init__(self, name: str, verbose: int) -> None:
        self._name, self._verbose = name, verbose

    def step(self, text: str) -> None:
        """Announce a step."""
        if self._verbose:
            sys.stderr.write(f"[{self._name}] {text}\n")
