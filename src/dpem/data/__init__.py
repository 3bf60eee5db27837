"""Data: sources of rows and the public domain that bounds them. Knows no privacy and no model."""

from dpem.data.domain import Domain, RowGrid
from dpem.data.schema import Column, Schema
from dpem.data.sources import RowSource

__all__ = ["Column", "Domain", "RowGrid", "RowSource", "Schema"]
