"""The exceptions of SQLite, in which dpem keeps ledgers and resume files."""

import sqlite3

__all__ = ["SQLITE_ERRORS"]

# SQLite's message about a damaged file may quote bytes that Python cannot decode.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
