"""Mutation operators that Cosmic Ray lacks, and the parts of the code that are not mutated."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cosmic_ray.operators.operator import Operator
from parso.python.tree import Name, Number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parso.tree import NodeOrLeaf

    Position = tuple[int, int]

# Pairs of opposites: the wrong side of a rounding, the wrong relation, the wrong noise.
_OPPOSITES = {
    "ADD_REMOVE": "REPLACE_ONE",
    "LaplaceEvent": "GaussianEvent",
    "ROUND_CEILING": "ROUND_FLOOR",
    "ceil": "floor",
    "digits_up": "digits_down",
    "float_up": "float_down",
    "low": "high",
    "lower": "upper",
    "max": "min",
    "next_minus": "next_plus",
    "rounded_gaussian": "rounded_laplace",
    "smallest_passing": "largest_passing",
}
OPPOSITES = _OPPOSITES | {new: old for old, new in _OPPOSITES.items()}


class SwapName(Operator):
    """Replace a function, a bound or a relation by its opposite."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Position, Position]]:
        """Yield the name, unless it is bound here."""
        is_keyword = (
            node.parent is not None and node.parent.type == "argument" and node.parent.children[0] is node
        )
        if isinstance(node, Name) and node.value in OPPOSITES and not node.is_definition() and not is_keyword:
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, _index: int) -> NodeOrLeaf:
        """Return the opposite."""
        node.value = OPPOSITES[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return none."""
        return ()


class NoMargin(Operator):
    """Set a small constant, such as a margin for rounding errors, to zero."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Position, Position]]:
        """Yield numbers below one thousandth."""
        if isinstance(node, Number) and 0 < float(ast.literal_eval(node.value)) < 1e-3:
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, _index: int) -> NodeOrLeaf:
        """Return zero."""
        node.value = "0.0"
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return none."""
        return ()


class DeleteStatement(Operator):
    """Delete a call, a raise, an early return, or an assignment to an item or attribute."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[Position, Position]]:
        """Yield statements that can be deleted without a syntax error."""
        if node.type != "simple_stmt" or node.parent.type not in ("suite", "file_input"):
            return
        statement = node.children[0]
        first = statement.children[0] if hasattr(statement, "children") else None
        is_effect = (
            statement.type in ("atom_expr", "power", "raise_stmt")
            or (statement.type == "return_stmt" and node.parent.parent.type != "funcdef")
            or (statement.type == "expr_stmt" and first.type in ("atom_expr", "power"))
            or (
                statement.type == "expr_stmt"
                and statement.children[1].type == "operator"
                and statement.children[1].value != "="
            )
        )
        if is_effect:
            yield statement.start_pos, statement.end_pos

    def mutate(self, node: NodeOrLeaf, _index: int) -> NodeOrLeaf:
        """Return a statement that does nothing."""
        statement = node.children[0]
        node.children[0] = Name("pass", statement.start_pos, prefix=statement.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return none."""
        return ()


# Those of Cosmic Ray's operator replacements that are likely mistakes.
BINARY = (
    "Add_Sub",
    "Sub_Add",
    "Mul_Div",
    "Div_Mul",
    "FloorDiv_Mul",
    "Pow_Mul",
    "LShift_RShift",
    "RShift_LShift",
    "BitOr_BitAnd",
    "BitAnd_BitOr",
)
COMPARISON = (
    "Lt_LtE",
    "LtE_Lt",
    "Gt_GtE",
    "GtE_Gt",
    "Lt_GtE",
    "LtE_Gt",
    "Gt_LtE",
    "GtE_Lt",
    "Eq_NotEq",
    "NotEq_Eq",
    "Is_IsNot",
    "IsNot_Is",
)
UNARY = ("Delete_USub", "Delete_Not", "Delete_Invert")
OTHER = (
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "NumberReplacer",
    "RemoveDecorator",
    "ZeroIterationForLoop",
)
CORE = [f"ReplaceBinaryOperator_{name}" for name in BINARY]
CORE += [f"ReplaceComparisonOperator_{name}" for name in COMPARISON]
CORE += [f"ReplaceUnaryOperator_{name}" for name in UNARY]
CORE += OTHER


def words_only(source: str) -> list[tuple[Position, Position]]:
    """Return the parts of a module that affect no result: messages, `__str__`, annotations, imports."""
    parts: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Raise(exc=ast.AST() as exception):
                parts.append(exception)
            case ast.FunctionDef(name="__str__" | "__repr__"):
                parts.extend(node.body)
            case ast.FunctionDef():
                arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                parts.extend(argument.annotation for argument in arguments if argument.annotation)
                parts.extend([node.returns] if node.returns else [])
                parts.extend(
                    d
                    for d in node.decorator_list
                    if isinstance(d, ast.Name) and d.id in ("overload", "abstractmethod")
                )
            case ast.keyword(arg="strict"):  # zip's check of lengths that agree by construction
                parts.append(node.value)
            case ast.AnnAssign():
                parts.append(node.annotation)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom():
                parts.append(node)
            case ast.ClassDef(bases=[ast.Name(id="Protocol")]):
                parts.append(node)
            case (
                ast.Assign(targets=[ast.Name(id="__all__" | "remedy")])
                | ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar")))
            ):
                parts.append(node)
    return [((p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)) for p in parts]
