"""Synthetic tables: a mixture over columns of any kind."""
