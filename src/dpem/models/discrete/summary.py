"""The summary of fitted latent classes for report and commands: profile and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpem.estimator.summary import (
    MOST_COLUMNS,
    Profile,
    ReleasedValue,
    column_names,
    label_of,
    short,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["figures_of_distributions", "profile_of_classes"]


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


def figures_of_distributions(
    model: Any, labels: Sequence[Sequence[Any]], distributions: Sequence[NDArray[np.float64]]
) -> dict[str, Any]:
    """Return the data of the report's charts: the distribution of every column over all classes."""
    columns = [
        {
            "name": name,
            "unit": None,
            "labels": list(map(label_of, values)),
            "shares": short(model.weights_ @ distribution),
        }
        for name, values, distribution in zip(column_names(model), labels, distributions, strict=True)
    ]
    return {"kind": "tables", "columns": columns[:MOST_COLUMNS], "pairs": {}}
