"""Small fits of k-means for the audit and the conformance tests."""

from functools import partial

from dpem.estimator.trials import NUMBERS, PERSONS, STAYS, Trial, mixed_table, points, visits
from dpem.models.kmeans.estimator import KMeans

__all__ = ["TRIALS"]

_BALL = {"n_clusters": 2, "max_iter": 2, "data_norm": 1.0}
_AGES = STAYS.select(["age", "visits"]).filled()  # k-means does not model missing cells

TRIALS = {
    "KMeans": Trial(KMeans, points, _BALL | {"n_clusters": 3, "max_iter": 3}),
    "KMeans, four columns": Trial(KMeans, partial(points, d=4), _BALL | {"n_clusters": 3, "max_iter": 3}),
    "KMeans, bounds": Trial(KMeans, points, _BALL | {"data_norm": None, "bounds": ([-1, -2], [1, 3])}),
    "KMeans, three rows a person": Trial(KMeans, points, _BALL | {"rows_per_person": 3}),
    "KMeans, persons": Trial(KMeans, visits, {"n_clusters": 2, "schema": _AGES, "max_iter": 2} | PERSONS),
    "KMeans, table": Trial(KMeans, mixed_table, {"n_clusters": 3, "schema": NUMBERS}),
}
TRIALS |= {
    f"{name}, {source}": TRIALS[name].given_as(source)
    for name, source in (
        ("KMeans", "Parquet file"),
        ("KMeans", "batches"),
        ("KMeans", "Dask"),
        ("KMeans", "Spark"),
        ("KMeans, persons", "batches"),
    )
}
