"""Download the paper's data sets from public servers, and verify their values before storing them.

dpem ships no data set, because most servers state no licence. Every mirror of a data set is parsed to the
same table. The checksum (`datasets.SOURCES`) is computed from the values, so that any mirror is acceptable.
"""

from __future__ import annotations

import http.client
import io
import re
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from dpem._files import make_folder, replacing
from dpem.errors import DataError
from dpem.reproduce.datasets import SIDE, SOURCES, checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["PLACES", "Place", "fetch"]

_GITHUB = "https://raw.githubusercontent.com"
_TIMEOUT = 60.0
_LARGEST = 2**29  # most bytes of a file, far above the size of each


@dataclass(frozen=True)
class Place:
    """The mirrors of a data set, each with the addresses of its files, and a parser of these files."""

    mirrors: tuple[tuple[str, ...], ...]
    parse: Callable[[Sequence[bytes]], pd.DataFrame]


def fetch(
    folder: Path,
    names: Iterable[str],
    *,
    places: dict[str, Place] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """Download the data sets that a folder lacks, verify them, and yield the name of each."""
    places = PLACES if places is None else places
    make_folder(folder)
    for name in names:
        path = folder / f"{name}.parquet"
        if path.exists() or name not in places:
            continue
        if progress is not None:
            progress(f"Fetching {name} ...")
        table = _first_good(name, places[name])
        with replacing(path) as target:
            table.to_parquet(target, index=False)
        yield name


def _first_good(name: str, place: Place) -> pd.DataFrame:
    """Return the table of the first mirror with the right checksum."""
    problems = []
    for addresses in place.mirrors:
        try:
            table = place.parse([_content(address) for address in addresses])
            if checksum(SOURCES[name].read(_arrow(table))) == SOURCES[name].sha256:
                return table
            problems.append(f"{addresses[0]}: other values (their checksum differs)")
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            problems.append(f"{addresses[0]}: {getattr(error, 'reason', None) or type(error).__name__}")
        except Exception:  # noqa: BLE001  (a wrong file may raise any error in a parser)
            problems.append(f"{addresses[0]}: another file")
    raise DataError(
        f"Expected the data set {name} on a public server, got: {'; '.join(problems)}. Nothing was stored. "
        f"Try again later, or put the file into the folder yourself."
    )


def _arrow(table: pd.DataFrame) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_pandas(table, preserve_index=False)


def _content(address: str) -> bytes:
    if not address.startswith(("https://", "http://127.0.0.1:")):
        raise urllib.error.URLError("not an https address")
    with urllib.request.urlopen(address, timeout=_TIMEOUT) as answer:  # noqa: S310  (checked above)
        return bytes(answer.read(_LARGEST))


# -- parsing -----------------------------------------------------------------------------------------------


def _lifesci(files: Sequence[bytes]) -> pd.DataFrame:
    """Parse a CSV file without header: ten components and a label."""
    names = [*(f"pc{i}" for i in range(10)), "label"]
    table = pd.read_csv(io.BytesIO(files[0]), header=None, names=names)
    return table.astype(dict.fromkeys(names[:10], "float32") | {"label": "int8"})


_PAIR = re.compile(rb"^(-?\d+\.\d{10})(-?\d+\.\d{10})\s", re.MULTILINE)


def _locations(files: Sequence[bytes]) -> pd.DataFrame:
    """Parse distinct locations, rounded to eight decimals.

    Latitude and longitude have ten decimals each and no separator.
    """
    samples = [np.round(np.array(_PAIR.findall(content), dtype=np.float64), 8) for content in files]
    keys = [{tuple(row) for row in sample} for sample in samples]
    rows = sorted(set.union(*keys))
    table = pd.DataFrame(rows, columns=["lat", "lon"])
    for name, known in zip(("in_sample2000", "in_sample1000"), keys, strict=True):
        table[name] = [row in known for row in rows]
    return table.astype({"lat": "float32", "lon": "float32"})


def _faces(files: Sequence[bytes]) -> pd.DataFrame:
    """Parse 400 columns of 64 x 64 pixels, and rotate the pictures upright."""
    from scipy.io import loadmat  # noqa: PLC0415

    pixels = loadmat(cast("Any", io.BytesIO(files[0])))["faces"].astype(np.uint8)
    upright = pixels.T.reshape(-1, SIDE, SIDE).transpose(0, 2, 1).reshape(-1, SIDE * SIDE)
    return pd.DataFrame({"subject": np.arange(len(upright)) // 10, "pixels": list(upright)})


def _patients(files: Sequence[bytes]) -> pd.DataFrame:
    """Parse encounters into one row per patient, with all diagnoses and medicines."""
    with zipfile.ZipFile(io.BytesIO(files[0])) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("diabetic_data.csv"))
        table = pd.read_csv(archive.open(member), dtype=str, na_values=["?"], keep_default_na=False)
    return patients_by_condition(table, patient="patient_nbr")


def patients_by_condition(encounters: pd.DataFrame, patient: str) -> pd.DataFrame:
    """Return one row per patient, with columns dx_CODE and rx_MEDICINE that at least ten patients have."""
    number, _ = pd.factorize(encounters[patient])
    n = int(number.max()) + 1
    columns: dict[str, Any] = {}
    codes = encounters[["diag_1", "diag_2", "diag_3"]]
    held = pd.DataFrame({"patient": np.tile(number, 3), "code": codes.to_numpy().T.ravel()}).dropna()
    for code, group in held.groupby("code").patient:
        columns[f"dx_{code}"] = np.isin(np.arange(n), group.unique())
    names = list(encounters.columns)
    for medicine in names[names.index("metformin") : names.index("change")]:
        taken = np.zeros(n, dtype=bool)
        taken[number[(encounters[medicine] != "No").to_numpy()]] = True
        columns[f"rx_{medicine}"] = taken
    return pd.DataFrame({name: column for name, column in columns.items() if column.sum() >= 10})


_SAMPLES = f"{_GITHUB}/thekingofkings/gowalla-exp/536a9091962560bac6060eac7ee286248baedb11/data"
# gowalla_checkins was combined from two selections of users, so no server has it.
PLACES = {
    "lifesci": Place(((f"{_GITHUB}/mijungi/dpem_code/HEAD/data/lifesci.csv",),), _lifesci),
    "gowalla_locations": Place(
        ((f"{_SAMPLES}/GPSEntropy-rand2000u.txt", f"{_SAMPLES}/GPSEntropy-rand1000u.txt"),), _locations
    ),
    "olivetti_faces": Place(
        ((f"{_GITHUB}/sjgershm/DBM/a30d9abb523aab874a299b8b1aa21e7df2023f60/olivettifaces.mat",),), _faces
    ),
    "diabetes130_binary": Place(
        (
            (
                "https://archive.ics.uci.edu/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
            ),
            (f"{_GITHUB}/swatia600/MyDiabetesCare/HEAD/data/dataset_diabetes.zip",),
        ),
        _patients,
    ),
}
