"""Mutation testing of the privacy core: change the code in one place, and check that a test fails.

Cosmic Ray's operators and a few of our own change a copy of the repository in build/mutants. The tests of the
changed module run until the first failure, in a process forked from one that has the libraries loaded.
Verdicts are stored in build/mutants/verdicts.jsonl, so that an interrupted run continues; a survivor is tried
again if its tests have changed. Writes benchmarks/results/mutants.md, and fails if a survivor is missing in
explained.toml.

    python benchmarks/mutants/run.py [--only noise] [--minutes 30]
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import shutil
import sys
import time
import tomllib
from collections import Counter
from importlib.metadata import version
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(ROOT / "build" / "cosmic-ray"))

import forks
import making
import pytest

COPY = ROOT / "build" / "mutants" / "copy"
MADE = ROOT / "build" / "mutants" / "made"
VERDICTS = ROOT / "build" / "mutants" / "verdicts.jsonl"
EXPLAINED = Path(__file__).with_name("explained.toml")
REPORT = ROOT / "benchmarks" / "results" / "mutants.md"

# Libraries that every forked process would otherwise import again.
LIBRARIES = (
    "dp_accounting.pld",
    "hypothesis.extra.numpy",
    "joblib",
    "mpmath",
    "narwhals",
    "numba",
    "numpy",
    "opendp.prelude",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "pytest",
    "rich.console",
    "scipy.stats",
    "scipy.optimize",
    "sklearn.mixture",
    "sklearn.cluster",
    "typer",
)

_GATE = ["tests/gate/test_gate.py", "tests/gate/test_resume.py", "tests/gate/test_interrupts.py"]
_ACCOUNTANTS = ["tests/privacy/test_accountants.py", "tests/privacy/test_per_mechanism.py"]
_FROZEN = "tests/privacy/test_events.py"  # of all facts of the privacy core
# The tests of each module, those first that are likely to notice.
TESTS = {
    "privacy/mechanisms.py": [
        "tests/privacy/test_mechanisms.py",
        "tests/statistical/test_float_attack.py",
        "tests/gate/test_gate.py",
    ],
    "privacy/sensitivity.py": ["tests/property/test_sensitivity.py", "tests/gate/test_gate.py"],
    "privacy/_rounding.py": ["tests/privacy/test_mechanisms.py", "tests/property/test_sensitivity.py"],
    "privacy/randomness.py": ["tests/privacy/test_noise.py", "tests/privacy/test_mechanisms.py"],
    "gate/release.py": [*_GATE, "tests/faults/test_processes.py"],
    "gate/plan.py": [
        "tests/gate/test_gate.py",
        "tests/privacy/test_per_mechanism.py",
        "tests/paper/test_kmeans.py",
    ],
    "gate/released.py": ["tests/gate/test_gate.py"],
    "statistics/base.py": ["tests/gate/test_gate.py"],
    "privacy/events.py": ["tests/privacy/test_events.py", "tests/privacy/test_accountants.py"],
    "privacy/per_mechanism.py": ["tests/privacy/test_per_mechanism.py", _FROZEN],
    "privacy/calibration.py": [*_ACCOUNTANTS, "tests/gate/test_gate.py"],
    "privacy/_solve.py": ["tests/privacy/test_solve.py", "tests/privacy/test_gaussian_dp.py"],
    "privacy/gaussian_dp.py": ["tests/privacy/test_gaussian_dp.py"],
    "privacy/accountants/base.py": [*_ACCOUNTANTS, _FROZEN],
    "privacy/accountants/gdp.py": ["tests/privacy/test_accountants.py", "tests/privacy/test_ledger.py"],
    "privacy/accountants/zcdp.py": _ACCOUNTANTS,
    "privacy/accountants/composition.py": _ACCOUNTANTS,
    "privacy/accountants/moments.py": _ACCOUNTANTS,
    "privacy/accountants/pld.py": _ACCOUNTANTS,
    "privacy/accountants/registry.py": _ACCOUNTANTS,
    "privacy/accountants/comparison.py": [
        "tests/privacy/test_accountants.py",
        "tests/test_repository.py",
        _FROZEN,
    ],
    "privacy/budget.py": [
        "tests/privacy/test_ledger.py",
        "tests/privacy/test_gaussian_dp.py",
        "tests/gate/test_gate.py",
        _FROZEN,
    ],
    "privacy/neighbours.py": [
        _FROZEN,
        "tests/privacy/test_statement.py",
        "tests/privacy/test_ledger.py",
        "tests/property/test_sensitivity.py",
    ],
    "privacy/ledger.py": [
        "tests/privacy/test_ledger.py",
        "tests/faults/test_ledger_files.py",
        "tests/privacy/test_ledger_processes.py",
        _FROZEN,
    ],
    "privacy/ledger_chain.py": ["tests/privacy/test_ledger.py", "tests/privacy/test_ledger_processes.py"],
    "privacy/ledger_sqlite.py": [
        "tests/privacy/test_ledger_store.py",
        "tests/privacy/test_ledger.py",
        "tests/faults/test_ledger_files.py",
        "tests/privacy/test_ledger_processes.py",
    ],
    "privacy/noise.py": ["tests/privacy/test_noise.py", "tests/statistical/test_noise_law.py"],
    "privacy/statement.py": ["tests/privacy/test_statement.py", _FROZEN],
}
_PREFACE = f"""Each mutant changes the code in one place; it is killed if a test fails (`make mutants`).
Cosmic Ray {version("cosmic-ray")} makes most changes: arithmetic, comparisons, numbers,
conditions, loops, handlers, decorators. Our own operators delete a statement, set a margin to
zero, or use the opposite of a rounding, a bound, a relation or a noise. Docstrings, error messages,
`__str__` and `__repr__`, annotations and zip's check of lengths are not changed. A test that does
not end counts as a failure.
"""
# A test of the type checker; mutants change what runs.
NOT_RUN = ("tests/gate/test_gate.py::test_types_keep_raw_statistics_out_of_an_m_step",)


def main() -> None:
    """Run the mutants without a verdict, write the report, and fail on an unexplained survivor."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="only modules whose path contains this")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after this time; a later run continues"
    )
    parser.add_argument("--no-report", action="store_true", help="do not write the report")
    chosen = parser.parse_args()
    stop_at = time.monotonic() + 60 * chosen.minutes
    _copy_repository()
    for library in LIBRARIES:
        importlib.import_module(library)
    for anew in (False, True):
        for module, tests in TESTS.items():
            if chosen.only in module:
                run_module(module, [*tests, f"src/dpem/{module}"], stop_at, anew=anew)
    if not chosen.no_report:
        sys.exit(report())


# -- running ---------------------------------------------------------------------------------------------


def run_module(module: str, tests: list[str], stop_at: float, *, anew: bool) -> None:
    """Run the tests of a module on each mutant without a verdict, in forks or after a new import."""
    mutants = _mutants_of(module)
    stamp = hashlib.sha256(b"".join((COPY / test).read_bytes() for test in tests)).hexdigest()[:16]
    known = verdicts()
    waiting = {key: source for key, source in mutants.items() if _is_open(known.get(key), stamp)}
    print(f"{module}: {len(mutants)} mutants, {len(waiting)} to run{' anew' if anew else ''}", flush=True)
    output = os.dup(1)

    def tell(key: str, verdict: str, by: str) -> bool:
        entry = {"key": key, "verdict": verdict, "by": by, "tests": stamp}
        with VERDICTS.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        if verdict != "killed":
            os.write(output, f"  {verdict}: {key}\n".encode())
        return time.monotonic() < stop_at

    if not waiting or time.monotonic() > stop_at:
        return
    path = COPY / "src" / "dpem" / module
    original = path.read_text()
    if anew:
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()  # otherwise Python misses a change of the same size in the same second
        for key, source in waiting.items():
            path.write_text(source)
            if not tell(key, forks.in_fork(lambda: _pytest(tests, []), 900), ""):
                break
    else:
        name = "dpem." + module.removesuffix(".py").replace("/", ".")
        plugin = forks.Forks(name, path, waiting, tell)
        if forks.in_fork(lambda: _pytest(tests, [plugin]), 1e9) != "survived":
            raise SystemExit(f"The tests of {module} cannot run: see {COPY.parent / 'log.txt'}.")
    path.write_text(original)


def _is_open(known: dict[str, str] | None, stamp: str) -> bool:
    return known is None or (known["verdict"] == "survived" and known["tests"] != stamp)


def _pytest(tests: list[str], plugins: list[object]) -> int:
    output = os.open(COPY.parent / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(COPY)
    sys.dont_write_bytecode = not plugins
    source = str(COPY / "src")
    sys.path[:0] = [source, str(COPY)]  # where spawned processes look for tests
    # The judged profile draws the same examples every time, so that verdicts are repeatable.
    os.environ |= {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1", "DPEM_REQUIRE_ALL": "1"}
    skip = [option for test in NOT_RUN for option in ("--deselect", test)]
    code = pytest.main([*forks.OPTIONS, f"--basetemp={COPY.parent / 'tmp'}", *skip, *tests], plugins)
    import dpem

    assert dpem.__file__.startswith(source)
    return int(code)


def _mutants_of(module: str) -> dict[str, str]:
    return making.mutants_of(module, (ROOT / "src" / "dpem" / module).read_text(), MADE)


def _copy_repository() -> None:
    shutil.rmtree(COPY, ignore_errors=True)
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, COPY / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, COPY / name)


# -- report ---------------------------------------------------------------------------------------------


def verdicts() -> dict[str, dict[str, str]]:
    """Return the newest verdict of each mutant."""
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    return {entry["key"]: entry for entry in map(json.loads, lines)}


def report() -> int:
    """Write the table and the survivors; return 1 if one is unexplained, or an explanation is outdated."""
    explained = {
        mutant: entry["because"]
        for entry in tomllib.loads(EXPLAINED.read_text())["survivors"]
        for mutant in entry["mutants"]
    }
    known, rows, survivors, made, waiting = verdicts(), [], [], set(), 0
    for module in TESTS:
        keys = list(_mutants_of(module))
        made.update(keys)
        counts = Counter(known[key]["verdict"] if key in known else "not run" for key in keys)
        waiting += counts["not run"]
        rows.append(
            [module, len(keys), *(counts[name] for name in ("killed", "timed out", "survived", "not run"))]
        )
        survivors += [key for key in keys if key in known and known[key]["verdict"] == "survived"]
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, 6))])
    table = ["| module | mutants | killed | timed out | survived | not run |", "|---|---|---|---|---|---|"]
    table += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    lines = [f"- `{key}`\\\n  {explained.get(key, '**not explained**')}" for key in survivors]
    REPORT.write_text(
        "\n".join([_PREFACE, *table, "", "Survivors, and why each is harmless:", "", *lines]) + "\n"
    )
    missing = [key for key in survivors if key not in explained]
    gone = [key for key in explained if key not in survivors and (key in known or key not in made)]
    for what, keys in (("Not explained", missing), ("Explained, but not a survivor", gone)):
        for key in keys:
            print(f"{what}: {key}")
    print(
        f"{rows[-1][1]} mutants, {len(survivors)} survived, {len(missing)} not explained, {waiting} not run"
    )
    return int(bool(missing or gone))


if __name__ == "__main__":
    main()
