"""Synthetic tables: a mixture over columns of any kind."""

from dpem.estimator.registration import ModelEntry

__all__ = ["MODELS"]

MODELS = (
    ModelEntry(
        "table",
        "synthetic rows of columns of any kind",
        "dpem.models.table.estimator:MixedMixture",
        default_parts="auto",
        options={"target": "target"},
        for_missing={},
        needs_schema=True,
        trials="dpem.models.table.trials:TRIALS",
    ),
)
