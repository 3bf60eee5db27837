"""The estimator of synthetic tables: a mixture over columns of any kind."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from dpem import _validate
from dpem._threads import thread_count
from dpem._warnings import warn
from dpem.data.column import ABSENT
from dpem.data.levels import LevelGrid
from dpem.data.schema import require_schema
from dpem.data.table_types import did_you_mean, listed
from dpem.data.times import from_steps
from dpem.data.to_dataframe import to_dataframe
from dpem.errors import WeakSignalWarning
from dpem.estimator.arguments import either, optional, stores_arguments, whole, word
from dpem.estimator.base import PrivateEstimator, PublicFacts
from dpem.estimator.planned_columns import Forecast, warn_of_noise
from dpem.estimator.saved_arrays import require
from dpem.models.table.density import UNKNOWN
from dpem.models.table.em import DEFAULT_ITERATIONS, EMRequest, fit_by_em
from dpem.models.table.files import arrays_of, table_from_arrays
from dpem.models.table.one_shot import FittedTable, OneShotRequest, fit_one_shot
from dpem.models.table.relations import (
    planned_relations,
    remarks_of,
    warning_of_relations,
    weaknesses_of,
    what_to_expect,
)
from dpem.models.table.rows import TableRowsMixin
from dpem.models.table.summary import figures_of, last_noise, law_of, noise_of_counts

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from dpem.data import Column, Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan
    from dpem.gate.progress import Progress

__all__ = ["MixedMixture"]

_MOST_ENTRIES = 1e6  # of a table of marginals
_LISTED = 64  # values; marginals of numbers with more values use intervals


class MixedMixture(TableRowsMixin, DensityMixin, PrivateEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A model of a whole table under differential privacy, for sampling synthetic rows.

    Columns may be of any kind, and cells may be missing. The default method spends the budget on noisy
    histograms of all columns and noisy tables of all pairs of columns. A mixture of products is then fitted
    to them, which is free (docs/guide/synthetic.md).

    Parameters
    ----------
    n_components : int or "auto", default "auto"
        Largest number of components (of each restart; several are averaged). The fit uses fewer if that suits
        the noisy tables better. "auto" chooses by the noise. With 1, columns are independent, including the
        target.
    schema : Schema
        The columns: kinds, public bounds and categories, and whether cells may be missing.
    epsilon : float
        Epsilon of the privacy budget.
    delta : float, default 1e-6
        Delta of the privacy budget. Choose it well below one over the number of rows.
    method : {"oneshot", "em"}, default "oneshot"
        "em" runs DP-EM with one mechanism per step, as in the paper, for comparison.
    target : str, optional
        Column whose relation to all others should be kept: all tables of pairs are split by its values. If
        synthetic rows will train a classifier, name the label. With "em" the target is a column like any
        other.
    adjacency : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation: the number of rows is public with "replace_one" and private with "add_remove".
    rows_per_person : int, default 1
        Largest number of rows of one person; the guarantee then covers persons.
    person : str, optional
        Column that identifies persons; rows of a person beyond `rows_per_person` are left out. Without this
        column, dpem does not check that nobody has more rows (docs/how-to/persons.md).
    data_quality : bool, default True
        With a schema, whether to spend one hundredth of the budget on noisy counts, per column, of cells that
        could not be read, were outside the categories, or were clipped (`data_quality_`). A warning names
        columns with clearly too many of them.
    max_iter : int, optional
        Number of steps of "em", 10 by default.
    ledger : Ledger or path, optional
        Ledger to charge before any value is read.
    random_state : int or RandomState, optional
        Seed of the choices that need no privacy: starts, post-processing and `sample`. It never seeds the
        noise.
    n_jobs : int, optional
        Number of threads; None uses all cores, and -2 all but one.
    verbose : int, default 0
        Whether to print the current step.

    Attributes
    ----------
    n_components_ : int
        Number of components, the largest over all blocks of columns; 1 if columns are independent.
    smoothing_ : float
        Strength of the smoothing, chosen on the noisy tables; infinite if columns are independent, NaN if no
        pairs were counted.
    blocks_ : list of tuple of str
        Blocks of columns whose pairs were counted: a single block, unless there are more than 100 columns.
        Blocks are independent of each other, given the target.
    classes_ : ndarray
        Values of the target, if there is one.
    privacy_, plan_
        The guarantee, and all releases with their noise.
    charge_ : Charge or None
        Ledger, number and hash of the record of the charge; None without a ledger.
    n_rows_ : int or None
        The number of rows; None if it is private.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    data_quality_ : DataQuality or None
        Noisy counts of the cells that do not conform to the schema, if they were released.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(20, 90, size=20_000)
    >>> ill = rng.random(20_000) < age / 100
    >>> ward = np.where(ill, "medical", rng.choice(["medical", "surgery"], size=20_000))
    >>> patients = pd.DataFrame({"age": age, "ill": ill, "ward": ward})
    >>> schema = dpem.Schema({
    ...     "age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
    ...     "ill": {"kind": "boolean"},
    ...     "ward": {"kind": "categorical", "categories": ["medical", "surgery"], "outside": "medical"},
    ... })
    >>> model = dpem.MixedMixture(schema=schema, epsilon=1.0, random_state=0).fit(patients)
    >>> rows = model.sample(5000)
    >>> rows.dtypes.astype(str).to_dict()
    {'age': 'int64', 'ill': 'bool', 'ward': 'category'}
    >>> bool(abs(rows["ill"].mean() - ill.mean()) < 0.05)
    True
    >>> bool(rows[rows["ward"] == "surgery"]["ill"].mean() < 0.1)
    True
    """

    _public_name: ClassVar[str] = "dpem.MixedMixture"
    _constraints: ClassVar[Constraints] = {
        "method": word(("oneshot", "em")),
        "n_components": either("auto", whole()),
        "max_iter": optional(whole()),
    }
    bounds = None
    data_norm = None
    schema: Schema
    n_components_: int
    smoothing_: float
    blocks_: list[tuple[str, ...]]
    classes_: NDArray[Any]
    _table: FittedTable

    n_components: int | str
    method: str
    target: str | None
    max_iter: int | None

    @stores_arguments
    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        schema: Schema,
        epsilon: float,
        delta: float = 1e-6,
        method: str = "oneshot",
        target: str | None = None,
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
        data_quality: bool = True,
        max_iter: int | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    # -- fit ---------------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        super()._check_arguments()
        require_schema(self.schema).require_complete()
        if self.target is not None:
            self._place(self.target, "target")

    def _check_schema(self, schema: Schema) -> None:
        """Accept columns of any kind."""

    @property
    def _allows_missing(self) -> bool:
        return True

    def _public_facts(self, n_columns: int, names: Sequence[str] | None, n_rows: int | None) -> PublicFacts:
        del n_columns
        grid = LevelGrid(self.schema)
        k = None if isinstance(self.n_components, str) else self.n_components
        target = None if self.target is None else self._place(self.target, "target")
        request: OneShotRequest | EMRequest
        if self.method == "em":
            request = EMRequest(grid, k, self.max_iter or DEFAULT_ITERATIONS)
        else:
            request = OneShotRequest(grid, k, target, thread_count(self.n_jobs))
        return PublicFacts(grid, n_rows, names, request)

    def _plan(self, public: PublicFacts) -> Plan:
        return self._with_quality(public.request.plan(public.n_rows, **self._terms))

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        left_out = public.request.left_out(plan)
        if left_out is not None:
            warn(left_out, WeakSignalWarning)
        elif public.n_rows is not None:
            _, entries = noise_of_counts(plan, public.n_rows)
            warn_of_noise(entries, [1.0] * len(entries), plan, also=", fewer columns")
        if public.n_rows is not None and self.method == "oneshot":
            blurred = warning_of_relations(public.request, plan, public.n_rows)
            if blurred is not None:
                warn(blurred, WeakSignalWarning)

    def _warn_of_fit(self, public: PublicFacts, plan: Plan, gate: Gate) -> None:
        left_out = public.request.left_out(gate.plan)
        if left_out is not None and left_out != public.request.left_out(plan):
            warn(left_out, WeakSignalWarning)

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        fit = fit_by_em if self.method == "em" else fit_one_shot
        with np.errstate(all="ignore"):
            return self._attributes(fit(gate, public.request, public.n_rows, random_state, progress))

    def _attributes(self, fitted: FittedTable) -> dict[str, Any]:
        """Return the fitted attributes by name."""
        names = self.schema.names
        found = {
            "_table": fitted,
            "n_components_": max(block.weights.shape[1] for block in fitted.density.blocks),
            "smoothing_": fitted.smoothing,
            "blocks_": [tuple(names[j] for j in block.columns) for block in fitted.density.blocks],
        }
        if self.target is not None and self._is_listed(self.target):
            found["classes_"] = self._values(self.target)
        return found

    _weaknesses = weaknesses_of
    _remarks = remarks_of
    _figures = figures_of
    _law = law_of

    def _predictions(self, rows: Any, *, probabilities: bool) -> tuple[NDArray[Any], list[str]]:
        if probabilities:
            chances = self.predict_proba(rows)
            return chances, [f"probability of {name}" for name in self.classes_]
        return np.asarray(self.predict(rows))[:, None], [str(self.target)]

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        del spread
        granted, noise = noise_of_counts(plan, n_rows)
        visible = None if self.method == "em" else planned_relations(public.request, plan, n_rows)
        return Forecast(plan, {}, granted, tuple(noise), what_to_expect(visible), n_rows / last_noise(plan))

    def _place(self, name: str, argument: str) -> int:
        """Return the position of a column in the schema."""
        if _validate.is_not(name, str) or name not in self.schema.names:
            raise _validate.fail(
                f"a column of the schema as {argument}",
                argument,
                name,
                f"{did_you_mean([name], self.schema.names)}It has {listed(self.schema.names)}.",
            )
        return self.schema.names.index(name)

    # -- synthetic rows ----------------------------------------------------------------------------------

    def sample(
        self, n_samples: int = 1, given: Mapping[str, Any] | None = None, *, random_state: Any = None
    ) -> pd.DataFrame:
        """Draw synthetic rows, without any charge: the model is released.

        Parameters
        ----------
        n_samples : int, default 1
            Number of rows.
        given : mapping of str to value, optional
            Values of some columns in all rows; None is a missing cell. The other columns are drawn given
            these values.
        random_state : int or RandomState, optional
            Seed of this draw; the `random_state` of the estimator by default.

        Returns
        -------
        DataFrame
            Rows with the names and types of the schema. Each row has the distribution of the model; together
            they are spread more evenly than independent draws.
        """
        check_is_fitted(self)
        n = _validate.integer(n_samples, "n_samples")
        random_state = self._random(random_state)
        density = self._table.density
        fixed = self._fixed(given)
        if fixed:
            levels = np.full(len(density.bins), UNKNOWN, dtype=np.intp)
            for j, value in fixed.items():
                levels[j] = int(density.bins[j].levels.codes(np.array([value]))[0])
            density = density.given(levels)
        drawn = density.draw(n, random_state)
        columns = np.stack(
            [
                column.levels.values(levels, random_state.uniform(size=n))
                for column, levels in zip(density.bins, drawn, strict=True)
            ]
        )
        for j, value in fixed.items():
            columns[j] = value
        return to_dataframe(self.schema, columns)

    def _fixed(self, given: Mapping[str, Any] | None) -> dict[int, float]:
        """Return the given values as parsed cells, by position."""
        if given is not None and not isinstance(given, Mapping):
            raise _validate.fail('values by column, such as given={"age": 40}', "given", given)
        fixed = {}
        for name, value in (given or {}).items():
            j = self._place(name, "given")
            column = self.schema.columns[j]
            cell = np.empty(1, dtype=object)
            cell[0] = value
            parsed, found = column.parse(cell)
            fraction = column.is_whole and isinstance(value, float) and value != parsed[0]
            if found[0] >= ABSENT or fraction or (value is None and not column.missing):
                raise _validate.fail(f"a value of column {name!r} ({_values_of(column)})", "given", value)
            fixed[j] = float(parsed[0])
        return fixed

    # -- distributions -----------------------------------------------------------------------------------

    def _is_listed(self, name: str) -> bool:
        column = self.schema.columns[self.schema.names.index(name)]
        return not column.is_number or (column.is_whole and np.diff(column.limits)[0] < _LISTED)

    def _values(self, name: str) -> NDArray[Any]:
        """Return the values of a column's levels."""
        column = self.schema.columns[self.schema.names.index(name)]
        if column.is_number:
            steps = np.arange(int(column.limits[0]), int(column.limits[1]) + 1)
            if column.is_time:
                return from_steps(steps.astype(np.float64), column.kind, column.resolution)
            return steps
        values = np.empty(len(column.categories or ()), dtype=object)
        values[:] = list(column.categories or ())
        if column.kind == "boolean":
            return values.astype(bool)
        return values.astype(str) if all(isinstance(value, str) for value in values) else values

    def marginals(self, *columns: str) -> pd.Series[float]:
        """Return the distribution of one column, or the joint one of two or three, in the model: free.

        Parameters
        ----------
        *columns : str
            Names of one to three columns.

        Returns
        -------
        Series
            Probabilities, indexed by values: intervals for numbers with many values, None for missing cells.

        Examples
        --------
        As a table of two columns, with one in the rows and the other in the columns:
        ``model.marginals("sex", "ward").unstack()``.
        """
        import pandas as pd  # noqa: PLC0415

        check_is_fitted(self)
        places = [self._place(name, "columns") for name in columns]
        if not 1 <= len(columns) <= 3 or len(set(columns)) != len(columns):
            raise _validate.fail("one to three different columns", "columns", columns)
        labels, names = zip(*(self._labels(j) for j in places), strict=True)
        entries = np.prod([float(len(name)) for name in names])
        if entries > _MOST_ENTRIES:
            raise _validate.fail(f"a table of at most {_MOST_ENTRIES:g} entries", "columns", columns)
        table = self._table.density.joint(places, labels)
        if len(columns) == 1:
            index: Any = pd.Index(names[0], name=columns[0], dtype=object)
        else:
            index = pd.MultiIndex.from_product(names, names=columns)
        return pd.Series(table.ravel(), index=index, name="probability")

    def _labels(self, j: int) -> tuple[NDArray[np.intp], list[Any]]:
        """Return the label of each level of a column, and the names of the labels."""
        import pandas as pd  # noqa: PLC0415

        levels, column = self._table.density.bins[j].levels, self.schema.columns[j]
        if self._is_listed(column.name):
            label = np.arange(levels.size)
            names: list[Any] = list(self._values(column.name))
        else:
            low, high = column.limits
            part = np.arange(levels.n_values) * 16 // levels.n_values
            starts = np.flatnonzero(np.diff(part, prepend=-1))
            edges = [low, *(levels.lower_edges[starts[1:]]), high]
            names = [
                pd.Interval(float(a), float(b), closed="left" if b < high else "both")
                for a, b in itertools.pairwise(edges)
            ]
            label = np.append(part, part.max() + 1) if column.missing else part
        return label, names + [None] * column.missing

    def diagnostics(self) -> pd.DataFrame:
        """Return the dependence and the misfit of every pair of columns: free, since the tables are released.

        Returns
        -------
        DataFrame
            For every counted pair, `dependence`, the difference of the noisy table from independent columns,
            and `misfit`, its difference from the model, both in standard deviations of their errors. A
            dependence below 3 is within the noise. A misfit far above 3 means that the model misses part of
            the relation.
        """
        import pandas as pd  # noqa: PLC0415

        check_is_fitted(self)
        names = self.schema.names
        i, j = np.triu_indices(len(names), 1)
        counted = ~np.isnan(self._table.dependence[i, j])
        i, j = i[counted], j[counted]
        frame = pd.DataFrame(
            {
                "first": [names[a] for a in i],
                "second": [names[b] for b in j],
                "dependence": self._table.dependence[i, j],
                "misfit": self._table.misfit[i, j],
            }
        )
        return frame.sort_values("dependence", ascending=False, ignore_index=True)

    # -- files -------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return arrays_of(self._table)

    def _restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        fitted = table_from_arrays(LevelGrid(self.schema), arrays)
        target = fitted.density.target
        names = self.schema.names
        require(self.target is None or self.target in names, "a target among the columns")
        require(target is None or names[target] == self.target, "parts of the target")
        self.__dict__.update(self._attributes(fitted))


def _values_of(column: Column) -> str:
    """Describe the values of a column in words; categories by name."""
    if column.is_number or column.kind == "boolean":
        return column.describe()
    return listed([str(category) for category in column.categories or ()])
