"""The paper's Gowalla figure: DPLloyd with linear and with zCDP composition beside dpem, at epsilon = 0.01.

Run it with ``make figure-gowalla``. Draws three panels with the normalised intra-cluster variance of each,
over ten runs, to docs/figures/gowalla.png. Uses the real locations where DPEM_DATA has them, else a stand-in.
"""

import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import datasets

import dpem
from dpem import paper

EPSILON, DELTA, SEEDS = 0.01, 1e-4, 10
COLOURS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#AA3377"]


def main() -> None:
    """Fit, draw, and say where the figure is."""
    warnings.simplefilter("ignore", dpem.errors.DpemWarning)
    data = datasets.load("gowalla_locations")
    common = {"n_clusters": data.n_clusters, "epsilon": EPSILON, "delta": DELTA, "data_norm": 1.0}
    methods = {
        "DPLloyd, linear": lambda s: paper.DPLloyd(**common, composition="linear", random_state=s),
        "DPLloyd, zCDP": lambda s: paper.DPLloyd(**common, composition="zcdp", random_state=s),
        "dpem.KMeans": lambda s: dpem.KMeans(**common, random_state=s),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    shown = data.rows[np.random.default_rng(0).permutation(len(data.rows))[:4000]]
    for axis, (name, make) in zip(axes, methods.items(), strict=True):
        models = [make(seed).fit(data.rows) for seed in range(SEEDS)]
        scores = [dpem.nicv(data.rows, model.cluster_centers_) for model in models]
        median = models[int(np.argsort(scores)[SEEDS // 2])]
        labels = median.predict(shown)
        axis.scatter(shown[:, 1], shown[:, 0], s=1, c=[COLOURS[label % 5] for label in labels])
        centres = median.cluster_centers_
        axis.scatter(centres[:, 1], centres[:, 0], marker="X", s=90, c="black", edgecolors="white")
        axis.set_title(f"{name}\nNICV {np.mean(scores):.5f} (sd {np.std(scores):.5f})")
        axis.set_xlabel("longitude, scaled")
    axes[0].set_ylabel("latitude, scaled")
    kind = "Gowalla locations" if data.is_real else "stand-in"
    figure.suptitle(
        f"{kind}, n = {len(data.rows)}, K = {data.n_clusters}, epsilon = {EPSILON}, delta = {DELTA:g}"
    )
    figure.tight_layout()
    path = Path(__file__).parents[1] / "docs" / "figures" / "gowalla.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    sys.stdout.write(f"{path.name} written\n")


if __name__ == "__main__":
    main()
