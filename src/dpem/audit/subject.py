"""The subject of an audit: a function that takes rows and releases something, with its public facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from dpem import _validate, registry
from dpem.audit.sources import SOURCES
from dpem.estimator.base import PrivateEstimator

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpem.data import Schema
    from dpem.privacy.ledger import Ledger

__all__ = ["Subject", "subject_of"]

_PUBLIC = ("rows_per_person", "schema", "bounds", "data_norm", "person")


@dataclass(frozen=True, eq=False)
class Subject:
    """A function that takes rows and releases something. `replay` and `distinguish` convert estimators to it.

    Attributes
    ----------
    name : str
        Name in reports.
    run : callable
        Function of rows and a ledger (or None). It returns the release: a fitted estimator, or an object
        whose `privacy` is a statement. Everything except its noise must be repeatable.
    adjacency, rows_per_person
        Neighbouring relation and privacy unit, as in an estimator.
    schema, bounds, data_norm
        Public domain of the rows: one of the three.
    person : str, optional
        Column that names the owner of each row, in addition to the columns of the schema.
    in_memory : callable, optional
        Like `run`, for rows in memory, if `run` passes them in another form (a file, a cluster). Sums must be
        equal.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> def clipped(rows, ledger):
    ...     return dpem.clipped_fraction(rows, epsilon=1.0, bounds=(0, 1), ledger=ledger)
    >>> subject = dpem.audit.Subject("clipped_fraction", clipped, bounds=(0, 1))
    >>> X = np.random.default_rng(0).uniform(size=(100, 1))
    >>> dpem.audit.replay(subject, X, search=0).passed
    True
    """

    name: str
    run: Callable[[Any, Ledger | None], Any]
    adjacency: str = "replace_one"
    rows_per_person: int = 1
    schema: Schema | None = None
    bounds: Any = None
    data_norm: float | None = None
    person: str | None = None
    in_memory: Callable[[Any, Ledger | None], Any] | None = None

    @classmethod
    def of(cls, audited: PrivateEstimator | Subject) -> Subject:
        """Return a subject unchanged, or that of an estimator, which fits copies without its ledger."""
        if isinstance(audited, Subject):
            return audited
        given: Any = audited
        if not isinstance(given, PrivateEstimator):
            raise _validate.fail(
                "an estimator of dpem or a dpem.audit.Subject", "estimator", type(given).__name__
            )
        if given._plain:
            raise _validate.fail("a finite epsilon for an audit", "epsilon", given.epsilon)
        if given.person is not None and given.schema is None:
            raise _validate.fail(
                "an estimator with a schema for an audit with persons",
                "schema",
                None,
                "Pass the schema of all columns except the person column.",
            )
        # The seed repeats post-processing, so that fits differ by their noise only, which is replayed.
        seed = 0 if given.random_state is None else given.random_state

        def run(rows: Any, ledger: Ledger | None) -> Any:
            copy = clone(given).set_params(ledger=ledger, random_state=seed, verbose=1, n_jobs=1)
            return copy.fit(rows)

        return cls(
            type(given).__name__,
            run,
            given.adjacency,
            given.rows_per_person,
            given.schema,
            getattr(given, "bounds", None),
            getattr(given, "data_norm", None),
            given.person,
        )


def subject_of(name: str, epsilon: float, adjacency: str) -> Subject:
    """Return the subject of an audit of the trial of this name."""
    trial = registry.trials()[name]
    audited = trial.make(adjacency, epsilon=epsilon)
    if isinstance(audited, PrivateEstimator):
        subject = Subject.of(audited)
    else:
        domain = {key: trial.arguments[key] for key in _PUBLIC if key in trial.arguments}
        subject = Subject(name, audited, adjacency, **domain)
    subject = replace(subject, name=f"{name}, {adjacency}")
    if trial.source is None:
        return subject
    to_source, fit = SOURCES[trial.source], subject.run
    to_source(trial.rows(3))  # starts clusters now, so that their first warnings are not observed
    # A broken line is a different row from the one in memory, so sums differ.
    same = None if trial.source == "CSV file with broken lines" else fit
    return replace(subject, run=lambda rows, ledger: fit(to_source(rows), ledger), in_memory=same)
