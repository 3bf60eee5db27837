r"""Samplers of rounded Gaussian and rounded Laplace noise with exact distributions.

For an integer statistic q, ``q + round(Y) = round(q + Y)``, where Y is the continuous noise. The released
integer is therefore post-processing of the continuous mechanism, and its accounting applies unchanged.
Floating-point samplers do not have that property: the gaps between floats reveal q
(docs/background/known-vulnerabilities.md).

A draw works as follows, Eq. (N-1) (proof: docs/proofs/noise.md). Write ``|Y| = t (V + U)``, where t is a
power of two near the scale, V a geometric integer with ``P(V >= v) = e^-v``, and U uniform on [0, 1). Accept
with probability ``e^-x``:

=========  =====================================  ===============
law        exponent x, with ratio r = t / scale   t
=========  =====================================  ===============
Gaussian   ``(r (V + U) - 1/r)^2 / 2 + U``        nearest scale
Laplace    ``(r - 1) V + r U``                    at least scale
=========  =====================================  ===============

Since t is a power of two, rounding ``|Y|`` only shifts bits of U. Every comparison of a random number with a
real number uses leading bits and a certified margin. In the rare case that the margin does not decide,
further bits are drawn, and the comparison is made in rational arithmetic. The distribution is therefore
exact, given uniform bits, IEEE arithmetic, and an ``exp`` with relative error below 2^-32.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpem import _validate
from dpem.privacy.randomness import EntropySource, entropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["LARGEST_SCALE", "SMALLEST_SCALE", "rounded_gaussian", "rounded_laplace"]

SMALLEST_SCALE = 2.0**-10
LARGEST_SCALE = 2.0**54

# One attempt uses 16 bytes: a sign and 63 bits of U, 32 bits for V, 32 bits for the acceptance.
_FRACTION_BITS = 63
_WORD_BITS = 32
_ATTEMPTS_PER_BLOCK = 1 << 15  # fits the processor's cache
# The fast path decides if the numbers differ by this relative margin; its own error is below 2^-40 for V < 16
# (docs/proofs/noise.md, Lemma 3).
_MARGIN = 2.0**-30
_LARGEST_FAST_V = 15

_Number = TypeVar("_Number", float, Fraction, "NDArray[np.float64]")


# ---------------------------------------------------------------------------------------------------
# Public samplers
# ---------------------------------------------------------------------------------------------------


def rounded_gaussian(
    noise_stddev: float, size: int, source: EntropySource | None = None
) -> NDArray[np.int64]:
    """Draw independent integers ``round(noise_stddev * Z)``, Z standard normal, exactly.

    Parameters
    ----------
    noise_stddev : float
        Standard deviation of the continuous noise, in grid units, from 2^-10 to 2^54.
    size : int
        Number of draws.
    source : EntropySource, optional
        The source of random bits; by default the current source, usually the operating system.

    Examples
    --------
    >>> rounded_gaussian(1e6, 4).dtype
    dtype('int64')
    """
    stddev = check_scale(noise_stddev, "noise_stddev")
    return _draw(_Law(stddev, round(math.log2(stddev)), _gaussian_exponent), size, source)


def rounded_laplace(noise_scale: float, size: int, source: EntropySource | None = None) -> NDArray[np.int64]:
    """Draw independent integers ``round(noise_scale * L)``, L standard Laplace, exactly.

    Parameters
    ----------
    noise_scale : float
        Scale b of the density ``exp(-|y| / b) / 2b``, in grid units, from 2^-10 to 2^54.
    size : int
        Number of draws.
    source : EntropySource, optional
        The source of random bits; by default the current source, usually the operating system.

    Examples
    --------
    >>> rounded_laplace(2.5, 4).shape
    (4,)
    """
    scale = check_scale(noise_scale, "noise_scale")
    mantissa, exponent = math.frexp(scale)  # scale = mantissa * 2^exponent, 1/2 <= mantissa < 1
    return _draw(_Law(scale, exponent - (mantissa == 0.5), _laplace_exponent), size, source)


def check_scale(value: float, name: str) -> float:
    """Validate a noise scale and return it; call this before anything is charged."""
    remedy = "Change the grid of the statistic so that its noise is within these limits."
    scale = _validate.positive(value, name, remedy)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise _validate.fail(f"{name} from 2^-10 to 2^54 in grid units", name, value, remedy)
    return scale


# ---------------------------------------------------------------------------------------------------
# The two distributions
# ---------------------------------------------------------------------------------------------------


def _gaussian_exponent(v: _Number, u: _Number, ratio: _Number) -> _Number:
    # (r(V+U) - 1/r)^2 / 2 + U = |Y|^2 / (2 scale^2) - V + const: times the proposal's e^-V, this is the
    # target.
    deviation = ratio * (v + u) - 1 / ratio
    return deviation * deviation / 2 + u


def _laplace_exponent(v: _Number, u: _Number, ratio: _Number) -> _Number:
    # (r - 1) V + r U = |Y| / scale - V.
    return (ratio - 1) * v + ratio * u


@dataclass(frozen=True)
class _Law:
    """A symmetric distribution on the line; its exponent is non-negative and increasing in u."""

    scale: float
    log2_cell: int  # t = 2^log2_cell
    exponent: Callable[..., Any]  # (v, u, ratio) as floats, arrays or fractions

    @property
    def ratio(self) -> Fraction:
        return Fraction(2) ** self.log2_cell / Fraction(self.scale)


# ---------------------------------------------------------------------------------------------------
# Fast path: whole blocks of attempts
# ---------------------------------------------------------------------------------------------------


def _draw(law: _Law, size: int, source: EntropySource | None) -> NDArray[np.int64]:
    size = _validate.integer(size, "size", minimum=0)
    source = source or entropy()
    draws = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # At least 31 % of attempts succeed; a few too many attempts cost less than another iteration.
        attempts = min(16 + 5 * (size - filled) // 2, _ATTEMPTS_PER_BLOCK)
        accepted = _attempt(law, attempts, source)[: size - filled]
        draws[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return draws


def _attempt(law: _Law, attempts: int, source: EntropySource) -> NDArray[np.int64]:
    """Make independent attempts and return the draws of the successful ones, in order."""
    raw = source.draw(16 * attempts)
    sign_and_fraction = np.frombuffer(raw, "<u8", attempts)
    words = np.frombuffer(raw, "<u4", 2 * attempts, offset=8 * attempts)
    v_word, coin = words[:attempts], words[attempts:]
    fraction = sign_and_fraction & np.uint64(2**_FRACTION_BITS - 1)

    # V = #{j >= 1 : W < e^-j} for the uniform W that begins with v_word.
    v = np.zeros(attempts, dtype=np.int64)
    for threshold in _E_POWERS[:-1]:
        v += v_word < threshold
    unsure = (v_word == _E_POWERS[v]) | (v > _LARGEST_FAST_V)

    u = fraction * 2.0**-_FRACTION_BITS
    exponent: NDArray[np.float64] = law.exponent(v.astype(np.float64), u, float(law.ratio))
    accept_below = np.exp(np.negative(exponent)) * 2.0**_WORD_BITS
    accepted = coin + 1.0 <= accept_below * (1 - _MARGIN)
    unsure |= ~accepted & (coin < accept_below * (1 + _MARGIN))
    accepted &= ~unsure

    magnitude = _round_cells(v, fraction.astype(np.int64), law.log2_cell)
    for i in np.flatnonzero(unsure):
        exact = _decide_exactly(law, int(fraction[i]), int(v_word[i]), int(coin[i]), source)
        if exact is not None:
            magnitude[i], accepted[i] = exact, True

    negative = sign_and_fraction[accepted] >> np.uint64(_FRACTION_BITS) != 0
    result: NDArray[np.int64] = magnitude[accepted]
    np.negative(result, out=result, where=negative)
    return result


_IntOrArray = TypeVar("_IntOrArray", int, "NDArray[np.int64]")


def _round_cells(v: _IntOrArray, fraction: _IntOrArray, log2_cell: int) -> _IntOrArray:
    """Round ``|Y| = 2^log2_cell (V + U)`` to the nearest integer: ``(floor(2|Y|) + 1) >> 1``.

    Bits of U beyond the 63 known ones do not matter. For cells of at least one half, floor(2|Y|) depends on
    at most 55 bits of U; for smaller cells it depends on V only, since U < 1.
    """
    shift = log2_cell + 1
    halves = (fraction >> _FRACTION_BITS - shift) + (v << shift) if shift >= 0 else v >> -shift
    return (halves + 1) >> 1


# ---------------------------------------------------------------------------------------------------
# Exact path: one attempt in rational arithmetic
# ---------------------------------------------------------------------------------------------------


class _LazyUniform:
    """A uniform real number in [0, 1) with known leading bits; further bits are drawn on demand."""

    def __init__(self, numerator: int, bits: int) -> None:
        self._numerator, self.bits = numerator, bits

    def refine(self, source: EntropySource) -> None:
        self._numerator = self._numerator << 64 | int.from_bytes(source.draw(8), "little")
        self.bits += 64

    @property
    def low(self) -> Fraction:
        return Fraction(self._numerator, 1 << self.bits)

    @property
    def high(self) -> Fraction:
        return Fraction(self._numerator + 1, 1 << self.bits)


def _decide_exactly(
    law: _Law, fraction: int, v_word: int, coin_word: int, source: EntropySource
) -> int | None:
    """Finish one attempt from its bits; return the rounded magnitude, or None if it is rejected."""
    u = _LazyUniform(fraction, _FRACTION_BITS)
    w = _LazyUniform(v_word, _WORD_BITS)
    coin = _LazyUniform(coin_word, _WORD_BITS)

    v = 0
    while (below := _below_exp(w, Fraction(v + 1), Fraction(v + 1))) is not False:
        if below is None:
            w.refine(source)
        else:
            v += 1

    while True:
        least, most = (law.exponent(v, bound, law.ratio) for bound in (u.low, u.high))
        accepted = _below_exp(coin, least, most)
        if accepted is not None:
            return _round_cells(v, fraction, law.log2_cell) if accepted else None
        coin.refine(source)
        u.refine(source)


def _below_exp(uniform: _LazyUniform, least: Fraction, most: Fraction) -> bool | None:
    """Whether ``uniform < e^-x`` for an x between `least` and `most`; None if more bits are needed."""
    lower, upper = _exp_bounds(least, most, uniform.bits)
    if uniform.high <= lower:
        return True
    if uniform.low >= upper:
        return False
    return None


def _exp_bounds(least: Fraction, most: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return rational bounds ``(<= e^-most, >= e^-least)``, tight to more than `bits` bits.

    The decimal module's `exp` is correctly rounded, so that one step outwards gives a bound.
    """
    up = _decimal_context(bits // 3 + 12, decimal.ROUND_CEILING)
    down = _decimal_context(bits // 3 + 12, decimal.ROUND_FLOOR)
    largest = up.divide(decimal.Decimal(most.numerator), decimal.Decimal(most.denominator))
    smallest = down.divide(decimal.Decimal(least.numerator), decimal.Decimal(least.denominator))
    lower = down.next_minus(down.exp(largest.copy_negate()))
    upper = up.next_plus(up.exp(smallest.copy_negate()))
    return Fraction(lower), Fraction(upper)


def _decimal_context(digits: int, rounding: str) -> decimal.Context:
    """Return a separate context, so that the caller's traps and limits do not affect a draw."""
    return decimal.Context(
        prec=digits, rounding=rounding, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[]
    )


# floor(2^32 e^-j) for j = 1, 2, ... A smaller 32-bit word is surely below e^-j, a larger one surely above,
# and an equal one is undecided. The last entry only closes the table.
_E_POWERS = np.array(
    [
        math.floor(_exp_bounds(Fraction(j), Fraction(j), 128)[0] * 2**_WORD_BITS)
        for j in range(1, _LARGEST_FAST_V + 3)
    ],
    dtype=np.uint32,
)
