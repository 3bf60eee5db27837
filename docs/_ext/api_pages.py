"""What the pages of the API show differently from the docstrings in Python.

- Attributes have the heading "Attributes" and keep a trailing underscore, which reStructuredText would drop.
- Names that share a description, such as ``epsilon, delta``, share one entry.
- The path of a page, such as ``docs/guide/schema.md``, becomes a link to the page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.domains.python import PyObject

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = re.compile(r"(\w+(?:, \w+)*)( :.*)?")
_PAGE = re.compile(r"\bdocs(/[\w/-]+)\.md\b")
_ONLY_PAGE = re.compile(rf"\({_PAGE.pattern}\)")


def attribute_names(lines: list[str]) -> Iterator[tuple[int, list[str], str]]:
    """Yield the number, the names and the rest of each line that names attributes in a docstring."""
    inside = False
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True)):
        if re.fullmatch(r"-{3,}", following):
            inside = line == "Attributes"
        elif inside and (match := _NAMES.fullmatch(line)):
            yield number, match[1].split(", "), match[2] or ""


def prepare(*event: Any) -> None:
    """Change the lines of a docstring, the last argument of the event, before napoleon reads them."""
    lines: list[str] = event[-1]
    lines[:] = [_PAGE.sub(r":doc:`\1`", _ONLY_PAGE.sub(r"(see :doc:`\1`)", line)) for line in lines]
    for number, names, kind in reversed(list(attribute_names(lines))):
        end = number + 1
        while end < len(lines) and lines[end].startswith(" "):
            end += 1
        description = lines[number + 1 : end]
        lines[number:end] = [
            line for name in names for line in (re.sub(r"_$", r"\\_", name) + kind, *description)
        ]


def share_descriptions(_: Any, document: nodes.document) -> None:
    """Write neighbouring entries of a list of fields with the same description as one entry."""
    for field in document.findall(nodes.field):
        for listed in field.findall(nodes.bullet_list):
            before, rest = None, ""
            for item in list(listed):
                name, *others = item[0]
                text = "".join(other.astext() for other in others)
                if before is not None and text == rest and len(text) > 3:
                    position = next(n for n, node in enumerate(before) if not _is_name(node))
                    before.insert(position, [_comma(), name])
                    listed.remove(item)
                else:
                    before, rest = item[0], text


def _comma() -> nodes.inline:
    return nodes.inline("", ", ", classes=["comma"])


def _is_name(node: nodes.Node) -> bool:
    return not isinstance(node, nodes.Text) and (
        "comma" in node.get("classes", ()) or bool(list(node.findall(nodes.strong)))
    )


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    for kind in PyObject.doc_field_types:
        if kind.name == "variable":
            kind.label = "Attributes"
    app.connect("autodoc-process-docstring", prepare, priority=400)  # napoleon has 500
    app.connect("doctree-read", share_descriptions)
    return {"parallel_read_safe": True}
