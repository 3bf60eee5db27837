"""The page on the installation agrees with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

import dpem

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "installation.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_extra_is_in_the_table():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(listed) == sorted(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("page", ["docs/tutorials/installation.md", "README.md", "CONTRIBUTING.md"])
def test_the_versions_of_python_are_those_of_the_project(page):
    versions = [name.split()[-1] for name in PROJECT["classifiers"] if re.search(r"3\.\d+$", name)]
    text = (ROOT / page).read_text()
    named = re.search(r"Python (3\.\d+)(?: to |(?:, 3\.\d+)* or )(3\.\d+)", text).groups()
    assert named == (versions[0], versions[-1])
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_the_page_names_licence_and_version():
    assert f"The licence is {PROJECT['license']}." in PAGE
    assert f"dpem {dpem.__version__}\n" in PAGE


def test_the_oldest_versions_are_those_of_the_project():
    """The table has every dependency with its version, and the sentence below it those of the extras."""
    needed = dict(re.match(r"([\w-]+)>=([\d.]+)$", line).groups() for line in PROJECT["dependencies"])
    found = dict(re.findall(r"\| ([a-z][\w-]*) \| ([\d.]+) (?=\|)", PAGE))
    assert found == needed
    extras = PROJECT["optional-dependencies"]
    sentence = re.search(r"The extras need (.+), or newer\.", PAGE)[1]
    for extra in extras.keys() - {"dev"}:
        for line in extras[extra]:
            if not line.startswith("dpem["):
                name, version = re.match(r"([\w-]+)(?:\[.*\])?>=([\d.]+)$", line).groups()
                assert f"{name} {version}" in sentence
