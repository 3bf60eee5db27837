"""Mixtures with missing cells: ``missing="em"``, all cells, and complete rows only.

Run it with ``make bench-missing``. Writes benchmarks/results/missing.md.
"""

import argparse
import math
import sys
import warnings

import numpy as np
from datasets import load
from harness import RESULTS, Runs, markdown, setting

import dpem

MISSING = 0.2
EPSILONS = [0.3, 1.0, 4.0, math.inf]
SPLITS = 5
METHODS = ("all cells", 'missing="em"', "complete rows only")


def rows_of(split, data):
    """Return training rows, the same with missing cells, and test rows."""
    rng = np.random.default_rng(split)
    order = rng.permutation(len(data))
    rows = data[order] / np.linalg.norm(data, axis=1).max()
    train, test = rows[: int(0.9 * len(rows))], rows[int(0.9 * len(rows)) :]
    holes = train.copy()
    holes[rng.random(train.shape) < MISSING] = np.nan
    return train, holes, test


def fit(method, k, epsilon, split, train, holes):
    """Fit by one of the methods."""
    rows = {
        METHODS[0]: train,
        METHODS[1]: holes,
        METHODS[2]: holes[~np.isnan(holes).any(axis=1)],
    }[method]
    missing = "em" if method == METHODS[1] else None
    model = dpem.GaussianMixture(
        k, epsilon=epsilon, delta=1e-4, data_norm=1.0, missing=missing, random_state=split
    )
    return model.fit(rows)


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load("lifesci")
    runs = Runs("missing", arguments.fresh)
    for k in (1, 3):
        name = f"lifesci K={k}"
        for split in range(SPLITS):
            train, holes, test = rows_of(split, data.rows)
            for epsilon in EPSILONS:
                for method in METHODS:
                    runs.measure(
                        name,
                        method,
                        epsilon,
                        split,
                        lambda m=method, e=epsilon, t=train, h=holes, s=split, k=k: fit(m, k, e, s, t, h),
                        lambda model, rows=test: model.score(rows),
                    )
            print(name, split, file=sys.stderr, flush=True)
    lines = []
    for k in (1, 3):
        scores, seconds = runs.by(f"lifesci K={k}"), runs.by(f"lifesci K={k}", "seconds")
        for epsilon in EPSILONS:
            row = [f"K={k}", "non-private" if epsilon == math.inf else f"{epsilon:g}"]
            for method in METHODS:
                values = scores[method, epsilon]
                error = values.std(ddof=1) / math.sqrt(len(values))
                row.append(f"{values.mean():.3f} ± {error:.3f} ({seconds[method, epsilon].mean():.1f} s)")
            lines.append(row)
    header = ["lifesci" + ("" if data.is_real else " (stand-in)"), "epsilon", *METHODS]
    text = (
        f"Mean test log-likelihood of complete test rows over {SPLITS} splits (90/10), {MISSING:.0%} of the "
        f"cells removed at random, rows in the\nunit ball, delta 1e-4, replace-one; in parentheses the time "
        f"of a fit. {setting()}\n\n" + markdown(header, lines)
    )
    print(text)
    (RESULTS / "missing.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
