"""Arithmetic over parameters, as conditions of a space and counts of a launch write it:
`TM * TN * 4 <= 65536`. Python's spelling, read with `ast` and computed here: numbers, names of
parameters, arithmetic, comparison, and/or/not, `min`, `max`, `abs` and `cdiv` (division rounded
up). Nothing of it is executed as Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.errors import UsageError

MOST_TEXT = 1_000
"""Characters of an expression."""
MOST_BITS = 256
"""Of a whole number that is computed: two numbers of a line could fill any memory."""
_LISTS = (list, tuple)
_NO_NUMBERS = (str, *_LISTS)
"""What Python computes with too: a product of a list could fill any memory."""

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_SHIFTS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "cdiv": lambda a, b: -(-a // b),
}


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression over named values. Raises UsageError (PTO7601) for what is
    no such expression, a name that is none, and what cannot be computed (a division by zero)."""
    try:
        found = _value(_parsed(text), names)
        if isinstance(found, _LISTS):
            raise TypeError("a list is something to look a value up in, and none itself")
    except (ArithmeticError, TypeError, ValueError, RecursionError) as problem:
        raise UsageError(f"PTO7601: `{text}` cannot be computed: {problem}") from problem
    return found


def names_in(text: str) -> set[str]:
    """Return the names of parameters in an expression. Raises UsageError (PTO7601) for what is
    none."""
    try:
        nodes = list(ast.walk(_parsed(text)))
    except ValueError as problem:
        raise UsageError(f"PTO7601: `{text}` cannot be read: {problem}") from problem
    calls = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return {n.id for n in nodes if isinstance(n, ast.Name)} - (calls & _CALLS.keys())


@lru_cache(maxsize=512)
def _parsed(text: str) -> ast.expr:
    if len(text) > MOST_TEXT:
        raise ValueError(f"it has more than {MOST_TEXT:,} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, MemoryError) as problem:
        reason = getattr(problem, "msg", None) or "it is nested too deeply"
        raise ValueError(f"it is no expression ({reason})") from None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    compute = _NODES.get(type(node))
    if compute is None:
        raise TypeError(f"`{ast.unparse(node)}` is no number, parameter or arithmetic")
    return compute(node, names)


def _constant(node: ast.Constant, names: Mapping[str, Any]) -> Any:
    if not isinstance(node.value, (int, float, str)):
        raise TypeError(f"`{ast.unparse(node)}` is no number")
    return node.value


def _name(node: ast.Name, names: Mapping[str, Any]) -> Any:
    if node.id not in names:
        raise TypeError(f"there is no parameter `{node.id}` (parameters: {', '.join(names)})")
    return names[node.id]


def _binary(node: ast.BinOp, names: Mapping[str, Any]) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    if isinstance(left, _NO_NUMBERS) or isinstance(right, _NO_NUMBERS):
        raise TypeError("texts and lists are compared, not computed with")
    kind = type(node.op)
    if kind in _SHIFTS and isinstance(left, int) and abs(right) > MOST_BITS:
        raise OverflowError(f"{right} is too much for `{ast.unparse(node)}`")
    compute = _BINARY.get(kind) or _SHIFTS.get(kind)
    if compute is None:
        raise TypeError(f"`{ast.unparse(node)}` is no arithmetic that is known")
    found = compute(left, right)
    if isinstance(found, int) and found.bit_length() > MOST_BITS:
        raise OverflowError(f"`{ast.unparse(node)}` is a number of more than {MOST_BITS} bits")
    if isinstance(found, complex) or (isinstance(found, float) and not math.isfinite(found)):
        raise OverflowError(f"`{ast.unparse(node)}` is no finite number")
    return found


def _unary(node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
    compute = _UNARY.get(type(node.op))
    if compute is None:
        raise TypeError(f"`{ast.unparse(node)}` is no arithmetic that is known")
    return compute(_value(node.operand, names))


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, names)
        if type(op) not in _COMPARED:
            raise TypeError(f"`{ast.unparse(node)}` is no comparison of values")
        if not _COMPARED[type(op)](left, right):
            return False
        left = right
    return True


def _logical(node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
    found: Any = None
    for part in node.values:
        found = _value(part, names)
        if bool(found) is isinstance(node.op, ast.Or):
            return found
    return found


def _chosen(node: ast.IfExp, names: Mapping[str, Any]) -> Any:
    return _value(node.body if _value(node.test, names) else node.orelse, names)


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    function = _CALLS.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if function is None or node.keywords:
        raise TypeError(f"`{ast.unparse(node)}`: the functions are {', '.join(_CALLS)}")
    return function(*(_value(each, names) for each in node.args))


def _several(node: ast.List | ast.Tuple, names: Mapping[str, Any]) -> list[Any]:
    return [_value(each, names) for each in node.elts]


_NODES: dict[type, Callable[..., Any]] = {
    ast.Constant: _constant, ast.Name: _name, ast.BinOp: _binary, ast.UnaryOp: _unary,
    ast.Compare: _compared, ast.BoolOp: _logical, ast.IfExp: _chosen, ast.Call: _call,
    ast.List: _several, ast.Tuple: _several,
}  # fmt: skip
