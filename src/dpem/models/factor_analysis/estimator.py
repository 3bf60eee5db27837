"""Private factor analysis with scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dpem import _validate
from dpem._threads import one_thread, thread_count
from dpem._warnings import warn
from dpem.data.domain import GRID
from dpem.errors import InvalidArgumentError, WeakSignalWarning
from dpem.estimator.arguments import number, stores_arguments, whole
from dpem.estimator.base import Adjacency, PrivateEstimator, PublicFacts, warn_of_column_noise
from dpem.estimator.planned_columns import Forecast
from dpem.estimator.summary import Weakness
from dpem.fitting.reserve import with_shape
from dpem.fitting.standard_errors import deviations_of_stacks
from dpem.gate.plan import Plan, PrivacyUnit
from dpem.models.factor_analysis.density import FactorDensityMixin, arrays_of
from dpem.models.factor_analysis.em import DenseMoment, Factors, LowRankMoment, fit_factors, principal_factors
from dpem.models.factor_analysis.fit import FactorRequest, FactorShape, fit_moment
from dpem.models.factor_analysis.summary import figures_of, noise_of_factors, profile_of, spread_of
from dpem.statistics.projection import ProjectedDomain, orthonormal_basis

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import RowSource, Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.progress import Progress
    from dpem.models.factor_analysis.em import Moment
    from dpem.models.factor_analysis.fit import FittedMoment

__all__ = ["FactorAnalysis", "factors_allowed"]

_PARTS = ("mean", "components", "noise_variance")
_SMALLEST_PLAIN_NOISE = 1e-12  # as in scikit-learn
# Draws for standard errors: they take about once or twice the time of the fit.
_DRAWS, _DRAWS_IN_MANY_COLUMNS, _MANY_COLUMNS = 40, 8, 400


class FactorAnalysis(FactorDensityMixin, PrivateEstimator):
    r"""Factor analysis under differential privacy: a row is W z + mean + independent noise in each column.

    Small shares of the budget locate the data and measure the width of each column. The second moment is then
    released a few times, each time in the frame of the current model, so that its noise is relative to that
    model. EM on the released moment is free (docs/guide/factor-analysis.md).

    Parameters
    ----------
    n_components : int, default 2
        Number of factors. `dpem.factors_allowed` returns how many the noise allows.
    epsilon : float
        Epsilon of the privacy budget. ``math.inf`` runs plain EM on the sample moment and marks the result as
        not private.
    delta : float, default 1e-6
        Delta of the privacy budget. Choose it well below one over the number of rows.
    bounds : (low, high), or mapping of str to (low, high)
        Public bounds of the columns: two numbers, or lower and upper bounds with one number per column. For
        columns with names also a mapping such as ``{"age": (0, 120)}``. Values beyond are clipped.
    data_norm : float
        Public bound on the Euclidean norm of a row; an alternative to bounds.
    schema : Schema
        Declared columns with their public bounds; an alternative to bounds.
    basis : array-like of shape (n_features, p), optional
        Public orthonormal directions, in decreasing order of expected variance, such as `dpem.cosine_basis`
        for images. The model sees the p coordinates of each row; the rest of the row counts as noise about
        the middle of the bounds, the same for all columns. The basis must not come from the rows.
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
    max_iter, tol : int and float
        For the fit without privacy only: EM stops after `max_iter` steps, or when ten steps raise the
        log-likelihood by less than `tol` per column.
    ledger : Ledger or path, optional
        Ledger to charge before any value is read.
    random_state : int or RandomState, optional
        Seed of the choices that need no privacy: starts, post-processing and `sample`. It never seeds the
        noise.
    n_jobs : int, optional
        Number of threads; None uses all cores, and -2 all but one. The result does not depend on it.
    verbose : int, default 0
        Whether to print the current step.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Loadings, in the units of the columns, strongest factor first.
    noise_variance_ : ndarray of shape (n_features,)
        Variance of each column that no factor explains. It is always positive.
    mean_ : ndarray of shape (n_features,)
        Mean of the rows.
    standard_errors_ : dict of str to ndarray
        Standard errors of "mean", "components" and "noise_variance" due to the noise of the last moment
        alone.
    privacy_ : PrivacyStatement
        The guarantee.
    plan_ : Plan
        All releases with their noise.
    charge_ : Charge or None
        Ledger, number and hash of the record of the charge; None without a ledger.
    n_rows_ : int or None
        The number of rows; None if it is private or the fit is not private.
    data_quality_ : DataQuality or None
        Noisy counts of the cells that do not conform to the schema, if they were released.
    n_iter_ : int
        Number of EM steps of the last fit to a released moment.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    There is no ``loglike_``, because it would not be private. Without a schema, rows with NaN or infinite
    values count as the middle of the bounds: an error would reveal such rows, and this model does not treat
    missing cells. The results of `transform` and `score` are as sensitive as their argument; these methods
    reject NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> loadings = np.array([[2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    >>> X = rng.normal(size=(20_000, 2)) @ loadings + rng.normal(size=(20_000, 4))
    >>> model = dpem.FactorAnalysis(2, epsilon=1.0, bounds=(-10, 10)).fit(X)
    >>> bool(np.abs(model.get_covariance() - loadings.T @ loadings - np.eye(4)).max() < 0.5)
    True
    """

    _public_name: ClassVar[str] = "dpem.FactorAnalysis"
    _fitted_arrays: ClassVar[tuple[str, ...]] = ("mean_", "components_", "noise_variance_")
    _constraints: ClassVar[Constraints] = {"n_components": whole(), "max_iter": whole(), "tol": number()}

    standard_errors_: dict[str, NDArray[np.float64]]

    n_components: int
    basis: Any
    max_iter: int
    tol: float

    @stores_arguments
    def __init__(
        self,
        n_components: int = 2,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        basis: Any = None,
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
        data_quality: bool = True,
        max_iter: int = 2000,
        tol: float = 1e-7,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    # -- fit ---------------------------------------------------------------------------------------------

    @property
    def _keeps_distances(self) -> bool:
        return self.basis is not None

    def _public_facts(self, n_columns: int, names: Sequence[str] | None, n_rows: int | None) -> PublicFacts:
        domain = self._domain(n_columns, names, keep_distances=self._keeps_distances)
        basis = None if self.basis is None else orthonormal_basis(self.basis, n_columns)
        most, what = (n_columns, "columns") if basis is None else (basis.shape[1], "directions of the basis")
        k = self.n_components
        if k > most:
            raise _validate.fail(f"at most as many factors as {what} ({most})", "n_components", k)
        if basis is None:
            return PublicFacts(domain, n_rows, names, FactorRequest(k, n_columns))
        projected = ProjectedDomain(domain, basis)
        request = FactorRequest(k, projected.n_columns, (n_columns, basis.shape[1]))
        return PublicFacts(domain, n_rows, names, request, projected)

    def _plan(self, public: PublicFacts) -> Plan:
        plan = self._with_quality(public.request.plan(**self._terms))
        return with_shape(plan, public.request, public.n_rows)

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        if public.n_rows is None:
            return
        request: FactorRequest = public.request
        shape = request.shape(public.n_rows, plan)
        most = request.n_columns if request.basis_shape is None else request.basis_shape[1]
        if not _warn_if_hidden(request.n_components, most, shape, plan) and request.basis_shape is None:
            _, entries = noise_of_factors(request, plan, public.n_rows, self._planned_columns(public))
            also = ", narrower public bounds"
            warn_of_column_noise(entries, public.numeric_domain, plan, also, parameter="mean")

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        domain, projected = public.numeric_domain, cast("ProjectedDomain | None", public.grid)
        fitted = fit_moment(gate, public.request, public.n_rows, random_state, progress)
        progress.step("factors")
        with one_thread():
            mean, factors, n_iter = self._fit_factors(fitted, projected, random_state)
        progress.step("standard errors")
        errors = self._standard_errors(fitted, factors, projected, random_state)
        scale = domain.scale
        units = (scale, scale, scale**2)
        # The mean of rows lies within the bounds.
        found = arrays_of(domain.clip(domain.from_grid(mean * GRID)[None])[0], factors.scaled(scale))
        in_units = {name: error * unit for name, error, unit in zip(_PARTS, errors, units, strict=True)}
        return found | {"standard_errors_": in_units, "n_iter_": n_iter}

    def _run_plain(
        self, source: RowSource, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        rows = self._plain_rows(source, public.numeric_domain)
        mean = rows.mean(axis=0)
        centred = (rows - mean) / np.sqrt(len(rows))
        n, d = rows.shape
        moment: Moment = DenseMoment(centred.T @ centred)
        if d > n:
            moment = LowRankMoment(centred.T, np.eye(n), np.zeros(d))
        progress.step("factors")
        factors, n_iter = fit_factors(
            moment,
            self.n_components,
            random_state,
            least_noise=1e-6,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        if n_iter >= self.max_iter:
            warn(
                f"Plain EM did not converge in max_iter={self.max_iter} steps. Increase max_iter or tol.",
                ConvergenceWarning,
            )
        found = arrays_of(mean, Factors(factors.loadings, np.maximum(factors.noise, _SMALLEST_PLAIN_NOISE)))
        errors = {name: np.zeros_like(found[f"{name}_"]) for name in _PARTS}
        return found | {"standard_errors_": errors, "n_iter_": n_iter}

    def _weaknesses(self) -> list[Weakness]:
        """Compare the noise of each column's mean with the standard deviation of the column."""
        spread = np.sqrt((self.components_**2).sum(axis=0) + self.noise_variance_)
        noisy = int((self.standard_errors_["mean"] > spread / 2).sum())
        finding = (
            f"The noise of the mean is larger than half of the standard deviation in {noisy} of "
            f"{len(spread)} columns."
        )
        return [Weakness(finding)] if noisy else []

    _profile = profile_of
    _figures = figures_of
    _spread = spread_of

    def _predictions(self, rows: Any, *, probabilities: bool) -> tuple[NDArray[Any], list[str]]:
        if probabilities:
            raise InvalidArgumentError(
                "Expected a model of clusters or values for --probabilities, got factor analysis. Leave the "
                "option out."
            )
        scores = self.transform(rows)
        return scores, [f"factor {j + 1}" for j in range(scores.shape[1])]

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        columns = self._planned_columns(public, spread)
        granted, noise = noise_of_factors(public.request, plan, n_rows, columns)
        return Forecast(
            plan, {"factors that stand out": self.n_components}, granted, tuple(noise), columns.assumption
        )

    def _fit_factors(
        self, fitted: FittedMoment, projected: ProjectedDomain | None, random_state: PublicRandom
    ) -> tuple[NDArray[np.float64], Factors, int]:
        """Return mean, factors and EM steps, in units of the ball."""
        factors, n_iter = fitted.factors, fitted.n_iter
        mean, moment = _of_columns(fitted.mean, fitted.moment, projected)
        if projected is not None and fitted.single and isinstance(moment, LowRankMoment):
            factors = principal_factors(moment, self.n_components, fitted.least_noise)
        elif factors is None:
            factors, n_iter = fit_factors(
                moment, self.n_components, random_state, least_noise=fitted.least_noise, tol=1e-6
            )
        return mean, factors.scaled(np.sqrt(fitted.size)).rotated(), n_iter

    def _standard_errors(
        self,
        fitted: FittedMoment,
        own: Factors,
        projected: ProjectedDomain | None,
        random_state: PublicRandom,
    ) -> tuple[NDArray[np.float64], ...]:
        """Repeat the last round and the fit with fresh noise; loadings are rotated to `own`."""
        scale = float(np.sqrt(fitted.size))
        d, stddev = len(fitted.mean), fitted.released.noise_stddev

        def redrawn(noise: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
            mean, moment = _of_columns(*fitted.redrawn(noise), projected)
            if projected is not None and fitted.single and isinstance(moment, LowRankMoment):
                factors = principal_factors(moment, self.n_components, fitted.least_noise)
            else:
                factors, _ = fit_factors(
                    moment,
                    self.n_components,
                    None,
                    least_noise=fitted.least_noise,
                    start=own.scaled(1 / scale),
                    max_iter=200,
                    tol=1e-6,
                )
            factors = factors.scaled(scale)
            transposed = np.swapaxes(factors.loadings, -1, -2)
            left, _, right = np.linalg.svd(transposed @ (own.loadings / own.noise[:, None]))
            return mean, np.swapaxes(factors.loadings @ left @ right, -1, -2), factors.noise

        def one_by_one(noise: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
            return tuple(map(np.stack, zip(*map(redrawn, noise), strict=True)))

        def draw(n: int) -> NDArray[np.float64]:
            return random_state.normal(size=(n, len(stddev))) * stddev

        in_stacks = isinstance(fitted.moment, DenseMoment) and projected is None
        n_draws = _DRAWS_IN_MANY_COLUMNS if d > _MANY_COLUMNS else _DRAWS
        return deviations_of_stacks(
            redrawn if in_stacks else one_by_one, draw, n_draws, d * d, thread_count(self.n_jobs)
        )

    # -- files -------------------------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        return super()._saved_parameters() | {"basis": None}  # saved with the arrays

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        arrays = super()._arrays()
        if self.basis is not None:
            arrays["basis"] = np.array(self.basis, dtype=np.float64)
        return arrays

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        basis = arrays.pop("basis", None)
        if basis is not None:
            self.basis = orthonormal_basis(basis, self.n_features_in_)
        super()._restore_arrays(arrays)

    def _saved_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._saved_shapes()
        return shapes | {f"standard_error_{name}": shapes[f"{name}_"] for name in _PARTS}


def _of_columns(
    mean: NDArray[np.float64], moment: Moment, projected: ProjectedDomain | None
) -> tuple[NDArray[np.float64], Moment]:
    """Return mean and moment of the columns, in units of the ball, from those of the coordinates.

    The moment is B S B' within the basis. Outside it, all columns share the mean squared length of the rest.
    """
    if projected is None:
        return mean, moment
    basis, shrinkage = projected.basis, projected.shrinkage
    d, p = basis.shape
    inside = moment.times(np.eye(len(mean))) / shrinkage**2
    outside = 0.0
    if p < d:
        outside = (max(float(inside[p, p]), 0.0) + float(mean[p] / shrinkage) ** 2) / (d - p)
    core = inside[:p, :p] - outside * np.eye(p)
    return basis @ (mean[:p] / shrinkage), LowRankMoment(basis, core, np.full(d, outside))


def factors_allowed(
    n_rows: int,
    n_columns: int,
    *,
    epsilon: float,
    delta: float = 1e-6,
    adjacency: str = "replace_one",
    rows_per_person: int = 1,
) -> int:
    """Return how many factors the noise allows, from public numbers. Nothing is read or charged.

    This is a rule of thumb: with this many factors of equal strength that explain half of the variance, each
    would just stand out of the noise of the moment. Fewer, stronger factors stand out more.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_columns : int
        Number of columns, or of directions of a basis.
    epsilon, delta : float
        Privacy budget.
    adjacency, rows_per_person
        As in `FactorAnalysis`.

    Returns
    -------
    int
        Number of factors, from 0 to the number of columns minus one.

    Examples
    --------
    >>> factors_allowed(50_000, 100, epsilon=1.0)
    99
    >>> factors_allowed(400, 4096, epsilon=0.3)  # the paper's Olivetti figure
    0
    """
    n, d = _validate.integer(n_rows, "n_rows"), _validate.integer(n_columns, "n_columns")
    unit = PrivacyUnit(_validate.integer(rows_per_person, "rows_per_person"))
    request = FactorRequest(1, d)
    plan = request.plan(epsilon=epsilon, delta=delta, adjacency=Adjacency.parse(adjacency), unit=unit)
    return _allowed(d, request.shape(n, plan))


def _allowed(n_columns: int, shape: FactorShape) -> int:
    return min(n_columns - 1, int(n_columns * shape.factors))


def _warn_if_hidden(k: int, n_columns: int, shape: FactorShape, plan: Plan) -> bool:
    """Warn, from public numbers alone, if noise allows fewer factors, and name remedies."""
    if k <= n_columns * shape.factors:
        return False
    allowed = _allowed(n_columns, shape)
    needed = plan.epsilon_for_mu(plan.budget.mu * k / (n_columns * shape.factors))
    larger = f"epsilon of about {needed:.2g}, " if needed <= _validate.LARGE_EPSILON else ""
    warn(
        f"Expected enough rows and budget for n_components={k}, got enough for about {allowed} factors that "
        f"share half of the variance at epsilon={plan.epsilon:g}. The rest may be noise. Use {larger}"
        f"more rows, fewer factors, or a public basis with few directions.",
        WeakSignalWarning,
    )
    return True
