"""Results of tasks as tidy rows in a CSV file, written one by one so that a stopped run can continue."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

import dpem
from dpem._files import replacing
from dpem.errors import OutputError
from dpem.reproduce.experiment import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Results"]

_TASK = [field.name for field in fields(Task)]
# All other columns are measurements, parsed as float.
_KINDS: dict[str, Callable[[str], Any]] = {
    "data": str,
    "method": str,
    "fold": int,
    "seed": int,
    "version": str,
    "is_real": lambda text: text == "True",
}


class Results:
    """The results of one experiment, and the file that holds them.

    Results of another version of dpem are ignored. So are results of a stand-in if the real rows are now
    available, and the reverse. They are removed from the file when the first new result is written.
    """

    def __init__(self, path: Path, *, is_real: bool, fresh: bool = False) -> None:
        self._path = path
        self._mark = {"is_real": is_real, "version": dpem.__version__}
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._is_appending = False
        if path.exists() and path.stat().st_size > 0 and not fresh:
            self._read()

    @classmethod
    def found(cls, path: Path, tasks: Sequence[Task], *, is_real: bool) -> pd.DataFrame:
        """Return the results of all these tasks, or an empty table. The file stays unchanged."""
        try:
            return cls(path, is_real=is_real).all_of(tasks)
        except OutputError:
            return pd.DataFrame()

    def _read(self) -> None:
        try:
            with self._path.open(newline="") as file:
                for cells in csv.DictReader(file):
                    if cells["version"] is None:  # a killed run may leave an incomplete last line
                        continue
                    row = {name: _KINDS.get(name, float)(cell) for name, cell in cells.items()}
                    if all(row[name] == value for name, value in self._mark.items()):
                        self._rows[Task(**{name: row[name] for name in _TASK}).key] = row
        except (OSError, csv.Error, KeyError, TypeError, ValueError) as error:
            raise OutputError(
                f"Expected results of an earlier run in {str(self._path)!r}, got another file. Remove it, or "
                f"pass --fresh."
            ) from error

    def has(self, task: Task) -> bool:
        """Return whether there is a result of this task."""
        return task.key in self._rows

    def keep(self, task: Task, measured: dict[str, float]) -> None:
        """Add a result, and write it to the file at once."""
        row = asdict(task) | measured | self._mark
        self._rows[task.key] = row
        if not self._is_appending:
            self._write()
            self._is_appending = True
            return
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, list(row)).writerow(row)

    def _write(self) -> None:
        """Write all valid results to the file."""
        with replacing(self._path) as target, target.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(next(iter(self._rows.values()))))
            writer.writeheader()
            writer.writerows(self._rows.values())

    def table(self, tasks: Sequence[Task]) -> pd.DataFrame:
        """Return the results of these tasks, and keep exactly these in the file, in this order."""
        self._rows = {task.key: self._rows[task.key] for task in tasks}
        self._write()
        return self.all_of(tasks)

    def all_of(self, tasks: Sequence[Task]) -> pd.DataFrame:
        """Return the results of these tasks, or an empty table if any is missing."""
        if not all(map(self.has, tasks)):
            return pd.DataFrame()
        return pd.DataFrame([self._rows[task.key] for task in tasks])
