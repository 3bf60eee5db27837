"""James-Stein shrinkage: how much of an estimate to believe when the size of its noise is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["kept_part"]


def kept_part(
    energy: NDArray[np.float64] | float, noise_energy: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return the part, 0 to 1, of something of this squared norm that noise of that one does not explain.

    Examples
    --------
    >>> kept_part(np.array([4.0, 1.0, 0.5]), 1.0)
    array([0.75, 0.  , 0.  ])
    """
    return np.asarray(1 - noise_energy / np.maximum(energy, np.maximum(noise_energy, 1e-300)))
