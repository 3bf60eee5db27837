"""Run experiments task by task, draw their figures, and write the page."""

from __future__ import annotations

import platform
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed

import dpem
from dpem import _validate
from dpem._files import make_folder, replacing
from dpem.reproduce.gowalla import GOWALLA
from dpem.reproduce.lifesci import LIFESCI
from dpem.reproduce.motivation import MOTIVATION
from dpem.reproduce.olivetti import OLIVETTI
from dpem.reproduce.results import Results
from dpem.reproduce.sentences import verdicts
from dpem.reproduce.stroke import STROKE
from dpem.reproduce.text import markdown, new_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import pandas as pd

    from dpem.reproduce.datasets import Datasets
    from dpem.reproduce.experiment import Experiment, Task

__all__ = ["EXPERIMENTS", "Reproduction", "reproduce"]

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for one in (MOTIVATION, LIFESCI, STROKE, GOWALLA, OLIVETTI)
}


@dataclass(frozen=True)
class Reproduction:
    """The output of a run: the path of the page, and the results of every experiment."""

    page: Path
    results: dict[str, pd.DataFrame]


def reproduce(
    names: Iterable[str],
    data: Datasets,
    output: Path,
    *,
    jobs: int = 1,
    fresh: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Reproduction:
    """Run experiments, and write their results, figures and a page.

    The page covers all experiments with results in the folder, so that they can be run one by one.

    Parameters
    ----------
    names : iterable of str
        Names of experiments in `EXPERIMENTS`.
    data : Datasets
        Source of the rows, and size of the run.
    output : Path
        Folder for reproduction.md, and for a folder `reproduction` with tables and figures.
    jobs : int
        Number of processes. Results do not depend on it.
    fresh : bool
        Whether to discard results of earlier runs.
    progress : callable
        Called with the name of the experiment, the number of finished tasks, and the number of all tasks.
    """
    _validate.integer(jobs, "jobs")
    chosen = [_validate.one_of(name, "experiment", tuple(EXPERIMENTS)) for name in names]
    folder = output / "reproduction"
    new_figure(1, 1)  # report a missing library now, not after hours of work
    make_folder(folder)
    found: dict[str, pd.DataFrame] = {}
    for name, experiment in EXPERIMENTS.items():
        tasks = experiment.tasks(data)
        is_real = all(data.has(one) for one in {task.data for task in tasks} & set(data.names))
        stem = folder / data.file_name(name)
        if name not in chosen:
            earlier = Results.found(stem.with_suffix(".csv"), tasks, is_real=is_real)
            if len(earlier):
                found[name] = earlier
            continue
        results = Results(stem.with_suffix(".csv"), is_real=is_real, fresh=fresh)
        figures = [stem.with_suffix(kind) for kind in (".png", ".svg")]
        if not all(map(results.has, tasks)):
            for figure in figures:  # figures of earlier results
                figure.unlink(missing_ok=True)
        _run(name, tasks, data, results, jobs, progress)
        found[name] = results.table(tasks)
        if not all(figure.exists() for figure in figures):
            _save(experiment.draw(found[name], data), figures)
    return Reproduction(_write_page(output, data, found), found)


def _run(
    name: str,
    tasks: Sequence[Task],
    data: Datasets,
    results: Results,
    jobs: int,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    left = [task for task in tasks if not results.has(task)]
    done = len(tasks) - len(left)
    measured = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(_measure)(name, task, data) for task in left
    )
    for task, values in measured:
        results.keep(task, values)
        done += 1
        if progress is not None:
            progress(name, done, len(tasks))


def _measure(name: str, task: Task, data: Datasets) -> tuple[Task, dict[str, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task, EXPERIMENTS[name].measure(task, data)


def _save(figure: Any, paths: Sequence[Path]) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    # Equal results give equal bytes: no date and no random identifiers.
    with mpl.rc_context({"svg.hashsalt": "dpem"}):
        for path in paths:
            metadata = {"Software": None} if path.suffix == ".png" else {"Date": None}
            with replacing(path) as target:
                figure.savefig(target, format=path.suffix[1:], dpi=110, metadata=metadata)


def _write_page(output: Path, data: Datasets, found: dict[str, pd.DataFrame]) -> Path:
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
