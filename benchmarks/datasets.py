"""Data sets of the benchmarks: real ones from the folder DPEM_DATA, otherwise generated stand-ins.

All rows lie in the unit ball. The scaling is public: column bounds that anyone could state. For the data sets
that the paper scales by their largest norm, that norm counts as public in the comparison, for all methods.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Dataset:
    """Rows in the unit ball, and how many clusters the benchmarks ask for."""

    name: str
    rows: np.ndarray
    n_clusters: int
    is_real: bool
    radius: float = 1.0  # by which rows were divided, if that was their largest norm


_DIABETES = {
    "time_in_hospital": (1, 14),
    "num_lab_procedures": (0, 150),
    "num_procedures": (0, 6),
    "num_medications": (0, 100),
    "number_outpatient": (0, 50),
    "number_emergency": (0, 100),
    "number_inpatient": (0, 25),
    "number_diagnoses": (1, 16),
}
_ADULT = {
    "age": (15, 100),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000),
    "hours_per_week": (0, 100),
}
# name -> (file, columns, clusters, public bounds or None for the largest norm, stand-in shape)
CATALOGUE = {
    "gowalla_checkins": ("gowalla_checkins", ["lat", "lon"], 5, None, (777_734, 2)),
    "gowalla_locations": ("gowalla_locations", ["lat", "lon"], 5, None, (101_900, 2)),
    "lifesci": ("lifesci", [f"pc{i}" for i in range(10)], 3, None, (26_733, 10)),
    "s1": ("s1", ["x", "y"], 15, {"x": (0, 1_000_000), "y": (0, 1_000_000)}, (5_000, 2)),
    "adult_num": ("adult_num", list(_ADULT), 5, _ADULT, (48_842, 6)),
    "diabetes130": ("diabetes130", list(_DIABETES), 5, _DIABETES, (101_766, 8)),
    "skin": ("skin", ["b", "g", "r"], 5, dict.fromkeys("bgr", (0, 255)), (245_057, 3)),
}


def load(name):
    """Return a data set: the real one if DPEM_DATA has it, otherwise a stand-in of the same shape."""
    file, columns, k, bounds, shape = CATALOGUE[name]
    folder = os.environ.get("DPEM_DATA")
    path = Path(folder) / f"{file}.parquet" if folder else None
    if path is None or not path.is_file():
        return Dataset(name, _stand_in(shape, k), k, is_real=False)
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if name == "gowalla_locations":  # the two samples that are distributed like the whole
        keep = table["in_sample2000"].to_numpy() | table["in_sample1000"].to_numpy()
        table = table.filter(keep)
    rows = np.column_stack([table[column].to_numpy().astype(float) for column in columns])
    if bounds is None:
        radius = float(np.linalg.norm(rows, axis=1).max())
        return Dataset(name, rows / radius, k, is_real=True, radius=radius)
    low, high = np.array([bounds[column] for column in columns], dtype=float).T
    scaled = (np.clip(rows, low, high) - (low + high) / 2) / ((high - low) / 2)
    return Dataset(name, scaled / np.sqrt(len(columns)), k, is_real=True)


def _stand_in(shape, k):
    """Generate 2k Gaussian clusters of unequal size in the unit ball."""
    rng = np.random.default_rng(sum(shape))
    n, d = shape
    centres = rng.uniform(-1, 1, (2 * k, d)) / np.sqrt(d)
    labels = rng.choice(2 * k, n, p=rng.dirichlet(np.full(2 * k, 3.0)))
    rows = centres[labels] + rng.normal(0, 0.1 / np.sqrt(d), (n, d))
    return rows / max(1.0, np.linalg.norm(rows, axis=1).max())
