"""The compiled form of a descent to noisy tables of pairs (`pairs._Search`).

It sees released values only, so that its results need not have the bits of NumPy: sums over bins are added in
another order, and logarithms are those before the softmax. The difference is that of rounding in single
precision, and the tables of pairs are far noisier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpem._compiled import compiled
from dpem.statistics.kernels.arithmetic import CHUNK, exp_non_positive

__all__ = ["descend"]


@compiled()
def _softmax(  # noqa: PLR0912
    logits: Any, starts: Any, tables: Any, logs: Any, wide: Any
) -> None:
    """Write the probabilities of the bins of each column, and their logarithms."""
    k = logits.shape[1]
    top, total = np.empty(k, np.float32), np.empty(k)
    shifted, power = np.empty(CHUNK), np.empty(CHUNK)
    bits, power_bits = shifted.view(np.int64), power.view(np.int64)
    for j in range(len(starts) - 1):
        for c in range(k):
            top[c] = logits[starts[j], c]
        for b in range(starts[j] + 1, starts[j + 1]):
            for c in range(k):
                top[c] = max(top[c], logits[b, c])
        for b in range(starts[j], starts[j + 1]):
            for c in range(k):
                logs[b, c] = logits[b, c] - top[c]
                wide[b * k + c] = logs[b, c]
    for start in range(0, len(wide), CHUNK):
        exp_non_positive(wide[start:], min(CHUNK, len(wide) - start), shifted, bits, power, power_bits)
    for j in range(len(starts) - 1):
        total[:] = 0.0
        for b in range(starts[j], starts[j + 1]):
            for c in range(k):
                total[c] += wide[b * k + c]
        for c in range(k):
            top[c] = np.log(total[c])
            total[c] = 1.0 / total[c]
        for b in range(starts[j], starts[j + 1]):
            for c in range(k):
                tables[b, c] = wide[b * k + c] * total[c]
                logs[b, c] -= top[c]


@compiled()
def _adam(value: Any, gradient: Any, mean: Any, square: Any, step: int, rate: float) -> None:
    """Take a step of Adam against the gradient, and update its running means."""
    corrected, root = np.float32(rate / (1 - 0.9**step)), np.float32(1 / (1 - 0.99**step))
    keep, new = np.float32(0.9), np.float32(0.1)
    keep_square, new_square = np.float32(0.99), np.float32(0.01)
    least = np.float32(1e-8)
    for i in range(value.shape[0]):
        for c in range(value.shape[1]):
            g = gradient[i, c]
            mean[i, c] = keep * mean[i, c] + new * g
            square[i, c] = keep_square * square[i, c] + new_square * g * g
            value[i, c] -= corrected * mean[i, c] / (np.sqrt(square[i, c] * root) + least)


@compiled()
def descend(  # noqa: PLR0912, PLR0915  (one pass over the entries after another)
    log_tables: Any,
    log_weights: Any,
    starts: Any,
    pairs: Any,
    pair_weights: Any,
    columns: Any,
    column_weights: Any,
    parts: Any,
    part_weights: Any,
    split: Any,
    split_weights: Any,
    strength: Any,
    per_entry: Any,
    rates: Any,
) -> None:
    """Move the logarithms of tables and weights, one step for each rate. `split` may have no parts."""
    n_bins, k = log_tables.shape
    n_parts = len(log_weights)
    half, least = np.float32(0.5), np.float32(np.log(1e-9))
    tables, logs, along = np.empty_like(log_tables), np.empty_like(log_tables), np.empty_like(log_tables)
    by_tables, scaled = np.empty_like(log_tables), np.empty_like(log_tables)
    mean, square = np.zeros_like(log_tables), np.zeros_like(log_tables)
    weights, by_weights = np.empty_like(log_weights), np.empty_like(log_weights)
    weight_mean, weight_square = np.zeros_like(log_weights), np.zeros_like(log_weights)
    residual = np.empty((n_bins, n_bins), np.float32)
    total, inner = np.empty(k, np.float32), np.empty(k, np.float32)
    wide = np.empty(n_bins * k)
    for step in range(1, len(rates) + 1):
        _softmax(log_tables, starts, tables, logs, wide)
        top = log_weights.max()
        sum_of_weights = np.float32(0.0)
        for p in range(n_parts):
            for c in range(k):
                weights[p, c] = np.exp(log_weights[p, c] - top)
                sum_of_weights += weights[p, c]
        total[:] = np.float32(0.0)
        for p in range(n_parts):
            for c in range(k):
                weights[p, c] /= sum_of_weights
                total[c] += weights[p, c]
        # The histograms of the columns, and the penalty: mutual information of component and column, whose
        # gradient through the marginal is constant.
        inner[:] = np.float32(0.0)
        for b in range(n_bins):
            marginal = np.float32(0.0)
            for c in range(k):
                marginal += tables[b, c] * total[c]
            difference = (marginal - columns[b]) * column_weights[b]
            log_marginal = max(np.float32(np.log(marginal)), least)
            for c in range(k):
                ratio = strength * (max(logs[b, c], least) - log_marginal)
                by_tables[b, c] = total[c] * (difference + ratio)
                inner[c] += tables[b, c] * (difference + ratio)
        for p in range(n_parts):
            part = np.float32(0.0)
            for c in range(k):
                by_weights[p, c] = inner[c]
                part += weights[p, c]
            if n_parts > 1:
                difference = (part - parts[p]) * part_weights[p]
                for c in range(k):
                    by_weights[p, c] += difference
        for p in range(n_parts):
            for b in range(n_bins):
                for c in range(k):
                    scaled[b, c] = tables[b, c] * weights[p, c]
            np.dot(scaled, tables.T, residual)
            for b in range(n_bins):
                for other in range(n_bins):
                    residual[b, other] = (residual[b, other] - pairs[p, b, other]) * pair_weights[p, b, other]
            np.dot(residual, tables, along)
            for b in range(n_bins):
                in_part = np.float32(0.0)
                if len(split):
                    for c in range(k):
                        in_part += scaled[b, c]
                    in_part = (in_part - split[p, b]) * split_weights[p, b]
                for c in range(k):
                    by_weights[p, c] += tables[b, c] * (half * along[b, c] + in_part)
                    by_tables[b, c] += weights[p, c] * (along[b, c] + in_part)
        # The chain rule through the softmax of each column, and of all weights.
        for j in range(len(starts) - 1):
            inner[:] = np.float32(0.0)
            for b in range(starts[j], starts[j + 1]):
                for c in range(k):
                    by_tables[b, c] *= tables[b, c] * per_entry
                    inner[c] += by_tables[b, c]
            for b in range(starts[j], starts[j + 1]):
                for c in range(k):
                    by_tables[b, c] -= tables[b, c] * inner[c]
        along_weights = np.float32(0.0)
        for p in range(n_parts):
            for c in range(k):
                by_weights[p, c] *= per_entry
                along_weights += weights[p, c] * by_weights[p, c]
        for p in range(n_parts):
            for c in range(k):
                by_weights[p, c] = weights[p, c] * (by_weights[p, c] - along_weights)
        _adam(log_tables, by_tables, mean, square, step, rates[step - 1])
        _adam(log_weights, by_weights, weight_mean, weight_square, step, rates[step - 1])
