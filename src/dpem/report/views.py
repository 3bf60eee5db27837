"""Rows drawn from a released model, for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem.estimator.summary import column_names

__all__ = ["sample_of"]


def sample_of(model: Any, n: int) -> Any:
    """Return a few rows drawn from the model as header and cells; None where it is no density."""
    import pandas as pd  # noqa: PLC0415

    if not hasattr(model, "sample"):
        return None
    drawn = model.sample(500)
    if not isinstance(drawn, pd.DataFrame):
        drawn = pd.DataFrame(drawn, columns=column_names(model))
    few = drawn.iloc[np.linspace(0, len(drawn) - 1, n).astype(int)]  # of every part
    header = [str(name) for name in few.columns]
    return header, [[_cell(value) for value in row] for row in few.itertuples(index=False)]


def _cell(value: Any) -> str:
    import pandas as pd  # noqa: PLC0415

    if pd.isna(value):
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
