"""The example gallery: its scripts are complete, and pages of the docs show their pictures.

`make docs` executes the scripts.
"""

import ast
import re
from pathlib import Path

import pytest
from gallery import ORDER

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
_FIGURE = re.compile(r"^[`:]{3,}\{figure\}\s+(\S*sphx_glr_\S+)\n((?:.*\n)*?)[`:]{3,}$", re.MULTILINE)


FIGURES = [
    pytest.param(page, picture, body, id=f"{page.stem}-{Path(picture).stem}")
    for page in PAGES
    for picture, body in _FIGURE.findall(page.read_text(encoding="utf-8"))
]


def test_the_gallery_lists_every_script():
    """Each script has a position in the gallery."""
    assert len(SCRIPTS) >= 12
    assert {script.stem for script in SCRIPTS} == {f"plot_{name}" for name in ORDER}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_is_a_complete_page(script):
    """An example compiles, and has a title, text between code, and a picture."""
    source = script.read_text(encoding="utf-8")
    title, line, *text = ast.get_docstring(ast.parse(source)).splitlines()
    assert line == "=" * len(title)
    assert len(" ".join(text)) > 80
    assert len(re.findall(r"^# %%\n# \S", source, re.MULTILINE)) >= 2
    assert "plt.show()" in source
    compile(source, script, "exec")


@pytest.mark.parametrize(("page", "picture", "body"), FIGURES)
def test_a_figure_in_the_docs_comes_from_an_example(page, picture, body):
    """The script draws enough pictures; the figure has alternative text and a link to the example."""
    name, number = re.fullmatch(r"/auto_examples/images/sphx_glr_(plot_\w+)_(\d{3})\.png", picture).groups()
    script = ROOT / "examples" / "gallery" / f"{name}.py"
    assert script in SCRIPTS
    assert 1 <= int(number) <= script.read_text(encoding="utf-8").count("plt.show()")
    assert re.search(r"^:alt: \S.{20,}", body, re.MULTILINE)
    assert f"auto_examples/{name}.rst" in body


def test_no_figure_is_missing():
    """No page has a placeholder, and pages do show pictures."""
    assert not [page for page in PAGES if "<!-- figure:" in page.read_text(encoding="utf-8")]
    assert len(FIGURES) >= 10
