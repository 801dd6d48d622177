"""The closed expression language of the ISA rows.

An expression is Python syntax restricted to names, attributes of operands, integers, strings,
tuples, comparisons, `and`/`or`/`not`/`in`, `+ - * // %` and calls of the named predicates. It is
checked against that list before it is compiled, so a row can never run anything else."""

from __future__ import annotations

import ast
from functools import lru_cache
from types import CodeType

from ptosim.ground.errors import IsaDataError

_NODES = (
    ast.Expression, ast.Name, ast.Load, ast.Attribute, ast.Constant, ast.Tuple, ast.Compare,
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub,
    ast.Mult, ast.FloorDiv, ast.Mod, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In,
    ast.NotIn, ast.Is, ast.IsNot, ast.Call, ast.IfExp,
)  # fmt: skip


@lru_cache(maxsize=4096)
def compile_expr(text: str) -> tuple[CodeType, frozenset[str]]:
    """Compile an expression; return its code and the names it reads. Raises IsaDataError."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as problem:
        raise IsaDataError(f"expression {text!r}: {problem.msg}") from problem
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise IsaDataError(f"expression {text!r}: {type(node).__name__} is not allowed")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise IsaDataError(f"expression {text!r}: private attribute {node.attr}")
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            raise IsaDataError(f"expression {text!r}: only named predicates can be called")
        if isinstance(node, ast.Name):
            names.add(node.id)
    return compile(tree, "<isa>", "eval"), frozenset(names)
