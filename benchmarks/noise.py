"""Noise draws per second: dpem's exact samplers, numpy's floating-point one and OpenDP's exact one.

Run it with ``make bench``. Each sampler is timed in the same run, and the best of several repetitions counts.
Writes benchmarks/results/noise.md.
"""

import platform
import time
from pathlib import Path

import numpy as np

from dpem.privacy.noise import rounded_gaussian, rounded_laplace

SIZE = 100_000
REPETITIONS = 7


def draws_per_second(sample, size=SIZE, repetitions=REPETITIONS):
    """Return the best rate over the repetitions."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        sample(size)
        times.append(time.perf_counter() - start)
    return size / min(times)


def opendp_gaussian(scale):
    """Return OpenDP's discrete Gaussian as a sampler."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.m.make_gaussian(*space, scale)
    return lambda size: measurement([0] * size)


def main():
    """Time all samplers, and print and write the table."""
    rng = np.random.default_rng(0)
    rows = []
    for scale in (1.0, 1234.5, 2.0**40):
        rates = {
            "dpem rounded Gaussian (exact)": draws_per_second(lambda n, s=scale: rounded_gaussian(s, n)),
            "dpem rounded Laplace (exact)": draws_per_second(lambda n, s=scale: rounded_laplace(s, n)),
            "numpy normal (floats, not private)": draws_per_second(lambda n, s=scale: rng.normal(0, s, n)),
            "OpenDP discrete Gaussian (exact)": draws_per_second(opendp_gaussian(scale), SIZE // 20, 3),
        }
        rows += [(scale, name, rate) for name, rate in rates.items()]
    setting = f"Python {platform.python_version()}, numpy {np.__version__}"
    lines = [
        f"Vectors of {SIZE:,} draws (OpenDP: {SIZE // 20:,}), one core, best of {REPETITIONS}; {setting}.",
        "",
        "| scale | sampler | million draws per second |",
        "|---|---|---|",
        *(f"| {scale:g} | {name} | {rate / 1e6:.3g} |" for scale, name, rate in rows),
    ]
    table = "\n".join(lines) + "\n"
    print(table)
    path = Path(__file__).parent / "results" / "noise.md"
    path.write_text(table)


if __name__ == "__main__":
    main()
