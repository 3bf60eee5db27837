"""Public knowledge about a table, the conversion of cells to bounded integers, and row sources.

May import: errors and argument validation only. Never sees: noise, budgets, models.
"""

from dpem.data.domain import Domain, IncompleteRows, RowGrid
from dpem.data.schema import Column, Schema
from dpem.data.sources.base import RowSource
from dpem.data.sources.memory import TableRows
from dpem.data.table_grid import TableGrid

__all__ = ["Column", "Domain", "IncompleteRows", "RowGrid", "RowSource", "Schema", "TableGrid", "TableRows"]
