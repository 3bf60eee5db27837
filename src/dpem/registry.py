"""All models by name, including those of other packages, for commands, plans, reports, audits and tests."""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpem.errors import InvalidArgumentError
from dpem.estimator.registration import import_object
from dpem.plugin.registered import entry_of, registered_points, trial_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpem.data import Schema
    from dpem.estimator.base import PrivateEstimator
    from dpem.estimator.registration import ModelEntry
    from dpem.estimator.trials import Trial

__all__ = ["entry_named", "make", "model_names", "shipped", "trials", "trials_of"]

_FOLDERS = ("gaussian_mixture", "kmeans", "factor_analysis", "table", "discrete")
# Trials that audits replay, of estimators that no command fits by name.
_MORE_TRIALS = ("dpem.plugin.trials:TRIALS", "dpem.measures.trials:TRIALS", "dpem.paper.trials:TRIALS")


@lru_cache(maxsize=1)
def shipped() -> dict[str, ModelEntry]:
    """Return the models of dpem by name, without importing their estimators."""
    found: dict[str, ModelEntry] = {}
    for folder in _FOLDERS:
        for entry in import_module(f"dpem.models.{folder}").MODELS:
            found[entry.name] = entry
    return found


def model_names() -> list[str]:
    """Return the names of all models, those of dpem first."""
    return list(dict.fromkeys([*shipped(), *registered_points()]))


def entry_named(name: str) -> ModelEntry:
    """Return the model with this name; models of dpem take precedence."""
    if name in shipped():
        return shipped()[name]
    point = registered_points().get(name)
    if point is not None:
        return entry_of(point)
    known = model_names()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidArgumentError(f"Expected one of the models {', '.join(known)}, got {name!r}.{hint}")


@lru_cache(maxsize=1)
def _shipped_trials() -> dict[str, Trial]:
    found: dict[str, Trial] = {}
    for place in dict.fromkeys([*(entry.trials for entry in shipped().values()), *_MORE_TRIALS]):
        found |= import_object(place)
    return found


def trials() -> dict[str, Trial]:
    """Return the trials (small fits) of all models, the paper's methods and the measures, by name.

    A model of another package has one trial, under its own name. Making the trial imports the model's code.
    """
    others = {name: trial_of(point) for name, point in registered_points().items() if name not in shipped()}
    return others | _shipped_trials()


def trials_of(name: str) -> dict[str, Trial]:
    """Return the trials of one model, by name."""
    entry = entry_named(name)
    if name not in shipped():
        return {name: trials()[name]}
    estimator = import_object(entry.estimator)
    return {label: trial for label, trial in import_object(entry.trials).items() if trial.fit is estimator}


def make(
    name: str, parts: int | None, schema: Schema | None, options: Mapping[str, Any], **common: Any
) -> PrivateEstimator:
    """Return the estimator for the options of a command, after checking that the model accepts them."""
    entry = entry_named(name)
    for option in options:
        if option not in entry.options:
            takers = [other.name for other in shipped().values() if option in other.options]
            raise InvalidArgumentError(
                f"Expected --{option} only with --model {' or '.join(takers)}, got --model {name}. Leave "
                f"--{option} out."
            )
    if schema is None and entry.needs_schema:
        raise InvalidArgumentError(f"Expected --schema for --model {name}. Draft one with: dpem schema.")
    return entry.make(parts, schema, options, **common)
