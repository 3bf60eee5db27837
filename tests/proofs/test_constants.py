"""Constants of the source equal those of the theorems, and the table of theorems belongs to the files.

A constant is read from the text of the source. So the test fails if a block size is doubled, although every
other test might pass.
"""

import ast
import importlib.util
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONSTANT = re.compile(r"^Definition (\w+) : nat := (\d+)\.\s+\(\* (\S+): (.+) \*\)$", re.MULTILINE)
FUNCTIONS = {"log2": math.log2}


def constants(path):
    """Return all constants at the top level of a file, which may depend on constants of other files."""
    known = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpem.statistics"):
            imported = constants(f"src/{node.module.replace('.', '/')}.py")
            known |= {alias.name: imported[alias.name] for alias in node.names if alias.name in imported}
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                known[node.targets[0].id] = evaluated(node.value, known)
            except (NameError, TypeError, SyntaxError, AttributeError):
                continue  # not a number
    return known


def evaluated(expression, known):
    """Evaluate an expression of numbers and constants."""
    if not isinstance(expression, ast.expr):
        expression = ast.parse(expression, mode="eval").body
    code = compile(ast.Expression(expression), "constant", "eval")
    return eval(code, {"__builtins__": {}}, dict(known))


CONSTANTS = CONSTANT.findall((ROOT / "proofs" / "Constants.v").read_text())


def test_every_constant_of_the_theorems_names_its_source():
    written = (ROOT / "proofs" / "Constants.v").read_text()
    assert len(CONSTANTS) == written.count("Definition ") >= 20


@pytest.mark.parametrize(("name", "value", "path", "expression"), CONSTANTS, ids=[c[0] for c in CONSTANTS])
def test_constants_equal_those_of_the_theorems(name, value, path, expression):
    """If this fails, change proofs/Constants.v too and see whether `make prove` still succeeds."""
    assert evaluated(expression, constants(path) | FUNCTIONS) == int(value), f"{path}: {expression}"


def proof_tool():
    spec = importlib.util.spec_from_file_location("proof_tool", ROOT / "tools" / "proofs.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["proof_tool"] = module  # for its dataclass
    spec.loader.exec_module(module)
    return module


def test_the_table_of_theorems_is_current():
    """docs/proofs/checked.md lists every theorem, and hashes of the files as they are."""
    assert proof_tool().check_without_coq() == []


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("Admitted.", True),
        ("Axiom choice : forall x, x = x.", True),
        ("Parameter p : nat.", True),
        ("Proof. admit. Qed.", True),
        ("Hypothesis h : False.", True),
        ("Variable x : nat.", True),
        ("Context (x : nat).", True),
        ("Unset Guard Checking.", True),
        ("Section A.\nVariable x : nat.\nHypothesis h : x = x.\nEnd A.", False),
        ("Section A.\nEnd A.\nHypothesis h : False.", True),
        ("(* Axiom (* nested *) Admitted *) Lemma a : True. Proof. exact I. Qed.", False),
    ],
)
def test_unproved_statements_are_refused(tmp_path, line, is_refused):
    file = tmp_path / "Some.v"
    file.write_text(line + "\n")
    assert bool(proof_tool().refused(file)) is is_refused


def test_every_numbered_statement_has_a_file():
    """Each (S-n) of docs/proofs/sensitivity.md has a file that begins with it, and a theorem."""
    numbers = re.findall(r"^### \(S-(\d+)\)", (ROOT / "docs/proofs/sensitivity.md").read_text(), re.MULTILINE)
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    tool = proof_tool()
    for number in numbers:
        (file,) = (ROOT / "proofs").glob(f"S{int(number):02}_*.v")
        assert file.read_text().startswith(f"(* (S-{number}) ")
        assert any(t.name.startswith(f"S{number}_") for t in tool.theorems(file))


def test_what_relies_on_a_theorem_exists():
    """The files that each proof names are there."""
    for file in (ROOT / "proofs").glob("*.v"):
        for path in re.findall(r"src/dpem/[\w/]+\.py", file.read_text()):
            assert (ROOT / path).exists(), f"{file.name}: {path}"
