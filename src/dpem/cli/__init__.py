"""The command `dpem`: it parses arguments, calls the Python API and prints the results.

May import: everything; models through the registry. Never sees: private values in messages.
"""

from dpem.cli.app import main, run

__all__ = ["main", "run"]
