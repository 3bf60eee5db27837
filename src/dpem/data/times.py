"""Convert dates, times and durations to whole numbers of steps, and back.

The resolution of the column defines the step. A date or time becomes the number of steps since 1970-01-01, a
duration the number of steps. Times with a time zone are converted to UTC. Each cell is read by itself.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import numbers
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
    "is_whole_format",
    "text_of_steps",
    "time_steps",
]

TIMES = ("date", "datetime", "duration")
# NumPy's unit, and the number of microseconds in a step.
RESOLUTIONS = {
    "day": ("D", 86_400_000_000),
    "hour": ("h", 3_600_000_000),
    "minute": ("m", 60_000_000),
    "second": ("s", 1_000_000),
    "millisecond": ("ms", 1_000),
    "microsecond": ("us", 1),
}
_EPOCH = dt.datetime(1970, 1, 1)
_PARTS = ("days", "hours", "minutes", "seconds")
_NUMBER = re.compile(r"^[+-]?\d+(\.\d*)?$")
_ISO_DURATION = re.compile(
    r"^\s*(?P<sign>-)?P(?:(?P<days>\d+)D)?(?P<plus>(?!))?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?\s*$"
)
_DURATION = re.compile(
    r"^\s*(?P<sign>-)?(?:(?P<days>\d+)\s*(?:d|days?),?\s*)?(?P<plus>\+)?"
    r"(?:(?P<hours>\d+):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}(?:\.\d+)?))?)?\s*$",
    re.IGNORECASE,
)


def default_resolution(kind: str) -> str:
    """Return the default resolution of a kind."""
    return "day" if kind == "date" else "second"


def time_steps(cell: Any, kind: str, resolution: str, form: str | None) -> float:
    """Convert a date, time or duration to a number of steps; give NaN or raise for anything else.

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
        if _is_number(cell):
            return float(np.rint(float(cell)))
        if isinstance(cell, str | bytes) and _NUMBER.match(_text(cell)):
            return float(np.rint(float(_text(cell))))
        return _nearest(_duration(cell), size)
    return _floor(_moment(cell, form), size)


def _floor(delta: dt.timedelta, size: int) -> float:
    # Times are rounded down, also before 1970, so that a time belongs to its own day.
    return float((delta // dt.timedelta(microseconds=1)) // size)


def _nearest(delta: dt.timedelta, size: int) -> float:
    return float(round((delta // dt.timedelta(microseconds=1)) / size))


def _moment(cell: Any, form: str | None) -> dt.timedelta:
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if hasattr(cell, "to_pydatetime"):  # a pandas timestamp
        cell = cell.to_pydatetime(warn=False)
    if form is not None and _is_number(cell):
        # 20240131 as %Y%m%d; floats as well, because a null elsewhere turns integers of a column into floats.
        cell = str(int(cell)) if cell == int(cell) else "?"
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
    if isinstance(cell, dt.timedelta):  # also a pandas Timedelta, whose nanoseconds are dropped
        return dt.timedelta(days=cell.days, seconds=cell.seconds, microseconds=cell.microseconds)
    for form in (_DURATION, _ISO_DURATION):
        found = form.match(cell)
        if found is not None and any(
            found[part] is not None for part in ("days", "hours", "minutes", "seconds")
        ):
            break
    else:
        raise ValueError
    days = int(found["days"] or 0) * (-1 if found["sign"] and found["plus"] else 1)
    clock = dt.timedelta(
        hours=int(found["hours"] or 0),
        minutes=int(found["minutes"] or 0),
        seconds=float(found["seconds"] or 0),
    )
    if found["plus"]:  # -1 days +23:00:00, as pandas writes it
        return dt.timedelta(days=days) + clock
    whole = dt.timedelta(days=days) + clock
    return -whole if found["sign"] else whole


def _is_number(cell: Any) -> bool:
    return isinstance(cell, numbers.Real | decimal.Decimal) and not issubclass(type(cell), bool)


def _text(cell: str | bytes) -> str:
    return (cell.decode() if isinstance(cell, bytes) else cell).strip()


def array_steps(cells: NDArray[Any], kind: str, resolution: str) -> NDArray[np.float64]:
    """Convert NumPy times or durations to numbers of steps; NaT and cells of the other type become NaN."""
    if cells.dtype.kind != ("m" if kind == "duration" else "M"):
        return np.full(len(cells), np.nan)
    missing = np.isnat(cells)
    size = RESOLUTIONS[resolution][1]
    # Microseconds cover 290,000 years. NumPy rounds finer units towards the past. Coarser units can leave
    # that range; such times are far outside any bounds.
    far = _beyond(cells)
    cells = np.where(far != 0, np.zeros(1, cells.dtype), cells)
    microseconds = np.where(missing, np.zeros(1, cells.dtype), cells).astype(f"{cells.dtype.kind}8[us]")
    whole = microseconds.astype(np.int64)
    steps = np.rint(whole / size) if kind == "duration" else np.asarray(whole // size, dtype=np.float64)
    return np.where(missing, np.nan, np.where(far != 0, np.copysign(np.inf, far), steps))


def _beyond(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return -1 or 1 for times that do not fit into microseconds, and 0 for all others."""
    unit = np.datetime_data(cells.dtype)[0]
    per_unit = {"Y": 3.2e13, "M": 2.7e12, "W": 6.1e11, "D": 8.7e10, "h": 3.6e9, "m": 6e7, "s": 1e6, "ms": 1e3}
    whole = cells.astype(np.int64).astype(np.float64)
    far = np.abs(whole) * per_unit.get(unit, 1.0) > 9e18
    return np.where(far & ~np.isnat(cells), np.sign(whole), 0.0)


def from_steps(steps: NDArray[np.float64], kind: str, resolution: str) -> NDArray[Any]:
    """Convert numbers of steps to an array of NumPy times or durations; NaN becomes NaT.

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
    """Format a number of steps as text that `time_steps` can read.

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
        # `strftime` writes years before 1000 with fewer digits than `strptime` needs, and no zone for naive
        # times.
        return moment.replace(tzinfo=dt.UTC).strftime(form.replace("%Y", f"{moment.year:04}"))
    return moment.date().isoformat() if kind == "date" else moment.isoformat()


_TRIED = (
    dt.datetime(1962, 3, 4, 17, 25, tzinfo=dt.UTC),
    dt.datetime(2031, 12, 30, 5, 6, tzinfo=dt.UTC),
)


def is_whole_format(form: str, kind: str) -> bool:
    """Whether a `strptime` format contains a complete date, and for times also the hour.

    Examples
    --------
    >>> is_whole_format("%d.%m.%Y", "date"), is_whole_format("%d.%m.%y", "date")
    (True, False)
    """
    for moment in _TRIED:
        try:
            found = dt.datetime.strptime(moment.strftime(form), form).replace(tzinfo=dt.UTC)
        except ValueError:
            return False
        if found.date() != moment.date() or (kind == "datetime" and found.hour != moment.hour):
            return False
    return True
