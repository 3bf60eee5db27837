"""Speed of one EM step and of complete fits compared with scikit-learn, in the same run.

Run it with ``make bench-mixture-speed``. Each time is the median of nine. Writes
benchmarks/results/mixture_speed.md.
"""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
from harness import RESULTS, markdown, setting
from mixture_data import load, mixture
from sklearn.mixture import GaussianMixture as PlainGaussianMixture

import dpem
from dpem.data import Domain, TableRows
from dpem.engines import LocalEngine
from dpem.gate.plan import Plan, Stage
from dpem.gate.release import ReleaseGate
from dpem.models.gaussian_mixture.m_step import Background, MixtureState, MixtureStep
from dpem.models.gaussian_mixture.plain import _e_step, _m_step
from dpem.models.gaussian_mixture.pool import Pool, clip_radius
from dpem.statistics import fast

# Rows, columns, components.
SHAPES = [(1_000_000, 2, 5), (200_000, 10, 3), (200_000, 10, 10), (50_000, 30, 10), (50_000, 100, 10)]
LARGE = (10_000_000, 10, 5)


def median_times(*runs, repeats=9):
    """Time each run several times, one run after the other; return the median seconds of each.

    Runs do not alternate: threads of one library's matrix products keep spinning and would slow the next one.
    """
    medians = []
    for run in runs:
        seconds = []
        for _ in range(repeats + 2):  # the first two warm up
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        medians.append(np.median(seconds[2:]))
    return np.array(medians)


def one_step(n, d, k):
    """Return milliseconds of one step: scikit-learn, private, private without numba, plain EM."""
    X = mixture(d, k, n, 5, 2.0)
    X /= np.linalg.norm(X, axis=1).max()
    plain = PlainGaussianMixture(k, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain.fit(X[:20_000])

    def scikit_learn():
        _, log_resp = plain._e_step(X)
        plain._m_step(X, log_resp)

    pool = Pool(X.mean(axis=0), np.cov(X.T), float(n))
    step = MixtureStep(pool, Background.around(pool), "full", *clip_radius(d), 1e-4, 0, 0.001)
    state = MixtureState(plain.weights_, plain.means_, plain.covariances_, np.full(2, 0.01))
    source, domain, engine = TableRows(X), Domain.from_arguments(d, data_norm=1.0), LocalEngine()
    one = step.statistic(state).sensitivity("replace_one")
    plan = Plan.build([Stage("em", 1.0, one, repeats=64)], epsilon=1.0, delta=1e-6)
    gate = ReleaseGate(plan, source, domain, engine, ledger=None, purpose="benchmark")

    def private():
        step.m_step(state, gate.release("em", step.statistic(state)))

    def numpy_alone():
        fast.ENABLED = False
        private()
        fast.ENABLED = True

    def plain_em():
        moments = _e_step(X, plain.weights_, plain.means_, plain.covariances_, "full", None)
        _m_step(moments, plain.means_, "full", 1e-6)

    return 1e3 * median_times(scikit_learn, private, numpy_alone, plain_em)


def whole_fit():
    """Return seconds of a complete private fit of lifesci (K=3), and of scikit-learn's with n_init=10."""
    X = load("lifesci").rows
    private = dpem.GaussianMixture(3, epsilon=1.0, delta=1e-5, data_norm=1.0, random_state=0)
    plain = PlainGaussianMixture(3, n_init=10, random_state=0)
    return median_times(lambda: private.fit(X), lambda: plain.fit(X), repeats=2)


LARGE_FIT = """
import resource, sys, time
import numpy as np
import dpem
n, d, k = {shape}
rng = np.random.default_rng(0)
X = np.empty((n, d))
centres = rng.uniform(-0.5, 0.5, (k, d)) / np.sqrt(d)
for start in range(0, n, 500_000):
    part = X[start : start + 500_000]
    part[:] = centres[rng.integers(k, size=len(part))] + 0.05 * rng.standard_normal(part.shape)
dpem.GaussianMixture(k, epsilon=1.0, delta=1e-9, data_norm=1.0, random_state=0).fit(X[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
model = dpem.GaussianMixture(k, epsilon=1.0, delta=1e-9, data_norm=1.0, random_state=0).fit(X)
seconds = time.perf_counter() - start
beyond = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(seconds, beyond / 2**20, model.n_iter_)
"""


def large_fit():
    """Return seconds, peak GiB beyond the input, and steps of a large fit in its own process."""
    code = LARGE_FIT.format(shape=LARGE)
    process = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=True)
    return [float(value) for value in process.stdout.split()]


def main():
    """Measure and write."""
    warnings.simplefilter("ignore", dpem.errors.DpemWarning)
    rows = []
    for n, d, k in SHAPES:
        learn, private, numpy_alone, plain = one_step(n, d, k)
        rows.append(
            [
                f"N={n:,} d={d} K={k}",
                f"{learn:.0f}",
                f"{private:.0f} ({learn / private:.1f}x)",
                f"{numpy_alone:.0f} ({learn / numpy_alone:.1f}x)",
                f"{plain:.0f} ({learn / plain:.1f}x)",
            ]
        )
        print(rows[-1], file=sys.stderr)
    header = ["one EM step, ms", "scikit-learn", "dpem, private", "the same without numba", "dpem, plain"]
    fit, learn = whole_fit()
    seconds, beyond, steps = large_fit()
    introduction = (
        f"Full covariances, {os.cpu_count()} cores, medians in one run. {setting()}\nThe private step "
        "includes the background, exact integer sums, noise and repair. In parentheses: how many times\n"
        "as fast as scikit-learn."
    )
    whole = (
        f"A complete private fit of lifesci (K=3, epsilon 1): {fit:.2f} s; scikit-learn's with n_init=10: "
        f"{learn:.2f} s."
    )
    large = (
        f"N={LARGE[0]:,} d={LARGE[1]} K={LARGE[2]}: {seconds:.0f} s for the complete private fit "
        f"({steps:.0f} steps), {beyond:.2f} GiB of memory at the peak beyond the input."
    )
    parts = [introduction, markdown(header, rows), whole, large]
    text = "\n\n".join(parts)
    print(text)
    (RESULTS / "mixture_speed.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
