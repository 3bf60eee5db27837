"""Helpers for tests and experiments. Nothing released under them is private."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpem import _validate
from dpem.errors import InsecureNoiseWarning
from dpem.privacy.randomness import seeded_entropy

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["insecure_noise"]


@contextmanager
def insecure_noise(seed: int) -> Iterator[None]:
    """Draw noise from a seed inside the block, so that a run can be repeated bit for bit.

    Whoever knows the seed can subtract the noise, so nothing released in the block is private. The
    block warns on entry, and every release made in it carries the mark into its statement.

    Parameters
    ----------
    seed : int
        Any integer of at least zero.

    Examples
    --------
    >>> import warnings
    >>> from dpem.privacy.noise import rounded_gaussian
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with insecure_noise(7):
    ...         first = rounded_gaussian(10.0, 3)
    ...     with insecure_noise(7):
    ...         second = rounded_gaussian(10.0, 3)
    >>> bool((first == second).all())
    True
    """
    seed = _validate.integer(seed, "seed", minimum=0)
    warnings.warn(
        f"Noise is drawn from seed {seed}: nothing released in this block is private.",
        InsecureNoiseWarning,
        stacklevel=3,
    )
    with seeded_entropy(seed):
        yield
