"""The schema of a table: public knowledge about its columns, declared and never inferred from rows."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpem import _html, _validate
from dpem._files import replacing
from dpem.data.column import Column, default_outside
from dpem.data.declarations import declared_column
from dpem.data.stored_cells import StoredCells
from dpem.data.table_types import did_you_mean, kinds_of_table, listed
from dpem.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Column", "Schema", "require_schema"]


_DATASET = "dataset"


class Schema:
    """Declare the columns of a table.

    Parameters
    ----------
    columns : mapping of str to mapping
        A declaration for each column to use, in order:

        - ``kind``: "continuous", "integer", "date", "datetime", "duration", "ordered", "categorical" or
          "boolean";
        - ``bounds``: [low, high] of a number, from public knowledge: values that are possible, not those that
          occur; for dates such as ["1900-01-01", "2030-12-31"];
        - ``categories``: the possible values of an ordered or categorical column, text or numbers, also from
          public knowledge;
        - ``missing``: whether cells may be missing (default False);
        - ``unit``: a unit for display, such as "years";
        - ``decimal``, ``thousands``: separators of numbers in text (default "." and none);
        - ``true``, ``false``: words of a boolean column, in upper or lower case (default yes/no, y/n,
          true/false, t/f, 1/0);
        - ``na_values``: cells that mean "missing", such as ["NA", -999];
        - ``format``: the format of dates in text, as in `strptime` (default ISO 8601);
        - ``resolution``: the step of times and durations (default "second"; always "day" for dates);
        - ``from_rows``: true if somebody chose bounds or categories after looking at rows. No guarantee
          covers that choice, and privacy statements say so;
        - ``outside``: what replaces undeclared values. Numbers: "clip" (default) or "missing". Categories:
          one
          of the categories (default: the first), "other" (which becomes one more category), or "missing"
          (default if cells may be missing).

        Besides the columns, ``dataset`` may name the data set: a fit then rejects a ledger with another name.

        If a column may not have missing cells, a missing or unreadable cell becomes the middle of the bounds,
        or the category that replaces undeclared ones. A draft may lack bounds and categories; a fit raises
        until they are declared.

    Examples
    --------
    >>> schema = Schema({"age": {"kind": "integer", "bounds": [0, 120], "unit": "years"},
    ...                  "sex": {"kind": "categorical", "categories": ["F", "M"], "missing": True}})
    >>> schema.names
    ('age', 'sex')
    >>> Schema(schema.to_dict()) == schema
    True
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        given: Any = columns
        if not isinstance(given, Mapping) or not given:
            raise _validate.fail("a mapping with at least one column", "columns", columns)
        declared = dict(columns)
        self.dataset: str | None = None
        if isinstance(declared.get(_DATASET), str):  # a column of that name is a mapping
            self.dataset = _validate.text(declared.pop(_DATASET), _DATASET)
            if not declared:
                raise _validate.fail("a mapping with at least one column", "columns", columns)
        self.columns = tuple(declared_column(name, column) for name, column in declared.items())

    # -- other constructors ------------------------------------------------------------------------------

    @classmethod
    def from_columns(cls, columns: Sequence[Column], dataset: str | None = None) -> Schema:
        """Build a schema from columns."""
        named = {} if dataset is None else {_DATASET: _validate.text(dataset, _DATASET)}
        given: Any = columns
        if not isinstance(given, list | tuple) or not all(isinstance(column, Column) for column in given):
            raise _validate.fail("a list of columns of schemas", "columns", given)
        return cls(named | {column.name: column.to_dict() for column in columns})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema from a TOML or JSON file with one table for each column."""
        file = _validate.path(path, remedy="Pass the file of a schema, in TOML or JSON.")
        kind = _file_kind(file)
        try:
            content = file.read_text(encoding="utf-8")
            declared = tomllib.loads(content) if kind == "toml" else json.loads(content)
        except OSError as error:
            raise InvalidArgumentError(
                f"Expected a schema file, got path={str(path)!r}: {error.strerror}. Correct the path."
            ) from error
        except (ValueError, RecursionError) as error:  # including errors of UTF-8, TOML and JSON
            raise InvalidArgumentError(
                f"Expected a schema in {kind.upper()}, got path={str(path)!r}, which is not valid "
                f"{kind.upper()}: {error}."
            ) from error
        return cls(declared)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a TOML or JSON file, which `read` reads."""
        import tomli_w  # noqa: PLC0415  (rarely needed, so that `import dpem` stays fast)

        declared = self.to_dict()
        is_toml = _file_kind(_validate.path(path)) == "toml"
        content = tomli_w.dumps(declared) if is_toml else json.dumps(declared, indent=2)
        with replacing(path) as file:
            file.write_text(content + "\n", encoding="utf-8")

    @classmethod
    def from_types(cls, table: Any) -> Schema:
        """Draft a schema from the column names and types of a table, without reading values.

        The draft lacks bounds of numbers and categories of text: add them with :meth:`declare`. Even the
        categories of a categorical type are not read, because they may come from rows. The draft allows no
        missing cells.

        Parameters
        ----------
        table : DataFrame, path of a Parquet or Arrow file, or mapping of str to type
            A table of pandas, polars or pyarrow, a file of which only names and types are read, or names with
            types such as ``{"age": int, "sex": str}``.

        Examples
        --------
        >>> draft = Schema.from_types({"age": int, "smoker": bool})
        >>> draft.lacking
        ('age',)
        >>> draft.declare({"age": {"bounds": [0, 120]}}).lacking
        ()
        """
        if isinstance(table, str | os.PathLike):
            from dpem.data.sources.files import file_head  # noqa: PLC0415  (it imports this module)

            table, typed = file_head(table)
            if not typed:
                raise InvalidArgumentError(
                    "Expected a file with types, got CSV, whose cells have no types. Pass names and types, "
                    'such as {"age": int, "sex": str}.'
                )
        return cls({name: {"kind": kind} for name, kind in kinds_of_table(table).items()})

    def declare(self, columns: Mapping[str, Mapping[str, Any]]) -> Schema:
        """Return a copy of the schema in which these declarations are added or replaced."""
        given: Any = columns
        if not isinstance(given, Mapping):
            raise _validate.fail('a mapping such as {"age": {"bounds": [0, 120]}}', "columns", given)
        self._require_names(list(columns))
        declared = self.to_dict()
        for name, changes in columns.items():
            if not isinstance(changes, Mapping):
                raise _validate.fail(f"a mapping for column {name!r}", "declaration", changes)
            declared[name] = declared[name] | dict(changes)
        return Schema(declared)

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema of some of the columns, in this order."""
        by_name = {column.name: column for column in self.columns}
        given: Any = names
        named = _validate.names(given, "names", 'Pass a list such as ["age", "bmi"].')
        if len(set(named)) != len(named):
            raise _validate.fail("different columns", "names", named, "Name each column once.")
        self._require_names(named, shown=isinstance(given, list | tuple))
        return Schema.from_columns([by_name[name] for name in named], self.dataset)

    def _require_names(self, names: Sequence[Any], *, shown: bool = True) -> None:
        """Raise if there is no column with one of these names; those in an array may be cells."""
        unknown = [name for name in names if not isinstance(name, str) or name not in self.names]
        if unknown:
            raise InvalidArgumentError(
                f"Expected columns of the schema, got "
                f"{_validate.shown_names(unknown) if shown else 'other names'}. "
                f"{did_you_mean(unknown, self.names)}It has {listed(self.names)}."
            )

    def filled(self) -> Schema:
        """Return the schema without missing cells: values replace them, as `Schema` describes."""
        columns = []
        for column in self.columns:
            outside = column.outside
            if column.missing and outside == "missing":
                outside = default_outside(column.kind, column.categories, missing=False)
            columns.append(replace(column, missing=False, outside=outside))
        return Schema.from_columns(columns, self.dataset)

    # -- properties --------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The columns of a draft that still need bounds or categories."""
        return tuple(column.name for column in self.columns if not column.is_complete)

    @property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper bounds of all columns: of numbers, or of the codes of categories."""
        limits = np.array([column.limits for column in self.columns], dtype=np.float64)
        return limits[:, 0], limits[:, 1]

    @cached_property
    def _stored(self) -> StoredCells:
        """What compiled code needs to parse cells that are stored as numbers."""
        return StoredCells.of(self.columns)

    def __getstate__(self) -> dict[str, Any]:
        """Return the declarations alone: the cache could reveal whether there are rows."""
        return {name: value for name, value in vars(self).items() if name != "_stored"}

    def require_complete(self) -> None:
        """Raise if a column lacks bounds or categories."""
        for column in self.columns:
            if not column.is_complete:
                raise InvalidArgumentError(column.completeness_error)

    def require_numbers(self, *, missing: bool = False) -> None:
        """Raise if a column has unordered categories, or missing cells that a model cannot use.

        Parameters
        ----------
        missing : bool, default False
            Whether the model can use missing cells.
        """
        for column in self.columns:
            if column.kind == "categorical":
                raise InvalidArgumentError(
                    f"Expected columns of numbers or ordered categories, got the categorical column "
                    f"{column.name!r}. Leave it out with schema.select, or use a model for categories, such "
                    f"as dpem.CategoricalMixture."
                )
            if column.missing and not missing:
                raise InvalidArgumentError(
                    f"Expected columns without missing cells, got missing=True for column {column.name!r}. "
                    f"Use schema.filled(), which replaces missing cells by the middle of the bounds, or a "
                    f"model for missing cells, such as dpem.GaussianMixture with missing='em'."
                )

    @property
    def source(self) -> str:
        """The origin of the bounds, for the privacy statement."""
        if any(column.from_rows for column in self.columns):
            return "rows"
        return "estimated" if any(column.bounds_cost for column in self.columns) else "schema"

    @property
    def insecure_bounds(self) -> bool:
        """Whether some bounds were estimated with seeded noise, so that no fit with them is private."""
        return any(column.bounds_insecure for column in self.columns)

    def describe(self) -> dict[str, str]:
        """Describe the possible values of every column in words, for the privacy statement."""
        return {column.name: column.describe() for column in self.columns}

    def to_dict(self) -> dict[str, Any]:
        """Return the declarations as a mapping for JSON or TOML."""
        named = {} if self.dataset is None else {_DATASET: self.dataset}
        return named | {column.name: column.to_dict() for column in self.columns}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def _text(self) -> str:
        return json.dumps(self.to_dict())  # distinguishes true from 1, which Python calls equal

    def __repr__(self) -> str:
        of = "" if self.dataset is None else f" of {self.dataset!r}"
        width = max(len(name) for name in self.names)
        lines = [f"{name:<{width}}  {kind:<11}  {values}" for name, kind, values in self._lines()]
        return "\n".join([f"Schema{of}, {len(lines)} column{'s' * (len(lines) > 1)}", *lines])

    def _repr_html_(self) -> str:
        of = "" if self.dataset is None else f" of {self.dataset}"
        return _html.paragraph(f"Schema{of}") + _html.table(["column", "kind", "values"], self._lines())

    def _lines(self) -> list[tuple[str, str, str]]:
        """Return name, kind and possible values of every column, in words."""
        return [(c.name, c.kind, c.describe() if c.is_complete else "not declared yet") for c in self.columns]


def _file_kind(path: Path) -> str:
    kind = path.suffix.lower().lstrip(".")
    if kind not in {"toml", "json"}:
        raise _validate.fail("a file that ends in .toml or .json", "path", path.name)
    return kind


def require_schema(schema: Any) -> Schema:
    """Return the argument if it is a schema, else raise."""
    if not isinstance(schema, Schema):
        remedy = "Pass dpem.Schema({...})." if isinstance(schema, Mapping) else ""
        if isinstance(schema, str | os.PathLike):
            shown = _validate.shown(os.fspath(schema))
            remedy = f"Use dpem.Schema.read({shown})." if shown.startswith("'") else "Use dpem.Schema.read."
        raise _validate.fail("a dpem.Schema", "schema", schema, remedy)
    return schema
