"""How the constants of private factor analysis are judged: on made data.

Run it with ``make experiment-factor``. It prints, for each made table and epsilon, the excess negative
log-likelihood over plain EM; for made pictures, the variance that ten factors capture of held-out ones,
relative to ten non-private principal components, beside what ten cosine images capture; and how well the
directions of as many equal factors are found as `dpem.factors_allowed` says, of half and of twice as many. To
try a constant, name it: ``--set COUNT_SCALE=0.3 _LARGEST_EDGE=1``.

Tried on these sets, 3 or 4 seeds each. Rounds of moments: one to five, of equal or growing shares (four,
7, 10, 18 and 45 %, are taken; one where noise covers all); moments of all rounds averaged (no gain).
Frames: whitening, with and without a ridge where noise is large (taken, edge 2; 0.3 to 5 differ little).
Clipping radii from -1.4 to 20 standard deviations of |z|^2 (by the noise level, from -1 to 3). Shrinkage of
the difference from the frame: none, optimal for few spikes, rotation-invariant (taken) with its smoothing at
a fourth to twice d^(-1/3), entry by entry with an empirical prior (no gain); zero where nothing stands out
(taken). The size measured beside the moment with 0 to 3 % a round, cut at 3, 5, 10 times the average or by
the noise level (taken). James-Stein with 1, 2 and 3 (taken) deviations. Widths of columns alike, or of
ordered directions by octaves (taken for a basis). 40 to 256 directions for pictures. Where a moment does not
fit its frame: a smaller frame, a larger moment with variances that are not trusted (taken); without it rare
columns end up a thousand times too narrow.
"""

import argparse
import math
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from factor import captured
from factor_data import made_pictures

import dpem
from dpem.models.factor_analysis import fit as factor_fit
from dpem.models.factor_analysis import one_round as factor_round

EPSILONS = (0.1, 0.3, 1.0)
PICTURE_EPSILONS = (0.3, 1.0, 3.0, 10.0)
MODULES = (factor_fit, factor_round)


def table(d, k, n, seed, *, units=1.0, tails=None):
    """Draw rows of k factors, columns of units that differ by up to e^(2 units), Student-t where wanted."""
    rng = np.random.default_rng(seed)
    unit = np.exp(rng.uniform(-units, units, d))
    loadings = rng.standard_normal((d, k)) * np.linspace(1.5, 0.5, k)
    noise = np.exp(rng.uniform(np.log(0.3), np.log(3), d))
    rows = rng.standard_normal((n, k)) @ loadings.T + rng.standard_normal((n, d)) * np.sqrt(noise)
    if tails:
        rows *= np.sqrt(tails / rng.chisquare(tails, (n, 1)))
    rows = (rows + 0.5 * rng.standard_normal(d)) * unit
    return rows / np.linalg.norm(rows, axis=1).max()


def rare(d, k, n, seed):
    """Draw columns of zeros and ones, from one in a thousand to one in three, that share k factors."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((n, k)) @ rng.standard_normal((k, d)) + rng.standard_normal((n, d))
    often = np.exp(rng.uniform(np.log(1e-3), np.log(0.3), d))
    rows = (latent > np.quantile(latent, 1 - often, axis=0).diagonal()).astype(float)
    return rows / np.linalg.norm(rows, axis=1).max()


TABLES = {
    "8 columns, 2 factors": (lambda: table(8, 2, 24_000, 1), 2),
    "40 columns, 5 factors": (lambda: table(40, 5, 34_000, 2), 5),
    "the same, t with 4 df": (lambda: table(40, 5, 34_000, 3, tails=4), 5),
    "40 columns, 4000 rows": (lambda: table(40, 4, 8_000, 8), 4),
    "60 rare columns": (lambda: rare(60, 5, 24_000, 1), 5),
    "20 columns, odd units": (lambda: table(20, 3, 14_000, 4, units=2.5), 3),
}


def overlap(n, d, k, epsilon, seed):
    """Return the part of the directions of k equal factors, half of all variance, that is found."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :k]
    rows = rng.standard_normal((n, k)) @ directions.T * math.sqrt(d / (2 * k))
    rows += rng.standard_normal((n, d)) * math.sqrt(0.5)
    rows /= np.linalg.norm(rows, axis=1).max()
    model = dpem.FactorAnalysis(k, epsilon=epsilon, data_norm=1.0, random_state=seed).fit(rows)
    return captured(model.components_.T, directions.T) / k


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=NUMBER")
    arguments = parser.parse_args()
    for name, value in (text.split("=") for text in arguments.set):
        homes = [module for module in MODULES if hasattr(module, name)]
        for module in homes:
            setattr(module, name, float(value))
        if not homes:
            raise SystemExit(f"There is no constant {name}.")
    warnings.simplefilter("ignore")
    seeds = range(arguments.seeds)
    print(f"{'excess at epsilon':<26}" + "".join(f"{e:10g}" for e in EPSILONS))
    for name, (make, k) in TABLES.items():
        rows = make()
        fit, test = rows[:-4000], rows[-4000:]
        best = dpem.FactorAnalysis(k, epsilon=math.inf, data_norm=1.0, random_state=0).fit(fit).score(test)
        line = []
        for epsilon in EPSILONS:
            models = [dpem.FactorAnalysis(k, epsilon=epsilon, data_norm=1.0, random_state=s) for s in seeds]
            line.append(best - np.mean([model.fit(fit).score(test) for model in models]))
        print(f"{name:<26}" + "".join(f"{gap:10.3f}" for gap in line), flush=True)
    print(f"{'pictures at epsilon':<26}" + "".join(f"{e:10g}" for e in PICTURE_EPSILONS) + "   no data")
    basis = dpem.cosine_basis((32, 32), 64, constant=False)
    for picture_seed in (0, 1):
        rows = made_pictures(32, 400, picture_seed)
        fit, test = rows[:320], rows[320:]
        relative = test - fit.mean(axis=0)
        leading = np.linalg.svd(fit - fit.mean(axis=0), full_matrices=False)[2][:10]
        best = captured(leading.T, relative)
        line = []
        for epsilon in PICTURE_EPSILONS:
            settings = {"epsilon": epsilon, "delta": 1e-4, "data_norm": 32.0, "basis": basis}
            models = [dpem.FactorAnalysis(10, random_state=s, **settings).fit(fit) for s in seeds]
            line.append(np.mean([captured(m.components_.T, relative) for m in models]) / best)
        line.append(captured(basis[:, :10], relative) / best)
        print(
            f"{'made, draw ' + str(picture_seed):<26}" + "".join(f"{part:10.3f}" for part in line), flush=True
        )
    print(f"{'rows, columns, epsilon':<26}{'allowed':>10}{'half':>10}{'as many':>10}{'twice':>10}")
    for n, d, epsilon in ((4000, 40, 0.1), (4000, 40, 0.3), (50_000, 100, 0.1)):
        allowed = dpem.factors_allowed(n, d, epsilon=epsilon)
        parts = [
            np.mean([overlap(n, d, k, epsilon, s) for s in seeds])
            for k in (allowed // 2, allowed, 2 * allowed)
        ]
        print(
            f"{f'{n}, {d}, {epsilon}':<26}{allowed:>10}" + "".join(f"{part:10.2f}" for part in parts),
            flush=True,
        )


if __name__ == "__main__":
    main()
