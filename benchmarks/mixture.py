"""Gaussian mixtures: held-out log-likelihood of dpem, the paper's method, one private Gaussian and plain EM.

Run it with ``make bench-mixture``. DPEM_DATA names the folder of the real data sets; without it, stand-ins
are generated. Rows lie in the unit ball, delta = 1e-4, replace-one. Writes benchmarks/results/mixture.md.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from harness import RESULTS, Runs, markdown, setting
from mixture_data import load
from sklearn.exceptions import ConvergenceWarning

import dpem
from dpem import paper
from dpem.reproduce.mixtures import latin_start

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 4.0)
SMALL_EPSILONS = (0.0025, 0.005, 0.01, 0.02, 0.03)  # for the privacy saving alone
SAVING_AT = (1.0, 4.0)
DELTA = 1e-4
DEFAULT, ONE, PAPER = "dpem", "one private Gaussian", "paper GGG zCDP"
PAPER_MOMENTS = "paper GGG moments"
D3P = "d3p 0.2, diagonal"
D3P_PYTHON = Path(__file__).parents[1] / "build" / "d3p" / "bin" / "python"
D3P_EPSILONS, D3P_COLUMNS, D3P_COMPONENTS = (1.0, 4.0), 20, 10  # a minute each
CONVERGED, BEST = "plain EM, converged", "plain EM, best of 20"
# name -> (set, components, folds, noise seeds per fold)
SETTINGS = {
    "lifesci K=3": ("lifesci", 3, 10, 2),
    "lifesci K=10": ("lifesci", 10, 5, 2),
    "separated d=10 K=5": ("separated", 5, 3, 2),
    "d=50 K=10": ("fifty", 10, 2, 1),
    "diabetes130, 20 components K=10": ("diabetes20", 10, 3, 2),
    "diabetes130, 100 components K=10": ("diabetes100", 10, 2, 1),
    "skin K=5": ("skin", 5, 3, 2),
    "adult_num K=5": ("adult_num", 5, 3, 2),
    "gowalla_locations K=10": ("gowalla_locations", 10, 3, 2),
    "heavy tails d=5 K=5": ("heavy", 5, 3, 2),
    "100 narrow modes d=2 K=100": ("modes", 100, 3, 2),
}
INTRODUCTION = """\
Mean log-likelihood per test row in nats, larger is better; in parentheses the standard error over
folds and noise seeds. Rows lie in the unit ball, replace-one, delta = {delta:g}. {setting}
Slow plain fits use the first folds only, and the best of 20 is not run on the three largest tables. d3p
(private variational inference, diagonal covariances) runs once for each of two epsilons, with the learning
rate and the clipping norm that were the best of three each on a generated data set."""


def plain(X, k, n_init):
    """Return the best of several plain fits, run until they converge (as scikit-learn's, but faster)."""
    settings = {"epsilon": math.inf, "data_norm": 1.0, "max_iter": 500, "tol": 1e-5, "reg_covar": 1e-7}
    fits = [dpem.GaussianMixture(k, random_state=seed, **settings).fit(X) for seed in range(n_init)]
    return max(fits, key=lambda fit: fit.score(X))


def folds(n, n_folds, seed=100):
    """Yield (train, test) indices of ten folds, the first `n_folds` of them."""
    parts = np.array_split(np.random.default_rng(seed).permutation(n), 10)
    for part in parts[:n_folds]:
        keep = np.ones(n, dtype=bool)
        keep[part] = False
        yield np.flatnonzero(keep), part


def run(runs, name, with_best):
    """Run everything on one setting."""
    which, k, n_folds, n_seeds = SETTINGS[name]
    data = load(which)
    X = data.rows
    for fold, (train, test) in enumerate(folds(len(X), n_folds)):
        score = lambda model, test=test: model.score(X[test])  # noqa: E731

        def measure(method, epsilon, seed, fit, fold=fold, score=score):
            runs.measure(name, method, epsilon, 100 * fold + seed, fit, score)

        if X.shape[1] <= 50 or fold == 0:
            measure(CONVERGED, None, 0, lambda train=train: plain(X[train], k, 1))
        if with_best and X.size < 1e6 and fold < (2 if X.size < 500_000 else 1):
            measure(BEST, None, 0, lambda train=train: plain(X[train], k, 20))
        for epsilon in EPSILONS:
            for seed in range(n_seeds):
                common = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "random_state": seed}
                start = latin_start(k, X.shape[1], data.radius, seed)
                fits = {
                    DEFAULT: dpem.GaussianMixture(k, **common),
                    ONE: dpem.GaussianMixture(1, **common),
                    PAPER: paper.GaussianMixture(k, **common, delta_i=1e-8, means_init=start),
                }
                if epsilon in SAVING_AT:
                    fits[PAPER_MOMENTS] = paper.GaussianMixture(
                        k, **common, delta_i=1e-8, means_init=start, composition="moments"
                    )
                for method, model in fits.items():
                    if method in (PAPER, PAPER_MOMENTS) and seed > 0:
                        continue
                    measure(method, epsilon, seed, lambda m=model, train=train: m.fit(X[train]))
        if fold == 0:
            run_d3p(runs, name, data, k, train, test)
        for epsilon in SMALL_EPSILONS:
            for seed in range(n_seeds):
                model = dpem.GaussianMixture(
                    k, epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=seed
                )
                measure(DEFAULT, epsilon, seed, lambda m=model, train=train: m.fit(X[train]))
    return data


def run_d3p(runs, name, data, k, train, test):
    """Run d3p on one fold in its own environment, timed there: without the start of Python."""
    if not D3P_PYTHON.exists() or data.rows.shape[1] > D3P_COLUMNS or k > D3P_COMPONENTS:
        return
    script = Path(__file__).parent / "peers" / "d3p_mixture.py"
    with tempfile.TemporaryDirectory() as folder:
        source, out = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(source, fit=data.rows[train], test=data.rows[test])
        for epsilon in D3P_EPSILONS:
            key = (name, D3P, epsilon, 0)
            if runs.has(key):
                continue
            arguments = [str(k), str(epsilon), str(DELTA), "0", out]
            subprocess.run([str(D3P_PYTHON), "-W", "ignore", str(script), source, *arguments], check=True)
            with np.load(out) as result:
                runs.keep(key, float(result["score"]), float(result["seconds"]))


def epsilon_for(scores, wanted):
    """Return the smallest epsilon from which dpem reaches a score, and whether it is an estimate.

    It is interpolated between tested epsilons on a logarithmic scale. If the smallest tested epsilon already
    reaches the score, return it, and False.
    """
    curve = sorted((e, values.mean()) for (method, e), values in scores.items() if method == DEFAULT)
    reached = [value >= wanted for _, value in curve]
    first = len(reached) - reached[::-1].index(False) if False in reached else 0  # all reach it from here on
    if first == 0:
        return curve[0][0], False
    if first == len(curve):
        return np.inf, True
    (low, below), (high, above) = curve[first - 1], curve[first]
    part = (wanted - below) / (above - below)
    return float(low * (high / low) ** part), True


def savings(runs, loaded):
    """Return the table of the epsilons at which dpem matches the paper's best result."""
    rows = []
    for name, data in loaded.items():
        scores = runs.by(name)
        for at in SAVING_AT:
            best = max((PAPER, PAPER_MOMENTS), key=lambda method: scores[method, at].mean())
            wanted = scores[best, at].mean()
            ours, exact = epsilon_for(scores, wanted)
            saving = at / ours
            rows.append(
                [
                    f"{name}{'' if data.is_real else ' (stand-in)'}",
                    f"{at:g}",
                    f"{wanted:.3f} ({best.removeprefix('paper ')})",
                    f"{ours:.3g}" if exact else f"at most {ours:g}",
                    f"{saving:.0f} times" if exact else f"at least {saving:.0f} times",
                ]
            )
    header = ["set", "paper's epsilon", "paper's best", "dpem's epsilon for it", "saving"]
    return markdown(header, rows)


def mean_and_error(values):
    """Return the mean and its standard error."""
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0


def tables(runs, loaded):
    """Return the Markdown of all tables, and of the settings where dpem is worse."""
    parts, worse = [INTRODUCTION.format(delta=DELTA, setting=setting())], []
    for name, data in loaded.items():
        scores, seconds = runs.by(name), runs.by(name, "seconds")
        n, d = data.rows.shape
        header = [f"{name}{'' if data.is_real else ' (stand-in)'}, n={n}, d={d}"]
        header += [f"eps {e:g}" for e in EPSILONS] + ["seconds"]
        rows = []
        for method in (DEFAULT, ONE, PAPER):
            cells = ["{:.3f} ({:.3f})".format(*mean_and_error(scores[method, e])) for e in EPSILONS]
            rows.append([method, *cells, f"{np.mean([seconds[method, e].mean() for e in EPSILONS]):.1f}"])
        if (D3P, D3P_EPSILONS[0]) in scores:
            cells = [f"{scores[D3P, e].mean():.3f}" if e in D3P_EPSILONS else "" for e in EPSILONS]
            rows.append([D3P, *cells, f"{np.mean([seconds[D3P, e].mean() for e in D3P_EPSILONS]):.1f}"])
        for method in (CONVERGED, BEST):
            if (method, None) in scores:
                cell = "{:.3f} ({:.3f})".format(*mean_and_error(scores[method, None]))
                rows.append([method, *[cell] * len(EPSILONS), f"{seconds[method, None].mean():.1f}"])
        parts.append(markdown(header, rows))
        for e in EPSILONS:
            ours, error = mean_and_error(scores[DEFAULT, e])
            for other in (ONE, PAPER):
                theirs, their_error = mean_and_error(scores[other, e])
                if ours < theirs - np.hypot(error, their_error):
                    worse.append([name, e, f"{ours:.3f}", other, f"{theirs:.3f}"])
    parts.append(
        "Where `dpem` is worse. Among all settings and epsilons above, `dpem` is below the private single "
        "Gaussian or the paper's method by more than one standard error in these:"
    )
    parts.append(markdown(["set", "eps", "dpem", "better method", "its value"], worse))
    parts.append(
        "Privacy saving: the smallest epsilon from which `dpem` matches the paper's best result (GGG; zCDP "
        "or the moments accountant, whichever is better). It is interpolated between tested epsilons on a "
        'logarithmic scale; "at most" marks the smallest tested epsilon.'
    )
    parts.append(savings(runs, loaded))
    return "\n\n".join(parts) + "\n"


def main():
    """Run and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--no-best", action="store_true", help="leave out the best of 20 plain fits")
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", dpem.errors.DpemWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    runs = Runs("mixture", arguments.fresh)
    loaded = {}
    for name in arguments.settings:
        loaded[name] = run(runs, name, not arguments.no_best)
        print(f"{name}: done", file=sys.stderr)
    text = tables(runs, loaded)
    print(text)
    (RESULTS / "mixture.md").write_text(text)


if __name__ == "__main__":
    main()
