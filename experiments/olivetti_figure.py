"""What the paper's Olivetti figure needs: the arithmetic as a table, and components at several epsilons.

Run it with ``make figure-olivetti``. Writes benchmarks/results/olivetti.md and docs/figures/olivetti.png.
Uses the real faces where DPEM_DATA has them, else made pictures, and says so.
"""

import math
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from factor import captured, split
from factor_data import SIDE, pictures, smooth_noise
from harness import RESULTS, markdown

import dpem
from dpem import paper
from dpem.privacy import Budget

DELTA, K, SHOWN = 1e-4, 10, 6
PAPER_EPSILONS = (0.2, 0.3, 1.0)
DIRECTIONS = 64


def classical(epsilon):
    """Return the classical Gaussian noise over its sensitivity."""
    return math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon


def arithmetic(X, n):
    """Return the table of what noise the text adds, and what it would have to stay below."""
    d = X.shape[1]
    unit = X / np.linalg.norm(X, axis=1).max()
    values = np.linalg.svd(unit / math.sqrt(n), compute_uv=False) ** 2
    rows = []
    for epsilon in PAPER_EPSILONS:
        sigma = classical(epsilon) * 2 / n
        level = sigma * math.sqrt(d)  # a direction emerges where its variance exceeds this
        mu = Budget.from_epsilon(epsilon, DELTA).mu
        exact = math.sqrt(2) / (n * mu) * math.sqrt(d / 2)
        rows.append(
            [
                f"{epsilon:g}",
                f"{sigma:.3g}",
                f"{level:.3g}",
                f"{level / values[0]:.0f}",
                f"{level / values[9]:.0f}",
                f"{exact / values[0]:.0f}",
            ]
        )
    header = [
        "epsilon",
        "noise of an entry",
        "level at which a direction emerges",
        "over the first component's variance",
        "over the tenth's",
        "with exact accounting and sensitivity, over the first's",
    ]
    return values, markdown(header, rows)


def slips(X, n):
    """Return what the authors' code spends where it says epsilon."""
    columns = np.linalg.norm(X, axis=0).max()
    row_norm = np.linalg.norm(X, axis=1).max() / columns
    lines = []
    for epsilon in (0.3, 1.0):
        sigma = classical(epsilon) * 2 / n
        mu = math.sqrt(2) * row_norm**2 / n / sigma**2  # the variance, where a standard deviation is wanted
        lines.append([f"{epsilon:g}", f"{1 / sigma:.1f}", f"{Budget.from_mu(mu, DELTA).epsilon:.0f}"])
    header = ['"epsilon"', "noise too small by", "epsilon in truth, of both slips"]
    return row_norm, markdown(header, lines)


def draw(axes, images, label):
    """Draw one row of images, each in its own range, signs as they come."""
    for axis, image in zip(axes, images, strict=True):
        limit = np.abs(image).max() or 1.0
        axis.imshow(image.reshape(SIDE, SIDE), cmap="gray", vmin=-limit, vmax=limit)
        axis.set_xticks([])
        axis.set_yticks([])
    axes[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)


def main() -> None:
    """Compute, draw, and say where both are."""
    warnings.simplefilter("ignore", dpem.errors.DpemWarning)
    X, is_real = pictures()
    kind = "Olivetti faces" if is_real else "made pictures, a stand-in"
    n = len(X)
    centred = X - X.mean(axis=0)  # by pictures and by pixels, as the authors take them
    values, table = arithmetic(centred, n)
    row_norm, slip_table = slips(centred, n)
    fit, test = split(n, 100, part=0.2)
    mean = X[fit].mean(axis=0)
    leading = np.linalg.svd(X[fit] - mean, full_matrices=False)[2][:K]
    relative = X[test] - mean
    best = captured(leading.T, relative)
    basis = dpem.cosine_basis((SIDE, SIDE), DIRECTIONS, constant=False)

    def share(components):
        return captured(components.T, relative) / best

    rows = {"principal components,\nnot private": leading}
    settings = {"delta": DELTA, "data_norm": 32.0, "random_state": 0}
    for epsilon in (30.0, 10.0, 3.0, 1.0, 0.3):
        model = dpem.FactorAnalysis(K, epsilon=epsilon, basis=basis, **settings).fit(X[fit])
        rows[f"dpem, epsilon {epsilon:g}"] = model.components_
    rows["the paper's text,\nepsilon 0.3"] = (
        paper.FactorAnalysis(K, epsilon=0.3, **settings).fit(X[fit]).components_
    )
    rows["cosine images,\nno data"] = basis[:, :K].T
    figure, axes = plt.subplots(len(rows) + 1, SHOWN, figsize=(1.25 * SHOWN + 2.2, 1.25 * (len(rows) + 1)))
    for line, (label, components) in zip(axes, rows.items(), strict=False):
        draw(line, components[:SHOWN], f"{label}\n({share(components):.2f})")
    control = smooth_noise(K, SIDE, 0)
    draw(axes[-1], control[:SHOWN], f"control: structured noise,\nno face in it ({share(control):.2f})")
    figure.suptitle(
        f"{kind}: first {SHOWN} of {K} components, and the part of held-out variance they capture", fontsize=9
    )
    figure.tight_layout()
    target = ROOT / "docs" / "figures" / "olivetti.png"
    figure.savefig(target, dpi=110)
    shares = ", ".join(f"{value:.4f}" for value in values[:10])
    head = (
        f"{kind[0].upper() + kind[1:]}, N = {n}, d = {X.shape[1]}, centred, norm 1 at most,"
        f" delta {DELTA:g}.\nVariance of the first ten components: {shares}."
    )
    slip_head = (
        f"With rows scaled by the largest column norm, the largest row norm is {row_norm:.2f}, so that the "
        f"sensitivity is\n{row_norm**2:.1f} times the one that noise was added for:"
    )
    text = "\n\n".join([head, table, slip_head, slip_table])
    (RESULTS / "olivetti.md").write_text(text + "\n")
    print(text)
    print(f"\nFigure: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
