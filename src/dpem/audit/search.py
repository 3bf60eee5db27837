"""A search for the two rows that a fit's releases tell apart best.

Sums are exact, so what one row adds to a release is the statistic of that row alone: thousands of rows can be
tried against a recorded fit without fitting again. What is found is judged by a replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpem.audit.neighbours import as_given, hostile_rows, parsed, with_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject
    from dpem.em.recording import RecordedRelease
    from dpem.privacy.randomness import PublicRandom

    Objective = Callable[[NDArray[np.float64], NDArray[np.float64] | None], float]

__all__ = ["farthest_pairs", "row_value", "separation", "telling_pair"]


def row_value(release: RecordedRelease, row: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return what a parsed row adds to a recorded release, in released units; None adds nothing."""
    if row is None:
        return np.zeros(release.raw.size)
    with np.errstate(all="ignore"):
        value = release.statistic.sum_block(release.grid.to_grid(row[:, None]))
    return np.asarray(value / 2.0**release.statistic.coarse_bits)


def separation(
    releases: Sequence[RecordedRelease], one: NDArray[np.float64], other: NDArray[np.float64] | None
) -> float:
    """Return how well all releases together tell two rows apart: for Gaussian noise, a mu."""
    total = 0.0
    for release in releases:
        moved = (row_value(release, one) - row_value(release, other)) / release.noise_scale
        total += float((moved**2).sum())
    return float(np.sqrt(total))


def farthest_pairs(
    subject: Subject, rows: Any, releases: Sequence[RecordedRelease], steps: int, random: PublicRandom
) -> list[tuple[Any, Any]]:
    """Return a pair of neighbouring tables for every stage, found by climbing toward the largest distance."""
    if steps == 0 or not len(rows):
        return []
    last = {release.stage: release for release in releases}
    pairs = []
    for release in last.values():

        def distance(
            one: NDArray[np.float64], other: NDArray[np.float64] | None, release: RecordedRelease = release
        ) -> float:
            return release.length(row_value(release, one) - row_value(release, other))

        one, other = _climb(subject, rows, distance, steps, random)
        pairs.append(_tables(subject, rows, one, other))
    return pairs


def telling_pair(
    subject: Subject, rows: Any, releases: Sequence[RecordedRelease], steps: int, random: PublicRandom
) -> tuple[Any, Any]:
    """Return the neighbouring tables that the whole transcript tells apart best."""

    def objective(one: NDArray[np.float64], other: NDArray[np.float64] | None) -> float:
        return separation(releases, one, other)

    return _tables(subject, rows, *_climb(subject, rows, objective, steps, random))


def _tables(
    subject: Subject, rows: Any, one: NDArray[np.float64], other: NDArray[np.float64] | None
) -> tuple[Any, Any]:
    """Return the tables with one row (as often as a person owns rows) and with the other, or without."""
    m = subject.rows_per_person
    if other is None:
        return rows, with_rows(rows, range(len(rows), len(rows) + m), as_given(subject, one[:, None]) * m)
    first, second = (with_rows(rows, range(m), as_given(subject, row[:, None]) * m) for row in (one, other))
    return first, second


def _climb(
    subject: Subject, rows: Any, objective: Objective, steps: int, random: PublicRandom
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Start from the best pair of hostile rows and change a few cells at a time while that helps."""
    hostile = hostile_rows(subject, rows)
    table = with_rows(rows, range(len(rows), len(rows) + len(hostile)), hostile)
    pool = parsed(subject, table)[:, -min(len(hostile) + 20, len(table)) :]
    alone = subject.adjacency == "add_remove"
    n = pool.shape[1]
    start = [(i, None) for i in range(n)] if alone else _some_pairs(n, steps, random)
    found = [(objective(pool[:, i], None if j is None else pool[:, j]), i, j) for i, j in start]
    best, i, j = max(found, key=lambda entry: entry[0])
    one, other = pool[:, i], None if j is None else pool[:, j]
    continuous = [
        subject.schema is None or subject.schema.columns[c].kind == "continuous" for c in range(len(pool))
    ]
    with np.errstate(all="ignore"):
        finite = np.where(np.abs(pool) < 1e100, pool, np.nan)
        width = np.nan_to_num(np.nanmax(finite, axis=1) - np.nanmin(finite, axis=1), nan=1.0)
    for _ in range(steps):
        pair = [one, other]
        side = 0 if alone else random.randint(2)
        row = pair[side].copy()  # type: ignore[union-attr]
        for c in np.flatnonzero(random.random_sample(len(row)) < 2 / (len(row) + 1)):
            if continuous[c] and random.random_sample() < 0.5:
                row[c] += random.normal() * width[c] * 2.0 ** -random.randint(25)
            else:
                row[c] = pool[c, random.randint(n)]
        pair[side] = row
        value = objective(pair[0], pair[1])  # type: ignore[arg-type]
        if value > best:
            best, one, other = value, pair[0], pair[1]  # type: ignore[assignment]
    return one, other


def _some_pairs(n: int, steps: int, random: PublicRandom) -> list[tuple[int, int]]:
    pairs = [(i, j) for i in range(n) for j in range(i)]
    return [pairs[k] for k in random.permutation(len(pairs))[: max(20, steps)]]
