"""The paper's mixture on lifesci, compared with an independent implementation of its formulas.

Run it with ``make bench-mixture-paper``. The reference implements the formulas in plain floating point, as an
experiment would; it is not a private mechanism. Both use J = 10, delta = 1e-4, delta_i = 1e-8, MAP and the
same start, for the paper's scenarios and compositions. Writes benchmarks/results/mixture_paper.md.
"""

import argparse
import sys
import warnings

import numpy as np
from harness import RESULTS, Runs, markdown, setting
from mixture import folds, mean_and_error
from mixture_data import load
from scipy.special import logsumexp

import dpem
from dpem import paper
from dpem.privacy.per_mechanism import mixture_mechanisms, per_mechanism_budget
from dpem.reproduce.as_printed import log_joint
from dpem.reproduce.mixtures import latin_start

EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
DELTA, DELTA_I, STEPS = 1e-4, 1e-8, 10
CASES = [
    ("GGG", "linear"),
    ("GGG", "advanced"),
    ("GGG", "zcdp"),
    ("GGG", "moments"),
    ("LLG", "zcdp"),
    ("LLG", "moments"),
]


def reference(X, k, epsilon, scenario, composition, means, seed):
    """Run the paper's formulas with floating-point noise; return weights, means and covariances."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    laplace, gaussian = mixture_mechanisms(scenario, k, STEPS)
    delta_i = None if composition == "linear" else DELTA_I
    budget = per_mechanism_budget(
        composition, epsilon, DELTA, n_laplace=laplace, n_gaussian=gaussian, delta_i=delta_i
    )
    one, sigma = budget.epsilon_i, budget.noise_multiplier

    def noise(shape, l1, l2):
        return rng.laplace(0, l1 / one, shape) if scenario == "LLG" else rng.normal(0, sigma * l2, shape)

    weights, covariances = np.full(k, 1 / k), np.stack([np.eye(d)] * k)
    for _ in range(STEPS):
        joint = log_joint(X, weights, means, covariances)
        g = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        p = np.clip(g.mean(axis=0) + noise(k, 2 / n, 2 / n), 0, 1)
        counts = n * (p / p.sum() if p.sum() > 0 else np.full(k, 1 / k))
        weights = (counts + 1) / (n + k)
        means = (g.T @ X + noise((k, d), 2 * np.sqrt(d), 2.0)) / (counts + 1)[:, None]
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1)
        new = []
        for j in range(k):
            upper = np.triu(rng.normal(0, 2 * sigma, (d, d)))
            scatter = (X * g[:, [j]]).T @ X + upper + np.triu(upper, 1).T
            outer = np.outer(means[j], means[j])
            scatter += 0.1 * np.eye(d) + (counts[j] / (1 + counts[j]) - counts[j]) * outer
            values, vectors = np.linalg.eigh(scatter / (counts[j] + 2 * d + 4))
            new.append(vectors * np.maximum(values, 1e-3) @ vectors.T)
        covariances = np.stack(new)
    return weights, means, covariances


def main():
    """Run and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", dpem.errors.DpemWarning)
    runs = Runs("mixture_paper", arguments.fresh)
    data = load("lifesci")
    X, k = data.rows, 3
    for fold, (train, test) in enumerate(folds(len(X), 10)):
        for scenario, composition in CASES:
            for epsilon in EPSILONS:
                for seed in range(arguments.seeds):
                    key = (f"{scenario} {composition}", epsilon, 100 * fold + seed)
                    start = latin_start(k, X.shape[1], data.radius, seed)
                    delta_i = None if composition == "linear" else DELTA_I
                    model = paper.GaussianMixture(
                        k,
                        epsilon=epsilon,
                        delta=DELTA,
                        data_norm=1.0,
                        scenario=scenario,
                        composition=composition,
                        delta_i=delta_i,
                        means_init=start,
                    )
                    runs.measure(
                        "dpem.paper",
                        *key,
                        lambda m=model, t=train: m.fit(X[t]),
                        lambda m, t=test: m.score(X[t]),
                    )
                    plain = (k, epsilon, scenario, composition, start, 1000 * fold + seed)
                    runs.measure(
                        "reference",
                        *key,
                        lambda a=plain, t=train: reference(X[t], *a),
                        lambda r, t=test: logsumexp(log_joint(X[t], *r), axis=1).mean(),
                    )
        print(f"fold {fold + 1}: done", file=sys.stderr)
    rows = []
    far = 0.0
    scores = {name: runs.by(name) for name in ("dpem.paper", "reference")}
    for scenario, composition in CASES:
        cells = []
        for epsilon in EPSILONS:
            ours = mean_and_error(scores["dpem.paper"][f"{scenario} {composition}", epsilon])
            theirs = mean_and_error(scores["reference"][f"{scenario} {composition}", epsilon])
            far = max(far, abs(ours[0] - theirs[0]) / np.hypot(ours[1], theirs[1]))
            cells.append("{:.2f} ({:.2f}) / {:.2f} ({:.2f})".format(*ours, *theirs))
        rows.append([f"{scenario} {composition}", *cells])
    text = (
        f"lifesci K=3{'' if data.is_real else ' (stand-in)'}, mean test log-likelihood over 10 folds and "
        f"{arguments.seeds} seeds (standard error):\n`dpem.paper.GaussianMixture` / the formulas in floating "
        f"point. {setting()} The largest difference is {far:.1f} standard errors of the difference.\n\n"
        + markdown(["", *(f"eps {e:g}" for e in EPSILONS)], rows)
        + "\n"
    )
    print(text)
    (RESULTS / "mixture_paper.md").write_text(text)


if __name__ == "__main__":
    main()
