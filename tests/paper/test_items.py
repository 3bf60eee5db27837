"""The table of the paper's items: numbers, reasons for differences, and existing names."""

import importlib
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "paper"
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    for line in (PAGES / "items.md").read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`(dpem\.[\w.]+)`", row[2])})


def resolved(name):
    """Import the longest module prefix of a name, and resolve the rest as attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


def test_items_are_numbered():
    assert [int(row[0]) for row in ROWS] == list(range(1, 108))
    assert all(len(row) == 4 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_item_has_a_place_and_a_verdict(row):
    _, item, where, verdict = row
    assert item
    assert re.match(r"(same|corrected|different)\b", verdict)
    # Differences have a reason.
    assert verdict == "same" or re.match(r"same;|corrected: |different(: | under )", verdict)
    assert re.search(r"`dpem\.|\[\]\(", where)
    for page in re.findall(r"\[\]\(([\w/-]+\.md)\)", where):
        assert (PAGES / page).exists()


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name):
    assert resolved(name) is not None


def test_a_missing_name_is_detected():
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolved("dpem.paper.gaussian_mixture._no_such_step")
