"""The whole audit as a list of tasks: all estimators and modes, steps of proofs, seeded bugs, and games."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpem import _compiled, _validate, registry
from dpem.audit.bits import distinguish_by_bits
from dpem.audit.games import Game, changed_rows, distinguish, model_score, sample_score
from dpem.audit.neighbours import as_cells, hostile_rows, with_strangers
from dpem.audit.obligations import OBLIGATIONS, largest_ratio
from dpem.audit.observation import record_releases
from dpem.audit.replaying import ReplayAudit, first_violations, replay
from dpem.audit.search import best_distinguished_pair, separation
from dpem.audit.seeded_bugs import BUGS, seeded_bug
from dpem.audit.sources import can_open
from dpem.audit.subject import subject_of
from dpem.audit.violations import SLACK
from dpem.privacy.neighbours import Adjacency
from dpem.privacy.randomness import public_random

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpem.audit.subject import Subject
    from dpem.audit.violations import Violation
    from dpem.estimator.trials import Trial

__all__ = ["Attack", "Finding", "run_audit", "tasks"]

Size = Literal["tiny", "quick", "full"]
Kind = Literal["replay", "proof", "bug", "transcript", "model", "samples", "bits"]

_N_ROWS = 150  # of replays: a few blocks of the smallest size
_GAME_ROWS = 200
_GAME_EPSILON = 16.0  # mu near 3, most of which a few hundred games can prove
_BASES = ("generated", "with hostile rows", "one row", "duplicates", "no row", "missing cells")

# Fits whose transcripts are attacked.
_GAMES = (
    "KMeans",
    "KMeans, four columns",
    "GaussianMixture, full",
    "GaussianMixture, tied",
    "GaussianMixture, no background",
    "GaussianMixture, missing cells",
    "FactorAnalysis",
    "MixedMixture",
    "MixedMixture, em",
    "PoissonMixture",
    "PrivateEM",
    "private_bounds",
    "paper.KMeans, Gaussian",
    "paper.GaussianMixture, GGG, zcdp, map",
)
# Fits whose published results are attacked too: the model, sampled rows, bits, and the transcript at epsilon
# 1.
_PUBLISHED: dict[str, tuple[Kind, ...]] = {
    "KMeans": ("model", "bits"),
    "GaussianMixture, full": ("model", "samples", "bits"),
    "FactorAnalysis": ("model",),
    "MixedMixture, em": ("model", "samples"),
}


@dataclass(frozen=True)
class Attack:
    """One task of the audit, which can be sent to another process."""

    kind: Kind
    name: str
    adjacency: str = Adjacency.REPLACE_ONE
    epsilon: float = 1.0
    base: str = "generated"
    effort: int = 0  # number of search steps, or of games


@dataclass(frozen=True)
class Finding:
    """The result of a task.

    Attributes
    ----------
    task : Attack
        The task.
    passed : bool
        Whether the task passed: no violation, or, for a seeded bug, at least one.
    text : str
        The result in words.
    figures : dict
        The result in numbers.
    seconds : float
        Duration of the task.
    """

    task: Attack
    passed: bool
    text: str
    figures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def tasks(size: Size, only: str | None = None) -> list[Attack]:
    """Return the tasks of an audit; `only` selects those of a model, or those whose names contain a text."""
    full = size == "full"
    found = [Attack("bug", name) for name in BUGS]
    found += [Attack("proof", name) for name in OBLIGATIONS]
    trials = registry.trials()
    for name, trial in trials.items():
        for adjacency in trial.relations:
            if trial.source is not None and not can_open(trial.source):
                continue
            budgets = trial.budgets if full else (trial.epsilon,)
            steps = 0 if trial.slow else {"full": 200, "quick": 20, "tiny": 5}[size]
            found += [Attack("replay", name, adjacency, epsilon, effort=steps) for epsilon in budgets]
            found += [
                Attack("replay", name, adjacency, trial.epsilon, base)
                for base in _BASES[1:]
                if size != "tiny" and not trial.slow and _has_base(trial, adjacency, base)
            ]
    runs = {"full": 500, "quick": 100, "tiny": 20}[size]
    games = _GAMES if full else _GAMES[:1]
    for name in games:
        # Each round of factor analysis fits a model, which takes ten times as long as other releases.
        played = runs // 3 if name == "FactorAnalysis" else runs
        found += [
            Attack("transcript", name, adjacency, epsilon, effort=played)
            for adjacency in trials[name].relations
            for epsilon in ((_GAME_EPSILON, 1.0) if full and name in _PUBLISHED else (_GAME_EPSILON,))
        ]
    for name, kinds in list(_PUBLISHED.items())[: None if full else 2]:
        played = runs // 5 if name == "FactorAnalysis" else runs // 2
        found += [Attack(kind, name, Adjacency.ADD_REMOVE, _GAME_EPSILON, effort=played) for kind in kinds]
    own = registry.trials_of(only) if only in registry.shipped() else ()
    return [task for task in found if only is None or only.lower() in task.name.lower() or task.name in own]


def _has_base(trial: Trial, adjacency: str, base: str) -> bool:
    """Whether a replay can start from a base: with a public number of rows, it needs those of one person."""
    if adjacency == Adjacency.ADD_REMOVE:
        return True
    return base != "no row" and (base != "one row" or trial.arguments.get("rows_per_person", 1) == 1)


def run_audit(
    chosen: Sequence[Attack],
    *,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Finding]:
    """Run tasks in separate processes; return their findings in the order of the tasks.

    Parameters
    ----------
    chosen : sequence of Attack
        The tasks.
    jobs : int
        Number of processes.
    progress : callable, optional
        Called with a kind of task, the number of finished tasks of that kind, and their total number.
    """
    _validate.integer(jobs, "jobs")
    found: dict[Attack, Finding] = {}
    # Long tasks first, so that no process is left with one at the end.
    order = sorted(chosen, key=lambda task: task.kind in ("replay", "proof", "bug"))
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(perform, task) for task in order]):
                finding = future.result()
                found[finding.task] = finding
                if progress is not None:
                    kind = finding.task.kind
                    progress(kind, *(sum(task.kind == kind for task in some) for some in (found, order)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [found[task] for task in chosen]


@_compiled.for_any_size()
def perform(task: Attack) -> Finding:
    """Run one task."""
    started = time.monotonic()
    attack = {"bug": _bug, "replay": _replay, "proof": _proof}.get(task.kind, _game)
    with warnings.catch_warnings(action="ignore"):
        finding = attack(task)
    return Finding(task, finding[0], finding[1], finding[2], time.monotonic() - started)


def _replay(task: Attack) -> tuple[bool, str, dict[str, Any]]:
    hostile = None if task.effort else 6
    try:
        subject = subject_of(task.name, task.epsilon, task.adjacency)
        rows = _base(subject, as_cells(subject, registry.trials()[task.name].rows(_N_ROWS)), task.base)
        audit = replay(subject, rows, hostile=hostile, search=task.effort)
    except Exception as error:  # noqa: BLE001  (a failing model of another package must not end the audit)
        nothing = {"pairs": 0, "releases": 0, "worst": 0.0, "stage": "none"}
        return False, f"{task.name}: {type(error).__name__}: {error}", nothing
    figures = {
        "pairs": audit.pairs,
        "releases": audit.releases,
        "worst": audit.worst,
        "stage": audit.worst_stage,
    }
    return audit.passed, str(audit), figures


def _proof(task: Attack) -> tuple[bool, str, dict[str, Any]]:
    reached, proof = largest_ratio(task.name), OBLIGATIONS[task.name].proof
    text = f"{task.name}: rows reach {reached:.9g} of the bound of {proof}"
    return reached <= 1 + SLACK, text, {"worst": reached, "proof": proof}


def _base(subject: Subject, rows: Any, base: str) -> Any:
    """Return the table that a replay starts from, which may be unusual."""
    if base == "with hostile rows":
        return with_strangers(subject, rows, hostile_rows(subject, rows))
    if base == "missing cells":  # all cells, so that one row decides whether a column has a value
        if not hasattr(rows, "iloc"):
            return np.full_like(rows, np.nan)
        return rows.assign(**{name: None for name in rows.columns if name != subject.person})
    places = {"one row": [0], "duplicates": [0] * len(rows), "no row": []}.get(base)
    if places is None:
        return rows
    return rows.iloc[places].reset_index(drop=True) if hasattr(rows, "iloc") else rows[places]


def _bug(task: Attack) -> tuple[bool, str, dict[str, Any]]:
    with seeded_bug(task.name) as bug:
        if bug.subject in OBLIGATIONS:
            held, _, figures = _proof(Attack("proof", bug.subject))
            caught = [] if held else [f"proof ({bug.subject}, {figures['proof']})"]
        else:
            audit = audit_of_bug(bug.subject, bug.adjacency)
            caught = sorted({f"{violation.check} ({violation.where})" for violation in audit.violations})
    text = f"{task.name}: {'caught by ' + ', '.join(caught[:3]) if caught else 'NOT CAUGHT'}"
    return bool(caught), text, {"caught_by": caught}


def audit_of_bug(name: str, adjacency: str) -> ReplayAudit:
    """Run the quick audit that every seeded bug must fail."""
    subject, rows, hostile, search = _audit_of_bug(name, adjacency)
    return replay(subject, rows, hostile=hostile, search=search)


def first_violations_of_bug(name: str, adjacency: str) -> list[Violation]:
    """Run the same audit up to the first check that finds a violation."""
    subject, rows, hostile, search = _audit_of_bug(name, adjacency)
    return first_violations(subject, rows, hostile=hostile, search=search)


def _audit_of_bug(name: str, adjacency: str) -> tuple[Subject, Any, int, int]:
    trial = registry.trials()[name]
    hostile, search = (6, 0) if trial.slow else (12, 20)
    return subject_of(name, trial.epsilon, adjacency), trial.rows(_N_ROWS), hostile, search


def _game(task: Attack) -> tuple[bool, str, dict[str, Any]]:
    subject = subject_of(task.name, task.epsilon, task.adjacency)
    rows = as_cells(subject, registry.trials()[task.name].rows(_GAME_ROWS))
    # The canary is chosen on pilot fits, before the games.
    pilot = [release for _ in range(3) for release in record_releases(subject, rows).releases]
    one, other = best_distinguished_pair(subject, rows, pilot, min(100, task.effort), public_random(0))
    game = _play(task, subject, one, other)
    figures = {
        "canary": _reach(subject, one, other) / game.claim.mu,
        "runs": game.runs,
        "wrong": (game.false_alarms + game.misses) / (2 * game.runs),
        "mu_lower": game.mu_lower,
        "mu": game.claim.mu,
        "epsilon_lower": game.epsilon_lower,
        "tightness": game.tightness,
    }
    return game.passed, str(game), figures


def _reach(subject: Subject, one: Any, other: Any) -> float:
    """Return the mu between the transcripts of two tables, averaged over some fits."""
    changed = [rows[:, 0] if rows.size else None for rows in changed_rows(subject, one, other)]
    fits = [record_releases(subject, one).releases for _ in range(5)]
    return subject.rows_per_person * float(np.mean([separation(fit, *changed) for fit in fits]))


def _play(task: Attack, subject: Subject, one: Any, other: Any) -> Game:
    if task.kind == "transcript":
        return distinguish(subject, one, other, runs=task.effort)
    if task.kind == "bits":
        return distinguish_by_bits(subject, one, other, runs=task.effort, pilot=max(10, task.effort // 2))
    row = np.asarray(changed_rows(subject, one, other)[1][:, 0])
    score = (model_score if task.kind == "model" else sample_score)(subject, row)
    pilot = max(10, task.effort // 5)
    return distinguish(subject, one, other, score, runs=task.effort, pilot=pilot, view=task.kind)
