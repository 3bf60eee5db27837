"""A private score: the mean log-density of rows under a released mixture, clipped and with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from dpem.statistics.gaussian import GaussianComponents
from dpem.statistics.missing_cells import Frame, incomplete_parts
from dpem.statistics.simple import LINEAR_BITS, BoundedNumber
from dpem.statistics.softmax import softmax

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Domain, Schema
    from dpem.estimator.base import Ledger
    from dpem.gate.released import ReleasedStatistics
    from dpem.models.gaussian_mixture.density import BackgroundComponents

__all__ = ["KnownLogDensities", "LogDensities", "PrivateScoreMixin"]


@dataclass(frozen=True, eq=False)
class LogDensities(BoundedNumber):
    """Sum of log-densities, clipped to `low` and `high`, on 20 bits; counts rows if private. Eq. (S-8)."""

    components: GaussianComponents
    low: float
    high: float

    @classmethod
    def of_mixture(
        cls,
        weights: NDArray[np.float64],
        means: NDArray[np.float64],
        covariances: NDArray[np.float64],
        *,
        counted: bool,
    ) -> LogDensities:
        """Create the statistic of a mixture in units of the ball.

        The last component must be the Gaussian of the public domain, N(0, I/d).
        """
        d = means.shape[1]
        components = GaussianComponents.from_parameters(weights, means, cholesky(covariances))
        # Within the unit ball the last component alone reaches at least `low`. No density exceeds the sum of
        # all peaks.
        low = math.log(weights[-1]) + d / 2 * (math.log(d / (2 * math.pi)) - 1)
        peaks = components.constants
        high = float(peaks.max() + np.log(np.exp(peaks - peaks.max()).sum()))
        return cls(components, low, max(high, low + 1e-9), counted=counted)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum of scaled log-densities, and the count."""
        _, squared = self.components.frames(rows)
        _, largest, total = softmax(self.components.log_joint(squared))
        scaled = self._scaled_sum(largest + np.log(total))
        return np.array([scaled, rows.shape[1] << LINEAR_BITS][: self.size])

    def _scaled_sum(self, density: NDArray[np.float64]) -> int:
        part = (density - self.low) / (self.high - self.low)
        # NaN counts as the lowest value: no row may cause an exception.
        return int(np.floor(np.where(part > 0.0, np.minimum(part, 1.0), 0.0) * 2.0**LINEAR_BITS).sum())

    def mean(self, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
        """Return the mean log-density, in units of the ball, and its standard error."""
        n = float(n_rows) if n_rows is not None else max(1.0, float(released.values[1]) / 2.0**LINEAR_BITS)
        unit = (self.high - self.low) / 2.0**LINEAR_BITS / n
        part = float(released.values[0]) / 2.0**LINEAR_BITS / n
        # The noise of a private number of rows adds to the error, in proportion to the mean within the
        # interval.
        more = 1.0 if n_rows is not None else math.hypot(1.0, part)
        return self.low + part * (self.high - self.low), float(released.noise_stddev[0]) * unit * more


@dataclass(frozen=True, eq=False)
class KnownLogDensities(LogDensities):
    """`LogDensities` of known cells, in the units of the columns."""

    log_scale: NDArray[np.float64]  # of each column

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
        """Create the statistic as `of_mixture` does, with the scales of the columns."""
        d = means.shape[1]
        components = GaussianComponents.from_parameters(weights, means, cholesky(covariances))
        # A known cell adds `lowest` to the smallest value of the last component, and to a peak at most its
        # conditional log-density given all other cells.
        lowest = 0.5 * math.log(d / (2 * math.pi)) - log_scale
        low = math.log(weights[-1]) - d / 2 + float(np.minimum(lowest, 0.0).sum())
        precisions = np.diagonal(np.linalg.inv(covariances), axis1=1, axis2=2)
        highest = 0.5 * np.log(precisions / (2 * math.pi)) - log_scale
        peaks = np.log(weights) + np.maximum(highest, 0.0).sum(axis=1)
        high = float(peaks.max() + np.log(np.exp(peaks - peaks.max()).sum()))
        return cls(components, low, max(high, low + 1e-9), counted=counted, log_scale=log_scale)

    @cached_property
    def _frames(self) -> list[Frame]:
        return [Frame.of(self.components, k) for k in range(len(self.components.constants))]

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum of scaled log-densities of known cells, and the count."""
        total = 0
        for part in incomplete_parts(rows, np.arange(rows.shape[1])):
            joint = []
            for frame in self._frames:
                c, log_size = part.factor(frame)
                joint.append(frame.log_joint(part, part.places(frame, c), log_size))
            _, largest, sums = softmax(np.stack(joint))
            jacobian = np.zeros(len(part.held))
            for known, scale in zip(~part.missing.T, self.log_scale, strict=True):
                jacobian += np.where(known[part.which], scale, 0.0)
            total += self._scaled_sum(largest + np.log(sums) - jacobian)
        return np.array([total, rows.shape[1] << LINEAR_BITS][: self.size])


class PrivateScoreMixin:
    """The method `private_score` of a fitted mixture."""

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
        """Release the mean log-density of the rows, with noise and for a charge.

        Only known cells count if some are missing. Log-densities are clipped to public limits: the lower one
        is the weighted background of the domain, the upper one a bound of the density. Bounds,
        neighbouring relation and privacy unit are those of the model.

        Parameters
        ----------
        X : array, DataFrame, path, function, Dask or Spark table, or tensor
            Rows.
        epsilon, delta : float
            Privacy budget of this release.
        ledger : Ledger or path, optional
            Ledger to charge; the ledger of the model by default.

        Returns
        -------
        PrivateValue
            Object with `value`, `standard_error` and `privacy`.
        """
        check_columns(self, open_rows(X, self.schema, person=self.person))
        if ledger is None and self.ledger is None and self.charge_ is not None:
            raise InvalidArgumentError(
                f"Expected a ledger for private_score, got none. The model was charged to the ledger of "
                f"{self.charge_.ledger!r}, which a model file does not contain. Give it with ledger=... ."
            )
        if not len(self.background_.weights):
            raise InvalidArgumentError(
                "Expected a private model with a background, got one without. A single row could change the "
                "score without limit. Fit the model with background_weight above 0."
            )
        weights, means, covariances = self._all_components()

        def statistic(domain: Domain, private_n: bool) -> LogDensities:
            d = domain.n_columns
            inside = domain.points_to_grid(means) / GRID
            scaled = covariances / domain.scale[:, None] / domain.scale
            # The lower limit relies on the exact Gaussian of the public domain, not on the one in a file.
            inside[-1], scaled[-1] = np.zeros(d), np.eye(d) / d
            if self._allows_missing:
                return KnownLogDensities.of_known_cells(
                    weights, inside, scaled, np.log(domain.scale), counted=private_n
                )
            return LogDensities.of_mixture(weights, inside, scaled, counted=private_n)

        def value(domain: Domain, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
            number, error = statistic(domain, n_rows is None).mean(released, n_rows)
            if self._allows_missing:  # already in the units of the columns
                return number, error
            return number - float(np.log(domain.scale).sum()), error

        return release_one(
            X,
            statistic,
            value,
            purpose="private_score",
            grid_of=IncompleteRows if self._allows_missing else None,
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
