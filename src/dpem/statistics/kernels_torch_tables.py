"""Device sums of tables: histograms, tables of pairs of columns, and expected tables of a mixture.

The rules of `dpem.statistics.kernels_torch` hold: the integers are those of `sum_block`. Counts are integers
in any order, and shares of rows are summed by exact products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from dpem.data.device_grid import on_device
from dpem.statistics.kernels_torch import _softmax, exact_product
from dpem.statistics.mixture_tables import SHARE_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.statistics.contingency import Histograms, PairTables
    from dpem.statistics.mixture_tables import MixtureTables

__all__ = ["histograms", "mixture_tables", "pair_tables"]

# Entries of indicators, or codes of pairs, in memory at once.
_ENTRIES = 1 << 25


def histograms(statistic: Histograms, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `Histograms`."""
    part = None if statistic.by is None else _bins_of(rows[statistic.by[0]], statistic.by[1])
    counts = []
    for j, bins, size in zip(statistic.columns, statistic.bins, statistic.n_bins, strict=True):
        code = _bins_of(rows[j], bins)
        if part is not None:
            code += part * size
        counts.append(torch.bincount(code, minlength=statistic.n_parts * size))
    return torch.cat(counts)


def pair_tables(statistic: PairTables, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `PairTables`."""
    codes = _codes(rows, statistic.bins)
    counts = [torch.zeros(0, dtype=torch.int64, device=rows.device)]
    for block in statistic.blocks:
        starts = statistic.starts(block).tolist()
        places = torch.stack([codes[j] + start for j, start in zip(block, starts[:-1], strict=True)])
        for i, column in enumerate(block[:-1]):
            width, size = starts[-1] - starts[i + 1], statistic.n_bins[column]
            first = codes[column] if statistic.by is None else codes[statistic.by] * size + codes[column]
            first = first * width - starts[i + 1]
            found = torch.zeros(statistic.n_parts * size * width, dtype=torch.int64, device=rows.device)
            together = max(1, _ENTRIES // max(1, rows.shape[1]))  # of the later columns
            for later in places[i + 1 :].split(together):
                found += torch.bincount((first + later).ravel(), minlength=len(found))
            counts.append(found)
    return torch.cat(counts)


def mixture_tables(statistic: MixtureTables, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of `MixtureTables`."""
    codes = _codes(rows, statistic.bins)
    share = _shares(statistic, codes)
    sizes = [table.shape[1] + 1 for table in statistic.tables]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = torch.stack([code + start for code, start in zip(codes, starts[:-1].tolist(), strict=True)])
    by_bin = torch.zeros((len(share), int(starts[-1])), dtype=torch.int64, device=rows.device)
    together = max(1024, _ENTRIES // int(starts[-1]))  # rows
    for own, place in zip(share.split(together, dim=1), places.split(together, dim=1), strict=True):
        hot = torch.zeros((place.shape[1], by_bin.shape[1]), dtype=torch.float64, device=rows.device)
        hot.scatter_(1, place.T, 1.0)
        by_bin += exact_product(own, hot, bound=2.0**SHARE_BITS * place.shape[1]).to(torch.int64)
    shares = share.sum(dim=1).to(torch.int64).cpu().numpy()
    parts = np.split(by_bin.cpu().numpy(), starts[1:-1], axis=1)
    return torch.as_tensor(statistic.expected(shares, parts))


def _shares(statistic: MixtureTables, codes: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return responsibilities (k, n) as integers of 2^16, the bound checked for every row."""
    weights = torch.as_tensor(np.log(statistic.weights), dtype=torch.float64, device=codes[0].device)
    logits = weights[:, None].repeat(1, len(codes[0]))
    for code, table in zip(codes, statistic.log_tables, strict=True):
        logits += on_device(table, logits)[:, code]
    share = torch.floor(_softmax(logits) * 2.0**SHARE_BITS)
    share[:, ~(share.sum(dim=0) <= 2.0**SHARE_BITS)] = 0.0
    return share


def _codes(rows: torch.Tensor, bins: Sequence[NDArray[np.intp]]) -> list[torch.Tensor]:
    return [_bins_of(column, own) for column, own in zip(rows, bins, strict=True)]


def _bins_of(levels: torch.Tensor, bins: NDArray[np.intp]) -> torch.Tensor:
    """Return the bins of levels. NaN counts as the first level, because NaN > 0 is false."""
    place = torch.where(levels > 0, levels.clamp(max=len(bins) - 1), 0.0).to(torch.int64)
    return torch.as_tensor(bins, dtype=torch.int64, device=levels.device)[place]
