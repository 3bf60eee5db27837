"""Chi-squared tests of integer laws, with thresholds so small that unseeded noise causes no flaky tests."""

import numpy as np
from scipy import special, stats

# The p-value of a correct law is below ACCEPT once in a billion runs; that of a wrong law is below REJECT.
ACCEPT = 1e-9
REJECT = 1e-12


def interval_probability(law, scale, low, high):
    """Return P(low <= Y < high) for the continuous law, accurate in both tails."""
    distribution = {"gaussian": stats.norm, "laplace": stats.laplace}[law]
    a, b = np.asarray(low) / scale, np.asarray(high) / scale
    return np.where(
        a > 0,
        distribution.sf(a) - distribution.sf(b),
        distribution.cdf(b) - distribution.cdf(a),
    )


def law_p_value(draws, law, scale):
    """Return the p-value of the hypothesis that `draws` are round(Y), by integers or, if many, by bins."""
    spread = 12 * scale
    if spread < 2000:
        edges = np.arange(-np.ceil(spread) - 0.5, np.ceil(spread) + 1.5)
    else:  # wide laws: 400 bins of integers
        edges = np.unique(np.floor(np.linspace(-spread, spread, 401))) + 0.5
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    expected = interval_probability(law, scale, edges[:-1], edges[1:]) * len(draws)
    observed = np.histogram(draws, edges)[0].astype(float)
    expected, observed = _merge_small(expected, observed)
    if len(expected) == 1:
        return 1.0
    statistic = ((observed - expected) ** 2 / expected).sum()
    return float(special.chdtrc(len(expected) - 1, statistic))


def _merge_small(expected, observed, least=25.0):
    """Merge neighbouring cells until each expects enough draws for the chi-squared law to hold."""
    merged_e, merged_o, e, o = [], [], 0.0, 0.0
    for cell_e, cell_o in zip(expected, observed, strict=True):
        e, o = e + cell_e, o + cell_o
        if e >= least:
            merged_e.append(e)
            merged_o.append(o)
            e, o = 0.0, 0.0
    if not merged_e:
        return np.array([e]), np.array([o])
    merged_e[-1] += e
    merged_o[-1] += o
    return np.array(merged_e), np.array(merged_o)
