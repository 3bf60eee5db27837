"""Shrinkage of noisy estimates, and the sensitivity of moments in a frame."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.gate.plan import Plan

__all__ = ["clear_part", "kept_part", "noise_edge", "relative_sensitivity", "spectrum_above_noise"]


def kept_part(
    energy: NDArray[np.float64] | float, noise_energy: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return the shrinkage factor, from 0 to 1, of a vector by its squared norm and that of its noise.

    Examples
    --------
    >>> kept_part(np.array([4.0, 1.0, 0.5]), 1.0)
    array([0.75, 0.  , 0.  ])
    """
    return np.asarray(1 - noise_energy / np.maximum(energy, np.maximum(noise_energy, 1e-300)))


def clear_part(differences: NDArray[np.float64], noise: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return the shrinkage factor of differences (..., p), with three standard deviations of noise as margin.

    The squared norm of p independent noises of size 1 has mean p and standard deviation sqrt(2 p).

    Examples
    --------
    >>> clear_part(np.array([[1.5, -1.0, 0.5], [30.0, 1.0, 0.5]]), 1.0).round(3)
    array([0.   , 0.989])
    """
    relative = differences / noise
    p = relative.shape[-1]
    return kept_part((relative**2).sum(axis=-1), p + 3 * np.sqrt(2.0 * p))


def noise_edge(noise: float, n_columns: int) -> float:
    """Return the largest eigenvalue to expect of a symmetric matrix of noise.

    The standard deviation of the noise is `noise` on the diagonal and tau = noise / sqrt 2 elsewhere.
    Wigner's semicircle ends at 2 tau sqrt(d).
    """
    return float(noise * np.sqrt(2.0 * n_columns))


def spectrum_above_noise(
    difference: NDArray[np.float64], noise: NDArray[np.float64] | float, enough: int = 1
) -> NDArray[np.float64]:
    r"""Shrink the eigenvalues of noisy symmetric matrices to remove noise, and keep their eigenvectors.

    The matrices have the shape (..., d, d), and the noise is one number or has the shape (...).

    Let e be the edge of the spectrum of the noise. If at least `enough` eigenvalues exceed e by more than its
    fluctuation, d^(-2/3) of it, all eigenvalues are shrunk by the rotation-invariant estimator: w becomes w -
    e^2/2 Re g(w), where g is the trace of the resolvent over d, smoothed over d^(-1/3) of the width of the
    spectrum. This is about zero for noise alone, and w - e^2 / (2 w) far outside the spectrum. Otherwise,
    eigenvalues within the edge cannot be distinguished from noise and become zero, and each eigenvalue beyond
    it becomes sqrt(w^2 - e^2).
    """
    d = difference.shape[-1]
    edge = np.asarray(noise * noise_edge(1.0, d))[..., None]
    edge_squared = np.float_power(edge, 2)  # the bits of a square of Python's floats
    values, vectors = np.linalg.eigh(difference)
    beyond = edge * (1 + d ** (-2 / 3))
    outside = np.sign(values) * np.sqrt(np.maximum(values**2 - edge_squared, 0.0))
    outside = np.where(np.abs(values) > beyond, outside, 0.0)
    resolvent = 1 / (values[..., None] - 1j * edge[..., None] * d ** (-1 / 3) - values[..., None, :])
    resolvent[..., np.arange(d), np.arange(d)] = 0.0
    above = values - edge_squared / 2 * resolvent.real.sum(axis=-1) / d
    shrunk = np.where((values > beyond).sum(axis=-1, keepdims=True) < enough, outside, above)
    return np.asarray(vectors * shrunk[..., None, :] @ np.swapaxes(vectors, -1, -2))


def relative_sensitivity(plan: Plan) -> float:
    """Return the sensitivity of moments over their bound for one row, s^2 + tau^2 in Eq. (S-9).

    It is sqrt 2 under replace-one, else 1, times the rows per person.
    """
    one = math.sqrt(2) if plan.adjacency.n_rows_public else 1.0
    return one * plan.unit.rows_per_person
