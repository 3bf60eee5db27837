"""Factor analysis."""

from dpem.estimator.registration import ModelEntry

__all__ = ["MODELS"]

MODELS = (
    ModelEntry(
        "factors",
        "factor analysis",
        "dpem.models.factor_analysis.estimator:FactorAnalysis",
        refuses=("categorical",),
        default_parts=2,
        trials="dpem.models.factor_analysis.trials:TRIALS",
    ),
)
