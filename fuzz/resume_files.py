"""Resume files with changed bytes: either their releases are read, or an error says what is wrong."""

import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np

import dpem
from dpem.errors import DpemError, ResumedFitWarning
from dpem.gate.plan import Plan, Stage
from dpem.gate.resume import active_resume_file
from dpem.privacy.ledger import Charge, Ledger
from fuzz.harness import Target, bounded_memory, scratch
from fuzz.mutations import changed_bytes, each_shift

__all__ = ["TARGET"]

_PLAN = Plan.build([Stage("step", 1.0, 2.0, repeats=3)], epsilon=1.0, delta=1e-5)
_BEGIN = ("fuzz.fit", _PLAN)
_FACTS = {"n_rows": 10}


@cache
def _whole():
    """Return the bytes of a resume file with a charge and two of three releases, and the ledger."""
    ledger = Ledger.create(scratch() / "paid", name="clinic", cap_epsilon=2.0, cap_delta=1e-5)
    file = scratch() / "whole.resume"
    with dpem.resumable(file):
        resume_file = active_resume_file()
        resume_file.public_seed(None)
        resume_file.begin(*_BEGIN, ledger, _FACTS)
        spend = ledger.spend(_PLAN.event, purpose="fuzz.fit", analyst="tester")
        resume_file.paid(Charge(ledger.name, spend.number, spend.hash))
        for i in range(2):
            resume_file.add(SimpleNamespace(stage="step", values=np.full(4, i + 0.5), insecure_noise=False))
    return file.read_bytes(), ledger


def _files(changes):
    """Yield changed files: at places all over the file, and where its rows are."""
    content = _whole()[0]
    yield from each_shift((content, changes[1]), 8)
    for page in range(4096, len(content) + 1, 4096):
        rows = content[page - 500 : page]
        yield from (
            content[: page - 500] + part + content[page:] for part in each_shift((rows, changes[1]), 8)
        )


def check(content):
    """Continue from a changed file: the charge is known, and releases have the requested size."""
    ledger = _whole()[1]
    file = scratch() / "changed.resume"
    file.write_bytes(content)
    with bounded_memory(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResumedFitWarning)
        try:
            with dpem.resumable(file):
                resume_file = active_resume_file()
                assert isinstance(resume_file.public_seed(None), int)
                if not resume_file.begin(*_BEGIN, ledger, _FACTS):
                    return True  # as if nothing had been charged: the plan is charged again
                charge = resume_file.charge
                assert ledger.history()[charge.number - 1].hash == charge.hash
                while (found := resume_file.next_release("step", 4)) is not None:
                    assert found[0].shape == (4,)
        except DpemError as error:
            assert str(error)
            return False
        finally:
            file.unlink(missing_ok=True)
    return True


TARGET = Target(
    "resume files",
    "a real resume file with bytes flipped, set, inserted and cut",
    20_000,
    changed_bytes([b""]),
    _files,
    check,
)
