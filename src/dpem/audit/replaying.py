"""Record a fit, replay its noisy values on neighbouring tables, and check that nothing differs."""

from __future__ import annotations

import pickle
import tempfile
import time
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from dpem import _compiled, _validate
from dpem.audit.neighbours import as_cells, neighbours, require_rows
from dpem.audit.observation import observe, one_at_a_time
from dpem.audit.row_checks import row_violations
from dpem.audit.search import farthest_pairs
from dpem.audit.subject import Subject
from dpem.audit.violations import (
    Violation,
    compare,
    forked_noise_violations,
    noise_violations,
    spend_violations,
)
from dpem.data import TableRows
from dpem.data.sources import memory as table_rows
from dpem.data.sources import streams
from dpem.engines import local
from dpem.errors import AuditFailedError
from dpem.privacy.ledger import Ledger
from dpem.privacy.randomness import public_random

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from dpem.audit.observation import Observation
    from dpem.estimator.base import PrivateEstimator

__all__ = ["ReplayAudit", "first_violations", "replay"]

_ANY_CAP = 1e5  # an epsilon that no plan exceeds


@dataclass(frozen=True)
class ReplayAudit:
    """The result of a replay audit.

    Attributes
    ----------
    name : str
        Name of the audited fit.
    pairs, releases : int
        Numbers of compared pairs of neighbouring tables, and of their releases.
    worst : float
        Largest distance between neighbours over the sensitivity: at most 1, and near 1 if the sensitivity is
        tight.
    worst_stage : str
        Stage of the largest distance.
    violations : tuple of Violation
        Violations of the guarantee; a correct model has none.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(100, 1))
    >>> found = dpem.audit.replay(dpem.KMeans(1, epsilon=1.0, data_norm=3.0), X, search=0)
    >>> found.violations
    ()
    >>> found.require()
    """

    name: str
    pairs: int
    releases: int
    worst: float
    worst_stage: str
    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """Whether there are no violations."""
        return not self.violations

    def require(self) -> None:
        """Raise `AuditFailedError` if there are violations."""
        if self.violations:
            raise AuditFailedError(str(self))

    def __str__(self) -> str:
        head = (
            f"{self.name}: {self.pairs} pairs of neighbours, {self.releases} releases, largest distance "
            f"{self.worst:.4f} of the sensitivity ({self.worst_stage or 'no release'})"
        )
        counted: dict[Violation, int] = {}
        for violation in self.violations:
            counted[violation] = counted.get(violation, 0) + 1
        lines = [f"  VIOLATION {v}{f' ({n} times)' if n > 1 else ''}" for v, n in counted.items()]
        return "\n".join([head, *(lines or ["  no violation"])])


@one_at_a_time
@_compiled.for_any_size()
def replay(
    estimator: PrivateEstimator | Subject,
    X: Any,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    *,
    hostile: int | None = None,
    search: int = 100,
    random_state: Any = 0,
) -> ReplayAudit:
    """Attack a fit by record and replay. Its output is not private: use generated rows.

    The fit is recorded on `X`, and its noisy values are replayed on neighbouring tables. Then

    - releases must have the same order, statistics, sensitivities and noise;
    - raw values must differ by at most the sensitivity;
    - everything else that can be seen (attributes, warnings, printed lines, exceptions) must have the same
      bits, because it may depend on rows only through the releases;
    - the noise must be as large as its event says, and used once;
    - the releases must cost at most what the statement says;
    - the ledger must be charged before any value is read.

    Parameters
    ----------
    estimator : PrivateEstimator or Subject
        The audited fit. For an estimator, copies are fitted, without its ledger and with `verbose=1`.
    X : array-like or DataFrame
        Rows for the fit. A few hundred are enough.
    pairs : iterable of pairs of tables, optional
        Neighbouring tables; by default, tables with hostile rows.
    hostile : int, optional
        Number of hostile pairs to try, evenly spaced; all by default.
    search : int, default 100
        Number of steps of a search, for each stage, for the neighbours with the largest distance.
    random_state : int, RandomState or None, default 0
        Seed of the search.

    Returns
    -------
    ReplayAudit
        The result; `require()` raises if there are violations.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = dpem.audit.replay(dpem.KMeans(2, epsilon=1.0, data_norm=3.0), X)
    >>> found.passed
    True
    >>> 0.9 < found.worst <= 1
    True
    """
    search = _validate.integer(search, "search", minimum=0)
    subject = Subject.of(estimator)
    rows = as_cells(subject, X)
    require_rows(subject, rows)
    attack = _Attack(subject, rows, pairs, hostile, search, random_state)
    violations = tuple(chain.from_iterable(attack.violations()))
    return ReplayAudit(
        subject.name, attack.n_pairs, attack.n_releases, attack.worst, attack.worst_stage, violations
    )


@one_at_a_time
@_compiled.for_any_size()
def first_violations(subject: Subject, X: Any, *, hostile: int | None, search: int) -> list[Violation]:
    """Return the violations of the first check of `replay` that finds some; later checks are left out."""
    attack = _Attack(subject, as_cells(subject, X), None, hostile, search, 0)
    return next(filter(None, attack.violations()), [])


@dataclass
class _Attack:
    """A replay audit in progress; `violations` does the work."""

    subject: Subject
    rows: Any
    pairs: Iterable[tuple[Any, Any]] | None
    hostile: int | None
    search: int
    random_state: Any
    n_pairs: int = 0
    n_releases: int = 0
    worst: float = 0.0
    worst_stage: str = ""

    def violations(self) -> Iterator[list[Violation]]:
        """Yield the violations that each check finds."""
        subject, rows = self.subject, self.rows
        random = public_random(self.random_state)
        first, again = observe(subject, rows), observe(subject, rows)
        if first.result is None:
            raise AuditFailedError(
                f"Expected a fit of {subject.name} to audit, got an exception on these rows: {first.error}"
            )
        yield [*spend_violations(first), *noise_violations([first, again])]
        yield _repeated(subject, rows, first)
        yield _ledger_violations(subject, rows, first)
        yield forked_noise_violations()
        pairs = self.pairs
        if pairs is None:
            tables = list(neighbours(subject, rows))
            if self.hostile is not None:
                kept = np.linspace(0, len(tables) - 1, min(self.hostile, len(tables)))
                tables = [tables[place] for place in np.unique(kept.astype(int))]
            pairs = tables
            try:
                with warnings.catch_warnings(action="ignore"):
                    of_rows = row_violations(subject, rows, first.releases)
                    pairs = tables + farthest_pairs(subject, rows, first.releases, self.search, random)
            except (ArithmeticError, ValueError, TypeError, LookupError):
                of_rows = [Violation("output", "a row", "reading a row raised an exception")]
            yield of_rows
        for one, other in pairs:
            yield self._compared(one, other, first)

    @cached_property
    def _seen(self) -> dict[bytes, Observation]:
        return {}

    def _observed(self, table: Any, first: Observation) -> Observation:
        """Replay the noisy values on a table; many pairs share one, which is fitted once.

        A fit of the same cells with the same noisy values is the same: `_repeated` has compared such fits.
        """
        if table is self.rows:
            return first
        cells = as_cells(self.subject, table)
        content = pickle.dumps(cells, protocol=5)
        if content not in self._seen:
            self._seen[content] = observe(self.subject, cells, first.transcript)
        return self._seen[content]

    def _compared(self, one: Any, other: Any, first: Observation) -> list[Violation]:
        """Return the violations on a pair of neighbours, and remember the largest distance."""
        runs = [self._observed(table, first) for table in (one, other)]
        self.n_pairs += 1
        self.n_releases += len(first.releases)
        for a, b in zip(runs[0].releases, runs[1].releases, strict=False):
            if a.raw.shape == b.raw.shape and a.distance(b) > self.worst:
                self.worst, self.worst_stage = a.distance(b), a.stage
        return compare(*runs)


def _repeated(subject: Subject, rows: Any, first: Observation) -> list[Violation]:
    """Return differences between fits of the same rows read in other ways; there must be none."""
    turned = rows.iloc[::-1].reset_index(drop=True) if hasattr(rows, "iloc") else rows[::-1].copy()
    ways: list[tuple[str, Subject, Any, Callable[[], AbstractContextManager[Any]]]] = [
        ("output", subject, rows, nullcontext),
        ("order", subject, turned, nullcontext),
        ("blocks", subject, rows, _small_blocks),
        ("threads", subject, rows, _two_threads),
    ]
    if subject.in_memory is not None:
        ways.append(("source", replace(subject, run=subject.in_memory), rows, nullcontext))
    found = []
    for check, read, table, setting in ways:
        with setting():
            run = observe(read, table, first.transcript)
        found += [
            Violation(check, violation.where, "it differs although the rows are the same")
            for violation in compare(first, run)
            # The form of the rows may show: a path, or a number of partitions.
            if check != "source" or violation.check != "output"
        ]
        found += [
            Violation(check, a.stage, "the exact sum of the same rows differs")
            for a, b in zip(first.releases, run.releases, strict=False)
            if not np.array_equal(a.raw, b.raw)
        ]
    return found


@contextmanager
def _small_blocks() -> Iterator[None]:
    """Read rows in blocks of the smallest size."""
    with patch.object(table_rows, "BLOCK_CELLS", 1), patch.object(streams, "BLOCK_CELLS", 1):
        yield


@contextmanager
def _two_threads() -> Iterator[None]:
    """Read small blocks slowly on two threads, so that one thread waits while the other asks for more."""
    sound = TableRows.block

    def slowly(rows: TableRows) -> Any:
        time.sleep(0.002)
        return sound(rows)

    with (
        _small_blocks(),
        patch.object(local, "thread_count", lambda _: 2),
        patch.object(TableRows, "block", slowly),
    ):
        yield


class _StoppedError(BaseException):
    """Simulates a crash at the first row."""


def _ledger_violations(subject: Subject, rows: Any, first: Observation) -> list[Violation]:
    """Return violations if a fit, complete or crashed at its first row, does not charge the ledger."""
    found = []
    statement = first.statement
    with tempfile.TemporaryDirectory() as folder:
        for crash in (True, False):
            ledger = Ledger.create(
                Path(folder) / f"{crash}.ledger",
                name="audit",
                cap_epsilon=_ANY_CAP,
                cap_delta=1e-5,
                adjacency=subject.adjacency,
                rows_per_person=subject.rows_per_person,
                person=subject.person,
            )
            if crash:
                try:
                    with patch.object(TableRows, "block", side_effect=_StoppedError):
                        observe(subject, rows, ledger=ledger)
                except _StoppedError:
                    pass
            else:
                observe(subject, rows, first.transcript, ledger)
            charged = [spend.event for spend in ledger.history()]
            if statement is not None and charged != [statement.event]:
                when = "a crash at the first row" if crash else "a whole fit"
                found.append(
                    Violation("ledger", when, "it does not have exactly one charge, the statement's")
                )
    return found
