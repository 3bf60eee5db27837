"""The paper's data sets: real ones from a folder, checked by their values, else stand-ins that are made here.

A checksum is of the values themselves, so that it holds for a file from any source and in any form.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpem.errors import DataError
from dpem.privacy.randomness import public_random

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Dataset", "Datasets", "Size", "checksum", "leading_components", "unit_ball"]

Size = Literal["full", "quick", "tiny"]
SIDE = 64  # of a picture


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of one data set.

    Attributes
    ----------
    rows : ndarray
        As an experiment uses them.
    is_real : bool
        Whether they are the real ones, by their checksum.
    title : str
        For figures: says so where they are a stand-in.
    radius : float
        What rows were divided by to lie in the unit ball, where they were.
    """

    rows: NDArray[np.float64]
    is_real: bool
    title: str
    radius: float = 1.0


@dataclass(frozen=True)
class Datasets:
    """Where data sets come from: a folder of Parquet files, or none; and how large stand-ins are.

    Examples
    --------
    >>> data = Datasets(None, "tiny").load("lifesci")
    >>> data.is_real, data.title
    (False, 'STAND-IN (generated rows) for Life Science')
    """

    folder: str | None
    size: Size = "full"

    def load(self, name: str) -> Dataset:
        """Return a data set."""
        return _load(name, self.folder, self.size)

    def file_name(self, name: str) -> str:
        """Return the stem of files about `name`: those of a whole run are never those of a smaller one."""
        return name if self.size == "full" else f"{name}-{self.size}"

    @property
    def names(self) -> tuple[str, ...]:
        """All that can be loaded."""
        return tuple(SOURCES)

    def has(self, name: str) -> bool:
        """Whether the folder has the real rows."""
        return self.folder is not None and _path(self.folder, name).is_file()


@dataclass(frozen=True)
class _Source:
    """How to read a data set from its file, generate a stand-in, and scale the rows into the unit ball."""

    title: str
    sha256: str
    read: Callable[[Any], NDArray[Any]]  # a table -> the values that the checksum is of
    make: Callable[[float], NDArray[np.float64]]  # fraction of the real number of rows -> stand-in
    prepare: Callable[[NDArray[Any]], NDArray[np.float64]]
    scaled: bool = True  # by the largest norm, taken as public here as in the paper


def checksum(values: NDArray[Any]) -> str:
    """Return the SHA-256 of values, row by row, with their shape."""
    digest = hashlib.sha256(str(values.shape).encode())
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def unit_ball(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Divide rows by their largest norm: taken as public, as in the paper. A user states a bound instead."""
    radius = float(np.linalg.norm(rows, axis=1).max())
    return rows / radius, radius


@lru_cache(maxsize=4)
def _load(name: str, folder: str | None, size: Size) -> Dataset:
    source = SOURCES[name]
    part = {"full": 1.0, "quick": 0.25, "tiny": 0.02}[size]
    path = None if folder is None else _path(folder, name)
    if path is None or not path.is_file():
        rows, is_real = source.make(part), False
        title = f"STAND-IN (generated rows) for {source.title}"
    else:
        rows, is_real = source.prepare(values_of(name, path)), True
        title = source.title
    if not source.scaled:
        return Dataset(rows, is_real, title)
    rows, radius = unit_ball(rows)
    return Dataset(rows, is_real, title, radius)


def _path(folder: str, name: str) -> Path:
    return Path(folder) / f"{name}.parquet"


def values_of(name: str, path: Path) -> NDArray[Any]:
    """Read a file and check that it holds what figures call real."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        values = SOURCES[name].read(pq.read_table(path))
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"Expected the data set {name} in {str(path)!r}, got another file. Remove it, or name another "
            f"folder."
        ) from error
    if checksum(values) != SOURCES[name].sha256:
        raise DataError(
            f"Expected the data set {name} in {str(path)!r}, got other values (their checksum differs). "
            f"Remove the file, or name another folder."
        )
    return values


# -- reading -----------------------------------------------------------------------------------------------


def _columns(*names: str, kind: Any = np.float32) -> Callable[[Any], NDArray[Any]]:
    return lambda table: np.column_stack([table[name].to_numpy().astype(kind) for name in names])


def _sampled_locations(table: Any) -> NDArray[Any]:
    """Take the two samples of users, spread as the whole set is, in an order of their own."""
    keep = table["in_sample2000"].to_numpy() | table["in_sample1000"].to_numpy()
    rows = _columns("lat", "lon")(table)[keep]
    return np.asarray(rows[np.lexsort(rows.T)])


def _bits(table: Any) -> NDArray[Any]:
    return np.column_stack([table[name].to_numpy() for name in sorted(table.column_names)])


def _pictures(table: Any) -> NDArray[Any]:
    pixels = table["pixels"].combine_chunks().flatten().to_numpy()
    return np.asarray(pixels.astype(np.uint8).reshape(-1, SIDE * SIDE))


# -- preparing ---------------------------------------------------------------------------------------------


def leading_components(bits: NDArray[Any], n_components: int = 100) -> NDArray[np.float64]:
    """Reduce to leading principal components (a reduction taken as public, as in the paper)."""
    centred = bits.astype(np.float64)
    centred -= centred.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, np.argsort(values)[::-1][:n_components]])


def _brightness(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Pixels from 0 to 1."""
    return np.asarray(pixels / 255.0)


# -- stand-ins ---------------------------------------------------------------------------------------------


def _made_mixture(n_rows: int, n_columns: int, n_components: int, spread: float) -> Callable[[float], Any]:
    """Gaussian clusters of unequal size and shape; columns of falling scale."""

    def make(part: float) -> NDArray[np.float64]:
        random = public_random(n_columns)
        n = max(400, round(part * n_rows))
        centres = random.standard_normal((n_components, n_columns)) * spread
        widths = np.exp(random.uniform(-0.7, 0.7, (n_components, n_columns)))
        labels = random.choice(n_components, n, p=random.dirichlet(np.full(n_components, 3.0)))
        rows = centres[labels] + random.standard_normal((n, n_columns)) * widths[labels]
        return np.asarray(rows * np.exp(-np.arange(n_columns) / (n_columns / 2)))

    return make


def _made_pictures(part: float) -> NDArray[np.float64]:
    """Smooth pictures: a mean, eight modes, and a spectrum that falls as in photographs."""
    from dpem import cosine_basis  # noqa: PLC0415

    random = public_random(5)
    n = max(60, round(400 * part))
    basis = cosine_basis((SIDE, SIDE), 400, constant=False)
    fall = np.arange(1.0, 401.0)
    modes = (random.standard_normal((8, 400)) * fall**-0.8) @ basis.T
    modes *= np.linspace(3.5, 1, 8)[:, None] / np.linalg.norm(modes, axis=1, keepdims=True)
    mean = basis @ (random.standard_normal(400) * fall**-0.9)
    texture = (random.standard_normal((n, 400)) * fall**-0.75 * 0.6) @ basis.T
    rows = 4 * mean / np.linalg.norm(mean) + random.standard_normal((n, 8)) @ modes + texture
    return np.asarray(0.5 + rows / (2 * np.abs(rows).max()))  # pixels from 0 to 1


SOURCES = {
    "lifesci": _Source(
        "Life Science",
        "66b11019ee965733e88aa12421cc41e47390ff0e51205edc9fd3a2d688fc9a7e",
        _columns(*(f"pc{i}" for i in range(10))),
        _made_mixture(26_733, 10, 6, 1.0),
        lambda values: values.astype(np.float64),
    ),
    "diabetes130_binary": _Source(
        "diabetes patients (100 components)",
        "4b76a6b4e66c88e1cb66fd014da32095afda07d981c5172dac4a1ad8e054801a",
        _bits,
        _made_mixture(71_518, 100, 15, 0.7),
        leading_components,
    ),
    "gowalla_locations": _Source(
        "Gowalla locations",
        "bd1a7fe30b235e35cde787f69123f4a611191521e0919033bdc862da53862ab3",
        _sampled_locations,
        _made_mixture(101_918, 2, 30, 4.0),
        lambda values: values.astype(np.float64),
    ),
    "gowalla_checkins": _Source(
        "Gowalla check-ins",
        "b458512d8ddd559d08fd46cf00e5616c8b400a9941dc1069bd296b92acd74736",
        _columns("lat", "lon"),
        _made_mixture(777_734, 2, 30, 4.0),
        lambda values: values.astype(np.float64),
    ),
    "olivetti_faces": _Source(
        "Olivetti faces",
        "c1e06f2f7f500b112fc173c31ea98ea7ad9fc9bd5d97afdb4853cb9c2dabb192",
        _pictures,
        _made_pictures,
        _brightness,
        scaled=False,
    ),
}
