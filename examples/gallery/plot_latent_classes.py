"""
Latent classes of answers
=========================

A latent class model groups people by their answers to questions with a few
categories. It publishes the share of each class, and the probability of each answer
in each class.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpem

# %%
# 10,000 generated people answered six yes/no questions. Half of them have no
# complaint, a third have a cold, and the others have an allergy.

symptoms = ["cough", "fever", "headache", "sore throat", "itchy eyes", "rash"]
truth = np.array(
    [
        [0.05, 0.02, 0.15, 0.05, 0.05, 0.03],
        [0.85, 0.60, 0.70, 0.80, 0.10, 0.04],
        [0.40, 0.03, 0.30, 0.20, 0.90, 0.50],
    ]
)
rng = np.random.default_rng(0)
kind = rng.choice(3, size=10_000, p=[0.5, 0.33, 0.17])
survey = pd.DataFrame(
    np.where(rng.random((10_000, 6)) < truth[kind], "yes", "no"), columns=symptoms
)

# %%
# Fit
# ---
#
# The schema declares the categories of each column. A cell that is neither "yes"
# nor "no" would count as "no".

answer = {"kind": "categorical", "categories": ["no", "yes"], "outside": "no"}
schema = dpem.Schema(dict.fromkeys(symptoms, answer))
model = dpem.CategoricalMixture(
    3, epsilon=1.0, delta=1e-6, schema=schema, random_state=0
).fit(survey)

# %%
# Look
# ----
#
# Classes have no order, so the table sorts them by their share. Everything in the
# table and in the picture is released.

order = np.argsort(-model.weights_)
found = pd.DataFrame(
    [table[order, 1] for table in model.probabilities_], index=symptoms
)
found.columns = [f"class {k + 1}" for k in order]
found.loc["share of people"] = model.weights_[order]
print(found.round(2))

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4), width_ratios=[1, 3.4], layout="constrained"
)
dpem.plot.weights(model, ax=left)
left.set_title("share of people")
dpem.plot.profiles(model, ax=right)
right.set_title("profile of each class")
plt.show()

# %%
# The rows are generated, so the classes behind them are known. The largest error of
# a probability:

planted = truth[
    [
        np.abs(found.iloc[:6, j].to_numpy() - truth).sum(axis=1).argmin()
        for j in range(3)
    ]
].T
print(f"{np.abs(found.iloc[:6].to_numpy() - planted).max():.3f}")
