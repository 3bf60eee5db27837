"""Run the targets and write down what came of them: benchmarks/results/fuzz.md.

Run it with ``make fuzz``. No input is kept; of a failure, where it was raised is written down, and a small
input that shows it is printed.
"""

import argparse
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

# Processes share the cores: threads of theirs would wait for one another.
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
_PART = 5_000  # inputs of one task: what a process is given at a time
_SEEDS = 1_000_000  # between the seeds of two tasks: none searches where another one did


def main():
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, help="inputs of each target, instead of those of the record")
    parser.add_argument("--part", type=float, default=1.0, help="part of the record's inputs, such as 0.02")
    parser.add_argument(
        "--only", action="append", choices=TARGETS, metavar="TARGET", help="this target alone"
    )
    parser.add_argument("--seed", type=int, default=0, help="where searches begin")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
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
    """Run so many inputs of each target, in several processes; return the outcomes by name."""
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
    """Run inputs of one target, in a process of a pool."""
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
        "inputs are",
        "inputs",
        "accepted",
        "refused with the right error",
        "failures",
        "seconds",
    ]
    versions = f"dpem {dpem.__version__}, Python {platform.python_version()}"
    libraries = f"numpy {np.__version__}, pandas {pd.__version__}, pyarrow {pa.__version__}"
    return (
        f"Made-up inputs against everything that reads what others wrote, written by `make fuzz`. A failure "
        f"is a wrong answer, another error than the documented one, or a warning. {seconds:,.0f} s in "
        f"{arguments.jobs} processes, seed {arguments.seed}; {versions}, Hypothesis "
        f"{hypothesis.__version__}, {libraries}.\n\n"
        f"{markdown(header, rows)}\n"
    )


if __name__ == "__main__":
    main()
