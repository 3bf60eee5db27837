"""
The factors of a survey
=======================

Factor analysis explains many columns by a few factors. This example finds three
attitudes behind thirty questions that 8,000 generated people answered from 1 to 5.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import FactorAnalysis

import dpem

rng = np.random.default_rng(5)
loadings = (
    np.kron(np.eye(3), np.ones((1, 10))) * 0.8
)  # ten questions for each of three attitudes
answers = rng.normal(size=(8000, 3)) @ loadings + rng.normal(size=(8000, 30)) * 0.7
questions = [f"q{number}" for number in range(1, 31)]
survey = pd.DataFrame((3 + answers).round().clip(1, 5), columns=questions)

# %%
# Fit
# ---
#
# The number of factors that the budget allows follows from public numbers. No row
# is read for it.

schema = dpem.Schema(
    {name: {"kind": "integer", "bounds": [1, 5]} for name in questions}
)
print("factors allowed:", dpem.factors_allowed(8000, 30, epsilon=1.0, delta=1e-6))
model = dpem.FactorAnalysis(
    3, epsilon=1.0, delta=1e-6, schema=schema, random_state=0
).fit(survey)

# %%
# Rotate
# ------
#
# Factors are determined up to a rotation. Rotating released factors is free:
# scikit-learn's varimax runs on rows that were drawn from the model. The lower half
# of the picture shows what varimax finds. Hatched cells in the upper half are
# smaller than their noise.

drawn = model.sample(20_000, random_state=0)
rotated = (
    FactorAnalysis(3, rotation="varimax", random_state=0).fit(drawn).components_
)
rotated *= np.sign(
    rotated.sum(axis=1, keepdims=True)
)  # the sign of a factor is free, too

figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 4.5), layout="constrained")
dpem.plot.loadings(model, ax=upper)
upper.set_title("loadings, as released at epsilon 1")
picture = lower.imshow(rotated, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
lower.set(
    title="the same loadings after varimax", xticks=range(30), yticks=range(3)
)
lower.set_xticklabels(questions, rotation=90)
lower.set_yticklabels(["factor 1", "factor 2", "factor 3"])
figure.colorbar(picture, ax=lower, label="loading")
plt.show()

# %%
# Every question belongs to the factor on which its loading is largest. All three
# groups of ten questions are found.

for number, group in enumerate(
    np.abs(rotated).argmax(axis=0) == np.arange(3)[:, None], start=1
):
    print(f"factor {number}:", *np.array(questions)[group])

# %%
# The factors of single people, ``model.transform(survey)``, are as sensitive as
# their answers.
