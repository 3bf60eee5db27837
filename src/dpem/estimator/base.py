"""The base class of all estimators, with the one `fit`, which charges the ledger before it reads values."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator

from dpem import _validate
from dpem._warnings import warn
from dpem.data import Domain, RowGrid, RowSource, Schema, TableGrid, TableRows
from dpem.data.fitted_columns import check_columns
from dpem.data.schema import require_schema
from dpem.data.sources.files import Files, file_head
from dpem.data.sources.on_device import without_device
from dpem.data.to_dataframe import to_dataframe
from dpem.engines import open_rows, rows_to_release
from dpem.errors import DeltaWarning, InvalidArgumentError, WeakFitWarning
from dpem.estimator.arguments import boolean, check_constraints, verbosity
from dpem.estimator.data_quality import STAGE as QUALITY
from dpem.estimator.data_quality import DataQuality, release_quality, with_quality_stage
from dpem.estimator.planned_columns import Forecast, PlannedColumns, warn_of_noise
from dpem.estimator.saving import SavedModel
from dpem.gate.opening import open_gate
from dpem.gate.progress import Progress
from dpem.gate.release import CHARGED
from dpem.gate.resume import active_resume_file, described
from dpem.privacy.ledger import Ledger
from dpem.privacy.neighbours import Adjacency, PrivacyUnit
from dpem.privacy.randomness import PublicRandom, public_random
from dpem.privacy.statement import PrivacyStatement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpem.data.levels import LevelGrid
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.planned_columns import ExpectedNoise
    from dpem.estimator.summary import ColumnLaw, Gaussians, Profile, Weakness
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan, Terms

__all__ = [
    "Adjacency",
    "Ledger",
    "PrivacyStatement",
    "PrivateEstimator",
    "PublicFacts",
    "PublicRandom",
    "public_random",
]


_OF_LAST_FIT: Any = object()
_FEW_PARTS = 100  # clusters or components, which are fitted to any number of rows


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """Public facts about the table and the model: a plan depends on nothing else.

    Attributes
    ----------
    domain : Domain, TableGrid or LevelGrid
        The declared bounds of the rows.
    n_rows : int or None
        The number of rows; None if it is private.
    names : sequence of str or None
        The names of the columns, if the table has names.
    request : object
        Settings that the model derives from its arguments, see `PrivateEstimator._request`.
    grid : RowGrid or None
        The grid that maps rows to integers, if it is not `domain`.
    """

    domain: Domain | TableGrid | LevelGrid
    n_rows: int | None
    names: Sequence[str] | None
    request: Any = None
    grid: RowGrid | None = None

    @property
    def numeric_domain(self) -> Domain:
        """The domain of a model with numeric columns only."""
        return cast("Domain", self.domain)


class PrivateEstimator(SavedModel, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of all estimators: `fit` fixes the order of the steps, and a model implements them.

    A model implements

    - `_constraints`: valid values of its own arguments;
    - `_request` (or `_public_facts`): settings from its arguments and the declared columns;
    - `_plan`: every release with its noise, from public facts only;
    - `_run`: the private fit through the gate, which returns the fitted attributes;
    - `_run_plain`: the non-private fit, for ``epsilon=math.inf``;
    - `_restore_arrays`: the fitted attributes from a file.

    The base class provides the opening of files, tables and clusters, the charge, the resume file, data
    quality, the privacy statement, saving, progress and warnings.
    """

    _constraints: ClassVar[Constraints] = {"data_quality": boolean, "verbose": verbosity}

    # Arguments of every estimator; each subclass repeats them in its own signature.
    epsilon: float
    delta: float
    bounds: Any
    data_norm: float | None
    schema: Schema | None
    adjacency: str
    rows_per_person: int
    person: str | None
    data_quality: bool = False  # for the paper's methods, which lack the argument
    ledger: Ledger | str | os.PathLike[str] | None
    random_state: Any
    n_jobs: int | None
    verbose: int

    # -- fit ---------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the model.

        Before any value is read, `fit` checks arguments and columns, makes the plan and charges the ledger.
        No value raises: numbers outside their bounds are clipped, and unreadable cells are replaced as the
        schema declares. What NaN and infinity become without a schema depends on the model
        (docs/guide/missing-values.md). In k-means, Gaussian mixtures and factor analysis the whole row counts
        as the middle of the bounds, unless ``missing="em"`` is given. In latent classes and `PrivateEM` only
        the cell is replaced: NaN by the middle of its bounds, infinity by the nearest bound.

        Parameters
        ----------
        X : array, DataFrame, path, function, Dask or Spark table, or tensor
            Rows with the declared columns (docs/how-to/scale.md lists the row sources).
        y : ignored
            Present for scikit-learn pipelines.

        Returns
        -------
        self
        """
        self._check_arguments()
        random_state = self._random()
        progress = Progress(self._public_name.removeprefix("dpem."), self.verbose)
        source = self._open(X)
        n_rows = source.n_rows if self._plain or self._adjacency.n_rows_public else None
        self._check_parts(n_rows)
        public = self._public_facts(source.n_columns, source.names, n_rows)
        if self._plain:
            self._attach(source, self._run_plain(source, public, random_state, progress))
            return self
        if n_rows is not None:
            self._warn_of_delta(n_rows)
        plan = self._plan(public)
        self._warn_of_plan(public, plan)
        gate = self._gate(plan, source, public)
        with self._charged():
            quality = self._release_quality(gate)
            found = self._run(gate, public, random_state, progress)
        self._attach(source, found, gate, quality)
        self._warn_of_fit(public, plan, gate)
        return self

    # The steps that a model implements.

    def _check_arguments(self) -> None:
        """Raise for arguments that are invalid for any table; a model may add rules of its own."""
        check_constraints(self)
        self._check_budget()

    def _open(self, X: Any) -> RowSource:
        """Open the rows; check names and types of columns, without reading values."""
        if self.schema is not None:
            self._check_schema(require_schema(self.schema))
        return self._rows_to_fit(X, self.schema)

    def _public_facts(self, n_columns: int, names: Sequence[str] | None, n_rows: int | None) -> PublicFacts:
        """Return the public facts on which a plan depends."""
        domain = self._domain(n_columns, names, keep_distances=self._keeps_distances)
        return PublicFacts(domain, n_rows, names, self._request(domain))

    def _request(self, domain: Domain) -> Any:
        """Derive the settings of the model from its validated arguments."""
        del domain

    def _plan(self, public: PublicFacts) -> Plan:
        """Return the plan; a private number of rows may refine its reserved stage once it is released."""
        raise NotImplementedError

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        """Warn if public facts show that noise will hide the result."""

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        """Make the planned releases; return the fitted attributes by name."""
        raise NotImplementedError

    def _run_plain(
        self, source: RowSource, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        """Fit without privacy; return the fitted attributes by name."""
        del source, public, random_state, progress
        remedy = "This model has no fit without noise. Use a large epsilon, such as 100."
        raise _validate.fail("a finite epsilon", "epsilon", self.epsilon, remedy)

    def _warn_of_fit(self, public: PublicFacts, plan: Plan, gate: Gate) -> None:
        """Warn if a released number of rows reduced the plan."""

    # -- before the data ---------------------------------------------------------------------------------

    @property
    def _plain(self) -> bool:
        """Whether the fit is non-private: epsilon = inf."""
        return _validate.is_infinite(self.epsilon)

    @property
    def _adjacency(self) -> Adjacency:
        return Adjacency.parse(self.adjacency)

    @property
    def _unit(self) -> PrivacyUnit:
        return PrivacyUnit(self.rows_per_person, self.person)

    @property
    def _terms(self) -> Terms:
        """The guarantee of the plan."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self._adjacency,
            "unit": self._unit,
        }

    def _check_budget(self) -> None:
        if self._plain:
            if self.ledger is not None:
                raise _validate.fail(
                    "a finite epsilon with a ledger",
                    "epsilon",
                    self.epsilon,
                    "A fit without noise cannot be charged: leave the ledger out.",
                )
        else:
            _validate.epsilon(self.epsilon)
            _validate.delta_of_releases(self.delta)
        _ = self._adjacency, self._unit  # these raise for invalid values

    def _check_parts(self, n_rows: int | None) -> None:
        """Raise for many clusters or components, more than a public number of rows: the fit would take long.

        Few of them are allowed for any number of rows: a fit of a small table is never refused.
        """
        if self._plain or not hasattr(type(self), "predict"):  # factors are no parts of the rows
            return
        for name in ("n_clusters", "n_components"):
            count = getattr(self, name, None)
            if isinstance(count, int | np.integer) and n_rows is not None and count > max(n_rows, _FEW_PARTS):
                raise InvalidArgumentError(
                    f"Expected at most as many clusters or components as rows, got {name}={count:d} for "
                    f"n_samples={n_rows:d}. Choose a smaller {name}."
                )

    def _rows_to_fit(self, X: Any, schema: Schema | None, *, by_position: bool = False) -> RowSource:
        """Open the rows, limited to the declared number of each person; raise if there is no row."""
        unit = self._unit
        return rows_to_release(
            X, schema, self._adjacency, unit.rows_per_person, unit.person, by_position=by_position
        )

    def _check_schema(self, schema: Schema) -> None:
        """Raise if the schema has columns of a kind that the model does not support."""
        schema.require_numbers(missing=self._allows_missing)

    def _domain(
        self, n_columns: int, names: Sequence[str] | None = _OF_LAST_FIT, *, keep_distances: bool = True
    ) -> Domain:
        """Return the public domain from the arguments; the names are those of the last fit unless given."""
        names = getattr(self, "feature_names_in_", None) if names is _OF_LAST_FIT else names
        return Domain.from_arguments(
            n_columns,
            bounds=self.bounds,
            data_norm=self.data_norm,
            schema=self.schema,
            names=names,
            keep_distances=keep_distances,
        )

    def _random(self, random_state: Any = None) -> PublicRandom:
        """Return the random generator for post-processing; it never generates noise.

        A `random_state` given to the call replaces that of the estimator.
        """
        if random_state is not None:
            return public_random(random_state)
        resume_file = active_resume_file()
        return public_random(
            self.random_state if resume_file is None else resume_file.public_seed(self.random_state)
        )

    def _warn_of_delta(self, n_rows: float) -> None:
        if self.delta >= 1 / n_rows:
            about = "" if isinstance(n_rows, int) else "about "
            warn(
                f"delta={self.delta:g} is not below one over the number of rows ({about}{n_rows:.0f}). Even "
                f"a mechanism that publishes a whole row could satisfy it. Choose a smaller delta.",
                DeltaWarning,
            )

    def _with_quality(self, plan: Plan) -> Plan:
        """Add the stage of data quality, with a hundredth of the budget, to the plan."""
        if self.schema is None or not self.data_quality:
            return plan
        return with_quality_stage(plan, len(self.schema.columns))

    def _release_quality(self, gate: Gate) -> tuple[NDArray[np.float64], float] | None:
        """Release the counts of data quality, if they are planned."""
        if self.schema is not None and any(stage.name == QUALITY for stage in gate.plan.stages):
            return release_quality(gate, self.schema.names)
        return None

    def _gate(self, plan: Plan, source: RowSource, public: PublicFacts) -> Gate:
        """Charge the whole plan and return the gate that may read the rows."""
        charge = getattr(self, "charge_", None)
        if self.ledger is None and charge is not None:
            raise InvalidArgumentError(
                f"Expected a ledger, got ledger=None: this model was charged to the ledger of "
                f"{charge.ledger!r}, and another fit costs again. Give it with set_params(ledger=...), or "
                f"fit a new estimator."
            )
        names = self.schema.names if self.schema is not None else source.names
        return open_gate(
            plan,
            source,
            public.domain if public.grid is None else public.grid,
            ledger=self.ledger,
            schema=self.schema,
            n_jobs=self._threads(public),
            purpose=f"{self._public_name}.fit",
            identity=[self._described_arguments(), source.names, source.n_columns, public.n_rows],
            bounds=public.domain.describe(names),
            bounds_source=public.domain.source,
        )

    def _threads(self, public: PublicFacts) -> int | None:
        """Return the number of threads for sums; None means all cores."""
        del public
        return self.n_jobs

    def _described_arguments(self) -> dict[str, Any]:
        """Return the arguments that identify a fit, so that the right fit continues after a crash."""
        without = {"ledger", "n_jobs", "verbose"}
        arguments = {k: v for k, v in self.get_params(deep=False).items() if k not in without}
        return {name: described(value) for name, value in arguments.items()}

    @contextmanager
    def _charged(self) -> Iterator[None]:
        """Add a note to exceptions after the charge: the charge stays."""
        try:
            yield
        except BaseException as error:
            if self.ledger is not None:
                error.add_note(CHARGED)
            raise

    # -- planning ----------------------------------------------------------------------------------------

    def _forecast(self, n_rows: int, columns: Any, spread: Any) -> Forecast:
        """Forecast a fit of `n_rows` rows from public numbers, for `dpem.plan`."""
        names, n_columns = self._names_to_plan(columns)
        self._check_parts(n_rows if self._adjacency.n_rows_public else None)
        public = self._public_facts(n_columns, names, n_rows)
        plan = self._plan(public)
        self._warn_of_plan(public, plan)
        return self._expected(public, plan, n_rows, spread)

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:  # noqa: ARG002
        """Return the noise in the parameters that a plan causes."""
        raise _validate.fail("an estimator with a forecast", "estimator", self._public_name)

    def _names_to_plan(self, named: Any) -> tuple[tuple[str, ...] | None, int]:
        """Return the names of the columns of a plan, if they are known, and their number."""
        names = None
        if self.schema is not None:
            self._check_schema(require_schema(self.schema))
            self.schema.require_complete()
            names = self.schema.names
        elif named is None and isinstance(self.bounds, Mapping):
            names = tuple(map(str, self.bounds))
        elif named is None:
            pair = self.bounds if isinstance(self.bounds, list | tuple | np.ndarray) else ()
            sizes = {len(bound) for bound in pair if hasattr(bound, "__len__")}
            if len(sizes) != 1:
                raise _validate.fail("the number of columns of the table", "columns", named)
            named = sizes.pop()
        elif not isinstance(named, int | np.integer):
            expected = "the number or the names of the columns"
            names = tuple(
                _validate.each(named, "columns", lambda name: _validate.text(name, "columns"), expected)
            )
        return names, _validate.integer(named if names is None else len(names), "columns")

    def _planned_columns(self, public: PublicFacts, spread: Any = None) -> PlannedColumns:
        """Return the columns with a public assumption about their spread."""
        return PlannedColumns.of_domain(public.numeric_domain, public.names, spread)

    @property
    def _keeps_distances(self) -> bool:
        """Whether the model uses distances in the user's units, so that all columns have the same scale."""
        return True

    # -- after the fit -----------------------------------------------------------------------------------

    def _attach(
        self,
        source: RowSource,
        found: dict[str, Any],
        gate: Gate | None = None,
        quality: tuple[NDArray[np.float64], float] | None = None,
    ) -> None:
        """Set results, columns, plan and privacy statement in one step, then warn of weak results.

        An interrupt leaves the previous fit or this one, never the parameters of one with the statement of
        the other.
        """
        if gate is not None:
            gate.close()
        private_n = gate is not None and not gate.plan.adjacency.n_rows_public
        found = found | {
            "n_features_in_": source.n_columns,
            "plan_": None if gate is None else gate.plan,
            "charge_": None if gate is None else gate.charge,
            "n_rows_": None if gate is None or private_n else source.n_rows,
            "privacy_": PrivacyStatement.not_private() if gate is None else gate.statement(),
            "data_quality_": None,
        }
        if source.names is not None:
            found["feature_names_in_"] = np.array(source.names, dtype=object)
        if quality is not None and self.schema is not None and gate is not None:
            n_rows = float(source.n_rows if not private_n else gate.n_rows or 1.0)
            found["data_quality_"] = DataQuality(self.schema.names, *quality, n_rows)
        stale = [name for name in vars(self) if name.endswith("_") and name not in found]
        self.__dict__ = {name: value for name, value in vars(self).items() if name not in stale} | found
        if self.data_quality_ is not None:
            self.data_quality_.warn()
        if gate is not None and private_n and gate.n_rows is not None:
            self._warn_of_delta(float(gate.n_rows))
        for weakness in [] if gate is None else self._weaknesses():
            warn(str(weakness), WeakFitWarning)

    def _weaknesses(self) -> list[Weakness]:
        """Return what is weak about a private fit, from released values: parameters that are mostly noise."""
        return []

    def _remarks(self) -> list[str]:
        """Return sentences without which released values of a private fit could be misread."""
        return []

    def _column_names(self) -> Sequence[str] | None:
        if self.schema is not None:
            return self.schema.names
        return getattr(self, "feature_names_in_", None)

    def _plain_rows(self, source: RowSource, domain: Domain) -> NDArray[np.float64]:
        """Return the rows (n, d) of a non-private fit, clipped as in a private fit; raise for NaN."""
        rows = source.in_memory().block().T
        bad = (np.isinf(rows) if self._allows_missing else ~np.isfinite(rows)).any(axis=0)
        if bad.any():
            names = source.names or [f"x{j}" for j in range(rows.shape[1])]
            which = ", ".join(repr(names[j]) for j in np.flatnonzero(bad))
            what = "infinity" if self._allows_missing else "NaN or infinity"
            raise InvalidArgumentError(
                f"Expected finite numbers with epsilon=inf: Input X contains {what} in column {which}. Drop "
                f"these rows, or fill their cells. (A private fit never raises because of a value.)"
            )
        return domain.clip(rows)

    def _rows(self, X: Any) -> NDArray[np.float64]:
        """Validate rows to predict and return them as an (n, d) array; unlike `fit`, raise for bad values."""
        source = self._fitted_source(X)
        source.require_rows()
        rows = source.block().T
        if self._allows_missing:
            if np.isinf(rows).any():
                raise InvalidArgumentError(
                    "Expected finite or missing numbers: Input X contains infinity. Drop or fill such cells."
                )
        elif not np.isfinite(rows).all():
            raise InvalidArgumentError(
                "Expected finite numbers: Input X contains NaN or infinity. Drop or fill such cells."
            )
        return rows

    def _as_declared(self, rows: NDArray[np.float64]) -> Any:
        """Convert sampled rows (n, d) to a DataFrame as the schema declares; without a schema, do nothing."""
        if self.schema is None:
            return rows
        low, high = self.schema.bounds
        return to_dataframe(self.schema, np.minimum(np.maximum(rows, low), high).T)

    @property
    def _allows_missing(self) -> bool:
        """Whether cells may be missing."""
        return False

    def _fitted_source(self, X: Any) -> TableRows:
        """Open rows with the columns of the fit; only names and types are checked."""
        source = open_rows(X, self.schema, person=self._person_in(X)).in_memory()
        check_columns(self, source)
        return source

    def _person_in(self, X: Any) -> str | None:
        """Return the column of persons if these rows have it: models leave it out."""
        if self.person is None or self.schema is not None:  # a schema does not contain this column
            return None
        X = without_device(X)
        paths = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | os.PathLike)
        if paths or isinstance(X, str | os.PathLike | Files):
            names = file_head(X if isinstance(X, Files) else Files(X))[0].column_names
        else:  # in Arrow, `columns` are arrays
            names = getattr(X, "column_names", getattr(X, "columns", None))
        return self.person if names is not None and self.person in list(names) else None

    # -- for commands and reports ------------------------------------------------------------------------

    _part: ClassVar[str] = "component"  # the name of the parts that `predict` returns

    def _profile(self) -> Profile | None:
        """Return released values by part and column, with their noise; None if the model has no profile."""
        return None

    def _figures(self) -> dict[str, Any]:
        """Return the released parameters that the report draws, as JSON."""
        return {"kind": "none", "columns": []}

    def _gaussians(self) -> Gaussians | None:
        """Return the released density where it is a mixture of Gaussians."""
        return None

    def _law(self, column: int) -> ColumnLaw | None:
        """Return the released distribution of a column where it is a table of probabilities."""
        del column
        return None

    def _spread(self) -> dict[str, float] | None:
        """Return the standard deviation of each column within a part, if the model has one."""
        return None

    def _predictions(self, rows: Any, *, probabilities: bool) -> tuple[NDArray[Any], list[str]]:
        """Return the columns that `dpem predict` writes, (n, columns), and their names."""
        predicting: Any = self
        if not hasattr(predicting, "predict"):
            raise InvalidArgumentError(
                f"Expected a model that predicts, got {type(self).__name__}, which does not."
            )
        if not probabilities:
            return np.asarray(predicting.predict(rows))[:, None] + 1, [self._part]
        if not hasattr(predicting, "predict_proba"):
            raise InvalidArgumentError(
                f"Expected a model with probabilities, got {type(self).__name__}. Leave --probabilities out."
            )
        chances = predicting.predict_proba(rows)
        return chances, [f"probability of {part + 1}" for part in range(chances.shape[1])]

    def __str__(self) -> str:
        """Return scikit-learn's text; once fitted, with remarks and warnings about a weak fit."""
        found = [repr(self)]
        if hasattr(self, "privacy_") and self.privacy_.event is not None:
            found += self._remarks()
            found += [f"Weak fit: {weakness.finding}" for weakness in self._weaknesses()]
            if self.data_quality_ is not None and self.data_quality_.bad:
                names = ", ".join(map(repr, self.data_quality_.bad))
                found.append(f"The schema does not fit the rows of {names}: see data_quality_.")
        return "\n".join(found)

    def __sklearn_tags__(self) -> Any:
        """Declare whether rows may have missing cells."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_missing
        return tags

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's diagram; once fitted, with the privacy statement below."""
        diagram = super()._repr_html_inner()
        if hasattr(self, "privacy_"):
            diagram += f"<p><strong>Privacy.</strong> {html.escape(str(self.privacy_))}</p>"
        return str(diagram)


def warn_of_column_noise(
    entries: Sequence[ExpectedNoise], domain: Domain, plan: Plan, also: str, *, parameter: str | None = None
) -> None:
    """Warn of columns whose parameters will be mostly noise, from public numbers only."""
    low, high = domain.box
    chosen = [entry for entry in entries if parameter is None or entry.parameter == parameter]
    warn_of_noise(chosen, (high - low).tolist(), plan, also=also)
