"""Data: sources of rows and the public domain that bounds them. Knows no privacy and no model."""

from dpem.data.domain import Domain, IncompleteRows, RowGrid
from dpem.data.schema import Column, Schema
from dpem.data.sources.base import RowSource
from dpem.data.sources.memory import TableRows
from dpem.data.table_grid import TableGrid

__all__ = ["Column", "Domain", "IncompleteRows", "RowGrid", "RowSource", "Schema", "TableGrid", "TableRows"]
