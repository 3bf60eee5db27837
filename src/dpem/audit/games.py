"""Distinguishing games: how well an adversary tells two neighbouring tables apart, measured.

The adversary sees the whole transcript (every released value) and knows both tables: it plays the likelihood
ratio, which no test can beat. Or it sees the released model alone, or rows that the model samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.audit.bounds import epsilon_lower_bound, mu_lower_bound
from dpem.audit.neighbours import as_cells, parsed
from dpem.audit.observation import observe, record_releases
from dpem.audit.one_at_a_time import one_at_a_time
from dpem.audit.search import row_value
from dpem.audit.subject import Subject
from dpem.errors import AuditFailedError, InvalidArgumentError
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.budget import Budget
from dpem.privacy.events import LaplaceEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dpem.audit.observation import Observation
    from dpem.estimator.base import PrivateEstimator
    from dpem.gate.recording import RecordedRelease, Recording

__all__ = ["Game", "changed_rows", "claimed", "distinguish"]


_SURE = 1 - 1e-6


@dataclass(frozen=True)
class Game:
    """What an adversary reached.

    Attributes
    ----------
    name, view : str
        What was attacked, and what the adversary saw.
    runs : int
        Games played in each of the two worlds.
    false_alarms, misses : int
        How often the adversary was wrong in each.
    claim : Budget
        What the fit pays: epsilon, delta, and the mu of its events.
    confidence : float
        Of both bounds as they are stated.

    Examples
    --------
    >>> from dpem.privacy import Budget
    >>> game = Game("KMeans", "transcript", 1000, 90, 85, Budget.from_epsilon(16.0, 1e-5), 0.95)
    >>> game.passed, game.mu_lower > 2
    (True, True)
    """

    name: str
    view: str
    runs: int
    false_alarms: int
    misses: int
    claim: Budget
    confidence: float

    @property
    def mu_lower(self) -> float:
        """What mu is at least."""
        return mu_lower_bound(self.false_alarms, self.misses, self.runs, self.confidence)

    @property
    def epsilon_lower(self) -> float:
        """What epsilon is at least, at the delta of the claim, whatever the mechanism."""
        return epsilon_lower_bound(
            self.false_alarms, self.misses, self.runs, self.claim.delta, self.confidence
        )

    @property
    def tightness(self) -> float:
        """The proven part of the claim: `mu_lower` over its mu."""
        return self.mu_lower / self.claim.mu

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim: a sound model fails once in a million games."""
        errors = self.false_alarms, self.misses, self.runs
        return (
            mu_lower_bound(*errors, _SURE) <= self.claim.mu
            and epsilon_lower_bound(*errors, self.claim.delta, _SURE) <= self.claim.epsilon
        )

    def require(self) -> None:
        """Raise `AuditFailedError` where a bound is above the claim beyond doubt."""
        if not self.passed:
            raise AuditFailedError(str(self))

    def __str__(self) -> str:
        return (
            f"{self.name}, seen by its {self.view}: wrong in {self.false_alarms} and {self.misses} of "
            f"{self.runs} games; mu is at least {self.mu_lower:.3f}, and {self.claim.mu:.3f} is claimed "
            f"({self.tightness:.0%}); epsilon is at least {self.epsilon_lower:.3f}, and "
            f"{self.claim.epsilon:g} is claimed{'' if self.passed else ': VIOLATION'}"
        )


@one_at_a_time
def distinguish(
    estimator: PrivateEstimator | Subject,
    one: Any,
    other: Any,
    score: Callable[[Any], float] | None = None,
    *,
    runs: int = 500,
    pilot: int = 100,
    view: str | None = None,
    confidence: float = 0.95,
) -> Game:
    """Play: fit one of two neighbouring tables, and guess which, `runs` times each.

    Without `score`, the adversary sees every release and guesses by the sign of the log-likelihood ratio.
    With it, what is guessed from is `score` of the fitted model, and the threshold lies half way between
    medians of pilot runs. Either way the threshold is fixed before the games that count. Nothing here is
    private.

    Parameters
    ----------
    estimator : PrivateEstimator or Subject
        What is attacked.
    one, other : array-like or DataFrame
        Neighbouring tables.
    score : callable, optional
        From what is released to a number: a membership test on the model, or on rows that it samples.
    runs : int, default 500
        Games in each world.
    pilot : int, default 100
        Runs in each world that fix the threshold of `score`.
    view : str, optional
        What a report calls what the adversary sees.
    confidence : float, default 0.95
        Of the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(0, 0.1, size=(100, 2))
    >>> model = dpem.KMeans(2, epsilon=4.0, data_norm=1.0, adjacency="add_remove", max_iter=2)
    >>> game = dpem.audit.distinguish(model, X, np.vstack([X, [1.0, 0.0]]), runs=50)
    >>> game.passed
    True
    """
    runs = _validate.integer(runs, "runs")
    subject = Subject.of(estimator)
    tables = [as_cells(subject, table) for table in (one, other)]
    claim = claimed(subject, observe(subject, tables[0]))
    if score is None:
        changed = changed_rows(subject, *tables)
        scores = [
            [_log_ratio(record_releases(subject, table), changed, world) for _ in range(runs)]
            for world, table in enumerate(tables)
        ]
        threshold, sign = 0.0, 1.0
    else:
        found = [
            [float(score(observe(subject, table).result)) for _ in range(pilot + runs)] for table in tables
        ]
        low, high = (float(np.median(world[:pilot])) for world in found)
        threshold, sign = (low + high) / 2, 1.0 if high >= low else -1.0
        scores = [world[pilot:] for world in found]
    return Game(
        subject.name,
        view or ("transcript" if score is None else "model"),
        runs,
        sum(sign * (value - threshold) > 0 for value in scores[0]),
        sum(sign * (value - threshold) <= 0 for value in scores[1]),
        claim,
        _validate.within(confidence, "confidence", 0.5, 1 - 1e-9),
    )


def claimed(subject: Subject, run: Observation) -> Budget:
    """Return what a run claims: its epsilon and delta, and the mu of its events."""
    statement = run.statement
    if statement is None or statement.event is None:
        raise AuditFailedError(f"{subject.name} cannot be audited on these rows. {run.error}")
    mu = float(np.sqrt(float(GdpAccountant().mu_squared(statement.event))))
    return Budget(statement.epsilon, statement.delta, mu)


def changed_rows(subject: Subject, one: Any, other: Any) -> list[NDArray[np.float64]]:
    """Return for each of two tables the parsed rows that the other has not, of shape (columns, rows)."""
    blocks = [parsed(subject, table) for table in (one, other)]
    shared = min(block.shape[1] for block in blocks)
    heads = [np.ascontiguousarray(block[:, :shared]) for block in blocks]
    differ = (heads[0].view(np.int64) != heads[1].view(np.int64)).any(axis=0)
    changed = [
        np.hstack([head[:, differ], block[:, shared:]]) for head, block in zip(heads, blocks, strict=True)
    ]
    if sum(rows.shape[1] for rows in changed) == 0:
        raise InvalidArgumentError("Expected two tables that differ in a row, got the same table twice.")
    return changed


def _log_ratio(transcript: Recording, changed: Sequence[NDArray[np.float64]], world: int) -> float:
    """Return the log-likelihood of the transcript under the second table less that under the first.

    Sums are exact: under the other table a raw value is this one's, less its changed rows, plus the other's.
    """
    total = 0.0
    for release in transcript.releases:
        moved = _sum(release, changed[1].T) - _sum(release, changed[0].T)
        first = release.raw - moved if world == 1 else release.raw
        scale = release.noise_scale
        from_first, from_second = (release.noisy - first) / scale, (release.noisy - first - moved) / scale
        if isinstance(release.event, LaplaceEvent):
            total += float((np.abs(from_first) - np.abs(from_second)).sum())
        else:
            total += float((from_first**2 - from_second**2).sum()) / 2
    return total


def _sum(release: RecordedRelease, rows: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    return sum((row_value(release, row) for row in rows), np.zeros(release.raw.size))
