"""`ProjectedDomain.to_grid` on a device, with the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dpem.data.device_grid import norm_squared, on_device, root, to_grid
from dpem.data.domain import GRID
from dpem.statistics.kernels_torch import exact_product
from dpem.statistics.projection import BASIS_BITS

if TYPE_CHECKING:
    from dpem.statistics.projection import ProjectedDomain

__all__ = ["projected"]


def projected(grid: ProjectedDomain, columns: torch.Tensor) -> torch.Tensor:
    """Convert a block of shape (columns, rows) to integers, with norm at most 2^24 per row."""
    rows = to_grid(grid.domain, columns)
    parts = exact_product(on_device(grid.directions, rows), rows, bound=2.0**46) * 2.0**-BASIS_BITS
    if grid.n_columns > len(parts):
        rest = root((norm_squared(rows) - norm_squared(parts)).clamp(min=0.0))
        parts = torch.cat([parts, rest[None]])
    parts = torch.round(parts * grid.shrinkage)
    parts[:, ~(norm_squared(parts) <= GRID * GRID)] = 0.0
    return parts
