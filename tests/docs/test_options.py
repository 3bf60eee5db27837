"""The generated list of options has every command and every option that `--help` shows."""

import re

import option_list

from support.commands import called


def sections():
    """Return the text of the page below each command."""
    parts = re.split(r"^## `(.+)`$", "\n".join(option_list.lines()), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_and_option_is_listed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    found = sections()
    assert {"dpem", "dpem fit", "dpem budget", "dpem budget verify"} <= found.keys()
    for command, text in found.items():
        printed = called(capsys, *command.split()[1:], "--help").out
        beginnings = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", printed, flags=re.MULTILINE)
        assert "--help" in beginnings
        for option in beginnings:
            assert re.search(rf"^\| `(-\w, )?{option}[ `]", text, flags=re.MULTILINE), (command, option)
        below = printed.partition("Commands:\n")[2].partition("\n\n")[0]
        for name in re.findall(r"^  (\w+) ", below, flags=re.MULTILINE):
            assert f"{command} {name}" in found


def test_a_row_has_the_default_and_whether_an_option_is_required():
    rows = sections()["dpem fit"].splitlines()
    assert r"| `-s, --schema <path>` | Schema file (see dpem schema). | required |" in rows
    assert any(row.startswith(r"| `--adjacency <replace_one\|add_remove>`") for row in rows)
    assert any(row.endswith("| `replace_one` |") for row in rows)
    assert "dpem fit patients.csv --schema patients.toml --model table --epsilon 1 -o patients.dpem" in rows
