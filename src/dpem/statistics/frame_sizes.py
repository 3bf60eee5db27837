"""The mean squared norm of rows in a frame, by which a covariance is rescaled, including the tails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpem.statistics.base import TensorStatistic
from dpem.statistics.simple import LINEAR_BITS, BoundedNumber

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.released import ReleasedStatistics
    from dpem.statistics.gaussian import GaussianComponents

__all__ = ["FrameSizes"]


@dataclass(frozen=True, eq=False)
class FrameSizes(BoundedNumber, TensorStatistic):
    """The squared norm of rows in one frame, divided by `cap` and limited to 1, with 20 bits. Eq. (S-8)."""

    component: GaussianComponents  # a single one
    cap: float
    counted: bool = field(default=False, init=False)
    kernels: ClassVar[str] = "gaussian"
    tensor_module: ClassVar[str] = "kernels_torch_sizes"
    tensor_kernel: ClassVar[str] = "frame_sizes"

    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sum the squared norms. NaN counts as the cap."""
        _, squared = self.component.frames(rows)
        part = squared[0] / self.cap
        scaled = np.floor(np.where(part < 1.0, part, 1.0) * 2.0**LINEAR_BITS)
        return np.array([int(scaled.sum())])

    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        own = self.component
        kernels.frame_sizes(
            rows, own.whitening, own.offsets[0], own.scales[0], self.cap, 2.0**LINEAR_BITS, total
        )

    def mean(self, released: ReleasedStatistics, n_rows: float) -> tuple[float, float]:
        """Return the mean squared norm and the standard deviation of its noise."""
        unit = self.cap / 2.0**LINEAR_BITS / n_rows
        return float(released.values[0]) * unit, float(released.noise_stddev[0]) * unit
