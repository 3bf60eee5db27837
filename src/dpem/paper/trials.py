"""Small fits of the paper's methods for the audit. Their neighbouring relation is replace_one."""

from collections.abc import Callable
from typing import Any

from dpem.estimator.trials import NUMBERS, STAYS, Trial, mixed_table, points, stays
from dpem.paper.factor_analysis import FactorAnalysis
from dpem.paper.gaussian_mixture import GaussianMixture
from dpem.paper.general_em import GeneralEM, Moment
from dpem.paper.kmeans import DPLloyd, KMeans
from dpem.plugin.trials import Mean, _Means
from dpem.privacy.neighbours import Adjacency

__all__ = ["TRIALS"]

_REPLACE_ONE = (Adjacency.REPLACE_ONE,)  # the only relation in the paper

_CLUSTERS = {"n_clusters": 2, "max_iter": 2}
_COMPONENTS = {"n_components": 2, "max_iter": 2}


def _of(method: Callable[..., Any], arguments: dict[str, Any], **settings: Any) -> Trial:
    given = {"data_norm": 1.0, **arguments, **settings}
    return Trial(method, points, given, _REPLACE_ONE, budgets=(1.0,))


def _table(method: Callable[..., Any], arguments: dict[str, Any]) -> Trial:
    return Trial(method, mixed_table, arguments | {"schema": NUMBERS}, _REPLACE_ONE, budgets=(1.0,))


TRIALS = {
    "paper.KMeans": _of(KMeans, _CLUSTERS),
    "paper.KMeans, Gaussian": _of(KMeans, _CLUSTERS, noise="gaussian"),
    "paper.DPLloyd": _of(DPLloyd, _CLUSTERS),
    "paper.DPLloyd, bounds": _of(DPLloyd, _CLUSTERS, data_norm=None, bounds=(-1, 1), composition="zcdp"),
    **{
        f"paper.GaussianMixture, {scenario}, {composition}, {estimate}": _of(
            GaussianMixture, _COMPONENTS, scenario=scenario, composition=composition, estimate=estimate
        )
        for scenario, composition, estimate in (
            ("GGG", "zcdp", "map"),
            ("GGG", "moments", "mle"),
            ("GGG", "linear", "map"),
            ("LLG", "advanced", "mle"),
            ("LLG", "zcdp", "map"),
        )
    },
    "paper.FactorAnalysis": _of(FactorAnalysis, {"n_components": 1}),
    "paper.GeneralEM": Trial(
        GeneralEM,
        stays,
        {
            "model": _Means(),
            "moments": [Moment("age", 1, 1.0, "laplace"), Moment("visits", 1, 0.1)],
            "schema": STAYS.select(["age", "visits"]),
            "max_iter": 2,
        },
        _REPLACE_ONE,
        budgets=(1.0,),
    ),
    "paper.KMeans, table": _table(KMeans, _CLUSTERS),
    "paper.DPLloyd, table": _table(DPLloyd, _CLUSTERS),
    "paper.GaussianMixture, table": _table(GaussianMixture, _COMPONENTS),
    "paper.FactorAnalysis, table": _table(FactorAnalysis, {"n_components": 1}),
    "paper.GeneralEM, table": _table(GeneralEM, {"model": Mean(), "max_iter": 2}),
}
