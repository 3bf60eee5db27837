"""Transcripts of resumable fits with some bytes changed: releases, or an error that says what is wrong."""

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
    """Return the bytes of a transcript with a payment and two of three releases, and the ledger."""
    ledger = Ledger.create(scratch() / "paid", name="clinic", cap_epsilon=2.0, cap_delta=1e-5)
    file = scratch() / "whole.transcript"
    with dpem.resumable(file):
        transcript = active_resume_file()
        transcript.public_seed(None)
        transcript.begin(*_BEGIN, ledger, _FACTS)
        spend = ledger.spend(_PLAN.event, purpose="fuzz.fit", analyst="tester")
        transcript.paid(Charge(ledger.name, spend.number, spend.hash))
        for i in range(2):
            transcript.add(SimpleNamespace(stage="step", values=np.full(4, i + 0.5), insecure_noise=False))
    return file.read_bytes(), ledger


def _files(changes):
    """Yield changed files: places all over the file, and where its rows are."""
    content = _whole()[0]
    yield from each_shift((content, changes[1]), 8)
    for page in range(4096, len(content) + 1, 4096):
        rows = content[page - 500 : page]
        yield from (
            content[: page - 500] + part + content[page:] for part in each_shift((rows, changes[1]), 8)
        )


def check(content):
    """Go on from a changed file: what was paid is known, and releases are of the size that is asked for."""
    ledger = _whole()[1]
    file = scratch() / "changed.transcript"
    file.write_bytes(content)
    with bounded_memory(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResumedFitWarning)
        try:
            with dpem.resumable(file):
                transcript = active_resume_file()
                assert isinstance(transcript.public_seed(None), int)
                if not transcript.begin(*_BEGIN, ledger, _FACTS):
                    return True  # as if nothing had been paid: it will be paid again
                charge = transcript.charge
                assert ledger.history()[charge.number - 1].hash == charge.hash
                while (found := transcript.next_release("step", 4)) is not None:
                    assert found[0].shape == (4,)
        except DpemError as error:
            assert str(error)
            return False
        finally:
            file.unlink(missing_ok=True)
    return True


TARGET = Target(
    "transcript files",
    "a real transcript of a resumable fit, bytes flipped, set, inserted and cut",
    20_000,
    changed_bytes([b""]),
    _files,
    check,
)
