"""Every registered trial as a subject of the audit: estimators, modes, released numbers, forms of rows."""

from __future__ import annotations

from dataclasses import replace

from dpem import registry
from dpem.audit.sources import SOURCES
from dpem.audit.subject import Subject
from dpem.estimator.base import PrivateEstimator

__all__ = ["subject_of"]

_PUBLIC = ("rows_per_person", "schema", "bounds", "data_norm", "person")


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
