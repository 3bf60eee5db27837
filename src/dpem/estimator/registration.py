"""The registration of a model: a description for commands, plans, reports and audits."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpem.data import Schema
    from dpem.estimator.base import PrivateEstimator

__all__ = ["ModelEntry", "import_object"]


def import_object(place: str) -> Any:
    """Import an object by a path such as "package.module:name"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class ModelEntry:
    """The description of a model for the rest of the program.

    Attributes
    ----------
    name : str
        The name in `dpem fit --model`.
    summary : str
        The purpose of the model, in a few words.
    estimator : str
        Module and class, as in "package.module:Class"; imported on first use.
    refuses : tuple of str
        The kinds of columns that the model does not support.
    parts : str or None
        The argument with the number of components, clusters or factors.
    default_parts : int or str
        The default of this argument in commands.
    options : mapping of str to str
        Options of the command that the model accepts, and the arguments that they set.
    for_missing : mapping of str to value, or None
        Arguments with which the model uses missing cells. With None, missing cells become the middle of their
        bounds.
    needs_schema : bool
        Whether the model needs a schema, because bounds do not describe its columns.
    trials : str
        Module and dict of trials (small fits) for audits and conformance tests; imported on first use.
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
        """Return the estimator for these columns and options, which the model must accept."""
        arguments = {self.options[option]: value for option, value in options.items()}
        if schema is not None:
            schema = self._fitting(schema)
            if self.for_missing and any(column.missing for column in schema.columns):
                arguments |= self.for_missing
        return self._estimator(parts, schema=schema, **arguments, **common)

    def _estimator(self, parts: int | None, **arguments: Any) -> PrivateEstimator:
        made: PrivateEstimator = import_object(self.estimator)(
            **({} if self.parts is None else {self.parts: self.default_parts if parts is None else parts}),
            **arguments,
        )
        return made

    def _fitting(self, schema: Schema) -> Schema:
        """Check the kinds of columns; return the schema, filled if the model cannot use missing cells."""
        unfit = [column for column in schema.columns if column.kind in self.refuses]
        if unfit:
            rest = [column.name for column in schema.columns if column.kind not in self.refuses]
            found = ", ".join(f"{column.name!r} ({column.kind})" for column in unfit)
            remedy = f"Leave them out with --columns {shlex.quote(','.join(rest))}, or use" if rest else "Use"
            raise InvalidArgumentError(
                f"Expected no columns of kind {' or '.join(self.refuses)} for --model {self.name}, got "
                f"{found}. {remedy} --model table."
            )
        return schema if self.for_missing is not None else schema.filled()
