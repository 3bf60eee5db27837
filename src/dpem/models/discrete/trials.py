"""Small fits of latent classes and mixtures of counts for the audit and the conformance tests."""

from collections.abc import Callable
from typing import Any

from dpem.data import Schema
from dpem.estimator.trials import STAYS, TABLE, Trial, mixed_table, stays
from dpem.models.discrete.estimator import BernoulliMixture, CategoricalMixture, PoissonMixture

__all__ = ["TRIALS"]

_AGES = Schema({"age": {"kind": "integer", "bounds": [0, 100], "missing": True}})


def _two(mixture: Callable[..., Any], rows: Callable[[int], Any], schema: Schema) -> Trial:
    return Trial(mixture, rows, {"n_components": 2, "schema": schema, "max_iter": 2})


TRIALS = {"PoissonMixture, missing cells": _two(PoissonMixture, stays, _AGES)}
for _mixture, _columns in (
    (CategoricalMixture, ["ward", "smoker"]),
    (BernoulliMixture, ["smoker"]),
    (PoissonMixture, ["visits"]),
):
    TRIALS[_mixture.__name__] = _two(_mixture, stays, STAYS.select(_columns))
    TRIALS[f"{_mixture.__name__}, table"] = _two(_mixture, mixed_table, TABLE.select(_columns))
