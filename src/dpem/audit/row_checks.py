"""What proofs suppose of single rows: each adds to a sum by itself, and lies on the grid within its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.audit.neighbours import findings, hostile_rows, parsed, with_strangers
from dpem.audit.violations import Violation
from dpem.data import Domain
from dpem.data.domain import GRID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject
    from dpem.em.recording import RecordedRelease

__all__ = ["row_violations"]


def row_violations(subject: Subject, rows: Any, releases: Sequence[RecordedRelease]) -> list[Violation]:
    """Return where a row changes what another adds to a sum, or lies outside the grid that its bound needs.

    Sensitivities are those of one row's vector, so a sum over a block must be the sum over its rows, bit by
    bit. Hostile rows are put among the others: a row far out is what moves a maximum or a mean of the block.
    """
    table = with_strangers(subject, rows, hostile_rows(subject, rows))
    values = parsed(subject, table)
    found = []
    for release in releases:
        block = findings(subject, table) if release.of_findings else values
        with np.errstate(all="ignore"):
            whole = release.statistic.sum_block(_on_grid(release, block))
            single = np.zeros_like(whole)
            for i in range(block.shape[1]):
                single += release.statistic.sum_block(_on_grid(release, block[:, i : i + 1]))
        if not np.array_equal(whole, single):
            found.append(Violation("rows", release.stage, "one row changes what another adds"))
        found += [
            Violation("grid", release.stage, problem)
            for problem in _off_grid(release, _on_grid(release, block))
        ]
    return found


def _on_grid(release: RecordedRelease, block: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(release.grid.to_grid(block), dtype=np.float64)


def _off_grid(release: RecordedRelease, rows: NDArray[np.float64]) -> list[str]:
    """Return what is wrong with grid rows: no integers, or longer than 2^24 where that is their bound."""
    seen = [(rows, isinstance(release.grid, Domain))]
    if hasattr(release.statistic, "map_rows"):  # filled, encoded or projected rows
        seen.append((np.asarray(release.statistic.map_rows(rows)), True))
    problems = []
    for columns, bounded in seen:
        known = np.nan_to_num(columns)
        if not np.array_equal(known, np.rint(known)):
            problems.append("a row is not on the integer grid")
        if bounded and not ((known**2).sum(axis=0) <= GRID * GRID).all():
            problems.append("a row is longer than its bound")
    return problems
