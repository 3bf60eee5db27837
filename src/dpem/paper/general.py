"""The paper's sensitivity of a moment, whatever the exponential-family model."""

from __future__ import annotations

from fractions import Fraction

from dpem import _validate
from dpem.privacy._rounding import float_up

__all__ = ["generic_sensitivity"]


def generic_sensitivity(largest_norm: float, n_rows: int) -> float:
    r"""Return the sensitivity of M = (1/N) sum_i E_q[T(x_i, z_i)] where one row is replaced.

    The paper (section 3) bounds it by the largest change of one term, max over the bounded domain of
    (2/N) \|E_q[T(x, z)]\|. :class:`dpem.PrivateEM` charges N times as much for the sum, the same thing, where
    a model has no certificate, and a factor sqrt 2 less where no entry is negative.

    Parameters
    ----------
    largest_norm : float
        The largest norm of the expected statistics over the bounded domain: L1 for Laplace noise, L2 for
        Gaussian noise. Whoever gives it must have proved it.
    n_rows : int
        The public number of rows.

    Examples
    --------
    >>> generic_sensitivity(1.0, 1000)
    0.002
    """
    n = _validate.integer(n_rows, "n_rows")
    return float_up(2 * Fraction(_validate.positive(largest_norm, "largest_norm")) / n)
