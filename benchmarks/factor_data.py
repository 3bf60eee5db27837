"""Data sets of the factor benchmark: real ones from the folder DPEM_DATA, and generated ones."""

import os
from pathlib import Path

import numpy as np

import dpem

SIDE = 64


def parquet(name):
    """Return a table of the data folder, or None."""
    folder = os.environ.get("DPEM_DATA")
    path = Path(folder) / f"{name}.parquet" if folder else None
    if path is None or not path.is_file():
        return None
    import pyarrow.parquet as pq

    return pq.read_table(path)


def factors(d, k, n, seed):
    """Draw rows from k factors of decreasing strength, with noise variances from 0.3 to 3."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((d, k)) * np.linspace(1.5, 0.5, k)
    noise = np.exp(rng.uniform(np.log(0.3), np.log(3), d))
    mean = 0.5 * rng.standard_normal(d)
    return mean + rng.standard_normal((n, k)) @ loadings.T + rng.standard_normal((n, d)) * np.sqrt(noise)


def binary():
    """Return the patients' 606 binary conditions and medicines, and whether they are real."""
    table = parquet("diabetes130_binary")
    if table is not None:
        return np.column_stack([column.to_numpy().astype(np.float32) for column in table.columns]), True
    latent = factors(606, 10, 20_000, 8)
    return (latent > 2.0).astype(np.float32), False


def pictures():
    """Return 400 pictures of 64 x 64 pixels from 0 to 1, each centred, and whether they are real.

    Subtracting a picture's own mean uses one row alone, so it costs no privacy.
    """
    table = parquet("olivetti_faces")
    if table is None:
        return generated_pictures(SIDE, 400, 0), False
    X = np.array(table["pixels"].to_pylist(), dtype=np.float64) / 255
    return X - X.mean(axis=1, keepdims=True), True


def generated_pictures(side, n, seed, n_modes=12):
    """Generate smooth pictures: a mean, modes in soft windows, a spectrum as in photographs."""
    rng = np.random.default_rng(seed)
    basis = dpem.cosine_basis((side, side), side * side - 1, constant=False)
    rank = np.arange(1, side * side)
    y, x = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij")
    modes = []
    for _ in range(n_modes):
        centre, width = rng.uniform(-0.6, 0.6, 2), rng.uniform(0.2, 0.6)
        window = np.exp(-((y - centre[0]) ** 2 + (x - centre[1]) ** 2) / (2 * width**2)).ravel()
        modes.append(window * (basis @ (rng.standard_normal(len(rank)) * rank**-0.8)))
    modes = np.array(modes)
    modes *= np.linspace(3.5, 1, n_modes)[:, None] / np.linalg.norm(modes, axis=1, keepdims=True)
    mean = basis @ (rng.standard_normal(len(rank)) * rank**-0.9)
    texture = rng.standard_normal((n, len(rank))) * rank**-0.75 * 0.6
    X = 4 * mean / np.linalg.norm(mean) + rng.standard_normal((n, n_modes)) @ modes + texture @ basis.T
    X *= np.exp(0.2 * rng.standard_normal((n, 1)))
    return X - X.mean(axis=1, keepdims=True)
