"""The interface of row statistics: sums of one integer vector of bounded norm per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dpem._compiled import kernel_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.privacy.neighbours import Adjacency
    from dpem.privacy.sensitivity import Norm

__all__ = [
    "CompiledStatistic",
    "JointStatistic",
    "PreparedStatistic",
    "RowStatistic",
    "Statistic",
    "TensorStatistic",
    "require_gaussian",
]


class RowStatistic(Protocol):
    """A sum over rows of one integer vector of bounded norm per row.

    The vector may depend on released values and on its own row, never on another row. Every implementation
    checks the bound of each row in integers, and takes its sensitivity from `dpem.privacy.sensitivity`.
    """

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    @property
    def noise_shape(self) -> NDArray[np.float64] | None:
        """Noise of each entry relative to the mechanism's noise, or None if it is 1 for all entries."""
        ...

    @property
    def coarse_bits(self) -> int:
        """Number of low bits of the sum that are dropped before release, so that many rows fit in 64 bits."""
        ...

    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of the released sum, with each entry divided by its relative noise.

        Dropping low bits rounds the sum down, which can add 1 to the change of every entry.

        Statistics that are released with Gaussian noise alone need not support the L1 norm.
        """
        ...

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block of grid rows of shape (columns, rows)."""
        ...


class Statistic:
    """What most statistics share: no constructor takes these two."""

    @property
    def noise_shape(self) -> NDArray[np.float64] | None:
        """None: all entries have the same noise."""
        return None

    @property
    def coarse_bits(self) -> int:
        """0: no bits are dropped."""
        return 0


class PreparedStatistic(Statistic, ABC):
    """A statistic whose expensive part is shared: `sum_block` calls `prepare`, then `sum_prepared`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the vector."""

    @abstractmethod
    def sensitivity(self, adjacency: Adjacency, norm: Norm = "l2") -> float:
        """Return the sensitivity of the released sum."""

    @abstractmethod
    def prepare(self, rows: NDArray[np.float64]) -> Any:
        """Return the shared intermediate results for a block of grid rows, such as responsibilities."""

    @abstractmethod
    def sum_prepared(self, rows: NDArray[np.float64], prepared: Any, /) -> NDArray[np.int64]:
        """Return the sum over the block from the result of `prepare`."""

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block without prepared results."""
        return self.sum_prepared(rows, self.prepare(rows))


@dataclass(frozen=True, eq=False)
class JointStatistic:
    """Statistics with the same `prepare`, summed in one pass over the rows and released separately."""

    parts: Sequence[PreparedStatistic]

    @property
    def size(self) -> int:
        """Number of entries of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def coarse_bits(self) -> NDArray[np.int64]:
        """Number of low bits that are dropped from each entry of the sum."""
        return np.repeat([part.coarse_bits for part in self.parts], [part.size for part in self.parts])

    def sum_block(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Call `prepare` once, and sum every part."""
        prepared = self.parts[0].prepare(rows)
        return np.concatenate([part.sum_prepared(rows, prepared) for part in self.parts])

    def split(self, total: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the sums of the parts."""
        return np.split(total, np.cumsum([part.size for part in self.parts])[:-1])


class CompiledStatistic(Statistic, ABC):
    """A statistic with a compiled kernel. NumPy is the reference: both give the same bits."""

    has_kernel: ClassVar[bool] = True
    kernels: ClassVar[str]  # the module in dpem.statistics.kernels

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the vector."""

    def sum_block(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """Return the sum over a block of grid rows, which may be in single precision."""
        compiled = kernel_module(f"dpem.statistics.kernels.{self.kernels}", rows.size)
        if compiled is None:
            return self._sum_numpy(rows.astype(np.float64, copy=False))
        total = np.zeros(self.size, dtype=np.int64)
        self._add_compiled(compiled, np.ascontiguousarray(rows), total)
        return total

    @abstractmethod
    def _sum_numpy(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the sum over a block."""

    @abstractmethod
    def _add_compiled(self, kernels: Any, rows: NDArray[np.floating[Any]], total: NDArray[np.int64]) -> None:
        """Add the sum over a block to `total`, with the functions of the module of kernels."""


class TensorStatistic(CompiledStatistic):
    """A compiled statistic that is also summed from tensors, with the same bits.

    Engines look for `sum_tensor` by its name. The processor sums statistics without it, or with None.
    """

    tensor_module: ClassVar[str] = "kernels_torch"  # in dpem.statistics
    tensor_kernel: ClassVar[str]  # the function in this module
    tensor_in_single: ClassVar[bool] = False  # whether this function takes rows in single precision, too

    def sum_tensor(self, rows: Any) -> Any:
        """Return the sum over a tensor of grid rows, computed on its device."""
        module = import_module(f"dpem.statistics.{self.tensor_module}")  # needs the extra `gpu`
        return getattr(module, self.tensor_kernel)(self, rows if self.tensor_in_single else rows.double())


def require_gaussian(norm: Norm) -> None:
    """Raise for the L1 norm of Laplace noise. Most statistics have a proof for Gaussian noise alone."""
    if norm != "l2":
        raise TypeError("Expected norm='l2': this statistic is released with Gaussian noise only.")
