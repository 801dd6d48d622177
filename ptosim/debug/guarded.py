"""What an expression of the user may do: compute with values that exist. No name leads out of it,
to files or to Python's own machinery, and no step makes a number or an array that fills the
memory."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ptosim.debug.budget import (
    ARRAYS,
    MOST_STEPS,
    check_bits,
    check_elements,
    check_type,
    numbers,
    rounds,
    weight,
)
from ptosim.ground.errors import UsageError

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
    if _are_whole(left, right):
        check_bits(int(left).bit_length() * max(int(right), 0))
    return operator.pow(left, right)


def _shifted(left: Any, right: Any) -> Any:
    if _are_whole(left, right):
        check_bits(int(left).bit_length() + max(int(right), 0))
    return operator.lshift(left, right)


def _product(left: Any, right: Any) -> Any:
    if _are_whole(left, right):
        check_bits(int(left).bit_length() + int(right).bit_length())
    for many, count in ((left, right), (right, left)):
        if isinstance(many, _SEQUENCES) and isinstance(count, _WHOLE):
            check_elements(weight(many) * int(count))
    return operator.mul(left, right)


def _sum(left: Any, right: Any) -> Any:
    if all(isinstance(part, _SEQUENCES) for part in (left, right)):
        check_elements(weight(left) + weight(right))
    return operator.add(left, right)


_WHOLE = (int, np.integer)
_SEQUENCES = (str, bytes, list, tuple)


def _are_whole(left: Any, right: Any) -> bool:
    return isinstance(left, _WHOLE) and isinstance(right, _WHOLE)


def _matrix_product(do: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A product of matrices: `dot` pairs all rows with all columns, `matmul` those of each pair of
    matrices."""

    def multiply(left: Any, right: Any) -> Any:
        numbers(left)
        numbers(right)
        one, two = np.shape(left), np.shape(right)
        if not one or not two:
            return do(left, right)
        batches = [one[:-2], two[:-2]]
        if do is operator.matmul:
            batches = [np.broadcast_shapes(*batches)]
        size = math.prod(math.prod(b) for b in batches) * math.prod((*one[-2:-1], *two[1:][-1:]))
        check_elements(size)
        if size * one[-1] > MOST_STEPS:
            raise UsageError(f"{size * one[-1]:,} products are too many here")
        return do(left, right)

    return multiply


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _sum, ast.Sub: operator.sub, ast.Mult: _product, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power,
    ast.LShift: _shifted, ast.RShift: operator.rshift, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.BitAnd: operator.and_,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _done(do: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(left, str) and do is operator.mod:
        raise UsageError("`%` formats no text here")
    if isinstance(left, ARRAYS) or isinstance(right, ARRAYS):
        _check_broadcast(left, right)
    elif isinstance(left, (list, tuple)) and do in _COMPARED.values():
        check_elements(weight(left) + weight(right))
    return do(left, right)


def _check_broadcast(*parts: Any) -> None:
    """Raise UsageError for parts that are not of numbers, or that make a large array together."""
    parts = tuple(part for part in parts if part is not None)
    held = [numbers(part) for part in parts]
    size = math.prod(np.broadcast_shapes(*map(np.shape, parts)))
    if size > max(held, default=0):
        check_elements(size)


def _item(value: Any, index: Any) -> Any:
    """A part of a value; arrays among the indices may name an element again and again."""
    if isinstance(value, np.ndarray):
        parts = index if isinstance(index, tuple) else (index,)
        _check_picked(value, [part for part in parts if isinstance(part, (list, np.ndarray))])
    return value[index]


def _check_picked(value: np.ndarray, parts: Sequence[Any]) -> None:
    """Raise UsageError if indices that are arrays pick a large array. They take the place of as
    many dimensions, which are at least the smallest ones."""
    if not parts:
        return
    for part in parts:
        numbers(part)
    given = [np.asarray(part) for part in parts]
    shapes = [(int(g.sum()),) if g.dtype == bool else g.shape for g in given]
    taken = sum(g.ndim if g.dtype == bool else 1 for g in given)
    rest = value.size // max(math.prod(sorted(value.shape)[:taken]), 1)
    size = rest * math.prod(np.broadcast_shapes(*shapes))
    if size > value.size:
        check_elements(size)


# -- functions -------------------------------------------------------------------------------------


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy that takes nothing but numbers."""

    def apply(first: Any, *rest: Any, **options: Any) -> Any:
        numbers(first)
        _check_options(rest, options)
        return function(first, *rest, **options)

    return apply


def _check_options(rest: Sequence[Any], options: Mapping[str, Any]) -> None:
    for option in (*rest, *options.values()):
        if isinstance(option, (str, type, np.dtype)):
            _check_named(option)
        elif option is not None:
            numbers(option)


def _check_named(option: Any) -> None:
    """A text may name a type, and is another option if it names none."""
    try:
        named = np.dtype(option)
    except TypeError:
        return
    check_type(named)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*parts: Any, **options: Any) -> Any:
        _check_options((), options)
        named = [v for v in options.values() if isinstance(v, (*ARRAYS, list, tuple))]
        _check_broadcast(*parts, *named)
        return function(*parts, **options)

    return apply


def _concatenated(arrays: Any, *rest: Any, **options: Any) -> Any:
    _check_options(rest, options)
    check_elements(sum(map(numbers, arrays)))
    return np.concatenate(arrays, *rest, **options)


def _counts(values: Any, weights: Any = None, minlength: Any = 0) -> Any:
    numbers(values)
    _check_options((weights, minlength), {})
    check_elements(max(int(np.max(values, initial=0)) + 1, int(minlength)))
    return np.bincount(values, weights, minlength)


def _histogram(values: Any, bins: Any = 10, *rest: Any, **options: Any) -> Any:
    numbers(values)
    numbers(bins)  # their number or their limits; a rule might find any number of them
    _check_options(rest, options)
    if isinstance(bins, _WHOLE):
        check_elements(int(bins))
    return np.histogram(values, bins, *rest, **options)


class Whole:
    """`int`, of a text that is no longer than a number may be; as a type of elements it is what
    `int` is."""

    dtype = np.dtype(int)

    def __new__(cls, *given: Any) -> Any:
        """Return a whole number. Raises UsageError for a text that is too long."""
        if given and isinstance(given[0], (str, bytes)):
            check_bits(len(given[0]))
        return int(*given)


def rounded(value: Any, digits: Any = None) -> Any:
    """`round`, to a number of digits that a number may have."""
    if isinstance(digits, _WHOLE):
        check_bits(abs(int(digits)))
    return round(value, digits)


_OWN: dict[str, Callable[..., Any]] = {
    "where": _elementwise(np.where), "isclose": _elementwise(np.isclose),
    "clip": _elementwise(np.clip), "dot": _matrix_product(np.dot),
    "concatenate": _concatenated, "bincount": _counts, "histogram": _histogram,
}  # fmt: skip
"""Functions of NumPy whose result may be larger than what they are given."""


def function(name: str) -> Any:
    """Return what expressions have in the place of a name of NumPy."""
    found = getattr(np, name)
    if name in _OWN or not callable(found) or isinstance(found, type):
        return _OWN.get(name, found)
    return checked(found)


def _attribute(name: str) -> Callable[[Any], Any]:
    """Read an attribute; methods of arrays take what functions take."""

    def read(value: Any) -> Any:
        found = getattr(value, name)
        if not isinstance(value, ARRAYS) or not callable(found):
            return found
        if name in _OWN:
            return lambda *rest, **options: _OWN[name](value, *rest, **options)
        return _method(found)

    return read


def _method(found: Callable[..., Any]) -> Callable[..., Any]:
    def call(*rest: Any, **options: Any) -> Any:
        _check_options(rest, options)
        return found(*rest, **options)

    return call


_STEP = "guarded step"  # no identifier, so no text has it
STEPS: dict[str, Any] = {
    f"{_STEP} {kind.__name__}": lambda left, right, do=do: _done(do, left, right)
    for kind, do in (*_BINARY.items(), *_COMPARED.items())
}
"""The names that guarded code uses, and what they are."""
STEPS[f"{_STEP} MatMult"] = _matrix_product(operator.matmul)
STEPS[f"{_STEP} item"] = _item
STEPS[f"{_STEP} slice"] = slice
STEPS[f"{_STEP} rounds"] = rounds
STEPS.update((f"{_STEP} .{name}", _attribute(name)) for name in _ATTRIBUTES)


class _Guard(ast.NodeTransformer):
    """Puts the steps of `STEPS` in place of operators, and refuses what is no computation."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _step(type(node.op).__name__, node, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1 or type(node.ops[0]) not in _COMPARED:
            return node
        return _step(type(node.ops[0]).__name__, node, node.left, node.comparators[0])

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_numpy = isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
        if not is_numpy and node.attr not in _ATTRIBUTES:
            raise UsageError(
                f"`.{node.attr}` is not for expressions", help="the command `python` has all of it"
            )
        self.generic_visit(node)
        return node if is_numpy else _step(f".{node.attr}", node, node.value)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return _step("item", node, node.value, _index(node.slice))

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = _step("rounds", node.iter, node.iter)
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """As a list: what is left to be computed later would be so outside the guard."""
        self.generic_visit(node)
        return ast.copy_location(ast.ListComp(node.elt, node.generators), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith("__"):
            raise UsageError(f"`{node.id}` is not a name here")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        raise UsageError("an expression formats no text", help="the command `python` does")

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        raise UsageError("an expression defines no function", help="the command `python` does")


def _step(what: str, place: ast.expr, *given: ast.expr) -> ast.Call:
    name = ast.Name(f"{_STEP} {what}", ast.Load())
    return ast.fix_missing_locations(ast.copy_location(ast.Call(name, [*given], []), place))


def _index(node: ast.expr) -> ast.expr:
    """What is in brackets as what it is outside of them."""
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([*map(_index, node.elts)], ast.Load()), node)
    if isinstance(node, ast.Slice):
        none = ast.copy_location(ast.Constant(None), node)
        return _step("slice", node, *(p or none for p in (node.lower, node.upper, node.step)))
    return node


def guarded(tree: ast.Expression) -> ast.Expression:
    """Return an expression whose steps are checked when they are done. Raises UsageError for what
    is no computation."""
    return _Guard().visit(tree)


def numpy_names() -> SimpleNamespace:
    """Return what expressions have of NumPy: what computes with arrays that exist."""
    functions = {n: f for n in dir(np) if isinstance(f := getattr(np, n), np.ufunc)}
    ones = {n: checked(f) for n, f in functions.items() if f.nin == 1 and f.nout == 1}
    twos = {n: _elementwise(f) for n, f in functions.items() if f.nin == 2 and f.nout == 1}
    products = {"matmul": STEPS[f"{_STEP} MatMult"]}
    plain = {name: function(name) for name in _OF_NUMPY}
    return SimpleNamespace(**{**ones, **twos, **products, **plain})
