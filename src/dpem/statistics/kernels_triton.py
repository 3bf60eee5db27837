"""Fused Triton kernels for a GPU: the operations of `kernels_torch` in the same order.

They are compiled without fused multiply-adds and read every constant from memory in float64, so that the bits
agree. Each program processes its own rows and loops over components and columns in order.
"""

# mypy: disable-error-code="assignment, untyped-decorator, no-untyped-def, no-untyped-call"
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl

from dpem.statistics import softmax as exponential
from dpem.statistics.gaussian import PLACES_TOGETHER, RESPONSIBILITY_BITS, ROW_BITS
from dpem.statistics.simple import SQUARED_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpem.statistics.gaussian import FrameMoments

__all__ = ["FEW_COLUMNS", "RUN", "moments", "responsibilities", "responsibilities_of_few"]

_ROWS, _ROWS_OF_FEW = 64, 256  # rows per program of responsibilities; RUN is a multiple of them
# Rows whose moments are summed in float64: a row adds at most 2^42 to an entry, so that sums are exact.
RUN = 2 ** (53 - ROW_BITS)
FEW_COLUMNS = 31  # up to which a program holds all columns of its rows


@triton.jit
def _rounded(x, rounder):
    return (x + rounder) - rounder


@triton.jit
def _long(number):
    """Return a 64-bit integer: components times columns times rows may exceed 2^31."""
    return tl.cast(number, tl.int64)


@triton.jit
def _responsibilities(
    places, checks, offsets, scales, constants, numbers, factors, g, wrong,
    n, n_rows, m, framed, d, groups, POOLED: tl.constexpr, TOGETHER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    held = row < n_rows
    half, rounder, longest = tl.load(numbers), tl.load(numbers + 3), tl.load(numbers + 8)
    zero = tl.zeros([ROWS], dtype=tl.float64)
    largest = zero - float("inf")
    differ = tl.zeros([ROWS], dtype=tl.int32)
    for k in range(m):
        norm = zero
        for q in range(groups):
            whole = zero  # sum of products, which must equal the product with a sum of rows
            for j in tl.range(q * TOGETHER, tl.minimum(q * TOGETHER + TOGETHER, d), loop_unroll_factor=4):
                at = _long(k) * d + j
                place = tl.load(places + at * n_rows + row, mask=held, other=0.0)
                whole = whole + place
                z = (place - tl.load(offsets + at)) * tl.load(scales + at)
                norm = norm + z * z
            expected = tl.load(checks + (_long(k) * groups + q) * n_rows + row, mask=held, other=0.0)
            differ = differ | (whole != expected).to(tl.int32)
        logit = tl.load(constants + k) - half * norm
        tl.store(g + _long(k) * n + row, logit)
        largest = tl.maximum(largest, logit, propagate_nan=tl.PropagateNan.ALL)
        if k < framed:
            factor = _factor(numbers, norm)
            size = zero
            for j in tl.range(0, d, loop_unroll_factor=4):
                at = _long(k) * d + j
                place = tl.load(places + at * n_rows + row, mask=held, other=0.0)
                z = (place - tl.load(offsets + at)) * tl.load(scales + at)
                psi = _rounded(z * factor, rounder)
                size = size + psi * psi
            tl.store(factors + _long(k) * n + row, tl.where(size <= longest, factor, zero))
    tl.store(wrong + tl.program_id(0), tl.max(differ, axis=0))
    _to_responsibilities(g, numbers, row, largest, n, n_rows, m, POOLED, ROWS)


@triton.jit
def _to_responsibilities(g, numbers, row, largest, n, n_rows, m, POOLED: tl.constexpr, ROWS: tl.constexpr):
    """Replace the logits of a program's own rows in `g` by responsibilities times 2^16."""
    smallest, per_octave, rounder = tl.load(numbers + 1), tl.load(numbers + 2), tl.load(numbers + 3)
    high, low = tl.load(numbers + 4), tl.load(numbers + 5)
    one, limit = tl.load(numbers + 6), tl.load(numbers + 7)
    zero = tl.zeros([ROWS], dtype=tl.float64)
    tl.debug_barrier()
    total = zero
    for k in range(m):
        x = tl.load(g + _long(k) * n + row) - largest
        x = tl.maximum(x, smallest, propagate_nan=tl.PropagateNan.ALL)
        shifted = x * per_octave
        shifted = shifted + rounder
        whole = shifted - rounder
        r = x - whole * high
        r = r - whole * low
        series = r * tl.load(numbers + 11)
        series = series + tl.load(numbers + 12)
        for i in range(13, 22):
            series = series * r
            series = series + tl.load(numbers + i)
        power = ((shifted.to(tl.int64, bitcast=True) + 1023) << 52).to(tl.float64, bitcast=True)
        weight = series * power
        tl.store(g + _long(k) * n + row, weight)
        total = total + weight
    tl.debug_barrier()
    size = zero
    for k in range(m):
        share = tl.load(g + _long(k) * n + row) / total
        share = share * one
        near = _rounded(share, rounder)
        if POOLED:
            near = tl.where(near > share, near - 1, near)
            size = size + near
        else:
            size = size + near * near
        tl.store(g + _long(k) * n + row, near)
    tl.debug_barrier()
    good = (size <= limit) & (row < n_rows)
    if tl.min(good.to(tl.int32), axis=0) == 0:  # rare: padding, and rows that are not numbers
        for k in range(m):
            near = tl.load(g + _long(k) * n + row)
            tl.store(g + _long(k) * n + row, tl.where(good, near, zero))


@triton.jit
def _factor(numbers, norm):
    """Return what coordinates in a frame are multiplied by: it clips their norm and changes the unit."""
    clip, per_unit = tl.load(numbers + 9), tl.load(numbers + 10)
    return (clip / tl.maximum(tl.sqrt(norm), clip, propagate_nan=tl.PropagateNan.ALL)) * per_unit


def _on_device(statistic: FrameMoments, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the components and the constants of the kernels, which are copied to the device once."""
    copies = statistic.__dict__.setdefault("_on_device", {})
    if device not in copies:
        c = statistic.components
        values = (c.whitening, c.offsets, c.scales, c.constants, _numbers(statistic))
        copies[device] = tuple(torch.as_tensor(value, device=device) for value in values)
    return tuple(copies[device])


def _numbers(statistic: FrameMoments) -> NDArray[np.float64]:
    """Return the constants of the kernels."""
    one = 2.0**RESPONSIBILITY_BITS
    numbers = [0.5, exponential.SMALLEST, exponential.PER_OCTAVE, exponential.ROUNDER]
    numbers += [exponential.OCTAVE_HIGH, exponential.OCTAVE_LOW, one, one if statistic.pooled else one * one]
    numbers += [4.0**SQUARED_BITS - statistic.count_units**2, statistic.clip, statistic.per_unit]
    return np.array(numbers + list(exponential.TERMS))


def responsibilities(
    statistic: FrameMoments, places: torch.Tensor, checks: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return responsibilities, factors of the coordinates and flags of wrong products.

    The factor of a row with too large a norm is zero. There are responsibilities of zero for missing rows of
    the last run.
    """
    m, d, n_rows = places.shape
    n = n_rows + -n_rows % RUN
    wrong = torch.empty(n // _ROWS, dtype=torch.int32, device=places.device)
    factors, g = (torch.empty((m, n), dtype=torch.float64, device=places.device) for _ in range(2))
    _responsibilities[(n // _ROWS,)](
        places,
        checks,
        *_on_device(statistic, places.device)[1:],
        factors,
        g,
        wrong,
        n,
        n_rows,
        m,
        statistic.n_framed,
        d,
        checks.shape[1],
        POOLED=statistic.pooled,
        TOGETHER=PLACES_TOGETHER,
        ROWS=_ROWS,
        num_warps=1,
        enable_fp_fusion=False,
    )
    return g, factors, wrong


# -- few columns: rows are read once, and only responsibilities and norms are stored ----------------------


@triton.jit
def _responsibilities_of_few(
    rows, whitening, offsets, scales, constants, numbers, factors, g,
    n, n_rows, m, framed, D: tl.constexpr, POOLED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    x = ()
    for i in tl.static_range(D):
        x = x + (tl.load(rows + i * n_rows + row, mask=row < n_rows, other=0.0).to(tl.float64),)  # noqa: RUF005
    half, rounder, longest = tl.load(numbers), tl.load(numbers + 3), tl.load(numbers + 8)
    zero = tl.zeros([ROWS], dtype=tl.float64)
    largest = zero - float("inf")
    for k in range(m):
        norm = zero
        frame = ()
        for j in tl.static_range(D):
            at = k * D + j
            place = zero  # a sum of integers: exact in every order
            for i in tl.static_range(j + 1):
                place = tl.fma(tl.load(whitening + at * D + i), x[i], place)
            z = (place - tl.load(offsets + at)) * tl.load(scales + at)
            norm = norm + z * z
            frame = frame + (z,)  # noqa: RUF005
        logit = tl.load(constants + k) - half * norm
        tl.store(g + _long(k) * n + row, logit)
        largest = tl.maximum(largest, logit, propagate_nan=tl.PropagateNan.ALL)
        if k < framed:
            factor = _factor(numbers, norm)
            size = zero
            for j in tl.static_range(D):
                psi = _rounded(frame[j] * factor, rounder)
                size = size + psi * psi
            tl.store(factors + _long(k) * n + row, tl.where(size <= longest, factor, zero))
    _to_responsibilities(g, numbers, row, largest, n, n_rows, m, POOLED, ROWS)


def responsibilities_of_few(statistic: FrameMoments, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same, without flags, of rows with at most `FEW_COLUMNS` columns."""
    (m, d), n_rows = statistic.components.offsets.shape, rows.shape[1]
    n = n_rows + -n_rows % RUN
    factors, g = (torch.empty((m, n), dtype=torch.float64, device=rows.device) for _ in range(2))
    _responsibilities_of_few[(n // _ROWS_OF_FEW,)](
        rows,
        *_on_device(statistic, rows.device),
        factors,
        g,
        n,
        n_rows,
        m,
        statistic.n_framed,
        D=d,
        POOLED=statistic.pooled,
        ROWS=_ROWS_OF_FEW,
        num_warps=4,
        enable_fp_fusion=False,
    )
    return g, factors


# -- moments ------------------------------------------------------------------------------------------------


@triton.jit
def _psi(place, axis, k, d, offsets, scales, factor, weight, rounder):
    """Return the coordinates of rows in a frame, clipped and rounded, then 1, then zeros, along `axis`.

    The 1 sums counts and first moments.
    """
    real = axis < d
    offset = tl.load(offsets + k * d + axis, mask=real, other=0.0)
    scale = tl.load(scales + k * d + axis, mask=real, other=0.0)
    z = (place - offset[:, None]) * scale[:, None]
    used = real[:, None] & ((weight > 0) & (factor > 0))[None, :]
    psi = tl.where(used, _rounded(z * factor[None, :], rounder), 0.0)
    return tl.where((axis == d)[:, None], 1.0, psi)


@triton.jit
def _moments_of_few(
    rows, whitening, offsets, scales, numbers, factors, g, out,
    n, n_rows, d, SIDE: tl.constexpr, ROWS: tl.constexpr, LENGTH: tl.constexpr,
):  # fmt: skip
    k = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1).to(tl.int64) * LENGTH
    rounder = tl.load(numbers + 3)
    axis = tl.arange(0, SIDE)
    within = (axis < d)[:, None] & (axis < d)[None, :]
    frame = tl.load(whitening + (k * d + axis[:, None]) * d + axis[None, :], mask=within, other=0.0)
    total = tl.zeros([SIDE, SIDE], dtype=tl.float64)
    for start in range(0, LENGTH, ROWS):
        row = first + start + tl.arange(0, ROWS)
        held = (axis < d)[:, None] & (row < n_rows)[None, :]
        x = tl.load(rows + axis[:, None] * n_rows + row[None, :], mask=held, other=0.0).to(tl.float64)
        weight, factor = tl.load(g + k * n + row), tl.load(factors + k * n + row)
        place = tl.dot(frame, x, out_dtype=tl.float64)
        psi = _psi(place, axis, k, d, offsets, scales, factor, weight, rounder)
        total = tl.dot(psi * weight[None, :], tl.trans(psi), total, out_dtype=tl.float64)
    at = (k * SIDE + axis[:, None]) * SIDE + axis[None, :]
    tl.atomic_add(out + at, total.to(tl.int64), sem="relaxed")


@triton.jit
def _moments_of_many(
    places, offsets, scales, numbers, factors, g, pairs, out,
    n, n_rows, d, width, SIDE: tl.constexpr, ROWS: tl.constexpr, LENGTH: tl.constexpr,
):  # fmt: skip
    left, right = tl.load(pairs + 2 * tl.program_id(0)), tl.load(pairs + 2 * tl.program_id(0) + 1)
    k = tl.program_id(1).to(tl.int64)
    first = tl.program_id(2).to(tl.int64) * LENGTH
    rounder = tl.load(numbers + 3)
    up, across = left * SIDE + tl.arange(0, SIDE), right * SIDE + tl.arange(0, SIDE)
    total = tl.zeros([SIDE, SIDE], dtype=tl.float64)
    for start in range(0, LENGTH, ROWS):
        row = first + start + tl.arange(0, ROWS)
        weight, factor = tl.load(g + k * n + row), tl.load(factors + k * n + row)
        held = row < n_rows
        at = places + (k * d + up[:, None]) * n_rows + row[None, :]
        place = tl.load(at, mask=(up < d)[:, None] & held[None, :], other=0.0)
        psi = _psi(place, up, k, d, offsets, scales, factor, weight, rounder)
        other = psi
        if left != right:
            at = places + (k * d + across[:, None]) * n_rows + row[None, :]
            place = tl.load(at, mask=(across < d)[:, None] & held[None, :], other=0.0)
            other = _psi(place, across, k, d, offsets, scales, factor, weight, rounder)
        total = tl.dot(psi * weight[None, :], tl.trans(other), total, out_dtype=tl.float64)
    at = out + (k * width + up[:, None]) * width + across[None, :]
    tl.atomic_add(at, total.to(tl.int64), sem="relaxed")


def moments(
    statistic: FrameMoments,
    rows: torch.Tensor,
    places: torch.Tensor | None,
    factors: torch.Tensor,
    g: torch.Tensor,
) -> torch.Tensor:
    """Return sums of g (psi, 1) (psi, 1)', (k, d + 1, d + 1) integers, of which the upper triangle counts.

    Each program sums a component, or a square of it, over `RUN` rows, with products that are exact in
    float64, and adds the result to 64-bit integers. `places` are needed for more than `FEW_COLUMNS` columns.
    """
    k, d, n = statistic.n_framed, statistic.n_columns, g.shape[1]
    whitening, offsets, scales, _, numbers = _on_device(statistic, g.device)
    frames = offsets, scales, numbers, factors, g
    side = 16 if d < 16 else 32 if d < 32 else 64
    squares = -(-(d + 1) // side)
    out = torch.zeros((k, squares * side, squares * side), dtype=torch.int64, device=g.device)
    options = {"SIDE": side, "LENGTH": RUN, "enable_fp_fusion": False}
    if places is None:
        _moments_of_few[(k, n // RUN)](
            rows, whitening, *frames, out, n, rows.shape[1], d, ROWS=32, num_warps=side // 16, **options
        )
    else:
        pairs = torch.triu_indices(squares, squares, device=g.device, dtype=torch.int32).T.contiguous()
        _moments_of_many[(len(pairs), k, n // RUN)](
            places, *frames, pairs, out, n, rows.shape[1], d, squares * side, ROWS=16, num_warps=4, **options
        )
    return out[:, : d + 1, : d + 1]
