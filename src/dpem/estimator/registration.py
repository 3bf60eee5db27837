"""The one object of a model folder that tells the rest of the program what it needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpem.data import Schema
    from dpem.estimator.base import PrivateEstimator

__all__ = ["ModelEntry", "imported"]


def imported(place: str) -> Any:
    """Return what a module holds under a name, as in "package.module:name"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class ModelEntry:
    """What the rest of the program needs to know of a model.

    Attributes
    ----------
    name : str
        What `dpem fit --model` calls it.
    summary : str
        What it is for, in a few words.
    estimator : str
        Module and class, as in "package.module:Class"; imported when it is used.
    refuses : tuple of str
        The kinds of columns that it has no use for.
    parts : str or None
        The argument that says how many components, clusters or factors there are.
    default_parts : int or str
        How many unless a user says.
    options : mapping of str to str
        Options of the command that it takes, and the arguments that they become.
    for_missing : mapping of str to value, or None
        Arguments that model missing cells; without any, such cells go to the middle of their bounds.
    needs_schema : bool
        Whether bounds alone do not say enough about the columns.
    trials : str
        Module and dict of the small fits that audits and conformance tests run; imported when it is used.
    """

    name: str
    summary: str
    estimator: str
    refuses: tuple[str, ...] = ()
    parts: str | None = "n_components"
    default_parts: int | str = 5
    options: Mapping[str, str] = field(default_factory=dict)
    for_missing: Mapping[str, Any] | None = None
    needs_schema: bool = False
    trials: str = ""

    def make(
        self, parts: int | None, schema: Schema | None, options: Mapping[str, Any], **common: Any
    ) -> PrivateEstimator:
        """Return the estimator for these columns and options, all of which the model takes."""
        arguments = {self.options[option]: value for option, value in options.items()}
        if schema is not None:
            schema = self._fitting(schema)
            if self.for_missing and any(column.missing for column in schema.columns):
                arguments |= self.for_missing
        return self._estimator(parts, schema=schema, **arguments, **common)

    def _estimator(self, parts: int | None, **arguments: Any) -> PrivateEstimator:
        made: PrivateEstimator = imported(self.estimator)(
            **({} if self.parts is None else {self.parts: self.default_parts if parts is None else parts}),
            **arguments,
        )
        return made

    def _fitting(self, schema: Schema) -> Schema:
        """Return the schema, with missing cells filled where nothing models them."""
        unfit = [column for column in schema.columns if column.kind in self.refuses]
        if unfit:
            rest = [column.name for column in schema.columns if column.kind not in self.refuses]
            found = ", ".join(f"{column.name!r} ({column.kind})" for column in unfit)
            remedy = f"Leave them out with --columns {','.join(rest)}, or take" if rest else "Take"
            raise InvalidArgumentError(
                f"Expected no columns of kind {' or '.join(self.refuses)} for --model {self.name}, got "
                f"{found}. {remedy} --model table."
            )
        return schema if self.for_missing is not None else schema.filled()
