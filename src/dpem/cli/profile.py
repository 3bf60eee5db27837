"""Print the released parameters of a fitted model as a table."""

from typing import Any

import dpem
from dpem.cli.console import Console, number

__all__ = ["show_profile"]

_MOST_ACROSS, _MOST_DOWN = 6, 30


def show_profile(console: Console, model: Any) -> None:
    """Print the released values by component and column, with their standard errors."""
    profile = dpem.report.profile_of(model)
    if profile is None:
        return
    names = [f"{profile.kind} {name}" for name, _ in profile.rows]
    cells = [[f"{c.text or number(c.value)} ± {number(c.error, 2)}" for c in row] for _, row in profile.rows]
    down, across = names, profile.header
    if profile.is_wider_than(_MOST_ACROSS):  # transpose: more lines fit than columns
        down, across = across, names
        cells = [list(column) for column in zip(*cells, strict=True)]
    console.heading("Released parameters (± standard error of the noise)")
    console.table(
        ["", *across[:_MOST_ACROSS]],
        [
            [name, *row[:_MOST_ACROSS]]
            for name, row in zip(down[:_MOST_DOWN], cells[:_MOST_DOWN], strict=True)
        ],
    )
    left_out = max(len(down) - _MOST_DOWN, 0), max(len(across) - _MOST_ACROSS, 0)
    if any(left_out):
        console.say(f"({left_out[0]} more rows and {left_out[1]} more columns: see dpem report)")
