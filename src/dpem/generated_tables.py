"""Generated tables with typical pitfalls, for docs, tests and trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem.privacy.randomness import PublicRandom, public_random

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["trial_table"]


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
