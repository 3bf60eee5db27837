"""How the constants of the warnings about weak synthetic tables were chosen, on generated tables.

Run it with ``make experiment-weak`` (10 minutes on one core). For every fit it prints what the released
values show (`dpem.models.table.relations`), the two warnings, and the part of the rank correlations of the
rows that synthetic rows have. At the end it counts warnings by that part. Set a constant by name to try it:
``--set MODERATE=0.3``.

What was tried: a visible correlation of 0.3 to 0.5, in half or three quarters of the tables (chosen: 0.4 in
three quarters); a loss of 20 to 30 % of the dependence (chosen: 25 %); a clearest pair by chance of 1 % or
5 % (chosen: 1 %, because 5 % flags independent columns).
"""

import argparse
import itertools
import warnings

import numpy as np
import pandas as pd
from scipy import special

import dpem
from dpem.errors import WeakFitWarning, WeakSignalWarning
from dpem.models.table import relations

SIZES = ((2000, 1.0), (6000, 0.5), (6000, 1.0), (6000, 3.0), (20_000, 1.0), (60_000, 1.0))  # rows, epsilon
COLUMNS = (4, 7, 12)
TYPES = {"mixed": (0, 1, 2, 3), "numeric": (0, 1), "listed": (2, 3)}
LAWS = (("factor", 0.5), ("factor", 0.2), ("pairs", 0.7), ("one", 0.7), ("chain", 0.5), ("none", 0.0))
SHOWN = 0.15  # rank correlations of the rows from which on a table has something to keep


def correlated(law, rho, n, m, rng):
    """Draw Gaussian columns: all related, in pairs, one pair only, in a chain, or independent."""
    z = rng.normal(size=(n, m))
    if law == "factor":
        return np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * z
    followers = {"pairs": range(1, m, 2), "one": [1], "chain": range(1, m), "none": []}[law]
    for j in followers:
        z[:, j] = rho * z[:, j - 1] + np.sqrt(1 - rho * rho) * z[:, j]
    return z


def table_of(z, types):
    """Turn Gaussian columns into whole numbers, numbers, four values and yes/no answers."""
    columns, declared = {}, {}
    for j, x in enumerate(z.T):
        kind = TYPES[types][j % len(TYPES[types])]
        u = special.ndtr(x)
        columns[f"c{j}"], declared[f"c{j}"] = [
            (np.clip(np.round(50 + 15 * x), 0, 120).astype(int), {"kind": "integer", "bounds": [0, 120]}),
            (np.clip(25 + 5 * x, 10, 60), {"kind": "continuous", "bounds": [10, 60]}),
            (np.clip((4 * u).astype(int), 0, 3), {"kind": "integer", "bounds": [0, 3]}),
            (u < 0.4, {"kind": "boolean"}),
        ][kind]
    return pd.DataFrame(columns), dpem.Schema(declared)


def measure(rows, schema, epsilon, target):
    """Return the fitted model, its warnings, and the part of the rank correlations that it keeps."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with dpem.testing.insecure_noise(0):
            model = dpem.MixedMixture(schema=schema, epsilon=epsilon, target=target, random_state=0).fit(rows)
    pairs = np.triu_indices(len(schema.names), 1)
    real = rows.astype(float).corr("spearman").to_numpy()[pairs]
    synthetic = model.sample(max(len(rows), 20_000)).astype(float).corr("spearman").to_numpy()[pairs]
    strong = np.abs(real) > SHOWN
    kept = (real * synthetic)[strong].sum() / (real[strong] ** 2).sum() if strong.any() else np.nan
    return model, {one.category for one in caught}, kept


def main():
    """Print a line for every fit, and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="constants to try")
    for text in parser.parse_args().set:
        name, value = text.split("=")
        setattr(relations, name, float(value))
    found = []
    for (n, epsilon), m, (law, rho), types in itertools.product(SIZES, COLUMNS, LAWS, [*TYPES, "target"]):
        z = correlated(law, rho, n, m, np.random.default_rng(0))
        rows, schema = table_of(z, "mixed" if types == "target" else types)
        model, said, kept = measure(rows, schema, epsilon, "c3" if types == "target" else None)
        shown = relations.relations_of(model)
        if shown is None:  # the plan left the pairs out, with a warning of its own
            continue
        found.append((kept, WeakSignalWarning in said, WeakFitWarning in said))
        print(
            f"{n:6} rows, epsilon {epsilon:3}, {m:2} columns, {types:7} {law:6} {rho}: kept {kept:5.2f}, "
            f"before {found[-1][1]:1}, after {found[-1][2]:1}, {shown}",
            flush=True,
        )
    kept, before, after = map(np.array, zip(*found, strict=True))
    groups = {"< 0.5": kept < 0.5, "0.5 to 0.75": (kept >= 0.5) & (kept < 0.75), ">= 0.75": kept >= 0.75}
    for name, group in (groups | {"independent columns": np.isnan(kept)}).items():
        print(
            f"kept {name}: {group.sum()} fits, {before[group].sum()} warnings before the charge, "
            f"{after[group].sum()} after the fit, {(before | after)[group].sum()} with either"
        )


if __name__ == "__main__":
    main()
