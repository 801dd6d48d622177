"""Numbers and windows that depend on which repetition it is: `layer * 2 + 1`, `cache[layer]`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.ground.whole_numbers import MOST_BITS

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_WINDOW = re.compile(r"\s*([^\[\]\s]+)\s*(?:\[([^\[\]:]*)(:[^\[\]:]*)?\])?\s*")


class ExpressionError(ValueError):
    """An expression cannot be read, or means nothing."""


@dataclass(frozen=True, slots=True)
class Window:
    """A buffer, or rows of it: row `first`, or rows from `first` to before `last`."""

    buffer: str
    first: str | None = None
    last: str | None = None

    def of(self, array: np.ndarray, counters: Mapping[str, int]) -> np.ndarray:
        """Return the part of an array, as a view. Raises ExpressionError for rows that it does not
        have."""
        if self.first is None:
            return array
        rows = len(array) if array.ndim else 0
        first = value_of(self.first, counters) if self.first else 0
        end = first + 1
        if self.last is not None:
            end = value_of(self.last, counters) if self.last else rows
        if not 0 <= first < end <= rows:
            raise ExpressionError(f"rows {first} to {end - 1} are not among the {rows} rows")
        part = array[first:end]
        return part[0] if self.last is None and array.ndim > 1 else part


def window_of(text: str) -> Window:
    """Return the window that a text names: `NAME`, `NAME[ROW]` or `NAME[FIRST:LAST]`."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise ExpressionError("it is no NAME, NAME[ROW] or NAME[FIRST:LAST]")
    name, first, last = found.groups()
    if first is not None and last is None and not first.strip():
        raise ExpressionError("no row is named between the brackets")
    return Window(
        name, first.strip() if first is not None else None, last[1:].strip() if last else last
    )


def value_of(text: str, counters: Mapping[str, int]) -> int:
    """Return the number that an expression of numbers and counters is now: + - * // % and brackets.
    Raises ExpressionError for anything else, and for numbers that no type holds."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ExpressionError(f"`{text}` is no expression") from None
    try:
        return _value(tree, counters)
    except RecursionError:
        raise ExpressionError("it is nested too deeply") from None


def _value(node: ast.expr, counters: Mapping[str, int]) -> int:
    found = _computed(node, counters)
    if found.bit_length() > MOST_BITS:
        raise ExpressionError(f"it has a number of more than {MOST_BITS} bits")
    return found


def _computed(node: ast.expr, counters: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in counters:
            known = ", ".join(counters) or "none"
            raise ExpressionError(f"there is no counter `{node.id}` (counters: {known})")
        return counters[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, counters)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, counters), _value(node.right, counters)
        if right == 0 and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            raise ExpressionError("it divides by 0")
        return _OPERATORS[type(node.op)](left, right)
    raise ExpressionError("it has more than whole numbers, counters, + - * // % and brackets")
