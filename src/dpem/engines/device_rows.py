"""Rows that a device sums: a tensor, or other rows that are streamed to it. They need the extra `gpu`.

A block of rows at a time is on the device. It parses a tensor and computes grid rows. Other rows are read
by the threads of this machine, which compute their grid rows.
"""

from __future__ import annotations

import copy
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from dpem._threads import limit_this_thread, one_thread
from dpem.data import TableRows
from dpem.data.device_cells import parse
from dpem.data.sources.base import RowSource
from dpem.data.sources.on_device import invalid_device
from dpem.engines.base import ClusterRows, grid_rows
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.data import RowGrid, Schema
    from dpem.engines.torch_device import TorchEngine

__all__ = ["DeviceRows", "StreamedToDevice", "TensorRows", "rows_on_device"]

# Cells of a block on the device: enough to use all of it, and little of its memory.
_BLOCK_CELLS, _BLOCK_CELLS_OF_GPU = 1 << 25, 1 << 27
_PIECE_CELLS = 1 << 19  # of a piece for the threads of this machine
_LARGEST_BLOCK = 1 << 20  # rows, so that float64 sums stay exact until they are converted to integers


def rows_on_device(source: RowSource, device: Any) -> RowSource:
    """Return the same rows, summed on a device."""
    try:
        home = torch.device(device)
    except (RuntimeError, TypeError):
        raise invalid_device() from None
    if isinstance(source, ClusterRows):
        raise InvalidArgumentError(
            "Expected rows on this machine, got rows on a cluster, where they stay. Pass the table itself."
        )
    return source.on(home) if isinstance(source, TensorRows) else StreamedToDevice(source, home)


def _block_cells(device: torch.device) -> int:
    """Return the cells of a block: a statistic needs up to 16 arrays of a block in float64."""
    if device.type != "cuda":
        return _BLOCK_CELLS
    memory = int(torch.cuda.get_device_properties(device).total_memory)
    return min(_BLOCK_CELLS_OF_GPU, memory // 128)


def _block_rows(device: torch.device, n_columns: int) -> int:
    return min(_LARGEST_BLOCK, max(4096, _block_cells(device) // n_columns))


class DeviceRows(RowSource):
    """Rows that can be put on a device, as grid rows, a few blocks at a time."""

    device: torch.device

    def engine(self, n_jobs: int | None = None) -> TorchEngine:
        """Return an engine on the device of these rows."""
        from dpem.engines.torch_device import TorchEngine  # noqa: PLC0415  (it imports this module)

        return TorchEngine(self.device, n_jobs)

    def grid_blocks(self, grid: RowGrid, first: int, n_jobs: int) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield grid rows on the device, each time with the number of the next piece, from piece `first`."""
        raise NotImplementedError


class TensorRows(DeviceRows):
    """A tensor of shape (n, d), on any device; with `device`, its blocks are copied to that one."""

    names = None

    def __init__(
        self, data: torch.Tensor, schema: Schema | None = None, device: torch.device | None = None
    ) -> None:
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
        self.device = data.device if device is None else device
        self._columns: list[int] | None = None
        self._of_findings = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.tensor)

    @property
    def block_rows(self) -> int:
        """Number of rows of a block on the device."""
        return _block_rows(self.device, self.n_columns)

    def on(self, device: torch.device) -> Self:
        """Return the same rows, copied to a device block by block."""
        other = copy.copy(self)
        other.device = device
        return other

    def blocks(self, first: int = 0) -> Iterator[torch.Tensor]:
        """Yield blocks of shape (columns, rows) in float64 on the device, parsed as the schema declares."""
        for start in range(first * self.block_rows, self.n_rows, self.block_rows):
            # A copy from pinned memory need not wait; one from other memory is complete at once.
            block = self._part(start, self.block_rows).to(self.device, non_blocking=True)
            if self.schema is None:
                yield block.to(torch.float64).T.contiguous()
            else:
                parsed = zip(self.schema.columns, block.T.contiguous(), strict=True)
                yield torch.stack([parse(column, cells)[self._of_findings] for column, cells in parsed])

    def grid_blocks(
        self,
        grid: RowGrid,
        first: int,
        n_jobs: int,  # noqa: ARG002
    ) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield grid rows that the device computes."""
        to_grid: Any = getattr(grid, "to_grid_tensor")  # noqa: B009  (not of every grid)
        for number, block in enumerate(self.blocks(first), start=first + 1):
            yield number, [to_grid(block)]

    def _part(self, start: int, rows: int) -> torch.Tensor:
        part = self.tensor[start : start + rows]
        return part if self._columns is None else part[:, self._columns]

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield pieces of the rows in the memory of this machine."""
        rows = max(64, _PIECE_CELLS // self.n_columns)
        for start in range(first * rows, self.n_rows, rows):
            yield self._table(self._part(start, rows))

    def in_memory(self) -> TableRows:
        """Return all rows in the memory of this machine."""
        return self._table(self.tensor if self._columns is None else self.tensor[:, self._columns])

    def only(self, columns: Sequence[int]) -> Self:
        """Return the same rows with some of the columns."""
        other = copy.copy(self)
        kept = range(self.n_columns) if self._columns is None else self._columns
        other._columns = [kept[j] for j in columns]
        other.n_columns = len(columns)
        if self.schema is not None:
            other.schema = self.schema.select([self.schema.names[j] for j in columns])
        return other

    def of_findings(self) -> Self:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""
        other = copy.copy(self)
        other._of_findings = True
        return other

    def _table(self, tensor: torch.Tensor) -> TableRows:
        plain = tensor.to(torch.float64) if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
        rows = TableRows(plain.cpu().numpy(), self.schema)
        return rows.of_findings() if self._of_findings else rows


class StreamedToDevice(DeviceRows):
    """Other rows: the threads of this machine read them and compute grid rows, which go to the device."""

    def __init__(self, source: RowSource, device: torch.device) -> None:
        self._source, self.device = source, device
        self.schema, self.names, self.n_columns = source.schema, source.names, source.n_columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._source.n_rows

    def pieces(self, first: int = 0) -> Iterator[TableRows]:
        """Yield the pieces of the source."""
        return self._source.pieces(first)

    def in_memory(self) -> TableRows:
        """Return all rows in the memory of this machine."""
        return self._source.in_memory()

    def only(self, columns: Sequence[int]) -> StreamedToDevice:
        """Return the same rows with some of the columns."""
        return StreamedToDevice(self._source.only(columns), self.device)

    def of_findings(self) -> StreamedToDevice:
        """Return the same rows with the finding about each cell (`dpem.data.column`) instead of its value."""
        return StreamedToDevice(self._source.of_findings(), self.device)

    def grid_blocks(self, grid: RowGrid, first: int, n_jobs: int) -> Iterator[tuple[int, list[torch.Tensor]]]:
        """Yield grid rows of whole pieces, joined to blocks of a useful size."""
        rows = _block_rows(self.device, self.n_columns)
        joined: list[NDArray[np.float32]] = []
        number = first
        for blocks in self._converted(grid, first, n_jobs):
            joined += blocks
            number += 1
            if sum(block.shape[1] for block in joined) >= rows:
                yield number, self._moved(joined, rows)
                joined = []
        yield number, self._moved(joined, rows)

    def _converted(self, grid: RowGrid, first: int, n_jobs: int) -> Iterator[list[NDArray[np.float32]]]:
        """Yield the grid rows of every piece in order, with a few pieces in work at a time."""
        pieces = self._source.pieces(first)
        if n_jobs == 1:
            yield from (_grid_rows(piece, grid) for piece in pieces)
            return
        works: deque[Future[list[NDArray[np.float32]]]] = deque()
        with one_thread(), ThreadPoolExecutor(n_jobs, initializer=limit_this_thread) as pool:
            for piece in pieces:
                works.append(pool.submit(copy_context().run, _grid_rows, piece, grid))
                if len(works) > n_jobs:
                    yield works.popleft().result()
            while works:
                yield works.popleft().result()

    def _moved(self, blocks: list[NDArray[np.float32]], rows: int) -> list[torch.Tensor]:
        blocks = [block for block in blocks if block.shape[1]]
        if not blocks:
            return []
        whole = torch.from_numpy(np.concatenate(blocks, axis=1))
        return [part.contiguous().to(self.device) for part in whole.split(rows, dim=1)]


def _grid_rows(piece: TableRows, grid: RowGrid) -> list[NDArray[np.float32]]:
    with np.errstate(all="ignore"):  # the caller's settings must not turn a row into an error
        return grid_rows(piece, grid)
