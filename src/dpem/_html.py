"""HTML fragments for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["paragraph", "table"]


def paragraph(text: Any) -> str:
    """Return an HTML paragraph."""
    return f"<p>{html.escape(str(text))}</p>"


def table(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table.

    Examples
    --------
    >>> table(["column"], [["a < b"]])
    '<table><thead><tr><th>column</th></tr></thead><tbody><tr><td>a &lt; b</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
