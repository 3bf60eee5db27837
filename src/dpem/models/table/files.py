"""Convert a fitted table to arrays for a file, and back with validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.estimator.saved_arrays import require, require_laws, require_numbers, require_positive
from dpem.models.table.bins import ColumnBins
from dpem.models.table.density import MixedBlock, MixedDensity
from dpem.models.table.one_shot import FittedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.levels import LevelGrid

__all__ = ["arrays_of", "table_from_arrays"]


def arrays_of(fitted: FittedTable) -> dict[str, NDArray[Any]]:
    """Return the released arrays by name."""
    density = fitted.density
    arrays: dict[str, Any] = {
        "parts": density.parts,
        "of_level": np.concatenate([column.of_level for column in density.bins]),
        "level_probabilities": np.concatenate([column.probabilities for column in density.bins]),
        "smoothing": np.array(fitted.smoothing),
        "dependence": fitted.dependence,
        "misfit": fitted.misfit,
    }
    for number, block in enumerate(density.blocks):
        arrays[f"block_{number}_columns"] = np.array(block.columns)
        arrays[f"block_{number}_weights"] = block.weights
        arrays[f"block_{number}_tables"] = np.concatenate(block.tables, axis=1)
    return arrays


def table_from_arrays(grid: LevelGrid, arrays: dict[str, NDArray[Any]]) -> FittedTable:
    """Restore a fitted table from the arrays of `arrays_of`, and validate them."""
    arrays = dict(arrays)
    bins = _bins(grid, arrays.pop("of_level"), arrays.pop("level_probabilities"))
    parts = arrays.pop("parts")
    require(parts.ndim == 1, "a list of parts")
    require_laws("parts", parts)
    blocks: list[MixedBlock] = []
    while f"block_{len(blocks)}_columns" in arrays:
        blocks.append(_block(bins, len(parts), arrays, len(blocks)))
    m = len(bins)
    seen = [j for block in blocks for j in block.columns]
    left = sorted(set(range(m)) - set(seen))
    require(len(seen) == len(set(seen)) and len(left) <= 1 and blocks, "each column once")
    require(len(parts) == (bins[left[0]].size if left else 1), "a part for each value of the target")
    # NaN is valid for pairs that were not counted, and complete smoothing is infinite.
    known = {name: np.nan_to_num(value) for name, value in arrays.items()}
    require_numbers(known, {"dependence": (m, m), "misfit": (m, m), "smoothing": ()})
    require_positive("smoothing", known["smoothing"], or_zero=True)
    density = MixedDensity(tuple(bins), tuple(blocks), parts, left[0] if left else None)
    return FittedTable(density, float(arrays["smoothing"]), arrays["dependence"], arrays["misfit"])


def _bins(grid: LevelGrid, of_level: NDArray[Any], probabilities: NDArray[Any]) -> list[ColumnBins]:
    ends = np.cumsum(grid.sizes)
    require(of_level.shape == probabilities.shape == (ends[-1],), "bins and probabilities of all levels")
    require(of_level.dtype.kind == "i", "whole numbers in 'of_level'")
    bins = []
    for levels, numbers, law in zip(
        grid.columns, np.split(of_level, ends[:-1]), np.split(probabilities, ends[:-1]), strict=True
    ):
        require_laws("level_probabilities", law)
        require_positive("level_probabilities", law)
        found = np.unique(numbers)
        numbered = np.array_equal(found, np.arange(len(found)))
        require(numbered, "bins that are numbered, none empty, in 'of_level'")
        bins.append(ColumnBins(levels, numbers.astype(np.intp), law))
    return bins


def _block(bins: list[ColumnBins], n_parts: int, arrays: dict[str, NDArray[Any]], number: int) -> MixedBlock:
    columns, weights, tables = (
        arrays.pop(f"block_{number}_{name}") for name in ("columns", "weights", "tables")
    )
    require(columns.ndim == 1 and columns.size and columns.dtype.kind == "i", "a list of columns")
    require(columns.min() >= 0 and columns.max() < len(bins), "columns of the schema")
    sizes = [bins[j].size for j in columns]
    require(weights.ndim == 2 and len(weights) == n_parts, "weights for each part")
    require(tables.shape == (weights.shape[1], sum(sizes)), "tables of all bins")
    split = np.split(tables, np.cumsum(sizes)[:-1], axis=1)
    for law in (weights, *split):
        require_laws(f"block_{number}", law)
    return MixedBlock(tuple(map(int, columns)), weights, tuple(split))
