"""Speed of every path beside its peer and beside the floor of this machine, all in one run.

    make bench-speed                        (on two cores about half an hour)
    python benchmarks/speed.py --only steps --repeats 3

The floor of a path is the time of the operations that it cannot avoid, at rates that the same run measures
on all cores: multiply-adds in a matrix product, exponentials, roundings and bytes read. Repeats of dpem and
its peer alternate; tables show medians, and the range of the ratio. Each part runs in its own process.
Writes benchmarks/results/speed.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from harness import RESULTS, markdown, setting
from mixture_data import mixture
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.decomposition import FactorAnalysis as PlainFactorAnalysis
from sklearn.mixture import GaussianMixture as PlainGaussianMixture

import dpem
from dpem.data import Domain, IncompleteRows, TableRows
from dpem.engines import LocalEngine
from dpem.statistics.gaussian import FrameMoments, GaussianComponents
from dpem.statistics.gaussian_missing import IncompleteMoments

# Rows, columns, components.
SHAPES = [
    (1_000_000, 2, 5),
    (200_000, 10, 3),
    (200_000, 10, 10),
    (50_000, 30, 10),
    (50_000, 100, 10),
]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SETTINGS = {"delta": 1e-6, "data_norm": 1.0, "random_state": 0}
MUCH = 1e4  # an epsilon at which all components are fitted


def seconds(run):
    """Return the seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def alternate(runs, repeats):
    """Time each run in turn, `repeats` times after one warm-up; return an array (repeats, runs)."""
    for run in runs:
        run()
    return np.array([[seconds(run) for run in runs] for _ in range(repeats)])


def spread(ratios, digits=1):
    """Show the median of ratios and their range."""
    ratios = np.asarray(ratios)
    return f"{np.median(ratios):.{digits}f} ({ratios.min():.{digits}f} to {ratios.max():.{digits}f})"


def on_all_cores(work):
    """Run a function on every core at once."""
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(lambda _: work(), range(CORES)))


def rates():
    """Return operations and bytes per second of this machine, on all cores, the best of several runs."""
    n = 1536
    a, b = np.ones((n, n)), np.ones((n, n))
    small, out = np.linspace(-5.0, 0.0, 4096), np.empty(4096)
    large = [np.ones(2**26, dtype=np.float32) for _ in range(CORES)]
    todo = iter(large * 8)

    def repeated(function):
        for _ in range(400):
            function(small, out=out)

    def best(work, amount, repeats=5):
        return amount / min(seconds(work) for _ in range(repeats))

    parallel = CORES * 400 * small.size
    return {
        "multiply-adds": best(lambda: a @ b, n**3),
        "exponentials": best(lambda: on_all_cores(lambda: repeated(np.exp)), parallel),
        "roundings": best(lambda: on_all_cores(lambda: repeated(np.rint)), parallel),
        "bytes": best(lambda: on_all_cores(lambda: float(next(todo).max())), CORES * 2**28, 7),
    }


def floor_of_step(statistic, rows, rate):
    """Return the least seconds of the sums of one EM step over grid rows.

    A row has coordinates in every frame, and an exponential for each. It adds moments only to components
    whose responsibility, rounded to 2^-16, is positive. The background is diagonal.
    """
    d, n = rows.shape
    k = statistic.n_framed
    squared = statistic.components.frames(rows[:, :5000])[1]
    held = statistic._responsibilities(statistic.components.log_joint(squared))[:k] > 0
    held = float(held.sum(axis=0).mean())  # components that a row adds to
    triangle = d * (d + 1) // 2
    multiply_adds = k * (triangle + d) + 2 * 2 * d + held * (triangle + 2 * d + 1)
    computing = (
        multiply_adds / rate["multiply-adds"]
        + (k + 2) / rate["exponentials"]
        + (held * d + k) / rate["roundings"]
    )
    return n * max(computing, 4 * d / rate["bytes"])


def components(d, k):
    """Return k Gaussians and two wide ones behind them."""
    rng = np.random.default_rng(1)
    means = np.concatenate([rng.normal(0, 0.5 / np.sqrt(d), (k, d)), np.zeros((2, d))])
    sizes = np.r_[np.full(k, 0.15), 0.5, 1.0] / np.sqrt(d)
    lower = np.tril(rng.normal(0, 0.1 / np.sqrt(d), (k + 2, d, d)), -1) + np.eye(d)
    lower[k:] = np.eye(d)
    weights = np.r_[np.full(k, 0.98 / k), 0.01, 0.01]
    return GaussianComponents.from_parameters(weights, means, lower * sizes[:, None, None]), means[:k]


def clustered(n, d, means):
    """Return rows around centres."""
    rng = np.random.default_rng(0)
    return means[rng.integers(0, len(means), n)] + rng.normal(0, 0.15 / np.sqrt(d), (n, d))


def steps(repeats):
    """Measure one EM step: its sums beside the floor, and whole steps beside scikit-learn's."""
    rate = rates()
    lines = []
    for n, d, k in SHAPES:
        X = mixture(d, k, n, 5, 2.0)
        X /= np.linalg.norm(X, axis=1).max()
        start = PlainGaussianMixture(k, max_iter=1, random_state=0).fit(X[:20_000])
        known = {"weights_init": start.weights_, "means_init": start.means_}
        known["precisions_init"] = start.precisions_

        def ours(number, X=X, k=k):
            dpem.GaussianMixture(k, epsilon=MUCH, max_iter=number, **SETTINGS).fit(X)

        def plain(number, X=X, k=k, known=known):
            PlainGaussianMixture(k, max_iter=number, tol=0.0, **known).fit(X)

        times = alternate([lambda: ours(3), lambda: ours(8), lambda: plain(3), lambda: plain(8)], repeats)
        ours_step, plain_step = (times[:, 1] - times[:, 0]) / 5, (times[:, 3] - times[:, 2]) / 5
        parts, means = components(d, k)
        statistic = FrameMoments(parts, k, "full", np.sqrt(d + np.sqrt(2 * d)), 0.35 * np.sqrt(d))
        source, domain = TableRows(clustered(n, d, means)), Domain.from_arguments(d, data_norm=1.0)
        engine = LocalEngine()
        sums = alternate([partial(engine.sum, statistic, source, domain)], 4 * repeats)[:, 0]
        least = floor_of_step(
            statistic, domain.to_grid(np.concatenate(list(source.blocks()), axis=1)[:, :n]), rate
        )
        lines.append(
            [
                f"N={n:,} d={d} K={k}",
                f"{1e3 * np.median(plain_step):.0f}",
                f"{1e3 * np.median(ours_step):.1f}",
                f"{np.median(plain_step) / np.median(ours_step):.1f}",
                spread(plain_step / ours_step),
                f"{1e3 * np.median(sums):.1f}",
                f"{1e3 * least:.2f}",
                spread(sums / least),
            ]
        )
        print(lines[-1], file=sys.stderr, flush=True)
    header = ["rows, columns, components", "scikit-learn, step (ms)", "dpem, step (ms)", "times as fast"]
    header += ["range over repeats", "dpem, sums (ms)", "floor (ms)", "sums over floor"]
    shown = ", ".join(f"{value / 1e9:.1f} billion {name}" for name, value in rate.items())
    return f"Rates on {CORES} cores, per second: {shown}.\n\n" + markdown(header, lines)


def kmeans(repeats):
    """Measure whole fits of k-means."""
    lines = []
    for n, d, k in [(4_000_000, 10, 5), (4_000_000, 2, 5), (200_000, 10, 20)]:
        X = clustered(n, d, components(d, k)[1])
        X /= np.linalg.norm(X, axis=1).max()
        ours = partial(dpem.KMeans(k, epsilon=1.0, **SETTINGS).fit, X)
        plain = partial(PlainKMeans(k, n_init=1, random_state=0).fit, X)
        times = alternate([ours, plain], repeats)
        lines.append(_beside(f"k-means, N={n:,} d={d} K={k}", "scikit-learn, n_init=1", times))
    return lines


def factors(repeats):
    """Measure whole fits of factor analysis."""
    from factor_data import factors as generated

    X = generated(100, 10, 400_000, 5)
    norm = float(np.linalg.norm(X, axis=1).max())
    times = alternate(
        [
            lambda: dpem.FactorAnalysis(10, epsilon=1.0, **(SETTINGS | {"data_norm": norm})).fit(X),
            lambda: PlainFactorAnalysis(10, random_state=0).fit(X),
        ],
        max(1, repeats // 2),
    )
    return [_beside("factor analysis, N=400,000 d=100, 10 factors", "scikit-learn", times)]


def plain(repeats):
    """Measure plain EM, without privacy, with a fixed number of steps."""
    lines = []
    for n, d, k in [(1_000_000, 2, 5), (200_000, 10, 10), (50_000, 100, 10)]:
        X = mixture(d, k, n, 5, 2.0)
        means = X[np.random.default_rng(0).choice(n, k, replace=False)]

        def ours(X=X, k=k, means=means):
            dpem.GaussianMixture(
                k, epsilon=float("inf"), max_iter=10, tol=0.0, means_init=means, data_norm=1e3
            ).fit(X)

        def learn(X=X, k=k, means=means):
            PlainGaussianMixture(k, max_iter=10, tol=0.0, means_init=means, random_state=0).fit(X)

        lines.append(
            _beside(
                f"plain EM, 10 steps, N={n:,} d={d} K={k}", "scikit-learn", alternate([ours, learn], repeats)
            )
        )
    return lines


def missing(repeats):
    """Measure the sums of rows with missing cells beside those of complete rows."""
    n, d, k = 100_000, 20, 5
    parts, means = components(d, k)
    X = clustered(n, d, means)
    holes = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    radius, scale = np.sqrt(d + np.sqrt(2 * d)), 0.35 * np.sqrt(d)
    whole = FrameMoments(parts, k, "full", radius, scale)
    with_holes = IncompleteMoments(parts, k, "full", radius, scale)
    runs = []
    for rows, statistic, grid in [
        (holes, with_holes, IncompleteRows(Domain.from_arguments(d, data_norm=1.0))),
        (X, whole, Domain.from_arguments(d, data_norm=1.0)),
    ]:
        runs.append(partial(LocalEngine().sum, statistic, TableRows(rows), grid))
    times = alternate(runs, 2 * repeats)
    return [_beside(f"sums of a step, N={n:,} d={d} K={k}, 20 % of cells missing", "complete rows", times)]


def tables(repeats):
    """Measure synthetic tables: adult, and a generated table of 100 columns."""
    import pandas as pd
    from synthetic_data import load
    from threads import levels

    found = load("adult")
    schema, adult = found.schema, found.frame
    lines = []
    model = partial(dpem.MixedMixture(epsilon=1.0, delta=1e-6, schema=schema, random_state=0).fit, adult)
    lines.append(_alone(f"synthetic table, {found.name}, {len(adult):,} rows", alternate([model], repeats)))
    X = levels(1_000_000, 100)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(100)])
    wide = dpem.Schema({name: {"kind": "categorical", "categories": [0, 1, 2, 3, 4]} for name in frame})
    start = time.perf_counter()
    dpem.MixedMixture(epsilon=1.0, delta=1e-7, schema=wide, random_state=0).fit(frame)
    lines.append(
        _alone("synthetic table, 1,000,000 rows, 100 columns of 5 levels", [[time.perf_counter() - start]])
    )
    return lines


def _beside(name, peer, times):
    ours, other = np.median(times, axis=0)
    line = [name, f"{ours:.3g}", f"{other:.3g}", peer, spread(times[:, 1] / times[:, 0], 2)]
    print(line, file=sys.stderr, flush=True)
    return line


def _alone(name, times):
    line = [name, f"{np.median(times):.3g}", "", "", ""]
    print(line, file=sys.stderr, flush=True)
    return line


PARTS = {f.__name__: f for f in (steps, kmeans, plain, factors, missing, tables)}


def main():
    """Measure all parts and write the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", choices=list(PARTS), action="append")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.part:
        warnings.simplefilter("ignore")
        print(json.dumps(PARTS[chosen.part](chosen.repeats)))
        return
    found = {}
    for part in chosen.only or PARTS:
        command = [sys.executable, __file__, "--part", part, "--repeats", str(chosen.repeats)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found[part] = json.loads(done.stdout)
    text = [f"`make bench-speed`: {CORES} cores, {setting()}"]
    if "steps" in found:
        text += [
            (
                "A step of the mixture is the difference between fits of 8 and of 3 EM steps, divided by "
                "five: sums, noise and the M-step. Epsilon is so large that all components are fitted; both "
                "libraries start from given values. Sums: one pass over the rows, with the two components of "
                "the background. Floor: the multiply-adds, exponentials, roundings and bytes that the sums "
                "need, at the rates of this run."
            ),
            found.pop("steps"),
        ]
    lines = [line for part in found.values() for line in part]
    if lines:
        header = ["task", "dpem (s)", "beside (s)", "beside what", "beside over dpem"]
        text += [
            "Times are medians. The last column is the ratio over repeats: median, smallest and largest.",
            markdown(header, lines),
        ]
    written = "\n\n".join(text) + "\n"
    print(written)
    if not chosen.only:
        (RESULTS / "speed.md").write_text(written)


if __name__ == "__main__":
    main()
