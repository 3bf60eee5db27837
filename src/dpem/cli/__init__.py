"""The command `dpem`: it parses, calls the functions of the Python interface, and prints what they return.

May import: everything; models through the registry. Never sees: private values in messages.
"""

from dpem.cli.app import main, run

__all__ = ["main", "run"]
