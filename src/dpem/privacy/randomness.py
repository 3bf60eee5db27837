"""The only module that generates randomness for noise.

Noise bits come from the operating system (`os.urandom`), in bulk and without any state between calls, so that
forked processes cannot repeat each other. The one exception is the seeded source that tests and experiments
turn on with :func:`dpem.testing.insecure_noise`. It has ``is_secure = False``, and every release with its
noise is marked as insecure.

A ruff rule (`banned-api` in pyproject.toml) prevents every other module from generating randomness.
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
    """A source of independent, uniformly distributed bytes."""

    @property
    def is_secure(self) -> bool:
        """Whether nobody can predict the bytes."""
        ...

    def draw(self, n_bytes: int) -> bytes:
        """Return `n_bytes` fresh bytes."""
        ...


class OperatingSystemEntropy:
    """The operating system's generator. The guarantee relies on its quality."""

    is_secure = True

    def draw(self, n_bytes: int) -> bytes:
        """Return `n_bytes` fresh bytes from the operating system."""
        return os.urandom(n_bytes)


class SeededEntropy:
    """Predictable bytes for tests and experiments. Anyone who knows the seed can subtract the noise."""

    is_secure = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def draw(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` of the seeded stream."""
        return self._generator.bytes(n_bytes)


# Randomness for starting points, post-processing and sampling, which may be seeded. Never for noise.
PublicRandom = np.random.RandomState


def public_random(random_state: Any) -> PublicRandom:
    """Return the generator for an estimator's `random_state`, as in scikit-learn."""
    if random_state is None:
        return np.random.RandomState()
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if random_state is np.random:  # NumPy's global generator, as in scikit-learn
        return np.random.mtrand._rand
    remedy = "Pass an integer, None or a numpy RandomState. It never seeds the noise."
    return np.random.RandomState(_validate.integer(random_state, "random_state", 0, remedy))


def fresh_seed() -> int:
    """Return a seed for repeatable choices that need no privacy. Never for noise."""
    return int(np.random.RandomState().randint(2**31))


# A context variable: the seeded source affects neither code outside the `with` block nor new threads, which
# use the secure source. A task that copies the context uses the seeded source, and its releases are marked.
_OPERATING_SYSTEM = OperatingSystemEntropy()
_source: ContextVar[EntropySource] = ContextVar("dpem_entropy", default=_OPERATING_SYSTEM)


def entropy() -> EntropySource:
    """Return the current source: the operating system's, unless a test replaced it."""
    return _source.get()


@contextmanager
def seeded_entropy(seed: int) -> Iterator[None]:
    """Replace the source inside the block. Call it through `dpem.testing.insecure_noise`."""
    token = _source.set(SeededEntropy(seed))
    try:
        yield
    finally:
        _source.reset(token)
