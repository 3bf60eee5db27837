"""Run all fuzz targets and write the results to benchmarks/results/fuzz.md.

Run it with ``make fuzz``. No input is stored. For a failure, the report names the line that raised the error,
and a small input that causes it is printed.
"""

import argparse
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

# The processes share the cores, so their threads would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pandas as pd
import pyarrow as pa

import dpem
from dpem.reproduce.text import markdown
from fuzz.harness import Outcome, run
from fuzz.targets import TARGETS

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
_PART = 5_000  # inputs of one task of a process
_SEEDS = 1_000_000  # distance between the seeds of two tasks, so that their searches differ


def main():
    """Parse the arguments and run the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, help="inputs of each target, instead of the usual number")
    parser.add_argument("--part", type=float, default=1.0, help="fraction of the usual inputs, such as 0.02")
    parser.add_argument("--only", action="append", choices=TARGETS, metavar="TARGET", help="only this target")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first search")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    parser.add_argument("--output", type=Path, default=RESULTS / "fuzz.md")
    arguments = parser.parse_args()
    names = arguments.only or list(TARGETS)
    wanted = {
        name: arguments.examples or max(1, round(TARGETS[name].examples * arguments.part)) for name in names
    }
    start = time.perf_counter()
    outcomes = run_all(wanted, arguments.seed, arguments.jobs)
    whole = time.perf_counter() - start
    arguments.output.write_text(report(outcomes, arguments, whole), encoding="utf-8")
    print(arguments.output.read_text(encoding="utf-8"))
    sys.exit(any(outcome.failures for outcome in outcomes.values()))


def run_all(wanted, seed, jobs):
    """Run the given number of inputs of each target in several processes; return outcomes by name."""
    outcomes = {name: Outcome() for name in wanted}
    tasks = [
        (name, min(_PART, examples - first), seed + (first + 1) * _SEEDS)
        for name, examples in wanted.items()
        for first in range(0, examples, _PART)
    ]
    if jobs == 1:
        for task in tasks:
            outcomes[task[0]].add(run_part(*task))
        return outcomes
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = [(task[0], pool.submit(run_part, *task)) for task in tasks]
        for name, future in started:
            outcomes[name].add(future.result())
    return outcomes


def run_part(name, examples, seed):
    """Run inputs of one target in a process of the pool."""
    return run(TARGETS[name], examples, seed)


def report(outcomes, arguments, seconds):
    """Return the table."""
    rows = [
        [
            TARGETS[name].name,
            TARGETS[name].what,
            f"{outcome.inputs:,}",
            f"{outcome.accepted:,}",
            f"{outcome.refused:,}",
            "; ".join(f"{n:,} of {failure}" for failure, n in outcome.failures.items()) or "0",
            f"{outcome.seconds:,.0f}",
        ]
        for name, outcome in outcomes.items()
    ]
    total = Outcome()
    for outcome in outcomes.values():
        total.add(outcome)
    numbers = [total.inputs, total.accepted, total.refused, total.failures.total()]
    rows.append(["all", "", *(f"{number:,}" for number in numbers), f"{total.seconds:,.0f}"])
    header = [
        "target",
        "inputs",
        "number",
        "accepted",
        "rejected with the documented error",
        "failures",
        "seconds",
    ]
    versions = f"dpem {dpem.__version__}, Python {platform.python_version()}"
    libraries = f"numpy {np.__version__}, pandas {pd.__version__}, pyarrow {pa.__version__}"
    return (
        f"Generated inputs for everything that reads files or declarations, written by `make fuzz`. A "
        f"failure is a wrong answer, an undocumented error or a warning. {seconds:,.0f} s in "
        f"{arguments.jobs} processes, seed {arguments.seed}; {versions}, Hypothesis "
        f"{hypothesis.__version__}, {libraries}.\n\n"
        f"{markdown(header, rows)}\n"
    )


if __name__ == "__main__":
    main()
