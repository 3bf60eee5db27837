"""The numbers that a fit buys are as many as the chapters say, and each fitted attribute is named there."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpem

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
K, D = 2, 3
COLUMN = {"kind": "continuous", "bounds": [0, 1]}
SCHEMA = dpem.Schema(dict.fromkeys("abc", COLUMN))
ROWS = pd.DataFrame(np.random.default_rng(0).random((4000, D)), columns=list("abc"))
PAIR = (D + 1) * (D + 2) // 2
START = {"scale": 16, "axes": D * (D + 1) // 2, "radius": 16, "lloyd": K * (D + 1)}
LOW, HIGH = 0.25, 0.75


class Halves(dpem.ExponentialFamily):
    """Two groups of rows, above and below a half."""

    start_centres = K

    def start(self, schema, random_state, centres):
        return {"mean": np.array([LOW, HIGH])}

    def expected_statistics(self, row, parameters):
        return np.array([row[0] < 0.5, row[0] >= 0.5], dtype=float)

    def m_step(self, statistics, parameters, n_rows, noise):
        return {"mean": parameters["mean"]}

    def norm_bound(self, schema):
        return 1.0


@pytest.mark.filterwarnings("ignore::dpem.errors.DpemWarning")
@pytest.mark.parametrize(
    ("page", "model", "sizes"),
    [
        ("kmeans", dpem.KMeans(K, epsilon=5.0, schema=SCHEMA), START | {"centre": D}),
        (
            "kmeans",
            dpem.KMeans(K, epsilon=5.0, schema=SCHEMA, adjacency="add_remove"),
            START | {"centre": D + 1},
        ),
        (
            "gaussian-mixture",
            dpem.GaussianMixture(K, epsilon=5.0, schema=SCHEMA),
            START | {"pool": PAIR, "em": K * PAIR + 2},
        ),
        (
            "factor-analysis",
            dpem.FactorAnalysis(1, epsilon=5.0, schema=SCHEMA),
            {"radius": 16, "spread": 16, "centre": D + 1, "scale": D, "size": 1, "moment": PAIR},
        ),
        (
            "latent-classes",
            dpem.PoissonMixture(K, epsilon=5.0, schema=SCHEMA, adjacency="add_remove"),
            START | {"rows": 1, "centre": D, "em": K * (1 + D)},
        ),
        (
            "plug-in",
            dpem.PrivateEM(Halves(), epsilon=5.0, schema=SCHEMA, adjacency="add_remove", max_iter=1),
            START | {"rows": 1, "centre": D, "em": 2},
        ),
        ("synthetic", dpem.MixedMixture(schema=SCHEMA, epsilon=5.0), {}),
        ("synthetic", dpem.MixedMixture(schema=SCHEMA, epsilon=0.5), {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_chapter_names_all_that_a_fit_releases(page, model, sizes):
    text = (GUIDE / f"{page}.md").read_text()
    with dpem.testing.record() as transcript:
        model.fit(ROWS)
    found = {}
    for release in transcript.releases:
        name = str(release.stage)
        kind = name if name in {"data quality", "columns again"} else name.split(maxsplit=1)[0]
        found.setdefault(kind, set()).add(np.size(release.noisy))
    assert found["data quality"] == {5 * D}
    for kind, size in sizes.items():
        assert found[kind] == {size}, kind
    for kind in found:
        assert f"`{kind}`" in text, kind
    for name in vars(model):
        if name.endswith("_"):
            assert f"`{name}" in text, name


def test_docstrings_name_the_charge_and_the_number_of_rows():
    for kind in (
        dpem.KMeans,
        dpem.GaussianMixture,
        dpem.FactorAnalysis,
        dpem.MixedMixture,
        dpem.CategoricalMixture,
        dpem.BernoulliMixture,
        dpem.PoissonMixture,
        dpem.PrivateEM,
    ):
        assert "charge_ :" in kind.__doc__
        assert "n_rows_ :" in kind.__doc__
