"""The background of a Gaussian mixture: a warning if it holds rows that the components should describe."""

import warnings

import numpy as np
import pytest

import dpem
from dpem.errors import WeakFitWarning
from dpem.models.gaussian_mixture.summary import WEAK_BACKGROUND, background_share
from dpem.testing import insecure_noise

SKEWED = {
    "exponential": lambda rng, shape: rng.exponential(3, shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 1, shape),
}


def fitted(rows, n_components=1, seed=0, **arguments):
    """Fit a mixture with seeded noise; return it and the texts of its warnings of a weak fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with insecure_noise(seed):
            model = dpem.GaussianMixture(
                n_components, **{"epsilon": 1.0, "bounds": (-50, 50), "random_state": seed} | arguments
            ).fit(rows)
    return model, [str(one.message) for one in caught if one.category is WeakFitWarning]


@pytest.mark.parametrize("n_columns", [1, 2, 5])
@pytest.mark.parametrize("kind", SKEWED)
def test_a_warning_tells_that_components_leave_the_tail_to_the_background(kind, n_columns):
    """The mean of the component is far from that of the rows, and its standard error does not show it."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = SKEWED[kind](rng, (5000, n_columns))
        model, said = fitted(rows, seed=seed)
        error = np.abs(model.means_[0] - rows.mean(axis=0)) / model.standard_errors_["means"][0]
        assert error.max() > 8
        assert len(said) == 1
        assert f"The background holds {background_share(model):.1%} of all rows" in said[0]
        assert "more components" in said[0]
        assert "logarithm" in said[0]
        assert f"Weak fit: The background holds {background_share(model):.1%}" in str(model)


@pytest.mark.parametrize("n_columns", [1, 2, 5])
@pytest.mark.parametrize("n_components", [1, 3])
def test_gaussian_rows_give_no_warning(n_columns, n_components):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        centres = rng.uniform(-20, 20, (n_components, n_columns))
        rows = centres[rng.integers(n_components, size=5000)] + rng.normal(0, 2, (5000, n_columns))
        model, said = fitted(rows, n_components, seed)
        assert background_share(model) < WEAK_BACKGROUND / 2
        assert said == []


def test_the_logarithm_of_a_lognormal_column_gives_no_warning():
    """The remedy that the warning names."""
    rows = np.log(SKEWED["lognormal"](np.random.default_rng(0), (5000, 1)))
    assert fitted(rows)[1] == []


def test_the_share_of_the_background_is_shown_with_every_model(tmp_path):
    rows = np.random.default_rng(0).normal(0, 2, (5000, 2))
    model, _ = fitted(rows)
    line = (
        f"Shares, means and covariances are those of the rows that the components describe; the background "
        f"holds {background_share(model):.1%} of all rows."
    )
    assert line in str(model)
    model.save(tmp_path / "model")
    assert line in str(dpem.load(tmp_path / "model"))
    dpem.report.write_report(model, tmp_path / "report.html")
    assert line in (tmp_path / "report.html").read_text()
    assert "background" not in str(fitted(rows, background_weight=0.0)[0]).partition("\n")[2]
