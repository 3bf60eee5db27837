"""The quality of a clustering, and the share of clipped rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.data import Domain
from dpem.data.domain import GRID
from dpem.engines import open_rows
from dpem.errors import InvalidArgumentError
from dpem.gate.single_release import ClippedRows, PrivateValue, release_one
from dpem.models.kmeans.nearest_centre import keeps_distances, squared_distance_to_nearest
from dpem.statistics.simple import LINEAR_BITS, IntervalSum, SquaredDistances

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.base import Ledger
    from dpem.gate.released import ReleasedStatistics

__all__ = ["clipped_fraction", "nicv", "private_nicv"]


def nicv(X: Any, centers: NDArray[np.float64], *, bounds: Any = None, schema: Schema | None = None) -> float:
    """Return the normalised intra-cluster variance: the mean squared distance to the nearest centre.

    The result is as sensitive as X. :func:`private_nicv` releases a number that may be published.

    Parameters
    ----------
    X : array, DataFrame, path or function
        Rows.
    centers : ndarray of shape (k, d)
        Cluster centres.
    bounds : (low, high), optional
        Public bounds of the columns. With them, distances are in widths of the bounds, as in
        :class:`dpem.KMeans` with ``scale="bounds"``; otherwise in the units of the columns.
    schema : Schema, optional
        Declared columns with public bounds; an alternative to bounds.

    Examples
    --------
    >>> import numpy as np
    >>> nicv(np.array([[0.0], [1.0], [5.0]]), np.array([[0.0], [4.0]]))
    0.6666666666666666
    >>> round(nicv(np.array([[0.0], [1.0], [5.0]]), np.array([[0.0], [4.0]]), bounds=(0, 10)), 6)
    0.006667
    """
    rows = open_rows(X, schema)
    points = _centers(centers)
    if points.shape[1] != rows.n_columns:
        raise InvalidArgumentError(
            f"Expected centers of shape (k, {rows.n_columns}), got shape {points.shape}. Pass one number per "
            f"column."
        )
    units = np.ones(rows.n_columns)
    if bounds is not None or schema is not None:
        low, high = Domain.from_arguments(rows.n_columns, bounds=bounds, schema=schema, names=rows.names).box
        units = high - low
    points = points / units
    total, n_rows = 0.0, 0
    for piece in rows.pieces():
        for block in piece.blocks():
            total += squared_distance_to_nearest(block.T / units, points)
            n_rows += block.shape[1]
    return total / max(n_rows, 1)


def private_nicv(
    X: Any,
    centers: NDArray[np.float64],
    *,
    epsilon: float,
    delta: float = 1e-6,
    bounds: Any = None,
    data_norm: float | None = None,
    schema: Schema | None = None,
    scale: str | None = None,
    adjacency: str = "replace_one",
    rows_per_person: int = 1,
    person: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> PrivateValue:
    """Release the normalised intra-cluster variance, with noise and for a charge.

    Rows are clipped to the public domain, so that squared distances are at most its squared diameter.

    Parameters
    ----------
    X : array, DataFrame, path, function, Dask or Spark table, or tensor
        Rows.
    centers : ndarray of shape (k, d)
        Public or released cluster centres.
    epsilon, delta, bounds, data_norm, schema, scale, adjacency, rows_per_person, person, ledger, n_jobs
        As in :class:`dpem.KMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(10_000, 2))
    >>> released = private_nicv(X, np.zeros((1, 2)), epsilon=1.0, data_norm=4.0)
    >>> abs(released.value - nicv(X, np.zeros((1, 2)))) < 8 * released.standard_error
    True
    """
    points = _centers(centers)

    def statistic(domain: Domain, private_n: bool) -> SquaredDistances:
        inside = points.ndim == 2 and len(points) >= 1 and points.shape[1] == domain.n_columns
        if not inside or not (np.linalg.norm((points - domain.centre) / domain.scale, axis=1) <= 1).all():
            raise InvalidArgumentError(
                f"Expected centers of shape (k, {domain.n_columns}) within the domain of the rows, got shape "
                f"{points.shape}, or a centre outside or not finite. Nothing was charged. Pass centres "
                f"within the bounds."
            )
        return SquaredDistances(domain.points_to_grid(points), counted=private_n)

    def value(domain: Domain, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
        n = n_rows if n_rows is not None else max(1.0, released.values[1] / 2.0**LINEAR_BITS)
        unit = statistic(domain, n_rows is None).unit * (domain.distance_unit / GRID) ** 2 / n
        return released.values[0] * unit, released.noise_stddev[0] * unit

    return release_one(
        X,
        statistic,
        value,
        purpose="private_nicv",
        keep_distances=keeps_distances(scale, bounds, schema),
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        data_norm=data_norm,
        schema=schema,
        adjacency=adjacency,
        rows_per_person=rows_per_person,
        person=person,
        ledger=ledger,
        n_jobs=n_jobs,
    )


def clipped_fraction(
    X: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    bounds: Any = None,
    data_norm: float | None = None,
    schema: Schema | None = None,
    adjacency: str = "replace_one",
    rows_per_person: int = 1,
    person: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> PrivateValue:
    """Release the fraction of rows that are clipped or contain NaN or infinity, with noise and for a charge.

    With a schema, rows count if a cell is out of bounds, not a number or an unknown category.

    Parameters
    ----------
    X : array, DataFrame, path, function, Dask or Spark table, or tensor
        Rows.
    epsilon, delta, bounds, data_norm, schema, adjacency, rows_per_person, person, ledger, n_jobs
        As in :class:`dpem.KMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 100, size=(10_000, 1))
    >>> abs(clipped_fraction(X, epsilon=1.0, bounds=(0, 75)).value - 0.25) < 0.05
    True
    """

    def value(_: Domain, released: ReleasedStatistics, n_rows: int | None) -> tuple[float, float]:
        n = n_rows if n_rows is not None else max(1.0, released.values[1] / GRID)
        return released.values[0] / GRID / n, released.noise_stddev[0] / GRID / n

    return release_one(
        X,
        lambda _, private_n: IntervalSum(counted=private_n),
        value,
        purpose="clipped_fraction",
        grid_of=ClippedRows,
        of_findings=schema is not None,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        data_norm=data_norm,
        schema=schema,
        adjacency=adjacency,
        rows_per_person=rows_per_person,
        person=person,
        ledger=ledger,
        n_jobs=n_jobs,
    )


def _centers(given: Any) -> NDArray[np.float64]:
    """Return cluster centres as an array of shape (k, d)."""
    points = _validate.array(given, "centers", "Pass public or released centres, of shape (k, d).")
    if points.ndim != 2 or not len(points):
        raise InvalidArgumentError(
            f"Expected centers of shape (k, d), got shape {points.shape}. Pass one row for each centre."
        )
    return points
