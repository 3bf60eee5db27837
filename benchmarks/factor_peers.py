"""Subspaces of factor analysis beside peers' private principal components: held-out variance captured.

Run it with ``make bench-fa-peers``. No peer has private factor analysis; the nearest thing is a subspace
of as many directions, so that is what is compared: the variance of held-out rows in the span of components,
relative to non-private principal components. Peers spend the same epsilon with delta = 0, the others have
delta = 1e-4. Written to benchmarks/results/factor_peers.md.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from factor import DELTA, EPSILONS, TABLES, captured, split, table_rows
from harness import RESULTS, Runs, markdown, setting

import dpem
from dpem import paper

OURS, PAPER, DIFFPRIVLIB, OPENDP = "dpem", "paper's text", "diffprivlib PCA", "OpenDP PCA"
ENVIRONMENT = Path(__file__).parents[1] / "build" / "diffprivlib" / "bin" / "python"


def diffprivlib(X, k, epsilon, seed):
    """Fit diffprivlib in its own environment; its own clock is kept."""
    script = Path(__file__).parent / "peers" / "diffprivlib_pca.py"
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", X)
        arguments = [f"{folder}/rows.npy", str(k), str(epsilon), str(seed), f"{folder}/out.npz"]
        subprocess.run([str(ENVIRONMENT), str(script), *arguments], check=True)
        with np.load(f"{folder}/out.npz") as result:
            return result["components"], float(result["seconds"])


def opendp(X, k, epsilon, seed):  # noqa: ARG001  (its noise takes no seed)
    """Fit OpenDP's, whose numpy sums are outside its own proofs ("idealized-numerics")."""
    import opendp.prelude as dp
    from opendp.extras.sklearn.decomposition import PCA

    dp.enable_features("contrib", "floating-point", "honest-but-curious", "idealized-numerics")
    start = time.perf_counter()
    n, d = X.shape
    model = PCA(epsilon=epsilon, row_norm=1.0, n_samples=n, n_features=d, n_components=k).fit(X)
    return model.components_, time.perf_counter() - start


def estimator(kind):
    """Return a fit by one of ours."""

    def fit(X, k, epsilon, seed):
        start = time.perf_counter()
        model = kind(k, epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=seed).fit(X)
        return model.components_, time.perf_counter() - start

    return fit


METHODS = {
    OURS: estimator(dpem.FactorAnalysis),
    PAPER: estimator(paper.FactorAnalysis),
    DIFFPRIVLIB: diffprivlib,
    OPENDP: opendp,
}


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs("factor_peers", arguments.fresh)
    parts = []
    for name, (k, _) in TABLES.items():
        X, is_real = table_rows(name)
        for seed in range(arguments.seeds):
            fit, test = split(len(X), seed)
            relative = X[test] - X[fit].mean(axis=0)
            centred = X[fit] - X[fit].mean(axis=0)
            leading = np.linalg.eigh(centred.T @ centred)[1][:, -k:]
            best = captured(leading, relative)
            for method, run in METHODS.items():
                for epsilon in EPSILONS:
                    key = (name, method, epsilon, seed)
                    if runs.has(key) or (method == PAPER and epsilon > 1):  # refused beyond 1
                        continue
                    if X.shape[1] > 300 and method in (DIFFPRIVLIB, OPENDP) and seed > 0:  # minutes each
                        continue
                    print(*key, file=sys.stderr)
                    try:
                        components, seconds = run(X[fit], k, epsilon, seed)
                    except Exception as error:  # noqa: BLE001  (a peer that fails is a result)
                        print(f"{method}: {type(error).__name__}", file=sys.stderr)
                        runs.keep(key, np.nan, np.nan)
                        continue
                    runs.keep(key, captured(np.asarray(components).T, relative) / best, seconds)
        scores, seconds = runs.by(name), runs.by(name, "seconds")
        rows = []
        for method in METHODS:
            cells = []
            for epsilon in EPSILONS:
                values = scores.get((method, epsilon))
                cells.append(
                    "" if values is None else "fails" if np.isnan(values).any() else f"{values.mean():.3f}"
                )
            took = [seconds[method, e].mean() for e in EPSILONS if (method, e) in seconds]
            rows.append([method, *cells, f"{np.mean(took):.2f}"])
        head = f"{name}{'' if is_real else ' (stand-in)'}: N={len(X):,} d={X.shape[1]} K={k}"
        parts.append(markdown([head, *(f"eps {e:g}" for e in EPSILONS), "seconds"], rows))
    text = "\n\n".join(
        [
            (
                f"Variance of held-out rows in the span of K components, relative to non-private principal "
                f"components, mean over {arguments.seeds} splits. Peers have delta 0, the others {DELTA:g}. "
                f"{setting()}"
            ),
            *parts,
        ]
    )
    print(text)
    (RESULTS / "factor_peers.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
