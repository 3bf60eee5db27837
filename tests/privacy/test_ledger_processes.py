"""Eight real processes on one ledger, some killed at random moments."""

import random
import subprocess
import sys
import time

from dpem import Ledger
from dpem.privacy import GaussianEvent

# Each worker charges, then "releases" by appending the charge's number to its own file, until refused.
WORKER = """
import os, sys, time
from dpem import Ledger
from dpem.errors import InsufficientBudgetError
from dpem.privacy import GaussianEvent
path, out = sys.argv[1:]
file = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
ledger = Ledger(path)
while True:
    try:
        charge = ledger.spend(GaussianEvent(110.0), purpose=out)
    except InsufficientBudgetError:
        break
    time.sleep(0.005)  # reads its data
    os.write(file, f"{charge.number}\\n".encode())
"""


def test_cap_holds_and_every_release_was_charged(tmp_path):
    """Killed processes can only lose budget: no release without its record, no total above the cap."""
    ledger = Ledger.create(tmp_path / "shared.ledger", name="x", cap_epsilon=1.0, cap_delta=1e-6)

    def start(i):
        command = [sys.executable, "-c", WORKER, str(ledger.path), str(tmp_path / f"out{i}")]
        return subprocess.Popen(command)

    workers = [start(i) for i in range(8)]
    deadline = time.monotonic() + 60  # wait until all of them are charging
    while len({charge.purpose for charge in ledger.history()}) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    for victim in random.sample(workers, 4):
        time.sleep(random.uniform(0.0, 0.1))
        victim.kill()
    for worker in workers:
        worker.wait(timeout=120)

    ledger.verify()
    history = ledger.history()
    capacity = int((ledger.cap.mu * 110) ** 2)
    assert len(history) == capacity > 500  # filled by the survivors, to the last charge that fits
    recorded = {charge.number: charge.purpose for charge in history}
    released = 0
    for i in range(8):
        out = tmp_path / f"out{i}"
        for line in out.read_text().splitlines() if out.exists() else ():
            assert recorded[int(line)] == str(out)
            released += 1
    assert capacity - 4 <= released <= capacity  # at most one charge lost for each killed process
    assert ledger.remaining().mu < 1 / 110


def test_a_killed_writer_leaves_no_lock(tmp_path):
    """A process killed inside its transaction neither charges nor blocks the others."""
    ledger = Ledger.create(tmp_path / "l", name="x", cap_epsilon=1.0, cap_delta=1e-6)
    program = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO spend VALUES (1, 't', 'p', 'a', '{}', '', 0, '1', '1', 'h')")
print("inside", flush=True)
time.sleep(600)
"""
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(ledger.path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout.readline() == "inside\n"
    writer.kill()
    writer.wait()
    writer.stdout.close()
    assert ledger.spend(GaussianEvent(100.0), purpose="after").number == 1
    ledger.verify()
