"""Time and memory of whole fits against rows, columns of numbers, components and columns of tables.

    make bench-growth                                     (on a machine with many cores; half an hour)
    python benchmarks/growth.py --only rows --limit 20

Each series runs in its own process. Short fits run twice, because the first one may compile kernels. A series
ends before a fit that would take longer than `--limit` seconds. Fits are private with a large epsilon, so
that no step is left out. The rows of the first series come from a Parquet file and are not kept between
passes, as with tables that are larger than memory. Writes benchmarks/results/growth.json, and from it
growth.md and docs/pictures/growth.svg.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from threads import clusters

RESULTS = Path(__file__).parent / "results"
FOLDER = Path(__file__).parents[1] / "build" / "growth"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "growth.svg"
CHUNK = 1_000_000
LONG = 10.0  # seconds
COMMON = {"epsilon": 100.0, "delta": 1e-9, "random_state": 0}

# Of each series: the title of its axis, the sizes, and the fits.
SERIES = {
    "rows": ("rows", (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000), ("KMeans", "GaussianMixture")),
    "columns": (
        "columns of 100,000 rows",
        (2, 5, 10, 20, 50, 100, 200, 500),
        ("KMeans", "GaussianMixture", "FactorAnalysis"),
    ),
    "components": ("components", (1, 2, 5, 10, 20, 50, 100, 200), ("KMeans", "GaussianMixture")),
    "table": ("columns of a table of 50,000 rows", (5, 10, 20, 50, 100, 200, 500, 1000), ("MixedMixture",)),
}


def row_file(n, d=10):
    """Write rows of five clusters to a Parquet file, once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{n}.parquet"
    if not file.exists():
        names = [f"x{j}" for j in range(d)]
        unfinished = file.with_suffix(".part")
        rows = clusters(min(n, CHUNK), d)
        table = pa.table([rows[:, j] for j in range(d)], names=names)
        with pq.ParquetWriter(unfinished, table.schema, use_dictionary=False, compression="none") as out:
            for start in range(0, n, CHUNK):
                out.write_table(table.slice(0, min(CHUNK, n - start)), row_group_size=CHUNK // 8)
        unfinished.rename(file)
    return file


def table_of_levels(n, columns):
    """Return columns of five categories that depend on a latent class, and their schema."""
    import pandas as pd

    from dpem import Schema

    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, n)
    cells = {
        f"x{j}": (kind * rng.integers(1, 5) + (rng.random(n) < 0.3) * rng.integers(0, 5, n)) % 5
        for j in range(columns)
    }
    schema = Schema({name: {"kind": "categorical", "categories": [0, 1, 2, 3, 4]} for name in cells})
    return pd.DataFrame(cells), schema


def fit_of(series, model, size):
    """Return a function that fits."""
    import dpem

    if series == "table":
        data, schema = table_of_levels(50_000, size)
        return lambda: dpem.MixedMixture(5, schema=schema, **COMMON).fit(data)
    k = size if series == "components" else 5
    d = size if series == "columns" else 10
    settings = {"data_norm": 2.0} | COMMON | ({"max_iter": 10} if model != "FactorAnalysis" else {})
    estimator = getattr(dpem, model)
    if series == "rows":
        file = row_file(size)
        return lambda: estimator(k, **settings).fit(file)
    X = clusters(500_000 if series == "components" else 100_000, d)
    if model == "FactorAnalysis":
        k = min(k, d - 1)
    return lambda: estimator(k, **settings).fit(X)


def measure(series, model, limit, largest):
    """Print each size with the seconds of a fit and the peak memory of the process during it, as JSON."""
    warnings.simplefilter("ignore")
    if series == "rows":  # as with more than two gigabytes of converted rows
        from dpem.engines import local

        local.bytes_to_keep = lambda: 0
    sizes = [size for size in SERIES[series][1] if largest is None or size <= largest]
    for place, size in enumerate(sizes):
        fit = fit_of(series, model, size)
        seconds = timed(fit)
        if seconds < LONG:
            seconds = timed(fit)  # the first fit may have compiled kernels
        print(json.dumps({"size": size, "seconds": seconds, "peak": peak_memory()}), flush=True)
        if place + 1 < len(sizes) and seconds * sizes[place + 1] / size > limit:
            return


def timed(fit):
    """Return the seconds of a fit; the peak memory starts again from here."""
    Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    fit()
    return time.perf_counter() - start


def peak_memory():
    """Return the peak memory of this process in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e6


def run_series(series, model, limit, largest):
    """Return what was measured for each size, in a process of its own."""
    command = [sys.executable, __file__, "--measure", series, model, "--limit", str(limit)]
    command += [] if largest is None else ["--largest", str(largest)]
    found = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as run:
        for line in run.stdout:
            point = json.loads(line)
            found[str(point.pop("size"))] = point
            print(series, model, line.strip(), flush=True)
    return found


def exponent(found):
    """Return the slope of log seconds against log size over the last three sizes."""
    sizes = sorted(map(int, found))[-3:]
    seconds = [found[str(size)]["seconds"] for size in sizes]
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def write_results(recorded):
    """Write the tables and the picture."""
    text = (
        f"Whole private fits on {recorded['machine']} (`make bench-growth`). The exponent is the slope of "
        f"the logarithm of the seconds over the last three sizes: 1 means that twice the size takes twice as "
        f"long. Memory is the peak of the process in GB, with the data if they are in memory. The series of "
        f"rows reads files, whose rows repeat after a million, and keeps no rows between passes."
    )
    lines = ["# Growth", "", text]
    for series, models in recorded["series"].items():
        lines += ["", f"## Against {SERIES[series][0]}", ""]
        for model, found in models.items():
            lines += ["| " + " | ".join([model, *(f"{int(size):,}" for size in found)]) + " | exponent |"]
            lines += ["|---" * (len(found) + 2) + "|"]
            seconds = (f"{point['seconds']:.2f}" for point in found.values())
            slope = f"{exponent(found):.2f}" if len(found) > 2 else ""
            lines += ["| " + " | ".join(["seconds", *seconds, slope]) + " |"]
            peaks = (f"{point['peak']:.2f}" for point in found.values())
            lines += ["| " + " | ".join(["peak memory", *peaks, ""]) + " |", ""]
    (RESULTS / "growth.md").write_text("\n".join(lines).rstrip() + "\n")
    draw(recorded)


def draw(recorded):
    """Draw seconds and memory of every series on logarithmic axes."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "dpem"
    figure, axes = plt.subplots(2, len(SERIES), figsize=(13, 5.5), sharex="col", layout="constrained")
    for place, (series, models) in enumerate(recorded["series"].items()):
        for model, found in models.items():
            sizes = [int(size) for size in found]
            label = f"{model}: {exponent(found):.2f}" if len(found) > 2 else model
            axes[0, place].loglog(sizes, [p["seconds"] for p in found.values()], "o-", ms=3, label=label)
            axes[1, place].loglog(sizes, [p["peak"] for p in found.values()], "o-", ms=3)
        axes[0, place].legend(fontsize=7, title="exponent of time", title_fontsize=7)
        axes[1, place].set_xlabel(SERIES[series][0])
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("peak memory (GB)")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


def main():
    """Measure every series."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", help="one series: " + ", ".join(SERIES))
    options.add_argument("--limit", type=float, default=60.0)
    options.add_argument("--largest", type=int)
    options.add_argument("--out", type=Path, default=RESULTS / "growth.json")
    options.add_argument("--results", action="store_true", help="only write the tables and the picture")
    options.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        measure(*chosen.measure, chosen.limit, chosen.largest)
        return
    recorded = json.loads(chosen.out.read_text()) if chosen.out.exists() else {"series": {}}
    if chosen.results:
        write_results(recorded)
        return
    recorded["machine"] = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    for series, (_, _, models) in SERIES.items():
        if chosen.only and series != chosen.only:
            continue
        for model in models:
            found = run_series(series, model, chosen.limit, chosen.largest)
            recorded["series"].setdefault(series, {})[model] = found
            chosen.out.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
