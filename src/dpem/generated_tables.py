"""Generated tables for the demo, docs, tests and trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpem import _validate
from dpem.data import Schema
from dpem.privacy.randomness import PublicRandom, public_random

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["PATIENTS_SCHEMA", "patients", "trial_table"]

# Public knowledge: what anyone could say about such a table before seeing it.
PATIENTS_SCHEMA = Schema(
    {
        "dataset": "demo patients",
        "age": {"kind": "integer", "bounds": [0, 110], "unit": "years"},
        "bmi": {"kind": "continuous", "bounds": [12, 60], "unit": "kg/m2"},
        "systolic": {"kind": "integer", "bounds": [70, 230], "unit": "mmHg"},
        "hba1c": {"kind": "continuous", "bounds": [3, 15], "unit": "%"},
        "stay": {"kind": "integer", "bounds": [0, 60], "unit": "days"},
        "sex": {"kind": "categorical", "categories": ["female", "male"]},
        "ward": {
            "kind": "categorical",
            "categories": ["maternity", "surgery", "cardiology", "internal", "geriatrics"],
        },
        "smoker": {"kind": "boolean", "missing": True},
        "readmitted": {"kind": "boolean"},
    }
)


class _Group(NamedTuple):
    """A group of patients: its share, the numeric columns, and the probabilities of three yes/no columns."""

    share: float
    mean: list[float]
    deviation: list[float]
    male: float
    smoker: float
    readmitted: float


_GROUPS = {
    "maternity": _Group(0.14, [31, 26.5, 114, 5.1, 3.2], [5, 3.8, 10, 0.3, 1.2], 0.0, 0.10, 0.03),
    "surgery": _Group(0.24, [42, 25.5, 126, 5.3, 4.5], [14, 3.9, 12, 0.4, 2.6], 0.62, 0.29, 0.06),
    "cardiology": _Group(0.22, [66, 28.5, 152, 5.9, 7.5], [9, 4.2, 15, 0.6, 3.5], 0.61, 0.24, 0.17),
    "internal": _Group(0.20, [58, 33.5, 142, 8.6, 6.0], [10, 4.6, 13, 1.2, 3.0], 0.54, 0.21, 0.14),
    "geriatrics": _Group(0.20, [83, 23.0, 133, 6.0, 13.0], [6, 3.2, 17, 0.6, 5.5], 0.39, 0.07, 0.24),
}
_OTHER_WARD = 0.1  # share of patients on a random ward instead of the ward of their group


def trial_table(name: str, n_rows: int = 8000, seed: int = 0) -> pd.DataFrame:
    """Generate a table with a typical pitfall.

    Parameters
    ----------
    name : {"age_income", "amounts", "answers", "visits"}
        - "age_income": ages in three groups (around 30, 55 and 75) beside incomes up to 300,000, so that the
          columns have very different scales.
        - "amounts": amounts of money as text, such as "1,234.50".
        - "answers": "yes", "no" and "n/a" as text.
        - "visits": days of visits as text, such as "31.01.2024", and how long they took.
    n_rows : int, default 8000
        Number of rows.
    seed : int, default 0
        Seed of the random generator.

    Examples
    --------
    >>> trial_table("amounts", n_rows=2)["amount"].tolist()
    ['17,396.99', '4,447.77']
    """
    import pandas as pd  # noqa: PLC0415  (slow to import)

    makers = {"age_income": _age_income, "amounts": _amounts, "answers": _answers, "visits": _visits}
    _validate.one_of(name, "name", tuple(makers))
    n = _validate.integer(n_rows, "n_rows")
    random_state = public_random(_validate.integer(seed, "seed", minimum=0))
    return pd.DataFrame(makers[name](n, random_state))


def _age_income(n: int, random_state: PublicRandom) -> dict[str, Any]:
    age = random_state.choice([30.0, 55.0, 75.0], size=n) + random_state.normal(0.0, 5.0, size=n)
    income = random_state.lognormal(10.5, 0.5, size=n)
    return {"age": np.clip(age, 0, 120), "income": np.clip(income, 0, 300_000)}


def _amounts(n: int, random_state: PublicRandom) -> dict[str, Any]:
    amounts = np.clip(random_state.lognormal(8.0, 1.0, size=n), 0, 20_000)
    return {"amount": [f"{amount:,.2f}" for amount in amounts], "age": random_state.randint(18, 90, size=n)}


def _answers(n: int, random_state: PublicRandom) -> dict[str, Any]:
    return {
        "smoker": random_state.choice(["yes", "no", "n/a"], p=[0.3, 0.6, 0.1], size=n),
        "age": random_state.randint(18, 90, size=n),
    }


def _visits(n: int, random_state: PublicRandom) -> dict[str, Any]:
    days = np.datetime64("2023-01-01") + random_state.randint(0, 730, size=n).astype("timedelta64[D]")
    written = [f"{day.day:02}.{day.month:02}.{day.year}" for day in days.astype(object)]
    minutes = random_state.gamma(4.0, 15.0, size=n).astype(int)
    return {"day": written, "took": [f"{minute // 60}:{minute % 60:02}:00" for minute in minutes]}


def patients(n: int, seed: int) -> Any:
    """Generate a DataFrame of `n` patients with numbers, categories and missing cells."""
    import pandas as pd  # noqa: PLC0415

    random = public_random(seed)
    wards = list(_GROUPS)
    group = random.choice(len(wards), size=n, p=[g.share for g in _GROUPS.values()])

    def of_group(name: str) -> NDArray[np.float64]:
        return np.array([getattr(g, name) for g in _GROUPS.values()])[group]

    # Weight, blood pressure and blood sugar are correlated within every group.
    common = random.normal(size=n)
    loading = np.array([0.0, 0.45, 0.4, 0.35, 0.0])
    apart = loading * common[:, None] + np.sqrt(1 - loading**2) * random.normal(size=(n, 5))
    numbers = of_group("mean") + of_group("deviation") * apart

    def yes(name: str) -> Any:
        return random.uniform(size=n) < of_group(name)

    smoker = pd.array(yes("smoker"), dtype="boolean")
    smoker[random.uniform(size=n) < 0.06] = pd.NA
    ward = np.where(random.uniform(size=n) < _OTHER_WARD, random.choice(len(wards), size=n), group)
    return pd.DataFrame(
        {
            "patient": [f"P{j:06d}" for j in range(n)],
            "age": np.clip(np.rint(numbers[:, 0]), 0, 104).astype(int),
            "bmi": np.clip(numbers[:, 1], 13, 58).round(1),
            "systolic": np.clip(np.rint(numbers[:, 2]), 75, 225).astype(int),
            "hba1c": np.clip(numbers[:, 3], 3.8, 14.5).round(1),
            "stay": np.clip(np.rint(numbers[:, 4]), 0, 60).astype(int),
            "sex": np.where(yes("male"), "male", "female"),
            "ward": np.array(wards)[ward],
            "smoker": smoker,
            "readmitted": yes("readmitted"),
        }
    )
