"""The prose check of `make lint` finds what it is for, and leaves code alone."""

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
    ],
)
def test_findings(tmp_path, monkeypatch, suffix, text, found):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    file = tmp_path / f"page{suffix}"
    file.write_text(text)
    lines = list(prose.findings(file))
    assert len(lines) == bool(found)
    assert found in "".join(lines)


def test_short_words_read_more_easily():
    plain = "The cat sat. It saw a dog. The dog ran."
    heavy = "Notwithstanding considerable methodological heterogeneity, interpretability deteriorates."
    assert prose.reading_ease(plain) > 80
    assert prose.reading_ease(heavy) < 10
