"""Dates, times and durations as whole numbers of a resolution, and back.

A date or time is a number of steps since 1970-01-01, a duration a number of steps. Times with a zone are
taken at UTC. Each cell is read by itself.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "RESOLUTIONS",
    "TIMES",
    "array_steps",
    "default_resolution",
    "from_steps",
    "text_of_steps",
    "time_steps",
]

TIMES = ("date", "datetime", "duration")
# NumPy's letters, and the microseconds of a step.
RESOLUTIONS = {
    "day": ("D", 86_400_000_000),
    "hour": ("h", 3_600_000_000),
    "minute": ("m", 60_000_000),
    "second": ("s", 1_000_000),
    "millisecond": ("ms", 1_000),
    "microsecond": ("us", 1),
}
_EPOCH = dt.datetime(1970, 1, 1)
_DURATION = re.compile(
    r"^\s*(?P<sign>-)?(?:(?P<days>\d+)\s*(?:d|days?),?\s*)?"
    r"(?:(?P<hours>\d+):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}(?:\.\d+)?))?)?\s*$",
    re.IGNORECASE,
)


def default_resolution(kind: str) -> str:
    """Return the resolution of a kind unless another is declared."""
    return "day" if kind == "date" else "second"


def time_steps(cell: Any, kind: str, resolution: str, form: str | None) -> float:
    """Return a date, time or duration as a number of steps; NaN or an exception for what is none.

    Examples
    --------
    >>> time_steps("1970-01-02", "date", "day", None), time_steps("02/01/1970", "date", "day", "%d/%m/%Y")
    (1.0, 1.0)
    >>> time_steps("1970-01-01T00:01:30", "datetime", "second", None)
    90.0
    >>> time_steps("1 day, 2:00:00", "duration", "hour", None), time_steps(90, "duration", "minute", None)
    (26.0, 90.0)
    """
    size = RESOLUTIONS[resolution][1]
    if kind == "duration":
        if isinstance(cell, int | float | np.integer | np.floating) and not isinstance(cell, bool):
            return float(np.rint(float(cell)))
        return _nearest(_duration(cell), size)
    return _floor(_moment(cell, form), size)


def _floor(delta: dt.timedelta, size: int) -> float:
    # A day is the day on which a moment lies: rounded down, also before 1970.
    return float((delta // dt.timedelta(microseconds=1)) // size)


def _nearest(delta: dt.timedelta, size: int) -> float:
    return float(round((delta // dt.timedelta(microseconds=1)) / size))


def _moment(cell: Any, form: str | None) -> dt.timedelta:
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if hasattr(cell, "to_pydatetime"):  # of pandas
        cell = cell.to_pydatetime(warn=False)
    if form is not None and isinstance(cell, int | np.integer) and not isinstance(cell, bool):
        cell = str(int(cell))  # 20240131 as %Y%m%d
    if isinstance(cell, str):
        text = cell.strip()
        iso = form is None
        cell = dt.datetime.fromisoformat(text) if iso else dt.datetime.strptime(text, str(form))
    if isinstance(cell, dt.datetime):
        if cell.tzinfo is not None:
            cell = cell.astimezone(dt.UTC).replace(tzinfo=None)
        moved: dt.timedelta = cell - _EPOCH
        return moved
    if isinstance(cell, dt.date):
        return dt.datetime.combine(cell, dt.time()) - _EPOCH
    raise TypeError


def _duration(cell: Any) -> dt.timedelta:
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, np.timedelta64):
        cell = cell.astype("timedelta64[us]").item()
    if isinstance(cell, dt.timedelta):  # that of pandas, too, without its nanoseconds
        return dt.timedelta(days=cell.days, seconds=cell.seconds, microseconds=cell.microseconds)
    found = _DURATION.match(cell)
    if found is None or found["days"] is found["hours"] is None:
        raise ValueError
    whole = dt.timedelta(
        days=int(found["days"] or 0),
        hours=int(found["hours"] or 0),
        minutes=int(found["minutes"] or 0),
        seconds=float(found["seconds"] or 0),
    )
    return -whole if found["sign"] else whole


def array_steps(cells: NDArray[Any], kind: str, resolution: str) -> NDArray[np.float64]:
    """Return NumPy's times or durations as numbers of steps; NaN for NaT, and for the other kind."""
    if cells.dtype.kind != ("m" if kind == "duration" else "M"):
        return np.full(len(cells), np.nan)
    missing = np.isnat(cells)
    size = RESOLUTIONS[resolution][1]
    # Microseconds hold 290,000 years; NumPy rounds finer units towards the past.
    microseconds = np.where(missing, np.zeros(1, cells.dtype), cells).astype(f"{cells.dtype.kind}8[us]")
    whole = microseconds.astype(np.int64)
    steps = np.rint(whole / size) if kind == "duration" else np.asarray(whole // size, dtype=np.float64)
    return np.where(missing, np.nan, steps)


def from_steps(steps: NDArray[np.float64], kind: str, resolution: str) -> NDArray[Any]:
    """Return numbers of steps as an array of NumPy's times or durations; NaN is NaT.

    Examples
    --------
    >>> from_steps(np.array([1.0, np.nan]), "date", "day")
    array(['1970-01-02', 'NaT'], dtype='datetime64[D]')
    """
    letter = RESOLUTIONS[resolution][0]
    missing = np.isnan(steps)
    whole = np.where(missing, 0.0, np.rint(steps)).astype(np.int64)
    times = whole.astype(f"timedelta64[{letter}]" if kind == "duration" else f"datetime64[{letter}]")
    times[missing] = np.array("NaT", dtype=times.dtype)
    return times


def text_of_steps(steps: float, kind: str, resolution: str, form: str | None = None) -> str:
    """Return one number of steps as text that `time_steps` reads.

    Examples
    --------
    >>> text_of_steps(1.0, "date", "day"), text_of_steps(26.0, "duration", "hour")
    ('1970-01-02', '1 day, 2:00:00')
    """
    if math.isnan(steps):
        return ""
    moved = dt.timedelta(microseconds=int(steps) * RESOLUTIONS[resolution][1])
    if kind == "duration":
        return str(moved) if moved >= dt.timedelta() else f"-{-moved}"
    moment = _EPOCH + moved
    if form is not None:
        return moment.strftime(form)
    return moment.date().isoformat() if kind == "date" else moment.isoformat()
