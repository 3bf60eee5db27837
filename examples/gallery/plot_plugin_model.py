"""
A model of your own
===================

A model that dpem does not have is one class with three methods: a start, an E-step
and an M-step. dpem adds the privacy: clipping, noise, charge and statement. This
example writes a mixture of two straight lines, for a drug that works for some
patients only.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpem

# %%
# The model
# ---------
#
# A row is a dose and an effect, both between 0 and 1. ``expected_statistics`` is
# the E-step of one row: the moments that a regression needs, times the probability
# of each line. ``m_step`` gets the sum over all rows with noise, and solves both
# regressions.


class TwoLines(dpem.ExponentialFamily):
    """A mixture of two linear regressions of effect on dose."""

    nonnegative = True  # a certificate: no entry of the statistics is negative

    def start(self, schema, random_state, centres):
        return {
            "weights": np.full(2, 0.5),
            "lines": np.array([[0.3, 0.0], [0.3, 0.3]]),
            "spread": 0.1,
        }

    def log_joint(self, row, parameters):
        residuals = row[1] - parameters["lines"] @ np.array([1.0, row[0]])
        return (
            np.log(parameters["weights"] / parameters["spread"])
            - (residuals / parameters["spread"]) ** 2 / 2
        )

    def expected_statistics(self, row, parameters):
        joint = self.log_joint(row, parameters)
        g = np.exp(joint - np.logaddexp.reduce(joint))
        dose, effect = row
        moments = np.array([1.0, dose, dose**2, effect, dose * effect, effect**2])
        return np.outer(g, moments).ravel()

    def m_step(self, statistics, parameters, n_rows, noise):
        n, x, xx, y, xy, yy = statistics.reshape(2, 6).T
        gram = np.array([[n, x], [x, xx]]).transpose(2, 0, 1) + noise * np.eye(2)
        lines = np.linalg.solve(gram, np.stack([y, xy], axis=1)[..., None])[..., 0]
        explained = lines[:, 0] * y + lines[:, 1] * xy
        spread = np.sqrt(np.clip((yy - explained).sum() / n_rows, 0.03**2, 1))
        counts = np.maximum(n, 1.0)
        return {
            "weights": counts / counts.sum(),
            "lines": np.clip(lines, -2, 2),
            "spread": spread,
        }

    def norm_bound(self, schema):
        return np.sqrt(6)  # six moments, each at most 1; the probabilities sum to 1

    def log_density(self, row, parameters):
        return (
            np.logaddexp.reduce(self.log_joint(row, parameters))
            - np.log(2 * np.pi) / 2
        )


# %%
# Check and fit
# -------------
#
# ``check_model`` tries the model on generated rows, before anything is charged.
# Then the fit reads 10,000 generated patients; the drug works for four in ten.

rng = np.random.default_rng(0)
dose = rng.random(10_000)
works = rng.random(10_000) < 0.4
effect = (
    0.2 + np.where(works, 0.6, 0.05) * dose + rng.normal(0, 0.05, 10_000)
).clip(0, 1)
rows = np.column_stack([dose, effect])
share = {"kind": "continuous", "bounds": [0, 1]}
schema = dpem.Schema({"dose": share, "effect": share})

dpem.check_model(TwoLines(), schema)
model = dpem.PrivateEM(
    TwoLines(), epsilon=2.0, delta=1e-6, schema=schema, max_iter=8
).fit(rows)
for name, values in model.parameters_.items():
    errors = model.standard_errors_[name]
    print(f"{name}: {np.round(values, 3).tolist()}")
    print(f"    standard errors: {np.round(errors, 3).tolist()}")

# %%
# Look
# ----
#
# The lines are released. The dots are rows, for their owner only.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.plot(*rows[::3].T, ".", color="0.75", markersize=2, label="rows")
for (intercept, slope), weight in zip(
    model.parameters_["lines"], model.parameters_["weights"], strict=True
):
    ax.plot(
        [0, 1],
        [intercept, intercept + slope],
        linewidth=3,
        label=f"released line, {weight:.0%} of the patients",
    )
ax.set(
    title="dose and effect, epsilon 2",
    xlabel="dose",
    ylabel="effect",
    xlim=(0, 1),
    ylim=(0, 1),
)
ax.legend(loc="upper left")
plt.show()
