"""Helpers for tables and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.plot.canvas import COLOURS, figure_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

__all__ = ["COLOURS", "interval", "markdown", "new_figure", "paired"]


def new_figure(rows: int, columns: int, *, height: float = 4.0, width: float = 10.0, **options: Any) -> Any:
    """Return a figure for saving to a file, and its axes."""
    figure = figure_class("Drawing figures", "reproduce")(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def interval(values: pd.Series, digits: int = 2) -> str:
    """Return a mean with its standard error, or a single value alone."""
    if len(values) < 2:
        return "".join(f"{value:.{digits}f}" for value in values)
    return f"{values.mean():.{digits}f} ({values.std() / np.sqrt(len(values)):.{digits}f})"


def paired(results: pd.DataFrame, better: str, worse: str, column: str) -> pd.DataFrame:
    """Return mean differences of two methods on equal folds and seeds, by data and epsilon, with errors."""
    keys = ["data", "epsilon", "fold", "seed", "part"]
    sides = [results[results.method == method].set_index(keys)[column] for method in (better, worse)]
    difference = (sides[0] - sides[1]).dropna()
    groups = difference.groupby(level=["data", "epsilon"])
    # The error of a single fold and seed is unknown.
    return groups.agg(["mean", "count", "sem"]).fillna({"sem": np.inf})
