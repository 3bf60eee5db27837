"""
An attack on one's own fit
==========================

An audit attacks a fit as an adversary would, and looks for a violation of the
guarantee. It can refute a claim, never prove one. This example attacks k-means in
two ways.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpem

# %%
# Replay
# ------
#
# The first attack repeats a fit on neighbouring tables with the same noisy values.
# Every exact sum may then differ by at most its sensitivity, and everything else
# that can be seen must be the same bits.

rng = np.random.default_rng(0)
rows = rng.normal(
    0, 0.1, size=(100, 2)
)  # generated: an audit looks behind the noise


def model(epsilon):
    return dpem.KMeans(
        2, epsilon=epsilon, data_norm=1.0, adjacency="add_remove", max_iter=2
    )


print(dpem.audit.replay(model(1.0), rows, hostile=4, search=10))

# %%
# A game
# ------
#
# In the second attack, the adversary knows all rows but one, sees every release of
# a fit, and guesses whether this row was in the table. The adversary plays 80
# games in each case, at three epsilons.

with_canary = np.vstack([rows, [[0.0, -1.0]]])
runs = 80
games = [
    dpem.audit.distinguish(model(epsilon), rows, with_canary, runs=runs)
    for epsilon in (1.0, 4.0, 16.0)
]
print("epsilon  wrong guesses  mu shown  mu claimed")
for game in games:
    wrong = (game.false_alarms + game.misses) / (2 * runs)
    claim, shown = game.claim, max(game.mu_lower, 0)
    print(f"{claim.epsilon:<8g} {wrong:>13.0%} {shown:>9.2f} {claim.mu:>11.2f}")

# %%
# Look
# ----
#
# The curves are what the guarantee promises: no attack gets below the curve of its
# epsilon, except by chance. The dots are the attacks, with bars of two standard
# errors. A dot near its curve says that little noise is wasted.

figure, ax = plt.subplots(figsize=(6, 5.5), layout="constrained")
dpem.plot.trade_off([game.claim.epsilon for game in games], ax=ax)
for curve, game in zip(ax.get_lines(), games, strict=False):
    rates = np.array([game.false_alarms, game.misses]) / runs
    bars = 2 * np.sqrt(rates * (1 - rates) / runs)
    ax.errorbar(*rates, bars[1], bars[0], fmt="o", color=curve.get_color())
ax.set_title("misses and false alarms of an attack, beside the limits")
plt.show()
