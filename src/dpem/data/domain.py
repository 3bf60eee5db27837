r"""The public domain of rows: a ball that contains every possible row, and the integer grid on it.

A row x is clipped to the declared bounds, mapped to ``u = (x - centre) / radius`` in the unit ball, clipped
there, and rounded to multiples of 2^-24. The result is a vector of integers whose Euclidean norm is at most
2^24, checked in integers. Sums of such vectors are exact. Every step works on one row at a time, in a fixed
order, so that no row can change the bits of another.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpem import _validate
from dpem.data.table_types import did_you_mean, listed
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data.schema import Schema

__all__ = ["GRID", "Domain", "IncompleteRows", "RowGrid", "norm_squared"]

GRID_BITS = 24
GRID = 2.0**GRID_BITS
_BOUNDS_REMEDY = (
    "Pass bounds=(low, high), each a number or one number per column, or a mapping of column names to pairs, "
    'such as bounds={"age": (0, 120)}.'
)
_SMALLEST_RADIUS = 1e-100  # squares of smaller numbers underflow


class RowGrid(Protocol):
    """A map from rows to integers of at most 24 bits, one row at a time.

    Each statistic expects rows of a particular grid, and relies on the bounds of that grid. Most grids map
    rows to points of norm at most 2^24.
    """

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a block of shape (columns, rows) to integers (as floats), with NaN for missing cells."""
        ...


@dataclass(frozen=True, eq=False)
class Domain:
    """A public ball or ellipsoid in the user's units, with column bounds if they were declared.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        The centre.
    scale : ndarray of shape (d,)
        The half-axes: a distance of `scale[j]` along column j becomes 1. All are equal (the radius of a ball)
        if distances keep their proportions.
    low, high : ndarray of shape (d,), or None
        Column bounds, to which rows are clipped first.
    schema : Schema, optional
        The schema that declares the bounds.
    keeps_distances : bool
        Whether distances keep their proportions; if not, columns are scaled by the widths of their bounds.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None
    schema: Schema | None = None
    keeps_distances: bool = True

    @classmethod
    def from_arguments(
        cls,
        n_columns: int,
        *,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        names: Sequence[str] | None = None,
        keep_distances: bool = True,
    ) -> Domain:
        """Build the domain from exactly one of the arguments `bounds`, `data_norm` and `schema`.

        `bounds` is a pair (low, high), each a number or one number per column, or a mapping of the names of
        the columns to their pairs.

        With `keep_distances`, the box of the bounds is enclosed in a ball in the user's units. Without, every
        column is scaled by its own bounds, so that columns with small units count as much as others.
        """
        given = [
            n for n, v in (("bounds", bounds), ("data_norm", data_norm), ("schema", schema)) if v is not None
        ]
        if len(given) != 1:
            columns = f" for {_validate.shown_names(names)}" if names is not None else ""
            what = (
                f"Declare public limits{columns}, best in schema=dpem.Schema({{...}}), which also states "
                f"kinds and units; or pass bounds=(low, high) with numbers or one per column, or "
                f"data_norm=R for rows of norm at most R. dpem never infers limits from the data."
                if not given
                else f"Leave out {' and '.join(given[:-1])}: {given[-1]} suffices."
            )
            raise InvalidArgumentError(
                f"Expected exactly one of bounds, data_norm and schema, got {' and '.join(given) or 'none'}. "
                f"{what}"
            )
        if data_norm is not None:
            radius = _validate.within(data_norm, "data_norm", _SMALLEST_RADIUS, 1 / _SMALLEST_RADIUS)
            return cls(np.zeros(n_columns), np.full(n_columns, radius), None, None)
        if schema is not None:
            bounds, names = schema.bounds, schema.names
        low, high = _column_bounds(bounds, n_columns, names)
        with np.errstate(all="ignore"):
            centre = (low + high) / 2
            widest = float((high - low).max())
            # Rounded up slightly, so that the corners of the box stay inside.
            if keep_distances:
                radius = widest * np.sqrt((((high - low) / widest / 2) ** 2).sum()) * (1 + 1e-12)
                scale = np.full(n_columns, radius)
            else:
                scale = (high - low) * (np.sqrt(n_columns) / 2 * (1 + 1e-12))
        smallest, largest = float(scale.min()), float(scale.max())
        if (
            not (smallest >= _SMALLEST_RADIUS and largest <= 1 / _SMALLEST_RADIUS)
            or not np.isfinite(centre).all()
        ):
            raise InvalidArgumentError(
                f"Expected bounds between {_SMALLEST_RADIUS:g} and {1 / _SMALLEST_RADIUS:g} wide, got "
                f"{smallest:g} to {largest:g} from centre to corner. Change the unit of the columns."
            )
        return cls(centre, scale, low, high, schema, keep_distances)

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.centre)

    @property
    def radius(self) -> float:
        """The radius of the ball; the longest half-axis of an ellipsoid."""
        return float(self.scale.max())

    @property
    def distance_unit(self) -> float:
        """The distance that 1 in the unit ball stands for, in the user's units or in widths of the bounds."""
        if self.low is None or self.high is None or self.keeps_distances:
            return self.radius
        return float(self.scale[0] / (self.high[0] - self.low[0]))

    @property
    def source(self) -> str:
        """The origin of the bounds, for the privacy statement."""
        return "declared" if self.schema is None else self.schema.source

    @property
    def box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The bounds of the columns, or of the box around the ball if none were declared."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        return self.centre - self.scale, self.centre + self.scale

    @property
    def grid_box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The column bounds in grid units; None for a ball."""
        if self.low is None or self.high is None:
            return None
        return (self.low - self.centre) / self.scale * GRID, (self.high - self.centre) / self.scale * GRID

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a block of shape (columns, rows) to integers (as floats) of norm at most 2^24 for each row.

        A row with a cell that is not a finite number becomes zero, the middle of the bounds. Rows are never
        dropped and never raise.
        """
        d, largest = self.n_columns, self._largest
        u = np.empty(columns.shape, dtype=np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            for j in range(d):
                column = columns[j]
                if self.low is not None and self.high is not None:
                    column = np.minimum(np.maximum(column, self.low[j]), self.high[j])
                np.subtract(column, self.centre[j], out=u[j])
                u[j] /= self.scale[j]
            good = np.isfinite(columns).all(axis=0)
            norm = np.sqrt(norm_squared(u))
            good &= np.isfinite(norm)
            scale = GRID * np.minimum(1.0, largest / np.maximum(norm, largest))
            np.multiply(u, scale, out=u)
        np.rint(u, out=u)
        u[:, ~good] = 0.0
        # Every sensitivity relies on this bound. It is checked in integers, which float64 holds exactly below
        # 2^53.
        u[:, norm_squared(u) > GRID * GRID] = 0.0
        return u

    @property
    def _largest(self) -> float:
        """Norm that rounding cannot lift above 1: it moves a row by at most sqrt(d)/2 grid steps."""
        return float(1 - np.sqrt(self.n_columns) * 2.0 ** -(GRID_BITS + 1) - 2.0**-40)  # and float error

    def write_single(self, columns: NDArray[np.float64], kernels: Any, out: NDArray[np.float32]) -> None:
        """Write cells to `out` as `to_grid` does, compiled; single precision holds integers up to 2^24."""
        self._write_compiled(columns, kernels, out, keep_missing=False)

    def _write_compiled(
        self, columns: NDArray[np.float64], kernels: Any, out: NDArray[np.float32], *, keep_missing: bool
    ) -> None:
        d = self.n_columns
        low = np.full(d, -np.inf) if self.low is None else self.low
        high = np.full(d, np.inf) if self.high is None else self.high
        kernels.rows_to_grid(
            columns, low, high, self.centre, self.scale, self._largest, GRID, keep_missing, out
        )

    def to_grid_tensor(self, columns: Any) -> Any:
        """Convert a tensor on a device, as `to_grid` does."""
        from dpem.data import device_grid  # noqa: PLC0415  (needs the extra `gpu`)

        return device_grid.to_grid(self, columns)

    def changed(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one column: 2^24 for each row that the bounds clip or that is not finite, else 0."""
        with np.errstate(invalid="ignore", over="ignore"):
            if self.low is not None and self.high is not None:
                inside = (columns >= self.low[:, None]) & (columns <= self.high[:, None])
                good = inside.all(axis=0)
            else:
                good = norm_squared((columns - self.centre[:, None]) / self.scale[:, None]) <= 1.0
        return np.where(good, 0.0, GRID)[None]

    def from_grid(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map points of shape (..., d) in grid units back to the user's units."""
        scaled: NDArray[np.float64] = np.asarray(points) * (self.scale / GRID)
        return scaled + self.centre

    def clip(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Clip rows of shape (..., d) in the user's units to the bounds, or to the ball."""
        if self.low is not None and self.high is not None:
            return np.minimum(np.maximum(rows, self.low), self.high)
        relative = rows - self.centre
        norm = np.sqrt(np.nansum((relative / self.scale) ** 2, axis=-1, keepdims=True))  # NaN: missing cells
        return np.asarray(self.centre + relative / np.maximum(norm, 1.0))

    def points_to_grid(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map public points of shape (k, d) in the user's units onto the grid, inside the ball."""
        u = (np.asarray(points, dtype=np.float64) - self.centre) / self.scale
        return onto_grid(u * GRID)

    def describe(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Describe the bounds in words, for the privacy statement."""
        if self.schema is not None:
            return self.schema.describe()
        if self.low is None or self.high is None:
            return {"every row": f"Euclidean norm at most {self.radius:g}"}
        names = names if names is not None else [f"x{j}" for j in range(self.n_columns)]
        return {
            str(name): f"{low:.10g} to {high:.10g}"
            for name, low, high in zip(names, self.low, self.high, strict=True)
        }


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """A `RowGrid` of a domain for rows with missing cells: NaN stays NaN."""

    domain: Domain

    def to_grid(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a block of shape (columns, rows) to integers; only cells that are not finite become NaN."""
        missing = ~np.isfinite(columns)
        grid = self.domain.to_grid(np.where(missing, self.domain.centre[:, None], columns))
        grid[missing] = np.nan
        return grid

    def write_single(self, columns: NDArray[np.float64], kernels: Any, out: NDArray[np.float32]) -> None:
        """Write cells to `out` as `to_grid` does, compiled, in single precision."""
        self.domain._write_compiled(columns, kernels, out, keep_missing=True)


def norm_squared(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared norm of every row, summed column by column in a fixed order."""
    total: NDArray[np.float64] = columns[0] * columns[0]
    for column in columns[1:]:
        total += column * column
    return total


def onto_grid(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round public points of shape (k, d) in grid units to integers of norm at most 2^24."""
    points = np.nan_to_num(np.asarray(points, dtype=np.float64))
    d = points.shape[-1]
    largest = GRID - np.sqrt(d)
    norm = np.sqrt((points**2).sum(axis=-1, keepdims=True))
    return np.asarray(np.rint(points * np.minimum(1.0, largest / np.maximum(norm, largest))))


def _column_bounds(
    bounds: Any, n_columns: int, names: Sequence[str] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower and the upper bounds of all columns."""
    named = [f"x{j}" for j in range(n_columns)] if names is None else list(map(str, names))
    if isinstance(bounds, Mapping):
        bounds = _by_name(bounds, names)
    else:
        _refuse_two_readings(bounds, n_columns, named)
    try:
        low, high = tuple(bounds) if not isinstance(bounds, str | bytes) else ("", "")
        low, high = (np.broadcast_to(_numbers(bound), (n_columns,)) for bound in (low, high))
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(
            f"Expected bounds for {n_columns} column{'s' * (n_columns > 1)}, got {_form_of(bounds)}. "
            f"{_pairs_remedy(bounds, named) or _BOUNDS_REMEDY}"
        ) from None
    wrong = np.flatnonzero(~((low < high) & np.isfinite(low) & np.isfinite(high)))
    if wrong.size:
        j = int(wrong[0])
        remedy = _pairs_remedy(bounds, named) or _BOUNDS_REMEDY
        raise InvalidArgumentError(
            f"Expected finite bounds low < high, got {_validate.shown((low[j], high[j]))} for column "
            f"{_validate.shown(named[j])}. {remedy}"
        )
    return low.copy(), high.copy()


def _numbers(bound: Any) -> NDArray[np.float64]:
    """Convert bounds to an array; text is refused, which NumPy would convert."""
    given = np.asarray(bound)
    if given.dtype.kind in "US" or (
        given.dtype.kind == "O" and any(isinstance(one, str | bytes) for one in given.flat)
    ):
        raise TypeError
    return np.asarray(given, dtype=np.float64)


def _form_of(bounds: Any) -> str:
    """Describe bounds that have no valid form, without their values."""
    if not isinstance(bounds, list | tuple | np.ndarray):
        return "bounds of another form"
    parts = list(bounds)
    flat = [one for part in parts for one in np.ravel(np.array(part, dtype=object))]
    if any(isinstance(one, str | bytes) for one in flat):
        return "text instead of numbers"
    if len(parts) == 2 and all(np.ndim(part) <= 1 for part in parts):
        return f"{np.size(parts[0])} lower and {np.size(parts[1])} upper bounds"
    return "bounds of another form"


def _are_pairs(parts: Sequence[Any], n_columns: int) -> bool:
    """Whether bounds are a pair (low, high) for each column."""
    if len(parts) != n_columns or not all(isinstance(p, list | tuple) and len(p) == 2 for p in parts):
        return False
    return all(
        isinstance(low, numbers.Real) and isinstance(high, numbers.Real) and low < high for low, high in parts
    )


def _pairs_remedy(bounds: Any, names: Sequence[str]) -> str:
    """Return how to pass a pair for each column, if the bounds look like that; else ""."""
    parts = list(bounds) if isinstance(bounds, list | tuple) else []
    if not _are_pairs(parts, len(names)):
        return ""
    first = f"{_validate.shown(names[0])}: {_validate.shown(tuple(parts[0]))}"
    more = ", ..." if len(parts) > 1 else ""
    return f"These look like one pair for each column: pass a mapping, bounds={{{first}{more}}}."


def _by_name(bounds: Mapping[Any, Any], names: Sequence[str] | None) -> tuple[list[Any], list[Any]]:
    """Return the lower and the upper bounds from a mapping of column names to pairs."""
    if names is None:
        raise InvalidArgumentError(
            "Expected columns with names for bounds by name, got columns without names. Pass a DataFrame, or "
            "bounds=(low, high) with one number per column."
        )
    unknown, lacking = [name for name in bounds if name not in names], [n for n in names if n not in bounds]
    if unknown or lacking:
        what = f"unknown columns {_validate.shown_names(unknown)}" if unknown else ""
        what += f"{' and ' if unknown and lacking else ''}no bounds for {listed(lacking)}" if lacking else ""
        raise InvalidArgumentError(
            f"Expected bounds for every column, got {what}. {did_you_mean(unknown, names)}Name each column "
            f"of the table once."
        )
    pairs = [bounds[name] for name in names]
    for name, pair in zip(names, pairs, strict=True):
        if not isinstance(pair, list | tuple | np.ndarray) or np.shape(pair) != (2,):
            raise _validate.fail(f"bounds (low, high) for column {_validate.shown(name)}", "bounds", pair)
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _refuse_two_readings(bounds: Any, n_columns: int, names: Sequence[str]) -> None:
    """Raise if the bounds of two columns may be (lows, highs), or one pair (low, high) for each column."""
    if n_columns != 2 or not isinstance(bounds, list | tuple) or len(bounds) != 2:
        return
    if not all(isinstance(part, list | tuple) and len(part) == 2 for part in bounds):
        return
    (a, b), (c, d) = bounds
    if not all(isinstance(bound, numbers.Real) for bound in (a, b, c, d)):
        return
    if a < c and b < d and a < b and c < d and b != c:  # with b == c both readings are the same
        first, second = map(_validate.shown, names)
        raise InvalidArgumentError(
            f"Expected bounds with one meaning, got two lists of two numbers. They may be lower and upper "
            f"bounds (column {first} from {a:g} to {c:g}, {second} from {b:g} to {d:g}), or one pair per "
            f"column ({first} from {a:g} to {b:g}, {second} from {c:g} to {d:g}). Pass a mapping such as "
            f"bounds={{{first}: (low, high), {second}: (low, high)}}, or lower and upper bounds as arrays: "
            f"bounds=(np.array([...]), np.array([...]))."
        )
