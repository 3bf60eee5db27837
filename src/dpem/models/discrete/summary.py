"""The summary of fitted latent classes for report and commands: profile and figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpem.estimator.summary import MOST_COLUMNS, ColumnLaw, Profile, ReleasedValue, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["figures_of", "law_of_counts", "profile_of_classes"]

_LISTED = 64  # counts that are shown one by one


def profile_of_classes(
    model: Any, header: Sequence[str], values: NDArray[np.float64], errors: NDArray[np.float64]
) -> Profile:
    """Return the share of every class, and one value for each entry of the header."""
    shares = zip(model.weights_, model.standard_errors_["weights"], strict=True)
    rows = [
        (
            str(k + 1),
            [
                ReleasedValue(float(share), float(error)),
                *values_of(values[k], errors[k], [None] * len(header)),
            ],
        )
        for k, (share, error) in enumerate(shares)
    ]
    units: list[str | None] = [None] * (len(header) + 1)
    return Profile("class", ["share", *header], units, rows, has_shares=True)


def figures_of(model: Any) -> dict[str, Any]:
    """Return the distribution of every column over all classes."""
    shown = range(min(model.n_features_in_, MOST_COLUMNS))
    return {"kind": "tables", "columns": [model._law(j).figure() for j in shown], "pairs": {}}


def law_of_counts(
    name: str, weights: NDArray[np.float64], means: NDArray[np.float64], bound: float
) -> ColumnLaw:
    """Return the distribution of a mixture of Poisson laws within a bound: by values, or by intervals.

    It ends where next to no probability is left; what lies beyond counts to the last value.
    """
    largest = float(means.max())
    last = int(min(bound, math.ceil(largest + 5 * math.sqrt(largest) + 5)))
    whole = last >= _LISTED
    starts = np.unique(np.linspace(0, last + 1, _LISTED + 1).astype(int)) if whole else np.arange(last + 2)
    below = np.zeros(len(starts))  # the probability of less than each start
    below[1:-1] = special.pdtr(starts[1:-1, None] - 1.0, means) @ weights
    below[-1] = 1.0
    edges = starts.astype(np.float64)
    edges[-1] -= 1.0  # the last interval ends with its largest number, as those of declared bounds do
    return ColumnLaw(
        name, None, starts[:-1].tolist(), np.diff(below), edges=edges if whole else None, whole=whole
    )
