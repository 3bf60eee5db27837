"""Fused Triton kernels for a GPU: the operations of `kernels_torch` in the same order.

They are compiled without fused multiply-adds and read every constant from memory in float64, so that the bits
agree. Each program processes its own rows and loops over components and columns in order.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl

from dpem.data.device_grid import on_device
from dpem.statistics import softmax as exponential
from dpem.statistics.gaussian import CHECKED_TOGETHER, EXACT_ROWS, PLACES_TOGETHER, RESPONSIBILITY_BITS
from dpem.statistics.simple import SQUARED_BITS

if TYPE_CHECKING:
    from dpem.statistics.gaussian import FrameMoments

__all__ = ["framed", "responsibilities"]

_ROWS = 128  # rows per program; a run of 512 rows is a multiple


@triton.jit
def _rounded(x, rounder):
    return (x + rounder) - rounder


@triton.jit
def _responsibilities(  # noqa: PLR0915
    places, checks, offsets, scales, constants, numbers, squared, g, wrong,
    n, n_rows, m, d, groups, POOLED: tl.constexpr, TOGETHER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    half, smallest, per_octave = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    rounder, high, low = tl.load(numbers + 3), tl.load(numbers + 4), tl.load(numbers + 5)
    one, limit = tl.load(numbers + 6), tl.load(numbers + 7)
    zero = tl.zeros([ROWS], dtype=tl.float64)
    largest = zero - float("inf")
    differ = tl.zeros([ROWS], dtype=tl.int32)
    for k in range(m):
        norm = zero
        for q in range(groups):
            whole = zero  # sum of products, which must equal the product with a sum of rows
            for j in tl.range(q * TOGETHER, tl.minimum(q * TOGETHER + TOGETHER, d), loop_unroll_factor=4):
                at = k * d + j
                place = tl.load(places + at * n + row)
                whole = whole + place
                z = (place - tl.load(offsets + at)) * tl.load(scales + at)
                norm = norm + z * z
            expected = tl.load(checks + (k * groups + q) * n + row)
            differ = differ | (whole != expected).to(tl.int32)
        tl.store(squared + k * n + row, norm)
        logit = tl.load(constants + k) - half * norm
        tl.store(g + k * n + row, logit)
        largest = tl.maximum(largest, logit, propagate_nan=tl.PropagateNan.ALL)
    tl.store(wrong + tl.program_id(0), tl.max(differ, axis=0))
    tl.debug_barrier()
    total = zero
    for k in range(m):
        x = tl.load(g + k * n + row) - largest
        x = tl.maximum(x, smallest, propagate_nan=tl.PropagateNan.ALL)
        shifted = x * per_octave
        shifted = shifted + rounder
        whole = shifted - rounder
        r = x - whole * high
        r = r - whole * low
        series = r * tl.load(numbers + 8)
        series = series + tl.load(numbers + 9)
        for i in range(10, 19):
            series = series * r
            series = series + tl.load(numbers + i)
        power = ((shifted.to(tl.int64, bitcast=True) + 1023) << 52).to(tl.float64, bitcast=True)
        weight = series * power
        tl.store(g + k * n + row, weight)
        total = total + weight
    tl.debug_barrier()
    size = zero
    for k in range(m):
        share = tl.load(g + k * n + row) / total
        share = share * one
        near = _rounded(share, rounder)
        if POOLED:
            near = tl.where(near > share, near - 1, near)
            size = size + near
        else:
            size = size + near * near
        tl.store(g + k * n + row, near)
    tl.debug_barrier()
    good = (size <= limit) & (row < n_rows)
    for k in range(m):
        near = tl.load(g + k * n + row)
        tl.store(g + k * n + row, tl.where(good, near, zero))


def responsibilities(
    statistic: FrameMoments, places: torch.Tensor, checks: torch.Tensor, n_rows: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return responsibilities, squared norms and flags of wrong products. Padding rows are zero."""
    m, d, n = places.shape
    wrong = torch.empty(n // _ROWS, dtype=torch.int32, device=places.device)
    components = statistic.components
    one = 2.0**RESPONSIBILITY_BITS
    numbers = [0.5, exponential.SMALLEST, exponential.PER_OCTAVE, exponential.ROUNDER]
    numbers += [exponential.OCTAVE_HIGH, exponential.OCTAVE_LOW, one, one if statistic.pooled else one * one]
    squared, g = (torch.empty((m, n), dtype=torch.float64, device=places.device) for _ in range(2))
    _responsibilities[(n // _ROWS,)](
        places,
        checks,
        on_device(components.offsets, places),
        on_device(components.scales, places),
        on_device(components.constants, places),
        on_device(np.array(numbers + list(exponential.TERMS)), places),
        squared,
        g,
        wrong,
        n,
        n_rows,
        m,
        d,
        checks.shape[1],
        POOLED=statistic.pooled,
        TOGETHER=PLACES_TOGETHER,
        ROWS=_ROWS,
        num_warps=4,
        enable_fp_fusion=False,
    )
    return g, squared, wrong


@triton.jit
def _framed(
    places, offsets, scales, numbers, squared, g, psi, weighted,
    n, d, groups, RUN: tl.constexpr, TOGETHER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    k = tl.program_id(1).to(tl.int64)
    clip, per_unit = tl.load(numbers), tl.load(numbers + 1)
    limit, rounder = tl.load(numbers + 2), tl.load(numbers + 3)
    weight = tl.load(g + k * n + row)
    zero = tl.zeros([ROWS], dtype=tl.float64)
    size = tl.sqrt(tl.load(squared + k * n + row))
    scale = (clip / tl.maximum(size, clip, propagate_nan=tl.PropagateNan.ALL)) * per_unit
    good = weight > 0
    run = k * (n // RUN) + row // RUN
    within = row % RUN
    # A second pass runs only if the norm of a row exceeds its limit. Rounding makes this very rare.
    again = tl.max((row >= 0).to(tl.int32), axis=0)
    for _ in range(2):
        if again > 0:
            norm = zero
            for q in range(groups):
                check = zero
                for j in tl.range(q * TOGETHER, tl.minimum(q * TOGETHER + TOGETHER, d), loop_unroll_factor=4):
                    at = k * d + j
                    z = (tl.load(places + at * n + row) - tl.load(offsets + at)) * tl.load(scales + at)
                    value = tl.where(good, _rounded(z * scale, rounder), zero)
                    norm = norm + value * value
                    product = value * weight
                    check = check + product
                    tl.store(psi + (run * (d + 1) + j) * RUN + within, value)
                    tl.store(weighted + (run * (d + groups) + j) * RUN + within, product)
                tl.store(weighted + (run * (d + groups) + d + q) * RUN + within, check)
            again = tl.max((norm > limit).to(tl.int32), axis=0)
            good = good & (norm <= limit)
    tl.store(psi + (run * (d + 1) + d) * RUN + within, zero + 1)


def framed(
    statistic: FrameMoments, places: torch.Tensor, squared: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return psi with a row of ones (k, runs, d + 1, 512), and g psi with appended sums of 8 of its rows."""
    _, d, n = places.shape
    k, runs, groups = statistic.n_framed, n // EXACT_ROWS, -(-d // CHECKED_TOGETHER)
    numbers = [statistic.clip, statistic.per_unit, 4.0**SQUARED_BITS - statistic.count_units**2]
    numbers.append(exponential.ROUNDER)
    psi = torch.empty((k, runs, d + 1, EXACT_ROWS), dtype=torch.float64, device=places.device)
    weighted = torch.empty((k, runs, d + groups, EXACT_ROWS), dtype=torch.float64, device=places.device)
    _framed[(n // _ROWS, k)](
        places,
        on_device(statistic.components.offsets, places),
        on_device(statistic.components.scales, places),
        on_device(np.array(numbers), places),
        squared,
        g,
        psi,
        weighted,
        n,
        d,
        groups,
        RUN=EXACT_ROWS,
        TOGETHER=CHECKED_TOGETHER,
        ROWS=_ROWS,
        num_warps=4,
        enable_fp_fusion=False,
    )
    return psi, weighted
