"""Call the command in this process; return its exit code, JSON or text, and standard error."""

import json
from pathlib import Path
from typing import NamedTuple

from dpem.cli import main
from dpem.generated_tables import PATIENTS_SCHEMA, patients


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def called(capsys, *arguments):
    """Run a command and return its exit code and output."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return Ended(code, shown.out, shown.err)


def hospital(folder: Path, n: int = 2000):
    """Write a table and its schema to a folder; return their paths, and one for a ledger."""
    patients(n, 0).to_csv(folder / "patients.csv", index=False)
    PATIENTS_SCHEMA.save(folder / "patients.toml")
    return folder / "patients.csv", folder / "patients.toml", folder / "patients.ledger"
