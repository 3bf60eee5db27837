"""The example gallery: the order of its pages, and what holds before each example runs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl

from dpem.errors import NoLedgerWarning
from dpem.plot.canvas import COLOURS

# Models first, then choices, kinds of rows and places of rows, and what is for those who check.
ORDER = (
    "gaussian_mixture",
    "kmeans_epsilons",
    "factor_analysis",
    "latent_classes",
    "synthetic_table",
    "plugin_model",
    "choosing_epsilon",
    "choosing_bounds",
    "noise",
    "missing_cells",
    "persons",
    "pipeline",
    "dask",
    "ledger",
    "audit",
    "paper_figure",
)


class Order:
    """Sort examples as in `ORDER`, the others after them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        """Return the place of an example."""
        name = Path(file).stem.removeprefix("plot_")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def prepare(_: dict[str, Any], __: str) -> None:
    """Set the look of pictures, and silence what is true of all examples together but of none of them."""
    mpl.rcParams |= {
        "axes.prop_cycle": mpl.cycler(color=COLOURS[:-1]),  # those of dpem.plot
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.facecolor": "white",  # dark pages dim pictures, and show them on white
        "savefig.dpi": 150,
        "savefig.facecolor": "white",
    }
    warnings.filterwarnings("ignore", category=NoLedgerWarning)  # of all fits of this process
