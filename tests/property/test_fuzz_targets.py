"""Every target of `make fuzz` runs, accepts intact inputs, and finds errors."""

import numpy as np
import pytest

import dpem
from dpem.data import cells
from dpem.data.sources.formats import Csv
from dpem.estimator import saving
from dpem.privacy import PrivacyStatement, ledger
from fuzz.harness import run
from fuzz.run import report, run_all
from fuzz.targets import TARGETS


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.machine is None])
def test_a_few_inputs(name):
    few = TARGETS[name].examples // 500
    found = run(TARGETS[name], few)
    assert found.inputs == few
    assert not found.failures
    assert found.accepted


def _types_are_inferred(patch):
    """One cell that is not a number makes a whole column non-numeric."""
    numbers = cells.numbers_of

    def whole(column):
        found = numbers(column)
        return found * np.nan if np.isnan(found).any() else found

    patch.setattr("dpem.data.column.numbers_of", whole)


def _bad_rows_are_dropped(patch):
    rows = Csv._text
    patch.setattr(
        Csv, "_text", lambda self, *a: (t for t in rows(self, *a) if t.column(0).null_count < len(t))
    )


def _claims_are_not_checked(patch):
    patch.setattr(PrivacyStatement, "__post_init__", lambda self: None)


def _errors_get_out(patch):
    patch.setattr(saving, "ModelFileError", ZeroDivisionError)


def _records_are_not_checked(patch):
    def unchecked(terms, last_two, where):
        if not last_two:
            return 0, terms["hash"], 0
        return int(last_two[-1]["number"]), last_two[-1]["hash"], int(last_two[-1]["total_units"])

    patch.setattr(ledger, "checked_terms", lambda found, where: found[0])
    patch.setattr(ledger, "last_link", unchecked)
    patch.setattr(dpem.Ledger, "verify", lambda self, head=None: None)


@pytest.mark.parametrize(
    ("name", "break_it"),
    [
        ("cells of text", _types_are_inferred),
        ("CSV records", _types_are_inferred),
        ("CSV records", _bad_rows_are_dropped),
        ("statements", _claims_are_not_checked),
        ("model files, metadata", _errors_get_out),
        ("ledger files", _records_are_not_checked),
    ],
)
def test_a_wrong_reader_is_found(name, break_it, monkeypatch):
    break_it(monkeypatch)
    assert run(TARGETS[name], TARGETS[name].examples // 400, show=False).failures


def test_a_small_input_is_shown(monkeypatch, capsys):
    _types_are_inferred(monkeypatch)
    run(TARGETS["cells of text"], 300)
    assert "cells of text: " in capsys.readouterr().out


def test_the_results_table_lists_the_runs(capsys):
    class Arguments:
        jobs, seed = 1, 3

    outcomes = run_all({"events": 50}, 3, 1)
    table = report(outcomes, Arguments, 1.0)
    assert "written by `make fuzz`" in table
    assert f"| events | {TARGETS['events'].what} | 50 |" in table
