"""Apply a fitted table model to rows: densities, predictions and imputation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpem.data.levels import LevelGrid
from dpem.data.sources.files import Files
from dpem.data.sources.on_device import without_device
from dpem.data.to_dataframe import to_dataframe
from dpem.engines import open_rows
from dpem.errors import InvalidArgumentError
from dpem.models.table.density import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpem.data import Schema, TableRows
    from dpem.models.table.one_shot import FittedTable

__all__ = ["TableRowsMixin"]

_FEW = 16  # values; with more, a missing number takes its mean instead of the most probable value


class TableRowsMixin:
    """Score, fill and predict rows. All results are as sensitive as the rows."""

    schema: Schema
    target: str | None
    classes_: NDArray[Any]
    _table: FittedTable

    if TYPE_CHECKING:

        def _fitted_source(self, X: Any) -> TableRows: ...
        def _place(self, name: str, argument: str) -> int: ...
        def _is_listed(self, name: str) -> bool: ...

    def _levels(self, X: Any) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return rows as levels, and a mask of null cells."""
        X = without_device(X)
        if isinstance(X, list | tuple) and any(len(row) != len(self.schema.names) for row in X):
            raise InvalidArgumentError(
                f"Expected rows of {len(self.schema.names)} cells, as in the schema, got a row of another "
                f"length."
            )
        source = self._fitted_source(X)
        source.require_rows()
        grid = LevelGrid(self.schema)
        blocks = [grid.to_grid(block).astype(np.intp) for block in source.blocks()]
        return np.concatenate(blocks, axis=1), source.null()

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-density of each row, per unit of continuous columns. As sensitive as X.

        A missing cell counts as a value. A number at a bound has a positive probability.
        """
        check_is_fitted(self)
        return self._table.density.log_density(self._levels(X)[0])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of the rows. As sensitive as X."""
        return float(self.score_samples(X).mean())

    def impute(self, X: Any) -> pd.DataFrame:
        """Return the rows with missing cells filled, given the known cells of each row. As sensitive as X.

        Categories, and numbers with at most 16 possible values, take the most probable value. Other numbers
        take their mean.
        """
        check_is_fitted(self)
        levels, null = self._levels(X)
        density = self._table.density
        source = self._fitted_source(X)
        cells = source.block()
        # Cells with undeclared values, which the schema reads as missing, are filled too.
        known = np.where(null | np.isnan(cells), UNKNOWN, levels)
        for j, column in enumerate(density.bins):
            lost = np.flatnonzero(known[j] == UNKNOWN)
            if not lost.size:
                continue
            n = column.levels.n_values
            probabilities = density.conditional(known[:, lost], j)[:, :n]
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            if column.levels.column.is_number and n > _FEW:
                filled = probabilities @ column.levels.centres[:n]
                if column.levels.column.is_whole:
                    filled = np.rint(filled)
            else:
                filled = column.levels.centres[probabilities.argmax(axis=1)]
            cells[j, lost] = filled
        frame = to_dataframe(self.schema, cells)
        index = getattr(without_device(X), "index", None)
        if index is not None and not callable(index):  # of a pandas DataFrame
            frame.index = index
        return frame

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each target value given the other columns. As sensitive as X.

        Columns are in the order of `classes_`. The target column of X is ignored and may be absent.
        """
        check_is_fitted(self)
        if self.target is None:
            raise InvalidArgumentError(
                "Expected a model with a target to predict, got target=None. Name the target before the fit: "
                "MixedMixture(..., target='...')."
            )
        if not self._is_listed(self.target):
            raise InvalidArgumentError(
                f"Expected a target with a list of values, got {self.target!r}, a column of numbers. For its "
                f"mean, leave its cells empty and call impute."
            )
        j = self._place(self.target, "target")
        levels = self._levels_but(j, X)
        n = self._table.density.bins[j].levels.n_values
        probabilities = self._table.density.conditional(levels, j)[:, :n]
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def _levels_but(self, j: int, X: Any) -> NDArray[np.intp]:
        """Return rows as levels with one column unknown; files need not contain it."""
        X = without_device(X)
        if not isinstance(X, str | os.PathLike | Files):
            levels, _ = self._levels(self._with_target(X))
        else:
            others = [name for name in self.schema.names if name != self.target]
            known = open_rows(X, self.schema.select(others)).in_memory()
            known.require_rows()
            low, _ = self.schema.bounds
            cells = np.insert(known.block(), j, low[j], axis=0)
            levels = LevelGrid(self.schema).to_grid(cells).astype(np.intp)
        levels[j] = UNKNOWN
        return levels

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable target value for each row. As sensitive as X."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def _with_target(self, X: Any) -> Any:
        """Return rows with an empty target column if they lack it."""
        names = getattr(X, "columns", None)
        if names is None:
            lacking = len(self.schema.names) - 1
            place = self._place(str(self.target), "target")
            if isinstance(X, list | tuple):
                whole = all(len(row) == lacking for row in X)
                return [[*row[:place], None, *row[place:]] for row in X] if whole else X
            if np.ndim(X) == 2 and np.shape(X)[1] == lacking:
                rows = np.asarray(X, dtype=object)
                nothing = np.full((len(rows), 1), None, dtype=object)
                return np.concatenate([rows[:, :place], nothing, rows[:, place:]], axis=1)
            return X
        if self.target in list(getattr(X, "column_names", names)):
            return X
        frame = nw.from_native(X, eager_only=True)
        return frame.with_columns(nw.lit(None).alias(str(self.target))).to_native()
