"""Factor analysis compared with the private principal components of other packages: captured variance.

Run it with ``make bench-fa-peers``. No other package has private factor analysis; the nearest is a subspace
with as many directions. The benchmark compares the variance of held-out rows in that subspace, relative to
non-private principal components. A fitted factor analysis gives the leading directions of its covariance for
free. The other packages spend the same epsilon with delta = 0. Writes benchmarks/results/factor_peers.md.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from factor import DELTA, EPSILONS, TABLES, captured, split, table_rows
from harness import RESULTS, Runs, markdown, setting, write_cell

import dpem
from dpem import paper
from dpem.reproduce.olivetti import refused_from

OURS, PAPER = "dpem", "paper's text"
PEERS = {"diffprivlib 0.6.6 PCA": "diffprivlib", "OpenDP 0.16 PCA": "opendp"}
LIMIT = 120.0  # seconds
BUILD = Path(__file__).parents[1] / "build"


def leading(covariance, k):
    """Return the k leading directions as rows."""
    return np.linalg.eigh(covariance)[1][:, -k:].T


def by_peer(name):
    """Return a fit by another package in its own environment, timed there; infinite beyond the limit."""
    script = Path(__file__).parent / "peers" / f"{name}_pca.py"

    def fit(X, k, epsilon, seed):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/rows.npy", X)
            command = [
                str(BUILD / name / "bin" / "python"),
                "-W",
                "ignore",
                str(script),
                f"{folder}/rows.npy",
            ]
            command += [str(k), str(epsilon), str(seed), f"{folder}/out.npz"]
            try:
                subprocess.run(command, check=True, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return None, math.inf
            with np.load(f"{folder}/out.npz") as result:
                return result["components"], float(result["seconds"])

    return fit


def by_us(kind):
    """Return a fit by one of our estimators."""

    def fit(X, k, epsilon, seed):
        start = time.perf_counter()
        model = kind(k, epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=seed).fit(X)
        return leading(model.get_covariance(), k), time.perf_counter() - start

    return fit


METHODS = {OURS: by_us(dpem.FactorAnalysis), PAPER: by_us(paper.FactorAnalysis)}
METHODS |= {label: by_peer(name) for label, name in PEERS.items()}


def measure(runs, name, n_seeds, methods=tuple(METHODS), epsilons=EPSILONS):
    """Run methods on one table."""
    k = TABLES[name]
    X, is_real = table_rows(name)
    for seed in range(n_seeds):
        fit, test = split(len(X), seed)
        relative = X[test] - X[fit].mean(axis=0)
        best = captured(leading(np.cov(X[fit].T), k).T, relative)
        for method in methods:
            run = METHODS[method]
            for epsilon in epsilons:
                key = (name, method, epsilon, seed)
                if runs.has(key) or (method == PAPER and epsilon >= refused_from()):
                    continue
                if slow(runs, name, method):  # a method that took too long once is not tried again
                    continue
                print(*key, file=sys.stderr)
                components, seconds = run(X[fit], k, epsilon, seed)
                score = 0.0 if components is None else captured(np.asarray(components).T, relative) / best
                runs.keep(key, score, seconds)
    return f"{name}{'' if is_real else ' (stand-in)'}: N={len(X):,} d={X.shape[1]} K={k}"


def slow(runs, name, method):
    """Return whether a run of a method exceeded the limit."""
    return any(np.isinf(took).any() for (one, _), took in runs.by(name, "seconds").items() if one == method)


def cell(scores, seconds, key):
    """Return a cell of the table."""
    if key not in scores:
        return ""
    return f"over {LIMIT:.0f} s" if np.isinf(seconds[key]).any() else f"{scores[key].mean():.3f}"


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument(
        "--text-at",
        type=float,
        metavar="EPSILON",
        help="measure only the paper's text and write it into the recorded tables",
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs("factor_peers", arguments.fresh)
    if arguments.text_at is not None:
        for name in TABLES:
            head = measure(runs, name, arguments.seeds, (PAPER,), (arguments.text_at,))
            score = runs.by(name)[PAPER, arguments.text_at].mean()
            write_cell(
                RESULTS / "factor_peers.md",
                [PAPER],
                f"eps {arguments.text_at:g}",
                f"{score:.3f}",
                table=head,
            )
        return
    parts = [
        (
            f"Variance of held-out rows in K private directions, relative to non-private principal "
            f"components:\n"
            f"the mean over {arguments.seeds} splits. diffprivlib and OpenDP have delta 0, the others "
            f"{DELTA:g}. A method that once takes more than {LIMIT:.0f} s is not tried again. {setting()}"
        )
    ]
    for name in TABLES:
        head = measure(runs, name, arguments.seeds)
        scores, seconds = runs.by(name), runs.by(name, "seconds")
        rows = []
        for method in METHODS:
            cells = [cell(scores, seconds, (method, epsilon)) for epsilon in EPSILONS]
            took = [s for e in EPSILONS for s in seconds.get((method, e), []) if np.isfinite(s)]
            rows.append([method, *cells, f"{np.mean(took):.2f}" if took else ""])
        parts.append(markdown([head, *(f"eps {e:g}" for e in EPSILONS), "seconds"], rows))
    text = "\n\n".join(parts)
    print(text)
    (RESULTS / "factor_peers.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
