"""Invalid input gives a helpful error; nothing is spent, written or lost."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

import dpem
from support.commands import called, hospital

# Background jobs and their children ignore interrupts by default.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from dpem.cli import run; run()"
)
COMMAND = [sys.executable, "-c", PROGRAM]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Create a folder with a table, its schema and an unused ledger, and change to it."""
    monkeypatch.chdir(tmp_path)
    _, _, ledger = hospital(tmp_path, 300)
    dpem.Ledger.create(ledger, name="demo patients", cap_epsilon=2.0, cap_delta=1e-6)
    return tmp_path


FIT = "fit patients.csv -s patients.toml --columns age,bmi -k 2 -e 1 -l patients.ledger -o m.dpem"


def with_file(name, content):
    def write(desk):
        (desk / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def semicolons(desk):
    text = (desk / "patients.csv").read_text()
    (desk / "patients.csv").write_text(text.replace(",", ";"))


def other_ledger(**terms):
    def make(desk):
        (desk / "patients.ledger").unlink()
        terms_of = {"name": "demo patients", "cap_epsilon": 2.0, "cap_delta": 1e-6} | terms
        dpem.Ledger.create(desk / "patients.ledger", **terms_of)

    return make


def nothing(desk):
    pass


REVERSED = '[age]\nkind = "integer"\nbounds = [110, 0]\n'
CASES = {
    # name: (preparation, command, exit code, words of the error)
    "wrong delimiter": (semicolons, FIT, 2, ["lacks 'age', 'bmi'", "1 column", "--delimiter"]),
    "missing column": (nothing, FIT.replace("age,bmi", "age,height"), 2, ["'height'", "It has 'age'"]),
    "column not in the table": (
        with_file("patients.csv", "age,weight\n1,2\n"),
        FIT,
        2,
        ["lacks 'bmi'", "It has 2 columns", "--header"],
    ),
    "bounds reversed": (with_file("patients.toml", REVERSED), FIT, 2, ["'age'", "low < high", "110"]),
    "unknown kind": (
        with_file("patients.toml", '[age]\nkind = "number"\n'),
        FIT,
        2,
        ["kind of column 'age'"],
    ),
    "invalid TOML": (with_file("patients.toml", "[age\n"), FIT, 2, ["patients.toml", "TOML"]),
    "no schema": (lambda d: (d / "patients.toml").unlink(), FIT, 2, ["patients.toml", "No such file"]),
    "no table": (lambda d: (d / "patients.csv").unlink(), FIT, 2, ["'patients.csv'", "found no file"]),
    "empty table": (with_file("patients.csv", ""), FIT, 2, ["patients.csv", "header line"]),
    "invalid Parquet": (
        with_file("patients.parquet", "PAR1 no"),
        FIT.replace("patients.csv", "patients.parquet"),
        4,
        ["patients.parquet", "damaged"],
    ),
    "unknown ending": (with_file("patients.xls", "x"), FIT.replace("csv", "xls"), 2, ["patients.xls", "CSV"]),
    "a folder as schema": (nothing, FIT.replace("patients.toml", "."), 2, ["ends in .toml or .json"]),
    "categorical column": (
        nothing,
        FIT.replace("age,bmi", "age,ward"),
        2,
        ["'ward'", "--columns age", "table"],
    ),
    "columns to quote": (
        lambda d: [
            with_file("patients.csv", "Limit (TWD),ward\n1,a\n2,b\n")(d),
            with_file(
                "patients.toml",
                '["Limit (TWD)"]\nkind = "integer"\nbounds = [0, 9]\n'
                '[ward]\nkind = "categorical"\ncategories = ["a", "b"]\n',
            )(d),
        ],
        "fit patients.csv -s patients.toml -e 1 -o m.dpem",
        2,
        ["--columns 'Limit (TWD)', or use"],
    ),
    "epsilon": (nothing, FIT.replace("-e 1", "-e -1"), 2, ["epsilon", "-1"]),
    "delta": (nothing, FIT + " --delta 2", 2, ["delta", "2"]),
    "components": (nothing, FIT.replace("-k 2", "-k 0"), 2, ["an integer -k >= 1, got -k 0"]),
    "more components than rows": (nothing, FIT.replace("-k 2", "-k 301"), 2, ["got -k 301"]),
    "not a number": (nothing, FIT.replace("-e 1", "-e much"), 2, ["--epsilon", "valid number"]),
    "decimal comma": (
        nothing,
        FIT.replace("-e 1", "-e 1,5"),
        2,
        ["'1,5' is not a valid number, such as 0.5"],
    ),
    "half a component": (nothing, FIT.replace("-k 2", "-k 3.5"), 2, ["'3.5' is not a whole number"]),
    "unknown option": (nothing, FIT + " --espilon 3", 2, ["--espilon"]),
    "target of a mixture": (nothing, FIT + " --target ward", 2, ["--target", "--model table"]),
    "existing output": (with_file("m.dpem", "mine"), FIT, 5, ["'m.dpem'", "exists", "--overwrite"]),
    "output in a missing folder": (
        nothing,
        FIT.replace("m.dpem", "no/m.dpem"),
        5,
        ["'no/m.dpem'", "No such file"],
    ),
    "output is a folder": (lambda d: (d / "m.dpem").mkdir(), FIT, 5, ["'m.dpem'", "folder"]),
    "ledger of another data set": (other_ledger(name="staff"), FIT, 5, ["'demo patients'", "'staff'"]),
    "ledger of another relation": (
        other_ledger(adjacency="add_remove"),
        FIT,
        2,
        ["add_remove", "replace_one"],
    ),
    "missing person column": (nothing, FIT + " --person who", 2, ["'who'"]),
    "ledger of persons": (other_ledger(rows_per_person=4), FIT, 2, ["privacy unit"]),
    "invalid ledger": (
        with_file("patients.ledger", "ledger"),
        FIT,
        5,
        ["patients.ledger", "not a ledger"],
    ),
    "no ledger": (lambda d: (d / "patients.ledger").unlink(), FIT, 5, ["patients.ledger"]),
    "too small a ledger": (
        other_ledger(cap_epsilon=0.5),
        FIT,
        3,
        ["epsilon = 0.499999", "left", "Nothing was charged"],
    ),
    "purpose without ledger": (nothing, FIT.replace("-l patients.ledger", "--purpose x"), 2, ["--ledger"]),
    "share of bounds": (
        with_file("patients.toml", '[age]\nkind = "integer"\n[bmi]\nkind = "continuous"\n'),
        FIT + " --estimate-bounds 1.5",
        2,
        ["--estimate-bounds", "between 0 and 1"],
    ),
    "bounds that are not needed": (nothing, FIT + " --estimate-bounds 0.1", 2, ["not needed"]),
    "draft": (
        with_file("patients.toml", '[age]\nkind = "integer"\n[bmi]\nkind = "continuous"\n'),
        FIT,
        2,
        ["'age', 'bmi'", "--estimate-bounds"],
    ),
    "draft of categories": (
        with_file("patients.toml", '[ward]\nkind = "categorical"\n'),
        "fit patients.csv -s patients.toml -m table -e 1 -l patients.ledger -o m.dpem",
        2,
        ["categories", "'ward'"],
    ),
    "invalid model": (nothing, "sample patients.csv -n 3", 5, ["'patients.csv'"]),
    "no model": (nothing, "report nothing.dpem -o r.html", 5, ["nothing.dpem", "does not exist"]),
    "rows": (nothing, "sample x.dpem -n 0", 2, ["--rows 0"]),
    "ending of output": (nothing, "sample x.dpem -o rows.xls", 2, ["rows.xls", ".csv"]),
    "schema of an unknown column": (
        nothing,
        "schema patients.csv -o s.toml --integer size=0:9",
        2,
        ["'size'", "10 columns"],
    ),
    "schema bounds reversed": (
        nothing,
        "schema patients.csv -o s.toml --integer age=9:0",
        2,
        ["'age'", "low < high"],
    ),
    "schema bounds are invalid": (
        nothing,
        "schema patients.csv -o s.toml --number bmi=low",
        2,
        ["--number bmi", "LOW:HIGH"],
    ),
    "schema of one category": (
        nothing,
        "schema patients.csv -o s.toml --category sex=F",
        2,
        ["'sex'", "two categories"],
    ),
    "schema over a file": (nothing, "schema patients.csv -o patients.toml", 5, ["patients.toml", "exists"]),
    "number without bounds": (
        nothing,
        "schema patients.csv -o s.toml --number bmi",
        2,
        ["NAME=LOW:HIGH for --number, got 'bmi'", "--estimate-bounds 0.1"],
    ),
    "model that ends like a table": (nothing, FIT.replace("m.dpem", "m.csv"), 2, [".dpem", "dpem sample"]),
    "report that ends like PDF": (nothing, "report x.dpem -o r.pdf", 2, [".html", "print it as PDF"]),
    "model as a ledger": (
        with_file("m.dpem", b"PK\3\4" + bytes(100)),
        "budget show m.dpem",
        5,
        ["m.dpem", "is not a ledger"],
    ),
    "check of a draft": (
        with_file("patients.toml", '[age]\nkind = "integer"\n[ward]\nkind = "categorical"\n'),
        "check patients.csv -s patients.toml",
        2,
        ["bounds or categories for 'age', 'ward'"],
    ),
    "two formats of a column": (
        with_file("patients.toml", '[age]\nkind = "date"\nformat = ["%d.%m.%Y", "%Y-%m-%d"]\n'),
        "check patients.csv -s patients.toml",
        2,
        ["one format for column 'age'", "convert the column first"],
    ),
    "text as bounds": (
        with_file("patients.toml", '[age]\nkind = "integer"\nbounds = ["18", "100"]\n'),
        "check patients.csv -s patients.toml",
        2,
        ["got text. Write [18, 100]."],
    ),
    "infinite epsilon": (nothing, FIT.replace("-e 1", "-e inf"), 2, ["finite --epsilon"]),
    "output over the ledger": (
        nothing,
        FIT.replace("m.dpem", "patients.ledger --overwrite"),
        5,
        ["also an input"],
    ),
    "output over the table": (
        nothing,
        FIT.replace("m.dpem", "./patients.csv --overwrite"),
        5,
        ["also an input"],
    ),
    "output over a pipe": (
        lambda d: os.mkfifo(d / "m.dpem"),
        FIT + " --overwrite",
        5,
        ["not a regular file"],
    ),
    "schema twice": (
        nothing,
        "schema patients.csv -o s.toml --integer age=0:9 --number age=0:9",
        2,
        ["'age'", "two"],
    ),
    "schema of dataset": (
        with_file("d.csv", "dataset,age\n"),
        "schema d.csv -o s.toml --dataset x",
        2,
        ["'dataset'", "--drop"],
    ),
    "schema in another encoding": (
        with_file("d.csv", "gr\xf6\xdfe,b\n".encode("latin-1")),
        "schema d.csv -o s.toml",
        2,
        ["UTF-8"],
    ),
    "plan with a ledger of another relation": (
        other_ledger(adjacency="add_remove"),
        "plan --rows 9 -s patients.toml -m table -e 1 -l patients.ledger",
        2,
        ["add_remove"],
    ),
    "report of rows": (nothing, "report x.dpem -o r.html --rows -5", 2, ["--rows -5"]),
    "demo of rows": (nothing, "demo here --rows -5", 2, ["--rows -5"]),
    "number of columns is not a number": (nothing, "plan --rows 9 -e 1 --columns \u00b2", 2, ["--columns"]),
    "head is not a number": (nothing, "budget verify patients.ledger --head \u00b2:x", 2, ["NUMBER:HASH"]),
    "schema delimiter": (semicolons, "schema patients.csv -o s.toml --integer age=0:9", 2, ["--delimiter"]),
    "plan without columns": (nothing, "plan --rows 100 -e 1", 2, ["--schema", "--columns"]),
    "plan accuracy": (nothing, "plan --rows 100 -e 1 --columns 2 -a weight=1", 2, ["'weight'", "'x0'"]),
    "plan pairs": (nothing, "plan --rows 100 -e 1 --columns 2 -a x0", 2, ["NAME=VALUE", "--accuracy"]),
    "cap": (nothing, "budget init new.ledger --name x -e 0", 2, ["cap_epsilon"]),
    "ledger twice": (nothing, "budget init patients.ledger --name x -e 1", 5, ["exists"]),
    "head": (nothing, "budget verify patients.ledger --head 3", 2, ["NUMBER:HASH"]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_is_clear_and_costs_nothing(desk, capsys, name, as_json):
    prepare, command, code, words = CASES[name]
    prepare(desk)
    before = {path: path.read_bytes() if path.is_file() else None for path in desk.rglob("*")}
    found = called(capsys, *command.split(), *(["--json"] if as_json else []))
    assert found.code == code, found
    if as_json:
        assert found.json["error"]["exit_code"] == code
        message = found.json["error"]["message"]
    else:
        message = " ".join(found.err.replace("│", " ").split())
        assert "Traceback" not in found.err
        assert found.out == ""
        assert "A bug in dpem" not in message
    for word in words:
        assert word in message, message
    said = re.sub(r"\S+\.dpem\S*", "", message)  # names of files
    assert re.search(r"\bdpem\.[A-Za-z_]+|schema\.[a-z]+\(|[a-z_]+=\.\.\.|set_params", said) is None, message
    after = {path: path.read_bytes() if path.is_file() else None for path in desk.rglob("*")}
    assert after == before  # the ledger too: nothing was charged


def test_a_csv_file_without_header_shows_no_row(desk, capsys):
    """The first line of a headerless file is a private row: no message, file or JSON may contain it."""
    (desk / "patients.csv").write_text("34,27.1,HIV\n51,23.9,none\n")
    for command in (
        FIT,
        "schema patients.csv -o s.toml",
        "schema patients.csv -o s.toml --integer age=0:110",
    ):
        for more in ([], ["--json"]):
            found = called(capsys, *command.split(), *more)
            assert found.code == 2
            assert "HIV" not in found.out + found.err
            assert "27.1" not in found.out + found.err
    assert not (desk / "s.toml").exists()
    # All fields are text, so only the duplicate name shows that there is no header.
    (desk / "patients.csv").write_text("HIV,HIV,none\n" * 2)
    found = called(capsys, *FIT.split())
    assert found.code == 2
    assert "HIV" not in found.err
    command = "schema patients.csv -o s.toml --header status,other,third --drop other --drop other"
    assert called(capsys, *command.split()).code == 0
    assert dpem.Schema.read("s.toml").names == ("status", "third")


def test_the_demo_removes_only_its_own_files(desk, capsys):
    """A folder that the demo did not create is refused; in a folder of the demo, other files stay."""
    assert called(capsys, "demo", ".", "--overwrite", "--json").json["error"]["exit_code"] == 5
    (desk / "here").mkdir()
    (desk / "here" / ".dpem-demo").touch()
    (desk / "here" / "thesis.txt").write_text("mine")
    assert called(capsys, "demo", "here", "--overwrite", "--rows", 300, "--json").code == 0
    assert (desk / "here" / "thesis.txt").read_text() == "mine"


def test_bounds_are_charged_only_if_the_ledger_covers_the_model_too(desk, capsys):
    """If the ledger does not cover bounds and model, it is charged for neither; lost bounds end the fit."""
    (desk / "patients.toml").write_text('[age]\nkind = "integer"\n[bmi]\nkind = "continuous"\n')
    found = called(capsys, *FIT.replace("-e 1", "-e 2.1").split(), "--estimate-bounds", "0.1", "--json")
    assert found.json["error"]["type"] == "InsufficientBudgetError"
    assert found.json["error"]["notes"] == []
    assert dpem.Ledger("patients.ledger").history() == []
    found = called(capsys, *FIT.replace("-e 1", "-e 0.01").split(), "--estimate-bounds", "0.1", "--json")
    assert "estimated bounds for 'age', 'bmi', got only noise" in found.json["error"]["message"]
    assert found.json["error"]["notes"] == []
    assert not list(desk.glob("*.partial"))


def test_a_refused_fit_keeps_the_resume_file_of_another(desk, capsys):
    """If two fits have the same output, the second is refused and the resume file of the first stays."""
    with dpem.resumable(desk / "m.dpem.partial"):
        found = called(capsys, *FIT.split(), "--json")
        assert found.json["error"]["type"] == "ResumeFileError"
        assert (desk / "m.dpem.partial").exists()
    assert dpem.Ledger("patients.ledger").history() == []


def test_a_closed_pipe_is_not_an_error(desk):
    """If the reader of standard output closes the pipe, as `head` does, the command ends quietly."""
    pipeline = f"set -o pipefail; {shlex.join(COMMAND)} budget show patients.ledger | true"
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_read_only_output_is_refused_before_the_charge(desk, capsys):
    """If the output cannot be written, the error comes before any charge."""
    if os.geteuid() == 0:  # root ignores permissions, but cannot create files in /proc
        command = FIT.replace("m.dpem", "/proc/m.dpem")
    else:
        desk.joinpath("closed").mkdir(mode=0o500)
        command = FIT.replace("m.dpem", "closed/m.dpem")
    found = called(capsys, *command.split())
    assert found.code == 5
    assert "m.dpem" in found.err
    assert dpem.Ledger("patients.ledger").history() == []


def test_only_overwrite_replaces_an_output(desk, capsys):
    assert called(capsys, *FIT.split()).code == 0
    first = (desk / "m.dpem").read_bytes()
    assert called(capsys, *FIT.split()).code == 5
    assert (desk / "m.dpem").read_bytes() == first
    assert called(capsys, *FIT.split(), "--overwrite", "--epsilon", "0.5").code == 0
    assert dpem.load("m.dpem").privacy_.epsilon == 0.5
    assert len(dpem.Ledger("patients.ledger").history()) == 2


def test_an_undeclared_cell_is_never_shown(desk, capsys):
    """Unknown categories, text in numeric columns and broken lines neither raise nor appear in a message."""
    with (desk / "patients.csv").open("a") as table:
        table.write("P9,old,,9999,x,y,alien,moon,maybe,?\nbroken line\n")
    found = called(capsys, *FIT.split())
    assert found.code == 0
    assert "alien" not in found.out + found.err
    table = "fit patients.csv -s patients.toml -m table -e 1 -l patients.ledger -o t.dpem"
    found = called(capsys, *table.split())
    assert found.code == 0
    assert not {"alien", "moon", "maybe"} & set((found.out + found.err).split())


def test_an_interrupted_fit_continues_without_another_charge(desk):
    """After Ctrl-C there is no output; the same command continues and is not charged again.

    Kills are tested in tests/gate/test_resume.py, with the same resume file.
    """
    hospital(desk, 60_000)
    arguments = FIT.replace("age,bmi", "age,bmi,systolic,hba1c,stay").replace("-k 2", "-k 5").split()
    running = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    partial = desk / "m.dpem.partial"
    while not dpem.Ledger("patients.ledger").history():
        time.sleep(0.01)
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "The ledger was charged" in err
    assert "Run the same command again" in err
    assert "Traceback" not in err
    assert partial.exists()
    assert not (desk / "m.dpem").exists()
    ledger = dpem.Ledger("patients.ledger")
    assert len(ledger.history()) == 1
    # A fit with other arguments is refused; nothing is charged or lost.
    other = subprocess.run([*COMMAND, *arguments, "--json", "-e", "0.5"], capture_output=True, text=True)
    assert other.returncode == 5
    assert "m.dpem.partial" in json.loads(other.stdout)["error"]["message"]
    again = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "continues" in again.stderr
    assert len(ledger.history()) == 1
    assert dpem.load("m.dpem").charge_.number == 1
    assert not list(desk.glob("*.partial"))
