"""A part of a model without rows is named, whatever its standard error."""

import warnings

import numpy as np
import pytest

import dpem
from dpem.errors import ModelFileError, WeakFitWarning
from dpem.estimator.files import read_model, write_model
from dpem.estimator.summary import is_supported, unsupported
from dpem.report import profile_of

POINT = np.full((4000, 2), 0.25)  # all rows in one place: of several centres, one has them all


def test_a_count_is_compared_with_its_noise():
    found = is_supported(np.array([-3.0, 39.0, 41.0]), 10.0)
    assert found.tolist() == [False, False, True]
    (weakness,) = unsupported("clusters", found)
    assert "2 of 3 clusters may be empty (number 1, 2)" in weakness.finding
    assert unsupported("clusters", np.ones(3, dtype=bool)) == []


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
def test_clusters_without_rows_are_named(adjacency, tmp_path):
    model = dpem.KMeans(3, epsilon=2.0, data_norm=1.0, adjacency=adjacency)
    with pytest.warns(WeakFitWarning, match="2 of 3 clusters may be empty"):
        model.fit(POINT)
    assert model.supported_.sum() == 1
    assert sum("may be empty" in name for name, _ in profile_of(model).rows) == 2
    assert "may be empty" in str(model)
    model.save(tmp_path / "m.dpem")
    np.testing.assert_array_equal(dpem.load(tmp_path / "m.dpem").supported_, model.supported_)
    metadata, arrays = read_model(tmp_path / "m.dpem")
    write_model(tmp_path / "n.dpem", metadata, arrays | {"supported": np.full(3, 0.5)})
    with pytest.raises(ModelFileError):
        dpem.load(tmp_path / "n.dpem")


def test_a_component_without_rows_is_named():
    """Its public start is far from all rows, which a narrow pooled covariance keeps apart."""
    rows = np.random.default_rng(0).normal(0, 0.02, (20_000, 2)) - 0.5
    model = dpem.GaussianMixture(2, epsilon=2.0, data_norm=2.0, means_init=[[-0.5, -0.5], [1.2, 1.2]])
    with pytest.warns(WeakFitWarning, match=r"1 of 2 components may be empty \(number 2\)"):
        model.fit(rows)


def test_parts_with_rows_are_supported():
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(c, 0.05, (3000, 2)) for c in ([0.4, 0.4], [-0.4, 0.4], [0, -0.5])])
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakFitWarning)
        for estimator in (dpem.KMeans, dpem.GaussianMixture):
            model = estimator(3, epsilon=2.0, data_norm=1.0, random_state=0).fit(rows)
            assert model.supported_.all()
            assert dpem.KMeans(2, epsilon=np.inf, data_norm=1.0).fit(rows).supported_.all()
