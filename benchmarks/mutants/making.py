"""The mutants of a module, each with a name that does not depend on line numbers."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
from pathlib import Path

import operators
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code


def mutants_of(module: str, source: str, kept: Path) -> dict[str, str]:
    """Return the changed sources of a module by name, cached in a folder: a long module takes a minute."""
    recipe = module + source + Path(__file__).read_text() + Path(operators.__file__).read_text()
    made = kept / f"{hashlib.sha256(recipe.encode()).hexdigest()}.json"
    if not made.exists():
        kept.mkdir(parents=True, exist_ok=True)
        made.write_text(json.dumps(_make(module, source)))
    mutants: dict[str, str] = json.loads(made.read_text())
    return mutants


def _make(module: str, source: str) -> dict[str, str]:
    excluded, definitions = operators.words_only(source), _definitions(source)
    found: dict[str, str] = {}
    unchanged = _tree(source)
    chosen = [plugins.get_operator(f"core/{name}")() for name in operators.CORE]
    for operator in [*chosen, operators.SwapName(), operators.NoMargin(), operators.DeleteStatement()]:
        tree = get_ast(source)
        positions = [
            (node, start) for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)
        ]
        for occurrence, (node, start) in enumerate(positions):
            in_signature = node.parent is not None and node.parent.type == "parameters"  # the star of f(*, x)
            if in_signature or any(low <= start < high for low, high in excluded):
                continue
            try:
                changed = mutate_code(source, operator, occurrence)
            except AttributeError:  # Cosmic Ray cannot replace an exception with a dot in its name
                continue
            if changed is None or _tree(changed) == unchanged:
                continue
            key = base = f"{module} {_definition_at(definitions, start[0])}: {_short_diff(source, changed)}"
            copies = 1
            while key in found and found[key] != changed:
                copies += 1
                key = f"{base} #{copies}"
            if changed not in found.values():
                found[key] = changed
    return found


def _tree(source: str) -> str:
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return source


def _definitions(source: str) -> list[tuple[int, int, str]]:
    """Return first line, last line and name of each function and class, outer before inner."""
    found = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                found.append((first, child.end_lineno or first, name))
            visit(child, name)

    visit(ast.parse(source), "")
    return found


def _definition_at(definitions: list[tuple[int, int, str]], line: int) -> str:
    return ([name for first, last, name in definitions if first <= line <= last] or ["(module)"])[-1]


def _short_diff(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    removed = " ".join(line[1:].strip() for line in lines[2:] if line.startswith("-"))
    added = " ".join(line[1:].strip() for line in lines[2:] if line.startswith("+"))
    return f"{removed.strip()}  ->  {added.strip() or '(nothing)'}"
