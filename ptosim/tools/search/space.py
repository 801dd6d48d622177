"""A space of parameters: the values of each, and the conditions that say which points are worth
trying. The points are in the order of the parameters, the last one changing fastest."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.launch.description import TABLE, TEXTS, Check, TableReader, read_description

# -- conditions ------------------------------------------------------------------------------------

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


# --------------------------------------------------------------------------------------------------

Params = dict[str, Any]
"""One point: a value of each parameter."""
MOST_VALUES = 100_000
"""Of one parameter."""
MOST_POINTS = 10_000_000
"""That a sweep goes through, those among them that conditions refuse."""
CONDITIONS = "conditions"
"""The key of a space, in a file or a mapping, that is no parameter."""
_RANGE = ("from", "to", "step", "times")
SPACE_KEYS: dict[str, Check] = {"parameters": TABLE, CONDITIONS: TEXTS}


@dataclass(frozen=True, slots=True)
class Space:
    """Parameters with their values, and conditions over them."""

    values: Mapping[str, tuple[Any, ...]]
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if not name.isidentifier() or name == CONDITIONS:
                raise UsageError(f"PTO7600: `{name}` is no name of a parameter")
            if not values:
                raise UsageError(f"PTO7602: the parameter `{name}` has no values")
        if not self.values:
            raise UsageError("PTO7602: the space has no parameters", help="TM = [16, 32, 64]")
        for text in self.conditions:
            unknown = sorted(names_in(text) - self.values.keys())
            if unknown:
                raise UsageError(
                    f"PTO7601: the condition `{text}` names {unknown[0]}, which is no parameter",
                    help=f"parameters: {', '.join(self.values)}",
                )

    @property
    def size(self) -> int:
        """How many points there are, with those that conditions refuse."""
        return math.prod(map(len, self.values.values()))

    def points(self) -> Iterator[Params]:
        """Yield every point, also those that conditions refuse. Raises UsageError for more than
        `MOST_POINTS`."""
        if self.size > MOST_POINTS:
            raise UsageError(
                f"PTO7602: the space has {self.size:,} points; at most {MOST_POINTS:,} are tried",
                help="`ptosim tune` searches instead of trying all of them",
            )
        for point in product(*self.values.values()):
            yield dict(zip(self.values, point, strict=True))

    def refusal(self, params: Mapping[str, Any]) -> str:
        """Return the first condition that a point does not meet, '' if it meets all."""
        return next((c for c in self.conditions if not evaluate(c, params)), "")

    def accepted(self) -> Iterator[Params]:
        """Yield the points that meet the conditions. Raises UsageError as `points`."""
        return (point for point in self.points() if not self.refusal(point))


def space_of(given: Space | Mapping[str, Any] | str | Path) -> Space:
    """Return a space: itself, that of a TOML file, or one of a mapping from names to values: a
    list, a `range`, a table (`{"from": 16, "to": 256, "times": 2}`), one value; under `conditions`
    texts. Raises UsageError (PTO7600, PTO7601, PTO7602), DescriptionError for a file."""
    if isinstance(given, Space):
        return given
    if isinstance(given, (str, Path)):
        return read_space(Path(given))
    conditions = given.get(CONDITIONS, ())
    texts = (conditions,) if isinstance(conditions, str) else tuple(conditions)
    if not all(isinstance(text, str) for text in texts):
        raise UsageError("PTO7600: `conditions` are texts", help='["TM * TN * 4 <= 65536"]')
    return Space({n: values_of(n, v) for n, v in given.items() if n != CONDITIONS}, texts)


def read_space(path: Path) -> Space:
    """Return the space of a TOML file: `[parameters]`, and `conditions` before it; what the file
    says about launches is left to `read_recipe`. Raises UsageError, and DescriptionError for a
    file that is no TOML."""
    source, content = read_description(path)
    reader = TableReader(source)
    known = {name: content[name] for name in SPACE_KEYS if name in content}
    table = reader.table((), known, SPACE_KEYS, "a space", ("parameters",))
    reader.refuse_faults()
    return space_in(table)


def space_in(table: Mapping[str, Any]) -> Space:
    """Return the space of a table that was read with `SPACE_KEYS`."""
    values = {n: values_of(n, v) for n, v in table["parameters"].items()}
    return Space(values, tuple(table.get(CONDITIONS, ())))


def values_of(name: str, given: Any) -> tuple[Any, ...]:
    """Return the values of a parameter, each once, in the order given. Raises UsageError (PTO7600)
    for what are none."""
    if isinstance(given, Mapping):
        given = _range(name, given)
    elif isinstance(given, (str, int, float)):
        given = (given,)
    if not isinstance(given, Iterable):
        raise UsageError(f"PTO7600: `{name}` is {given!r}; it should be a list of values")
    found: dict[tuple[type, Any], Any] = {}
    for value in given:
        if hasattr(value, "item"):
            value = value.item()  # a NumPy scalar
        if not isinstance(value, (str, int, float)) or value != value:
            raise UsageError(f"PTO7600: `{name}` has the value {value!r}, no number or text")
        found[type(value), value] = value
        if len(found) > MOST_VALUES:
            raise UsageError(f"PTO7600: `{name}` has more than {MOST_VALUES:,} values")
    return tuple(found.values())


def _range(name: str, given: Mapping[str, Any]) -> Iterator[Any]:
    """The values of `{from = 16, to = 256, times = 2}`, or with `step`, both ends included."""
    help = "{ from = 16, to = 256, step = 16 }, or for powers of two { …, times = 2 }"
    numbers = all(type(v) in (int, float) and abs(v) < 2**63 for v in given.values())
    if given.keys() - set(_RANGE) or not {"from", "to"} <= given.keys() or not numbers:
        raise UsageError(f"PTO7600: `{name}` is no range", help=help)
    if {"step", "times"} <= given.keys():
        raise UsageError(f"PTO7600: `{name}` has both a step and a factor", help=help)
    at, last = given["from"], given["to"]
    step, factor = given.get("step", 0 if "times" in given else 1), given.get("times", 1)
    stays = at + step == at and at * factor == at  # a step below the spacing of floats
    if (not step and (factor <= 1 or at <= 0)) or step < 0 or (stays and at < last):
        raise UsageError(f"PTO7600: the range of `{name}` does not grow", help=help)
    return _grown(at, last, step, factor)


def _grown(at: Any, last: Any, step: Any, factor: Any) -> Iterator[Any]:
    first, count = at, 0
    while at <= last:
        yield at
        count += 1
        at = first + count * step if step else at * factor
