"""The keys of every JSON result are those on the page docs/reference/command.md: no more and no fewer."""

import re
from pathlib import Path

import pytest

from dpem.audit import run
from dpem.audit.run import Attack, Finding
from support.commands import called, hospital

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command.md").read_text()
COLUMNS = "age,bmi,systolic"


def documented():
    """Return the table cell with the keys for each first cell of the section on JSON."""
    section = PAGE.split("## JSON and exit codes\n")[1].split("| exit code |")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {first.strip().replace("`", ""): keys for first, keys in lines}


def names(cell):
    return set(re.findall(r"`(\w+)`", cell))


def keys_of(value):
    """Return the keys of an object, or of each object in a list that is not empty."""
    if isinstance(value, dict):
        return set(value)
    (keys,) = {frozenset(one) for one in value}
    return set(keys)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Create a folder with a table and its schema."""
    folder = tmp_path_factory.mktemp("desk")
    hospital(folder)
    return folder


def test_every_result_has_the_documented_keys(desk, capsys, monkeypatch):
    """Every command in the order of its use; the figure is the smallest one."""
    monkeypatch.chdir(desk)
    monkeypatch.setattr(run, "run_audit", lambda *_, **__: [Finding(Attack("bug", "x"), True, "caught")])
    with_schema = f"-s patients.toml --columns {COLUMNS} -e 0.5"
    commands = {
        "dpem schema": "schema patients.csv -o drafted.toml --no-ask --integer age=0:110",
        "dpem check": "check patients.csv -s patients.toml",
        "dpem budget init": "budget init l --name 'demo patients' --epsilon 8",
        "dpem plan": f"plan -n 2000 {with_schema} -l l --accuracy age=5",
        "dpem fit --dry-run": f"fit patients.csv {with_schema} -l l -o m.dpem --dry-run",
        "dpem fit": f"fit patients.csv {with_schema} -l l -o m.dpem",
        "dpem budget show": "budget show l",
        "dpem budget verify": "budget verify l",
        "dpem sample": "sample m.dpem -n 5",
        "dpem sample -o FILE": "sample m.dpem -n 5 -o rows.csv",
        "dpem predict": "predict m.dpem patients.csv -o groups.csv",
        "dpem report": "report m.dpem -o report.html -l l",
        "dpem audit": "audit --tiny",
        "dpem reproduce": "reproduce gowalla --tiny --jobs 1 -o figures",
        "dpem demo": "demo tour --rows 1000",
    }
    page = documented()
    results, nested = {}, {name: keys for name, keys in page.items() if " of dpem " in name}
    for name, command in commands.items():
        words = re.findall(r"'([^']*)'|(\S+)", command)
        ended = called(capsys, *("".join(word) for word in words), "--json")
        assert ended.code == 0 or name == "dpem check", (name, ended.out)
        results[name] = ended.json
    wanted = {name: names(keys) for name, keys in page.items() if name not in (*nested, "result of", "value")}
    wanted["dpem budget show"] |= wanted["dpem budget init"]
    short, long = page["dpem sample"].split(";")
    wanted |= {"dpem sample": names(short), "dpem sample -o FILE": names(long)}
    assert {name: set(found) for name, found in results.items()} == {
        name: keys | {"warnings"} for name, keys in wanted.items()
    }
    for name, keys in nested.items():
        key, _, command = name.partition(" of ")
        assert keys_of(results[command][key]) == names(keys), name
    planned = list(results["dpem plan"])
    assert set(results["dpem fit --dry-run"]["plan"]) == set(planned) - set(planned[-4:])


def test_an_error_has_the_documented_keys(capsys):
    found = called(capsys, "budget", "show", "nothing", "--json").json
    assert set(found) == {"error"}
    assert list(found["error"]) == re.findall(r'"(\w+)": (?:\.|\[)', PAGE)
