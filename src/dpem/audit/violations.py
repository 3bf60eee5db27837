"""Violations that an audit finds: checks of one run, of repeated runs, and of runs on neighbouring tables."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpem.audit.observation import flattened
from dpem.privacy.accountants import GdpAccountant
from dpem.privacy.events import ComposedEvent, LaplaceEvent
from dpem.privacy.mechanisms import GaussianMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.audit.observation import Observation
    from dpem.gate.recording import RecordedRelease

__all__ = ["SLACK", "Violation", "compare", "forked_noise_violations", "noise_violations", "spend_violations"]

# Sensitivities are rounded up, but lengths of differences are computed in floats.
SLACK = 1e-12
# A correct mechanism fails a check with this probability.
_UNLIKELY = 1e-12
_SHARED = 8  # entries of two noise vectors that agree by chance less than once in 10^12
_LOW_BITS = 3
_FEW = 32  # smallest number of entries for comparing a release with itself
_AGREEMENT = 0.01  # in standard deviations


@dataclass(frozen=True)
class Violation:
    """One violation of the guarantee.

    Attributes
    ----------
    check : str
        Failed check: ``"sequence"``, ``"question"``, ``"sensitivity"``, ``"noise"``, ``"distance"``,
        ``"output"``, ``"spend"``, ``"grid"``, ``"bits"``, ``"order"`` or ``"ledger"``.
    where : str
        Stage, or name of the output. Never a value.
    detail : str
        Description of the violation.

    Examples
    --------
    >>> print(Violation("distance", "grid", "a distance of at most 1"))
    distance: grid: a distance of at most 1
    """

    check: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: {self.detail}"


def compare(one: Observation, other: Observation) -> list[Violation]:
    """Return the differences between two runs on neighbouring tables with the same noisy values."""
    found = []
    for a, b in zip(one.releases, other.releases, strict=False):
        if a.stage != b.stage or a.raw.shape != b.raw.shape:
            break
        asked = [flattened([release.statistic, release.grid], declared=True) for release in (a, b)]
        if asked[0] != asked[1]:
            found.append(Violation("question", a.stage, "the choice of the statistic depends on rows"))
        if a.sensitivity != b.sensitivity:
            found.append(Violation("sensitivity", a.stage, "the sensitivity depends on rows"))
        if a.event != b.event:
            found.append(Violation("noise", a.stage, "the size of the noise depends on rows"))
        ratio = a.distance(b)
        if not ratio <= 1 + SLACK:
            found.append(Violation("distance", a.stage, f"rows change it by {ratio:.6g} sensitivities"))
    stages = [[release.stage for release in run.releases] for run in (one, other)]
    if stages[0] != stages[1]:
        found.append(Violation("sequence", "releases", "the sequence of releases depends on rows"))
    found += [
        Violation("output", name, "it differs between neighbours although all releases were the same")
        for name in sorted(one.seen.keys() | other.seen.keys())
        if one.seen.get(name) != other.seen.get(name)
    ]
    return found


def spend_violations(run: Observation) -> list[Violation]:
    """Return a violation if the recorded releases cost more than the statement says."""
    statement = run.statement
    if statement is None or statement.event is None:
        return [Violation("spend", "statement", "the result has no privacy statement")]
    if not run.releases:
        return []
    accountant = GdpAccountant()
    spent = accountant.mu_squared(ComposedEvent(tuple((release.event, 1) for release in run.releases)))
    if spent > accountant.mu_squared(statement.event):
        return [Violation("spend", "releases", "they cost more than the statement's events")]
    return []


def noise_violations(runs: Sequence[Observation]) -> list[Violation]:
    """Return violations: recorded noise is too small for its event, not an integer, or used more than once.

    Runs are independent recordings of one subject. The test statistic is the sum of squares (for Laplace
    noise, of absolute values), which is too small by chance once in 10^12 checks. The test allows for
    rounding, which changes an entry by at most half a unit.
    """
    found = []
    noises = [[release.noisy - release.raw for release in run.releases] for run in runs]
    releases = [release for run in runs for release in run.releases]
    flat = [noise for run in noises for noise in run]
    by_stage: dict[str, list[tuple[RecordedRelease, NDArray[np.float64]]]] = {}
    for release, noise in zip(releases, flat, strict=True):
        by_stage.setdefault(release.stage, []).append((release, noise))
        if not np.array_equal(release.noisy, np.rint(release.noisy)):
            found.append(Violation("grid", release.stage, "released values are not on the integer grid"))
    for stage, drawn in by_stage.items():
        if _chance_of_so_little(drawn) < _UNLIKELY:
            found.append(Violation("noise", stage, "the noise is smaller than its event says"))
    if _chance_of_low_bits(list(zip(releases, flat, strict=True))) < _UNLIKELY:
        found.append(Violation("bits", "all releases", "low bits of the noise are not uniform"))
    if releases and _chance_of_so_little(list(zip(releases, flat, strict=True))) < _UNLIKELY:
        found.append(Violation("noise", "all releases", "the noise is smaller than its events say"))
    for release, noise in zip(releases, flat, strict=True):
        chances = (_chance_of_so_many_repeats(release, noise), _chance_of_such_a_pattern(release, noise))
        if min(chances) < _UNLIKELY:
            found.append(Violation("noise", release.stage, "entries of one release share their noise"))
    for (one, first), (two, second) in combinations(zip(releases, flat, strict=True), 2):
        if _same_noise(first / one.noise_scale, second / two.noise_scale, one, two):
            found.append(Violation("noise", f"{one.stage} and {two.stage}", "the same noise was used twice"))
    return found


def forked_noise_violations() -> list[Violation]:
    """Return a violation if a forked process draws the same noise as its parent."""
    if not hasattr(os, "fork"):
        return []
    mechanism, zeros = GaussianMechanism(1.0, 2.0**40), np.zeros(_SHARED, dtype=np.int64)
    reading, writing = os.pipe()
    with warnings.catch_warnings(
        action="ignore", category=DeprecationWarning
    ):  # about threads, which the child does not use
        child = os.fork()
    if child == 0:
        os.write(writing, mechanism.release(zeros).values.tobytes())
        os._exit(0)
    os.close(writing)
    own = mechanism.release(zeros).values.tobytes()
    with os.fdopen(reading, "rb") as pipe:
        forked = pipe.read()
    os.waitpid(child, 0)
    if len(forked) != len(own) or forked == own:
        return [Violation("noise", "forked processes", "they draw the same noise")]
    return []


def _chance_of_so_little(drawn: Sequence[tuple[RecordedRelease, NDArray[np.float64]]]) -> float:
    """Return the probability of noise this small: the lower tail of a chi-squared or gamma distribution."""
    chance = 1.0
    for laplace in (False, True):
        sizes = [
            (np.abs(noise) + 0.5) / release.noise_scale
            for release, noise in drawn
            if isinstance(release.event, LaplaceEvent) is laplace
        ]
        if not sizes:
            continue
        size = np.concatenate(sizes)
        if laplace:
            chance = min(chance, float(special.gammainc(size.size, size.sum())))
        else:
            chance = min(chance, float(special.chdtr(size.size, (size**2).sum())))
    return chance


def _chance_of_low_bits(drawn: Sequence[tuple[RecordedRelease, NDArray[np.float64]]]) -> float:
    """Return the probability of low bits this uneven; the low bits of wide noise are uniform."""
    wide = [noise[release.noise_scale >= 2.0 ** (_LOW_BITS + 3)] for release, noise in drawn]
    wide = [noise[np.abs(noise) < 2.0**52] for noise in wide]  # larger floats have no low bits
    counts = np.bincount(np.concatenate(wide).astype(np.int64) % 2**_LOW_BITS, minlength=2**_LOW_BITS)
    if counts.sum() < 2 ** (_LOW_BITS + 2):
        return 1.0
    expected = counts.sum() / counts.size
    return float(special.chdtrc(counts.size - 1, ((counts - expected) ** 2).sum() / expected))


def _chance_of_so_many_repeats(release: RecordedRelease, noise: NDArray[np.float64]) -> float:
    """Return the probability of this many agreements in absolute value between independent entries.

    Entries are compared in units of their noise, up to rounding, so that noise drawn once and scaled to
    several shapes agrees with itself, even with opposite signs. The number of chance agreements is nearly
    Poisson.
    """
    wide = (release.noise_scale >= 2.0**8) & (np.abs(noise) < 2.0**52)
    sizes = np.abs(noise[wide]) / release.noise_scale[wide]
    if sizes.size < 2:
        return 1.0
    rounding = 1.0 / release.noise_scale[wide].min()
    agreeing = int((np.diff(np.sort(sizes)) <= rounding).sum())
    # The density at zero of the difference of two absolute values: exponential or half-normal ones.
    density = 0.5 if isinstance(release.event, LaplaceEvent) else 1 / np.sqrt(np.pi)
    expected = sizes.size * (sizes.size - 1) / 2 * 2 * rounding * density
    return float(special.pdtrc(agreeing - 1, expected)) if agreeing else 1.0


def _chance_of_such_a_pattern(release: RecordedRelease, noise: NDArray[np.float64]) -> float:
    """Return a bound on the probability of this much autocorrelation in independent Gaussian entries.

    A sum of m products of independent standard normals exceeds t with probability at most
    exp(-x t) (1 - x^2)^(-m/2), for every x below 1 (Chernoff). This holds for noise of any width.
    """
    if isinstance(release.event, LaplaceEvent) or noise.size < 2 * _FEW:
        return 1.0
    sizes = noise / release.noise_scale
    n = sizes.size
    padded = np.fft.rfft(sizes, 2 * n)
    sums = np.abs(np.fft.irfft(padded * padded.conj(), 2 * n)[1 : n - _FEW + 1])  # by lag
    terms = n - np.arange(1, n - _FEW + 1)
    x = np.linspace(0.01, 0.95, 48)[:, None]
    logarithms = (-x * sums - terms / 2 * np.log1p(-(x**2))).min(axis=0)
    return float(min(1.0, 2 * n * np.exp(logarithms.min())))


def _same_noise(
    first: NDArray[np.float64], second: NDArray[np.float64], one: RecordedRelease, two: RecordedRelease
) -> bool:
    shared = min(first.size, second.size)
    if shared < _SHARED or type(one.event) is not type(two.event):
        return False
    rounding = 0.5 / one.noise_scale[:shared] + 0.5 / two.noise_scale[:shared]
    if rounding.max() > _AGREEMENT:  # noise of a few units agrees by chance
        return False
    return bool((np.abs(first[:shared] - second[:shared]) <= _AGREEMENT + rounding).all())
