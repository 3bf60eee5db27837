"""The interface of experiments: tasks that run in any order, a figure, and the text about them."""

from __future__ import annotations

import warnings
import zlib
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.errors import DpemWarning
from dpem.privacy.randomness import public_random
from dpem.testing import insecure_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from dpem.reproduce.datasets import Datasets, Size

__all__ = ["Experiment", "Task", "folds", "pick", "repeatable"]


@dataclass(frozen=True)
class Task:
    """One fit and its measurement.

    Attributes
    ----------
    data, method : str
        Names of the data set and of the method.
    epsilon : float
        The privacy guarantee; infinite for methods without one.
    fold, seed : int
        Number of the fold that is held out, and seed of noise and starts.
    part : float
        Fraction of the training rows that is used.
    """

    data: str
    method: str
    epsilon: float
    fold: int = 0
    seed: int = 0
    part: float = 1.0

    @property
    def key(self) -> tuple[Any, ...]:
        """Key that identifies the task."""
        return tuple(asdict(self).values())

    @property
    def noise_seed(self) -> int:
        """Seed of the noise, the same on every machine."""
        return zlib.crc32(repr(self.key).encode())


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper. The text about it is in reproduction.md.jinja."""

    name: str
    tasks: Callable[[Datasets], list[Task]]
    measure: Callable[[Task, Datasets], dict[str, float]]
    draw: Callable[[pd.DataFrame, Datasets], Any]  # a matplotlib figure
    describe: Callable[[pd.DataFrame, Datasets], dict[str, str]]  # values for the page


@contextmanager
def repeatable(task: Task) -> Iterator[None]:
    """Draw noise from the seed of the task, without warnings: the data is public and nothing is released."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpemWarning)
        with insecure_noise(task.noise_seed):
            yield


def folds(n: int, fold: int, n_folds: int = 10) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of training rows and held-out rows, which are the same for every method."""
    parts = np.array_split(public_random(100).permutation(n), n_folds)
    return np.concatenate([part for j, part in enumerate(parts) if j != fold]), parts[fold]


def pick(size: Size, full: Any, quick: Any, tiny: Any) -> Any:
    """Return the value for the size of the run."""
    return {"full": full, "quick": quick, "tiny": tiny}[size]
