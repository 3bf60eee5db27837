"""Rows in a tensor, summed on its device. It needs the extra `gpu`.

The device computes the grid rows and the sums of Gaussian mixtures and k-means, in float64 and with the same
bits as the CPU. Statistics without a device form are summed by the threads of this machine.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from dpem.data import TableRows
from dpem.data.device_grid import root
from dpem.data.sources.base import RowSource
from dpem.engines.local import LocalEngine
from dpem.engines.memory import bytes_to_keep
from dpem.engines.totals import IntegerTotal
from dpem.errors import EngineError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.data import RowGrid, Schema
    from dpem.engines.base import BlockSum

__all__ = ["TensorRows", "TorchEngine"]

# Cells of a block on the device: enough to use all of it, and little of its memory.
_BLOCK_CELLS, _BLOCK_CELLS_OF_GPU = 1 << 25, 1 << 27
_SUMS_IN_FLIGHT = 2
_LARGEST_BLOCK = 1 << 20  # rows, so that float64 sums stay exact until they are converted to integers


class TensorRows(RowSource):
    """A tensor of shape (n, d), on any device."""

    names = None

    def __init__(self, data: torch.Tensor, schema: Schema | None) -> None:
        if data.layout is not torch.strided or data.is_complex():
            raise InvalidArgumentError("Expected a dense tensor of real numbers, got another kind.")
        if data.ndim != 2 or data.shape[1] == 0:
            raise InvalidArgumentError(
                f"Expected a tensor of rows and columns, got shape={tuple(data.shape)}."
            )
        if schema is not None:
            schema.require_complete()
            if data.shape[1] != len(schema.columns):
                raise InvalidArgumentError(
                    f"Expected the {len(schema.columns)} columns of the schema, got {data.shape[1]}."
                )
        self.tensor = data.detach()
        self.schema = schema
        self.n_columns = int(data.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.tensor)

    @property
    def block_rows(self) -> int:
        """Number of rows of a block on the device."""
        return min(_LARGEST_BLOCK, max(4096, _block_cells(self.tensor.device) // self.n_columns))

    def engine(self, n_jobs: int | None = None) -> TorchEngine:
        """Return an engine on the device of these rows."""
        return TorchEngine(self.tensor.device, n_jobs)

    def blocks(self) -> Iterator[torch.Tensor]:
        """Yield blocks of shape (columns, rows) in float64, on the device."""
        for start in range(0, self.n_rows, self.block_rows):
            yield self.tensor[start : start + self.block_rows].to(torch.float64).T.contiguous()

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield pieces of the rows in the memory of this machine."""
        rows = self.block_rows
        for start in range(first * rows, self.n_rows, rows):
            yield _table(self.tensor[start : start + rows], self.schema)

    def in_memory(self) -> TableRows:
        """Return all rows in the memory of this machine."""
        return _table(self.tensor, self.schema)

    def only(self, columns: Sequence[int]) -> TableRows:
        """Return the same rows with some of the columns."""
        return self.in_memory().only(columns)

    def of_findings(self) -> TableRows:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""
        return self.in_memory().of_findings()


def _block_cells(device: torch.device) -> int:
    """Return the cells of a block: a statistic needs up to 16 arrays of a block in float64."""
    if device.type != "cuda":
        return _BLOCK_CELLS
    memory = int(torch.cuda.get_device_properties(device).total_memory)
    return min(_BLOCK_CELLS_OF_GPU, memory // 128)


def _table(tensor: torch.Tensor, schema: Schema | None) -> TableRows:
    plain = tensor.to(torch.float64) if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
    return TableRows(plain.cpu().numpy(), schema)


class TorchEngine:
    """An engine on a device, after a test that its arithmetic on integers is exact."""

    def __init__(self, device: torch.device, n_jobs: int | None = None) -> None:
        self.device = device
        check_device(device)
        self._local = LocalEngine(n_jobs)
        self._kept: list[torch.Tensor] = []
        self._kept_of: tuple[RowSource, RowGrid] | None = None

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum over all rows."""
        sum_tensor = getattr(statistic, "sum_tensor", None)
        to_grid = getattr(domain, "to_grid_tensor", None)
        if sum_tensor is None or to_grid is None or source.schema is not None:
            return self._local.sum(statistic, source, domain)
        if not isinstance(source, TensorRows):
            raise TypeError("Expected rows of a tensor.")
        total = IntegerTotal(statistic.size)
        # The device starts on the next block before the sum of this one is copied.
        waiting: deque[torch.Tensor] = deque()
        for rows in self._grid_rows(source, domain, to_grid):
            waiting.append(sum_tensor(rows))
            if len(waiting) > _SUMS_IN_FLIGHT:
                total.add(waiting.popleft().cpu().numpy())
        for found in waiting:
            total.add(found.cpu().numpy())
        return total.value(statistic.coarse_bits)

    def _grid_rows(self, source: TensorRows, grid: RowGrid, to_grid: Any) -> Iterator[torch.Tensor]:
        if self._kept_of is not None and self._kept_of[0] is source and self._kept_of[1] is grid:
            yield from self._kept
            return
        self.close()
        fits = source.n_rows * source.n_columns * 4 <= self._room()
        kept = []
        for block in source.blocks():
            rows = to_grid(block)
            if fits:
                kept.append(rows.to(torch.float32))  # represents integers of up to 2^24 exactly
            yield rows
        if fits:
            self._kept, self._kept_of = kept, (source, grid)

    def _room(self) -> int:
        if self.device.type == "cuda":
            return int(torch.cuda.mem_get_info(self.device)[0]) // 4
        return bytes_to_keep()

    def close(self) -> None:
        """Free the kept rows."""
        self._kept, self._kept_of = [], None
        self._local.close()


@lru_cache(maxsize=16)
def check_device(device: torch.device) -> None:
    """Raise unless the device computes integer products exactly, and quotients and roots as IEEE 754."""
    try:
        for rows, inner, columns in ((1, 1, 1), (7, 3, 5), (110, 512, 100), (64, 1024, 8), (1000, 100, 4099)):
            bits = (52 - int(np.ceil(np.log2(inner)))) // 2
            i, k, j = np.arange(rows)[:, None], np.arange(inner), np.arange(columns)
            a = ((i * 2654435761 + k * 40503 + 12345) * 2246822519) % (2**bits) - 2 ** (bits - 1)
            b = ((k[:, None] * 3266489917 + j * 668265263 + 777) * 374761393) % (2**bits) - 2 ** (bits - 1)
            left, right = (torch.as_tensor(x, dtype=torch.float64, device=device) for x in (a, b))
            _require_equal((left @ right).cpu().numpy(), (a @ b).astype(np.float64), device)
            batched = torch.bmm(left.expand(3, -1, -1), right.expand(3, -1, -1))[2]
            _require_equal(batched.cpu().numpy(), (a @ b).astype(np.float64), device)
        numbers = np.arange(1.0, 4097.0) ** 1.5
        tensor = torch.as_tensor(numbers, device=device)
        _require_equal((tensor / tensor.flip(0)).cpu().numpy(), numbers / numbers[::-1], device)
        _require_equal(root(tensor).cpu().numpy(), np.sqrt(numbers), device)
    except (RuntimeError, TypeError) as error:  # a device without float64
        _refuse(device, error)


def _require_equal(found: NDArray[np.float64], expected: NDArray[np.float64], device: torch.device) -> None:
    if not np.array_equal(found, expected):
        _refuse(device)


def _refuse(device: torch.device, cause: Exception | None = None) -> NoReturn:
    raise EngineError(
        f"Expected a device with exact float64 products of integers, got {device} without them. No rows were "
        f"read. Move the tensor with .cpu()."
    ) from cause
