"""The Gaussian mixture: clusters with densities."""

from dpem.estimator.registration import ModelEntry

__all__ = ["MODELS"]

MODELS = (
    ModelEntry(
        "mixture",
        "clusters with densities",
        "dpem.models.gaussian_mixture.estimator:GaussianMixture",
        refuses=("categorical",),
        default_parts=5,
        options={"covariance": "covariance_type"},
        for_missing={"missing": "em"},
        trials="dpem.models.gaussian_mixture.trials:TRIALS",
    ),
)
