"""Small fits of synthetic tables for the audit and the conformance tests."""

from dataclasses import replace
from typing import Any

import numpy as np

from dpem.data import Schema
from dpem.estimator.base import public_random
from dpem.estimator.trials import PERSONS, STAYS, TABLE, Trial, mixed_table, stays, visits
from dpem.models.table.estimator import MixedMixture

__all__ = ["TRIALS"]

_WRITTEN = Schema(
    {
        "day": {"kind": "date", "bounds": ["2020-01-01", "2029-12-31"], "missing": True},
        "took": {"kind": "duration", "bounds": ["0:00:00", "8:00:00"], "resolution": "minute"},
        "paid": {"kind": "continuous", "bounds": [0, 9999], "decimal": ",", "thousands": "."},
        "again": {"kind": "boolean", "true": ["ja"], "false": ["nein"]},
    }
)


def _written(n: int) -> Any:
    """Return rows of text cells: dates, durations, amounts with separators, words."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    random = public_random(6)
    days = np.datetime64("2023-01-01") + random.randint(700, size=n)
    took = random.randint(5, 300, size=n)
    paid = random.randint(100, 500000, size=n)
    return pd.DataFrame(
        {
            "day": [None if i % 17 == 3 else str(day) for i, day in enumerate(days)],
            "took": [f"{minutes // 60}:{minutes % 60:02}:00" for minutes in took],
            "paid": [f"{cents // 100:,}".replace(",", ".") + f",{cents % 100:02}" for cents in paid],
            "again": np.array(["ja", "nein"])[random.randint(2, size=n)],
        },
        dtype=object,
    )


_MANY = Schema({f"question {j}": {"kind": "boolean"} for j in range(104)})


def _answers(n: int) -> Any:
    """Return rows with more columns than one block of tables of pairs takes."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    drawn = public_random(5).random_sample((n, len(_MANY.names))) < 0.5
    return pd.DataFrame(drawn, columns=list(_MANY.names))


def _one_shot(**settings: Any) -> Trial:
    return Trial(MixedMixture, stays, {"n_components": 3, "schema": STAYS} | settings)


def _em(n_components: int = 2, **settings: Any) -> Trial:
    return _one_shot(n_components=n_components, method="em", max_iter=2, **settings)


TRIALS = {
    "MixedMixture": _one_shot(),
    "MixedMixture, target": _one_shot(target="smoker"),
    "MixedMixture, em": _em(),
    "MixedMixture, em, one component": _em(1),
    # Tables of pairs are released only if they stand out of the noise. So few rows need a huge budget.
    "MixedMixture, more than 100 columns": replace(
        _one_shot(schema=_MANY), rows=_answers, epsilon=1000.0, budgets=(1000.0,), slow=True
    ),
    "MixedMixture, text cells": replace(_em(schema=_WRITTEN), rows=_written),
    "MixedMixture, persons": replace(_em(**PERSONS), rows=visits),
    "MixedMixture, table": Trial(MixedMixture, mixed_table, {"n_components": 2, "schema": TABLE}),
    "MixedMixture em, table": replace(_em(schema=TABLE), rows=mixed_table),
}
TRIALS |= {
    f"{name}, {source}": TRIALS[name].given_as(source)
    for name, source in (
        ("MixedMixture, em", "CSV file with broken lines"),
        ("MixedMixture, em", "Dask"),
        ("MixedMixture, em", "Spark"),
        ("MixedMixture, persons", "CSV file"),
    )
}
