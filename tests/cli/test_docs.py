"""The commands in the documentation run without errors, in the order of their page."""

import re
import shlex
from pathlib import Path

import sample_report

import dpem
from support.commands import called
from support.model_files import with_metadata

DOCS = Path(__file__).parents[2] / "docs"


def run_page(name, capsys, least):
    """Run the commands of a page; all must succeed. Return what they print, by command."""
    blocks = re.findall(r"```console\n(.*?)```", (DOCS / name).read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= least
    printed = {}
    for line in lines:
        assert line.startswith("$ dpem ")
        found = called(capsys, *shlex.split(line)[2:])
        assert found.code == 0, (line, found.err)
        printed[line] = found.out
    return printed


def require_shown_outputs(name, printed):
    """Each ```text block of a page is part of what the command above it prints; "..." is any text."""
    page = (DOCS / name).read_text()
    blocks = re.findall(r"```(console|text)\n(.*?)```", page, flags=re.DOTALL)
    command = None
    for kind, block in blocks:
        if kind == "console":
            command = block.splitlines()[-1]
            continue
        found, shown = (" ".join(re.sub("─+", "─", text).split()) for text in (printed[command], block))
        wanted = ".*".join(map(re.escape, shown.split("...")))
        assert re.search(wanted, found), (shown, found)
    return [kind for kind, _ in blocks].count("text")


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
    monkeypatch.setenv("COLUMNS", "200")
    printed = run_page("tutorials/privacy-officer.md", capsys, 7)
    assert require_shown_outputs("tutorials/privacy-officer.md", printed) == 3
    ledger = dpem.Ledger("register.ledger")
    (spend,) = ledger.history()
    assert spend.purpose == "dpem.GaussianMixture.fit: age and weight of patients"
    assert spend.analyst == "epidemiology"
    assert spend.cost.epsilon <= 1
    assert 1 < ledger.remaining().epsilon < 2
    dpem.load("groups.dpem").verify_charge(ledger)
    assert (tmp_path / "groups.html").stat().st_size > 20_000
    # The page says which changes of a model file `verify` notices.
    for changed, code in (("n_rows", 0), ("epsilon", 5)):

        def change(metadata, changed=changed):
            for part in (metadata,) if changed == "n_rows" else (metadata["privacy"], metadata["plan"]):
                part[changed] *= 2

        with_metadata(tmp_path / "groups.dpem", tmp_path / "other.dpem", change)
        found = called(capsys, "budget", "verify", "register.ledger", "--model", "other.dpem")
        assert found.code == code, (changed, found.err)


def test_the_sample_report_is_that_of_the_privacy_officers_tutorial(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_report, "PAGE", tmp_path / "sample-report.html")
    sample_report.write_page()
    page = (DOCS / "tutorials" / "privacy-officer.md").read_text()
    report = " ".join(sample_report.PAGE.read_text().split())
    statement = re.findall(r"```text\n(This release.*?)\n```", page, flags=re.DOTALL)[0]
    assert " ".join(statement.split()).replace("'", "&#39;") in report
    for part in re.findall(
        r"^\| (Guarantee|Data quality|Ledger|Plan and outcome|Profiles) ", page, re.MULTILINE
    ):
        assert f">{part}</h2>" in report


def test_the_recipe_for_semicolons_and_decimal_commas_runs(tmp_path, monkeypatch, capsys):
    """The commands of the page read its lines with its schema, and so does the schema of its Python code."""
    page = (DOCS / "how-to/dates-and-text.md").read_text()
    monkeypatch.chdir(tmp_path)
    (table,) = re.findall(r"```text\n(age;amount;paid\n.*?)```", page, flags=re.DOTALL)
    header, *lines = table.splitlines()
    Path("bills.csv").write_text("\n".join([header, *lines * 500]))
    (schema,) = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    Path("bills.toml").write_text(schema)
    printed = run_page("how-to/dates-and-text.md", capsys, 4)
    assert "Nothing to correct." in next(iter(printed.values()))
    assert all(f'"{line}"' in page for line in lines)
    assert Path("synthetic.csv").read_text().count("\n") == 1001


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
