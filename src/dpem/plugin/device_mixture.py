"""Mixtures of independent columns on a device: the sums of `dpem.plugin.clipped`, with the same bits.

Each step is one operation of PyTorch on single elements, in the order of the NumPy code in
`product_mixture`. Only the models of that module come here: models of users see one row at a time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from dpem.data.device_grid import norm_squared, on_device, root
from dpem.data.domain import GRID
from dpem.plugin.product_mixture import CategoricalFamily, PoissonFamily, ProductMixture
from dpem.statistics.kernels_torch import _softmax
from dpem.statistics.simple import LINEAR_BITS

if TYPE_CHECKING:
    from dpem.data.table_grid import TableGrid
    from dpem.plugin.clipped import ClippedStatistic, EncodedRows
    from dpem.plugin.family import ExponentialFamily, Parameters

__all__ = ["clipped_sum", "encoded"]

_ENTRIES = 1 << 26  # of vectors in memory at once


def clipped_sum(statistic: ClippedStatistic, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `ClippedStatistic`. Entries of a block are at most 2^40."""
    total = torch.zeros(statistic.size, dtype=torch.float64, device=rows.device)
    for part in rows.split(max(1024, _ENTRIES // statistic.size), dim=1):
        vectors = _statistics(statistic.model, _to_units(statistic.grid, part), statistic.parameters)
        bounded = _bounded(
            vectors, statistic.norm, statistic.unit, 2.0**LINEAR_BITS, nonnegative=statistic.nonnegative
        )
        total += bounded.sum(dim=1)
    return total.to(torch.int64)


def encoded(map_rows: EncodedRows, rows: torch.Tensor) -> torch.Tensor:
    """Return the rows of `EncodedRows`."""
    features = _features(map_rows.model, _to_units(map_rows.grid, rows))
    vectors = features / on_device(math.sqrt(len(rows)), rows)
    return _bounded(vectors, 1.0, map_rows.unit, GRID, nonnegative=False)


def _to_units(grid: TableGrid, cells: torch.Tensor) -> torch.Tensor:
    low, step = on_device(grid.low, cells), on_device(grid.step, cells)
    units = low[:, None] + cells * step[:, None]
    whole = torch.as_tensor(grid.whole, device=cells.device)
    return torch.where(whole[:, None], torch.round(units), units)


def _features(model: ExponentialFamily, rows: torch.Tensor) -> torch.Tensor:
    """Return features (f, n) of rows (d, n); those of missing cells are zero."""
    if isinstance(model, CategoricalFamily):
        hot = [
            column == first + code
            for column, size, first in zip(rows, model.sizes, model.first, strict=True)
            for code in range(size)
        ]
        return torch.stack(hot).to(torch.float64)
    if isinstance(model, PoissonFamily):
        parts = rows / on_device(model.bounds, rows)[:, None]
        return torch.where(torch.isnan(parts), 0.0, parts.clamp(0.0, 1.0))
    raise TypeError(f"Expected a model with features on a device, got {type(model).__name__}.")


def _statistics(model: ExponentialFamily, rows: torch.Tensor, parameters: Parameters) -> torch.Tensor:
    """Return responsibilities, and their products with the features, (k (1 + f), n)."""
    if not isinstance(model, ProductMixture):
        raise TypeError(f"Expected a mixture of independent columns, got {type(model).__name__}.")
    features = _features(model, rows)
    eta, constants = (on_device(part, rows) for part in model.natural(parameters))
    weights = on_device(np.log(parameters["weights"]), rows)
    joint = weights[:, None].repeat(1, rows.shape[1])
    for constant, column in zip(constants.T, rows, strict=True):
        joint += torch.where(torch.isnan(column), 0.0, constant[:, None])
    for coefficients, feature in zip(eta.T, features, strict=True):
        joint += coefficients[:, None] * feature
    g = _softmax(joint)
    products = g[:, None, :] * features[None, :, :]
    return torch.cat([g, products.reshape(-1, rows.shape[1])])


def _bounded(
    vectors: torch.Tensor, norm: float, unit: float, largest: float, *, nonnegative: bool
) -> torch.Tensor:
    """Clip vectors (s, n) to `norm`, scale `norm` to `unit`, round, and check the norm in integers."""
    vectors = torch.where(torch.isfinite(vectors), vectors, 0.0)
    if nonnegative:
        vectors = vectors.clamp(min=0.0)
    limit = on_device(norm, vectors)
    top = torch.maximum(vectors.abs().amax(dim=0), limit)
    length = root(norm_squared(vectors / top)) * top
    scaled = torch.round(vectors * (on_device(unit, vectors) / torch.maximum(length, limit)))
    # Integers: a sum of squares below 2^53 is exact in any order, and a larger one exceeds the limit.
    scaled[:, ~((scaled * scaled).sum(dim=0) <= largest * largest)] = 0.0
    return scaled
