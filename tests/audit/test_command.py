"""`dpem audit`: its output and its exit codes."""

import pytest

from dpem.audit import run
from dpem.audit.findings_page import audit_page, summary
from dpem.audit.run import Attack, Finding, tasks
from support.commands import called


def test_an_audit_writes_its_findings(tmp_path, capsys):
    """Audits run in separate processes; the results are a page and a JSON object."""
    page = tmp_path / "audit.md"
    found = called(capsys, "audit", "--tiny", "--only", "paper.DPLloyd", "--output", str(page), "--json")
    assert found.code == 0
    assert found.json["failed"] == []
    assert found.json["audits"] == 3
    assert found.json["summary"][0]["audit"] == "Record and replay"
    text = page.read_text()
    assert "**No violation.**" in text
    assert "| paper.DPLloyd, bounds, replace_one | 1 |" in text


def failing():
    broken = {"pairs": 3, "releases": 9, "worst": 1.5, "stage": "sums"}
    game = {"runs": 9, "wrong": 0.1, "mu_lower": 3.0, "mu": 1.0, "epsilon_lower": 2.0}
    game |= {"canary": 1.0, "tightness": 3.0}
    return [
        Finding(Attack("replay", "KMeans"), False, "KMeans: VIOLATION", broken),
        Finding(Attack("bug", "half the noise"), False, "half the noise: NOT CAUGHT", {"caught_by": []}),
        Finding(Attack("transcript", "KMeans"), True, "fine", game),
        Finding(Attack("proof", "a step"), False, "a step: too much", {"worst": 1.25, "proof": "S-9"}),
    ]


def test_a_violation_ends_with_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "run_audit", lambda *_, **__: failing())
    page = tmp_path / "audit.md"
    found = called(capsys, "audit", "--quick", "--output", str(page))
    assert found.code == 1
    assert "NOT CAUGHT" in found.err
    text = page.read_text()
    assert "**3 FAILED.**" in text
    assert "| a step | S-9 | 1.250000 | **no** |" in text
    assert "- KMeans: VIOLATION" in text
    assert "| half the noise | **no** |" in text
    assert "| KMeans, replace_one | transcript | 1 | 9 | 0.100 | 3.000 | 1.000 | 1.00 | 3.00 | 2.00 |" in text
    assert summary(failing())[2] == ("Seeded bugs caught", 1, 1, "0 of 1")


def test_an_interrupt_is_reported(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_audit", interrupted)
    assert called(capsys, "audit", "--quick").code == 130


def test_unknown_names_raise(capsys):
    found = called(capsys, "audit", "--only", "nothing")
    assert found.code == 2
    assert "No audit has such a name" in found.err


@pytest.mark.parametrize("size", ["tiny", "quick", "full"])
def test_every_size_has_every_kind_of_task(size):
    """Every size audits all fits and all bugs; larger sizes have more tasks."""
    found = tasks(size)
    assert {task.kind for task in found} == {
        "replay",
        "proof",
        "bug",
        "transcript",
        "model",
        "samples",
        "bits",
    }
    assert len(found) == len(set(found))
    assert len(tasks("tiny")) <= len(found) <= len(tasks("full"))


def test_models_have_the_names_of_other_commands():
    assert {task.name for task in tasks("tiny", "factors") if task.kind == "replay"} == {
        "FactorAnalysis",
        "FactorAnalysis, basis",
        "FactorAnalysis, table",
    }


def test_a_page_without_findings():
    assert "0 audits" in audit_page([], "full", 0.0)
