"""What random kernels compute: names that are visible, numbers, conditions.

What C++ leaves to the compiler does not occur: a call that changes something is never part of a larger
term, so that no order of evaluation decides; divisors are not 0, and shifts are of small numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

INTEGERS = (
    "int8_t", "uint8_t", "int16_t", "uint16_t", "int", "uint32_t", "int64_t", "uint64_t",
    "short", "unsigned char", "unsigned", "long", "long long", "unsigned long", "size_t",
)  # fmt: skip
LARGE = ("16", "31", "64", "100", "255", "1000", "40000", "7u", "5l", "3ull")
DEEPEST = 3
"""How many terms are in each other."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Function:
    """What can be called. `kind` says where: `pure` in any term; `value`, which changes something and
    returns a number, alone on a right side; `void`, and `reference`, which changes its first
    argument, as a statement."""

    name: str
    arity: int
    kind: str


@dataclass(frozen=True)
class Scope:
    """What a statement finds: names that it can read, names that it can change (with their types),
    functions, what returns from the function and what leaves the loop or `switch` around it."""

    reads: list[str]
    places: dict[str, str]
    functions: list[Function] = field(default_factory=list)
    returns: str = "return;"
    exits: tuple[str, ...] = ()
    depth: int = 0
    has_memory: bool = False

    def inner(self, exits: tuple[str, ...] | None = None) -> Scope:
        """Return the scope of a block in this one; of a loop or `switch` with its exits."""
        return replace(
            self, reads=[*self.reads], places={**self.places}, functions=[*self.functions],
            exits=self.exits if exits is None else exits, depth=self.depth + 1,
        )  # fmt: skip

    def declare(self, name: str, kind: str, *, is_place: bool = True) -> None:
        """Make a variable visible."""
        self.reads.append(name)
        if is_place:
            self.places[name] = kind

    def of_kind(self, *kinds: str) -> list[Function]:
        """Return the functions of some kinds."""
        return [f for f in self.functions if f.kind in kinds]


class Draw:
    """The choices of one seed, the names that are given, and the statements that are left."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.left = self.number(6, 22)
        self._named = 0

    def name(self, stem: str) -> str:
        """Return a new name."""
        self._named += 1
        return f"{stem}{self._named}"

    def number(self, least: int, most: int) -> int:
        """Return a number, both ends among them."""
        return self.random.randint(least, most)

    def chance(self, share: float) -> bool:
        """True in a share of all cases."""
        return self.random.random() < share

    def among(self, *choices: _T) -> _T:
        """Return one of some things."""
        return self.random.choice(choices)

    def weighted(self, choices: Mapping[_T, float]) -> _T:
        """Return one of some things by their weights."""
        return self.random.choices([*choices], [*choices.values()])[0]


def atom(draw: Draw, scope: Scope) -> str:
    """Return a variable, an element of memory or a literal."""
    share = draw.random.random()
    if share < 0.62 and scope.reads:
        return draw.among(*scope.reads)
    if share < 0.67 and scope.has_memory:
        return element(draw, scope, 2)
    return str(draw.number(-3, 9)) if draw.chance(0.85) else draw.among(*LARGE)


def element(draw: Draw, scope: Scope, depth: int = 1) -> str:
    """Return an element of `out` that is no result."""
    return f"out[3 + ({expression(draw, scope, depth)} & 3)]"


def expression(draw: Draw, scope: Scope, depth: int = 0) -> str:
    """Return a number of any integer type."""
    if depth >= DEEPEST or draw.chance(0.35):
        return atom(draw, scope)
    return draw.weighted(_TERMS)(draw, scope, depth + 1)


def condition(draw: Draw, scope: Scope, depth: int = 0) -> str:
    """Return a condition; with `&&` and `||` it may leave out its second half."""
    share = draw.random.random()
    if depth < 2 and share < 0.2:
        sign = draw.among("&&", "||")
        return f"({condition(draw, scope, depth + 1)} {sign} {condition(draw, scope, depth + 1)})"
    if depth < 2 and share < 0.25:
        return f"!({condition(draw, scope, depth + 1)})"
    sign = draw.among("<", "<=", ">", ">=", "==", "!=")
    return f"{expression(draw, scope, depth + 1)} {sign} {expression(draw, scope, depth + 1)}"


def call(draw: Draw, scope: Scope, function: Function, depth: int = 1) -> str:
    """Return a call with numbers as arguments."""
    given = (expression(draw, scope, depth) for _ in range(function.arity))
    return f"{function.name}({', '.join(given)})"


def _sum(draw: Draw, scope: Scope, depth: int) -> str:
    sign = draw.among("+", "-", "*", "+", "-", "&", "|", "^")
    return f"({expression(draw, scope, depth)} {sign} {expression(draw, scope, depth)})"


def _quotient(draw: Draw, scope: Scope, depth: int) -> str:
    divisor = str(draw.number(1, 7))
    if draw.chance(0.3):
        divisor = f"(({expression(draw, scope, depth)} & 7) + 1)"
    return f"({expression(draw, scope, depth)} {draw.among('/', '%')} {divisor})"


def _shift(draw: Draw, scope: Scope, depth: int) -> str:
    if draw.chance(0.3):  # of a negative number to the right: arithmetic, by every compiler
        return f"({expression(draw, scope, depth)} >> {draw.number(0, 4)})"
    sign = draw.among("<<", ">>")
    return f"((({expression(draw, scope, depth)}) & 1023) {sign} {draw.number(0, 4)})"


def _selection(draw: Draw, scope: Scope, depth: int) -> str:
    chosen = (expression(draw, scope, depth), expression(draw, scope, depth))
    return f"({condition(draw, scope, depth)} ? {chosen[0]} : {chosen[1]})"


def _called(draw: Draw, scope: Scope, depth: int) -> str:
    pure = scope.of_kind("pure")
    return call(draw, scope, draw.among(*pure), depth) if pure else atom(draw, scope)


def _extremum(draw: Draw, scope: Scope, depth: int) -> str:
    kind = draw.among("int", "int", "uint32_t", "int64_t", "uint8_t", "int16_t")
    given = f"{expression(draw, scope, depth)}, {expression(draw, scope, depth)}"
    return f"std::{draw.among('min', 'max')}<{kind}>({given})"


def _converted(draw: Draw, scope: Scope, depth: int) -> str:
    kind, of = draw.among(*INTEGERS, "bool"), expression(draw, scope, depth)
    return draw.among(f"({kind})({of})", f"static_cast<{kind}>({of})")


def _one_sided(draw: Draw, scope: Scope, depth: int) -> str:
    return f"{draw.among('-', '~')}({expression(draw, scope, depth)})"


def _truth(draw: Draw, scope: Scope, depth: int) -> str:
    return f"({condition(draw, scope, depth)})"


_TERMS: dict[Callable[[Draw, Scope, int], str], float] = {
    _sum: 9, _quotient: 2, _shift: 2, _selection: 2, _called: 2, _extremum: 1, _converted: 2,
    _one_sided: 0.7, _truth: 0.5,
}  # fmt: skip
