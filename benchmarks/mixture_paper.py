"""The paper's mixture on lifesci, compared with an independent implementation of its formulas.

Run it with ``make bench-mixture-paper``. The reference implements the formulas of the paper in plain floating
point, as an experiment would; it is not a private mechanism. From dpem it takes the rows, the folds and the
start alone. Both use J = 10, delta = 1e-4, delta_i = 1e-8 (all of delta in equal parts under linear
composition) and MAP, for both scenarios of the paper and its four compositions. Three choices that the paper
leaves open are those of dpem.paper: means move onto the unit ball, eigenvalues are at least 0.001, and
orders of the moments accountant are at most 100. Writes benchmarks/results/mixture_paper.md.
"""

import argparse
import math
import sys
import warnings

import numpy as np
from harness import RESULTS, Runs, markdown, setting
from mixture import folds, mean_and_error
from mixture_data import load
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import dpem
from dpem import paper
from dpem.reproduce.mixtures import latin_start

EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
DELTA, DELTA_I, STEPS, LARGEST_ORDER = 1e-4, 1e-8, 10, 100
CASES = [(s, c) for s in ("GGG", "LLG") for c in ("linear", "advanced", "zcdp", "moments")]
# The hyperparameters of section 4.1; nu0 is d + 2, as in the text.
ALPHA, KAPPA, SCALE = 2.0, 1.0, 0.1
SMALLEST_EIGENVALUE = 1e-3


def one_budget(scenario, composition, epsilon, k):
    """Return epsilon_i and delta_i, from the formulas of section 5."""
    j = STEPS
    laplace, gaussian = (j * (k + 1), j * k) if scenario == "LLG" else (0, j * (2 * k + 1))
    n = laplace + gaussian  # J(2K + 1)
    if composition == "linear":
        return epsilon / n, DELTA / gaussian
    log = math.log(1.25 / DELTA_I)
    orders = np.arange(1, LARGEST_ORDER + 1)

    def total(one):
        """Return the epsilon of all mechanisms."""
        square = one**2 / (2 * log)  # of sensitivity over sigma, as sigma^2 = 2 log(1.25 / delta_i) / one^2
        if composition == "advanced":
            left = DELTA - gaussian * DELTA_I
            return n * one * math.expm1(one) + math.sqrt(2 * n * math.log(1 / left)) * one
        if composition == "zcdp":
            rho = laplace * one**2 / 2 + gaussian * square / 2
            return rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
        # eq. Moment_Laplace, eq. Moment_Gaussian and the tail bound, solved for epsilon
        moment = gaussian * (orders**2 + orders) * square / 2
        rising, falling = (orders + 1) / (2 * orders + 1), orders / (2 * orders + 1)
        moment += laplace * np.log(rising * np.exp(orders * one) + falling * np.exp(-(orders + 1) * one))
        return ((moment - math.log(DELTA)) / orders).min()

    return brentq(lambda one: total(one) - epsilon, 1e-9, 5.0, xtol=1e-14), DELTA_I


def joint_density(X, weights, means, covariances):
    """Return the logarithm of weight times density, (n, k)."""
    laws = [multivariate_normal(m, c) for m, c in zip(means, covariances, strict=True)]
    return np.stack([np.log(w) + law.logpdf(X) for w, law in zip(weights, laws, strict=True)], axis=1)


def reference(X, k, epsilon, scenario, composition, means, seed):
    """Run the paper's formulas with floating-point noise; return weights, means and covariances."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    one, delta_i = one_budget(scenario, composition, epsilon, k)
    sigma = math.sqrt(2 * math.log(1.25 / delta_i)) / one

    def noise(shape, l1, l2):
        return rng.laplace(0, l1 / one, shape) if scenario == "LLG" else rng.normal(0, sigma * l2, shape)

    weights, covariances = np.full(k, 1 / k), np.stack([np.eye(d)] * k)
    for _ in range(STEPS):
        joint = joint_density(X, weights, means, covariances)
        g = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        p = np.clip(g.mean(axis=0) + noise(k, 2 / n, 2 / n), 0, 1)
        counts = n * (p / p.sum() if p.sum() > 0 else np.full(k, 1 / k))
        weights = (counts + ALPHA - 1) / (n + k * ALPHA - k)
        means = (g.T @ X + noise((k, d), 2 * np.sqrt(d), 2.0)) / (counts + KAPPA)[:, None]
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1)
        new = []
        for j in range(k):
            upper = np.triu(rng.normal(0, 2 * sigma, (d, d)))
            second = (X * g[:, [j]]).T @ X + upper + np.triu(upper, 1).T
            # N Sigma_MLE + kappa0 N / (kappa0 + N) mu_MLE mu_MLE', with mu_MLE = (1 + kappa0 / N) mu_MAP
            scatter = second - (counts[j] + KAPPA) * np.outer(means[j], means[j])
            posterior = (SCALE * np.eye(d) + scatter) / ((d + 2) + counts[j] + d + 2)
            values, vectors = np.linalg.eigh(posterior)
            new.append(vectors * np.maximum(values, SMALLEST_EIGENVALUE) @ vectors.T)
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
        for case, (scenario, composition) in enumerate(CASES):
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
                    noise_seed = (seed, fold, case, EPSILONS.index(epsilon))
                    plain = (k, epsilon, scenario, composition, start, noise_seed)
                    runs.measure(
                        "reference",
                        *key,
                        lambda a=plain, t=train: reference(X[t], *a),
                        lambda r, t=test: logsumexp(joint_density(X[t], *r), axis=1).mean(),
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
        f"point. {setting()} The largest of {len(CASES) * len(EPSILONS)} differences is {far:.1f} standard "
        f"errors of the difference.\n\n" + markdown(["", *(f"eps {e:g}" for e in EPSILONS)], rows) + "\n"
    )
    print(text)
    (RESULTS / "mixture_paper.md").write_text(text)


if __name__ == "__main__":
    main()
