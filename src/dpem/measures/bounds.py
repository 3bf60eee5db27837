"""Private estimates of the bounds of columns, for a charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem._warnings import warn
from dpem.data import Schema
from dpem.data.column import LARGEST
from dpem.data.schema import require_schema
from dpem.data.sources.on_device import without_device
from dpem.data.times import RESOLUTIONS, time_steps
from dpem.engines import rows_to_release
from dpem.errors import InvalidArgumentError, WeakSignalWarning
from dpem.estimator.base import Adjacency, PrivacyStatement
from dpem.gate.opening import open_gate
from dpem.gate.plan import Plan, PrivacyUnit, Stage
from dpem.statistics.contingency import Histograms

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from dpem.data import Column
    from dpem.estimator.base import Ledger
    from dpem.gate.released import ReleasedStatistics

__all__ = ["PrivateBounds", "private_bounds"]

# Powers of two from 2^-100 to 2^333, the largest bound, have bins of their own; smaller numbers count as
# zero.
_SMALLEST, _LARGEST = -100, 333
_SIZES = _LARGEST - _SMALLEST + 1
_MAGNITUDES = 2 * _SIZES + 1
_PARTS = 128  # bins of the range of the rows
_SHARES = {"magnitudes": 0.4, "quantiles": 0.6}  # of mu^2
_FALSE = 1e-6  # probability that noise alone makes any bin of a column look occupied


@dataclass(frozen=True, repr=False)
class PrivateBounds:
    """Estimated bounds and their cost.

    Attributes
    ----------
    schema : Schema
        The schema with the estimated bounds. Each estimated column records its cost.
    privacy : PrivacyStatement
        The guarantee of the estimate. The budget of a fit with these bounds comes on top.
    """

    schema: Schema
    privacy: PrivacyStatement

    def __repr__(self) -> str:
        return f"{self.schema!r}\n{self.privacy}"

    def _repr_html_(self) -> str:
        return self.schema._repr_html_() + self.privacy._repr_html_()


def private_bounds(
    X: Any,
    schema: Schema | None = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    coverage: float = 0.99,
    adjacency: str = "replace_one",
    rows_per_person: int = 1,
    person: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> PrivateBounds:
    """Estimate bounds for the columns of numbers without bounds, with noise and for a charge.

    Public knowledge is better and free: for example, an age is at most 120 in any table. Without such
    knowledge, this function releases two noisy histograms for all columns at once: one of magnitudes, and one
    over the range of the occupied magnitudes. The bounds cover about `coverage` of the rows of each column,
    as far as the noise allows. Columns with declared bounds keep them and are not read.

    Parameters
    ----------
    X : array, DataFrame, path, function, Dask or Spark table
        Rows (docs/how-to/scale.md). Files, functions and clusters need a schema.
    schema : Schema, optional
        Draft of a schema; by default drafted from the names and types of X (:meth:`Schema.from_types`).
    epsilon, delta : float
        Privacy budget of the bounds alone.
    coverage : float, default 0.99
        Share of the rows of each column within the bounds.
    adjacency, rows_per_person, person, ledger, n_jobs
        As in :class:`dpem.KMeans`.

    Returns
    -------
    PrivateBounds
        Object with `schema` and `privacy`.

    Warns
    -----
    WeakSignalWarning
        If nothing stands out of the noise in a column. The column then stays without bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> ages = np.random.default_rng(0).normal(45, 15, size=20_000).clip(0, 110)
    >>> found = private_bounds(pd.DataFrame({"age": ages}), epsilon=0.5)
    >>> low, high = found.schema.columns[0].bounds
    >>> 0 <= low <= 16 and 65 <= high <= 129
    True
    >>> found.schema.columns[0].bounds_cost
    (0.5, 1e-06)
    """
    coverage = _validate.within(coverage, "coverage", 0.5, 1 - 1e-9)
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    relation = Adjacency.parse(adjacency)
    X = without_device(X)  # the processor computes bounds
    schema = _draft(X, schema, person)
    wanted = [column for column in schema.columns if column.is_number and column.bounds is None]
    if not wanted:
        raise InvalidArgumentError(
            "Expected a column of numbers without bounds, got a schema that declares all bounds. Nothing was "
            "charged, and no estimate is needed."
        )
    unit = PrivacyUnit(rows_per_person, person)
    read = wanted if hasattr(X, "columns") else schema.columns  # select by name, or read all by position
    every = Schema({column.name: _anything(column) for column in read})
    source = rows_to_release(X, every, relation, unit.rows_per_person, unit.person)
    if len(read) > len(wanted):
        source = source.only([j for j, column in enumerate(read) if column in wanted])
    one_row = Histograms.of_columns([1] * len(wanted)).sensitivity(relation)
    plan = Plan.build(
        [Stage(name, share, one_row) for name, share in _SHARES.items()],
        epsilon=epsilon,
        delta=delta,
        adjacency=relation,
        unit=unit,
    )
    gate = open_gate(
        plan,
        source,
        _Magnitudes(),
        ledger=ledger,
        schema=schema,
        n_jobs=n_jobs,
        purpose="dpem.private_bounds",
        identity=[schema.to_dict(), coverage, source.n_rows if relation.n_rows_public else None],
    )
    magnitudes = gate.release("magnitudes", Histograms.of_columns([_MAGNITUDES + 1] * len(wanted)))
    ranges = [_filled_range(noisy, noise) for noisy, noise in _by_column(magnitudes, len(wanted))]
    parts = _Parts(np.array([low for low, _ in ranges]), np.array([high for _, high in ranges]))
    quantiles = gate.release("quantiles", Histograms.of_columns([_PARTS + 1] * len(wanted)), parts)
    gate.close()
    cost: dict[str, Any] = {"bounds_cost": [epsilon, delta], "bounds_insecure": gate.insecure_noise}
    if gate.charge is not None:
        cost["bounds_charge"] = gate.charge.to_dict()
    declared, lost = {}, []
    for column, (low, high), (noisy, noise) in zip(
        wanted, ranges, _by_column(quantiles, len(wanted)), strict=True
    ):
        if math.isnan(low):
            lost.append(column.name)
            continue
        bounds = _holding(noisy[1:], noise, low, high, coverage)
        declared[column.name] = {"bounds": _tidy(column, *bounds)} | cost
    if lost:
        warn(
            f"Expected values that stand out of the noise in {', '.join(map(repr, lost))}, got only noise, "
            f"so no bounds were found. Declare the bounds, or use a larger epsilon.",
            WeakSignalWarning,
        )
    return PrivateBounds(schema.declare(declared), gate.statement())


def _anything(column: Column) -> dict[str, Any]:
    """Return a declaration that reads any number, or any date or time."""
    declared = column.cell_format.to_dict(column.kind) | {"missing": True}
    if column.is_time:
        widest = (
            ["-9999999 days", "9999999 days"] if column.kind == "duration" else ["0001-01-01", "9999-12-31"]
        )
        return declared | {"kind": column.kind, "bounds": widest}
    return (declared if column.is_number else {"missing": True}) | {
        "kind": "continuous",
        "bounds": [-LARGEST, LARGEST],
    }


def _draft(X: Any, schema: Schema | None, person: str | None) -> Schema:
    if schema is not None:
        return require_schema(schema)
    shape = getattr(X, "shape", None)
    if isinstance(X, np.ndarray) and len(shape or ()) == 2:
        return Schema({f"x{j}": {"kind": "continuous"} for j in range(X.shape[1])})
    draft = Schema.from_types(X)
    # pandas stores integers as floats if a single cell is null: draft both in the same way.
    types: Any = getattr(X, "dtypes", None)
    types = types if hasattr(types, "items") else {}
    inferred = [name for name, dtype in types.items() if isinstance(dtype, np.dtype)]
    whole = [c.name for c in draft.columns if c.kind == "integer" and c.name in inferred]
    draft = draft.declare({name: {"kind": "continuous"} for name in whole})
    return draft.select([name for name in draft.names if name != person])


@dataclass(frozen=True)
class _Magnitudes:
    """Rows as sign and power of two of each cell (a `RowGrid`); bin 0 holds cells that are not numbers."""

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the bin of each cell's magnitude."""
        _, exponents = np.frexp(columns)
        size = np.clip(exponents.astype(np.float64), _SMALLEST - 1, _LARGEST) - (_SMALLEST - 1)
        size[columns == 0] = 0.0
        place = 1.0 + _SIZES + np.sign(columns) * size
        return np.where(np.isnan(columns), 0.0, place)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Rows as equal bins of each column's range (a `RowGrid`); bin 0 holds cells that are not numbers."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the bin of each cell; cells beyond the range fall into the first or last bin."""
        part = np.floor((columns - self.low[:, None]) / (self.high - self.low)[:, None] * _PARTS)
        place = 1.0 + np.minimum(np.maximum(part, 0.0), _PARTS - 1)
        return np.where(np.isnan(place), 0.0, place)


def _by_column(released: ReleasedStatistics, m: int) -> list[tuple[NDArray[np.float64], float]]:
    return [(noisy, float(released.noise_stddev[0])) for noisy in released.values.reshape(m, -1)]


def _filled_range(noisy: NDArray[np.float64], noise: float) -> tuple[float, float]:
    """Return the range of all magnitudes whose count stands out of the noise, or NaN."""
    filled = np.flatnonzero(noisy[1:] > _beyond_noise(noisy, noise))
    if not filled.size:
        return math.nan, math.nan
    low, high = _edges(int(filled[0]))[0], _edges(int(filled[-1]))[1]
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _beyond_noise(noisy: NDArray[np.float64], noise: float) -> float:
    """Return the count that noise alone hardly ever reaches in any bin."""
    return noise * math.sqrt(2 * math.log(len(noisy) / _FALSE))


def _edges(place: int) -> tuple[float, float]:
    """Return the smallest and the largest number of a magnitude."""
    size = place - _SIZES
    if size == 0:
        return 0.0, 0.0
    inner = 2.0 ** (abs(size) + _SMALLEST - 2) if abs(size) > 1 else 0.0
    outer = 2.0 ** (abs(size) + _SMALLEST - 1)
    return (inner, outer) if size > 0 else (-outer, -inner)


def _holding(
    noisy: NDArray[np.float64], noise: float, low: float, high: float, coverage: float
) -> tuple[float, float]:
    """Remove bins at both ends, up to the first bin that is surely occupied and at most the tails."""
    tail = (1 - coverage) / 2 * max(noisy.sum(), 0.0)
    width = (high - low) / _PARTS
    cut = []
    for counts in (noisy, noisy[::-1]):
        too_many = np.flatnonzero((np.cumsum(counts) > tail) | (counts > _beyond_noise(noisy, noise)))
        cut.append(min(int(too_many[0]) if too_many.size else 0, _PARTS // 2 - 1))
    return low + cut[0] * width, high - cut[1] * width


def _tidy(column: Column, low: float, high: float) -> list[Any]:
    if column.is_whole:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(float(low), -LARGEST), min(float(high), LARGEST)
    if not column.is_time:
        return [low, high]
    limit = 9_999_999 * 86_400_000_000 // RESOLUTIONS[column.resolution][1]
    first, last = (
        (-limit, limit)
        if column.kind == "duration"
        else (
            time_steps("0001-01-01", column.kind, column.resolution, None),
            time_steps("9999-12-31", column.kind, column.resolution, None),
        )
    )
    return [column.value_text(min(max(bound, first), last)) for bound in (low, high)]
