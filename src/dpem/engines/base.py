"""What an engine is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpem.data import RowGrid, RowSource

__all__ = ["BlockSum", "Engine"]


class BlockSum(Protocol):
    """What an engine needs to know of a statistic: its length and its sum over a block of grid rows."""

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    @property
    def coarse_bits(self) -> int:
        """How many low bits of the whole sum are dropped."""
        ...

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block of grid rows of shape (columns, rows)."""
        ...


class Engine(Protocol):
    """Sums a statistic over all rows of a source, exactly."""

    def sum(self, statistic: BlockSum, source: RowSource, domain: RowGrid) -> NDArray[np.int64]:
        """Return the exact integer sum; the same bits from every engine, block size and thread count."""
        ...
