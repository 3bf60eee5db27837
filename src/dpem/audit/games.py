"""Distinguishing games: measure how well an adversary distinguishes two neighbouring tables.

The adversary sees the whole transcript (every released value) and knows both tables. It uses the likelihood
ratio, the most powerful test. In other games it sees only the released model, or rows sampled from it, and
scores a row by its density, or by its distance from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _compiled, _validate
from dpem.audit.bounds import epsilon_lower_bound, mu_lower_bound
from dpem.audit.neighbours import as_cells, as_given, parsed
from dpem.audit.observation import observe, one_at_a_time, record_releases
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

__all__ = ["Game", "changed_rows", "claimed", "distinguish", "model_score", "sample_score"]


_SURE = 1 - 1e-6


@dataclass(frozen=True)
class Game:
    """The result of a distinguishing game.

    Attributes
    ----------
    name, view : str
        Name of the attacked fit, and the view of the adversary.
    runs : int
        Number of games in each of the two worlds.
    false_alarms, misses : int
        Number of wrong guesses in each world.
    claim : Budget
        Claim of the fit: epsilon, delta, and the mu of its events.
    confidence : float
        Confidence of both bounds.

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
        """A lower bound on mu."""
        return mu_lower_bound(self.false_alarms, self.misses, self.runs, self.confidence)

    @property
    def epsilon_lower(self) -> float:
        """A lower bound on epsilon at the delta of the claim, for any mechanism."""
        return epsilon_lower_bound(
            self.false_alarms, self.misses, self.runs, self.claim.delta, self.confidence
        )

    @property
    def tightness(self) -> float:
        """The proven share of the claim: `mu_lower` over its mu."""
        return self.mu_lower / self.claim.mu

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim. A correct model fails once in a million games."""
        errors = self.false_alarms, self.misses, self.runs
        return (
            mu_lower_bound(*errors, _SURE) <= self.claim.mu
            and epsilon_lower_bound(*errors, self.claim.delta, _SURE) <= self.claim.epsilon
        )

    def require(self) -> None:
        """Raise `AuditFailedError` if a lower bound exceeds the claim beyond doubt."""
        if not self.passed:
            raise AuditFailedError(str(self))

    def __str__(self) -> str:
        return (
            f"{self.name}, view of the {self.view}: {self.false_alarms} and {self.misses} wrong guesses in "
            f"{self.runs} games each; mu is at least {self.mu_lower:.3f}, claimed {self.claim.mu:.3f} "
            f"({self.tightness:.0%}); epsilon is at least {self.epsilon_lower:.3f}, claimed "
            f"{self.claim.epsilon:g}{'' if self.passed else ': VIOLATION'}"
        )


@one_at_a_time
@_compiled.for_any_size()
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
    """Fit one of two neighbouring tables and guess which one it was, `runs` times for each table.

    Without `score`, the adversary sees every release and guesses by the sign of the log-likelihood ratio.
    With `score`, it guesses from the score of the fitted model; the threshold is halfway between the medians
    of pilot runs. In both cases the threshold is fixed before the games that count. The result is not
    private: use generated rows.

    Parameters
    ----------
    estimator : PrivateEstimator or Subject
        The attacked fit.
    one, other : array-like or DataFrame
        Neighbouring tables.
    score : callable, optional
        Function from the release to a number: a membership test on the model, or on rows sampled from it.
    runs : int, default 500
        Number of games in each world.
    pilot : int, default 100
        Number of runs in each world for the threshold of `score`.
    view : str, optional
        Name of the adversary's view in reports.
    confidence : float, default 0.95
        Confidence of the bounds.

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
    """Return the claim of a run: its epsilon and delta, and the mu of its events."""
    statement = run.statement
    if statement is None or statement.event is None:
        raise AuditFailedError(
            f"Expected a private fit of {subject.name} to audit, got none on these rows. {run.error}"
        )
    mu = float(np.sqrt(float(GdpAccountant().mu_squared(statement.event))))
    return Budget(statement.epsilon, statement.delta, mu)


def changed_rows(subject: Subject, one: Any, other: Any) -> list[NDArray[np.float64]]:
    """Return for each of two tables the parsed rows that the other lacks, of shape (columns, rows)."""
    blocks = [parsed(subject, table) for table in (one, other)]
    shared = min(block.shape[1] for block in blocks)
    heads = [np.ascontiguousarray(block[:, :shared]) for block in blocks]
    differ = (heads[0].view(np.int64) != heads[1].view(np.int64)).any(axis=0)
    changed = [
        np.hstack([head[:, differ], block[:, shared:]]) for head, block in zip(heads, blocks, strict=True)
    ]
    if sum(rows.shape[1] for rows in changed) == 0:
        raise InvalidArgumentError(
            "Expected two tables that differ in a row, got equal tables. Pass neighbouring tables."
        )
    return changed


def _log_ratio(transcript: Recording, changed: Sequence[NDArray[np.float64]], world: int) -> float:
    """Return the log-likelihood of the transcript for the second table minus that for the first.

    Sums are exact: the raw value for the other table is this one minus its changed rows plus the other's.
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


def model_score(subject: Subject, row: NDArray[np.float64]) -> Callable[[Any], float]:
    """Return a score of a parsed row in a model: its log-density, or its closeness to the nearest centre."""
    table = _table(subject, row)

    def score(model: Any) -> float:
        if hasattr(model, "cluster_centers_"):
            return -float(((model.cluster_centers_ - row) ** 2).sum(axis=1).min())
        return float(model.score_samples(table)[0])

    return score


def sample_score(subject: Subject, row: NDArray[np.float64], n: int = 200) -> Callable[[Any], float]:
    """Return a score of the closeness of a parsed row to the nearest of `n` sampled rows."""

    def score(model: Any) -> float:
        rows = parsed(subject, model.sample(n))
        with np.errstate(all="ignore"):
            return -float(np.nansum((rows - row[:, None]) ** 2, axis=0).min())

    return score


def _table(subject: Subject, row: NDArray[np.float64]) -> Any:
    if subject.schema is None:
        return row[None]
    import pandas as pd  # noqa: PLC0415  (slow to import)

    return pd.DataFrame(as_given(subject, row[:, None]), columns=list(subject.schema.names))
