"""The whole workflow in a real terminal: from a CSV file to a report, until the budget is used up."""

import re
import sys

import numpy as np
import pandas as pd
import pexpect
import pytest

import dpem
from support.commands import hospital

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def typed(tmp_path):
    """Return a function that types a command, and returns the text on the screen and the exit code."""
    hospital(tmp_path, 4000)
    (tmp_path / "patients.toml").unlink()

    def type_in(line, answers=()):
        program = f"import shlex, sys; from dpem.cli import main; sys.exit(main(shlex.split({line!r})))"
        screen = pexpect.spawn(
            sys.executable, ["-c", program], cwd=tmp_path, encoding="utf-8", timeout=120, dimensions=(40, 110)
        )
        shown = ""
        for question, answer in answers:
            screen.expect_exact(question)
            shown += screen.before + screen.after
            screen.sendline(answer)
        screen.expect(pexpect.EOF)
        shown += screen.before
        screen.wait()  # closing it first could end it by a signal
        screen.close()
        return " ".join(COLOURS.sub("", shown).split()), screen.exitstatus

    return type_in


def test_cell_formats_are_asked_once(typed, tmp_path):
    """One question covers all columns, and is repeated after an invalid answer."""
    (tmp_path / "shop.csv").write_text("paid;again;note\n1.234,50;ja;n/a\n".replace(";", "|"))
    answers = [
        ("paid: kind", ""),
        ("paid: bounds", "0 9999"),
        ("paid: unit", ""),
        ("paid: may cells be missing", ""),
        ("again: kind", "boolean"),
        ("again: may cells be missing", ""),
        ("note: kind", "integer"),
        ("note: bounds", "0 9"),
        ("note: unit", ""),
        ("note: may cells be missing", "y"),
        ("numbers: decimal and thousands", ", ,"),  # the same twice
        ("numbers: decimal and thousands", ", ."),
        ("yes/no columns: the words", "ja"),
        ("yes/no columns: the words", "ja nein"),
        ("missing cells: values that mark", "n/a, -9"),
    ]
    shown, code = typed("schema shop.csv -o shop.toml --delimiter '|'", answers)
    assert code == 0
    assert "two words" in shown
    schema = dpem.Schema.read(tmp_path / "shop.toml")
    paid, again, note = schema.columns
    assert float(paid.parse(np.array(["1.234,50"], dtype=object))[0][0]) == 1234.5
    assert float(again.parse(np.array(["ja"], dtype=object))[0][0]) == 1.0
    assert np.isnan(note.parse(np.array(["n/a"], dtype=object))[0][0])


def test_from_a_csv_file_to_a_report(typed, tmp_path):
    """Draft, plan, ledger, two fits, synthetic rows and report; a third fit is refused with the reason."""
    answers = [
        ("patient: kind", "drop"),
        ("age: kind", "integer"),
        ("age: bounds", "0 110"),  # a space is a valid separator
        ("age: unit", "years"),
        ("age: may cells be missing", "n"),
        ("bmi: kind", ""),
        ("bmi: bounds", "60:12"),  # reversed: asked again
        ("bmi: bounds", "12:60"),
        ("bmi: unit", ""),
        ("bmi: may cells be missing", ""),
        ("systolic: kind", "whole"),  # unknown kind: asked again
        ("systolic: one of", "integer"),
        ("systolic: bounds", "70:230"),
        ("systolic: unit", "mmHg"),
        ("systolic: may cells be missing", "n"),
        ("hba1c: kind", "drop"),
        ("stay: kind", "drop"),
        ("sex: kind", "categorical"),
        ("sex: categories", "female,male"),
        ("sex: may cells be missing", "n"),
        ("ward: kind", "categorical"),
        ("ward: categories", "maternity,surgery,cardiology,internal,geriatrics"),
        ("ward: may cells be missing", "n"),
        ("smoker: kind", "drop"),
        ("readmitted: kind", "boolean"),
        ("readmitted: may cells be missing", "n"),
        ("numbers: decimal and thousands", ""),
        ("yes/no columns: the words", ""),
    ]
    shown, code = typed('schema patients.csv -o patients.toml --dataset "patients 2026"', answers)
    assert code == 0
    assert "low < high" in shown
    assert "Wrote patients.toml with 6 columns" in shown
    schema = dpem.Schema.read(tmp_path / "patients.toml")
    assert schema.dataset == "patients 2026"
    assert schema.lacking == ()
    shown, code = typed(
        "plan --rows 4000 -s patients.toml --columns age,bmi,systolic -k 3 --epsilon 1 -a age=1"
    )
    assert code == 0
    assert "the fit needs epsilon" in shown
    assert typed('budget init p.ledger --name "patients 2026" --epsilon 1.6')[1] == 0
    fit = "fit patients.csv -s patients.toml --epsilon 1 -l p.ledger"
    shown, code = typed(f'{fit} --columns age,bmi,systolic -k 3 -o clusters.dpem --purpose "patient groups"')
    assert code == 0
    assert "(epsilon = 1, delta = 1e-06)-differentially private" in shown
    shown, code = typed(f"{fit} --model table -o table.dpem")
    assert code == 0
    shown, code = typed(f"{fit} --model kmeans --columns age,bmi -o third.dpem")
    assert code == 3
    left = dpem.Ledger(tmp_path / "p.ledger").remaining()
    assert (
        f"it costs epsilon = 1 at delta = 1e-06, and epsilon = {left.epsilon:.6g} at delta = 1e-06 is left"
        in shown
    )
    assert "Nothing was charged" in shown
    assert not list(tmp_path.glob("third*"))
    assert typed("sample table.dpem -n 500 -o synthetic.csv")[1] == 0
    assert list(pd.read_csv(tmp_path / "synthetic.csv").columns) == list(schema.names)
    shown, code = typed("report clusters.dpem -o report.html --ledger p.ledger")
    assert code == 0
    page = (tmp_path / "report.html").read_text()
    assert "patients 2026" in page
    assert "record 1 is the charge for this model" in page
    assert not list(tmp_path.glob(".*")) + list(tmp_path.glob("*.partial"))
