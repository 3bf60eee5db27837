"""Cluster profiles: where each part of a model lies, in original units, with what noise does to it."""

from __future__ import annotations

from typing import Any

from dpem.estimator.summary import Profile, column_names

__all__ = ["Profile", "column_names", "profile_of"]


def profile_of(model: Any) -> Profile | None:
    """Return the profile of a model that has one; parts are numbered as `predict` numbers them, from 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> profile = profile_of(dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(np.zeros((1000, 2))))
    >>> profile.header, [name for name, _ in profile.rows]
    (['x0', 'x1'], ['1', '2'])
    """
    found: Profile | None = model._profile()
    return found
