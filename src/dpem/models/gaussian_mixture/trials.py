"""Small fits of the Gaussian mixture for the audit and the conformance tests."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpem.estimator.base import public_random
from dpem.estimator.trials import HOLES, NUMBERS, Trial, mixed_table, points
from dpem.models.gaussian_mixture.estimator import GaussianMixture
from dpem.statistics.gaussian import COVARIANCES

__all__ = ["TRIALS"]


def _tight_groups(n: int) -> NDArray[np.float64]:
    """Return rows in two groups so narrow that a distant row has no density in either."""
    random = public_random(2)
    centres = np.array([[-0.3, 0.0], [0.3, 0.1]])
    return np.asarray(centres[random.randint(2, size=n)] + random.normal(0, 0.002, (n, 2)))


def _wide(n: int) -> NDArray[np.float64]:
    """Return rows with missing cells and more columns than a machine word has bits."""
    random = public_random(7)
    rows = random.normal(0, 0.05, (n, 66))
    rows[random.random_sample(n) < 0.5, 65] = np.nan
    rows[random.random_sample(n) < 0.3, 2] = np.nan
    return np.asarray(rows)


@lru_cache
def _known_mixture(adjacency: str) -> GaussianMixture:
    """Return a mixture that does not depend on the audited rows."""
    model = GaussianMixture(2, epsilon=100.0, data_norm=1.0, random_state=0, max_iter=3, adjacency=adjacency)
    return model.fit(points(500))


def _private_score(*, epsilon: float, adjacency: str = "replace_one", **_: Any) -> Callable[[Any, Any], Any]:
    known = _known_mixture(adjacency)  # fitted before the recording starts
    return lambda rows, ledger: known.private_score(rows, epsilon=epsilon, ledger=ledger)


def _mixture(n_components: int = 2, max_iter: int = 3, **settings: Any) -> Trial:
    arguments = {"n_components": n_components, "max_iter": max_iter, "data_norm": 1.0}
    # At a smaller budget the noise allows one component only.
    return Trial(GaussianMixture, points, arguments | settings, epsilon=20.0)


def _table(**settings: Any) -> Trial:
    arguments = {"n_components": 2, "max_iter": 3, "schema": NUMBERS}
    return Trial(GaussianMixture, mixed_table, arguments | settings)


TRIALS = {
    **{f"GaussianMixture, {kind}": _mixture(covariance_type=kind) for kind in COVARIANCES},
    "GaussianMixture, no background": _mixture(background_weight=0.0),
    "GaussianMixture, one component": _mixture(1, 2),
    "GaussianMixture, three rows a person": _mixture(max_iter=2, rows_per_person=3),
    "GaussianMixture, missing cells": _mixture(missing="em"),
    **{
        f"GaussianMixture, missing cells, {kind}": _mixture(max_iter=2, missing="em", covariance_type=kind)
        for kind in COVARIANCES
        if kind != "full"
    },
    "GaussianMixture, missing cells, no background": _mixture(
        max_iter=2, missing="em", background_weight=0.0
    ),
    "GaussianMixture, tight groups": replace(
        _mixture(max_iter=2, background_weight=0.0), rows=_tight_groups, epsilon=1000.0
    ),
    "GaussianMixture, missing cells, 66 columns": replace(
        _mixture(1, 1, missing="em", covariance_type="diag"), rows=_wide, epsilon=1000.0, budgets=(1000.0,)
    ),
    "GaussianMixture, missing cells, Parquet file": _mixture(missing="em").given_as("Parquet file"),
    "private_score": Trial(_private_score, points, {"data_norm": 1.0}),
    "GaussianMixture, table": _table(),
    "GaussianMixture tied, table": _table(covariance_type="tied"),
    "GaussianMixture missing, table": _table(missing="em", schema=HOLES),
}
