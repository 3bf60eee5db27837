"""What an experiment is: tasks that can be run in any order, a figure, and a text about both."""

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
    """One fit and what is measured of it.

    Attributes
    ----------
    data, method : str
        What is fitted by what.
    epsilon : float
        The privacy guarantee; infinite for methods without one.
    fold, seed : int
        Which rows are held out, and which draws of noise and starts.
    part : float
        Part of the rows to fit that is used.
    """

    data: str
    method: str
    epsilon: float
    fold: int = 0
    seed: int = 0
    part: float = 1.0

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells tasks apart."""
        return tuple(asdict(self).values())

    @property
    def noise_seed(self) -> int:
        """A seed of its own, the same on every machine."""
        return zlib.crc32(repr(self.key).encode())


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper; the words about it are in reproduction.md.jinja."""

    name: str
    tasks: Callable[[Datasets], list[Task]]
    measure: Callable[[Task, Datasets], dict[str, float]]
    draw: Callable[[pd.DataFrame, Datasets], Any]  # a matplotlib figure
    describe: Callable[[pd.DataFrame, Datasets], dict[str, str]]  # what the page says of it


@contextmanager
def repeatable(task: Task) -> Iterator[None]:
    """Draw noise from the task's seed, without a word about it: an experiment, nothing is published."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpemWarning)
        with insecure_noise(task.noise_seed):
            yield


def folds(n: int, fold: int, n_folds: int = 10) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to fit and the rows held out: the same for every method."""
    parts = np.array_split(public_random(100).permutation(n), n_folds)
    return np.concatenate([part for j, part in enumerate(parts) if j != fold]), parts[fold]


def pick(size: Size, full: Any, quick: Any, tiny: Any) -> Any:
    """Return what an experiment of this size takes."""
    return {"full": full, "quick": quick, "tiny": tiny}[size]
