r"""Mixtures of independent columns, each from an exponential family, as plug-in models.

Given its component, the cells of a row are independent. Each cell has features f, not negative and of norm at
most 1: a one-hot vector for a category, the count over its bound for a count. The log-density of a row is
linear in the features:

    log p(x, k) = log w_k + c_k + sum_f eta_kf f(x).

The expected statistics are (g_k, g_k f)_k with responsibilities g. With m columns their squared norm is
sum_k g_k^2 (1 + |f|^2) <= 1 + m, whatever K, and no entry is negative: Eq. (S-14). A missing cell has no
features. All operations are on single elements in a fixed order, so that no row changes the bits of another.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpem.estimator.saved_arrays import require, require_laws, require_numbers, require_positive
from dpem.fitting.projection import count_weights, onto_simplex
from dpem.fitting.shrinkage import kept_part
from dpem.plugin.family import BlockFamily, shipped
from dpem.statistics.softmax import softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.data import Schema
    from dpem.estimator.base import PublicRandom
    from dpem.plugin.family import Parameters

__all__ = ["CategoricalFamily", "PoissonFamily", "ProductMixture"]

_SMALLEST = 1e-6  # probability, and mean over its bound
_SHRINKAGE = 0.2  # of starting cluster centres towards their mean


@shipped
class ProductMixture(BlockFamily):
    """The common part of mixtures of independent columns: weights, responsibilities and sums."""

    nonnegative = True

    def __init__(self, n_components: int, n_columns: int) -> None:
        self.start_centres = n_components if n_components > 1 else 0
        self.n_components = n_components
        self.n_columns = n_columns

    @abstractmethod
    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return features (f, n) of rows (d, n); those of missing cells are zero."""

    @abstractmethod
    def natural(self, parameters: Parameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return eta (k, f), and c (k, d) for each column separately, because missing cells have none."""

    @abstractmethod
    def check_parameters(self, parameters: Parameters) -> None:
        """Raise unless parameters loaded from a file are valid for this model."""

    @abstractmethod
    def column_parameters(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64], noise: float
    ) -> dict[str, NDArray[np.float64]]:
        """Return the parameters of columns from noisy sums of features (k, f) and positive counts (k,)."""

    def norm_bound(self, schema: Schema) -> float:
        """Return sqrt(1 + m) for m columns, rounded up."""
        return math.nextafter(math.sqrt(1 + len(schema.columns)), math.inf)

    def log_joint(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return log p(x, k) of rows (d, n), up to terms that do not depend on k, (k, n)."""
        eta, constants = self.natural(parameters)
        joint = np.repeat(np.log(parameters["weights"])[:, None], rows.shape[1], axis=1)
        for constant, column in zip(constants.T, rows, strict=True):
            joint += np.where(np.isnan(column), 0.0, constant[:, None])
        for coefficients, feature in zip(eta.T, self.features(rows), strict=True):
            joint += coefficients[:, None] * feature
        return joint

    def responsibilities(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return p(k | x) of rows (d, n), (k, n)."""
        return softmax(self.log_joint(rows, parameters))[0]

    def statistics_of_rows(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return g and g times the features, (k (1 + f), n)."""
        g = self.responsibilities(rows, parameters)
        features = self.features(rows)
        products = g[:, None, :] * features[None, :, :]
        return np.concatenate([g, products.reshape(-1, rows.shape[1])])

    def encode_rows(self, rows: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the features over sqrt(m)."""
        return self.features(rows) / math.sqrt(self.n_columns)

    def start(
        self, schema: Schema, random_state: PublicRandom, centres: NDArray[np.float64] | None
    ) -> dict[str, NDArray[np.float64]]:
        """Start at the cluster centres, slightly shrunk, or in the middle of bounds for one component."""
        k = self.n_components
        if centres is None:
            low, high = schema.bounds
            middle = np.rint(low / 2 + high / 2)[:, None]
            features = np.repeat(self.features(middle).T, k, axis=0)
        else:
            features = np.maximum(centres, 0.0) * math.sqrt(self.n_columns)
            features = (1 - _SHRINKAGE) * features + _SHRINKAGE * features.mean(axis=0)
            features = features * random_state.uniform(0.95, 1.05, size=features.shape)
        return {"weights": np.full(k, 1 / k), **self.column_parameters(features, np.ones(k), 0.0)}

    def m_step(
        self,
        statistics: NDArray[np.float64],
        parameters: Parameters,  # noqa: ARG002
        n_rows: float,
        noise: float,
    ) -> dict[str, NDArray[np.float64]]:
        """Return valid weights, and components shrunk to each other by as much as noise explains."""
        k = self.n_components
        weights = count_weights(statistics[:k], max(noise, 1e-9), n_rows)
        return {
            "weights": weights,
            **self.column_parameters(statistics[k:].reshape(k, -1), weights * n_rows, noise),
        }

    def labels(self, n: int, parameters: Parameters, random_state: PublicRandom) -> NDArray[np.intp]:
        """Draw components for n rows, in increasing order."""
        weights = parameters["weights"] / parameters["weights"].sum()
        return np.repeat(np.arange(self.n_components), random_state.multinomial(n, weights))

    def sample(self, n: int, parameters: Parameters, random_state: PublicRandom) -> NDArray[np.float64]:
        """Draw n rows."""
        return self.sample_labelled(self.labels(n, parameters, random_state), parameters, random_state)

    @abstractmethod
    def sample_labelled(
        self, labels: NDArray[np.intp], parameters: Parameters, random_state: PublicRandom
    ) -> NDArray[np.float64]:
        """Draw a row for each label, (n, d)."""

    @abstractmethod
    def log_density_of_rows(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return log p(x) of the known cells of rows (d, n)."""

    def log_density(self, row: NDArray[np.float64], parameters: Parameters) -> float:
        """Return log p(x) of the known cells of one row."""
        return float(self.log_density_of_rows(row[:, None], parameters)[0])

    def _log_sum(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        _, largest, total = softmax(self.log_joint(rows, parameters))
        return np.asarray(largest + np.log(total))


def _shrunk_to_mean(
    means: NDArray[np.float64], counts: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    """Shrink rows of means (k, l) towards their common mean by as much as noise explains."""
    common = (counts / counts.sum()) @ means
    energy = ((means - common) ** 2).sum(axis=1)
    kept = kept_part(energy, means.shape[1] * (noise / counts) ** 2)
    return np.asarray(common + kept[:, None] * (means - common))


@shipped
class CategoricalFamily(ProductMixture):
    """Latent classes: each component has a table of probabilities for every column."""

    def __init__(self, n_components: int, sizes: tuple[int, ...], first: tuple[float, ...]) -> None:
        super().__init__(n_components, len(sizes))
        self.sizes = sizes
        self.first = first  # first code, or smallest whole number, of each column

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one-hot codes."""
        hot = [
            (column == first + code).astype(np.float64)
            for column, size, first in zip(rows, self.sizes, self.first, strict=True)
            for code in range(size)
        ]
        return np.stack(hot)

    def check_parameters(self, parameters: Parameters) -> None:
        """Raise unless there are weights, and positive probabilities of the categories of each column."""
        k = self.n_components
        require_numbers(parameters, {"weights": (k,), "probabilities": (k, sum(self.sizes))})
        for law in (parameters["weights"], *self.tables(parameters)):
            require_laws("probabilities", law)
            require_positive("probabilities", law)

    def tables(self, parameters: Parameters) -> list[NDArray[np.float64]]:
        """Return for every column the probabilities of its categories, (k, categories)."""
        return np.split(parameters["probabilities"], np.cumsum(self.sizes)[:-1], axis=1)

    def natural(self, parameters: Parameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return logarithms of probabilities."""
        eta = np.log(parameters["probabilities"])
        return eta, np.zeros((self.n_components, self.n_columns))

    def column_parameters(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64], noise: float
    ) -> dict[str, NDArray[np.float64]]:
        """Return tables (k, f) of positive probabilities that sum to 1 within each column."""
        tables = []
        for part in np.split(sums, np.cumsum(self.sizes)[:-1], axis=1):
            # Rows with a missing cell are in no sum: divide by the number of known cells.
            known = np.clip(part.sum(axis=1), 0.05 * counts + 1e-9, counts)
            shares = _shrunk_to_mean(part / known[:, None], known, noise)
            least = np.clip(noise / known, _SMALLEST, 0.2 / part.shape[1])
            tables.append(
                np.stack(
                    [onto_simplex(row, 1.0, float(floor)) for row, floor in zip(shares, least, strict=True)]
                )
            )
        return {"probabilities": np.concatenate(tables, axis=1)}

    def log_density_of_rows(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return the log-probability."""
        return self._log_sum(rows, parameters)

    def sample_labelled(
        self, labels: NDArray[np.intp], parameters: Parameters, random_state: PublicRandom
    ) -> NDArray[np.float64]:
        """Draw codes, or whole numbers."""
        columns = []
        for first, table in zip(self.first, self.tables(parameters), strict=True):
            below = np.cumsum(table, axis=1)[labels]
            draws = random_state.uniform(size=(len(labels), 1)) * below[:, -1:]
            columns.append(first + (draws > below[:, :-1]).sum(axis=1))
        return np.stack(columns, axis=1).astype(np.float64)


@shipped
class PoissonFamily(ProductMixture):
    """Counts: each component has a mean for every column."""

    def __init__(self, n_components: int, bounds: tuple[float, ...]) -> None:
        super().__init__(n_components, len(bounds))
        self.bounds = bounds

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return counts over their bounds."""
        parts = rows / np.array(self.bounds)[:, None]
        return np.where(np.isnan(parts), 0.0, np.minimum(np.maximum(parts, 0.0), 1.0))

    def check_parameters(self, parameters: Parameters) -> None:
        """Raise unless there are weights, and means between zero and the bounds."""
        k = self.n_components
        require_numbers(parameters, {"weights": (k,), "means": (k, self.n_columns)})
        require_laws("weights", parameters["weights"])
        for name, value in parameters.items():
            require_positive(name, value)
        require((parameters["means"] <= np.array(self.bounds)).all(), "means within the bounds")

    def natural(self, parameters: Parameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the bound times the logarithm of the mean, and the mean's negative."""
        means = parameters["means"]
        return np.log(means) * np.array(self.bounds), -means

    def column_parameters(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64], noise: float
    ) -> dict[str, NDArray[np.float64]]:
        """Return means (k, d), positive and at most the bounds."""
        parts = sums / counts[:, None]
        if noise > 0:
            parts = np.stack(
                [_shrunk_to_mean(part[:, None], counts, noise)[:, 0] for part in parts.T], axis=1
            )
        return {"means": np.clip(parts, _SMALLEST, 1.0) * np.array(self.bounds)}

    def log_density_of_rows(self, rows: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Return the log-probability, including the factorials."""
        shared = np.where(np.isnan(rows), 0.0, special.gammaln(np.nan_to_num(rows) + 1)).sum(axis=0)
        return np.asarray(self._log_sum(rows, parameters) - shared)

    def sample_labelled(
        self, labels: NDArray[np.intp], parameters: Parameters, random_state: PublicRandom
    ) -> NDArray[np.float64]:
        """Draw counts, within their bounds."""
        draws = random_state.poisson(parameters["means"][labels])
        return np.asarray(np.minimum(draws, np.array(self.bounds)), dtype=np.float64)
