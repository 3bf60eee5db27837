"""Small releases of numbers other than models, for the audit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpem.data import Schema
from dpem.estimator.base import public_random
from dpem.estimator.trials import PERSONS, STAYS, Trial, points, visits
from dpem.measures.bounds import private_bounds
from dpem.measures.clustering import clipped_fraction, private_nicv

__all__ = ["TRIALS"]

_CENTRES = np.array([[-0.4, 0.0], [0.4, 0.0], [0.0, 0.4]])
_BALL = {"data_norm": 1.0}
_ROUNDED_AGES = Schema({"age": {"kind": "integer", "bounds": [-1000, 1000]}})


def _whole_numbers(n: int) -> Any:
    """Return a table of integers."""
    import pandas as pd  # noqa: PLC0415  (slow to import)

    return pd.DataFrame({"age": public_random(8).randint(20, 90, size=n)})


def _bounds_of_columns(rows: Any, **budget: Any) -> Any:
    import pandas as pd  # noqa: PLC0415  (slow to import)

    stored = rows.apply(pd.to_numeric, errors="coerce")  # integers, or floats where a cell is missing
    return private_bounds(stored if len(stored) else stored.astype(float), **budget)


def _released(call: Callable[..., Any], **domain: Any) -> Callable[[Any, Any], Any]:
    """Return a function of rows and a ledger."""
    return lambda rows, ledger: call(rows, ledger=ledger, **domain)


def _without_domain(
    call: Callable[..., Any], *, epsilon: float, adjacency: str = "replace_one", **_: Any
) -> Any:
    """Return a function of rows and a ledger, without the bounds of the rows, which it estimates."""
    return _released(call, epsilon=epsilon, adjacency=adjacency)


TRIALS = {
    "private_nicv": Trial(partial(_released, partial(private_nicv, centers=_CENTRES)), points, _BALL),
    "clipped_fraction": Trial(partial(_released, clipped_fraction), points, _BALL),
    "private_bounds": Trial(partial(_without_domain, private_bounds), points, _BALL),
    "private_bounds, columns of a table": Trial(
        partial(_without_domain, _bounds_of_columns), _whole_numbers, {"schema": _ROUNDED_AGES}
    ),
    "clipped_fraction, persons": Trial(
        partial(_released, clipped_fraction),
        visits,
        {"schema": STAYS.select(["age", "visits"]).filled()} | PERSONS,
    ),
}
