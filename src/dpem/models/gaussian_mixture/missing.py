r"""Gaussian densities of rows with missing cells in floating-point arithmetic, for predictions and plain EM.

With B the inverse of the covariance of the known cells, zero elsewhere, and y = B (x - m) of the known cells:
the squared distance is (x - m)' y, the expected row m + S y, and the conditional covariance S - S B S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpem.statistics.missing_cells import missing_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["KnownCells", "expected_rows", "incomplete_log_joint", "known_cells"]

# Most entries of the matrices of patterns of missing cells in memory at once.
_PATTERN_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class KnownCells:
    """Rows (n, d) with few patterns of missing cells: the patterns `known` (p, d), and that of each row."""

    rows: NDArray[np.float64]
    known: NDArray[np.bool_]
    which: NDArray[np.intp]

    def precisions(self, covariance: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return B of every pattern, (p, d, d), and the log-determinants of the known blocks, (p,)."""
        both = self.known[:, :, None] & self.known[:, None, :]
        padded = np.where(both, covariance, np.eye(covariance.shape[0]))
        return np.linalg.inv(padded) * both, np.linalg.slogdet(padded)[1]

    def relative(
        self, mean: NDArray[np.float64], precisions: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the rows minus the mean, zero in missing cells, and y, both (n, d)."""
        relative = np.where(self.known[self.which], self.rows - mean, 0.0)
        y = np.zeros_like(relative)
        for j in range(relative.shape[1]):
            y += precisions[:, :, j][self.which] * relative[:, j : j + 1]
        return relative, y


def known_cells(rows: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.intp], KnownCells]]:
    """Yield groups of rows (n, d) with few patterns of missing cells, each with its row numbers."""
    d = rows.shape[1]
    missing, order, which = missing_patterns(np.isnan(rows.T))
    step = max(1, _PATTERN_ENTRIES // (d * d))
    for start in range(0, len(missing), step):
        part = slice(*np.searchsorted(which, (start, start + step)))
        held = order[part]
        yield held, KnownCells(rows[held], ~missing[start : start + step], which[part] - start)


def incomplete_log_joint(
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return log(weight) plus the log-density of each row's known cells in each component, (n, k)."""
    joint = np.empty((len(rows), len(weights)))
    for held, cells in known_cells(rows):
        size = cells.known.sum(axis=1) * np.log(2 * np.pi)
        for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
            precisions, log_det = cells.precisions(covariance)
            relative, y = cells.relative(mean, precisions)
            constant = np.log(max(weights[k], 1e-300)) - 0.5 * (log_det + size)
            joint[held, k] = constant[cells.which] - 0.5 * (relative * y).sum(axis=1)
    return joint


def expected_rows(
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    means: NDArray[np.float64],
    covariances: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Replace each missing cell by its conditional expectation given the known cells of its row."""
    joint = incomplete_log_joint(rows, weights, means, covariances)
    g = np.exp(joint - joint.max(axis=1, keepdims=True))
    g /= g.sum(axis=1, keepdims=True)
    expected = np.zeros_like(rows)
    for held, cells in known_cells(rows):
        for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
            _, y = cells.relative(mean, cells.precisions(covariance)[0])
            expected[held] += g[held, k][:, None] * (mean + y @ covariance)
    return np.where(np.isnan(rows), expected, rows)
