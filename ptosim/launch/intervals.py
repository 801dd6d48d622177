"""Between which numbers a value of a program lies, for every block and round at once: followed
through the text to constants, arguments, the number of the block and counters of loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.language.toolchains import BLOCK, told_by

Range = tuple[Any, Any]
"""The least and the greatest number that a value may be: whole numbers, or arrays of them."""


class Numbers:
    """Follows numbers to constants, arguments and counters; `pinned` are values that are known one
    by one, as arrays."""

    def __init__(
        self, value_of: Callable[[Value], Any], blocks: int, functions: Iterable[Any]
    ) -> None:
        self.value_of = value_of
        self.blocks = blocks
        self.arguments: set[Value] = set()
        self.counters: dict[Value, Operation] = {}
        for function in functions:
            self.arguments.update(function.args)
            for op in function.ops:
                if op.has("counted") and op.regions[0].blocks[0].values:
                    self.counters[op.regions[0].blocks[0].values[0]] = op
        self.pinned: dict[Any, Range] = {}
        self.known: dict[Value, Range | None] = {}
        self.deciding: dict[Value, frozenset[Any]] = {}

    def pin(self, values: Mapping[Any, Range]) -> None:
        """Take some values as known from now on."""
        self.pinned, self.known = dict(values), {}

    def of(self, value: Value | None, const: Any = None) -> Range | None:
        """Return the range of a value; None if it depends on more than is followed."""
        if value is None or value.const is not None:
            const = const if value is None else value.const
            is_number = isinstance(const, int) and not isinstance(const, bool)
            return (const, const) if is_number else None
        if value in self.pinned:
            return self.pinned[value]
        if value not in self.known:
            self.known[value] = None  # a value that follows from itself is not followed
            self.known[value] = self._of(value)
        return self.known[value]

    def operand(self, operand: Any) -> Range | None:
        """Return the range of an operand of the text."""
        if not isinstance(operand, Operand):
            return None
        return self.of(operand.value, operand.const)

    def hangs_on(self, operand: Any) -> frozenset[Any]:
        """Return what of a launch decides an operand: `BLOCK`, and counters of loops."""
        value = operand.value if isinstance(operand, Operand) else None
        return self._deciding(value) if value is not None else frozenset()

    def _deciding(self, value: Value) -> frozenset[Any]:
        if value not in self.deciding:
            self.deciding[value] = frozenset()  # a value that follows from itself is not followed
            op, found = value.owner, frozenset[Any]()
            if told_by(value) == BLOCK or (op is not None and op.name.endswith("get_block_idx")):
                found = frozenset({BLOCK})
            elif value in self.counters:
                loop = self.counters[value]
                bounds = [loop.bound.get(n) for n in ("lower", "upper", "step")]
                found = frozenset({value}).union(*map(self.hangs_on, bounds))
            elif op is not None and not op.regions and value not in self.arguments:
                found = found.union(*(self.hangs_on(o) for _, o in op.operands()))
            self.deciding[value] = found
        return self.deciding[value]

    def _of(self, value: Value) -> Range | None:
        op = value.owner
        if told_by(value) == BLOCK:
            return self.pinned.get(BLOCK, (0, self.blocks - 1))
        if value in self.arguments:
            found = self.value_of(value)
            return (found, found) if found.__class__ is int else None
        if value in self.counters:
            return self._counter(self.counters[value])
        if op is None or op.regions:
            return None
        if op.has("tells_core"):
            return self._declared_range(op, value)
        rule = _RULES.get(op.name.rpartition(".")[2])
        if rule is None or op.name.partition(".")[0] not in ("arith", "index", "affine"):
            return None
        ranges = [self.operand(o) for _, o in op.operands()]
        if not ranges or any(r is None for r in ranges):
            return None
        return rule(*ranges)

    def _declared_range(self, op: Operation, value: Value) -> Range | None:
        word = op.name.rpartition(".")[2]
        if word == "get_block_idx":
            return self.pinned.get(BLOCK, (0, self.blocks - 1))
        found = self.value_of(value)
        if word == "get_subblock_idx":
            return (0, 1)
        return (found, found) if found.__class__ is int else None

    def _counter(self, op: Operation) -> Range | None:
        lower, upper, step = (self.operand(op.bound.get(n)) for n in ("lower", "upper", "step"))
        if lower is None or upper is None or step is None:
            return None
        last = upper[1] - 1
        if is_one(lower) and is_one(step) and np.all(step[0] > 0):
            last = lower[0] + (last - lower[0]) // step[0] * step[0]
        return lower[0], np.maximum(last, lower[0])


def is_one(r: Range) -> bool:
    return bool(np.all(r[0] == r[1]))


def _corners(word: Callable[[Any, Any], Any]) -> Callable[[Range, Range], Range]:
    def found(a: Range, b: Range) -> Range:
        all_ = [word(x, y) for x in a for y in b]
        low, high = all_[0], all_[0]
        for each in all_[1:]:
            low, high = np.minimum(low, each), np.maximum(high, each)
        return low, high

    return found


def _divided(a: Range, b: Range, up: int = 0) -> Range | None:
    if np.any(b[0] <= 0) or np.any(a[0] < 0):
        return None
    if up:
        return _corners(lambda x, y: -(-x // y))(a, b)
    return _corners(lambda x, y: x // y)(a, b)


def _rest(a: Range, b: Range) -> Range | None:
    if np.any(b[0] <= 0) or np.any(a[0] < 0):
        return None
    same = (a[0] // b[0] == a[1] // b[0]) & (b[0] == b[1])
    return np.where(same, a[0] % b[0], 0), np.where(same, a[1] % b[0], np.minimum(a[1], b[1] - 1))


def _chosen(_: Range, a: Range, b: Range) -> Range:
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def _same(a: Range, *_: Range) -> Range:
    return a


_RULES: dict[str, Callable[..., Range | None]] = {
    "addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "muli": _corners(lambda x, y: x * y),
    "minsi": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "maxsi": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    "divui": _divided, "remui": _rest,
    "ceildivui": lambda a, b: _divided(a, b, 1),
    "select": _chosen, "index_cast": _same, "index_castui": _same, "extsi": _same, "extui": _same,
    "trunci": _same,
}  # fmt: skip
for _word, _like in {
    "divsi": "divui", "floordivsi": "divui", "remsi": "remui", "ceildivsi": "ceildivui",
    "minui": "minsi", "maxui": "maxsi", "add": "addi", "sub": "subi", "mul": "muli",
    "divu": "divui", "divs": "divui", "remu": "remui", "rems": "remui", "casts": "index_cast",
    "castu": "index_cast",
}.items():  # fmt: skip
    _RULES[_word] = _RULES[_like]
