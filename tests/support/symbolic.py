"""Run the package's own source on z3's vectors of 64 bits: nothing is translated by hand."""

import ast
import types
from pathlib import Path

import z3

SOURCE = Path(__file__).parents[2] / "src" / "dpem"


def constant(value, bits=64):
    """Return a bit vector, from a number or a bit vector."""
    return value if isinstance(value, z3.BitVecRef) else z3.BitVecVal(value, bits)


class SymbolicNumpy:
    """The functions of NumPy that the source calls, on one entry of 64 bits."""

    int64 = "int64"

    @staticmethod
    def zeros(_size, dtype):
        assert dtype == "int64"
        return z3.BitVecVal(0, 64)

    @staticmethod
    def clip(x, least, most):
        x, least, most = constant(x), constant(least), constant(most)
        raised = z3.If(x < least, least, x)
        return z3.If(raised > most, most, raised)

    @staticmethod
    def where(condition, a, b):
        return z3.If(condition, constant(a), constant(b))


def definitions(path, *names, source=None, **environment):
    """Execute the constants, functions and classes of a file with these names, and return them.

    Imports are not executed: everything else that the definitions use comes from `environment`.
    """
    tree = ast.parse((SOURCE / path).read_text() if source is None else source)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    wanted = [
        node
        for node in tree.body
        if getattr(node, "name", None) in names
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) in names)
    ]
    assert len(wanted) == len(names), f"{path} no longer defines all of {names}"
    tree.body = [*future, *wanted]
    space = {"np": SymbolicNumpy, **environment}
    exec(compile(tree, path, "exec"), space)
    return types.SimpleNamespace(**space)


def counterexample(premises, claim, limit=500_000_000):
    """Return None if the premises imply the claim for all values, otherwise values that refute it."""
    solver = z3.Solver()
    solver.set("rlimit", limit)
    solver.add(*premises)
    assert solver.check() == z3.sat, "no value satisfies the premises"
    solver.add(z3.Not(claim))
    verdict = solver.check()
    assert verdict != z3.unknown, "z3 gave up"
    if verdict == z3.unsat:
        return None
    model = solver.model()
    return {str(name): model[name].as_signed_long() for name in model.decls()}
