"""Sums on a device, in float64 and with the same bits as on the processor. They need the extra `gpu`.

Grid rows are kept on the device between the steps of a fit as far as they fit into a share of its memory. The
threads of this machine sum statistics and grids without a form for tensors.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch

from dpem._threads import thread_count
from dpem.data.device_grid import root
from dpem.engines.device_rows import DeviceRows
from dpem.engines.local import LocalEngine
from dpem.engines.memory import bytes_to_keep
from dpem.engines.totals import IntegerTotal
from dpem.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource
    from dpem.engines.base import BlockSum

__all__ = ["TorchEngine", "check_device"]

_SUMS_IN_FLIGHT = 2


class TorchEngine:
    """An engine on a device, after a test that its arithmetic on integers is exact."""

    def __init__(self, device: torch.device, n_jobs: int | None = None) -> None:
        self.device = device
        check_device(device)
        self._n_jobs = thread_count(n_jobs)
        self._local = LocalEngine(n_jobs)
        self._kept = _KeptRows()

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum over all rows."""
        if not isinstance(source, DeviceRows):
            raise TypeError("Expected rows of a tensor, or rows that are streamed to a device.")
        sum_tensor = getattr(statistic, "sum_tensor", None)
        if sum_tensor is None or getattr(domain, "to_grid_tensor", None) is None:
            return self._local.sum(statistic, source, domain)
        total = IntegerTotal(statistic.size)
        # The device starts on the next block before the sum of this one is copied.
        waiting: deque[torch.Tensor] = deque()
        with np.errstate(all="ignore"):  # the caller's settings must not turn a row into an error
            for rows in self._grid_rows(source, domain):
                waiting.append(sum_tensor(rows))
                if len(waiting) > _SUMS_IN_FLIGHT:
                    total.add(waiting.popleft().cpu().numpy())
        for found in waiting:
            total.add(found.cpu().numpy())
        return total.value(statistic.coarse_bits)

    def _grid_rows(self, source: DeviceRows, grid: RowGrid) -> Iterator[torch.Tensor]:
        """Yield the kept grid rows, then the others; the first pass keeps as many as there is room for."""
        kept = self._kept
        if kept.of is None or kept.of[0] is not source or kept.of[1] is not grid:
            kept = self._kept = _KeptRows()  # a failed pass kept only a part, for nothing
        is_first, room = kept.of is None, self._room() if kept.of is None else 0
        yield from kept.blocks
        if kept.is_whole:
            return
        for number, blocks in source.grid_blocks(grid, kept.next_piece, self._n_jobs):
            room -= sum(block.numel() * 4 for block in blocks)
            if is_first and room >= 0:
                kept.blocks += [block.to(torch.float32) for block in blocks]  # holds integers up to 2^24
                kept.next_piece = number
            yield from blocks
        if is_first:
            kept.of, kept.is_whole = (source, grid), room >= 0

    def _room(self) -> int:
        if self.device.type == "cuda":
            cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            return int(torch.cuda.mem_get_info(self.device)[0] + cached) // 4
        return bytes_to_keep()

    def close(self) -> None:
        """Free the kept rows."""
        self._kept = _KeptRows()
        self._local.close()


@dataclass
class _KeptRows:
    """Grid rows of the first pieces of a table, on the device; `of` is set after a complete pass."""

    blocks: list[torch.Tensor] = field(default_factory=list)
    next_piece: int = 0
    is_whole: bool = False
    of: tuple[RowSource, RowGrid] | None = None


@lru_cache(maxsize=16)
def check_device(device: torch.device) -> None:
    """Raise unless the device computes integer products exactly, and quotients and roots as IEEE 754."""
    try:
        torch.zeros(1, device=device)
    except (AssertionError, RuntimeError) as error:  # AssertionError: torch has no support for it
        raise EngineError(
            f"Expected a device that torch can use here, got {device}. No rows were read. Name another "
            f"device, or pass the rows themselves."
        ) from error
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
