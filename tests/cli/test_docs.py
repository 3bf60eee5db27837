"""The commands in the documentation run without errors, in the order of their page."""

import re
import shlex
from pathlib import Path

import dpem
from support.commands import called

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name, capsys, least):
    """Run the commands of a page; all must succeed."""
    blocks = re.findall(r"```console\n(.*?)```", (DOCS / name).read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= least
    for line in lines:
        assert line.startswith("$ dpem ")
        found = called(capsys, *shlex.split(line)[2:])
        assert found.code == 0, (line, found.err)


def test_the_commands_of_the_reference_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page("reference/command.md", capsys, 12)
    assert (tmp_path / "report.html").exists()
    # The demo leaves two reports, a ledger with two charges, and no file of the refused fit.
    demo = tmp_path / "tour"
    assert all((demo / name).stat().st_size > 20_000 for name in ("clusters.html", "table.html"))
    assert len(dpem.Ledger(demo / "patients.ledger").history()) == 2
    assert not list(demo.glob("third*"))
    assert called(capsys, "demo", "tour", "--json").json["error"]["exit_code"] == 5


def test_the_commands_of_the_privacy_officers_tutorial_run(tmp_path, monkeypatch, capsys):
    """At the end the ledger holds one charge with the agreed purpose, and the model file refers to it."""
    monkeypatch.chdir(tmp_path)
    run_page("tutorials/privacy-officer.md", capsys, 7)
    ledger = dpem.Ledger("register.ledger")
    (spend,) = ledger.history()
    assert spend.purpose == "dpem.GaussianMixture.fit: age and weight of patients"
    assert spend.analyst == "epidemiology"
    assert spend.cost.epsilon <= 1
    assert 1 < ledger.remaining().epsilon < 2
    dpem.load("groups.dpem").verify_charge(ledger)
    assert (tmp_path / "groups.html").stat().st_size > 20_000


def test_the_page_on_plans_shows_what_the_command_prints(tmp_path, monkeypatch, capsys):
    """Each line of output on the page is printed by the command on the page, in the same order."""
    page = (DOCS / "guide/planner.md").read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (schema,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    Path("patients.toml").write_text(schema)
    (command,) = re.findall(r"```console\n\$ dpem (.*?)\n```", page)
    printed = [" ".join(line.split()) for line in called(capsys, *shlex.split(command)).out.splitlines()]
    shown = "".join(re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)).splitlines()
    with_pld = any(line.startswith("pld") for line in printed)
    wanted = [" ".join(line.split()) for line in shown if with_pld or not line.startswith(" pld")]
    assert [line for line in wanted if line] == [line for line in printed if line]
