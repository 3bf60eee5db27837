"""Plug-in models that other packages register as entry points of the group `dpem.models`.

Registration confers no trust: `dpem.PrivateEM` checks and isolates the code of such a class like that of any
plug-in model.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast

from dpem.errors import InvalidArgumentError
from dpem.estimator.registration import ModelEntry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from dpem.estimator.base import PrivateEstimator
    from dpem.estimator.trials import Trial
    from dpem.plugin.family import ExponentialFamily

__all__ = ["GROUP", "PlugInEntry", "entry_of", "plug_in_named", "registered_points", "trial_of"]

GROUP = "dpem.models"


@dataclass(frozen=True)
class PlugInEntry(ModelEntry):
    """A registered plug-in model of another package, to be fitted by `dpem.PrivateEM`."""

    family: type[ExponentialFamily] | None = None

    def _estimator(self, parts: int | None, **arguments: Any) -> PrivateEstimator:
        from dpem.plugin.estimator import PrivateEM  # noqa: PLC0415  (it imports this module)

        return PrivateEM(self.plug_in(parts), **arguments)

    def plug_in(self, parts: int | None = None) -> ExponentialFamily:
        """Return the model; `parts` is its `n_components`, if it has that argument (2 if it is required)."""
        if self.family is None:
            raise InvalidArgumentError(
                f"Expected a class for the registered model {self.name!r}, got none. Correct the package "
                f"that registers it."
            )
        takes = self.argument_of_parts
        if parts is None and (takes is None or takes.default is not takes.empty):
            return self.family()
        if takes is None:
            raise InvalidArgumentError(
                f"Expected no --components with --model {self.name}, got {parts}. This model has no "
                f"n_components: leave the option out."
            )
        return self.family(n_components=2 if parts is None else parts)  # type: ignore[call-arg]

    @property
    def argument_of_parts(self) -> inspect.Parameter | None:
        """The argument `n_components` of the class, or None."""
        return inspect.signature(cast("Any", self.family)).parameters.get("n_components")


def registered_points() -> dict[str, EntryPoint]:
    """Return the entry points of other packages by name, without importing their code."""
    return {point.name: point for point in entry_points(group=GROUP)}


def entry_of(point: EntryPoint) -> PlugInEntry:
    """Import the class of an entry point."""
    from dpem.plugin.family import ExponentialFamily  # noqa: PLC0415  (help and version stay quick)

    found = point.load()
    if not (isinstance(found, type) and issubclass(found, ExponentialFamily)):
        raise InvalidArgumentError(
            f"Expected a class of dpem.ExponentialFamily for the model {point.name!r} of the entry points "
            f"{GROUP!r}, got {type(found).__name__}. Correct the package that registers it."
        )
    summary = (inspect.getdoc(found) or point.name).splitlines()[0]
    return PlugInEntry(point.name, summary, "", parts=None, for_missing={}, needs_schema=True, family=found)


def plug_in_named(class_name: str, parts: int | None = None) -> ExponentialFamily | None:
    """Return a registered plug-in model by the name of its class, or None."""
    for point in registered_points().values():
        if point.attr.rpartition(".")[2] == class_name:  # other classes are not imported
            entry = entry_of(point)
            return entry.plug_in(None if entry.argument_of_parts is None else parts)
    return None


def trial_of(point: EntryPoint) -> Trial:
    """Return a small fit on the model's trial columns. Its code is imported only by the fit."""
    from dpem.estimator.trials import Trial, rows_of  # noqa: PLC0415  (help and version stay quick)

    def fit(**arguments: Any) -> PrivateEstimator:
        entry = entry_of(point)
        model = entry.plug_in()
        schema = model.trial_schema()
        clip_norm = 1.0 if model.norm_bound(schema) is None else None
        return entry.make(None, schema, {}, clip_norm=clip_norm, max_iter=2, **arguments)

    return Trial(fit, lambda n: rows_of(entry_of(point).plug_in().trial_schema(), n))
