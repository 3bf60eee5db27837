"""One EM step of the Gaussian mixture on a GPU, compared with the matrix products that it needs.

    make bench-gpu        (on a machine with a GPU and torch; takes minutes)

Before anything is timed, the sums are compared bit by bit with those of the CPU. Writes
benchmarks/results/gpu.md.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import dpem
from dpem.data import Domain
from dpem.engines import LocalEngine, engine_for, open_rows
from dpem.statistics import kernels_torch as device_sums
from dpem.statistics.gaussian import EXACT_ROWS, FrameMoments, GaussianComponents

RESULTS = Path(__file__).parent / "results" / "gpu.md"
SIZES = [(10_000_000, 10, 10), (1_000_000, 100, 10)]
REPEATS = 10


def generated_rows(n, d, device):
    """Return rows of ten clusters in the unit ball, generated on the device."""
    generator = torch.Generator(device).manual_seed(0)
    centres = torch.randn((10, d), generator=generator, device=device) * (0.5 / d**0.5)
    labels = torch.randint(0, 10, (n,), generator=generator, device=device)
    noise = torch.randn((n, d), generator=generator, device=device, dtype=torch.float32)
    return centres[labels] + noise * (0.15 / d**0.5)


def one_step(d, k):
    """Return the statistic of an EM step with k components and the two of the background."""
    rng = np.random.default_rng(1)
    means = np.concatenate([rng.normal(0, 0.5 / np.sqrt(d), (k, d)), np.zeros((2, d))])
    sizes = np.r_[np.full(k, 0.15), 0.5, 1.0] / np.sqrt(d)
    lower = np.tril(rng.normal(0, 0.1 / np.sqrt(d), (k + 2, d, d)), -1) + np.eye(d)
    weights = np.r_[np.full(k, 0.98 / k), 0.01, 0.01]
    components = GaussianComponents.from_parameters(weights, means, lower * sizes[:, None, None])
    return FrameMoments(components, k, "full", np.sqrt(d + np.sqrt(2 * d)), 0.35 * np.sqrt(d))


def seconds(run, repeats=REPEATS):
    """Return the median time of a run on the device, in seconds."""
    run()
    found = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def floor(source, statistic):
    """Time only the two products of a step, on integers of the same shapes, block by block."""
    d, k = statistic.n_columns, statistic.n_framed
    n = source.block_rows
    device = source.tensor.device
    whitening = torch.ones((k * d, d), dtype=torch.float64, device=device)
    rows = torch.ones((d, n), dtype=torch.float64, device=device)
    runs = n // EXACT_ROWS
    psi = torch.ones((k * runs, d, EXACT_ROWS), dtype=torch.float64, device=device)
    first = seconds(lambda: whitening @ rows)
    second = seconds(lambda: torch.bmm(psi, psi.transpose(1, 2)))
    return (first + second) * source.n_rows / n


def measured(n, d, k, device):
    """Measure one size; return a line of the table."""
    X = generated_rows(n, d, device)
    source, domain, statistic = open_rows(X), Domain.from_arguments(d, data_norm=1.0), one_step(d, k)
    engine = engine_for(source)
    torch.cuda.reset_peak_memory_stats()
    found = engine.sum(statistic, source, domain)
    step = seconds(lambda: engine.sum(statistic, source, domain))
    peak = torch.cuda.max_memory_allocated() / 2**30
    device_sums.FUSED = False
    plain = seconds(lambda: engine.sum(statistic, source, domain), 3)
    device_sums.FUSED = True
    start = time.perf_counter()
    local = LocalEngine()
    expected = local.sum(statistic, source, domain)
    threads = time.perf_counter() - start
    start = time.perf_counter()
    local.sum(statistic, source, domain)
    threads = min(threads, time.perf_counter() - start)
    if not np.array_equal(found, expected):
        raise SystemExit(f"The sums of the device differ from those of the CPU at n={n}, d={d}, k={k}.")
    least = floor(source, statistic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = dpem.GaussianMixture(k, epsilon=1.0, delta=1e-8, data_norm=1.0, random_state=0).fit(X)
        fit = time.perf_counter() - start
    print(f"n={n} d={d} k={k}: step {step * 1e3:.1f} ms, floor {least * 1e3:.1f} ms", flush=True)
    return (
        f"| {n:,} | {d} | {k} | {step * 1e3:.1f} | {least * 1e3:.1f} | {step / least:.2f} | "
        f"{plain * 1e3:.1f} | {threads * 1e3:,.0f} | {fit:.1f} ({model.n_iter_} steps) | {peak:.1f} |"
    )


def main():
    """Measure all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = torch.device("cuda")
    lines = [measured(n, d, k, device) for n, d, k in SIZES]
    arguments.output.write_text(
        "# The Gaussian mixture on a GPU\n\n"
        f"`make bench-gpu`: {torch.cuda.get_device_name()}, torch {torch.__version__}, Python "
        f"{platform.python_version()}, {torch.get_num_threads()} CPU threads. Rows in float32 "
        "on the device, full covariances, k components and the two of the background. Step: all sums of one "
        "EM step with cached rows, median of ten. Floor: only the two float64 matrix products of a step with "
        "k components. Unfused: the step without fused kernels. Threads: the step on the CPU. Every sum had "
        "the same bits as on the CPU.\n\n"
        "| rows | columns | k | step (ms) | floor (ms) | ratio | unfused (ms) | threads (ms) | "
        "complete fit (s) | peak (GiB) |\n|---|---|---|---|---|---|---|---|---|---|\n"
        + "\n".join(lines)
        + "\n"
    )
    print(arguments.output.read_text())


if __name__ == "__main__":
    main()
