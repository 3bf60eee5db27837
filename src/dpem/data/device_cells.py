"""`Column.parse` for numbers in a tensor, on its device, with the same results.

The processor decides what each declared word means: the numbers that a column treats in a special way, such
as codes of categories and `na_values`, are public. It parses these few numbers by `Column.parse`, and the
device only finds them among the cells. All other numbers are clipped to the bounds, or share one replacement.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from dpem.data.column import ABOVE, ABSENT, BELOW, MISSING, READ
from dpem.data.device_grid import on_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.column import Column

__all__ = ["parse"]


def parse(column: Column, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Parse the cells of a column to numbers or codes (NaN for missing cells), with a finding for each cell.

    Both are in float64. Dates and times are parsed by the processor.
    """
    if column.is_time:
        plain = cells.to(torch.float64) if cells.is_floating_point() else cells
        return _pair(column, plain.cpu().numpy(), cells)
    if cells.dtype is torch.bool:
        values, found = _pair(column, np.array([False, True]), cells)
        place = cells.to(torch.int64)
        return values[place], found[place]
    numbers = cells.to(torch.float64)
    return _numbers(column, numbers) if column.is_number else _codes(column, numbers)


def _pair(
    column: Column, cells: NDArray[np.generic], like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    values, found = column.parse(cells)
    return on_device(values, like), on_device(found, like)


def _numbers(column: Column, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    low, high = column.limits
    below, above = cells < low, cells > high
    values = cells.clamp(low, high)
    found = torch.where(below, float(BELOW), torch.where(above, float(ABOVE), float(READ)))
    if column.outside == "missing":
        values[below | above] = math.nan
    if column.is_whole:
        values = torch.round(values)
    null = torch.isnan(cells)
    for number in _declared_numbers(column):
        if column.parse(np.array([number]))[1][0] in {MISSING, ABSENT}:
            null |= cells == number
    (instead,), (reason,) = column.parse(np.array([math.nan]))
    values[null], found[null] = float(instead), float(reason)
    return values, found.to(torch.float64)


def _codes(column: Column, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    known = _declared_numbers(column)
    other = known[-1] + 1.0 if len(known) and math.isfinite(known[-1]) else 0.5
    while other in known:
        other = other / 2 + 0.25
    # The results for the declared numbers, then for any other number, then for NaN.
    values, found = _pair(column, np.array([*known, other, math.nan]), cells)
    place = torch.full(cells.shape, len(known), dtype=torch.int64, device=cells.device)
    if len(known):
        sorted_numbers = on_device(known, cells)
        nearest = torch.searchsorted(sorted_numbers, cells.contiguous()).clamp(max=len(known) - 1)
        place = torch.where(sorted_numbers[nearest] == cells, nearest, place)
    place[torch.isnan(cells)] = len(known) + 1
    return values[place], found[place]


def _declared_numbers(column: Column) -> NDArray[np.float64]:
    """Return all numbers that the words of a declaration stand for, in ascending order, perhaps too many.

    A cell is compared with words by its own text, such as "3" for 3.0, which is the text of one number only.
    """
    words = list(column.cell_format.na_values)
    if not column.is_number:
        words += list(column.codes_of_keys)
    found = set(column.na_numbers.tolist())
    for word in words:
        try:
            found.add(float(word))
        except ValueError:
            continue
    return np.array(sorted({number + 0.0 for number in found if not math.isnan(number)}), dtype=np.float64)
