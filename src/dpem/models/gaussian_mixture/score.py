"""The mean log-density under a released mixture, with noise: each row's is clipped to public limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.data import IncompleteRows
from dpem.data.domain import GRID
from dpem.data.fitted_columns import check_columns
from dpem.engines import open_rows
from dpem.errors import InvalidArgumentError
from dpem.fitting.projection import cholesky
from dpem.gate.single_release import PrivateValue, release_one
from dpem.statistics.base import require_gaussian
from dpem.statistics.gaussian import GaussianComponents
from dpem.statistics.missing_patterns import PatternFrames
from dpem.statistics.simple import LINEAR_BITS, interval_sensitivity
from dpem.statistics.softmax import softmax

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Domain, Schema
    from dpem.estimator.base import Ledger
    from dpem.gate.released import ReleasedStatistics
    from dpem.models.gaussian_mixture.density import BackgroundComponents
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = ["KnownLogDensities", "LogDensities", "PrivateScoreMixin"]


@dataclass(frozen=True, eq=False)
class LogDensities:
    """Log-densities from `low` to `high` on 20 bits, and the number of rows where private. Eq. (S-8)."""

    components: GaussianComponents
    low: float
    high: float
    counted: bool
    noise_shape: None = None
    coarse_bits: int = 0

    @classmethod
    def of_mixture(
        cls,
        weights: NDArray[np.float64],
        means: NDArray[np.float64],
        covariances: NDArray[np.float64],
        *,
        counted: bool,
    ) -> LogDensities:
        """Take a mixture in units of the ball whose last component is the public domain's, N(0, I/d)."""
        d = means.shape[1]
        components = GaussianComponents.from_parameters(weights, means, cholesky(covariances))
        # In the unit ball the last component alone is never below this; no density is above all its peaks.
        low = math.log(weights[-1]) + d / 2 * (math.log(d / (2 * math.pi)) - 1)
        peaks = components.constants
        high = float(peaks.max() + np.log(np.exp(peaks - peaks.max()).sum()))
        return cls(components, low, max(high, low + 1e-9), counted)

    @property
    def size(self) -> int:
        """One, and one for the count."""
        return 1 + self.counted

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return that of numbers in an interval."""
        require_gaussian(norm)
        return interval_sensitivity(2.0**LINEAR_BITS, adjacency, counted=self.counted)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the scaled log-densities, then count."""
        _, squared = self.components.frames(rows)
        _, largest, total = softmax(self.components.log_joint(squared))
        scaled = self._scaled_sum(largest + np.log(total))
        return np.array([scaled, rows.shape[1] << LINEAR_BITS][: self.size])

    def _scaled_sum(self, density: NDArray[np.float64]) -> int:
        part = (density - self.low) / (self.high - self.low)
        # Written so that whatever is not a number counts as the lowest: no row may cause an error.
        return int(np.floor(np.where(part > 0.0, np.minimum(part, 1.0), 0.0) * 2.0**LINEAR_BITS).sum())

    def mean(self, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
        """Return the mean log-density, in units of the ball, and what the noise does to it."""
        n = float(n_rows) if n_rows is not None else max(1.0, float(released.values[1]) / 2.0**LINEAR_BITS)
        unit = (self.high - self.low) / 2.0**LINEAR_BITS / n
        part = float(released.values[0]) / 2.0**LINEAR_BITS / n
        # The noise of a private number of rows moves the mean too, by the mean's own place in the interval.
        spread = 1.0 if n_rows is not None else math.hypot(1.0, part)
        return self.low + part * (self.high - self.low), float(released.noise_stddev[0]) * unit * spread


@dataclass(frozen=True, eq=False)
class KnownLogDensities(LogDensities):
    """`LogDensities` of the cells that are known, each in the user's units."""

    log_scale: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # of every column

    @classmethod
    def of_known_cells(
        cls,
        weights: NDArray[np.float64],
        means: NDArray[np.float64],
        covariances: NDArray[np.float64],
        log_scale: NDArray[np.float64],
        *,
        counted: bool,
    ) -> KnownLogDensities:
        """Take a mixture as `of_mixture` does, and the scale of every column."""
        d = means.shape[1]
        components = GaussianComponents.from_parameters(weights, means, cholesky(covariances))
        # A known cell adds to the last component's lowest value, and to a peak no more than given all others.
        lowest = 0.5 * math.log(d / (2 * math.pi)) - log_scale
        low = math.log(weights[-1]) - d / 2 + float(np.minimum(lowest, 0.0).sum())
        precisions = np.diagonal(np.linalg.inv(covariances), axis1=1, axis2=2)
        highest = 0.5 * np.log(precisions / (2 * math.pi)) - log_scale
        peaks = np.log(weights) + np.maximum(highest, 0.0).sum(axis=1)
        high = float(peaks.max() + np.log(np.exp(peaks - peaks.max()).sum()))
        return cls(components, low, max(high, low + 1e-9), counted, log_scale=log_scale)

    @cached_property
    def _frames(self) -> PatternFrames:
        return PatternFrames(self.components)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the scaled log-densities of known cells, then count."""
        total = 0
        for held, which, frames in self._frames.groups(rows):
            joint = frames.log_joint(which, np.nan_to_num(rows[:, held]))
            _, largest, sums = softmax(joint)
            jacobian = np.zeros(len(held))
            for known, scale in zip(~frames.missing.T, self.log_scale, strict=True):
                jacobian += np.where(known[which], scale, 0.0)
            total += self._scaled_sum(largest + np.log(sums) - jacobian)
        return np.array([total, rows.shape[1] << LINEAR_BITS][: self.size])


class PrivateScoreMixin:
    """What every fitted private mixture offers for a score that may be published."""

    covariance_type: str
    bounds: Any
    data_norm: float | None
    schema: Schema | None
    adjacency: str
    rows_per_person: int
    person: str | None
    ledger: Ledger | str | os.PathLike[str] | None
    n_jobs: int | None
    background_: BackgroundComponents
    charge_: Any

    if TYPE_CHECKING:

        @property
        def _allows_missing(self) -> bool: ...
        def _all_components(
            self,
        ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...

    def private_score(
        self,
        X: Any,
        *,
        epsilon: float,
        delta: float = 1e-6,
        ledger: Ledger | str | os.PathLike[str] | None = None,
    ) -> PrivateValue:
        """Return the mean log-density of the rows with noise, charged; of known cells where some are missing.

        Log-densities are clipped to public limits: from below the domain's own background at its weight, from
        above the density's largest value. Bounds, relation and unit are those of the model.

        Parameters
        ----------
        X : array, DataFrame, path, function, Dask or Spark table, or tensor
            Rows.
        epsilon, delta : float
            The budget of this number.
        ledger : Ledger or path, optional
            Where it is charged: the model's own ledger unless given.

        Returns
        -------
        PrivateValue
            With `value`, `standard_error` and `privacy`.
        """
        check_columns(self, open_rows(X, self.schema, person=self.person))
        if ledger is None and self.ledger is None and self.charge_ is not None:
            raise InvalidArgumentError(
                f"Expected a ledger for private_score: this model was charged to that of "
                f"{self.charge_.ledger!r}, which a file does not hold. Give it with ledger=... ."
            )
        if not len(self.background_.weights):
            raise InvalidArgumentError(
                "Expected a fitted private model with a background: without one a single row could move the "
                "score without limit. Fit with background_weight above 0."
            )
        weights, means, covariances = self._all_components()

        def statistic(domain: Domain, private_n: bool) -> LogDensities:
            d = domain.n_columns
            inside = domain.points_to_grid(means) / GRID
            scaled = covariances / domain.scale[:, None] / domain.scale
            # The limit below rests on the public domain's own Gaussian: not as a file has it, but as it is.
            inside[-1], scaled[-1] = np.zeros(d), np.eye(d) / d
            if self._allows_missing:
                return KnownLogDensities.of_known_cells(
                    weights, inside, scaled, np.log(domain.scale), counted=private_n
                )
            return LogDensities.of_mixture(weights, inside, scaled, counted=private_n)

        def value(domain: Domain, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
            number, error = statistic(domain, n_rows is None).mean(released, n_rows)
            if self._allows_missing:  # already in the user's units
                return number, error
            return number - float(np.log(domain.scale).sum()), error

        return release_one(
            X,
            statistic,
            value,
            purpose="private_score",
            map_rows=IncompleteRows if self._allows_missing else None,
            missing=self._allows_missing,
            epsilon=epsilon,
            delta=delta,
            bounds=self.bounds,
            data_norm=self.data_norm,
            schema=self.schema,
            adjacency=self.adjacency,
            rows_per_person=self.rows_per_person,
            person=self.person,
            ledger=self.ledger if ledger is None else ledger,
            n_jobs=self.n_jobs,
            keep_distances=self.covariance_type == "spherical",
        )
