"""How the constants of the private mixture were chosen, on generated data.

Run it with ``make experiment-mixture``. It prints, for each generated data set and epsilon, the mean held-out
log-likelihood minus that of the best of six plain fits, and the mean over all data sets, in which no data set
counts as worse than -1.5. Set a constant by name to try it: ``--set _STEPS=4 _COUNT_SCALE=0.5``.

What was tried on these data, with 3 to 6 seeds each (the weight of counts also on more draws of the
overlapping data set):

- Covariances of the start: 0.6 times the pooled one; its volume divided by the components (chosen); the
  variance that k-means leaves within clusters.
- Weights of the start: equal, or noisy counts (chosen).
- Budget of the start: 5, 10 (chosen), 15 and 20 %.
- Number of steps: 3.5, 4, 5 (chosen) and 7 over the root of the noise level.
- Growth of the budget: by 1, 1.1 and 1.25 from step to step; by 2 (chosen) and 4 from the first to the last.
- Weight of counts: 0.25, 0.35, 0.5 and 0.7. Few columns need more and ten need less (chosen: 0.6 over the
  fourth root of the columns, at least 0.35).
- Clipping radii: from half to twice those of the design.
- Averages: forgetting factors of 0.6, 0.8 (chosen) and 0.95.
- Noise level for the number of components: 0.4 (chosen) and 0.6.

Except for the start, the growth and the weight of counts, differences are within the noise of the runs. These
constants are choices rather than optima.

With ``--wide`` the data sets have 20 to 80 columns and the epsilons are smaller. Tried with 3 seeds each:

- Covariances used as a whole; part by part in the pool alone; in the pool and the tied covariance (chosen:
  better on every data set, by up to a hundred nats at the smaller epsilons, and the same on those above).
- A mean variance that counts as seen at 1.5, 2 (chosen) and 3 standard deviations of its noise.
- For one component: two or three (chosen) rounds of the pool, a first one of 5 % (chosen) or 10 %, and at
  least 3 (chosen) or 5 steps.
"""

import argparse
import math
import sys
import warnings

import numpy as np

import dpem
from dpem.fitting import averaging
from dpem.models.gaussian_mixture import fit as gaussian_mixture_fit
from dpem.models.gaussian_mixture import m_step as gaussian_mixture_step
from dpem.models.gaussian_mixture import pool as gaussian_pool

EPSILONS, WIDE_EPSILONS = (0.1, 0.2, 0.5), (0.02, 0.05, 0.1, 0.2)
DELTA = 1e-4
MODULES = (gaussian_mixture_fit, gaussian_mixture_step, gaussian_pool, averaging)


def unit(rows):
    """Scale rows into the unit ball."""
    return rows / np.linalg.norm(rows, axis=1).max()


def boxed(rows, low, high):
    """Scale rows by public bounds into the unit ball."""
    return ((np.clip(rows, low, high) - low) / (high - low) * 2 - 1) / np.sqrt(rows.shape[1])


def gaussians(d, k, n, seed, separation, concentration=5.0):
    """Draw from k Gaussians with eigenvalues from 0.3 to 3."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(k, concentration))
    means = rng.standard_normal((k, d)) * separation / np.sqrt(2)
    labels = rng.choice(k, n, p=weights)
    rows = np.empty((n, d))
    for j in range(k):
        axes, _ = np.linalg.qr(rng.standard_normal((d, d)))
        values = np.exp(rng.uniform(np.log(0.3), np.log(3), d))
        inside = labels == j
        draws = rng.standard_normal((inside.sum(), d))
        rows[inside] = means[j] + draws @ np.linalg.cholesky(axes * values @ axes.T).T
    return rows


def heavy(rng, n):
    """Draw from four Student-t clusters, with 1 % of the rows far away."""
    centres = rng.standard_normal((4, 4)) * 4
    labels = rng.integers(4, size=n)
    rows = centres[labels] + rng.standard_t(3, (n, 4))
    far = rng.random(n) < 0.01
    direction = rng.standard_normal((n, 4))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    rows[far] = centres[labels[far]] + 40 * direction[far]
    return rows


def census(rng, n):
    """Draw six columns like those of a census: skewed, or with most rows at one value."""
    gain = np.where(rng.random(n) < 0.08, rng.lognormal(8, 1, n), 0)
    loss = np.where(rng.random(n) < 0.04, rng.normal(1900, 300, n), 0)
    hours = np.where(rng.random(n) < 0.45, 40, rng.normal(40, 12, n))
    school = rng.choice([7.0, 9, 10, 12, 13, 14], n, p=[0.1, 0.33, 0.25, 0.05, 0.2, 0.07])
    rows = np.column_stack([rng.gamma(6, 7, n), rng.lognormal(12, 0.5, n), school, gain, loss, hours])
    return boxed(rows, np.array([0, 0, 1, 0, 0, 0]), np.array([120, 1.5e6, 16, 1e5, 5e3, 100]))


def generated_sets():
    """Return {name: (rows, components)}; the last eleventh of the rows is for testing."""
    rng = np.random.default_rng(5)
    modes, towns = rng.uniform(-0.7, 0.7, (60, 2)), rng.uniform(-0.65, 0.65, (200, 2))
    size = 1 / np.arange(1, 201)
    line = np.concatenate([rng.normal(m, s, n) for m, s, n in LINE])
    skewed = rng.lognormal(0, 0.8, (66_000, 3)) * rng.choice([0.3, 1, 2], size=(66_000, 1))
    town = rng.choice(200, 110_000, p=size / size.sum())
    return {
        "separated, d=8": (unit(gaussians(8, 6, 44_000, 11, 2.0)), 6),
        "d=30": (unit(gaussians(30, 8, 66_000, 12, 1.0)), 8),
        "overlapping, d=8": (unit(gaussians(8, 20, 27_500, 13, 1.0, 1.0) * np.exp(-np.arange(8) / 4)), 10),
        "heavy tails, d=4": (unit(heavy(rng, 33_000)), 4),
        "60 narrow modes, d=2": (
            modes[rng.integers(60, size=66_000)] + rng.normal(0, 0.006, (66_000, 2)),
            60,
        ),
        "towns, d=2": (np.clip(towns[town] + rng.normal(0, 0.01, (110_000, 2)), -0.7, 0.7), 10),
        "census, d=6": (census(rng, 44_000), 5),
        "lognormal, d=3": (boxed(skewed, np.zeros(3), np.full(3, 40.0)), 6),
        "d=1": (unit(rng.permutation(line)[:, None]), 4),
        "few rows, d=6": (unit(gaussians(6, 4, 2_200, 14, 2.0)), 4),
    }


def wide_sets():
    """Return {name: (rows, components)} with many columns."""
    rng = np.random.default_rng(77)
    falling = np.exp(-np.arange(60) / 10)
    loadings = rng.standard_normal((80, 6)) * np.exp(rng.normal(0, 0.7, (80, 1)))
    own = np.exp(rng.normal(-0.5, 0.7, 80))
    factors = rng.standard_normal((44_000, 6)) @ loadings.T + rng.standard_normal((44_000, 80)) * own
    axes, _ = np.linalg.qr(rng.standard_normal((60, 60)))
    narrow = 0.1 * np.exp(-np.arange(20) / 8)
    return {
        "columns of falling scale, d=50": (unit(rng.standard_normal((33_000, 50)) * falling[:50]), 1),
        "six factors, d=80": (unit(factors), 4),
        "rotated, d=60": (unit(rng.standard_normal((44_000, 60)) * falling @ axes.T), 4),
        "binary, 70 components": (unit(binary_components(rng, 66_000, 300, 70)), 8),
        "equal columns, d=40": (unit(rng.standard_normal((33_000, 40))), 1),
        "off centre, d=20": (unit(rng.standard_normal((22_000, 20)) * narrow + rng.normal(0, 1, 20)), 3),
        "two clusters, d=40": (unit(gaussians(40, 2, 44_000, 15, 1.5)), 2),
    }


def binary_components(rng, n, m, d):
    """Return the leading d components of m correlated conditions, most of them rare."""
    latent = rng.standard_normal((n, 8)) @ rng.standard_normal((8, m)) * 0.6
    bits = (latent + rng.standard_normal((n, m)) > rng.normal(2.2, 0.6, m)).astype(float)
    bits -= bits.mean(axis=0)
    return bits @ np.linalg.eigh(bits.T @ bits)[1][:, ::-1][:, :d]


LINE = ((-3, 0.4, 8000), (0, 1, 8000), (2, 0.2, 4000), (9, 1, 2000))


def plain_score(train, test, k):
    """Return the test score of the best of six plain fits."""
    settings = {"epsilon": math.inf, "data_norm": 1.0, "max_iter": 300, "reg_covar": 1e-8}
    fits = [dpem.GaussianMixture(k, random_state=seed, **settings).fit(train) for seed in range(6)]
    return max(fits, key=lambda fit: fit.score(train)).score(test)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--wide", action="store_true", help="data sets of many columns")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER")
    arguments = parser.parse_args()
    for name, value in (text.split("=") for text in arguments.set):
        homes = [module for module in MODULES if hasattr(module, name)]
        for module in homes:
            setattr(module, name, float(value))
        if not homes:
            raise SystemExit(f"There is no constant {name}.")
    warnings.simplefilter("ignore")
    gaps = []
    for name, (rows, k) in (wide_sets() if arguments.wide else generated_sets()).items():
        cut = len(rows) * 10 // 11
        train, test = rows[:cut], rows[cut:]
        best = plain_score(train, test, k)
        row = []
        for epsilon in WIDE_EPSILONS if arguments.wide else EPSILONS:
            fits = [
                dpem.GaussianMixture(k, epsilon=epsilon, delta=DELTA, data_norm=1.0, random_state=s).fit(
                    train
                )
                for s in range(arguments.seeds)
            ]
            row.append(np.mean([fit.score(test) for fit in fits]) - best)
        gaps.append(row)
        sys.stdout.write(f"{name:<24}{best:8.2f}" + "".join(f"{gap:10.3f}" for gap in row) + "\n")
        sys.stdout.flush()
    means = np.maximum(gaps, -1.5).mean(axis=0)
    sys.stdout.write(f"{'mean':<32}" + "".join(f"{gap:10.3f}" for gap in means) + "\n")


if __name__ == "__main__":
    main()
