"""The only room that makes randomness for noise.

Noise bits come from the operating system (`os.urandom`), in bulk and without any state kept
between calls, so that forked processes cannot repeat each other. The one exception is the seeded
source that tests and experiments turn on through :func:`dpem.testing.insecure_noise`; it says
``is_secure = False``, and that mark travels into whatever is released under it.

A ruff rule (`banned-api` in pyproject.toml) keeps every other module from making randomness.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpem import _validate

if TYPE_CHECKING:
    from collections.abc import Iterator


class EntropySource(Protocol):
    """Gives independent, uniformly distributed bytes."""

    @property
    def is_secure(self) -> bool:
        """Whether nobody can predict the bytes."""
        ...

    def draw(self, n_bytes: int) -> bytes:
        """Return `n_bytes` fresh bytes."""
        ...


class OperatingSystemEntropy:
    """The operating system's generator: the guarantee is as good as it is."""

    is_secure = True

    def draw(self, n_bytes: int) -> bytes:
        """Return `n_bytes` fresh bytes from the operating system."""
        return os.urandom(n_bytes)


class SeededEntropy:
    """Predictable bytes for tests and experiments. Whoever knows the seed removes the noise."""

    is_secure = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def draw(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` of the seeded stream."""
        return self._generator.bytes(n_bytes)


# Randomness for starts, post-processing and sampling, which is free and may be seeded. Never for noise.
PublicRandom = np.random.RandomState


def public_random(random_state: Any) -> PublicRandom:
    """Return the generator that an estimator's `random_state` asks for (scikit-learn's convention)."""
    if random_state is None:
        return np.random.RandomState()
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if random_state is np.random:  # NumPy's global generator, as scikit-learn has it
        return np.random.mtrand._rand
    remedy = "Or None, or a numpy RandomState. It never touches the noise."
    return np.random.RandomState(_validate.integer(random_state, "random_state", 0, remedy))


def fresh_seed() -> int:
    """Return a seed for free choices that are to be repeated. Never for noise."""
    return int(np.random.RandomState().randint(2**31))


# A context variable: the seeded source reaches neither code outside the `with` block nor a new thread.
# Whoever does not see it falls back to the secure source; whoever does (a task that copied the context)
# releases with the mark.
_OPERATING_SYSTEM = OperatingSystemEntropy()
_source: ContextVar[EntropySource] = ContextVar("dpem_entropy", default=_OPERATING_SYSTEM)


def entropy() -> EntropySource:
    """Return the source in force here: the operating system's unless a test replaced it."""
    return _source.get()


@contextmanager
def seeded_entropy(seed: int) -> Iterator[None]:
    """Replace the source inside the block. Call it through `dpem.testing.insecure_noise`."""
    token = _source.set(SeededEntropy(seed))
    try:
        yield
    finally:
        _source.reset(token)
