"""Speed and memory of factor analysis beside scikit-learn, in the same run.

Run it with ``make bench-fa-speed``. Each fit runs in its own process, for at most five minutes. Writes
benchmarks/results/factor_speed.md.
"""

import os
import subprocess
import sys
from pathlib import Path

from harness import RESULTS, markdown, setting

LIMIT = 300
ROWS = {
    (1_000_000, 100): "factors(100, 10, 1_000_000, 5)",
    (400, 4096): "generated_pictures(64, 400, 0)",
}
LEARN = "from sklearn.decomposition import FactorAnalysis; model = FactorAnalysis(10, random_state=0{})"
OURS = "import dpem; model = dpem.FactorAnalysis(10, delta=1e-7, data_norm=norm, random_state=0, {})"
METHODS = {
    "scikit-learn": LEARN.format(""),
    "scikit-learn, lapack": LEARN.format(", svd_method='lapack'"),
    "dpem, not private": OURS.format("epsilon=float('inf')"),
    "dpem, epsilon 1": OURS.format("epsilon=1.0"),
    "dpem, epsilon 1, 64 cosine images": OURS.format(
        "epsilon=1.0, basis=dpem.cosine_basis((64, 64), 64, constant=False)"
    ),
}
CODE = """
import resource, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
import numpy as np
from factor_data import factors, generated_pictures
X = {rows}
norm = float(np.linalg.norm(X, axis=1).max())
{method}
start = time.perf_counter()
model.fit(X)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(seconds, peak / 2**20, model.n_iter_, model.score(X))
"""


def run(rows, method):
    """Return seconds, peak memory in GiB, EM steps and score; None if the fit took too long."""
    code = CODE.format(folder=str(Path(__file__).parent), rows=rows, method=method)
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    return [float(value) for value in done.stdout.split()]


def main():
    """Measure and write."""
    lines = []
    for (n, d), rows in ROWS.items():
        for name, method in METHODS.items():
            if ("cosine" in name or "lapack" in name) and d != 64 * 64:
                continue
            result = run(rows, method)
            line = [f"N={n:,} d={d:,}", name]
            if result is None:
                line += [f"more than {LIMIT}", "", "", ""]
            else:
                seconds, memory, steps, score = result
                line += [f"{seconds:.1f}", f"{memory:.2f}", f"{steps:.0f}", f"{score:.3f}"]
            lines.append(line)
            print(line, file=sys.stderr, flush=True)
    header = [
        "rows",
        "10 factors with",
        "seconds",
        "peak memory (GiB)",
        "EM steps",
        "log-likelihood of the fitted rows",
    ]
    text = (
        f"Complete fits with the defaults of each library, {os.cpu_count()} cores, one run each. {setting()}"
        "\nA private fit includes all rounds, exact sums, noise and standard errors. EM steps are those of "
        "its last round;\n0 means principal factors, if the noise allows one round only.\n\n"
        + markdown(header, lines)
    )
    print(text)
    (RESULTS / "factor_speed.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
