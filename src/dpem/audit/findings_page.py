"""The findings of an audit as a page of Markdown."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import numpy as np
import scipy
import sklearn

from dpem import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpem.audit.run import Finding, Kind

__all__ = ["audit_page", "summary"]

_GAMES: tuple[Kind, ...] = ("transcript", "model", "samples", "bits")
_TITLES: dict[Kind, str] = {
    "replay": "Record and replay",
    "proof": "Steps of proofs",
    "bug": "Seeded bugs caught",
    "transcript": "Games on the transcript",
    "model": "Games on the model alone",
    "samples": "Games on sampled rows",
    "bits": "Games on bits",
}


def summary(findings: Sequence[Finding]) -> list[tuple[str, int, int, str]]:
    """Return for each kind of audit its title, the numbers of audits and failures, and its main result."""
    lines = []
    for kind, title in _TITLES.items():
        found = _of(findings, kind)
        if not found:
            continue
        if kind == "replay":
            pairs, releases = (sum(f.figures[name] for f in found) for name in ("pairs", "releases"))
            worst = max(f.figures["worst"] for f in found)
            text = f"{pairs:,} pairs, {releases:,} releases; largest distance {worst:.6f} of a sensitivity"
        elif kind == "proof":
            text = f"rows reach {max(f.figures['worst'] for f in found):.6f} of the bound"
        elif kind == "bug":
            text = f"{sum(f.passed for f in found)} of {len(found)}"
        else:
            best = max(f.figures["tightness"] for f in found)
            text = f"up to {best:.0%} of mu proven"
        lines.append((title, len(found), sum(not f.passed for f in found), text))
    return lines


def audit_page(findings: Sequence[Finding], size: str, seconds: float) -> str:
    """Return the page: a summary, steps of proofs, seeded bugs, games, and replays by fit."""
    failed = [finding for finding in findings if not finding.passed]
    written = (
        f"Written by `dpem audit{'' if size == 'full' else f' --{size}'}`: {len(findings)} audits in "
        f"{seconds / 60:.0f} minutes. Python {platform.python_version()}, numpy {np.__version__}, scipy "
        f"{scipy.__version__}, scikit-learn {sklearn.__version__}."
    )
    parts = [
        "# Audit",
        written,
        f"**{'No violation.' if not failed else f'{len(failed)} FAILED.'}**",
        _table(
            ["audit", "run", "failed", "reached"],
            ([title, n, bad, text] for title, n, bad, text in summary(findings)),
        ),
    ]
    if failed:
        parts += ["## Failed", "\n".join(f"- {finding.text}" for finding in failed)]
    parts += _proofs(findings) + _bugs(findings) + _games(findings) + _replays(findings)
    return "\n\n".join(parts) + "\n"


def _proofs(findings: Sequence[Finding]) -> list[str]:
    rows = [
        [f.task.name, f.figures["proof"], f"{f.figures['worst']:.6f}", "yes" if f.passed else "**no**"]
        for f in _of(findings, "proof")
    ]
    if not rows:
        return []
    text = (
        "Steps that the proofs of sensitivities rely on, attacked with generated rows and parameters. The "
        "table shows the largest value that a row reaches, over the bound of the equation."
    )
    return ["## Steps of proofs", text, _table(["step", "equation", "reached", "holds"], rows)]


def _bugs(findings: Sequence[Finding]) -> list[str]:
    rows = [
        [f.task.name, "yes" if f.passed else "**no**", ", ".join(f.figures["caught_by"][:2])]
        for f in _of(findings, "bug")
    ]
    if not rows:
        return []
    text = (
        "Each bug is switched on separately, and the same quick audit must detect it. The last column names "
        "the failed checks and their places."
    )
    return ["## Seeded bugs", text, _table(["bug", "caught", "by"], rows)]


def _games(findings: Sequence[Finding]) -> list[str]:
    rows = [
        [
            f"{f.task.name}, {f.task.adjacency}",
            f.task.kind,
            f"{f.task.epsilon:g}",
            f.figures["runs"],
            f"{f.figures['wrong']:.3f}",
            f"{f.figures['mu_lower']:.3f}",
            f"{f.figures['mu']:.3f}",
            f"{f.figures['canary']:.2f}",
            f"{f.figures['tightness']:.2f}",
            f"{f.figures['epsilon_lower']:.2f}",
        ]
        for kind in _GAMES
        for f in _of(findings, kind)
    ]
    if not rows:
        return []
    text = (
        "A search finds the two neighbouring tables that pilot fits distinguish best. The adversary guesses "
        "which table was fitted: from the log-likelihood ratio of the whole transcript (threshold 0), from "
        "the density of the model at the canary (or its nearest centre), from 200 sampled rows, or from the "
        "most informative bit of all released arrays (chosen in pilot runs). Lower bounds are "
        "Clopper-Pearson's at 95 %. Tightness is the proven share of the claimed mu. Canary is the share of "
        "mu between the transcripts of the two tables: infinitely many games would prove it."
    )
    bounds = ["mu at least", "mu claimed", "canary", "tightness", "eps at least"]
    head = ["fit", "view", "eps", "games", "wrong", *bounds]
    return ["## Games", text, _table(head, rows)]


def _replays(findings: Sequence[Finding]) -> list[str]:
    rows = []
    for name, trial in registry.trials().items():
        for adjacency in trial.relations:
            found = [
                f for f in _of(findings, "replay") if (f.task.name, f.task.adjacency) == (name, adjacency)
            ]
            if not found:
                continue
            worst = max(found, key=lambda f: f.figures["worst"])
            rows.append(
                [
                    f"{name}, {adjacency}",
                    len(found),
                    sum(f.figures["pairs"] for f in found),
                    sum(f.figures["releases"] for f in found),
                    f"{worst.figures['worst']:.4f}",
                    worst.figures["stage"],
                    sum(not f.passed for f in found),
                ]
            )
    if not rows:
        return []
    text = (
        "Each fit is recorded and replayed on pairs of neighbouring tables: hostile ones, and pairs found by "
        "a search. The distance is the largest change of a raw sum over its sensitivity. It must not exceed "
        "1."
    )
    head = ["fit", "tables and budgets", "pairs", "releases", "largest distance", "stage", "failed"]
    return ["<!-- every replay -->", "## Record and replay", text, _table(head, rows)]


def _of(findings: Sequence[Finding], kind: Kind) -> list[Finding]:
    return [finding for finding in findings if finding.task.kind == kind]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
