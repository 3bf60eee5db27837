"""The paper's mixture and k-means as exponential-family models, to test the machinery of `GeneralEM`.

Their M-steps equal those of `dpem.paper`, with floors and clipping that are not in the paper's equations.
tests/paper/test_gaussian_mixture.py and test_kmeans.py compare the formulas with those of the paper.
"""

import numpy as np

import dpem
from dpem import paper
from dpem.data.domain import GRID, onto_grid
from dpem.paper.mixture_sums import Counts, Moments, Sums
from dpem.statistics.gaussian import GaussianComponents


def units_of_mixture_sums(d):
    """Return what one row (1, 0, ...) of responsibility 1 adds to the sums of `paper.GaussianMixture`."""
    one = GaussianComponents.from_parameters(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
    row = onto_grid(np.eye(d)[:1] * GRID).T
    kinds = {"weights": Counts(one), "means": Sums(one), "covariances": Moments(one)}
    return {name: kind.sum_block(row).max() / 2.0**kind.coarse_bits for name, kind in kinds.items()}


def densities(row, weights, means, covariances):
    """Return pi_k N(x | mu_k, Sigma_k), divided by the largest of them."""
    logs = []
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        away = row - mean
        logs.append(
            np.log(weight)
            - 0.5 * np.linalg.slogdet(covariance)[1]
            - 0.5 * away @ np.linalg.solve(covariance, away)
        )
    return np.exp(np.array(logs) - max(logs))


class Mixture(dpem.ExponentialFamily):
    """A mixture of Gaussians in the unit ball by MLE, with statistics gamma, gamma x and gamma x x'."""

    def __init__(self, means):
        self.means = tuple(map(tuple, means))

    def start(self, schema, random_state, centres):
        means = np.array(self.means)
        k, d = means.shape
        return {"weights": np.full(k, 1 / k), "means": means, "covariances": np.stack([np.eye(d)] * k)}

    def expected_statistics(self, row, parameters):
        joint = densities(row, parameters["weights"], parameters["means"], parameters["covariances"])
        g = joint / joint.sum()
        triangle = np.outer(row, row)[np.triu_indices(len(row))]
        return np.concatenate([g, np.outer(g, row).ravel(), np.outer(g, triangle).ravel()])

    def m_step(self, statistics, parameters, n_rows, noise):
        k, d = parameters["means"].shape
        counts = np.clip(statistics[:k] / n_rows, 0, 1)
        counts = n_rows * (counts / counts.sum() if counts.sum() > 0 else np.full(k, 1 / k))
        divisor = np.maximum(counts, 1.0)
        means = statistics[k : k + k * d].reshape(k, d) / divisor[:, None]
        means /= np.maximum(np.linalg.norm(means, axis=1), 1)[:, None]
        covariances = np.zeros((k, d, d))
        i, j = np.triu_indices(d)
        covariances[:, i, j] = covariances[:, j, i] = (
            statistics[k + k * d :].reshape(k, -1) / divisor[:, None]
        )
        covariances -= np.einsum("ki,kj->kij", means, means)
        values, vectors = np.linalg.eigh(covariances)
        repaired = (vectors * np.maximum(values, 1e-3)[:, None, :]) @ vectors.transpose(0, 2, 1)
        return {"weights": np.maximum(counts / n_rows, 1e-300), "means": means, "covariances": repaired}


def mixture_moments(k, d, scenario):
    """Return the 2K + 1 moments of a scenario, with the text's bounds on rows of the unit ball."""
    laplace = scenario == "LLG"
    first = "laplace" if laplace else "gaussian"
    mean = np.sqrt(d) if laplace else 1.0
    return [
        paper.Moment("weights", k, 1.0, first),
        *(paper.Moment(f"mean {j}", d, mean, first) for j in range(k)),
        *(paper.Moment(f"covariance {j}", d * (d + 1) // 2, 1.0) for j in range(k)),
    ]


class Clusters(dpem.ExponentialFamily):
    """Lloyd's k-means, with statistics 1 and the row for the nearest centre, and 0 for all others."""

    def __init__(self, centres):
        self.centres = tuple(map(tuple, centres))

    def start(self, schema, random_state, centres):
        return {"centres": np.array(self.centres)}

    def expected_statistics(self, row, parameters):
        away = ((parameters["centres"] - row) ** 2).sum(axis=1)
        nearest = (np.arange(len(away)) == away.argmin()).astype(float)
        return np.concatenate([nearest, np.outer(nearest, row).ravel()])

    def m_step(self, statistics, parameters, n_rows, noise):
        k, d = parameters["centres"].shape
        counts = np.clip(statistics[:k], 0, n_rows)
        counts = np.maximum(counts * n_rows / max(counts.sum(), 1.0), 1.0)
        return {"centres": np.clip(statistics[k:].reshape(k, d) / counts[:, None], -1, 1)}


def cluster_moments(k, d, noise):
    """Return the K + 1 moments of the paper's k-means."""
    mean = np.sqrt(d) if noise == "laplace" else 1.0
    return [
        paper.Moment("counts", k, 1.0, noise),
        *(paper.Moment(f"sum {j}", d, mean, noise) for j in range(k)),
    ]
