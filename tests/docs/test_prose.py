"""The prose check of `make lint` finds retired phrases and American spelling, and ignores code."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import prose


@pytest.mark.parametrize(
    ("suffix", "text", "found"),
    [
        (".md", "A table of made people.\n", "generated or synthetic"),
        (".md", "The behavior of the fit.\n", "behaviour"),
        (".md", "`behavior` is code, as is ``made data``.\n", ""),
        (".md", "```python\n# made people, color\n```\n", ""),
        (".py", '"""Return the color."""\n', "colour"),
        (".py", "x = 1  # what pays\n", "the ledger to charge"),
        (".py", 'color = "made people"\n', ""),
        (".py", '"""Title.\n\n    >>> color = "gray"\n    """\n', ""),
        (".py", "x = 1  # this is not mended  # prose: allow\n", ""),
        (".md", "It protects for every row.\n", ""),
        (".toml", "[lint]  # a table of made people\n", "generated or synthetic"),
        (".toml", 'name = "made people"\n', ""),
    ],
)
def test_findings(tmp_path, monkeypatch, suffix, text, found):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    file = tmp_path / f"page{suffix}"
    file.write_text(text)
    lines = list(prose.findings(file))
    assert len(lines) == bool(found)
    assert found in "".join(lines)


def test_messages_of_the_package_are_checked_for_retired_phrases(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    for directory, number in ((tmp_path, 0), (tmp_path / "src", 1)):
        file = directory / "page.py"
        file.write_text('raise ValueError(\n    f"{color} is of {made} people: made data and color"\n)\n')
        assert len(list(prose.findings(file))) == number


def test_short_words_have_a_higher_reading_ease():
    plain = "The cat sat. It saw a dog. The dog ran."
    heavy = "Notwithstanding considerable methodological heterogeneity, interpretability deteriorates."
    assert prose.reading_ease(plain) > 80
    assert prose.reading_ease(heavy) < 10
