"""The private Gaussian mixture with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from dpem import _validate
from dpem._threads import thread_count
from dpem._warnings import warn
from dpem.data import IncompleteRows
from dpem.data.domain import GRID
from dpem.errors import FewerComponentsWarning, InvalidArgumentError
from dpem.estimator.arguments import number, optional, stores_arguments, whole, word
from dpem.estimator.base import PrivateEstimator, PublicFacts, warn_of_column_noise
from dpem.estimator.planned_columns import Forecast
from dpem.estimator.saved_arrays import (
    pop_flags,
    require,
    require_covariances,
    require_laws,
    require_numbers,
)
from dpem.estimator.summary import is_supported
from dpem.fitting.reserve import with_shape
from dpem.fitting.standard_errors import deviations_of_stacks
from dpem.models.gaussian_mixture.density import BackgroundComponents, GaussianDensityMixin, public_means
from dpem.models.gaussian_mixture.fit import MixtureRequest, fit_mixture
from dpem.models.gaussian_mixture.missing import expected_rows
from dpem.models.gaussian_mixture.plain import fit_plain
from dpem.models.gaussian_mixture.score import PrivateScoreMixin
from dpem.models.gaussian_mixture.summary import (
    figures_of,
    noise_of_mixture,
    profile_of,
    remarks_of,
    spread_of,
    weaknesses_of,
)
from dpem.statistics.gaussian import COVARIANCES

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpem.data import Domain, RowSource, Schema
    from dpem.estimator.arguments import Constraints
    from dpem.estimator.base import Ledger, PublicRandom
    from dpem.gate.base import Gate
    from dpem.gate.plan import Plan
    from dpem.gate.progress import Progress
    from dpem.models.gaussian_mixture.m_step import MixtureState
    from dpem.statistics.gaussian import Covariance

__all__ = ["GaussianMixture"]

_PARTS = ("weights", "means", "covariances")
_DRAWS = 100  # of the noise, for standard errors


class GaussianMixture(PrivateScoreMixin, GaussianDensityMixin, PrivateEstimator):
    r"""A mixture of Gaussians under differential privacy.

    A tenth of the budget is spent on one Gaussian for all rows, a tenth on a k-means start, and the rest on
    EM steps. Each step is one mechanism, which releases moments in the components' own frames
    (docs/guide/gaussian-mixture.md). The numbers of components and steps that the noise allows follow from
    public numbers.

    Parameters
    ----------
    n_components : int, default 1
        Largest number of components. The fit may use fewer if noise would hide them: it then warns, and
        `n_components_` is their number.
    epsilon : float
        Epsilon of the privacy budget. ``math.inf`` runs plain EM and marks the result as not private.
    delta : float, default 1e-6
        Delta of the privacy budget. Choose it well below one over the number of rows.
    bounds : (low, high), or mapping of str to (low, high)
        Public bounds of the columns: two numbers, or lower and upper bounds with one number per column. For
        columns with names also a mapping such as ``{"age": (0, 120)}``. Values beyond are clipped.
    data_norm : float
        Public bound on the Euclidean norm of a row; an alternative to bounds.
    schema : Schema
        Declared columns with their public bounds; an alternative to bounds.
    covariance_type : {"full", "tied", "diag", "spherical"}, default "full"
        As in scikit-learn.
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
        Number of EM steps; by default the noise level determines it. A private fit never stops early. Plain
        EM takes at most this many, by default 100.
    means_init : array-like of shape (n_components, n_features), optional
        Public starting means. They must not come from the rows.
    background_weight : float, default 0.02
        Initial weight of the background, two wide components: the pooled Gaussian, widened, and a Gaussian
        over the public domain. EM then estimates the weight. The background covers rows far from all
        components. 0 leaves it out.
    missing : {None, "em"}, default None
        Treatment of missing cells, which are NaN or declared as missing by the schema. "em": EM uses their
        conditional expectations given the other cells of the row. The guarantee is the same; the first
        estimate of the covariance takes a larger share of the budget (docs/guide/missing-values.md). None: no
        cells are missing, and without a schema a row with a missing cell counts as the middle of the bounds.
    tol, reg_covar : float
        For plain EM only, as in scikit-learn.
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
    weights_, means_, covariances_, precisions_cholesky_ : ndarray
        As in scikit-learn, in the units of the columns, for the components without the background.
    background_ : BackgroundComponents
        The background components and their weights in the density.
    n_components_ : int
        Number of fitted components.
    supported_ : ndarray of bool, shape (n_components,)
        Whether the last steps released more rows for a component than noise alone would show. Another
        component can lie anywhere, whatever its standard errors.
    standard_errors_ : dict of str to ndarray
        Standard errors of "weights", "means" and "covariances" due to the noise of the last steps alone.
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
        Number of EM steps.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    There is no training likelihood, because it would not be private. The results of `predict`, `score` and
    similar methods are as sensitive as their argument. `private_score` releases a score that may be
    published, for a charge. A grid search on private rows spends budget with every fit.

    Examples
    --------
    >>> import numpy as np
    >>> import dpem
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 0.5, (5000, 2)) for m in (-2, 2)])
    >>> model = dpem.GaussianMixture(2, epsilon=1.0, bounds=(-5, 5)).fit(X)
    >>> np.abs(np.sort(model.means_[:, 0]) - [-2, 2]).max() < 0.1
    np.True_
    """

    _public_name: ClassVar[str] = "dpem.GaussianMixture"
    _fitted_arrays: ClassVar[tuple[str, ...]] = ("weights_", "means_", "covariances_")
    _constraints: ClassVar[Constraints] = {
        "n_components": whole(),
        "covariance_type": word(COVARIANCES),
        "max_iter": optional(whole()),
        "background_weight": number(0.0, 0.5),
        "missing": optional(word(("em",))),
        "tol": number(),
        "reg_covar": number(),
    }

    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covariances_: NDArray[np.float64]
    background_: BackgroundComponents
    standard_errors_: dict[str, NDArray[np.float64]]

    n_components: int
    covariance_type: str
    max_iter: int | None
    means_init: Any
    background_weight: float
    missing: str | None
    tol: float
    reg_covar: float

    @stores_arguments
    def __init__(
        self,
        n_components: int = 1,
        *,
        epsilon: float,
        delta: float = 1e-6,
        bounds: Any = None,
        data_norm: float | None = None,
        schema: Schema | None = None,
        covariance_type: str = "full",
        adjacency: str = "replace_one",
        rows_per_person: int = 1,
        person: str | None = None,
        data_quality: bool = True,
        max_iter: int | None = None,
        means_init: Any = None,
        background_weight: float = 0.02,
        missing: str | None = None,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

    # -- fit ---------------------------------------------------------------------------------------------

    @property
    def _keeps_distances(self) -> bool:
        return self.covariance_type == "spherical"

    @property
    def _allows_missing(self) -> bool:
        return self.missing == "em"

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if self._allows_missing and not any(column.missing for column in schema.columns):
            raise InvalidArgumentError(
                "Expected a column with missing=True in the schema for missing='em', got none. Declare the "
                "columns with missing cells, or leave missing='em' out."
            )

    def _request(self, domain: Domain) -> MixtureRequest:
        means_init = public_means(self.means_init, self.n_components, domain.n_columns)
        return MixtureRequest(
            self.n_components,
            domain.n_columns,
            cast("Covariance", self.covariance_type),
            self.max_iter,
            None if means_init is None else domain.points_to_grid(means_init) / GRID,
            float(self.background_weight),
            self._allows_missing,
        )

    def _public_facts(self, *facts: Any) -> PublicFacts:
        public = super()._public_facts(*facts)
        return replace(public, grid=IncompleteRows(public.numeric_domain)) if self._allows_missing else public

    def _plan(self, public: PublicFacts) -> Plan:
        plan = self._with_quality(public.request.plan(**self._terms))
        return with_shape(plan, public.request, public.n_rows)

    def _warn_of_plan(self, public: PublicFacts, plan: Plan) -> None:
        if public.n_rows is None:
            return
        _warn_if_fewer(public.request, public.n_rows, plan)
        _, entries = noise_of_mixture(public.request, plan, public.n_rows, self._planned_columns(public))
        also = ", narrower public bounds, fewer components"
        warn_of_column_noise(entries, public.numeric_domain, plan, also, parameter="mean")

    def _warn_of_fit(self, public: PublicFacts, plan: Plan, gate: Gate) -> None:
        if public.n_rows is None and gate.n_rows is not None:
            _warn_if_fewer(public.request, gate.n_rows, plan)

    def _run(
        self, gate: Gate, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        domain = public.numeric_domain
        fitted = fit_mixture(gate, public.request, public.n_rows, random_state, progress)

        def redrawn(noise: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
            return self._in_units(fitted.redrawn(noise), domain)

        def draw(n: int) -> NDArray[np.float64]:
            return random_state.normal(0.0, fitted.noise_stddev, (n, len(fitted.noise_stddev)))

        deviations = deviations_of_stacks(
            redrawn, draw, _DRAWS, fitted.state.covariances.size, thread_count(self.n_jobs)
        )
        errors = dict(zip(_PARTS, deviations, strict=True))
        gate.n_rows = fitted.pool.n_rows
        state, wide, scale = fitted.state, fitted.background, domain.scale
        background = BackgroundComponents.none(domain.n_columns)
        if state.background.size:
            background = BackgroundComponents(
                state.background,
                domain.clip(domain.from_grid(wide.means * GRID)),
                wide.covariances * scale[:, None] * scale,
            )
        supported = is_supported(*fitted.counts)
        return _found(self._in_units(state, domain), errors, supported, background, fitted.shape.iterations)

    def _run_plain(
        self, source: RowSource, public: PublicFacts, random_state: PublicRandom, progress: Progress
    ) -> dict[str, Any]:
        request: MixtureRequest = public.request
        plain = fit_plain(
            self._plain_rows(source, public.numeric_domain),
            request.n_components,
            request.covariance,
            max_iter=request.iterations or 100,
            tol=self.tol,
            reg_covar=self.reg_covar,
            means_init=public_means(self.means_init, request.n_components, source.n_columns),
            missing=self._allows_missing,
            random_state=random_state,
            n_jobs=self.n_jobs,
            progress=progress,
        )
        parts = plain.weights, plain.means, plain.covariances
        errors = {name: np.zeros_like(value) for name, value in zip(_PARTS, parts, strict=True)}
        supported = np.ones(len(plain.weights), dtype=bool)
        return _found(parts, errors, supported, BackgroundComponents.none(source.n_columns), plain.n_iter)

    _weaknesses = weaknesses_of
    _remarks = remarks_of
    _profile = profile_of
    _figures = figures_of
    _spread = spread_of

    def _expected(self, public: PublicFacts, plan: Plan, n_rows: int, spread: Any) -> Forecast:
        columns = self._planned_columns(public, spread)
        granted, noise = noise_of_mixture(public.request, plan, n_rows, columns)
        return Forecast(plan, {"components": self.n_components}, granted, tuple(noise), columns.assumption)

    def _in_units(
        self, state: MixtureState, domain: Domain
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return weights, means and covariances in units of the columns and the shapes of scikit-learn."""
        scale = domain.scale
        covariances = state.covariances * scale[:, None] * scale
        means = domain.clip(domain.from_grid(state.means * GRID))  # means of rows lie within the bounds
        return state.weights, means, self._of_type(covariances)

    def _of_type(self, covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        diagonals = np.diagonal(covariances, axis1=-2, axis2=-1)
        match self.covariance_type:
            case "tied":
                return np.array(covariances[..., 0, :, :])
            case "diag":
                return np.array(diagonals)
            case "spherical":
                return np.asarray(diagonals.mean(axis=-1))
        return covariances

    def impute(self, X: Any) -> Any:
        """Replace each missing cell by its conditional expectation given the other cells of its row.

        The result is as sensitive as X: do not publish it. Needs ``missing="em"``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, d)
            Rows with missing cells.

        Returns
        -------
        ndarray of shape (n, d), or DataFrame
            The filled rows. With a schema, a DataFrame with its names and types.

        Examples
        --------
        >>> import numpy as np
        >>> import dpem
        >>> rng = np.random.default_rng(0)
        >>> X = np.repeat(rng.normal(size=(20_000, 1)), 2, axis=1) + 0.1 * rng.normal(size=(20_000, 2))
        >>> X[::5, 1] = np.nan
        >>> model = dpem.GaussianMixture(1, epsilon=1.0, bounds=(-5, 5), missing="em").fit(X)
        >>> filled = model.impute([[1.0, np.nan]])
        >>> bool(abs(filled[0, 1] - 1) < 0.2)
        True
        """
        if not self._allows_missing:
            raise InvalidArgumentError(
                "Expected a model fitted with missing='em' for impute, got missing=None. Fit it with "
                "missing='em'."
            )
        rows = self._rows(X)
        missing = np.isnan(rows)
        incomplete = missing.any(axis=1)
        expected = rows
        low, high = self._domain(self.n_features_in_).box if self.plan_ is not None else (-np.inf, np.inf)
        if incomplete.any():
            expected = rows.copy()
            inside = np.clip(rows[incomplete], low, high)  # clip known cells as in the fit
            expected[incomplete] = expected_rows(inside, *self._all_components())
        return self._as_declared(np.where(missing, np.clip(expected, low, high), rows))

    # -- files -------------------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        found = super()._arrays() | {f"background_{k}": v for k, v in vars(self.background_).items()}
        return found | {"supported": self.supported_.astype(np.float64)}

    def _restore_arrays(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        k, d, b = len(arrays["weights_"]), self.n_features_in_, len(arrays["background_weights"])
        require(1 <= k <= self.n_components, "at most n_components components")
        self.supported_ = pop_flags(arrays, "supported", k)
        shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}[self.covariance_type]
        shapes = {"weights": (k,), "means": (k, d), "covariances": shape}
        expected: dict[str, tuple[int, ...]] = {f"{name}_": value for name, value in shapes.items()}
        expected |= {f"standard_error_{name}": value for name, value in shapes.items()}
        expected |= {
            "background_weights": (b,),
            "background_means": (b, d),
            "background_covariances": (b, d, d),
        }
        require_numbers(arrays, expected)
        require_laws("weights_", arrays["weights_"])
        wide = arrays["background_weights"]
        require((wide >= 0).all() and (wide <= 1).all(), "weights of the background from 0 to 1")
        self.weights_, self.means_, self.covariances_ = (arrays[name] for name in self._fitted_arrays)
        self.n_components_ = k
        self.background_ = BackgroundComponents(
            *(arrays[f"background_{name}"] for name in ("weights", "means", "covariances"))
        )
        weights, _, covariances = self._all_components()
        require_laws("background_weights", weights)
        require_covariances("covariances_", covariances)


def _found(
    parts: Sequence[NDArray[np.float64]],
    errors: dict[str, NDArray[np.float64]],
    supported: NDArray[np.bool_],
    background: BackgroundComponents,
    n_iter: int,
) -> dict[str, Any]:
    """Return the fitted attributes by name."""
    return {f"{name}_": value for name, value in zip(_PARTS, parts, strict=True)} | {
        "n_components_": len(parts[0]),
        "background_": background,
        "standard_errors_": errors,
        "supported_": supported,
        "n_iter_": n_iter,
    }


def _warn_if_fewer(request: MixtureRequest, n_rows: float, plan: Plan) -> None:
    """Warn, from public numbers or the noisy number of rows, if noise allows fewer components."""
    shape = request.shape(n_rows, plan)
    if shape.n_components == request.n_components:
        return
    needed = plan.epsilon_for_mu(shape.mu_for_all)
    if needed <= _validate.LARGE_EPSILON:
        remedy = f"For all of them, use epsilon of about {needed * 1.005:.3g}, more rows, or a simpler "
    else:
        size = f"epsilon of about {float(f'{needed:.3g}'):,.0f}" if needed < 1e4 else "a far larger epsilon"
        remedy = (
            f"All of them need {size}, which protects nothing. Use fewer components, more rows, or a simpler "
        )
    warn(
        f"Expected enough rows and budget for n_components={request.n_components}, got enough for "
        f"{shape.n_components} at epsilon={plan.epsilon:g}; the fit uses {shape.n_components}. {remedy}"
        f"covariance_type.",
        FewerComponentsWarning,
    )
