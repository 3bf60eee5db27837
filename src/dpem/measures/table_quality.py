"""How close synthetic rows are to real ones, for the owner of the real rows only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _validate
from dpem._threads import one_thread
from dpem.data.schema import require_schema
from dpem.data.table_types import did_you_mean
from dpem.engines import open_rows
from dpem.estimator.base import public_random

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from dpem.data import Schema

__all__ = ["TableComparison", "compare_tables", "comparison_codes"]

_PARTS = 16  # intervals of each column of numbers
_TRIPLES = 60  # largest number of triples of columns
_FOR_STOPPING = 20  # rows of the rarest target value that early stopping needs
_WARNING = (
    "NOT FOR RELEASE: computed from the real rows without noise. Keep it with them and do not publish it."
)


@dataclass(frozen=True, eq=False)
class TableComparison:
    """A comparison of synthetic and real rows. Not private: keep it with the real rows.

    Total variation is the largest difference between the frequencies of any set of values in the two tables:
    0 for equal frequencies, 1 for tables with nothing in common.

    Attributes
    ----------
    one_way, two_way, three_way : float
        Mean total variation over columns, over pairs of columns, and over triples (at most 60).
    columns, pairs : DataFrame
        Total variation of every column and of every pair, largest first.
    target_auc, target_auc_real : float, optional
        Area under the ROC curve of gradient boosting that predicts the target of real rows, trained on
        synthetic rows, and trained on real rows other than the test rows.
    """

    one_way: float
    two_way: float
    three_way: float
    columns: pd.DataFrame
    pairs: pd.DataFrame
    target_auc: float | None = None
    target_auc_real: float | None = None

    def __str__(self) -> str:
        lines = [
            _WARNING,
            f"total variation of columns, mean     {self.one_way:.4f}",
            f"total variation of pairs, mean       {self.two_way:.4f}",
            f"total variation of triples, mean     {self.three_way:.4f}",
        ]
        if self.target_auc is not None:
            lines += [
                f"AUC, trained on synthetic rows       {self.target_auc:.4f}",
                f"AUC, trained on real rows            {self.target_auc_real:.4f}",
            ]
        worst = self.columns.iloc[0]
        lines.append(
            f"worst column                         {worst['column']!r}, {worst['total_variation']:.4f}"
        )
        return "\n".join(lines)

    __repr__ = __str__


def compare_tables(
    real: Any, synthetic: Any, schema: Schema, *, target: str | None = None
) -> TableComparison:
    """Compare synthetic rows with real ones, without noise: the result is as sensitive as the real rows.

    If possible, compare with rows that were not used in the fit: a model that merely repeats the rows of its
    fit would look best. Numbers are compared in 16 equal intervals of their bounds. A missing cell counts as
    a value.

    Parameters
    ----------
    real, synthetic : DataFrame or array-like of shape (n, m)
        Rows with the columns of the schema.
    schema : Schema
        The columns.
    target : str, optional
        Column of categories. If given, classifiers for it, trained on synthetic and on real rows, are
        compared too.

    Returns
    -------
    TableComparison
        Print it to read it. It is marked as not for release.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"a": rng.integers(3, size=2000), "b": rng.random(2000)})
    >>> from dpem import Schema
    >>> schema = Schema({"a": {"kind": "integer", "bounds": [0, 2]},
    ...                  "b": {"kind": "continuous", "bounds": [0, 1]}})
    >>> comparison = compare_tables(table[:1000], table[1000:], schema)
    >>> str(comparison).startswith("NOT FOR RELEASE")
    True
    >>> 0 < comparison.one_way < comparison.two_way < 0.2
    True
    """
    import pandas as pd  # noqa: PLC0415  (slow to import, and not needed to fit)

    require_schema(schema)
    if target is not None and (_validate.is_not(target, str) or target not in schema.names):
        hint = did_you_mean([target], schema.names)
        raise _validate.fail("a column of the schema", "target", target, hint)
    first, sizes = comparison_codes(real, schema)
    second, _ = comparison_codes(synthetic, schema)
    for codes, argument in ((first, "real"), (second, "synthetic")):
        _validate.integer(len(codes), f"number of rows of {argument}")
    names, m = schema.names, len(sizes)

    def distance(columns: Sequence[int]) -> float:
        return total_variation(first, second, sizes, columns)

    single = [distance([j]) for j in range(m)]
    pairs = [(i, j, distance([i, j])) for i, j in itertools.combinations(range(m), 2)]
    triples = list(itertools.combinations(range(m), 3)) if m <= 30 else _random_triples(m)
    if len(triples) > _TRIPLES:
        chosen = public_random(0).choice(len(triples), _TRIPLES, replace=False)
        triples = [triples[int(i)] for i in chosen]
    by_column = pd.DataFrame({"column": names, "total_variation": single})
    by_pair = pd.DataFrame(
        {
            "first": [names[i] for i, _, _ in pairs],
            "second": [names[j] for _, j, _ in pairs],
            "total_variation": [value for _, _, value in pairs],
        }
    )
    aucs = (None, None) if target is None else _aucs(first, second, names.index(target), schema)
    return TableComparison(
        _mean(single),
        _mean([value for _, _, value in pairs]),
        _mean([distance(triple) for triple in triples]),
        by_column.sort_values("total_variation", ascending=False, ignore_index=True),
        by_pair.sort_values("total_variation", ascending=False, ignore_index=True),
        *aucs,
    )


def _random_triples(m: int) -> list[tuple[int, ...]]:
    random_state = public_random(0)
    return [tuple(random_state.choice(m, 3, replace=False)) for _ in range(_TRIPLES)]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def comparison_codes(X: Any, schema: Schema) -> tuple[NDArray[np.intp], list[int]]:
    """Return rows as codes (n, m) of categories or of 16 intervals; the last code means missing."""
    values = open_rows(X, schema).in_memory().block()
    codes, sizes = [], []
    for column, cells in zip(schema.columns, values, strict=True):
        low, high = column.limits
        if column.is_number and (column.kind == "continuous" or high - low >= _PARTS):
            size = _PARTS
            part = np.floor((cells - low) / (high - low + column.is_whole) * size)
        else:
            size = int(high - low) + 1
            part = cells - low
        part = np.where(np.isnan(cells), size, np.minimum(part, size - 1))
        codes.append(part.astype(np.intp))
        sizes.append(size + column.missing)
    return np.stack(codes, axis=1), sizes


def total_variation(
    first: NDArray[np.intp], second: NDArray[np.intp], sizes: Sequence[int], columns: Sequence[int]
) -> float:
    """Return the total variation between two tables of codes in some columns."""
    shape = tuple(sizes[j] for j in columns)
    frequencies = []
    for codes in (first, second):
        place = np.ravel_multi_index([codes[:, j] for j in columns], shape)
        frequencies.append(np.bincount(place, minlength=int(np.prod(shape))) / len(codes))
    return float(np.abs(frequencies[0] - frequencies[1]).sum() / 2)


def _aucs(
    real: NDArray[np.intp], synthetic: NDArray[np.intp], target: int, schema: Schema
) -> tuple[float, float]:
    """Return the AUC on half of the real rows, trained on synthetic rows and on the other half."""
    half = len(real) // 2
    return auc(synthetic, real[half:], target, schema), auc(real[:half], real[half:], target, schema)


def auc(train: NDArray[np.intp], test: NDArray[np.intp], target: int, schema: Schema) -> float:
    """Return the AUC of gradient boosting, averaged over target values; 0.5 if there is a single value."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    others = [j for j in range(train.shape[1]) if j != target]
    if len(np.unique(train[:, target])) < 2 or not others:
        return 0.5
    # scikit-learn supports at most 255 categories per column; columns with more are treated as numbers.
    most = np.maximum(train.max(axis=0), test.max(axis=0))
    categories = [schema.columns[j].kind in ("categorical", "boolean") and most[j] < 255 for j in others]
    # Early stopping holds out rows of every value, so it needs enough rows of the rarest one.
    rarest = np.unique(train[:, target], return_counts=True)[1].min()
    learner = HistGradientBoostingClassifier(
        categorical_features=categories if any(categories) else None,
        early_stopping="auto" if rarest >= _FOR_STOPPING else False,
        random_state=0,
    )
    with one_thread():  # threads of scikit-learn would change the warning filters of the process
        learner.fit(train[:, others], train[:, target])
        probabilities = learner.predict_proba(test[:, others])
    values = [
        roc_auc_score(test[:, target] == value, probabilities[:, i])
        for i, value in enumerate(learner.classes_)
        if 0 < (test[:, target] == value).mean() < 1
    ]
    return float(np.mean(values)) if values else 0.5
