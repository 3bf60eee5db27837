"""The pages of the API show the attributes of each class by their exact names, and links to other pages."""

import html
import pkgutil
import re
from pathlib import Path

import api_pages
import pytest
from docutils import nodes

import dpem

DOCS = Path(__file__).parents[2] / "docs"
GENERATED = DOCS / "_build" / "html" / "reference" / "api" / "generated"
LISTED = re.findall(r"^   (dpem[\w.]*)$", (DOCS / "reference" / "api" / "index.md").read_text(), re.MULTILINE)
DOCSTRING = """Fit a model (docs/guide/schema.md); docs/paper/methods.md has others.

Parameters
----------
epsilon, delta : float
    The budget.

Attributes
----------
weights_, means_ : ndarray
    As elsewhere.
bounds : tuple
    The bounds.

Notes
-----
Nothing.
"""


def attributes(name):
    """Return the names in the section "Attributes" of a docstring."""
    lines = (pkgutil.resolve_name(name).__doc__ or "").splitlines()
    lines = [line.removeprefix("    ") for line in lines]
    return [one for _, names, _ in api_pages.attribute_names(lines) for one in names]


def test_a_docstring_is_prepared():
    lines = DOCSTRING.splitlines()
    assert [names for _, names, _ in api_pages.attribute_names(lines)] == [["weights_", "means_"], ["bounds"]]
    api_pages.prepare("app", lines)
    assert lines[0] == "Fit a model (see :doc:`/guide/schema`); :doc:`/paper/methods` has others."
    assert "epsilon, delta : float" in lines
    start = lines.index(r"weights\_ : ndarray")
    assert lines[start + 1 : start + 4] == ["    As elsewhere.", r"means\_ : ndarray", "    As elsewhere."]


def test_entries_with_the_same_description_are_joined():
    listed = nodes.bullet_list()
    for name, text in (("epsilon", " (float) - One."), ("delta", " (float) - One."), ("seed", " - Two.")):
        listed += nodes.list_item("", nodes.paragraph("", "", nodes.strong("", name), nodes.Text(text)))
    field = nodes.field("", nodes.field_name("", "Parameters"), nodes.field_body("", listed))
    api_pages.share_descriptions(None, nodes.container("", field))
    assert [item.astext() for item in listed] == ["epsilon, delta (float) - One.", "seed - Two."]


def test_every_page_named_in_a_docstring_exists():
    named = {
        page
        for file in Path(dpem.__file__).parent.rglob("*.py")
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert not [page for page in named if not (DOCS.parent / page).exists()]


@pytest.mark.site
@pytest.mark.parametrize("name", [name for name in LISTED if attributes(name)])
def test_a_built_page_shows_every_attribute(name):
    page = (GENERATED / f"{name}.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert "Attributes:" in text
    assert "Variables:" not in text
    shown = re.findall(r"\w+", text.partition("Attributes:")[2])
    assert [one for one in attributes(name) if one not in shown] == []


@pytest.mark.site
def test_no_built_page_shows_the_path_of_a_page():
    pages = sorted(GENERATED.glob("*.html"))
    assert len(pages) > 50
    assert not [page.name for page in pages if re.search(r"\bdocs/[\w/-]+\.md\b", page.read_text())]
