"""How well private and plain EM recover known latent classes of generated categories and counts.

Run it with ``make bench-latent``. Writes benchmarks/results/latent_classes.md.
"""

import math
import sys
import time
import warnings

import numpy as np
from harness import RESULTS, markdown, setting
from scipy.optimize import linear_sum_assignment

import dpem

N = 20_000
SEEDS = 10
EPSILONS = [0.3, 1.0, 3.0, math.inf]
SETS = {  # components, columns, categories (0: counts)
    "3 classes, 8 columns of 3": (3, 8, 3),
    "5 classes, 10 columns of 4": (5, 10, 4),
    "8 classes, 12 columns of 4": (8, 12, 4),
    "5 classes, 15 yes/no columns": (5, 15, 2),
    "3 kinds of counts, 6 columns up to 30": (3, 6, 0),
}


def generated(k, m, levels, seed):
    """Return generated rows, and the mean of each feature in each component, (k, features)."""
    rng = np.random.default_rng(seed)
    z = rng.choice(k, size=N, p=rng.dirichlet(np.full(k, 8.0)))
    if levels == 0:
        means = rng.gamma(2.0, 3.0, size=(k, m)).clip(0.3, 20)
        return np.minimum(rng.poisson(means[z]), 30).astype(float), means
    tables = rng.dirichlet(np.full(levels, 0.4), size=(k, m))
    below = np.cumsum(tables, axis=2)[z]
    return (rng.random((N, m, 1)) > below[:, :, :-1]).sum(axis=2).astype(float), tables.reshape(k, -1)


def distance(found, truth, levels):
    """Return the distance of each true component to the fitted one that is matched to it.

    The total variation of a column's table, averaged over columns; for counts, the mean relative error.
    """
    if levels == 0:
        apart = (np.abs(found[:, None] - truth) / truth).mean(axis=2)
    else:
        apart = np.abs(found[:, None] - truth).sum(axis=2) / 2 / (truth.shape[1] // levels)
    mine, theirs = linear_sum_assignment(apart)
    return apart[mine, theirs]


def fit(k, levels, epsilon, seed, rows):
    """Return the fitted means, (k, features), and the time."""
    start = time.perf_counter()
    budget = {"epsilon": epsilon, "delta": 1e-5, "random_state": seed}
    if levels == 0:
        found = dpem.PoissonMixture(k, bounds=(0, 30), **budget).fit(rows).means_
    else:
        model = dpem.CategoricalMixture(k, bounds=(0, levels - 1), **budget)
        found = np.concatenate(model.fit(rows).probabilities_, axis=1)
    return found, time.perf_counter() - start


def main():
    """Measure and write."""
    warnings.simplefilter("ignore")
    lines = []
    for name, (k, m, levels) in SETS.items():
        for epsilon in EPSILONS:
            apart, seconds = [], []
            for seed in range(SEEDS):
                rows, truth = generated(k, m, levels, seed)
                found, took = fit(k, levels, epsilon, seed, rows)
                apart.append(distance(found, truth, levels))
                seconds.append(took)
            every = np.stack(apart)
            recovered = (every.max(axis=1) < 0.1).sum()
            lines.append(
                [
                    name,
                    "non-private" if epsilon == math.inf else f"{epsilon:g}",
                    f"{np.median(every.mean(axis=1)):.3f}",
                    f"{recovered} of {SEEDS}",
                    f"{np.mean(seconds):.1f}",
                ]
            )
            print(lines[-1], file=sys.stderr, flush=True)
    header = ["generated data", "epsilon", "median distance", "all components within 0.1", "seconds"]
    text = (
        f"{SEEDS} generated tables of {N:,} rows for each line, delta 1e-5, replace-one. The distance of a "
        f"component is the total\nvariation of a column's table, averaged over columns (for counts: the mean "
        f"relative error of its means). {setting()}\n\n" + markdown(header, lines)
    )
    print(text)
    (RESULTS / "latent_classes.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
