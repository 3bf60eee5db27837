"""Latent classes: mixtures of independent columns of categories, booleans or counts."""

from dpem.estimator.registration import ModelEntry

__all__ = ["MODELS"]

MODELS = (
    ModelEntry(
        "classes",
        "latent classes of categories and yes/no answers",
        "dpem.models.discrete.estimator:CategoricalMixture",
        refuses=("continuous", "date", "datetime", "duration"),
        default_parts=2,
        for_missing={},
        trials="dpem.models.discrete.trials:TRIALS",
    ),
    ModelEntry(
        "bernoulli",
        "latent classes of yes/no answers",
        "dpem.models.discrete.estimator:BernoulliMixture",
        refuses=("continuous", "ordered", "categorical", "date", "datetime", "duration"),
        default_parts=2,
        for_missing={},
        trials="dpem.models.discrete.trials:TRIALS",
    ),
    ModelEntry(
        "counts",
        "latent classes of counts",
        "dpem.models.discrete.estimator:PoissonMixture",
        refuses=("continuous", "boolean", "ordered", "categorical", "date", "datetime", "duration"),
        default_parts=2,
        for_missing={},
        trials="dpem.models.discrete.trials:TRIALS",
    ),
)
