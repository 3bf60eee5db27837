"""Seconds of whole fits on 1, 2, 4, 8 and 16 threads.

    make bench-threads                                 (on a machine with at least 16 cores)
    python benchmarks/threads.py --size .1 --threads 1,2 --only KMeans

Each fit runs in its own process, which compiles and warms up on a small table first. Writes
benchmarks/results/threads.json, and benchmarks/results/threads.md from it. With `--label earlier`, an older
version of the package can be measured on the same machine for comparison (set PYTHONPATH to its `src`).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
THREADS = (1, 2, 4, 8, 16)


def clusters(n, d, k=5):
    """Return rows of k clusters in the unit ball."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 0.5 / np.sqrt(d), (k, d))
    rows = np.empty((n, d))
    for start in range(0, n, 500_000):
        part = rows[start : start + 500_000]
        part[:] = centres[rng.integers(0, k, len(part))] + rng.normal(0, 0.1 / np.sqrt(d), part.shape)
    return rows


def with_missing(n, d):
    """Return clusters of which a fifth of the cells is missing, in patterns of their own."""
    rows = clusters(n, d)
    rows[np.random.default_rng(1).random(rows.shape) < 0.2] = np.nan
    return rows


def levels(n, d):
    """Return columns of five categories that depend on a latent class."""
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(5), (4, d))
    kind = rng.integers(0, 4, n)
    place = rng.random((n, d))
    ends = tables.cumsum(axis=2)
    return np.stack([(place[:, [j]] > ends[kind, j, :-1]).sum(axis=1) for j in range(d)], axis=1)


def _schema(d):
    from dpem import Schema

    return Schema({f"x{j}": {"kind": "categorical", "categories": [0, 1, 2, 3, 4]} for j in range(d)})


def _mixture(n_jobs, k=5, **settings):
    from dpem import GaussianMixture

    common = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 2.0, "random_state": 0, "n_jobs": n_jobs}
    return GaussianMixture(k, **(common | settings))


def _fits():
    """Return for each fit: rows, columns, the data and a function that fits."""
    import dpem

    common = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 2.0, "random_state": 0}

    def kmeans(X, n_jobs):
        dpem.KMeans(5, n_jobs=n_jobs, **common).fit(X)

    def mixture(X, n_jobs):
        _mixture(n_jobs, max_iter=10).fit(X)

    def missing(X, n_jobs):
        _mixture(n_jobs, max_iter=10, missing="em").fit(X)

    def factors(X, n_jobs):
        dpem.FactorAnalysis(5, n_jobs=n_jobs, **common).fit(X)

    def table(X, n_jobs):
        import pandas as pd

        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        model = dpem.MixedMixture(
            5, epsilon=1.0, delta=1e-6, schema=_schema(X.shape[1]), random_state=0, n_jobs=n_jobs
        )
        model.fit(frame)

    def plain(X, n_jobs):
        _mixture(n_jobs, epsilon=float("inf"), delta=None, max_iter=10).fit(X)

    return {
        "KMeans, 4 million x 10": (4_000_000, 10, clusters, kmeans),
        "KMeans, 4 million x 2": (4_000_000, 2, clusters, kmeans),
        "GaussianMixture, 4 million x 10, K = 5, 10 steps": (4_000_000, 10, clusters, mixture),
        "GaussianMixture, 4 million x 2": (4_000_000, 2, clusters, mixture),
        "GaussianMixture, 400,000 x 60": (400_000, 60, clusters, mixture),
        'missing="em", 200,000 x 10': (200_000, 10, with_missing, missing),
        "FactorAnalysis, 400,000 x 60": (400_000, 60, clusters, factors),
        "MixedMixture, 400,000 x 20": (400_000, 20, levels, table),
        "plain EM (epsilon = inf), 4 million x 10": (4_000_000, 10, clusters, plain),
    }


def measure(name, threads, size, repeats):
    """Print the seconds of one fit for each number of threads, as JSON."""
    warnings.simplefilter("ignore")
    n, d, data, fit = _fits()[name]
    n = int(n * size)
    X = data(n, d)
    fit(X[: min(n, 30_000)], threads[0])  # compiles
    found = {}
    for number in threads:
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            fit(X, number)
            seconds.append(time.perf_counter() - start)
            if sum(seconds) > 10:
                break
        found[number] = seconds
    print(json.dumps(found))


def write_table(recorded, path):
    """Write the recorded seconds as a table: the fastest run of each fit."""
    lines = [
        "# Threads",
        "",
        f"Seconds of whole fits, the fastest of a few runs, on {recorded['machine']} (`make bench-threads`).",
    ]
    for label in sorted(set(recorded) - {"machine"}, reverse=True):
        lines += ["", f"## {'This version' if label == 'now' else label.capitalize()}", ""]
        lines += ["| fit | " + " | ".join(f"{n} threads" for n in THREADS) + " | 16 against 1 |"]
        lines += ["|---" * (len(THREADS) + 2) + "|"]
        for name, found in recorded[label].items():
            best = {int(n): min(seconds) for n, seconds in found.items()}
            cells = [f"{best[n]:.2f}" if n in best else "" for n in THREADS]
            gain = f"{best[1] / best[16]:.1f} times" if {1, 16} <= set(best) else ""
            lines.append(f"| {name} | {' | '.join(cells)} | {gain} |")
    path.write_text("\n".join(lines) + "\n")


def main():
    """Measure every fit in its own process."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", default=",".join(map(str, THREADS)))
    options.add_argument("--size", type=float, default=1.0, help="share of the rows")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--only", help="fits whose name contains this text")
    options.add_argument("--label", default="now")
    options.add_argument("--out", type=Path, default=RESULTS / "threads.json")
    options.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    threads = [int(number) for number in chosen.threads.split(",")]
    if chosen.measure:
        measure(chosen.measure, threads, chosen.size, chosen.repeats)
        return
    recorded = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for name in _fits():
        if chosen.only and chosen.only not in name:
            continue
        command = [sys.executable, __file__, "--measure", name, "--threads", chosen.threads]
        command += ["--size", str(chosen.size), "--repeats", str(chosen.repeats)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        if run.returncode:
            print(name, run.stderr[-400:], flush=True)
            continue
        found = json.loads(run.stdout.splitlines()[-1])
        recorded.setdefault(chosen.label, {})[name] = found
        print(f"{name:50}", "  ".join(f"{min(s):6.2f}" for s in found.values()), flush=True)
        chosen.out.parent.mkdir(exist_ok=True)
        recorded["machine"] = (
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
        )
        chosen.out.write_text(json.dumps(recorded, indent=1) + "\n")
        write_table(recorded, chosen.out.with_suffix(".md"))


if __name__ == "__main__":
    main()
