"""The paper's sentences, one by one: what was measured, and whether they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpem.reproduce import gowalla, lifesci, motivation, olivetti
from dpem.reproduce.mixtures import COMPOSITIONS, SCENARIOS, as_private
from dpem.reproduce.text import paired

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from dpem.reproduce.datasets import Datasets

__all__ = ["Verdict", "verdicts"]

Found = dict[str, "pd.DataFrame"]
_SURE = 2.0  # standard errors
CLOSE = 0.2  # nats per row
CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Verdict:
    """A sentence of the paper, what was measured of it, and whether it holds."""

    sentence: str
    measured: str
    holds: str


def verdicts(found: Found, data: Datasets) -> list[Verdict]:
    """Return a verdict on every sentence whose experiment was run; of stand-ins, it says so."""
    judged = []
    for name, check in _CHECKS:
        if name in found:
            verdict = check(found, data)
            mark = "" if found[name].is_real.all() else " *On a stand-in, not the paper's data.*"
            judged.append(replace(verdict, sentence=verdict.sentence + mark))
    return judged


def _compare(
    results: pd.DataFrame, pairs: list[tuple[str, str]], column: str, *, sign: float = 1.0
) -> tuple[str, str]:
    """Judge "the first is above the second" over all pairs and epsilons by paired differences."""
    above = below = total = 0
    smallest, largest = np.inf, -np.inf
    for better, worse in pairs:
        table = paired(results, better, worse, column)
        table = table[np.isfinite(table.index.get_level_values("epsilon"))]
        difference = sign * table["mean"]
        above += int((difference > _SURE * table["sem"]).sum())
        below += int((difference < -_SURE * table["sem"]).sum())
        total += len(table)
        smallest, largest = min(smallest, difference.min()), max(largest, difference.max())
    text = (
        f"clearly so in {above}, clearly not in {below} of {total} comparisons "
        f"(differences {smallest:.3g} to {largest:.3g})"
    )
    if above == below == 0:
        return text if total else "not run", CANNOT_TELL
    if below == 0 and above > total / 2:
        return text, "holds"
    return text, "does not hold" if above <= below else "holds in part"


def _both(results: pd.DataFrame, pairs: list[tuple[str, str]]) -> tuple[str, str]:
    """Judge the private forms; say what the text as printed gives."""
    whole = results[results.part == results.part.max()]
    measured, holds = _compare(whole, pairs, "log_likelihood")
    printed = [(f"{a}, as printed", f"{b}, as printed") for a, b in pairs]
    literal, literal_holds = _compare(whole, printed, "log_likelihood")
    return f"{measured}; as printed: {literal} ({literal_holds})", holds


def _ggg_above_llg(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    results = found["lifesci"]
    pairs = {c: [(as_private("GGG", c), as_private("LLG", c))] for c in COMPOSITIONS}
    tight, holds_tight = _both(results, pairs["zcdp"] + pairs["moments"])
    loose, holds_loose = _both(results, pairs["linear"] + pairs["advanced"])
    return Verdict(
        "GGG is above LLG (Life Science).",
        f"zCDP and moments: {tight}: {holds_tight}. Linear and advanced: {loose}: {holds_loose}",
        holds_tight if holds_tight == holds_loose else "holds in part",
    )


def _tight_above_loose(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    pairs = [
        (as_private(s, tight), as_private(s, loose))
        for s in SCENARIOS
        for tight in ("zcdp", "moments")
        for loose in ("linear", "advanced")
    ]
    return Verdict(
        "zCDP and the moments accountant are above linear and advanced composition (Life Science).",
        *_both(found["lifesci"], pairs),
    )


def _zcdp_above_moments(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    results = found["lifesci"]
    least = results.epsilon[
        np.isfinite(results.epsilon) & (results.method == as_private("GGG", "zcdp"))
    ].min()
    pairs = [(as_private(s, "zcdp"), as_private(s, "moments")) for s in SCENARIOS]
    measured, holds = _both(results[results.epsilon == least], pairs)
    return Verdict(
        f"zCDP is above the moments accountant at small epsilon (here {least:g}).",
        f"{measured}. The accountant's lambda is an integer of at most 100; over real orders both are equal "
        f"for Gaussian noise",
        holds,
    )


def _kmeans_below_dplloyd(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    results = found["gowalla"]
    results = results[results.epsilon == gowalla.PAPER_EPSILON]
    measured, holds = _compare(results, [(gowalla.PAPER, gowalla.LINEAR)], "nicv", sign=-1.0)
    printed = [(gowalla.PAPER + gowalla.PRINTED, gowalla.LINEAR + gowalla.PRINTED)]
    literal, literal_holds = _compare(results, printed, "nicv", sign=-1.0)
    return Verdict(
        "The paper's k-means has a smaller NICV than DPLloyd at epsilon 0.01 (Gowalla).",
        f"{measured}; as printed, with exact counts for free: {literal} ({literal_holds})",
        holds,
    )


def _faces(found: Found, data: Datasets) -> Verdict:
    results = found["olivetti"]
    level = olivetti.noise_over_signal(data, 0.3)[0]

    def captured(method: str, epsilon: float | None = None) -> float:
        own = results[results.method == method]
        return float((own if epsilon is None else own[own.epsilon == epsilon]).captured.mean())

    text = captured(olivetti.PAPER, 0.3)
    shown = "not run" if np.isnan(text) else f"{text:.3f}"
    free = captured(olivetti.DATA_FREE)
    measured = (
        f"variance captured, relative to principal components: the text's factors {shown}, images without "
        f"data {free:.3f}, the default {captured(olivetti.OURS, 0.3):.3f}; the text's noise is {level:.0f} "
        f"times what would let one component emerge"
    )
    return Verdict(
        "Faces are recognisable at epsilon 0.3 (Olivetti).",
        measured,
        "does not hold" if level > 1 else "holds",
    )


def _fewer_data(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    """Compare each part of the rows with the next larger one, on the same folds and seeds."""
    results = found["lifesci"]
    own = results[(results.method == lifesci.BEST) & (results.epsilon == lifesci.PARTS_EPSILON)]
    by_part = own.pivot_table(index=["fold", "seed"], columns="part", values="log_likelihood")
    gains = by_part.diff(axis=1).iloc[:, 1:]
    clear = gains.mean() / gains.sem().fillna(np.inf)
    means = ", ".join(f"{value:.2f} with {part:g} of the rows" for part, value in by_part.mean().items())
    if not (clear.abs() > _SURE).any():
        holds = CANNOT_TELL
    elif (clear > _SURE).all():
        holds = "holds"
    else:
        holds = "does not hold" if (clear < -_SURE).sum() >= (clear > _SURE).sum() else "holds in part"
    return Verdict(
        f"Fewer data give a worse fit (GGG zCDP, epsilon {lifesci.PARTS_EPSILON:g}).", means, holds
    )


def _revealed(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    few = found["motivation"]
    few = few[few.data == motivation.FEW]
    plain, plain_low, plain_high = motivation.attack(few[few.method == motivation.PLAIN])
    ours, low, high = motivation.attack(few[few.method == motivation.OURS])
    limit = motivation.most_possible()
    if plain_low > limit and low <= limit:
        holds = "holds"
    else:
        holds = "does not hold" if plain_high < limit or low > limit else CANNOT_TELL
    return Verdict(
        "Plain EM reveals one person, private EM does not (the motivating figure).",
        f"an attacker is right in {plain:.1%} against plain EM, in {ours:.1%} ({low:.1%} to {high:.1%}) "
        f"against `dpem`; 50 % is guessing, {limit:.1%} what Gaussian noise allows at epsilon "
        f"{motivation.EPSILON:g}",
        holds,
    )


def _close(found: Found, data: Datasets) -> Verdict:  # noqa: ARG001
    results = found["motivation"]
    means = results[results.fold == motivation.WITH].groupby(["data", "method"]).log_likelihood.mean()
    gaps = {
        which: {
            m: means[which, motivation.PLAIN] - means[which, m] for m in (motivation.PAPER, motivation.OURS)
        }
        for which in (motivation.FEW, motivation.MANY)
    }
    paper, ours = ([gaps[w][m] for w in gaps] for m in (motivation.PAPER, motivation.OURS))
    return Verdict(
        "With 50 times the data the private fit is close to the plain one (the motivating figure).",
        f"nats below plain EM per fresh person, 104 and 5,200 people: the paper's {paper[0]:.2f} and "
        f"{paper[1]:.2f}, `dpem` {ours[0]:.2f} and {ours[1]:.2f} (close: less than {CLOSE:g})",
        "holds" if paper[1] < CLOSE else "holds in part" if paper[1] < paper[0] else "does not hold",
    )


_CHECKS: list[tuple[str, Callable[[Found, Datasets], Verdict]]] = [
    ("motivation", _revealed),
    ("motivation", _close),
    ("lifesci", _ggg_above_llg),
    ("lifesci", _tight_above_loose),
    ("lifesci", _zcdp_above_moments),
    ("lifesci", _fewer_data),
    ("gowalla", _kmeans_below_dplloyd),
    ("olivetti", _faces),
]
