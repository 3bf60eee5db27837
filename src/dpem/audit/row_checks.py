"""Checks of what proofs assume about rows: sums are additive, and rows lie on the grid within their bound."""

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
    from dpem.gate.recording import RecordedRelease

__all__ = ["row_violations"]

_TIMES = 5


def row_violations(subject: Subject, rows: Any, releases: Sequence[RecordedRelease]) -> list[Violation]:
    """Return violations: a row changes what another adds to a sum, or lies outside the grid or its bound.

    Sensitivities are those of one row's vector, so a sum over a block must equal the sum over its rows bit by
    bit. Hostile rows are added to the others, because a distant row changes a maximum or a mean of the block.
    """
    table = with_strangers(subject, rows, hostile_rows(subject, rows))
    values = parsed(subject, table)
    found = []
    alone = [parsed(subject, table[i : i + 1]) for i in range(len(table))]
    if not np.array_equal(values, np.concatenate(alone, axis=1), equal_nan=True):
        found.append(Violation("rows", "cells", "one row changes how another is read"))
    for release in releases:
        block = findings(subject, table) if release.of_findings else values
        with np.errstate(all="ignore"):
            # Repeated several times: kernels take rows in chunks, and the last chunk is a special case.
            whole = release.statistic.sum_block(_on_grid(release, np.tile(block, (1, _TIMES))))
            single = np.zeros_like(whole)
            for i in range(block.shape[1]):
                single += release.statistic.sum_block(_on_grid(release, block[:, i : i + 1]))
            problems = _off_grid(release, _on_grid(release, block))
        if not np.array_equal(whole, _TIMES * single):
            found.append(Violation("rows", release.stage, "one row changes what another adds"))
        found += [Violation("grid", release.stage, problem) for problem in problems]
    return found


def _on_grid(release: RecordedRelease, block: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(release.grid.to_grid(block), dtype=np.float64)


def _off_grid(release: RecordedRelease, rows: NDArray[np.float64]) -> list[str]:
    """Return problems of grid rows: not integers, or longer than 2^24 if that is their bound."""
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
