"""Small fits of factor analysis for the audit and the conformance tests."""

from functools import partial

from dpem.estimator.trials import NUMBERS, Trial, mixed_table, points
from dpem.models.factor_analysis.estimator import FactorAnalysis
from dpem.statistics.projection import cosine_basis

__all__ = ["TRIALS"]

_ONE = {"n_components": 1, "data_norm": 1.0}

TRIALS = {
    "FactorAnalysis": Trial(FactorAnalysis, partial(points, d=3), _ONE),
    "FactorAnalysis, basis": Trial(
        FactorAnalysis, partial(points, d=4), _ONE | {"basis": cosine_basis((2, 2), 3)}
    ),
    "FactorAnalysis, table": Trial(FactorAnalysis, mixed_table, {"n_components": 1, "schema": NUMBERS}),
}
