"""How the constants of private factor analysis were chosen, on generated data.

Run it with ``make experiment-factor``. It prints three things: for each generated table and epsilon, the
excess negative log-likelihood over plain EM; for generated pictures, the variance of held-out pictures that
ten factors capture, relative to ten non-private principal components, and that of ten cosine images; and how
well the directions of equal factors are found, for as many factors as `dpem.factors_allowed` says, for half
and for twice as many. Set a constant by name to try it: ``--set COUNT_SCALE=0.3 _LARGEST_EDGE=1``.

What was tried on these data, with 3 or 4 seeds each:

- Rounds of moments: one to five, with equal or growing shares (chosen: four with 7, 10, 18 and 45 %; one if
  noise covers everything). Averaging the moments of all rounds (no gain).
- Frames: whitening, with and without a ridge if noise is large (chosen: with, edge 2; 0.3 to 5 differ
  little).
- Clipping radii: from -1.4 to 20 standard deviations of |z|^2 (chosen by the noise level, from -1 to 3).
- Shrinkage of the difference from the frame: none; optimal for few spikes; rotation-invariant (chosen) with
  its smoothing at a quarter to twice d^(-1/3); entry by entry with an empirical prior (no gain); zero if
  nothing stands out (chosen).
- Size, measured together with the moment: 0 to 3 % per round, clipped at 3, 5 or 10 times the average or by
  the noise level (chosen).
- James-Stein with 1, 2 and 3 (chosen) standard deviations.
- Widths: the same for all columns, or by octaves of ordered directions (chosen for a basis).
- Directions for pictures: 40 to 256.
- If a moment does not fit its frame: a smaller frame, or a larger moment whose variances are not trusted
  (chosen). Without this, rare columns end up a thousand times too narrow.
"""

import argparse
import math
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from factor import captured
from factor_data import generated_pictures

import dpem
from dpem.models.factor_analysis import fit as factor_fit
from dpem.models.factor_analysis import one_round as factor_round

EPSILONS = (0.1, 0.3, 1.0)
PICTURE_EPSILONS = (0.3, 1.0, 3.0, 10.0)
MODULES = (factor_fit, factor_round)


def table(d, k, n, seed, *, units=1.0, tails=None):
    """Draw rows from k factors, with column units that differ by up to e^(2 units), optionally Student-t."""
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
    """Draw binary columns that share k factors; ones are from one in a thousand to one in three."""
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
    """Return the fraction found of the directions of k equal factors with half of all variance."""
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
        rows = generated_pictures(32, 400, picture_seed)
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
            f"{'generated, draw ' + str(picture_seed):<26}" + "".join(f"{part:10.3f}" for part in line),
            flush=True,
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
