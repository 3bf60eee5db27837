"""Tables of the synthetic-data benchmark: real ones from the folder DPEM_DATA, otherwise generated ones.

Schemas are public choices: bounds and categories that anyone could state, and columns chosen by name.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import dpem


@dataclass(frozen=True)
class MixedTable:
    """A table, its public schema, and the column to predict."""

    name: str
    frame: pd.DataFrame
    schema: dpem.Schema
    target: str
    is_real: bool
    is_test: np.ndarray | None = None  # if the source itself defines the held-out rows

    def split(self, seed):
        """Return rows to fit and held-out rows: those that the source defines, or a random 30 %."""
        test = self.is_test
        if test is None:
            test = np.random.default_rng([seed, 5]).random(len(self.frame)) < 0.3
        return self.frame[~test].reset_index(drop=True), self.frame[test].reset_index(drop=True)


_ADULT = {
    "age": {"kind": "integer", "bounds": [17, 90]},
    "workclass": None,
    "fnlwgt": {"kind": "integer", "bounds": [0, 1_500_000]},
    "education": None,
    "education_num": {"kind": "integer", "bounds": [1, 16]},
    "marital_status": None,
    "occupation": None,
    "relationship": None,
    "race": None,
    "sex": None,
    "capital_gain": {"kind": "integer", "bounds": [0, 99_999]},
    "capital_loss": {"kind": "integer", "bounds": [0, 4_500]},
    "hours_per_week": {"kind": "integer", "bounds": [1, 99]},
    "native_country": None,
    "income": None,
}
_DIABETES = {
    "race": None,
    "gender": None,
    "age": None,
    "admission_type_id": None,
    "discharge_disposition_id": None,
    "admission_source_id": None,
    "time_in_hospital": {"kind": "integer", "bounds": [1, 14]},
    "num_lab_procedures": {"kind": "integer", "bounds": [0, 150]},
    "num_procedures": {"kind": "integer", "bounds": [0, 6]},
    "num_medications": {"kind": "integer", "bounds": [0, 100]},
    "number_outpatient": {"kind": "integer", "bounds": [0, 50]},
    "number_emergency": {"kind": "integer", "bounds": [0, 100]},
    "number_inpatient": {"kind": "integer", "bounds": [0, 25]},
    "number_diagnoses": {"kind": "integer", "bounds": [1, 16]},
    "max_glu_serum": None,
    "A1Cresult": None,
    "insulin": None,
    "change": None,
    "diabetesMed": None,
    "readmitted": None,
}
_TITANIC = {
    "survived": {"kind": "integer", "bounds": [0, 1]},
    "pclass": {"kind": "integer", "bounds": [1, 3]},
    "sex": None,
    "age": {"kind": "continuous", "bounds": [0, 80]},
    "sibsp": {"kind": "integer", "bounds": [0, 8]},
    "parch": {"kind": "integer", "bounds": [0, 8]},
    "fare": {"kind": "continuous", "bounds": [0, 520]},
    "embarked": None,
    "deck": None,
}
_REAL = {
    "adult": (_ADULT, "income"),
    "diabetes130": (_DIABETES, "readmitted"),
    "titanic": (_TITANIC, "survived"),
}
NAMES = tuple(_REAL)


def load(name):
    """Return a table: the real one if DPEM_DATA has it, otherwise a generated one."""
    folder = os.environ.get("DPEM_DATA")
    path = Path(folder) / f"{name}.parquet" if folder else None
    if path is None or not path.is_file():
        frame, schema, target = generated_table(sum(map(ord, name)), 891 if name == "titanic" else 30_000, 12)
        return MixedTable(name, frame, schema, target, is_real=False)
    frame = pd.read_parquet(path)
    is_test = (frame["split"] == "test").to_numpy() if "split" in frame else None
    if "patient" in frame:  # a row per person: the first stay in hospital
        frame = frame.drop_duplicates("patient").reset_index(drop=True)
    columns, target = _REAL[name]
    declared = {}
    for column, numbers in columns.items():
        # The category types of the files list what their public codebooks list.
        declared[column] = numbers or {
            "kind": "categorical",
            "categories": sorted(map(str, frame[column].cat.categories)),
            "outside": "missing" if frame[column].isna().any() else str(frame[column].cat.categories[0]),
        }
        declared[column] = declared[column] | {"missing": bool(frame[column].isna().any())}
    schema = dpem.Schema(declared)
    return MixedTable(name, frame[list(columns)], schema, target, is_real=True, is_test=is_test)


# -- generated tables ----------------------------------------------------------------------------------------


def generated_table(seed, n, m):
    """Generate a mixed table: a random tree of columns; a parent and a class shift the law of each.

    Returns
    -------
    frame, schema, target
    """
    rng = np.random.default_rng([seed, 11])
    k = int(rng.integers(3, 9))
    group = rng.choice(k, size=n, p=rng.dirichlet(np.full(k, 2.0)))
    signals, declared, frame = [], {}, {}
    for j in range(m):
        parent = signals[int(rng.integers(j))] if j else rng.normal(size=n)
        strength, shift = rng.uniform(0.2, 0.98), rng.normal(0, rng.uniform(0.1, 1.0), size=k)
        bent = parent if rng.random() < 0.6 else np.abs(parent) - 0.8
        signal = strength * bent * rng.choice([-1, 1]) + shift[group] * (1 - strength)
        signal = signal + np.sqrt(1 - strength**2) * rng.normal(size=n)
        signal = (signal - signal.mean()) / signal.std()
        signals.append(signal)
        kind = ["continuous", "integer", "categorical", "ordered", "boolean"][int(rng.integers(5))]
        if j == m - 1:
            kind = "boolean"
        name = f"{kind}_{j}"
        declared[name], frame[name] = _generated_column(kind, signal, rng)
        if rng.random() < 0.3 and j < m - 1:
            chance = 0.15 / (1 + np.exp(-signals[int(rng.integers(j + 1))]))
            frame[name] = frame[name].mask(rng.random(n) < chance)
            declared[name]["missing"] = True
    return pd.DataFrame(frame), dpem.Schema(declared), name


def _generated_column(kind, signal, rng):
    if kind == "boolean":
        return {"kind": "boolean"}, pd.Series(signal > rng.normal(0, 0.8)).astype("boolean")
    if kind in {"categorical", "ordered"}:
        size = int(rng.integers(3, 25))
        edges = np.sort(rng.normal(0, 1.0, size - 1))
        level = np.searchsorted(edges, signal)
        if kind == "categorical":
            level = rng.permutation(size)[level]
        names = [f"{kind[0]}{i:02d}" for i in range(size)]
        fallback = {"outside": names[0]}
        return {"kind": kind, "categories": names} | fallback, pd.Series(np.array(names)[level]).astype("str")
    shape = int(rng.integers(4))
    if shape == 0:
        values, bounds = signal * 10 + 50, [0, 100]
    elif shape == 1:  # skewed, far below its bound
        values, bounds = np.exp(signal) * 20, [0, 1000]
    elif shape == 2:  # mostly zero
        values, bounds = np.maximum(signal - rng.uniform(0.5, 1.5), 0) ** 2 * 300, [0, 5000]
    else:  # rounded by people
        values, bounds = (
            np.where(rng.random(len(signal)) < 0.5, np.rint(signal * 2) * 5, signal * 10) + 40,
            [0, 99],
        )
    values = np.clip(values, *bounds)
    if kind == "integer":
        values = np.rint(values)
    return {"kind": kind, "bounds": bounds}, pd.Series(values)
