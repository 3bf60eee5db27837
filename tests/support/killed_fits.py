"""A program that starts fits and kills them: `python killed_fits.py FOLDER SEED ESTIMATOR=KILLS...`.

Each fit charges the folder's ledger under a unique name, saves its model, and records in a file when rows are
read and when the model is saved. It is killed at a random line of the code that charges, releases or writes,
or at a random time. Children are forked after a first fit on one thread, so that they start quickly.
"""

import functools
import os
import random
import signal
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import dpem
from dpem.data import TableRows
from support.estimators import ESTIMATORS
from support.sources import mixed_table

SOURCE = Path(dpem.__file__).parent
FILES = {
    str(SOURCE / name)
    for name in (
        "privacy/ledger.py",
        "privacy/ledger_sqlite.py",
        "gate/release.py",
        "gate/resume.py",
        "gate/interrupts.py",
        "estimator/base.py",
        "estimator/files.py",
        "_files.py",
    )
}
assert all(map(os.path.exists, FILES)), "a file was renamed, so no fit would be killed in it"
FRAME = mixed_table(200)


def note(folder, word, token):
    """Append a line that survives the death of the process."""
    file = os.open(folder / word, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{token}\n".encode())
    os.close(file)


def fit(folder, name, token, *, resumable):
    """Fit and save under a ledger; with `resumable`, continue from the transcript of an earlier run."""
    read = TableRows.block

    def noted(self):
        note(folder, "read", token)
        return read(self)

    TableRows.block = noted
    ledger = dpem.Ledger(folder / "ledger", purpose=token)
    with dpem.resumable(folder / f"{token}.resume") if resumable else nullcontext():
        model = ESTIMATORS[name](epsilon=0.01, n_jobs=1, ledger=ledger).fit(FRAME)
    model.save(folder / f"{token}.model")
    note(folder, "saved", token)


def count_lines(kill_at=None):
    """Count executed lines in `FILES`; kill this process before the line with the given number."""
    seen = [0]

    def line(frame, event, _):
        if event == "line":
            seen[0] += 1
            if seen[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return line

    @functools.cache
    def matters(name):
        return name in FILES

    def call(frame, *_):
        return line if matters(frame.f_code.co_filename) else None

    sys.settrace(call)
    return seen


def child(work):
    """Run a function in a forked process; return the number of the process."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  (the parent reports every exception)
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
    return pid


def end(pid):
    """Wait for a child that must have succeeded or been killed; return its status."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        sys.exit("A child failed.")
    return status


def lines_of(folder, name, *, resumable):
    """Return the number of lines that a complete fit executes in `FILES`."""

    def work():
        seen = count_lines()
        fit(folder, name, f"{name} whole {resumable}", resumable=resumable)
        sys.settrace(None)
        note(folder, "lines", seen[0])

    end(child(work))
    return int((folder / "lines").read_text().split()[-1])


def main(folder, seed, *estimators):
    """Kill fits of each estimator, at lines and at times, with and without a transcript."""
    warnings.simplefilter("ignore")
    chance, folder, kills = random.Random(int(seed)), Path(folder), 0
    for name, times in (estimator.split("=") for estimator in estimators):
        ESTIMATORS[name](epsilon=0.01, n_jobs=1).fit(FRAME)
        for resumable in (False, True):
            lines = lines_of(folder, name, resumable=resumable)
            for number, at in enumerate(chance.sample(range(1, lines), int(times))):
                token = f"{name} {'resumed' if resumable else number}"

                def at_line(name=name, token=token, at=at, resumable=resumable):
                    count_lines(at)
                    fit(folder, name, token, resumable=resumable)

                kills += end(child(at_line)) != 0
            started = time.monotonic()
            end(child(lambda n=name, r=resumable: fit(folder, n, f"{n} timed {r}", resumable=r)))
            took = time.monotonic() - started
            for number in range(int(times) // 3):
                token = f"{name} moment {'resumed' if resumable else number}"
                pid = child(lambda n=name, t=token, r=resumable: fit(folder, n, t, resumable=r))
                time.sleep(chance.uniform(0, took))
                os.kill(pid, signal.SIGKILL)
                kills += end(pid) != 0
        end(child(lambda n=name: fit(folder, n, f"{n} resumed", resumable=True)))
    sys.stdout.write(f"{kills}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
