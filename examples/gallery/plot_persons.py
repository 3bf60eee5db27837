"""
Several rows per person
=======================

In a table of visits, a patient has several rows. Protecting one visit does not
protect the patient. With ``person`` and ``rows_per_person=m``, the guarantee covers
a whole person: dpem keeps m rows of each person, and the noise grows with m.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpem

# %%
# 60,000 generated visits of some 30,000 patients. Most patients come once or twice,
# and a few come often.

rng = np.random.default_rng(0)
visits_of = rng.geometric(0.5, 30_000)
patient = np.repeat(np.arange(30_000), visits_of)
visits = pd.DataFrame(
    {
        "patient": patient,
        "age": rng.normal(60, 15, 30_000)[patient].clip(0, 120),
        "stay": rng.exponential(6, len(patient)).clip(0, 90),
    }
)

# %%
# Fit with five caps
# ------------------
#
# The number of visits per patient must be public knowledge or a guess. Only because
# these rows are generated may the example try several caps.

kept, noise, caps = [], [], (1, 2, 3, 5, 8)
for m in caps:
    model = dpem.GaussianMixture(
        1,
        epsilon=1.0,
        delta=1e-6,
        bounds=([0, 0], [120, 90]),
        person="patient",
        rows_per_person=m,
    ).fit(visits)
    kept.append(model.n_rows_ / len(visits))
    noise.append(model.standard_errors_["means"][0, 0])
    print(
        f"m = {m}: {kept[-1]:>4.0%} of rows, standard error {noise[-1]:.3f} years"
    )

# %%
# Look
# ----
#
# A larger m keeps more rows at first, and then only adds noise. Here one or two
# rows per patient are enough.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.bar(range(len(caps)), kept, color="C0")
left.set_xticks(range(len(caps)), caps)
left.set(
    title="rows that are kept",
    xlabel="rows per person, m",
    ylabel="share of all visits",
    ylim=(0, 1),
)
right.bar(range(len(caps)), noise, color="C1")
right.set_xticks(range(len(caps)), caps)
right.set(
    title="noise in the mean age",
    xlabel="rows per person, m",
    ylabel="standard error (years)",
)
plt.show()

# %%
# The statement
# -------------
#
# The privacy statement names the unit that is protected.

print(textwrap.fill(model.privacy_.neighbours, 80))
