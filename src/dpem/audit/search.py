"""A search for the two rows that the releases of a fit distinguish best.

Sums are exact, so a row adds its own statistic to a release. Thousands of rows can therefore be tried against
a recorded fit without another fit. A replay then checks the rows that the search finds.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dpem.audit.neighbours import as_given, hostile_rows, parsed, with_strangers, with_unit
from dpem.data.column import READ
from dpem.privacy.neighbours import Adjacency

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject
    from dpem.gate.recording import RecordedRelease
    from dpem.privacy.randomness import PublicRandom

    Row = NDArray[np.float64]
    Embedding = Callable[[Row | None], NDArray[np.float64]]
    Length = Callable[[NDArray[np.float64]], float]

__all__ = ["best_distinguished_pair", "farthest_pairs", "row_value", "separation"]


def row_value(release: RecordedRelease, row: Row | None) -> NDArray[np.float64]:
    """Return what a parsed row adds to a recorded release, in released units. None adds nothing."""
    if row is None:
        return np.zeros(release.raw.size)
    if release.of_findings:  # a parsed row conforms to the schema: hostile rows attack such releases
        row = np.full_like(row, READ)
    with np.errstate(all="ignore"):
        value = release.statistic.sum_block(release.grid.to_grid(row[:, None]))
    return np.asarray(value / 2.0**release.statistic.coarse_bits)


def separation(releases: Sequence[RecordedRelease], one: Row | None, other: Row | None) -> float:
    """Return how well all releases together distinguish two rows: for Gaussian noise, a mu."""
    return _norm(_in_noise(releases, one) - _in_noise(releases, other))


def farthest_pairs(
    subject: Subject, rows: Any, releases: Sequence[RecordedRelease], steps: int, random: PublicRandom
) -> list[tuple[Any, Any]]:
    """Return, for every stage, a pair of neighbouring tables found by hill climbing for a large distance."""
    if steps == 0 or not len(rows):
        return []
    last = {release.stage: release for release in releases}
    pairs = []
    for release in last.values():
        one, other = _climb(subject, rows, partial(row_value, release), release.length, steps, random)
        pairs.append(_tables(subject, rows, one, other))
    return pairs


def best_distinguished_pair(
    subject: Subject, rows: Any, releases: Sequence[RecordedRelease], steps: int, random: PublicRandom
) -> tuple[Any, Any]:
    """Return the neighbouring tables that the whole transcript distinguishes best."""
    pair = _climb(subject, rows, partial(_in_noise, releases), _norm, steps, random)
    return _tables(subject, rows, *pair)


def _norm(difference: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(difference))


def _in_noise(releases: Sequence[RecordedRelease], row: Row | None) -> NDArray[np.float64]:
    """Return what a row adds to all releases, in standard deviations of their noise."""
    return np.concatenate([row_value(release, row) / release.noise_scale for release in releases])


def _tables(subject: Subject, rows: Any, one: Row, other: Row | None) -> tuple[Any, Any]:
    """Return the tables with one row and with the other (or without), repeated for all rows of a person."""
    cells = [None if row is None else as_given(subject, row[:, None])[0] for row in (one, other)]
    first, second = (rows if row is None else with_unit(subject, rows, row) for row in cells)
    return (second, first) if other is None else (first, second)


def _climb(
    subject: Subject, rows: Any, embed: Embedding, length: Length, steps: int, random: PublicRandom
) -> tuple[Row, Row | None]:
    """Start from the farthest pair of hostile rows, and change a few cells at a time if that helps."""
    hostile = hostile_rows(subject, rows)
    table = with_strangers(subject, rows, hostile)
    pool = parsed(subject, table)[:, -min(len(hostile) + 20, len(table)) :]
    n = pool.shape[1]
    values = [embed(row) for row in pool.T]
    pair: list[Row | None]
    if subject.adjacency == Adjacency.ADD_REMOVE:
        i = max(range(n), key=lambda i: length(values[i]))
        pair, at = [pool[:, i], None], [values[i], embed(None)]
    else:
        i, j = max(combinations(range(n), 2), key=lambda ij: length(values[ij[0]] - values[ij[1]]))
        pair, at = [pool[:, i], pool[:, j]], [values[i], values[j]]
    best = length(at[0] - at[1])
    continuous = [
        subject.schema is None or subject.schema.columns[c].kind == "continuous" for c in range(len(pool))
    ]
    with np.errstate(all="ignore"):
        finite = np.where(np.abs(pool) < 1e100, pool, np.nan)
        width = np.nan_to_num(np.nanmax(finite, axis=1) - np.nanmin(finite, axis=1), nan=1.0)
    for _ in range(steps):
        side = 0 if pair[1] is None else random.randint(2)
        row = np.array(pair[side])
        for c in np.flatnonzero(random.random_sample(len(row)) < 2 / (len(row) + 1)):
            if continuous[c] and random.random_sample() < 0.5:
                row[c] += random.normal() * width[c] * 2.0 ** -random.randint(25)
            else:
                row[c] = pool[c, random.randint(n)]
        value = embed(row)
        if (reached := length(value - at[1 - side])) > best:
            best, pair[side], at[side] = reached, row, value
    return pair[0], pair[1]  # type: ignore[return-value]
