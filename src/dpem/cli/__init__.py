"""The command `dpem`: it parses, calls the same functions as Python code does, and says what they found."""

from dpem.cli.app import main, run

__all__ = ["main", "run"]
