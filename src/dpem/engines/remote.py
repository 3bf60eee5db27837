"""Functions that run on the workers of a cluster, each on one part of the table.

They are pure. If a lost worker or a repeated task causes a part to be summed twice, both totals are equal,
and the engine counts one of them. Failures are returned as values and not raised: the logs of a cluster show
the arguments of failed calls, and these contain rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpem._threads import one_thread
from dpem.engines.base import grid_rows, sum_blocks
from dpem.engines.totals import IntegerTotal
from dpem.errors import DpemError, EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dpem.data import RowGrid
    from dpem.data.sources.streams import TableReader
    from dpem.engines.base import BlockSum

__all__ = ["Failure", "grid_part", "merge_parts", "part_rows", "sum_part", "total_of"]

Blocks = list["NDArray[np.float32]"]


@dataclass(frozen=True)
class Failure:
    """A failure on one part: an error about public facts alone, or only the type of any other error."""

    error: DpemError

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Keep the message of an error of dpem, and only the type of any other error."""
        if isinstance(error, DpemError):
            return cls(error)
        return cls(EngineError(f"A part of the table could not be summed: {type(error).__name__}."))


def grid_part(table: Any, reader: TableReader, grid: RowGrid) -> Blocks | Failure:
    """Convert a part of the table to grid rows. Single precision represents their integers exactly."""
    try:
        return grid_rows(reader(table), grid)
    except Exception as error:  # noqa: BLE001  (raised where totals are collected)
        return Failure.of(error)


def sum_part(statistic: BlockSum, blocks: Blocks | Failure) -> IntegerTotal | Failure:
    """Sum a statistic over the grid rows of a part."""
    if isinstance(blocks, Failure):
        return blocks
    try:
        with one_thread():  # the cluster runs one task per core
            return sum_blocks(statistic, blocks)
    except Exception as error:  # noqa: BLE001
        return Failure.of(error)


def part_rows(table: Any) -> int:
    """Count the rows of a part."""
    return len(table)


def merge_parts(totals: Sequence[IntegerTotal | Failure]) -> IntegerTotal | Failure:
    """Add the totals of parts, or return the first failure."""
    failed = next((total for total in totals if isinstance(total, Failure)), None)
    return failed if failed is not None else IntegerTotal.merged(totals)  # type: ignore[arg-type]


def total_of(found: IntegerTotal | Failure) -> IntegerTotal:
    """Return the total, or raise the failure as an error."""
    if isinstance(found, Failure):
        raise found.error from None
    return found
