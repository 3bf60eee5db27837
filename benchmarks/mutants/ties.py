"""Change the integer core in a dozen places, and list which tests notice: the ties of its proofs or others.

Each change is one that a theorem of proofs/ speaks about. It is made in a copy of the repository in
build/ties. A change of a constant is also made in proofs/Constants.v, to see whether Coq refuses it. Writes
benchmarks/results/ties.md, and fails if the ties miss a change.

    python benchmarks/mutants/ties.py [--only totals]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPY = ROOT / "build" / "ties"
REPORT = ROOT / "benchmarks" / "results" / "ties.md"
COPIED = ("src", "tests", "proofs", "tools", "docs/proofs", "pyproject.toml", "README.md", "Makefile")


@dataclass(frozen=True)
class Change:
    """One change of the source.

    Attributes
    ----------
    what : str
        The mistake, in words.
    file, old, new : str
        The file in src/dpem, and its text before and after.
    tests : tuple of str
        Other tests of this code.
    proof : tuple of str
        The file of proofs/ that should refuse the change of its constant, and the constant before and after.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    proof: tuple[str, str, str] | None = None


_TOTALS = ("tests/row_statistics/test_exact.py", "tests/engines/test_local.py", "tests/gate/test_gate.py")
_GAUSSIAN = (
    "tests/row_statistics/test_gaussian.py",
    "tests/row_statistics/test_kernels.py",
    "tests/property/test_row_statistics.py",
)
_NOISE = ("tests/privacy/test_noise.py", "tests/statistical/test_noise_law.py")
_SENSITIVITY = ("tests/property/test_sensitivity.py", "tests/gate/test_gate.py")
_ROUNDING = ("tests/privacy/test_mechanisms.py", "tests/property/test_sensitivity.py")

CHANGES = (
    Change(
        "a dropped -1: the limit of the high limb",
        "engines/totals.py",
        "(high < -top - 1), beyond",
        "(high < -top), beyond",
        _TOTALS,
    ),
    Change("a lost carry", "engines/totals.py", "high = self._high + carry", "high = self._high", _TOTALS),
    Change(
        "a wrong mask of the low limb",
        "engines/totals.py",
        "block & (2**_LOW_BITS - 1)",
        "block & 2**_LOW_BITS",
        _TOTALS,
    ),
    Change(
        "merging forgets the low limb",
        "engines/totals.py",
        "self._low += other._low",
        "self._low += 0",
        _TOTALS,
    ),
    Change(
        "a dropped +1: magnitudes are rounded down",
        "privacy/noise.py",
        "return (halves + 1) >> 1",
        "return halves >> 1",
        _NOISE,
    ),
    Change(
        "a wrong limit of V in the fast path",
        "privacy/noise.py",
        "_LARGEST_FAST_V = 15",
        "_LARGEST_FAST_V = 18",
        _NOISE,
        ("Lemma3.v", "LARGEST_FAST_V : nat := 15", "LARGEST_FAST_V : nat := 18"),
    ),
    Change(
        "a doubled block of float sums",
        "statistics/gaussian.py",
        "EXACT_ROWS = 2 ** (51 - ROW_BITS)",
        "EXACT_ROWS = 2 ** (52 - ROW_BITS)",
        _GAUSSIAN,
        ("FloatSums.v", "EXACT_ROWS : nat := 512", "EXACT_ROWS : nat := 1024"),
    ),
    Change(
        "a 16 times larger block of rows",
        "engines/base.py",
        "LARGEST_BLOCK = 1 << 19",
        "LARGEST_BLOCK = 1 << 23",
        ("tests/engines/test_block_length.py",),
        ("FloatSums.v", "LARGEST_BLOCK_BITS : nat := 19", "LARGEST_BLOCK_BITS : nat := 23"),
    ),
    Change(
        "a wrong limit of rows: the first entry of psi is forgotten",
        "statistics/gaussian.py",
        "<= 4.0**SQUARED_BITS - self.count_units**2)",
        "<= 4.0**SQUARED_BITS)",
        _GAUSSIAN,
    ),
    Change(
        "sqrt 2 forgotten in a cone",
        "privacy/sensitivity.py",
        "return root_up(2 * Fraction(bound) ** 2) if cone else 2 * bound",
        "return bound if cone else 2 * bound",
        _SENSITIVITY,
    ),
    Change(
        "a dropped +1: the norm of ones of coarse sums",
        "privacy/sensitivity.py",
        "/ 2**bits + Fraction(root_up(ones)))",
        "/ 2**bits)",
        _SENSITIVITY,
    ),
    Change(
        "floor for ceiling: a charge",
        "privacy/ledger.py",
        "math.ceil(GdpAccountant().mu_squared(event) * _UNITS)",
        "math.floor(GdpAccountant().mu_squared(event) * _UNITS)",
        ("tests/privacy/test_ledger.py",),
    ),
    Change(
        "down for up: a float",
        "privacy/_rounding.py",
        "return result if Fraction(result) >= value else math.nextafter(result, math.inf)",
        "return result",
        _ROUNDING,
    ),
    Change(
        "down for up: the relative noise off a diagonal",
        "statistics/gaussian.py",
        "beside = math.nextafter(math.sqrt(0.5), 1.0)",
        "beside = math.nextafter(math.sqrt(0.5), 0.0)",
        _GAUSSIAN,
    ),
)


_PREFACE = """Each change is made in a copy of the source. The ties are the tests of `tests/proofs`, and
the other tests are those of the changed code. A test that is named notices the change; it is the
first of its file that fails. Coq sees a changed constant only if the theorems are given it as well
(`make mutants-ties`).
"""


def copy_repository() -> None:
    """Copy what the tests need. Compiled code stays valid, because times and contents are kept."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    for name in COPIED:
        source, target = ROOT / name, COPY / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)


def failed_files(tests: tuple[str, ...]) -> tuple[list[str], float]:
    """Run tests in the copy until the first failure of each file; return these failures and the seconds."""
    begun = time.monotonic()
    failed = []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(COPY / "src"), *sys.path])}
    for test in tests:
        if not (COPY / test).exists():
            continue
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
        run = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True, check=False)
        if run.returncode not in {0, 1}:
            failed.append(f"{Path(test).name} (does not run)")
        elif run.returncode:
            first = re.search(r"^(?:FAILED|ERROR) \S+::(\w+)", run.stdout, re.MULTILINE)
            failed.append(f"`{first[1]}`" if first else Path(test).name)
    return failed, time.monotonic() - begun


def refused_by_coq(change: Change) -> str:
    """Return what Coq says if the constant of the theorems is changed as well."""
    if change.proof is None:
        return ""
    file, old, new = change.proof
    constants = COPY / "proofs" / "Constants.v"
    written = constants.read_text()
    if written.count(old) != 1:
        raise SystemExit(f"Expected {old!r} once in Constants.v")
    constants.write_text(written.replace(old, new))
    for name in ("Constants.v", file):
        command = ["coqc", "-q", "-w", "-all", "-Q", ".", "DPEM", name]
        run = subprocess.run(command, cwd=COPY / "proofs", capture_output=True, text=True, check=False)
    constants.write_text(written)
    return f"`{file}` is refused" if run.returncode else "accepted"


def main() -> None:
    """Try every change, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="only changes of files whose path contains this")
    only = parser.parse_args().only
    ties = tuple(sorted(str(p.relative_to(ROOT)) for p in (ROOT / "tests" / "proofs").glob("test_*.py")))
    lines = [
        _PREFACE,
        "| change | file | ties | other tests | Coq, given the new constant |",
        "|---|---|---|---|---|",
    ]
    copy_repository()
    broken, _ = failed_files(ties)
    if broken:
        raise SystemExit(f"The ties fail without a change: {', '.join(broken)}")
    missed = []
    for change in CHANGES:
        if only not in change.file:
            continue
        copy_repository()
        source = COPY / "src" / "dpem" / change.file
        written = source.read_text()
        if written.count(change.old) != 1:
            raise SystemExit(f"Expected {change.old!r} once in {change.file}")
        source.write_text(written.replace(change.old, change.new))
        by_ties, seconds = failed_files(ties)
        by_others, more = failed_files(change.tests)
        coq = refused_by_coq(change)
        if not by_ties:
            missed.append(change.what)
        row = (change.what, f"`{change.file}`", ", ".join(by_ties) or "no", ", ".join(by_others) or "no", coq)
        lines.append(f"| {' | '.join(row)} |")
        print(f"{seconds:4.0f} s ties, {more:4.0f} s others: {' | '.join(row)}", flush=True)
    if not only:
        REPORT.write_text("\n".join(lines) + "\n")
    if missed:
        raise SystemExit(f"The ties miss: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
