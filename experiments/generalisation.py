"""Do the mixture's constants generalise? Choose them on one group of data sets and report on the other.

Run it with ``make experiment-generalisation``; DPEM_DATA names the folder of the real data sets. One group is
the generated data sets of `mixture_constants`, on which the constants were judged; the other is real data
sets. Each candidate changes one constant of the default. Each group chooses the candidate that reaches most
of the gain of plain EM over one Gaussian, and the table shows the gain of that choice on both groups. A
choice that is better on its own group and worse on the other is overfitted. Writes
benchmarks/results/generalisation.md.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import mixture_data
from harness import RESULTS, markdown, setting
from mixture_constants import MODULES, generated_sets, plain_score

import dpem

EPSILONS = (0.1, 0.5)
DELTA = 1e-4
LEAST, MOST = -1.0, 1.5  # limits of the fraction, so that no data set dominates
# Without lifesci, on which the first design was tuned: data set -> components.
REAL = {"diabetes20": 10, "skin": 5, "adult_num": 5, "gowalla_locations": 10}
CANDIDATES = (
    {},
    {"_STEPS": 3.5},
    {"_STEPS": 7.0},
    {"_GROWTH": 1.0},
    {"_GROWTH": 4.0},
    {"_LARGEST_NOISE": 0.25},
    {"_LARGEST_NOISE": 0.6},
    {"_FORGET": 0.6},
    {"_FORGET": 0.95},
    {"_START": 0.05},
    {"_START": 0.2},
    {"_COUNT_SCALE": 0.45},
    {"_COUNT_SCALE": 0.8},
    {"_SMALLEST": 0.01},
)
GROUPS = ("generated", "real")


def name_of(candidate):
    """Return a candidate as text."""
    return ", ".join(f"{name} = {value:g}" for name, value in candidate.items()) or "the default"


def groups():
    """Yield (group, set, rows, components); the last eleventh of the rows is for testing."""
    for name, (rows, k) in generated_sets().items():
        yield "generated", name, rows, k
    for name, k in REAL.items():
        data = mixture_data.load(name)
        order = np.random.default_rng(7).permutation(len(data.rows))
        yield "real", name if data.is_real else f"{name} (stand-in)", data.rows[order], k


def scores(rows, k, seeds):
    """Return held-out scores over epsilons and seeds."""
    cut = len(rows) * 10 // 11
    return [
        dpem.GaussianMixture(k, epsilon=e, delta=DELTA, data_norm=1.0, random_state=s)
        .fit(rows[:cut])
        .score(rows[cut:])
        for e in EPSILONS
        for s in range(seeds)
    ]


def gained(row):
    """Return the mean fraction of the gain of plain EM over one Gaussian, both without privacy."""
    parts = (np.array(row["scores"]) - row["one"]) / (row["plain"] - row["one"])
    return float(np.clip(parts, LEAST, MOST).mean())


def with_constants(candidate):
    """Set the candidate's constants; return the old ones."""
    before = []
    for name, value in candidate.items():
        homes = [module for module in MODULES if hasattr(module, name)]
        if not homes:
            raise SystemExit(f"There is no constant {name}.")
        for module in homes:
            before.append((module, name, getattr(module, name)))
            setattr(module, name, value)
    return before


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    path = RESULTS / "generalisation.jsonl"
    if arguments.fresh:
        path.unlink(missing_ok=True)
    done = {}
    if path.exists():
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["seeds"] == arguments.seeds:
                done[row["group"], row["set"], row["candidate"]] = gained(row)
    sets = {group: [] for group in GROUPS}
    for group, name, rows, k in groups():
        sets[group].append(name)
        left = [c for c in CANDIDATES if (group, name, name_of(c)) not in done]
        if not left:
            continue
        cut = len(rows) * 10 // 11
        plain, one = (plain_score(rows[:cut], rows[cut:], components) for components in (k, 1))
        for candidate in left:
            before = with_constants(candidate)
            row = {"group": group, "set": name, "candidate": name_of(candidate), "seeds": arguments.seeds}
            row |= {"scores": scores(rows, k, arguments.seeds), "plain": plain, "one": one}
            for module, constant, old in before:
                setattr(module, constant, old)
            done[group, name, name_of(candidate)] = gained(row)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"{group}: {name}", file=sys.stderr)
    write(done, sets, arguments.seeds)


def write(done, sets, seeds):
    """Write what each group chooses, and the gain of that choice on the other group."""
    names = [name_of(candidate) for candidate in CANDIDATES]
    means = {
        group: {name: float(np.mean([done[group, s, name] for s in sets[group]])) for name in names}
        for group in GROUPS
    }
    rows = [[name, *(f"{means[group][name]:.3f}" for group in GROUPS)] for name in names]
    picks = {group: max(names, key=means[group].__getitem__) for group in GROUPS}
    verdicts = []
    for own in GROUPS:
        other = GROUPS[1 - GROUPS.index(own)]
        pick = picks[own]
        gains = [means[group][pick] - means[group]["the default"] for group in (own, other)]
        hindsight = means[other][picks[other]] - means[other]["the default"]
        verdicts.append([own, pick, f"{gains[0]:+.3f}", f"{gains[1]:+.3f}", f"{hindsight:+.3f}"])
    text = "\n\n".join(
        [
            (
                f"The fraction that dpem reaches of the gain of plain EM (best of six) over one Gaussian, on "
                f"held-out rows: mean over data sets, epsilon {EPSILONS[0]:g} and {EPSILONS[1]:g}, and "
                f"{seeds} seeds, each clipped to between {LEAST:g} and {MOST:g}. Generated data sets: "
                f"{', '.join(sets['generated'])}. Real data sets: {', '.join(sets['real'])}. {setting()}"
            ),
            markdown(["constants", *(f"{group} sets" for group in GROUPS)], rows),
            (
                "What each group would choose, the gain of that choice over the default on both groups, and "
                "the gain of the other group's own choice:"
            ),
            markdown(
                [
                    "chosen on",
                    "choice",
                    "gain there",
                    "gain on the other group",
                    "gain of the other group's choice",
                ],
                verdicts,
            ),
        ]
    )
    print(text)
    (RESULTS / "generalisation.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
