"""Releases of statistics of mapped rows, such as filled, encoded or projected rows.

The map works on one row at a time, and its results lie in the ball that the statistic expects. The
sensitivity is therefore that of the statistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from dpem.gate.base import Releases
    from dpem.gate.plan import Plan
    from dpem.gate.released import ReleasedStatistics
    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm
    from dpem.statistics.base import RowStatistic

__all__ = ["MappedRowsGate"]

_MOST_CELLS = 1 << 25  # of mapped rows on a device at once


@dataclass(frozen=True, eq=False)
class _MappedStatistic:
    """A `RowStatistic` of mapped rows."""

    statistic: RowStatistic
    map_rows: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    @property
    def size(self) -> int:
        return self.statistic.size

    @property
    def noise_shape(self) -> NDArray[np.float64] | None:
        return self.statistic.noise_shape

    @property
    def coarse_bits(self) -> int:
        return self.statistic.coarse_bits

    @property
    def has_kernel(self) -> bool:
        """Whether both map and statistic take large blocks, and blocks in single precision."""
        return all(getattr(part, "has_kernel", False) for part in (self.statistic, self.map_rows))

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        return self.statistic.sensitivity(adjacency, norm)

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        return self.statistic.sum_block(self.map_rows(rows))

    @property
    def sum_tensor(self) -> Any:
        """The sum over a tensor, or None if the map or the statistic has no form for tensors.

        A map with the form `map_tensor` also has a `size`: the number of columns of a mapped row.
        """
        map_tensor = getattr(self.map_rows, "map_tensor", None)
        sum_tensor = getattr(self.statistic, "sum_tensor", None)
        if map_tensor is None or sum_tensor is None:
            return None
        together = max(4096, _MOST_CELLS // self.map_rows.size)  # type: ignore[attr-defined]  # rows

        def sum_parts(rows: Any) -> Any:
            parts = [sum_tensor(map_tensor(part)) for part in rows.split(together, dim=1)]
            return sum(parts[1:], parts[0])

        return sum_parts


@dataclass(frozen=True, eq=False)
class MappedRowsGate:
    """A release gate for statistics of mapped rows."""

    gate: Releases
    map_rows: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    @property
    def plan(self) -> Plan:
        """The plan of the gate."""
        return self.gate.plan

    def release(self, name: str, statistic: RowStatistic) -> ReleasedStatistics:
        """Release a statistic of the mapped rows."""
        return self.gate.release(name, _MappedStatistic(statistic, self.map_rows))
