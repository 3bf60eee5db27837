"""Sums of row statistics on a device: the same integers as `sum_block`, from larger blocks.

Operations are either exact, or single operations of IEEE arithmetic in the order of the NumPy code, so that
the bits agree. Blocks have at most 2^20 rows (`dpem.engines.torch_device`), so that float64 sums stay below
2^53 until they are converted to integers.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dpem.data.device_grid import norm_squared, on_device, root
from dpem.errors import ExactArithmeticError
from dpem.statistics import softmax as exponential
from dpem.statistics.exact import EXACT
from dpem.statistics.gaussian import CHECKED_TOGETHER, EXACT_ROWS, PLACES_TOGETHER, RESPONSIBILITY_BITS
from dpem.statistics.simple import BOX_BITS, LINEAR_BITS, SQUARED_BITS, unit_scale

if TYPE_CHECKING:
    from dpem.statistics.gaussian import FrameMoments
    from dpem.statistics.simple import BoxHistogram, DistanceHistogram, RelativeSums, SecondMoments, Sums

__all__ = ["box_histogram", "distance_histogram", "frame_moments", "relative_sums", "second_moments", "sums"]


def exact_product(a: torch.Tensor, b: torch.Tensor, bound: float) -> torch.Tensor:
    """Return ``a @ b`` for integer matrices, checked as in `dpem.statistics.exact`."""
    group = min(int(EXACT // (2 * bound)), len(a))
    if group < 1:
        raise ExactArithmeticError("Expected a product below 2^52, got one that float64 cannot hold exactly.")
    n = len(a)
    a = torch.nn.functional.pad(a, (0, 0, 0, -n % group))  # pad the small factor, not the large product
    product = torch.cat([a, _sums_of_rows(a, group)]) @ b
    result, checks = product[: len(a)], product[len(a) :]
    _require(torch.equal(_sums_of_rows(result, group), checks))
    return result[:n]


def _sums_of_rows(a: torch.Tensor, group: int) -> torch.Tensor:
    padded = torch.nn.functional.pad(a, (0, 0, 0, -len(a) % group))
    return padded.reshape(-1, group, a.shape[1]).sum(dim=1)


def _require(equal: bool) -> None:
    if not equal:
        raise ExactArithmeticError(
            "Expected exact float64 products of integers, but this device rounds them. Nothing was released."
        )


# -- sums of rows and cells ------------------------------------------------------------------------------


def sums(statistic: Sums, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `Sums`. Entries of a block are at most 2^44."""
    found = rows.sum(dim=1).to(torch.int64)
    count = torch.tensor([rows.shape[1] << 24], device=rows.device)
    return torch.cat([found, count]) if statistic.counted else found


def distance_histogram(statistic: DistanceHistogram, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `DistanceHistogram`."""
    _, squared = _nearest(rows, on_device(statistic.points, rows))
    bins = torch.searchsorted(on_device(statistic.edges[:-1] ** 2, rows), squared)
    return torch.bincount(bins, minlength=statistic.size)


def second_moments(statistic: SecondMoments, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `SecondMoments`. Entries of a block are at most 2^46."""
    z = _onto_unit_grid(rows - on_device(statistic.centre, rows)[:, None], statistic.radius, SQUARED_BITS)
    product = exact_product(z, z.T.contiguous(), bound=4.0**SQUARED_BITS * max(1, rows.shape[1]))
    i, j = torch.triu_indices(len(rows), len(rows), device=rows.device)
    return product[i, j].to(torch.int64)


def box_histogram(statistic: BoxHistogram, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `BoxHistogram`."""
    centred = rows - on_device(statistic.centre, rows)[:, None]
    along = exact_product(on_device(statistic.axes, rows), centred, bound=2.0**47)
    code = torch.zeros(rows.shape[1], dtype=torch.int64, device=rows.device)
    for position, half_width, table in zip(along, statistic.half_widths, statistic._tables, strict=True):
        width = on_device(half_width * 2.0**LINEAR_BITS, rows)
        part = torch.floor((position / width + 1) * (len(table) / 2))
        place = part.clamp(0, len(table) - 1).to(torch.int64)
        code += torch.as_tensor(table, device=rows.device)[place]
    counts = torch.bincount(code, minlength=1 << BOX_BITS).cpu().numpy()
    return torch.as_tensor(np.add.reduceat(counts, statistic.starts))


def relative_sums(statistic: RelativeSums, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `RelativeSums`. Entries of a block are at most 2^40."""
    centres = on_device(statistic.centres, rows)
    labels, _ = _nearest(rows, centres)
    relative = rows - centres.T[:, labels]
    if statistic.stretch is not None:
        relative = relative / on_device(statistic.stretch, rows)[:, None]
    relative = _onto_unit_grid(relative, statistic.radius, LINEAR_BITS)
    counts = torch.bincount(labels, minlength=len(centres)) * statistic.count_units
    found = torch.zeros_like(centres).index_add_(0, labels, relative.T)
    return torch.cat([counts, found.to(torch.int64).ravel()])


def _nearest(rows: torch.Tensor, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    products = exact_product(points, rows, bound=2.0**49)
    scores = (points**2).sum(dim=1)[:, None] - 2 * products
    best, labels = scores[0], torch.zeros(rows.shape[1], dtype=torch.int64, device=rows.device)
    for k in range(1, len(points)):  # ties take the first
        closer = scores[k] < best
        labels[closer] = k
        best = torch.minimum(best, scores[k])
    return labels, best + norm_squared(rows)


def _onto_unit_grid(columns: torch.Tensor, radius: float, bits: int) -> torch.Tensor:
    norm = root(norm_squared(columns))
    unit, limit = on_device(unit_scale(len(columns), bits), columns), on_device(radius, columns)
    scaled = torch.round(columns * (unit / torch.maximum(norm, limit)))
    scaled[:, norm_squared(scaled) > 4.0**bits] = 0.0
    return scaled


# -- Gaussian components ---------------------------------------------------------------------------------


def frame_moments(statistic: FrameMoments, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `FrameMoments`; rows may be in single precision."""
    d, k = statistic.n_columns, statistic.n_framed
    kernels = _kernels(rows)
    counts, moments = _in_runs(statistic, rows) if kernels is None else _fused(statistic, rows, kernels)
    units = int(statistic.count_units)
    own = [counts[:k, None] * units**2, moments[:, :d, d] * units]
    shared = []
    diagonal = torch.diagonal(moments[:, :d, :d], dim1=1, dim2=2)
    if statistic.covariance == "diag":
        own.append(diagonal)
    elif statistic.covariance == "spherical":
        own.append(diagonal.sum(dim=1, keepdim=True))
    else:
        i, j = torch.triu_indices(d, d, device=rows.device)
        second = moments[:, i, j]
        if statistic.pooled:
            shared.append(second.sum(dim=0))
        else:
            own.append(second)
    others = counts[k:] * 4**SQUARED_BITS
    return torch.cat([torch.cat(own, dim=1).ravel(), *shared, others])


def _fused(statistic: FrameMoments, rows: torch.Tensor, kernels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sums of responsibilities and moments by fused kernels, from as many rows as memory allows."""
    if statistic.n_columns <= kernels.FEW_COLUMNS:
        rows = rows.contiguous()
        g, factors = kernels.responsibilities_of_few(statistic, rows)
        return g.sum(dim=1).to(torch.int64), kernels.moments(statistic, rows, None, factors, g)
    counts, moments = 0, 0
    for part in rows.split(_rows_at_once(statistic, rows.device), dim=1):
        places, checks = _places(statistic, part.to(torch.float64))
        g, factors, wrong = kernels.responsibilities(statistic, places, checks)
        counts = counts + g.sum(dim=1).to(torch.int64)
        moments = moments + kernels.moments(statistic, part, places, factors, g)
        _require(not bool(wrong.any()))  # after all else has been started: it waits for the device
    return counts, moments


def _rows_at_once(statistic: FrameMoments, device: torch.device) -> int:
    """Return how many rows fit in half of the free memory with all that a step keeps of them."""
    found = statistic.__dict__.get("_rows_at_once")
    if found is None:
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # free for torch
        free = torch.cuda.mem_get_info(device)[0] + held
        per_row = 8 * len(statistic.components.constants) * (statistic.n_columns + 8)
        found = statistic.__dict__["_rows_at_once"] = max(1 << 12, free // (2 * per_row))
    return int(found)


def _in_runs(statistic: FrameMoments, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same by single operations on runs of 512 rows, which are exact."""
    n = rows.shape[1]
    rows = torch.nn.functional.pad(rows.to(torch.float64), (0, -n % EXACT_ROWS))  # padding gets no weight
    places, checks = _places(statistic, rows)
    g, squared = _responsibilities(statistic, places, checks, n)
    return g.sum(dim=1).to(torch.int64), _moments(*_framed(statistic, places, squared, g))


def _places(statistic: FrameMoments, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return whitening times rows, (m, d, n), and as a check, sums of 16 rows of whitening times rows."""
    m, d = statistic.components.offsets.shape
    product = _checked_whitening(statistic, rows) @ rows  # products below 2^48, sums below 2^52
    return product[: m * d].reshape(m, d, -1), product[m * d :].reshape(m, -1, rows.shape[1])


def _checked_whitening(statistic: FrameMoments, like: torch.Tensor) -> torch.Tensor:
    """Return the whitening matrices and sums of 16 of their rows, copied to the device once."""
    copies = statistic.__dict__.setdefault("_checked_whitening", {})
    if like.device not in copies:
        m, d = statistic.components.offsets.shape
        whitening = on_device(statistic.components.whitening, like)
        padded = torch.nn.functional.pad(whitening.reshape(m, d, d), (0, 0, 0, -d % PLACES_TOGETHER))
        sums = padded.reshape(m, -1, PLACES_TOGETHER, d).sum(dim=2)
        copies[like.device] = torch.cat([whitening, sums.reshape(-1, d)])
    return torch.as_tensor(copies[like.device])


def _moments(psi: torch.Tensor, weighted: torch.Tensor) -> torch.Tensor:
    """Return sums of g psi (psi, 1)', (k, d, d + 1), checked by products of sums of 8 rows of g psi."""
    k, runs, width, _ = psi.shape
    d = width - 1
    product = torch.bmm(weighted.flatten(0, 1), psi.flatten(0, 1).transpose(1, 2))
    result, checks = product[:, :d], product[:, d:]
    whole = d // CHECKED_TOGETHER
    sums = (
        result[:, : whole * CHECKED_TOGETHER].reshape(len(product), whole, CHECKED_TOGETHER, width).sum(dim=2)
    )
    _require(torch.equal(sums, checks[:, :whole]))
    if d % CHECKED_TOGETHER:
        _require(torch.equal(result[:, whole * CHECKED_TOGETHER :].sum(dim=1), checks[:, whole]))
    return result.to(torch.int64).reshape(k, runs, d, width).sum(dim=1)


def _responsibilities(
    statistic: FrameMoments, places: torch.Tensor, checks: torch.Tensor, n_rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return responsibilities times 2^16 as integers and squared norms, (m, n); padding rows are zero."""
    for place, expected in zip(places, checks, strict=True):
        _require(torch.equal(_sums_of_rows(place, PLACES_TOGETHER), expected))
    squared = torch.stack([norm_squared(_frame(statistic, places, k)) for k in range(len(places))])
    logits = on_device(statistic.components.constants, places)[:, None] - squared * 0.5
    g = _softmax(logits) * 2.0**RESPONSIBILITY_BITS
    g = torch.floor(g) if statistic.pooled else torch.round(g)
    weight = g[0].clone() if statistic.pooled else g[0] * g[0]
    for row in g[1:]:
        weight += row if statistic.pooled else row * row
    limit = 2.0**RESPONSIBILITY_BITS if statistic.pooled else 4.0**RESPONSIBILITY_BITS
    g[:, ~(weight <= limit)] = 0.0
    g[:, n_rows:] = 0.0
    return g, squared


def _framed(
    statistic: FrameMoments, places: torch.Tensor, squared: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return psi with a row of ones (k, runs, d + 1, 512), and g psi with appended sums of 8 of its rows."""
    d, k = statistic.n_columns, statistic.n_framed
    limit = on_device(statistic.clip, places)
    all_psi, all_weighted = [], []
    for c in range(k):
        z = _frame(statistic, places, c)
        psi = z * (limit / torch.maximum(root(squared[c]), limit) * statistic.per_unit)
        psi = torch.round(psi)
        psi[:, ~(norm_squared(psi) <= 4.0**SQUARED_BITS - statistic.count_units**2)] = 0.0
        psi[:, g[c] == 0] = 0.0  # so that NaN is not multiplied by a weight of zero
        weighted = psi * g[c]
        weighted = torch.cat([weighted, _sums_of_rows(weighted, CHECKED_TOGETHER)])
        psi = torch.cat([psi, torch.ones_like(psi[:1])])
        all_psi.append(psi.reshape(d + 1, -1, EXACT_ROWS).transpose(0, 1))
        all_weighted.append(weighted.reshape(len(weighted), -1, EXACT_ROWS).transpose(0, 1))
    return torch.stack(all_psi).contiguous(), torch.stack(all_weighted).contiguous()


def _frame(statistic: FrameMoments, places: torch.Tensor, k: int) -> torch.Tensor:
    components = statistic.components
    z = places[k] - on_device(components.offsets[k], places)[:, None]
    return z * on_device(components.scales[k], places)[:, None]


def _softmax(logits: torch.Tensor) -> torch.Tensor:
    """Compute `dpem.statistics.softmax.softmax` with the same operations in the same order."""
    largest = logits[0].clone()
    for row in logits[1:]:
        largest = torch.maximum(largest, row)
    x = torch.maximum(logits - largest, on_device(exponential.SMALLEST, logits))
    shifted = x * exponential.PER_OCTAVE
    shifted += exponential.ROUNDER
    n = shifted - exponential.ROUNDER
    r = x - n * exponential.OCTAVE_HIGH
    r -= n * exponential.OCTAVE_LOW
    series = r * exponential.TERMS[0]
    series += exponential.TERMS[1]
    for term in exponential.TERMS[2:]:
        series *= r
        series += term
    weights = series * ((shifted.view(torch.int64) + 1023) << 52).view(torch.float64)
    total = weights[0].clone()
    for row in weights[1:]:
        total += row
    return weights / total


def _kernels(tensor: torch.Tensor) -> Any:
    """Return fused kernels if Triton can compile them. They give the same bits as single operations."""
    return _triton_kernels() if FUSED and tensor.is_cuda else None


FUSED = True  # tests set it to False; single operations give the same bits


@lru_cache(maxsize=1)
def _triton_kernels() -> Any:
    return import_module("dpem.statistics.kernels_triton") if find_spec("triton") is not None else None
