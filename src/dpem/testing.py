"""Helpers for tests and experiments. No fit that uses them is private."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpem import _validate, registry
from dpem.errors import AuditFailedError, InsecureNoiseWarning
from dpem.gate.recording import Recording, recording
from dpem.generated_tables import trial_table
from dpem.privacy.randomness import seeded_entropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Recording", "check_conformance", "insecure_noise", "record", "replay", "trial_table"]


@contextmanager
def insecure_noise(seed: int) -> Iterator[None]:
    """Draw noise from a seed inside the block, so that a run can be repeated bit for bit.

    Anyone who knows the seed can subtract the noise, so nothing released in the block is private. The
    block warns on entry, and the privacy statements of its releases say that the noise was seeded.

    Parameters
    ----------
    seed : int
        Seed of the noise, at least zero.

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
    """Record every release of the fits in the block, with the sums before noise: for tests and audits only.

    Models that are fitted in the block are marked as not private.

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
    """Repeat a recorded fit on other rows: each release returns the recorded noisy values.

    On a neighbouring table, the sums before noise may then differ by at most the declared sensitivity at
    every stage. A fit that asks for another release raises `OtherReleaseError`, because its control flow
    depends on rows.

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


_N_ROWS = 150
_CUTS = (0, 1, 1, 38, _N_ROWS)  # batches of one row, no row, an odd number of rows, the rest


def check_conformance(name: str) -> None:
    """Raise unless fits of a registered model have the same bits from every row source, and after loading.

    The check runs each trial of the model on tables, under each neighbouring relation. Rows from a CSV file,
    a Parquet file and batches of odd sizes must give the same sums and the same model as rows in memory, and
    a saved model must not change when it is loaded. To check the effect of one row, run the audit: `dpem
    audit --only NAME`.

    Parameters
    ----------
    name : str
        Name of the model, as in `dpem fit --model NAME`.

    Examples
    --------
    >>> check_conformance("bernoulli")
    """
    for label, trial in registry.trials_of(name).items():
        rows = trial.rows(_N_ROWS)
        if trial.source is not None or trial.slow or not hasattr(rows, "columns"):
            continue
        for adjacency in trial.relations:
            make = partial(trial.make, adjacency, random_state=0)
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
                _check_fits(f"{label}, {adjacency}", make, rows, Path(folder))


def _check_fits(label: str, make: Callable[[], Any], rows: Any, folder: Path) -> None:
    from dpem.loading import load  # noqa: PLC0415  (imports all models)

    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet", row_group_size=37)
    forms = {
        "a CSV file": folder / "rows.csv",
        "a Parquet file": folder / "rows.parquet",
        "batches": lambda: (rows.iloc[start:stop] for start, stop in pairwise(_CUTS)),
    }
    model, expected = _fitted(make(), rows)
    for form, given in forms.items():
        found = _fitted(make(), given)[1]
        other = sorted(key for key in expected | found if found.get(key) != expected.get(key))
        if other:
            raise AuditFailedError(
                f"Expected the trial {label} to give the same bits from {form} as from rows in memory, got "
                f"other bits in {', '.join(other)}."
            )
    model.save(folder / "model")
    if _arrays_of(load(folder / "model")) != _arrays_of(model):
        raise AuditFailedError(
            f"Expected the model of trial {label} to have the same arrays after loading, got others."
        )


def _fitted(model: Any, rows: Any) -> tuple[Any, dict[str, bytes]]:
    """Fit with seeded noise; return the model, and the bits of each sum and of the model's arrays."""
    with insecure_noise(7), record() as transcript:
        model.fit(rows)
    sums = {f"release {i} ({one.stage})": one.raw.tobytes() for i, one in enumerate(transcript.releases)}
    return model, sums | _arrays_of(model)


def _arrays_of(model: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model._arrays().items()}
