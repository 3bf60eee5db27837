"""A fitted table as arrays, to be saved, and back: whatever a file says is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.models.mixed_cells import ColumnCells
from dpem.models.mixed_density import MixedBlock, MixedDensity
from dpem.models.mixed_oneshot import FittedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data.levels import LevelGrid

__all__ = ["arrays_of", "table_from_arrays"]


def arrays_of(fitted: FittedTable) -> dict[str, NDArray[Any]]:
    """Return released arrays by name."""
    density = fitted.density
    arrays: dict[str, Any] = {
        "parts": density.parts,
        "of_level": np.concatenate([column.of_level for column in density.cells]),
        "level_probabilities": np.concatenate([column.probabilities for column in density.cells]),
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
    """Take back what `arrays_of` gave; a KeyError says that something is missing or is not what it was."""
    cells = _cells(grid, arrays)
    _check_law(arrays["parts"])
    blocks: list[MixedBlock] = []
    while f"block_{len(blocks)}_columns" in arrays:
        blocks.append(_block(cells, arrays, len(blocks)))
    m = len(cells)
    seen = [j for block in blocks for j in block.columns]
    left = sorted(set(range(m)) - set(seen))
    if len(seen) != len(set(seen)) or len(left) > 1 or not blocks:
        raise KeyError("columns")
    if len(arrays["parts"]) != (cells[left[0]].size if left else 1):
        raise KeyError("parts")
    for name in ("dependence", "misfit"):
        if arrays[name].shape != (m, m) or arrays[name].dtype != np.float64:
            raise KeyError(name)
    if arrays["smoothing"].shape != () or arrays["smoothing"].dtype != np.float64:
        raise KeyError("smoothing")
    density = MixedDensity(tuple(cells), tuple(blocks), arrays["parts"], left[0] if left else None)
    return FittedTable(density, float(arrays["smoothing"]), arrays["dependence"], arrays["misfit"])


def _cells(grid: LevelGrid, arrays: dict[str, NDArray[Any]]) -> list[ColumnCells]:
    ends = np.cumsum(grid.sizes)
    of_level, probabilities = arrays["of_level"], arrays["level_probabilities"]
    if of_level.shape != (ends[-1],) or probabilities.shape != (ends[-1],) or of_level.dtype.kind != "i":
        raise KeyError("levels")
    cells = []
    for levels, numbers, law in zip(
        grid.columns, np.split(of_level, ends[:-1]), np.split(probabilities, ends[:-1]), strict=True
    ):
        _check_law(law)
        if (
            numbers.min() < 0
            or numbers.max() >= len(numbers)
            or (np.bincount(numbers) == 0)[: int(numbers.max()) + 1].any()
        ):
            raise KeyError("of_level")
        if (law <= 0).any():
            raise KeyError("level_probabilities")
        cells.append(ColumnCells(levels, numbers.astype(np.intp), law))
    return cells


def _block(cells: list[ColumnCells], arrays: dict[str, NDArray[Any]], number: int) -> MixedBlock:
    columns = arrays[f"block_{number}_columns"]
    weights, tables = arrays[f"block_{number}_weights"], arrays[f"block_{number}_tables"]
    if columns.ndim != 1 or columns.dtype.kind != "i" or not columns.size:
        raise KeyError("columns")
    if columns.min() < 0 or columns.max() >= len(cells):
        raise KeyError("columns")
    sizes = [cells[j].size for j in columns]
    if weights.ndim != 2 or len(weights) != len(arrays["parts"]):
        raise KeyError("weights")
    if tables.shape != (weights.shape[1], sum(sizes)):
        raise KeyError("tables")
    split = np.split(tables, np.cumsum(sizes)[:-1], axis=1)
    for law in (weights, *split):
        _check_law(law)
    return MixedBlock(tuple(map(int, columns)), weights, tuple(split))


def _check_law(probabilities: NDArray[Any]) -> None:
    """Raise unless these are probabilities, the last axis summing to 1."""
    if probabilities.dtype != np.float64 or not np.isfinite(probabilities).all() or not probabilities.size:
        raise KeyError("probabilities")
    if (probabilities < 0).any() or not np.allclose(probabilities.sum(axis=-1), 1.0, atol=1e-6):
        raise KeyError("probabilities")
