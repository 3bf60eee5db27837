"""k-means: normalised intra-cluster variance and time of dpem, scikit-learn, the paper and diffprivlib.

Run it with ``make bench-kmeans``. DPEM_DATA names the folder of the real data sets; without it, stand-ins are
generated. Every method gets the same rows in the unit ball, the same epsilon, and delta = 1e-4. Writes
benchmarks/results/kmeans.md.
"""

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import datasets
import numpy as np
from harness import RESULTS, Runs, markdown, setting
from sklearn.cluster import KMeans as PlainKMeans

import dpem
from dpem import paper
from dpem.privacy import gaussian_dp

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0)
DELTA = 1e-4
OURS = {"dpem replace-one": "replace_one", "dpem add/remove": "add_remove"}
PEERS = ("paper zCDP", "DPLloyd linear", "DPLloyd zCDP", "diffprivlib")
INTRODUCTION = """Normalised intra-cluster variance (mean over seeds), smaller is better. Rows lie in the unit
ball, delta = {delta:g}. {setting}

n mu / K measures the difficulty: rows times mu, divided by clusters; smaller is harder. diffprivlib 0.6.6
swaps its two shares of the budget: it spends less than the stated epsilon below five columns and more from
five on (1.2 times at ten). It also adds floating-point noise."""
DIFFPRIVLIB = Path(__file__).parents[1] / "build" / "diffprivlib"


def private_methods(k):
    """Return a fit of each private method: rows, epsilon, seed -> centres."""

    def ours(adjacency):
        return lambda X, e, s: dpem.KMeans(
            k, epsilon=e, delta=DELTA, data_norm=1.0, adjacency=adjacency, random_state=s
        ).fit(X)

    def baseline(kind, composition):
        return lambda X, e, s: kind(
            k, epsilon=e, delta=DELTA, data_norm=1.0, composition=composition, random_state=s
        ).fit(X)

    return {name: ours(adjacency) for name, adjacency in OURS.items()} | {
        "paper zCDP": baseline(paper.KMeans, "zcdp"),
        "DPLloyd linear": baseline(paper.DPLloyd, "linear"),
        "DPLloyd zCDP": baseline(paper.DPLloyd, "zcdp"),
    }


def run_dataset(runs, data, n_seeds, peer_seeds):
    """Run everything on one data set."""
    X, k = data.rows, data.n_clusters
    nicv = lambda model: dpem.nicv(X, model.cluster_centers_)  # noqa: E731
    for n_init in (1, 10):
        for seed in range(3):
            plain = PlainKMeans(k, n_init=n_init, random_state=seed)
            runs.measure(
                data.name, f"scikit-learn n_init={n_init}", None, seed, lambda m=plain: m.fit(X), nicv
            )
    for method, fit in private_methods(k).items():
        for epsilon in EPSILONS:
            for seed in range(n_seeds if method in OURS else peer_seeds):
                run = lambda f=fit, e=epsilon, s=seed: f(X, e, s)  # noqa: E731
                runs.measure(data.name, method, epsilon, seed, run, nicv)
    if (DIFFPRIVLIB / "bin" / "python").exists():
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/rows.npy", X)
            for epsilon in EPSILONS:
                for seed in range(3):
                    run_diffprivlib(runs, data, epsilon, seed, folder)


def run_diffprivlib(runs, data, epsilon, seed, folder):
    """Run diffprivlib in its own environment, timed there: without the start of Python."""
    key = (data.name, "diffprivlib", epsilon, seed)
    if runs.has(key):
        return
    script = Path(__file__).parent / "peers" / "diffprivlib_kmeans.py"
    out = f"{folder}/out.npz"
    command = [str(DIFFPRIVLIB / "bin" / "python"), str(script), f"{folder}/rows.npy"]
    subprocess.run([*command, str(data.n_clusters), str(epsilon), str(seed), out], check=True)
    with np.load(out) as result:
        runs.keep(key, dpem.nicv(data.rows, result["centres"]), float(result["seconds"]))


def tables(runs, names, real):
    """Return the Markdown of all tables, and of the excess over other methods."""
    parts = [
        INTRODUCTION.format(delta=DELTA, setting=setting()),
    ]
    excesses = []
    for name in names:
        scores, seconds = runs.by(name), runs.by(name, "seconds")
        data = real[name]
        n, d = data.rows.shape
        best = min(scores["scikit-learn n_init=10", None])
        header = [f"{name}{'' if data.is_real else ' (stand-in)'}, n={n}, d={d}, K={data.n_clusters}"]
        header += [f"eps {e:g}" for e in EPSILONS] + ["seconds"]
        signal = [n * gaussian_dp.mu_for(e, DELTA) / data.n_clusters for e in EPSILONS]
        rows = [["n mu / K", *(f"{s:.0f}" for s in signal), ""]]
        rows += [
            [
                f"scikit-learn n_init={i}",
                *[f"{scores[f'scikit-learn n_init={i}', None].mean():.5f}"] * 5,
                f"{seconds[f'scikit-learn n_init={i}', None].mean():.2f}",
            ]
            for i in (1, 10)
        ]
        for method in (*OURS, *PEERS):
            if (method, EPSILONS[0]) in scores:
                values = [f"{scores[method, e].mean():.5f}" for e in EPSILONS]
                rows.append(
                    [method, *values, f"{np.mean([seconds[method, e].mean() for e in EPSILONS]):.2f}"]
                )
        parts.append(markdown(header, rows))
        for e, s in zip(EPSILONS, signal, strict=True):
            peers = [scores[m, e].mean() for m in PEERS if (m, e) in scores]
            excess, peer = scores["dpem replace-one", e].mean() - best, min(peers) - best
            if s >= 50:
                excesses.append([name, e, f"{s:.0f}", f"{excess / peer:.3f}", f"{excess / best:.1%}"])
    parts.append(
        "Excess of dpem (replace-one) over the best scikit-learn fit, if n mu / K is at least 50: divided by "
        "the excess of the best other private method, and divided by the scikit-learn value:"
    )
    header = ["set", "eps", "n mu / K", "over the other method's excess", "over the non-private value"]
    parts.append(markdown(header, excesses))
    return "\n\n".join(parts) + "\n"


def main():
    """Run and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", nargs="*", default=list(datasets.CATALOGUE))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", dpem.errors.DpemWarning)
    runs = Runs("kmeans", arguments.fresh)
    loaded = {}
    for name in arguments.datasets:
        loaded[name] = datasets.load(name)
        run_dataset(runs, loaded[name], arguments.seeds, min(5, arguments.seeds))
        print(f"{name}: done", file=sys.stderr)
    text = tables(runs, arguments.datasets, loaded)
    print(text)
    (RESULTS / "kmeans.md").write_text(text)


if __name__ == "__main__":
    main()
