"""Helpers for tests and experiments. Nothing released under them is private."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpem import _validate
from dpem.errors import InsecureNoiseWarning
from dpem.gate.recording import Recording, recording
from dpem.privacy.randomness import seeded_entropy
from dpem.trials import trial_table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Recording", "insecure_noise", "record", "replay", "trial_table"]


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


@contextmanager
def record() -> Iterator[Recording]:
    """Record every release of the fits in the block, raw values included: for tests and audits only.

    Models that are fitted in the block say that they are not private.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> with record() as transcript:
    ...     model = dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(X)
    >>> [release.stage for release in transcript.releases][:3]
    ['centre', 'scale', 'grid']
    >>> model.privacy_.is_private
    False
    """
    with recording(Recording()) as transcript:
        yield transcript


@contextmanager
def replay(transcript: Recording) -> Iterator[Recording]:
    """Repeat a recorded fit on other rows: each release hands out the recorded noisy values.

    On a neighbouring data set, raw values may then differ by at most the declared sensitivity at every stage;
    a fit that asks for another release raises, because its control flow depends on rows.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(2000, 1))
    >>> neighbour = np.vstack([X[:-1], [[-5.0]]])
    >>> model = dpem.KMeans(2, epsilon=1.0, data_norm=5.0, random_state=0)
    >>> with record() as first:
    ...     _ = model.fit(X)
    >>> with replay(first) as second:
    ...     _ = model.fit(neighbour)
    >>> max(a.distance(b) for a, b in zip(first.releases, second.releases)) <= 1
    True
    """
    with recording(Recording(replay=transcript)) as repeated:
        yield repeated
