"""dpem leaves process-wide state unchanged after every public operation, failure and mix of threads.

Warning filters, logging, signals, thread pools, NumPy's error state and similar settings are shared by all
code of a process. A library that changes them breaks unrelated code. The operations run in separate
processes (`support.public_operations`), because pytest replaces warning filters and streams.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import public_operations
from support.estimators import ESTIMATORS
from support.process_state import STATE

pytestmark = pytest.mark.timeout(600)
GROUPS = {
    "estimators": ["import", *ESTIMATORS, "MixedMixture target", "PrivateEM whole"],
    "rest": ["sources", "functions", "commands", "processes"],
}
AT_ONCE = ["warning filters", "warning functions", "thread pools", "umask", "interpreter", "functions"]


def started(part, folder):
    """Start a part of the program in an empty folder, with several threads in every pool."""
    for name in ("working", "temporary"):
        (folder / name).mkdir()
    without = ("PYTHONWARNINGS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "DPEM_DEBUG")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(Path(public_operations.__file__).parents[1]), *sys.path]),
        "TMPDIR": str(folder / "temporary"),
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",
    }
    program = [sys.executable, public_operations.__file__, part, str(folder / "result.json")]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(
            program, cwd=folder / "working", env=environment, stdout=subprocess.DEVNULL, stderr=said
        )


def found_by(process, folder):
    """Return the differences by group and operation."""
    assert process.wait() == 0, (folder / "said").read_text()[-2000:]
    groups = json.loads((folder / "result.json").read_text())
    return {
        group: {name: entry["differences"] for name, entry in entries.items()}
        for group, entries in groups.items()
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Run all operations once, in two parallel processes."""
    folders = {part: tmp_path_factory.mktemp(part) for part in GROUPS}
    processes = {part: started(part, folder) for part, folder in folders.items()}
    try:
        return {part: found_by(process, folders[part]) for part, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize(("part", "group"), [(part, group) for part in GROUPS for group in GROUPS[part]])
def test_no_operation_changes_the_process(found, part, group):
    """The state before and after each operation is the same, bit by bit and object by object."""
    changed = {name: lines[:5] for name, lines in found[part][group].items() if lines}
    assert not changed, f"{len(changed)} of {len(found[part][group])}:\n{json.dumps(changed, indent=1)}"


def test_every_group_of_operations_is_checked(found):
    """The parameters of the test above name all groups."""
    assert found["estimators"].keys() == set(GROUPS["estimators"])
    assert found["rest"].keys() - {"import"} == set(GROUPS["rest"])
    assert sum(len(entries) for groups in found.values() for entries in groups.values()) > 800


@pytest.fixture(scope="module")
def leaks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaks")
    return found_by(started("leaks", folder), folder)


@pytest.mark.parametrize("kind", STATE)
def test_a_leak_of_each_kind_is_found(leaks, kind):
    """An operation that changes one kind of state is reported for that kind, and the next one is not."""
    assert any(line.startswith(f"{kind}: ") for line in leaks["leaks"][kind])


@pytest.mark.parametrize("kind", AT_ONCE)
def test_a_leak_between_threads_is_found(leaks, kind):
    """A switch that is restored afterwards is clean in one thread, but leaks if two threads interleave."""
    assert leaks["alone"][kind] == []
    assert any(line.startswith(f"{kind}: ") for line in leaks["at once"][kind])


def test_lost_and_leaked_warnings_are_found(leaks):
    """A thread may hide or take a warning of the main thread, or leak a warning about a row."""
    assert "missed warning: ExpectedWarning" in str(leaks["warnings"]["hidden"])
    assert "missed warning: ExpectedWarning" in str(leaks["warnings"]["taken"])
    assert "leaked warning: the model warns about a row" in str(leaks["warnings"]["of a row"])
    assert leaks["warnings"]["none"] == []


def test_unexpected_outcomes_of_operations_are_found(leaks):
    """An unexpected exception and a missing expected exception are reported."""
    assert "ZeroDivisionError" in str(leaks["failures"]["an exception"])
    assert "nothing was raised" in str(leaks["failures"]["no exception"])
