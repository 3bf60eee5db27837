"""The paper's data sets: real ones from a folder, verified by a checksum, or else generated stand-ins.

The checksum is computed from the values, so that it accepts a file from any source and in any encoding.
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
SIDE = 64  # height and width of a picture


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of one data set.

    Attributes
    ----------
    rows : ndarray
        Rows in the form that experiments use.
    is_real : bool
        Whether the rows are the real ones, according to their checksum.
    title : str
        Title for figures. It marks a stand-in as such.
    radius : float
        The number by which rows were divided to lie in the unit ball, or 1.
    """

    rows: NDArray[np.float64]
    is_real: bool
    title: str
    radius: float = 1.0


@dataclass(frozen=True)
class Datasets:
    """The source of data sets: an optional folder of Parquet files, and the size of stand-ins.

    Examples
    --------
    >>> data = Datasets(None, "tiny").load("lifesci")
    >>> data.is_real, data.title
    (False, 'STAND-IN (generated rows) for Life Science')
    """

    folder: str | None
    size: Size = "full"

    def load(self, name: str) -> Dataset:
        """Return a data set: the real rows if the folder has them, or else a stand-in."""
        return _load(name, self.folder, self.size)

    def file_name(self, name: str) -> str:
        """Return the stem of the files about `name`. Full and smaller runs have different files."""
        return name if self.size == "full" else f"{name}-{self.size}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all data sets."""
        return tuple(SOURCES)

    def has(self, name: str) -> bool:
        """Return whether the folder has the file of a data set."""
        return self.folder is not None and _path(self.folder, name).is_file()


@dataclass(frozen=True)
class _Source:
    """How to read a data set from its file, generate a stand-in, and scale the rows into the unit ball."""

    title: str
    sha256: str
    read: Callable[[Any], NDArray[Any]]  # a table -> the values for the checksum
    generate: Callable[[float], NDArray[np.float64]]  # fraction of the real number of rows -> stand-in
    prepare: Callable[[NDArray[Any]], NDArray[np.float64]]
    scaled: bool = True  # whether rows are divided by their largest norm


def checksum(values: NDArray[Any]) -> str:
    """Return the SHA-256 hash of the shape and of the values, row by row."""
    digest = hashlib.sha256(str(values.shape).encode())
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def unit_ball(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Divide rows by their largest norm, which is taken as public as in the paper. A user states a bound."""
    radius = float(np.linalg.norm(rows, axis=1).max())
    return rows / radius, radius


@lru_cache(maxsize=4)
def _load(name: str, folder: str | None, size: Size) -> Dataset:
    source = SOURCES[name]
    part = {"full": 1.0, "quick": 0.25, "tiny": 0.02}[size]
    path = None if folder is None else _path(folder, name)
    if path is None or not path.is_file():
        rows, is_real = source.generate(part), False
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
    """Read the values of a data set from a file, and verify their checksum."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        values = SOURCES[name].read(pq.read_table(path))
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"Expected the data set {name} in {str(path)!r}, got another file. Remove it, or pass another "
            f"folder."
        ) from error
    if checksum(values) != SOURCES[name].sha256:
        raise DataError(
            f"Expected the data set {name} in {str(path)!r}, got other values (their checksum differs). "
            f"Remove the file, or pass another folder."
        )
    return values


# -- reading -----------------------------------------------------------------------------------------------


def _columns(*names: str, kind: Any = np.float32) -> Callable[[Any], NDArray[Any]]:
    return lambda table: np.column_stack([table[name].to_numpy().astype(kind) for name in names])


def _sampled_locations(table: Any) -> NDArray[Any]:
    """Take the locations of two samples of users, which are distributed as the whole set, and sort them."""
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
    """Project onto the leading principal components, which are taken as public as in the paper."""
    centred = bits.astype(np.float64)
    centred -= centred.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, np.argsort(values)[::-1][:n_components]])


def _brightness(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Scale pixels to the interval from 0 to 1."""
    return np.asarray(pixels / 255.0)


# -- stand-ins ---------------------------------------------------------------------------------------------


def _generated_mixture(
    n_rows: int, n_columns: int, n_components: int, spread: float
) -> Callable[[float], Any]:
    """Return a generator of Gaussian clusters of unequal size and shape, in columns of decreasing scale."""

    def make(part: float) -> NDArray[np.float64]:
        random = public_random(n_columns)
        n = max(400, round(part * n_rows))
        centres = random.standard_normal((n_components, n_columns)) * spread
        widths = np.exp(random.uniform(-0.7, 0.7, (n_components, n_columns)))
        labels = random.choice(n_components, n, p=random.dirichlet(np.full(n_components, 3.0)))
        rows = centres[labels] + random.standard_normal((n, n_columns)) * widths[labels]
        return np.asarray(rows * np.exp(-np.arange(n_columns) / (n_columns / 2)))

    return make


def _generated_pictures(part: float) -> NDArray[np.float64]:
    """Generate smooth pictures: a mean, eight modes, and texture with the spectrum of photographs."""
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
        _generated_mixture(26_733, 10, 6, 1.0),
        lambda values: values.astype(np.float64),
    ),
    "diabetes130_binary": _Source(
        "diabetes patients (100 components)",
        "4b76a6b4e66c88e1cb66fd014da32095afda07d981c5172dac4a1ad8e054801a",
        _bits,
        _generated_mixture(71_518, 100, 15, 0.7),
        leading_components,
    ),
    "gowalla_locations": _Source(
        "Gowalla locations",
        "bd1a7fe30b235e35cde787f69123f4a611191521e0919033bdc862da53862ab3",
        _sampled_locations,
        _generated_mixture(101_918, 2, 30, 4.0),
        lambda values: values.astype(np.float64),
    ),
    "gowalla_checkins": _Source(
        "Gowalla check-ins",
        "b458512d8ddd559d08fd46cf00e5616c8b400a9941dc1069bd296b92acd74736",
        _columns("lat", "lon"),
        _generated_mixture(777_734, 2, 30, 4.0),
        lambda values: values.astype(np.float64),
    ),
    "olivetti_faces": _Source(
        "Olivetti faces",
        "c1e06f2f7f500b112fc173c31ea98ea7ad9fc9bd5d97afdb4853cb9c2dabb192",
        _pictures,
        _generated_pictures,
        _brightness,
        scaled=False,
    ),
}
