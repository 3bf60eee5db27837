"""Membership tests on published results, as `score` of a game: on the model, or on rows sampled from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpem.audit.neighbours import as_given, parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpem.audit.subject import Subject

__all__ = ["model_score", "sample_score"]


def model_score(subject: Subject, row: NDArray[np.float64]) -> Callable[[Any], float]:
    """Return a score of a parsed row in a model: its log-density, or its closeness to the nearest centre."""
    table = _table(subject, row)

    def score(model: Any) -> float:
        if hasattr(model, "cluster_centers_"):
            return -float(((model.cluster_centers_ - row) ** 2).sum(axis=1).min())
        return float(model.score_samples(table)[0])

    return score


def sample_score(subject: Subject, row: NDArray[np.float64], n: int = 200) -> Callable[[Any], float]:
    """Return a score of the closeness of a parsed row to the nearest of `n` sampled rows."""

    def score(model: Any) -> float:
        rows = parsed(subject, model.sample(n))
        with np.errstate(all="ignore"):
            return -float(np.nansum((rows - row[:, None]) ** 2, axis=0).min())

    return score


def _table(subject: Subject, row: NDArray[np.float64]) -> Any:
    if subject.schema is None:
        return row[None]
    import pandas as pd  # noqa: PLC0415  (slow to import)

    return pd.DataFrame(as_given(subject, row[:, None]), columns=list(subject.schema.names))
