"""How the constants of synthetic tables were chosen, on generated tables.

Run it with ``make experiment-mixed``. It prints, for each generated table and epsilon, the total variation of
columns and of pairs to held-out rows and their log-likelihood, also for independent columns with the whole
budget. Set a constant by name to try it: ``--set _SMOOTHING=0.03 _RESTARTS=2``.

What was tried on these tables (from benchmarks/synthetic_data.py), with one to four seeds each:

- Bins of a number: at most 12, 16 (chosen), 24 or 32.
- Histograms: 256 levels alone, or with 16 coarse parts (chosen: with few rows, pairs have a tenth to a third
  less error).
- Share of the columns: 0.1 to 0.7 of mu^2 (0.2 to 0.4 differ little with many rows; half with few rows).
- Penalty: divergence from the noisy histograms, or mutual information (chosen: the first spoils the columns
  if noise is large); sizes from a fifth to five times the chosen one.
- Weights of entries: by the counts, or half by the model (no gain).
- Noise by the size of tables (1 % better; not chosen).
- Components: half and twice as many differ by up to 2 %.
- Restarts: 2 to 16 (chosen: 8; more gave no clear gain).
- The number of rows that pairs need, and the share of the columns then: where independent columns with the
  whole budget become as good.

Chosen on adult, a reported table, and not here: bins with even square roots of mass rather than equal mass;
histograms shrunk to an even spread by halves rather than as a whole; spread rather than independent draws;
the smallest penalty that is tried (0.6 of the usual one; less gave better pairs and a worse likelihood); a
penalty of 0.063 rather than 0.045, between which these tables do not distinguish. Chosen on titanic: the
least signal for the target alone. Never compared: equal parts of each number.
"""

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from synthetic_data import MixedTable, generated_table

import dpem
from dpem.models.table import bins as mixed_cells
from dpem.models.table import one_shot as mixed_oneshot
from dpem.models.table import pairs as pair_mixture

MODULES = (pair_mixture, mixed_oneshot, mixed_cells)
EPSILONS = (0.3, 1.0, 3.0)
TABLES = [  # seed, rows, columns
    (1, 30_000, 12),
    (2, 30_000, 16),
    (3, 8_000, 10),
    (4, 60_000, 20),
    (5, 1_000, 8),
    (6, 15_000, 14),
    (7, 3_000, 9),
    (8, 700, 7),
]


def measure(table, epsilon, seed, **arguments):
    """Return the comparison with held-out rows and their log-likelihood."""
    train, test = table.split(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dpem.testing.insecure_noise(seed):
            model = dpem.MixedMixture(
                schema=table.schema,
                epsilon=epsilon,
                delta=1e-5,
                adjacency="add_remove",
                random_state=seed,
                **arguments,
            ).fit(train)
    return dpem.compare_tables(test, model.sample(len(train)), table.schema), model.score(test)


def main():
    """Print a line for every table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="constants to try")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    for text in args.set:
        name, value = text.split("=")
        for module in MODULES:
            if hasattr(module, name):
                setattr(module, name, type(getattr(module, name))(float(value)))
    print("rows columns epsilon | columns, pairs, likelihood | the same, independent columns")
    for seed, n, m in TABLES:
        frame, schema, target = generated_table(seed, n, m)
        table = MixedTable("generated", frame, schema, target, is_real=False)
        for epsilon in EPSILONS:
            line = f"{n:6d} {m:3d} {epsilon:5g}"
            for arguments in ({}, {"n_components": 1}):
                runs = [measure(table, epsilon, s, **arguments) for s in range(args.seeds)]
                means = [
                    sum(values) / len(values)
                    for values in zip(*((c.one_way, c.two_way, score) for c, score in runs), strict=True)
                ]
                line += f" | {means[0]:.4f} {means[1]:.4f} {means[2]:8.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
