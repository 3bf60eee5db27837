"""The integer core, run on symbols: z3 proves its properties for all values in range.

The premises and claims are those of proofs/Totals.v and proofs/Noise.v. So these tests tie the theorems to
the source: a dropped carry or a wrong limit refutes them.
"""

import pytest
import z3

from support.symbolic import SymbolicNumpy, constant, counterexample, definitions

WIDE = 128  # bits in which the integer sum is exact
LIMIT = 2**62 - 1
LARGEST_SUM, MOST_BLOCKS = 2**82, 2**42


def wide(x):
    return z3.SignExt(WIDE - x.size(), x)


def const(value):
    return constant(value, WIDE)


def clipped(x):
    return z3.If(x < const(-LIMIT), const(-LIMIT), z3.If(x > const(LIMIT), const(LIMIT), x))


def totals():
    return definitions("engines/totals.py", "_LOW_BITS", "IntegerTotal")


def symbolic_total(code, name):
    """Return a total, the sum that its limbs stand for, and the premises of `limbs_stand_for_the_sum`."""
    total = code.IntegerTotal(1)
    high, low, n = z3.BitVecs(f"high_{name} low_{name} blocks_{name}", 64)
    total._high, total._low = high, low
    whole = (wide(high) << code._LOW_BITS) + wide(low)
    premises = [n >= 0, n <= MOST_BLOCKS, low >= 0, low <= n << code._LOW_BITS, *in_range(whole)]
    return total, whole, n, premises


def in_range(whole):
    return [whole >= const(-LARGEST_SUM), whole <= const(LARGEST_SUM)]


def stands_for(code, total, whole, n):
    """Return the claim that the limbs of a total of n blocks stand for a sum."""
    return z3.And(
        (wide(total._high) << code._LOW_BITS) + wide(total._low) == whole,
        total._low >= 0,
        total._low <= n << code._LOW_BITS,
    )


@pytest.mark.parametrize("coarse_bits", range(21))
def test_a_value_is_the_clipped_sum_without_low_bits(coarse_bits):
    """`value_is_clipped_sum`: for every sum up to 2^82 of up to 2^42 blocks, whatever the low limb."""
    code = totals()
    assert code._LOW_BITS == 20
    total, whole, _, premises = symbolic_total(code, "")
    claim = wide(total.value(coarse_bits)) == clipped(whole >> coarse_bits)
    assert counterexample(premises, claim) is None


def test_adding_a_block_adds_it_to_the_sum():
    """`limbs_stand_for_the_sum`, for any block of 64 bits."""
    code = totals()
    total, whole, n, premises = symbolic_total(code, "")
    block = z3.BitVec("block", 64)
    total.add(block)
    after = whole + wide(block)
    premises += [n < MOST_BLOCKS, *in_range(after)]
    assert counterexample(premises, stands_for(code, total, after, n + 1)) is None


def test_merging_adds_the_sums():
    """`limbs_stand_for_the_sum`, for two totals of up to 2^42 blocks together."""
    code = totals()
    one, first, n, premises = symbolic_total(code, "one")
    other, second, m, more = symbolic_total(code, "other")
    one.merge(other)
    after = first + second
    premises += [*more, n + m <= MOST_BLOCKS, *in_range(after)]
    assert counterexample(premises, stands_for(code, one, after, n + m)) is None


def test_an_empty_total_is_zero():
    code = totals()
    total = code.IntegerTotal(1)
    zero = z3.BitVecVal(0, WIDE)
    assert counterexample([], stands_for(code, total, zero, z3.BitVecVal(0, 64))) is None


def test_clipping_moves_no_two_values_apart():
    """`clip_contracts`, for the limits of `value` and of the mechanisms."""
    x, y = z3.BitVecs("x y", 64)
    most = definitions("privacy/mechanisms.py", "_LARGEST_STATISTIC")._LARGEST_STATISTIC
    assert most == LIMIT
    moved = wide(SymbolicNumpy.clip(x, -most, most)) - wide(SymbolicNumpy.clip(y, -most, most))
    before = wide(x) - wide(y)
    size = [z3.If(change < 0, -change, change) for change in (moved, before)]
    assert counterexample([], size[0] <= size[1]) is None


def test_a_clipped_statistic_and_its_noise_fit_64_bits():
    """`sum_fits` of proofs/Noise.v."""
    q, noise = z3.BitVecs("q noise", 64)
    premises = [q >= -LIMIT, q <= LIMIT, noise > -(2**62), noise < 2**62]
    assert counterexample(premises, wide(q + noise) == wide(q) + wide(noise)) is None


# -- the noise -----------------------------------------------------------------------------------

FURTHER = 16  # further bits of U


@pytest.mark.parametrize("log2_cell", range(-11, 55))
def test_cells_are_rounded_whatever_further_bits_follow(log2_cell):
    """`round_cells_rounds`: 2^k (V + U) rounded to the nearest integer, for every V of the fast path."""
    code = definitions(
        "privacy/noise.py", "_FRACTION_BITS", "_LARGEST_FAST_V", "_round_cells", _IntOrArray=None
    )
    bits = code._FRACTION_BITS + FURTHER
    v, fraction = z3.BitVecs("v fraction", 64)
    further = z3.BitVec("further", FURTHER)
    magnitude = (
        (wide(v) << bits) + (wide(fraction) << FURTHER) + z3.ZeroExt(WIDE - FURTHER, further)
    )  # (V + U) 2^bits
    down = bits - log2_cell
    nearest = z3.LShR(magnitude + (z3.BitVecVal(1, WIDE) << (down - 1)), down)
    premises = [v >= 0, v <= code._LARGEST_FAST_V, fraction >= 0]
    assert counterexample(premises, wide(code._round_cells(v, fraction, log2_cell)) == nearest) is None
