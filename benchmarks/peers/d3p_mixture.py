"""Fit a Gaussian mixture with d3p's private variational inference, in its own environment.

Usage: python d3p_mixture.py IN.npz K EPSILON DELTA SEED OUT.npz

IN.npz holds `fit` and `test`, rows in the unit ball. OUT.npz gets the mean log-likelihood of test rows and
the seconds of the fit. d3p's mixture has diagonal covariances. Rows are scaled by a public factor, sqrt(d),
to suit d3p's standard priors. The noise is for the substitute relation, from d3p's own accountant. Learning
rates of 0.005, 0.02 (chosen) and 0.05 and clipping norms of 0.5, 2 (chosen) and 10 were tried on a generated
data set; D3P_RATE, D3P_EPOCHS, D3P_BATCH and D3P_CLIP set others.
"""

import os
import sys
import time

import d3p.random
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from d3p.dputil import approximate_sigma
from d3p.gmm import GaussianMixture
from d3p.minibatch import subsample_batchify_data
from d3p.svi import DPSVI
from numpyro.infer import Trace_ELBO
from numpyro.infer.autoguide import AutoDelta
from numpyro.optim import Adam

RATE, EPOCHS, BATCH, CLIP = (
    float(os.environ.get(f"D3P_{name}", usual))
    for name, usual in (("RATE", 0.02), ("EPOCHS", 30), ("BATCH", 0.02), ("CLIP", 2.0))
)


def main():
    """Fit and score."""
    source, k, epsilon, delta, seed, out = sys.argv[1:]
    k, epsilon, delta, seed = int(k), float(epsilon), float(delta), int(seed)
    with np.load(source) as rows:
        fit, test = rows["fit"], rows["test"]
    n, d = fit.shape
    widen = np.sqrt(d)
    fit, test = fit * widen, test * widen

    def model(rows, num_obs_total=n):
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(k)))
        means = numpyro.sample("means", dist.Normal(0.0, 1.0).expand((k, d)).to_event(2))
        scales = numpyro.sample("scales", dist.LogNormal(-1.0, 1.0).expand((k, d)).to_event(2))
        with numpyro.plate("rows", num_obs_total, subsample_size=len(rows)):
            numpyro.sample("row", GaussianMixture(means, scales, weights), obs=rows)

    numpyro.util.set_rng_seed(seed)
    started = time.perf_counter()
    steps = round(EPOCHS / BATCH)
    sigma, _, _ = approximate_sigma(epsilon, delta, BATCH, steps, force_smaller=True)
    start = {"means": jax.random.normal(jax.random.PRNGKey(seed), (k, d)) * 0.5}
    guide = AutoDelta(model, init_loc_fn=numpyro.infer.init_to_value(values=start))
    svi = DPSVI(model, guide, Adam(RATE), Trace_ELBO(), CLIP, sigma, num_obs_total=n)
    begin, draw = subsample_batchify_data((fit,), q=BATCH)
    _, batches = begin(d3p.random.PRNGKey(seed))
    state = svi.init(d3p.random.PRNGKey(seed + 1), *draw(0, batches))

    @jax.jit
    def step(i, state):
        return svi.update(state, *draw(i, batches))[0]

    for i in range(steps):
        state = step(i, state)
    found = guide.median(svi.get_params(state))
    seconds = time.perf_counter() - started
    density = GaussianMixture(found["means"], found["scales"], found["weights"])
    score = float(np.mean(density.log_prob(test))) + d * np.log(widen)
    np.savez(out, score=score, seconds=seconds, sigma=sigma)


if __name__ == "__main__":
    main()
