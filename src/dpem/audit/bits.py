"""Attacks on the bits of released arrays: a single bit may reveal what the value does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _compiled
from dpem.audit.games import Game, claimed
from dpem.audit.neighbours import as_cells
from dpem.audit.observation import observe, one_at_a_time
from dpem.audit.subject import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.audit.observation import Observation
    from dpem.estimator.base import PrivateEstimator

__all__ = ["distinguish_by_bits"]


@one_at_a_time
@_compiled.for_any_size()
def distinguish_by_bits(
    estimator: PrivateEstimator | Subject,
    one: Any,
    other: Any,
    *,
    runs: int = 200,
    pilot: int = 100,
    confidence: float = 0.95,
) -> Game:
    """Guess which of two neighbouring tables was fitted from the most informative bit of all released arrays.

    The attack considers every bit of every array that the model releases, and of every noisy sum behind it.
    Pilot runs choose the bit whose frequency differs most between the two tables. Only further runs count.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(50, 1))
    >>> other = np.vstack([X[:-1], [[5.0]]])
    >>> model = dpem.KMeans(1, epsilon=1.0, data_norm=5.0)
    >>> distinguish_by_bits(model, X, other, runs=20, pilot=10).passed
    True
    """
    subject = Subject.of(estimator)
    worlds = []
    first = None
    for table in (one, other):
        rows = as_cells(subject, table)
        observed = [observe(subject, rows) for _ in range(pilot + runs)]
        first = first or observed[0]
        worlds.append([_arrays(run) for run in observed])
    length = min(len(bits) for world in worlds for bits in world)
    bits = [np.stack([found[:length] for found in world]) for world in worlds]
    frequency = [world[:pilot].mean(axis=0) for world in bits]
    best = int(np.abs(frequency[1] - frequency[0]).argmax())
    sign = frequency[1][best] >= frequency[0][best]
    alarms = [world[pilot:, best] == sign for world in bits]
    assert first is not None  # noqa: S101  (for the type checker: there are two worlds)
    return Game(
        subject.name,
        "bits",
        runs,
        int(alarms[0].sum()),
        int((~alarms[1]).sum()),
        claimed(subject, first),
        confidence,
    )


def _arrays(run: Observation) -> NDArray[np.bool_]:
    """Return the bits of all noisy sums and all released arrays."""
    # As integers, so that the position of a low bit does not depend on the size of the number.
    noisy = [release.noisy.astype(np.int64).tobytes() for release in run.releases]
    released = [content for name, content in sorted(run.seen.items()) if name.startswith("result.")]
    return np.unpackbits(np.frombuffer(b"".join([*noisy, *released]), dtype=np.uint8)).astype(bool)
