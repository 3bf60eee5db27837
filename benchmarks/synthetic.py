"""Synthetic tables by dpem, compared with independent columns, DP-EM, and MST and AIM of dpmm.

Run it with ``make bench-synthetic``; dpem's own methods take half an hour. ``--peers`` also runs MST and AIM
of dpmm with the defaults of their models, in an environment of its own on one thread; AIM takes hours. Their
synthetic rows are stored in build/peers and reused. Writes benchmarks/results/synthetic.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from harness import RESULTS, markdown, setting
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from synthetic_data import NAMES, load

import dpem
from dpem.measures.table_quality import auc, comparison_codes, total_variation

EPSILONS = [0.3, 1.0, 3.0]
DELTA = 1e-5
SEEDS = 3
TRIPLES = 60
OURS = {
    "independent columns": {"n_components": 1},
    "one shot": {},
    "one shot, target": {"target": True},
    "EM": {"method": "em"},
}
ADJACENCIES = ("add_remove", "replace_one")
PEERS = ["MST", "AIM"]
KEPT = Path(__file__).parent.parent / "build" / "peers"
LINES = RESULTS / "synthetic.jsonl"
HELD = 2_000  # largest number of rows on either side of the membership attack


def one_hot(codes, sizes):
    """Return codes (n, m) as a sparse matrix of ones."""
    n, m = codes.shape
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = (codes + starts[:-1]).ravel()
    return sparse.csr_matrix((np.ones(n * m), (np.repeat(np.arange(n), m), places)), (n, starts[-1]))


def logistic_auc(train, test, target, sizes):
    """Return the AUC of logistic regression on one-hot cells, averaged over the target's values."""
    others = [j for j in range(len(sizes)) if j != target]
    if len(np.unique(train[:, target])) < 2:
        return 0.5
    hot = [sizes[j] for j in others]
    learner = LogisticRegression(max_iter=300).fit(one_hot(train[:, others], hot), train[:, target])
    probabilities = learner.predict_proba(one_hot(test[:, others], hot))
    return float(
        np.mean(
            [
                roc_auc_score(test[:, target] == value, probabilities[:, i])
                for i, value in enumerate(learner.classes_)
                if 0 < (test[:, target] == value).mean() < 1
            ]
        )
    )


def attack(synthetic, members, others):
    """Return the advantage of an attack that identifies members by their distance to synthetic rows.

    The distance is the number of differing cells to the nearest synthetic row. The advantage is the largest
    difference between true and false positive rates over all thresholds, for equally many rows of both kinds.
    """
    n = min(len(members), len(others), HELD)
    distances = []
    for rows in (members[:n], others[:n]):
        nearest = np.full(n, synthetic.shape[1])
        for start in range(0, len(synthetic), 512):
            block = synthetic[start : start + 512]
            differing = np.zeros((n, len(block)), dtype=np.int16)
            for j in range(synthetic.shape[1]):
                differing += rows[:, [j]] != block[:, j]
            nearest = np.minimum(nearest, differing.min(axis=1))
        distances.append(nearest)
    found = [np.bincount(d, minlength=synthetic.shape[1] + 1).cumsum() / n for d in distances]
    return float((found[0] - found[1]).max())


def scores(synthetic, train, test, sizes, target, schema, seed):
    """Return all measures of synthetic rows, given as codes."""
    m = len(sizes)
    rng = np.random.default_rng(3)
    triples = [rng.choice(m, 3, replace=False) for _ in range(TRIPLES)]
    pairs = [(i, j) for i in range(m) for j in range(i)]

    def mean(sets):
        return float(np.mean([total_variation(synthetic, test, sizes, columns) for columns in sets]))

    rng = np.random.default_rng(seed)  # some sources are ordered by time
    return {
        "one way": mean([[j] for j in range(m)]),
        "two way": mean(pairs),
        "three way": mean(triples),
        "boosting": auc(synthetic, test, target, schema),
        "logistic": logistic_auc(synthetic, test, target, sizes),
        "attack": attack(synthetic, rng.permutation(train), rng.permutation(test)),
    }


def fit_ours(table, method, epsilon, adjacency, seed, path):
    """Fit in its own process, to measure its memory; return rows, log-likelihood and cost."""
    code = [sys.executable, __file__, "--one", table.name, method, str(epsilon), adjacency, str(seed), path]
    subprocess.run(code, check=True)
    return np.load(path)


def one(name, method, epsilon, adjacency, seed, path):
    """Fit one model and write its results."""
    import resource

    table = load(name)
    train, test = table.split(int(seed))
    arguments = dict(OURS[method])
    if arguments.pop("target", False):
        arguments["target"] = table.target
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpem.errors.WeakSignalWarning)
        model = dpem.MixedMixture(
            schema=table.schema,
            epsilon=float(epsilon),
            delta=DELTA,
            adjacency=adjacency,
            random_state=int(seed),
            **arguments,
        ).fit(train)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    codes, _ = comparison_codes(model.sample(len(train)), table.schema)
    likelihood = model.score(test)
    np.savez(path, codes=codes, seconds=seconds, gigabytes=peak / 1e6, likelihood=likelihood)


def peer_rows(name, method, epsilon, seed, train, sizes, *, run):
    """Return the synthetic rows of another package for these rows: stored ones, or run now."""
    KEPT.mkdir(parents=True, exist_ok=True)
    out = KEPT / f"{name}_{method}_{epsilon:g}_{seed}.npz"
    if not out.is_file() and run:
        source = KEPT / f"{name}_{seed}_codes.npz"
        np.savez(source, codes=train, sizes=sizes)
        python = Path(__file__).parent.parent / "build" / "dpmm" / "bin" / "python"
        if not python.is_file():
            raise SystemExit("Expected dpmm in an environment of its own: run make build/dpmm/.ready first.")
        script = Path(__file__).parent / "peers" / "dpmm_table.py"
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        subprocess.run(
            [python, script, source, method, f"{epsilon:g}", str(seed), out],
            check=True,
            env=os.environ | single,
            capture_output=True,
        )
    return np.load(out) if out.is_file() else None


NOTE = f"""delta = {DELTA:g}, means over {SEEDS} seeds of noise, and of splits if the source has none;
MST and AIM ran with one seed. Each method draws as many synthetic rows as were fitted.

- One, two and three way: mean total variation between synthetic and held-out rows, over columns, all pairs
  and 60 triples. Numbers are divided into 16 equal parts of their public bounds. Smaller is better.
- Boosting and logistic: area under the ROC curve of a classifier that is trained on synthetic rows and
  tested on held-out rows. Larger is better.
- Likelihood: mean log-likelihood of held-out rows. Larger is better.
- Attack: advantage of an adversary who distinguishes fitted from held-out rows by the nearest synthetic
  row. Smaller is better.
- Seconds: time of the fit. Gigabytes: peak memory of its process, including about 0.2 for Python and its
  libraries.
- Real rows: the fitted rows themselves instead of synthetic ones, as an upper limit of quality.
- MST and AIM: dpmm 0.1.9 with the defaults of its models, the same public parts of numbers, add/remove, one
  thread, on a machine that was busy with other work. Runs that are not listed were not started, or had not
  ended after an hour (AIM on adult at epsilon 3)."""


class Lines:
    """All runs, one line of JSON each, so that an interrupted benchmark continues."""

    def __init__(self, fresh):
        if fresh:
            LINES.unlink(missing_ok=True)
        self.rows = [json.loads(line) for line in LINES.read_text().splitlines()] if LINES.exists() else []

    def has(self, *key):
        """Return whether this run is stored."""
        return any(
            (r["table"], r["method"], r["epsilon"], r["adjacency"], r["seed"]) == key for r in self.rows
        )

    def keep(self, key, values):
        """Store a run."""
        row = dict(zip(("table", "method", "epsilon", "adjacency", "seed"), key, strict=True)) | values
        self.rows.append(row)
        with LINES.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(*key, {k: round(v, 4) for k, v in values.items()}, flush=True)


def run(args):
    """Measure everything that is not stored yet."""
    lines = Lines(args.fresh)
    for name in args.tables or NAMES:
        table = load(name)
        target = table.schema.names.index(table.target)
        for seed in range(SEEDS):
            train, test = table.split(seed)
            train_codes, sizes = comparison_codes(train, table.schema)
            test_codes, _ = comparison_codes(test, table.schema)
            rest = (train_codes, test_codes, sizes, target, table.schema, seed)
            key = (name, "real rows", None, "", seed)
            if not lines.has(*key):
                lines.keep(key, scores(train_codes, *rest))
            for epsilon in EPSILONS:
                for method in OURS:
                    both = name == "adult" and method.startswith("one shot")
                    for adjacency in ADJACENCIES if both else ADJACENCIES[:1]:
                        key = (name, method, epsilon, adjacency, seed)
                        if lines.has(*key):
                            continue
                        path = str(RESULTS / "one_run.npz")
                        got = fit_ours(table, method, epsilon, adjacency, seed, path)
                        cost = {k: float(got[k]) for k in ("seconds", "gigabytes", "likelihood")}
                        lines.keep(key, scores(got["codes"], *rest) | cost)
                        Path(path).unlink()
                for method in PEERS if seed == 0 else ():
                    key = (name, method, epsilon, "add_remove", seed)
                    if lines.has(*key):
                        continue
                    got = peer_rows(name, method, epsilon, seed, train_codes, sizes, run=args.peers)
                    if got is not None:
                        cost = {k: float(got[k]) for k in ("seconds", "gigabytes")}
                        lines.keep(key, scores(got["codes"].astype(np.intp), *rest) | cost)
    write(lines)


MEASURES = ("one way", "two way", "three way", "boosting", "logistic", "likelihood", "attack")


def write(lines):
    """Write the tables."""
    text = [
        "# Synthetic tables",
        "",
        "Written by `make bench-synthetic` (benchmarks/synthetic.py). " + setting(),
        "",
        NOTE,
    ]
    for name in dict.fromkeys(row["table"] for row in lines.rows):
        table = load(name)
        text += ["", f"## {name}" + ("" if table.is_real else " (a generated stand-in)")]
        rows = [row for row in lines.rows if row["table"] == name]
        for adjacency in ADJACENCIES:
            body = []
            for epsilon in EPSILONS:
                for method in [*OURS, *PEERS]:
                    chosen = [
                        r
                        for r in rows
                        if (r["method"], r["epsilon"], r["adjacency"]) == (method, epsilon, adjacency)
                    ]
                    if chosen:
                        body.append([f"{epsilon:g}", method, *_cells(chosen)])
            if not body:
                continue
            text += ["", f"Adjacency `{adjacency}`:", ""]
            body.append(["", "real rows", *_cells([r for r in rows if r["method"] == "real rows"])])
            text.append(markdown(["epsilon", "", *MEASURES, "seconds", "gigabytes"], body))
    (RESULTS / "synthetic.md").write_text("\n".join(text) + "\n")


def _cells(rows):
    def mean(measure):
        values = [row[measure] for row in rows if measure in row]
        return np.mean(values) if values else None

    shown = [mean(measure) for measure in MEASURES]
    cells = [
        "" if value is None else f"{value:.2f}" if measure == "likelihood" else f"{value:.4f}"
        for measure, value in zip(MEASURES, shown, strict=True)
    ]
    cost = [mean("seconds"), mean("gigabytes")]
    return cells + ["" if value is None else f"{value:.3g}" for value in cost]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("tables", nargs="*", help="tables to run; all by default")
        parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
        parser.add_argument(
            "--peers", action="store_true", help="run MST and AIM if their rows are not stored"
        )
        run(parser.parse_args())
