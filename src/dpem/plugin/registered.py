"""Plug-in models that other packages register, as entry points of the group `dpem.models`.

Registration confers no trust: `dpem.PrivateEM` fits such a class, reads its code and isolates it like that of
any plug-in.
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
    """A plug-in model of another package, fitted by `dpem.PrivateEM` like any other."""

    family: type[ExponentialFamily] | None = None

    def _estimator(self, parts: int | None, **arguments: Any) -> PrivateEstimator:
        from dpem.plugin.estimator import PrivateEM  # noqa: PLC0415  (which imports this)

        return PrivateEM(self.plug_in(parts), **arguments)

    def plug_in(self, parts: int | None = None) -> ExponentialFamily:
        """Return the model; `parts` is its argument `n_components`, where it has one: 2 if it needs one."""
        if self.family is None:
            raise InvalidArgumentError(f"Expected a class for the registered model {self.name!r}, got none.")
        takes = self.argument_of_parts
        if parts is None and (takes is None or takes.default is not takes.empty):
            return self.family()
        if takes is None:
            raise InvalidArgumentError(f"Expected no --components with --model {self.name}: it has none.")
        return self.family(n_components=2 if parts is None else parts)  # type: ignore[call-arg]

    @property
    def argument_of_parts(self) -> inspect.Parameter | None:
        """The argument `n_components` of the class, where it has one."""
        return inspect.signature(cast("Any", self.family)).parameters.get("n_components")


def registered_points() -> dict[str, EntryPoint]:
    """Return the entry points of other packages by name. No code of theirs is imported."""
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
        if point.attr.rpartition(".")[2] == class_name:  # no other class is imported
            entry = entry_of(point)
            return entry.plug_in(None if entry.argument_of_parts is None else parts)
    return None


def trial_of(point: EntryPoint) -> Trial:
    """Return a small fit on columns that the model names itself. Its code is imported when it is fitted."""
    from dpem.estimator.trials import Trial, rows_of  # noqa: PLC0415  (help and version stay quick)

    def fit(**arguments: Any) -> PrivateEstimator:
        entry = entry_of(point)
        model = entry.plug_in()
        schema = model.trial_schema()
        clip_norm = 1.0 if model.norm_bound(schema) is None else None
        return entry.make(None, schema, {}, clip_norm=clip_norm, max_iter=2, **arguments)

    return Trial(fit, lambda n: rows_of(entry_of(point).plug_in().trial_schema(), n))
