"""Device sums of squared sizes of rows: norms in a frame, deviations of columns, distances to points.

The rules of `dpem.statistics.kernels_torch` hold: the integers are those of `sum_block`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dpem.data.device_grid import norm_squared, on_device, root
from dpem.statistics.kernels_torch import _nearest, exact_product
from dpem.statistics.simple import BELOW_ONE, LINEAR_BITS

if TYPE_CHECKING:
    from dpem.statistics.frame_sizes import FrameSizes
    from dpem.statistics.simple import ColumnSquares, SquaredDistances

__all__ = ["column_squares", "counted_rows", "frame_sizes", "squared_distances"]


def counted_rows(rows: torch.Tensor) -> torch.Tensor:
    """Return the number of rows."""
    return torch.tensor([rows.shape[1]])


def frame_sizes(statistic: FrameSizes, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `FrameSizes`. NaN counts as the cap."""
    own = statistic.component
    product = exact_product(on_device(own.whitening, rows), rows, bound=2.0**48)
    z = (product - on_device(own.offsets[0], rows)[:, None]) * on_device(own.scales[0], rows)[:, None]
    part = norm_squared(z) / on_device(statistic.cap, rows)
    scaled = torch.floor(torch.where(part < 1.0, part, 1.0) * 2.0**LINEAR_BITS)
    return scaled.sum(dim=0, keepdim=True).to(torch.int64)


def column_squares(statistic: ColumnSquares, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `ColumnSquares`."""
    deviations = (rows - on_device(statistic.centre, rows)[:, None]) / on_device(statistic.widths, rows)[
        :, None
    ]
    squares = deviations * deviations
    limit = torch.maximum(root(norm_squared(squares)), on_device(statistic.clip, rows))
    scaled = torch.floor(squares * (on_device(BELOW_ONE, rows) / limit))
    scaled[:, ~(norm_squared(scaled) <= 4.0**LINEAR_BITS)] = 0.0
    return scaled.sum(dim=1).to(torch.int64)


def squared_distances(statistic: SquaredDistances, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `SquaredDistances`."""
    _, squared = _nearest(rows, on_device(statistic.points, rows))
    scaled = torch.floor(squared / on_device(statistic.unit, rows)).clamp(max=2.0**LINEAR_BITS)
    total = scaled.sum(dim=0, keepdim=True).to(torch.int64)
    count = torch.tensor([rows.shape[1] << LINEAR_BITS], device=rows.device)
    return torch.cat([total, count]) if statistic.counted else total
