"""Reference EM for a Gaussian mixture on rows with missing cells (NaN), written as a test oracle.

It has plain loops over rows and components with textbook formulas (Ghahramani & Jordan 1994), and uses only
numpy and scipy. Missing cells are treated as missing at random and are integrated out exactly. Functions are
deterministic and do not modify arguments. Covariances have shape (k, d, d) for every covariance type.
"""

import numpy as np
from scipy.special import logsumexp

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")


def _gaussian_log_density(x, mean, covariance):
    """Return the log-density of one complete vector under one Gaussian; 0.0 for a vector of length zero."""
    if len(x) == 0:
        return 0.0
    cholesky = np.linalg.cholesky(covariance)  # raises LinAlgError unless positive definite
    z = np.linalg.solve(cholesky, x - mean)
    log_det = 2.0 * np.sum(np.log(np.diag(cholesky)))
    return -0.5 * (len(x) * np.log(2.0 * np.pi) + log_det + z @ z)


def _joint_log_densities(row, weights, means, covariances):
    """Return log(weight_c) + log N(x_O; marginal of component c on observed cells O) for each c."""
    o = np.flatnonzero(~np.isnan(row))
    out = np.empty(len(weights))
    for c in range(len(weights)):
        log_weight = np.log(weights[c]) if weights[c] > 0 else -np.inf
        out[c] = log_weight + _gaussian_log_density(row[o], means[c][o], covariances[c][np.ix_(o, o)])
    return out


def _row_log_density(row, weights, means, covariances):
    """Return the observed-data log-density of one row under the mixture; 0.0 if no cell is observed."""
    if np.all(np.isnan(row)):
        return 0.0
    return logsumexp(_joint_log_densities(row, weights, means, covariances))


def _responsibilities(row, weights, means, covariances):
    """Return the posterior component probabilities of one row, given its observed cells."""
    if np.all(np.isnan(row)):
        return weights / np.sum(weights)
    joint = _joint_log_densities(row, weights, means, covariances)
    return np.exp(joint - logsumexp(joint))


def _conditional_moments(row, mean, covariance):
    """Return E[x | x_O] and Cov[x | x_O] under one Gaussian; the covariance is zero outside M x M."""
    o = np.flatnonzero(~np.isnan(row))
    m = np.flatnonzero(np.isnan(row))
    expected = row.copy()
    conditional = np.zeros((len(row), len(row)))
    if len(m) == 0:
        return expected, conditional
    if len(o) == 0:
        return mean.copy(), covariance.copy()
    s_oo = covariance[np.ix_(o, o)]
    s_mo = covariance[np.ix_(m, o)]
    s_mm = covariance[np.ix_(m, m)]
    gain = np.linalg.solve(s_oo, s_mo.T).T  # S_mo S_oo^-1, as S_oo is symmetric
    expected[m] = mean[m] + gain @ (row[o] - mean[o])
    conditional[np.ix_(m, m)] = s_mm - gain @ s_mo.T
    return expected, conditional


def _constrain(covariances, weights, covariance_type):
    """Convert full covariances of components (k, d, d) to the given type, in the same shape."""
    k, d, _ = covariances.shape
    if covariance_type == "full":
        return covariances
    if covariance_type == "tied":
        shared = sum(weights[c] * covariances[c] for c in range(k))
        return np.array([shared for _ in range(k)])
    if covariance_type == "diag":
        return np.array([np.diag(np.diag(covariances[c])) for c in range(k)])
    return np.array([np.mean(np.diag(covariances[c])) * np.eye(d) for c in range(k)])


def _em_step(rows, weights, means, covariances, covariance_type, reg_covar):
    """Run one E-step and one M-step; every component must have a positive expected count."""
    n, d = rows.shape
    k = len(weights)
    resp = np.array([_responsibilities(row, weights, means, covariances) for row in rows])
    counts = np.sum(resp, axis=0)
    if not np.all(counts > 0):
        raise ValueError("a component has no expected count: its mean and covariance are undefined")
    new_means = np.zeros((k, d))
    new_covariances = np.zeros((k, d, d))
    for c in range(k):
        moments = [_conditional_moments(row, means[c], covariances[c]) for row in rows]
        for i in range(n):
            new_means[c] += resp[i, c] * moments[i][0]
        new_means[c] /= counts[c]
        # E[(x - mu)(x - mu)' | x_O] = (E[x] - mu)(E[x] - mu)' + Cov[x], the same as from E[x] and E[xx'].
        for i in range(n):
            diff = moments[i][0] - new_means[c]
            new_covariances[c] += resp[i, c] * (np.outer(diff, diff) + moments[i][1])
        new_covariances[c] /= counts[c]
        new_covariances[c] = 0.5 * (new_covariances[c] + new_covariances[c].T)  # rounding only
        new_covariances[c] += reg_covar * np.eye(d)
    new_weights = counts / np.sum(counts)
    return new_weights, new_means, _constrain(new_covariances, new_weights, covariance_type)


def _as_arrays(rows, weights, means, covariances):
    """Return float copies of the four inputs after checking their shapes."""
    rows = np.array(rows, dtype=float)
    weights = np.array(weights, dtype=float)
    means = np.array(means, dtype=float)
    covariances = np.array(covariances, dtype=float)
    if rows.ndim != 2 or weights.ndim != 1:
        raise ValueError("rows must be (n, d) and weights (k,)")
    d, k = rows.shape[1], len(weights)
    if means.shape != (k, d) or covariances.shape != (k, d, d):
        raise ValueError("means must be (k, d) and covariances (k, d, d)")
    return rows, weights, means, covariances


def em(rows, weights, means, covariances, *, covariance_type, n_iter, reg_covar=0.0):
    """Run exactly n_iter EM steps; log_likelihoods[j] is the total under the parameters before step j."""
    if covariance_type not in COVARIANCE_TYPES:
        raise ValueError(f"covariance_type must be one of {COVARIANCE_TYPES}")
    rows, weights, means, covariances = _as_arrays(rows, weights, means, covariances)
    log_likelihoods = np.empty(n_iter)
    for j in range(n_iter):
        log_likelihoods[j] = np.sum(log_density(rows, weights, means, covariances))
        weights, means, covariances = _em_step(rows, weights, means, covariances, covariance_type, reg_covar)
    return weights, means, covariances, log_likelihoods


def log_density(rows, weights, means, covariances):
    """Return the observed-data log-density of each row, shape (n,); 0.0 for a row without observed cells."""
    rows, weights, means, covariances = _as_arrays(rows, weights, means, covariances)
    return np.array([_row_log_density(row, weights, means, covariances) for row in rows], dtype=float)


def impute(rows, weights, means, covariances):
    """Return rows with each missing cell replaced by its expectation, given the observed cells."""
    rows, weights, means, covariances = _as_arrays(rows, weights, means, covariances)
    filled = rows.copy()
    for i, row in enumerate(rows):
        resp = _responsibilities(row, weights, means, covariances)
        expected = np.zeros(len(row))
        for c in range(len(weights)):
            expected += resp[c] * _conditional_moments(row, means[c], covariances[c])[0]
        missing = np.isnan(row)
        filled[i, missing] = expected[missing]
    return filled
