"""`Domain.to_grid` and other grids on a device: the same operations in the same order, with the same bits.

Each step is one PyTorch operation, so that none are fused. Divisors are tensors, because PyTorch replaces
division by a number with multiplication by its reciprocal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from dpem.data.domain import GRID, GRID_BITS

if TYPE_CHECKING:
    from dpem.data.domain import Domain
    from dpem.data.levels import ColumnLevels, LevelGrid
    from dpem.data.table_grid import TableGrid

__all__ = ["cells_to_grid", "levels_to_grid", "norm_squared", "on_device", "root", "to_grid"]


def on_device(values: object, like: torch.Tensor) -> torch.Tensor:
    """Copy public numbers as float64 to the device of a tensor."""
    return torch.as_tensor(np.asarray(values, dtype=np.float64), device=like.device)


def to_grid(domain: Domain, columns: torch.Tensor) -> torch.Tensor:
    """Convert a block of shape (columns, rows) to integers, with a norm of at most 2^24 for each row."""
    d = domain.n_columns
    u = columns
    if domain.low is not None and domain.high is not None:
        low, high = on_device(domain.low, columns), on_device(domain.high, columns)
        u = torch.minimum(torch.maximum(u, low[:, None]), high[:, None])
    u = u - on_device(domain.centre, columns)[:, None]
    u /= on_device(domain.scale, columns)[:, None]
    good = torch.isfinite(columns).all(dim=0)
    norm = root(norm_squared(u))
    good &= torch.isfinite(norm)
    largest = on_device(1 - np.sqrt(d) * 2.0 ** -(GRID_BITS + 1) - 2.0**-40, columns)
    one = on_device(1.0, columns)
    u *= torch.minimum(one, largest / torch.maximum(norm, largest)) * GRID
    u = torch.round(u)
    u[:, ~good] = 0.0
    u[:, norm_squared(u) > GRID * GRID] = 0.0
    return u


def cells_to_grid(grid: TableGrid, columns: torch.Tensor) -> torch.Tensor:
    """Convert a block of shape (columns, rows) to integers from 0 to 2^24, with NaN for missing cells."""
    low, step = on_device(grid.low, columns), on_device(grid.step, columns)
    return torch.round((columns - low[:, None]) / step[:, None]).clamp(0.0, GRID)


def levels_to_grid(grid: LevelGrid, columns: torch.Tensor) -> torch.Tensor:
    """Convert a block of parsed cells, of shape (columns, rows), to levels."""
    return torch.stack([_levels(levels, cells) for levels, cells in zip(grid.columns, columns, strict=True)])


def _levels(levels: ColumnLevels, values: torch.Tensor) -> torch.Tensor:
    low, high = levels.column.limits
    if levels.is_listed:
        level = (values - low).clamp(0.0, levels.n_values - 1.0)
    else:
        edges = on_device(levels.edges[1:-1], values)
        level = torch.searchsorted(edges, values.contiguous(), right=True).to(torch.float64) + 1.0
        level = torch.where(values >= high, levels.n_values - 1.0, level)
        level = torch.where(values <= low, 0.0, level)
    return torch.where(torch.isnan(values), levels.size - 1.0, level)


def root(x: torch.Tensor) -> torch.Tensor:
    """Return correctly rounded square roots, which PyTorch's are not on some processors."""
    return torch.sqrt(x) if x.is_cuda else torch.from_numpy(np.sqrt(x.numpy()))


def norm_squared(columns: torch.Tensor) -> torch.Tensor:
    """Return the squared norm of every row, summed column by column in a fixed order."""
    total = columns[0] * columns[0]
    for column in columns[1:]:
        total += column * column
    return total
