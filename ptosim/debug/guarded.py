"""What an expression of the user may do: compute with values that exist. No name leads out of it,
to files or to Python's own machinery, and no step makes a number or an array that fills the
memory."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError

MOST_BITS = 1 << 16
"""Of an integer."""
MOST_ELEMENTS = 1 << 22
"""Of what a step makes that is larger than what it is made of."""

_ATTRIBUTES = frozenset(
    [
        "T",
        "all",
        "any",
        "argmax",
        "argmin",
        "argsort",
        "astype",
        "bit_count",
        "bit_length",
        "clip",
        "conj",
        "copy",
        "cumsum",
        "dot",
        "dtype",
        "flatten",
        "imag",
        "is_integer",
        "item",
        "itemsize",
        "kind",
        "max",
        "mean",
        "min",
        "name",
        "nbytes",
        "ndim",
        "newbyteorder",
        "nonzero",
        "prod",
        "ravel",
        "real",
        "reshape",
        "round",
        "shape",
        "size",
        "squeeze",
        "std",
        "sum",
        "tolist",
        "transpose",
        "var",
        "view",
    ]
)
_OF_NUMPY = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "array_equal",
    "bincount",
    "clip",
    "concatenate",
    "count_nonzero",
    "cumsum",
    "diff",
    "dot",
    "histogram",
    "inf",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "max",
    "mean",
    "median",
    "min",
    "nan",
    "newaxis",
    "nonzero",
    "pi",
    "prod",
    "ravel",
    "reshape",
    "round",
    "s_",
    "sort",
    "std",
    "sum",
    "transpose",
    "unique",
    "var",
    "where",
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * max(right, 0))
    return operator.pow(left, right)


def _shifted(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + max(right, 0))
    return operator.lshift(left, right)


def _product(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    for many, count in ((left, right), (right, left)):
        if isinstance(many, (str, bytes, list, tuple)) and isinstance(count, int):
            _check_elements(len(many) * count)
    return operator.mul(left, right)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: _product, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power,
    ast.LShift: _shifted, ast.RShift: operator.rshift, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.BitAnd: operator.and_, ast.MatMult: operator.matmul,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_STEP = "guarded step"  # no identifier, so no text has it
STEPS: dict[str, Any] = {
    f"{_STEP} {kind.__name__}": lambda left, right, do=do: _done(do, left, right)
    for kind, do in (*_BINARY.items(), *_COMPARED.items())
}
"""The names that guarded code uses, and what they are."""


def _done(do: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and do is not operator.matmul:
        size = math.prod(np.broadcast_shapes(left.shape, right.shape))
        if size > max(left.size, right.size):
            _check_elements(size)
    if isinstance(left, str) and do is operator.mod:
        raise UsageError("`%` formats no text here")
    return do(left, right)


def _check_bits(count: int) -> None:
    if count > MOST_BITS:
        raise UsageError(f"a number of {count:,} bits is too large here")


def _check_elements(count: int) -> None:
    if count > MOST_ELEMENTS:
        raise UsageError(f"{count:,} elements are too many here")


class _Guard(ast.NodeTransformer):
    """Puts the steps of `STEPS` in place of operators, and refuses what is no computation."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _step(node.op, node.left, node.right, node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1 or type(node.ops[0]) not in _COMPARED:
            return node
        return _step(node.ops[0], node.left, node.comparators[0], node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_numpy = isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
        if not is_numpy and node.attr not in _ATTRIBUTES:
            raise UsageError(
                f"`.{node.attr}` is not for expressions", help="the command `python` has all of it"
            )
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith("__"):
            raise UsageError(f"`{node.id}` is not a name here")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        raise UsageError("an expression formats no text", help="the command `python` does")

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        raise UsageError("an expression defines no function", help="the command `python` does")


def _step(
    kind: ast.operator | ast.cmpop, left: ast.expr, right: ast.expr, node: ast.AST
) -> ast.AST:
    name = ast.Name(f"{_STEP} {type(kind).__name__}", ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.Call(name, [left, right], []), node))


def guarded(tree: ast.Expression) -> ast.Expression:
    """Return an expression whose steps are checked when they are done. Raises UsageError for what
    is no computation."""
    return _Guard().visit(tree)


def _with_two(function: np.ufunc) -> Callable[..., Any]:
    def apply(left: Any, right: Any) -> Any:
        return _done(function, left, right)

    return apply


def numpy_names() -> SimpleNamespace:
    """Return what expressions have of NumPy: what computes with arrays that exist."""
    plain = {name: getattr(np, name) for name in _OF_NUMPY}
    functions = {n: f for n in dir(np) if isinstance(f := getattr(np, n), np.ufunc)}
    ones = {n: f for n, f in functions.items() if f.nin == 1 and f.nout == 1}
    twos = {n: _with_two(f) for n, f in functions.items() if f.nin == 2 and f.nout == 1}
    return SimpleNamespace(**{**ones, **twos, **plain})
