"""Write the page about a reproduction: the paper's claims, and the results of its text and of `dpem`."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import jinja2
import numpy as np
import scipy
import sklearn

import dpem
from dpem._files import replacing
from dpem.reproduce.experiments import EXPERIMENTS
from dpem.reproduce.sentences import verdicts
from dpem.reproduce.text import markdown

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpem.reproduce.datasets import Datasets

__all__ = ["write_page"]


def write_page(output: Path, data: Datasets, found: dict[str, pd.DataFrame]) -> Path:
    """Write reproduction.md about these results, and return its path."""
    environment = jinja2.Environment(  # noqa: S701  (Markdown from texts and numbers of dpem)
        loader=jinja2.PackageLoader("dpem.reproduce", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    judged = list(enumerate(verdicts(found, data), start=1))
    claims = [[number, one.sentence, one.source, one.holds] for number, one in judged]
    text = environment.get_template("reproduction.md.jinja").render(
        names=" ".join(["all"] if len(found) == len(EXPERIMENTS) else found)
        + ("" if data.size == "full" else f" --{data.size}"),
        is_real={name: bool(table.is_real.all()) for name, table in found.items()},
        versions=(
            f"dpem {dpem.__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
            f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}."
        ),
        size=data.size,
        file_name=data.file_name,
        data_table=_data_table(data, found),
        sentences=markdown(["no.", "claim", "where", "verdict"], claims),
        measured="\n".join(f"{number}. {one.measured}" for number, one in judged),
        **{
            name: experiment.describe(found[name], data) if name in found else None
            for name, experiment in EXPERIMENTS.items()
        },
    )
    path = output / f"{data.file_name('reproduction')}.md"
    with replacing(path) as target:
        target.write_text(text.rstrip() + "\n", encoding="utf-8")
    return path


def _data_table(data: Datasets, found: dict[str, pd.DataFrame]) -> str:
    used = [name for name in data.names if any((table.data == name).any() for table in found.values())]
    if not used:
        return "Generated people alone."
    rows = []
    for name in used:
        loaded = data.load(name)
        n, d = loaded.rows.shape
        kind = (
            "real, by its checksum" if loaded.is_real else "**stand-in: generated rows, not the real ones**"
        )
        rows.append([f"`{name}`", f"{n:,} x {d}", kind])
    return markdown(["data set", "rows and columns", ""], rows)
