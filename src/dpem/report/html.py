"""Render the report as HTML, with its style and its script inside the file."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from dpem._files import replacing
from dpem.privacy.ledger import Ledger
from dpem.report.contents import contents_of

if TYPE_CHECKING:
    import os

__all__ = ["render_report", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    n_rows: int | None = None,
    title: str | None = None,
) -> None:
    """Write the report of a fitted model to one HTML file.

    The report shows released values of the model and, if given, its ledger. It never shows rows. The file is
    written completely or not at all.

    Parameters
    ----------
    model : fitted estimator
        For example the result of :func:`dpem.load`.
    path : path-like
        The file to write. An existing file is replaced.
    ledger : Ledger or path-like, optional
        The ledger that was charged for the model, to verify and to show.
    n_rows : int, optional
        A guess of the number of rows if it is private; the expected noise depends on it.
    title : str, optional
        The title of the report.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(X)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(model, path, title="Groups of customers")
    >>> path.read_text().startswith("<!doctype html>")
    True
    """
    text = render_report(model, ledger=ledger, n_rows=n_rows, title=title)
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def render_report(
    model: Any,
    *,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    n_rows: int | None = None,
    title: str | None = None,
) -> str:
    """Return the report of a fitted model as HTML; arguments as in :func:`write_report`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = dpem.KMeans(2, epsilon=1.0, data_norm=5.0).fit(X)
    >>> "Groups of customers" in render_report(model, title="Groups of customers")
    True
    """
    ledger = ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger)
    contents = contents_of(model, ledger, n_rows, title)
    program = _asset("report.js")
    return (
        _template()
        .render(
            contents=contents,
            style=Markup(_asset("report.css")),  # noqa: S704  (a file of this package)
            program=Markup(program),  # noqa: S704
            program_hash=_digest(program),
            data=Markup(_json_in_html(contents.figures)),  # noqa: S704  (escaped by the function)
        )
        .strip()
        + "\n"
    )


@cache
def _asset(name: str) -> str:
    return resources.files("dpem.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    environment.filters["percent"] = lambda value: f"{value:.1%}"
    return environment.from_string(_asset("report.html.jinja"))


def number(value: float, digits: int = 3) -> str:
    """Format a number with a few significant digits."""
    if value == 0 or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    short = f"{value:.{digits}g}"
    return f"{float(short):,.10g}"


def _json_in_html(content: Any) -> str:
    """Return JSON with escaped brackets, so that it cannot end its script element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(program: str) -> str:
    """Return the hash with which the Content-Security-Policy allows this script and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
