"""Draw the picture of the README: generated rows, the paper's method and dpem's (docs/pictures/readme.svg).

    python benchmarks/picture.py

The noise is seeded, so that anyone can draw the same picture. The seed was not chosen by its looks.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

import dpem
from dpem.testing import insecure_noise

ROOT = Path(__file__).parents[1]
SEED = 2026
N, EPSILON, DELTA = 20_000, 0.5, 1e-6
RADII = (1.0, 2.0)  # standard deviations at which an ellipse is drawn
PANELS = (
    "20,000 people",
    f"DP-EM as in the paper, epsilon {EPSILON:g}",
    f"dpem, epsilon {EPSILON:g}",
)


def people() -> np.ndarray:
    """Return generated rows in the unit ball: five groups of unequal size and shape."""
    rng = np.random.default_rng(SEED)
    means = np.array([[-0.55, -0.25], [-0.2, 0.45], [0.1, -0.1], [0.5, 0.35], [0.5, -0.45]])
    spreads = rng.uniform(0.03, 0.1, (5, 2))
    turns = rng.uniform(0, np.pi, 5)
    sizes = rng.multinomial(N, [0.3, 0.25, 0.2, 0.15, 0.1])
    rows = []
    for mean, spread, turn, size in zip(means, spreads, turns, sizes, strict=True):
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        rows.append(mean + rng.normal(size=(size, 2)) * spread @ rotation)
    return np.concatenate(rows)


def draw(ax: plt.Axes, model: object, colour: str) -> None:
    """Draw each component as ellipses, with line widths by weight."""
    for weight, mean, covariance in zip(model.weights_, model.means_, model.covariances_, strict=True):
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        for radius in RADII:
            width, height = 2 * radius * np.sqrt(values[::-1])
            shape = Ellipse(mean, width, height, angle=angle, fill=False, lw=0.8 + 4 * weight, ec=colour)
            ax.add_patch(shape)


def main() -> None:
    """Fit twice, and draw three panels."""
    X = people()
    budget = {"epsilon": EPSILON, "delta": DELTA, "data_norm": 1.0, "random_state": 0}
    with warnings.catch_warnings(action="ignore"), insecure_noise(SEED):
        paper = dpem.paper.GaussianMixture(5, **budget).fit(X)
        ours = dpem.GaussianMixture(5, **budget).fit(X)
    mpl.rcParams |= {"svg.hashsalt": "dpem", "font.size": 9, "svg.fonttype": "path"}
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    for ax, title, model in zip(axes, PANELS, (None, paper, ours), strict=True):
        ax.plot(*X[::10].T, ",", color="0.35" if model is None else "0.75", rasterized=True)
        if model is not None:
            draw(ax, model, "#b3541e" if model is paper else "#1f6f8b")
        ax.set(title=title, xlim=(-1, 1), ylim=(-0.85, 0.85), xticks=[], yticks=[], aspect="equal")
    path = ROOT / "docs" / "pictures" / "readme.svg"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, facecolor="white", dpi=160)
    print(f"Wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
