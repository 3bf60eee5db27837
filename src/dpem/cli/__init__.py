"""The command `dpem`: it parses arguments, calls the Python API and prints the results.

May import: everything; models through the registry. Messages never show private values.
"""

from dpem.cli.app import main, run

__all__ = ["main", "run"]
