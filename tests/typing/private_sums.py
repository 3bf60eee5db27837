"""The types of sums: `make lint` fails where a private one may enter an M-step, or a released one may not.

A line that is marked with ``ignore`` must be an error: under strict settings an unused mark is one itself.
"""

import numpy as np

from dpem.fitting.centres import LloydModel
from dpem.gate.released import RawStatistics, ReleasedStatistics


def step(model: LloydModel, raw: RawStatistics, released: ReleasedStatistics) -> None:
    """Hand both kinds of sums to an M-step."""
    centres = np.zeros((1, 1))
    model.m_step(centres, released)
    model.m_step(centres, raw)  # type: ignore[arg-type]
