"""Data sets of the mixture benchmark: real ones from the folder DPEM_DATA, and generated ones."""

import os
from dataclasses import dataclass
from pathlib import Path

import datasets
import numpy as np

from dpem.reproduce.datasets import leading_components


@dataclass(frozen=True)
class Rows:
    """Rows in the unit ball, and the number by which they were divided."""

    rows: np.ndarray
    radius: float
    is_real: bool


def load(name):
    """Return a set by name."""
    if name.startswith("diabetes"):
        return diabetes(int(name.removeprefix("diabetes")))
    if name in GENERATED:
        X = GENERATED[name]()
        radius = float(np.linalg.norm(X, axis=1).max())
        return Rows(X / radius, radius, is_real=True)
    data = datasets.load(name)
    return Rows(data.rows, data.radius, data.is_real)


def mixture(d, k, n, seed, separation):
    """Draw from k Gaussians with eigenvalues from 0.3 to 3, typically separation * sqrt(d) apart."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(k, 5.0))
    means = rng.standard_normal((k, d)) * separation / np.sqrt(2)
    factors = []
    for _ in range(k):
        axes, _ = np.linalg.qr(rng.standard_normal((d, d)))
        values = np.exp(rng.uniform(np.log(0.3), np.log(3), d))
        factors.append(np.linalg.cholesky(axes * values @ axes.T))
    labels = rng.choice(k, n, p=weights)
    X = np.empty((n, d))
    for j in range(k):
        inside = labels == j
        X[inside] = means[j] + rng.standard_normal((inside.sum(), d)) @ factors[j].T
    return X


def heavy_tails():
    """Draw from 5 Student-t clusters (3 degrees of freedom); 1 % of rows lie twenty deviations away."""
    rng = np.random.default_rng(31)
    n, d, k = 55_000, 5, 5
    labels = rng.integers(k, size=n)
    X = 4 * rng.standard_normal((k, d))[labels] + rng.standard_t(3, (n, d))
    far = rng.random(n) < 0.01
    direction = rng.standard_normal((n, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    X[far] += 20 * np.sqrt(3) * direction[far]
    return X


def narrow_modes():
    """Draw a map of 100 narrow modes of unequal weight."""
    rng = np.random.default_rng(32)
    n = 110_000
    modes = rng.uniform(-1, 1, (100, 2))
    weights = rng.dirichlet(np.full(100, 3.0))
    return modes[rng.choice(100, n, p=weights)] + 0.008 * rng.standard_normal((n, 2))


GENERATED = {
    "separated": lambda: mixture(10, 5, 55_000, 1, 2.0),
    "fifty": lambda: mixture(50, 10, 110_000, 2, 1.0),
    "heavy": heavy_tails,
    "modes": narrow_modes,
}


def diabetes(n_components):
    """Return leading components of the patients' binary conditions; the reduction counts as public."""
    folder = os.environ.get("DPEM_DATA")
    path = Path(folder) / "diabetes130_binary.parquet" if folder else None
    if path is None or not path.is_file():
        X = mixture(n_components, 10, 60_000, 7, 1.0)
        radius = float(np.linalg.norm(X, axis=1).max())
        return Rows(X / radius, radius, is_real=False)
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    binary = np.column_stack([column.to_numpy().astype(np.float32) for column in table.columns])
    X = leading_components(binary, n_components)
    radius = float(np.linalg.norm(X, axis=1).max())
    return Rows(X / radius, radius, is_real=True)
