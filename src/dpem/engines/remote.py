"""What happens where rows are, away from here: pure functions of one part of the table.

A part that is summed twice, since a worker was lost or a task repeated, gives the same total; whoever
collects totals takes one of each part. What goes wrong comes back as a value: logs of clusters show
arguments, and those hold rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.engines.base import grid_rows, sum_blocks
from dpem.engines.totals import IntegerTotal
from dpem.errors import DpemError, EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import RowGrid
    from dpem.data.sources.streams import TableReader
    from dpem.engines.base import BlockSum

__all__ = ["Failure", "grid_part", "merge_parts", "part_rows", "sum_part", "total_of"]

Blocks = list["NDArray[np.float32]"]


@dataclass(frozen=True)
class Failure:
    """What went wrong with a part: an error that speaks of public facts alone, or the kind of another."""

    error: DpemError

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return what may be said of an error."""
        if isinstance(error, DpemError):
            return cls(error)
        return cls(EngineError(f"A part of the table could not be summed: {type(error).__name__}."))


def grid_part(table: Any, reader: TableReader, grid: RowGrid) -> Blocks | Failure:
    """Turn a part of the table into grid rows, in single precision, which holds their integers exactly."""
    try:
        return grid_rows(reader(table), grid)
    except Exception as error:  # noqa: BLE001  (raised where totals are collected)
        return Failure.of(error)


def sum_part(statistic: BlockSum, blocks: Blocks | Failure) -> IntegerTotal | Failure:
    """Sum a statistic over the grid rows of a part."""
    if isinstance(blocks, Failure):
        return blocks
    try:
        return sum_blocks(statistic, blocks)
    except Exception as error:  # noqa: BLE001
        return Failure.of(error)


def part_rows(table: Any) -> int:
    """Count the rows of a part."""
    return len(table)


def merge_parts(totals: Sequence[IntegerTotal | Failure]) -> IntegerTotal | Failure:
    """Add totals of parts, or return the first failure."""
    failed = next((total for total in totals if isinstance(total, Failure)), None)
    return failed if failed is not None else IntegerTotal.merged(totals)  # type: ignore[arg-type]


def total_of(found: IntegerTotal | Failure) -> IntegerTotal:
    """Return a total, or raise what went wrong."""
    if isinstance(found, Failure):
        raise found.error from None
    return found
