"""What is audited: anything that takes rows and releases something, with its public facts."""

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
    """Anything that takes rows and releases something: `replay` and `distinguish` make one of an estimator.

    Attributes
    ----------
    name : str
        What a report calls it.
    run : callable
        Takes rows and a ledger (or None); returns what is released: a fitted estimator, or an object whose
        `privacy` is a statement. All but its noise must be repeatable.
    adjacency, rows_per_person
        Whose data is hidden, as in an estimator.
    schema, bounds, data_norm
        The public domain of the rows: one of the three.
    person : str, optional
        The column that names the owner of each row, beside the columns of the schema.
    in_memory : callable, optional
        As `run`, for rows that `run` hands over in another form (a file, a cluster): the sums must be equal.

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
        """Return a subject as it is, or the fit of an estimator: a copy, without its ledger, talking."""
        if isinstance(audited, Subject):
            return audited
        given: Any = audited
        if not isinstance(given, PrivateEstimator):
            raise _validate.fail(
                "an estimator of dpem or a dpem.audit.Subject", "estimator", type(given).__name__
            )
        if given._plain:
            raise _validate.fail("a finite epsilon to audit", "epsilon", given.epsilon)
        if given.person is not None and given.schema is None:
            raise _validate.fail(
                "an estimator with a schema to audit rows of persons",
                "schema",
                None,
                "Pass the schema of the columns beside the one that names persons.",
            )
        # Free choices are repeated in every fit: only noise, which is replayed, may make two fits differ.
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
    made = trial.make(adjacency, epsilon=epsilon)
    if isinstance(made, PrivateEstimator):
        subject = Subject.of(made)
    else:
        domain = {key: trial.arguments[key] for key in _PUBLIC if key in trial.arguments}
        subject = Subject(name, made, adjacency, **domain)
    subject = replace(subject, name=f"{name}, {adjacency}")
    if trial.source is None:
        return subject
    hand_over, fit = SOURCES[trial.source], subject.run
    hand_over(trial.rows(3))  # what a cluster warns of at its start has nothing to do with rows
    # A line that is cut off is another row than the one in memory.
    same = None if trial.source == "CSV file with broken lines" else fit
    return replace(subject, run=lambda rows, ledger: fit(hand_over(rows), ledger), in_memory=same)
