"""The commands in the documentation are those that work: each is run, in the order of the page."""

import re
import shlex
from pathlib import Path

import dpem
from support.commands import called

PAGE = Path(__file__).parents[2] / "docs" / "command.md"


def test_the_tour_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 12
    for line in lines:
        assert line.startswith("$ dpem ")
        found = called(capsys, *shlex.split(line)[2:])
        assert found.code == 0, (line, found.err)
    assert (tmp_path / "report.html").exists()
    # What the demo leaves: two reports, a ledger that paid twice, and nothing of the fit that it refused.
    demo = tmp_path / "tour"
    assert all((demo / name).stat().st_size > 20_000 for name in ("clusters.html", "table.html"))
    assert len(dpem.Ledger(demo / "patients.ledger").history()) == 2
    assert not list(demo.glob("third*"))
    assert called(capsys, "demo", "tour", "--json").json["error"]["exit_code"] == 5
