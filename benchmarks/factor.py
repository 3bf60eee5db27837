"""Factor analysis compared with the paper's text and non-private fits: log-likelihood and pictures.

Run it with ``make bench-fa``. Replace-one, delta 1e-4. Writes benchmarks/results/factor.md. The constants of
the method were chosen on the generated data of experiments/factor_constants.py; none of it is reported here.
"""

import argparse
import sys
import warnings

import numpy as np
from factor_data import SIDE, binary, factors, pictures
from harness import RESULTS, Runs, markdown, setting, write_cell
from mixture_data import load
from sklearn.decomposition import FactorAnalysis as PlainFactorAnalysis

import dpem
from dpem import paper
from dpem.reproduce.olivetti import refused_from

DELTA = 1e-4
EPSILONS = (0.1, 0.3, 1.0, 3.0)
PICTURE_EPSILONS = (0.2, 0.3, 1.0, 3.0, 10.0, 30.0)
TEXT_OF_PICTURES = (0.3, 1.0, 3.0)  # several minutes each
DIRECTIONS = 64
TEXT, TEXT_CENTRED = "paper's text", "paper's text, centred rows"  # columns of the tables
TABLES = {"lifesci": 3, "synthetic": 10, "diabetes130_binary": 10}  # data set -> factors


def table_rows(name):
    """Return rows in the unit ball (the largest norm taken as public), and whether they are real."""
    if name == "lifesci":
        data = load(name)
        return data.rows, data.is_real
    X, is_real = (factors(100, 10, 55_000, 7), True) if name == "synthetic" else binary()
    X = np.asarray(X, dtype=np.float64)
    return X / np.linalg.norm(X, axis=1).max(), is_real


def split(n, seed, part=0.1):
    """Return indices to fit and to score."""
    order = np.random.default_rng(seed).permutation(n)
    held_out = round(part * n)
    return order[held_out:], order[:held_out]


def score_tables(runs, seeds):
    """Measure the three tables."""
    for name, k in TABLES.items():
        X, _ = table_rows(name)
        for seed in range(seeds if X.shape[1] < 300 else min(seeds, 2)):
            fit, test = split(len(X), seed)

            def measure(method, epsilon, model, fit=fit, test=test, seed=seed, X=X, name=name):
                print(name, method, epsilon, seed, file=sys.stderr)
                runs.measure(
                    name, method, epsilon, seed, lambda: model.fit(X[fit]), lambda m: m.score(X[test])
                )

            measure("plain", 0, dpem.FactorAnalysis(k, epsilon=np.inf, data_norm=1.0, random_state=seed))
            measure("scikit-learn", 0, PlainFactorAnalysis(k, random_state=seed))
            for epsilon in EPSILONS:
                budget = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "random_state": seed}
                measure("default", epsilon, dpem.FactorAnalysis(k, **budget))
                if epsilon < refused_from():  # above that the classical sigma is too small
                    measure("paper", epsilon, paper.FactorAnalysis(k, **budget))
                    measure_centred_text(runs, name, epsilon, seed)


def measure_centred_text(runs, name, epsilon, seed):
    """Measure the paper's text on rows less the mean of the rows to fit, which the benchmark takes as public.

    The text's model has no mean, and the non-private baseline has one. The rows are scaled to their largest
    norm, as the text does.
    """
    X, _ = table_rows(name)
    fit, test = split(len(X), seed)
    X = X - X[fit].mean(axis=0)
    norm = float(np.linalg.norm(X[fit], axis=1).max())
    model = paper.FactorAnalysis(
        TABLES[name], epsilon=epsilon, delta=DELTA, data_norm=norm, random_state=seed
    )
    print(name, TEXT_CENTRED, epsilon, seed, file=sys.stderr)
    runs.measure(
        name, "paper, centred", epsilon, seed, lambda: model.fit(X[fit]), lambda fitted: fitted.score(X[test])
    )


def captured(directions, X):
    """Return the sum of squares of X in the span of these columns."""
    return float(((X @ np.linalg.qr(directions)[0]) ** 2).sum())


def score_pictures(runs, seeds, k=10):
    """Measure the captured variance of held-out pictures relative to ten non-private components."""
    X, _ = pictures()
    basis = dpem.cosine_basis((SIDE, SIDE), DIRECTIONS, constant=False)
    for seed in range(seeds):
        fit, test = split(len(X), 100 + seed, part=0.2)
        mean = X[fit].mean(axis=0)
        relative = X[test] - mean
        leading = np.linalg.svd(X[fit] - mean, full_matrices=False)[2][:k]
        best = captured(leading.T, relative)

        models = {("plain", 0): dpem.FactorAnalysis(k, epsilon=np.inf, data_norm=32.0, random_state=seed)}
        for epsilon in PICTURE_EPSILONS:
            # Pixels from 0 to 1 without their mean: a norm of at most 64 / 2.
            budget = {"epsilon": epsilon, "delta": DELTA, "data_norm": 32.0, "random_state": seed}
            models["default", epsilon] = dpem.FactorAnalysis(k, basis=basis, **budget)
            if seed == 0 and epsilon in TEXT_OF_PICTURES:
                models["paper", epsilon] = text_of_pictures(X[fit], epsilon)
            if seed == 0 and epsilon in (3.0, 30.0):
                models["no basis", epsilon] = dpem.FactorAnalysis(k, **budget)
        if not runs.has(("pictures", "data-free", 0, seed)):
            runs.keep(("pictures", "data-free", 0, seed), captured(basis[:, :k], relative) / best, 0.0)
        for (method, epsilon), model in models.items():
            if runs.has(("pictures", method, epsilon, seed)):
                continue
            print("pictures", method, epsilon, seed, file=sys.stderr)
            model.fit(X[fit])
            runs.keep(
                ("pictures", method, epsilon, seed), captured(model.components_.T, relative) / best, 0.0
            )
            runs.keep(("likelihood", method, epsilon, seed), model.score(X[test]) / X.shape[1], 0.0)


def text_of_pictures(X, epsilon, k=10):
    """Return the paper's text, unfitted, for rows scaled to their largest norm as in the paper; it leaks."""
    norm = float(np.linalg.norm(X, axis=1).max())
    return paper.FactorAnalysis(k, epsilon=epsilon, delta=DELTA, data_norm=norm, random_state=0)


def without_text(epsilon):
    """Return why there is no number for the paper's text."""
    return "rejected" if epsilon >= refused_from() else "not run"


def add_text(runs, epsilon, seeds):
    """Measure only the paper's text at one more epsilon, and write it into the recorded tables."""
    page = RESULTS / "factor.md"
    for name, k in TABLES.items():
        X, is_real = table_rows(name)
        for seed in range(seeds if X.shape[1] < 300 else min(seeds, 2)):
            fit, test = split(len(X), seed)
            budget = {"epsilon": epsilon, "delta": DELTA, "data_norm": 1.0, "random_state": seed}
            plain = dpem.FactorAnalysis(k, epsilon=np.inf, data_norm=1.0, random_state=seed)
            for method, model in (("plain", plain), ("paper", paper.FactorAnalysis(k, **budget))):
                at = 0 if method == "plain" else epsilon
                print(name, method, at, seed, file=sys.stderr)
                runs.measure(
                    name,
                    method,
                    at,
                    seed,
                    lambda model=model, rows=X[fit]: model.fit(rows),
                    lambda fitted, rows=X[test]: fitted.score(rows),
                )
            measure_centred_text(runs, name, epsilon, seed)
        values = runs.by(name)
        label = f"{name}{'' if is_real else ' (stand-in)'}: N={len(X):,} d={X.shape[1]} K={k}"
        for method, column in (("paper", TEXT), ("paper, centred", TEXT_CENTRED)):
            excess = (values["plain", 0] - values[method, epsilon]).mean()
            write_cell(page, [label, f"{epsilon:g}"], column, f"{excess:.3g}")


def add_text_of_pictures(runs, epsilon, k=10):
    """Do the same for pictures, on the first split, as in the recorded table."""
    key = ("pictures", "paper", epsilon, 0)
    if not runs.has(key):
        print(*key, file=sys.stderr)
        X, _ = pictures()
        fit, test = split(len(X), 100, part=0.2)
        mean = X[fit].mean(axis=0)
        relative = X[test] - mean
        best = captured(np.linalg.svd(X[fit] - mean, full_matrices=False)[2][:k].T, relative)
        model = text_of_pictures(X[fit], epsilon).fit(X[fit])
        runs.keep(key, captured(model.components_.T, relative) / best, 0.0)
    value = runs.by("pictures")["paper", epsilon].mean()
    write_cell(RESULTS / "factor.md", [f"{epsilon:g}"], TEXT, f"{value:.3f}")


def write(runs):
    """Write the tables."""
    head = (
        f"Replace-one, delta {DELTA:g}, means over splits: nine tenths of the rows to fit and one tenth to "
        f"score; of the pictures, four fifths and one fifth. {setting()}"
    )
    parts = [head]
    rows = []
    for name, k in TABLES.items():
        values = runs.by(name)
        if ("plain", 0) not in values:
            continue
        X, is_real = table_rows(name)
        label = f"{name}{'' if is_real else ' (stand-in)'}: N={len(X):,} d={X.shape[1]} K={k}"
        plain = values["plain", 0]
        learn = values.get(("scikit-learn", 0))
        for epsilon in EPSILONS:
            excess = plain - values["default", epsilon]
            texts = (values.get((method, epsilon)) for method in ("paper", "paper, centred"))
            rows.append(
                [
                    label,
                    f"{epsilon:g}",
                    *(
                        without_text(epsilon) if text is None else f"{(plain - text).mean():.3g}"
                        for text in texts
                    ),
                    f"{excess.mean():.3g} ± {excess.std(ddof=1) / np.sqrt(len(excess)):.1g}",
                    "" if learn is None else f"{(plain - learn).mean():.3g}",
                ]
            )
    header = ["data", "epsilon", TEXT, TEXT_CENTRED, "dpem", "scikit-learn, non-private"]
    parts += [
        (
            "Excess negative log-likelihood per row over non-private EM with several starts; smaller is "
            "better. The text's\nmodel has no mean, and non-private EM has one; *centred rows* lack the mean "
            "of the rows to fit, taken as public:"
        ),
        markdown(header, rows),
    ]
    values, likelihoods = runs.by("pictures"), runs.by("likelihood")
    if ("plain", 0) in values:
        is_real = pictures()[1]
        base = values["data-free", 0].mean()
        rows = []
        for epsilon in PICTURE_EPSILONS:
            default = values["default", epsilon]
            lost = likelihoods["plain", 0] - likelihoods["default", epsilon]
            text = values.get(("paper", epsilon))
            alone = values.get(("no basis", epsilon))
            rows.append(
                [
                    f"{epsilon:g}",
                    without_text(epsilon) if text is None else f"{text.mean():.3f}",
                    "" if alone is None else f"{alone.mean():.3f}",
                    f"{default.mean():.3f} ± {default.std(ddof=1) / np.sqrt(len(default)):.1g}",
                    f"{base:.3f}",
                    f"{lost.mean():.2f}",
                ]
            )
        header = [
            "epsilon",
            TEXT,
            "dpem, no basis",
            "dpem, 64 cosine images",
            "ten cosine images, without data",
            "excess per pixel",
        ]
        kind = "Olivetti faces" if is_real else "Generated pictures (stand-in)"
        head = (
            f"{kind}, 320 to fit and 80 to score, 10 factors: the variance of held-out pictures in the span "
            f"of the components,\nrelative to ten non-private principal components (non-private factor "
            f"analysis: {values['plain', 0].mean():.3f}). Larger is better."
        )
        parts += [head, markdown(header, rows)]
    text = "\n\n".join(parts)
    print(text)
    (RESULTS / "factor.md").write_text(text + "\n")


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument(
        "--text-at",
        type=float,
        metavar="EPSILON",
        help="measure only the paper's text and write it into the recorded tables",
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs("factor", arguments.fresh)
    if arguments.text_at is not None:
        add_text(runs, arguments.text_at, arguments.seeds)
        add_text_of_pictures(runs, arguments.text_at)
        return
    score_pictures(runs, arguments.seeds)
    score_tables(runs, arguments.seeds)
    write(runs)


if __name__ == "__main__":
    main()
