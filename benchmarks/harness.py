"""A harness for benchmarks: run methods on data sets, keep every run, write a table.

Runs are stored as JSON lines, so that an interrupted benchmark continues (`--fresh` discards them).
"""

import json
import platform
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from dpem.reproduce.text import markdown

__all__ = ["RESULTS", "Runs", "markdown", "setting", "write_cell"]

RESULTS = Path(__file__).parent / "results"


class Runs:
    """All runs of one benchmark."""

    def __init__(self, name, fresh):
        self.path = RESULTS / f"{name}.jsonl"
        RESULTS.mkdir(exist_ok=True)
        if fresh:
            self.path.unlink(missing_ok=True)
        self.rows = (
            [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []
        )
        self._done = {self._key(row) for row in self.rows}

    @staticmethod
    def _key(row):
        return row["dataset"], row["method"], row["epsilon"], row["seed"]

    def measure(self, dataset, method, epsilon, seed, run, score):
        """Time `run()` unless this run is stored, and store the score of its result."""
        key = (dataset, method, epsilon, seed)
        if self.has(key):
            return
        start = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - start
        self.keep(key, score(result), seconds)

    def has(self, key):
        """Return whether this run is stored."""
        return key in self._done

    def keep(self, key, score, seconds):
        """Store a run."""
        row = dict(zip(("dataset", "method", "epsilon", "seed"), key, strict=True))
        row |= {"score": float(score), "seconds": seconds}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        self.rows.append(row)
        self._done.add(key)

    def by(self, dataset, field="score"):
        """Return {(method, epsilon): array of values}."""
        values = defaultdict(list)
        for row in self.rows:
            if row["dataset"] == dataset:
                values[row["method"], row["epsilon"]].append(row[field])
        return {key: np.array(v) for key, v in values.items()}


def write_cell(path, row, column, value, table=""):
    """Write one cell of a recorded table: in the row that begins with these cells, under this header.

    `table` is the first header of the table, if several tables have such a row.
    """
    lines = path.read_text().splitlines()
    header, found = [], False
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
        elif header[0].startswith(table) and column in header and cells[: len(row)] == row and not found:
            cells[header.index(column)] = value
            lines[number], found = "| " + " | ".join(cells) + " |", True
    if not found:
        raise SystemExit(
            f"Expected a row {row} with a column {column!r} in {path}, got none. Run the complete benchmark."
        )
    path.write_text("\n".join(lines) + "\n")


def setting():
    """Return the versions of a run, for the head of a table."""
    import scipy
    import sklearn

    return (
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}."
    )
