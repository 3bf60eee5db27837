"""One EM step of the Gaussian mixture from memory, files, Dask and Spark; and a table larger than memory.

    make bench-scale        (half an hour; Spark needs Java)

Every row source holds the same rows and must give the same integers. Each measurement runs in its own
process, on two threads or two workers. Writes benchmarks/results/scale.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "build" / "scale"
RESULTS = Path(__file__).parent / "results" / "scale.md"
D, K = 10, 5
SIZES = (1_000_000, 10_000_000)
CHUNK = 1_000_000
WAYS = ("numpy", "numpy, nothing kept", "parquet", "parquet, nothing kept", "csv", "dask", "spark")
ALLOWED = 768 << 20  # bytes of data for the process that fits a table larger than its memory
REPEATS = 5


def chunks(n):
    """Yield rows of five clusters in the unit ball, a million at a time, the same on every call."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 0.5 / np.sqrt(D), (K, D))
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        yield centres[rng.integers(0, K, size)] + rng.normal(0, 0.15 / np.sqrt(D), (size, D))


def row_file(n, kind="parquet"):
    """Write the rows to a file, once."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{n}.{kind}"
    if not file.exists():
        names = [f"x{j}" for j in range(D)]
        schema = pa.schema([(name, pa.float64()) for name in names])
        writer = pq.ParquetWriter if kind == "parquet" else pa.csv.CSVWriter
        unfinished = file.with_suffix(".part")
        with writer(unfinished, schema) as out:
            for rows in chunks(n):
                table = pa.table([rows[:, j] for j in range(D)], names=names)
                out.write_table(table, **({"row_group_size": CHUNK // 8} if kind == "parquet" else {}))
        unfinished.rename(file)
    return file


def one_step():
    """Return the statistic of an EM step with K components and the two of the background."""
    from dpem.statistics.gaussian import FrameMoments, GaussianComponents

    rng = np.random.default_rng(1)
    means = np.concatenate([rng.normal(0, 0.5 / np.sqrt(D), (K, D)), np.zeros((2, D))])
    sizes = np.r_[np.full(K, 0.15), 0.5, 1.0] / np.sqrt(D)
    weights = np.r_[np.full(K, 0.98 / K), 0.01, 0.01]
    factors = np.eye(D) * sizes[:, None, None]
    components = GaussianComponents.from_parameters(weights, means, factors)
    return FrameMoments(components, K, "full", np.sqrt(D + np.sqrt(2 * D)), 0.35 * np.sqrt(D))


def step_seconds(X, n_jobs=2):
    """Return seconds of the first sum, which converts the rows, and of later ones, and a checksum."""
    from dpem.data import Domain
    from dpem.engines import engine_for, open_rows

    source, statistic = open_rows(X), one_step()
    engine, domain = engine_for(source, n_jobs), Domain.from_arguments(D, data_norm=1.0)
    start = time.perf_counter()
    total = engine.sum(statistic, source, domain)
    first = time.perf_counter() - start
    later = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        engine.sum(statistic, source, domain)
        later.append(time.perf_counter() - start)
    return {"first": first, "later": float(np.median(later)), "sum": int(np.bitwise_xor.reduce(total))}


def measured(way, n):
    """Measure one row source in this process."""
    warnings.simplefilter("ignore")
    if way.endswith("nothing kept"):  # as with more than two gigabytes of converted rows
        from dpem.engines import local

        local.bytes_to_keep = lambda: 0
    if way.startswith("numpy"):
        found = step_seconds(np.concatenate(list(chunks(n))))
    elif way.startswith("parquet"):
        found = step_seconds(row_file(n))
    elif way == "csv":
        import dpem

        found = step_seconds(dpem.Files(row_file(n, "csv"), columns=[f"x{j}" for j in range(D)]))
    elif way == "dask":
        found = _on_dask(n)
    else:
        found = _on_spark(n)
    return {"peak": peak_memory()} | found


def peak_memory():
    """Return the sum of the peak memory of this process and its children, in GB."""
    import psutil

    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    peaks = []
    for process in processes:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return sum(peaks) / 1e6


def _on_dask(n):
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        found = step_seconds(dd.read_parquet(row_file(n), split_row_groups=4))
        return found | {"peak": peak_memory()}


def _on_spark(n):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.files.maxPartitionBytes", str(64 << 20))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        found = step_seconds(session.read.parquet(str(row_file(n))))
        return found | {"peak": peak_memory()}
    finally:
        session.stop()


def beyond_memory():
    """Fit k-means to a file ten times as large as the memory that this process may use for data."""
    resource.setrlimit(resource.RLIMIT_DATA, (ALLOWED, ALLOWED))
    import dpem

    warnings.simplefilter("ignore")
    n = 10 * ALLOWED // (8 * D)
    file = FOLDER / f"{n}.parquet"
    start = time.perf_counter()
    model = dpem.KMeans(K, epsilon=1.0, delta=1e-9, data_norm=1.0, random_state=0).fit(file)
    seconds = time.perf_counter() - start
    passes = sum(stage.repeats for stage in model.plan_.stages)
    return {
        "n": n,
        "seconds": seconds,
        "passes": passes,
        "peak": peak_memory(),
        "size": file.stat().st_size / 2**30,
    }


def whole_fit(way, n):
    """Fit a mixture from memory or from a file."""
    import dpem

    warnings.simplefilter("ignore")
    X = np.concatenate(list(chunks(n))) if way == "numpy" else row_file(n)
    model = dpem.GaussianMixture(K, epsilon=1.0, delta=1e-8, data_norm=1.0, random_state=0, n_jobs=2)
    start = time.perf_counter()
    model.fit(X)
    return {"seconds": time.perf_counter() - start, "steps": model.n_iter_}


def in_process(*arguments):
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", *map(str, arguments)]
    environment = os.environ.copy()
    if arguments[0] == "beyond":
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # other pools reserve memory that no limit counts
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if run.returncode:
        raise SystemExit(f"{arguments}: {run.stderr[-2000:]}")
    found = json.loads(run.stdout.splitlines()[-1])
    print(arguments, found, flush=True)
    return found


def one(arguments):
    """Run the measurement for which a process was started."""
    kind, *rest = arguments
    if kind == "step":
        return measured(rest[0], int(rest[1]))
    if kind == "fit":
        return whole_fit(rest[0], int(rest[1]))
    return beyond_memory()


def main():
    """Measure every row source and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs="+")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--without-beyond", action="store_true", help="skip the table larger than memory")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one)))
        return
    for n in arguments.sizes:
        row_file(n)
        row_file(n, "csv")
    steps = {(way, n): in_process("step", way, n) for n in arguments.sizes for way in WAYS}
    for n in arguments.sizes:
        if len({steps[way, n]["sum"] for way in WAYS}) != 1:
            raise SystemExit(f"The row sources do not give the same integers at {n} rows.")
    n = max(arguments.sizes)
    fits = {way: in_process("fit", way, n) for way in ("numpy", "parquet")}
    text = _steps_table(steps, arguments.sizes) + _fits_text(fits, n)
    text += _billion_text(steps, arguments.sizes, fits["numpy"]["steps"])
    if not arguments.without_beyond:
        row_file(10 * ALLOWED // (8 * D))
        text += _beyond_text(in_process("beyond"))
    arguments.output.write_text(_head() + text)
    print(arguments.output.read_text())


def _head():
    import dask
    import pyarrow as pa
    import pyspark

    versions = f"numpy {np.__version__}, pyarrow {pa.__version__}, Dask {dask.__version__}"
    return (
        "# Tables of any size\n\n"
        f"`make bench-scale`: Python {platform.python_version()}, {versions}, Spark {pyspark.__version__}, "
        f"{os.cpu_count()} cores. Rows of {D} columns in float64, {K} components and the two of the "
        "background, full covariances. A step computes all sums of one EM step. The first step also reads "
        "the rows and converts them to integers, which stay in memory (here up to two gigabytes; on workers, "
        "as memory allows). All row sources give the same integers. Memory is the sum over all processes."
        "\n\n"
    )


def _steps_table(steps, sizes):
    lines = [
        (
            "| rows from | rows | first step (s) | later step (s) | million rows/s | time / numpy's | "
            "peak memory (GB) |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for n in sizes:
        for way in WAYS:
            found = steps[way, n]
            ratio = found["later"] / steps["numpy", n]["later"]
            lines.append(
                f"| {way} | {n:,} | {found['first']:.2f} | {found['later']:.3f} | "
                f"{n / found['later'] / 1e6:.2f} | {ratio:.2f} | {found['peak']:.2f} |"
            )
    few, many = min(sizes), max(sizes)
    growth = ", ".join(
        f"{way} {steps[way, many]['later'] / steps[way, few]['later'] / (many / few):.2f}" for way in WAYS
    )
    lines += [
        "",
        f"Time per row of a later step, {many:,} rows relative to {few:,}: {growth}.",
        "",
    ]
    return "\n".join(lines) + "\n"


def _fits_text(fits, n):
    numpy, parquet = fits["numpy"], fits["parquet"]
    return (
        f"A complete fit of {n:,} rows ({numpy['steps']} EM steps): {numpy['seconds']:.1f} s from memory, "
        f"{parquet['seconds']:.1f} s from Parquet, {parquet['seconds'] / numpy['seconds']:.2f} times as "
        f"long.\n\n"
    )


def _billion_text(steps, sizes, n_steps):
    """Extrapolate to a billion rows on a hundred workers of one core, from the rates measured here."""
    many, workers, partitions = max(sizes), 100, 1000
    rate = many / steps["dask", many]["later"] / 2  # rows a second and worker
    sums, scheduler = 1e9 / workers / rate, 2e-3 * partitions
    minutes = (n_steps + 12) * (sums + scheduler) / 60
    entries = K * (1 + D + D * (D + 1) // 2)
    sent = partitions * entries * 16 / 1e6
    return (
        f"Extrapolated, not measured: a billion rows of {D} columns in {partitions:,} partitions, on "
        f"{workers} workers with one such core each. A step takes {sums:.1f} s for the sums and about "
        f"{scheduler:.0f} s for {2 * partitions:,} tasks of Dask's scheduler (a millisecond each, according "
        f"to its documentation). {n_steps} EM steps and the dozen passes before them take about "
        f"{minutes:.0f} minutes, after one pass that reads. Each worker keeps {4 * D / workers:.1f} GB of "
        f"rows. Each partition returns {entries} integers of 16 bytes per step, {sent:.0f} MB in total.\n\n"
    )


def _beyond_text(found):
    return (
        f"Larger than memory: k-means on a Parquet file of {found['size']:.1f} GiB, {found['n']:,} rows, in "
        f"a process that may use {ALLOWED >> 20} MiB for data (RLIMIT_DATA): {found['seconds']:.0f} s for "
        f"{found['passes']} passes, {found['passes'] * found['n'] / found['seconds'] / 1e6:.1f} million rows "
        f"per second, peak memory {found['peak']:.2f} GB.\n"
    )


if __name__ == "__main__":
    main()
