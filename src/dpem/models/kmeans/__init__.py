"""k-means: cluster centres."""

from dpem.estimator.registration import ModelEntry

__all__ = ["MODELS"]

MODELS = (
    ModelEntry(
        "kmeans",
        "cluster centres",
        "dpem.models.kmeans.estimator:KMeans",
        refuses=("categorical",),
        parts="n_clusters",
        default_parts=8,
        options={"scale": "scale"},
        trials="dpem.models.kmeans.trials:TRIALS",
    ),
)
