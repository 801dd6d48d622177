"""What a user says of numbers that are not known: `n % 16 == 0`, `0 <= table[*] < 128`.

An assumption is a comparison of whole-number sums over names of arguments, elements of them
(`table[3]`, `table[*]` for each), `block` and `blocks`, joined by `and`, `or`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from ptosim.engine.paths.forms import COUNT, INDEX, Assignment, Symbol
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field

_EVERY = "__every__"
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+|\*)(?::([1-9]\d*))?")
_LIST = re.compile(r"-?\d+(?:,-?\d+)+")
_HELP = "comparisons of names and whole numbers: `n % 16 == 0`, `0 <= table[*] < 128`"
_MOST = 4_000
"""Assignments among which one that meets all assumptions is looked for."""


class _NotKnown(Exception):
    """A name has no value yet."""


def range_of(text: str) -> range | None:
    """Return the whole numbers that `1..8` or `16..4096:16` names, both ends among them; None for
    any other text, and for ranges without an end."""
    found = _RANGE.fullmatch(text)
    if found is None or found[2] == "*":
        return None
    return range(int(found[1]), int(found[2]) + 1, int(found[3] or 1))


def as_assumption(name: str, text: str) -> str | None:
    """Return what `--arg NAME=1..8`, `1..*:16`, or `1,2,4` assumes; None for any other SPEC."""
    found = _RANGE.fullmatch(text)
    if found is not None:
        low, high, step = found.groups()
        parts = [f"{name} >= {low}"]
        parts += [f"{name} <= {high}"] if high != "*" else []
        parts += [f"({name} - {low}) % {step} == 0"] if step else []
        return " and ".join(parts)
    if _LIST.fullmatch(text):
        return " or ".join(f"{name} == {value}" for value in text.split(","))
    return None


def split(args: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Part arguments into values and what ranges among them (`1..8`, Python's `range`) assume."""
    values, assumed = {}, []
    for name, value in args.items():
        if isinstance(value, range):
            value = f"{value.start}..{value[-1] if value else value.start - 1}:{value.step}"
        text = as_assumption(name, value) if isinstance(value, str) else None
        if text is None:
            values[name] = value
        else:
            assumed.append(text)
    return values, assumed


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """One assumption: its text, its tree, the names in it (`table[*]` among them)."""

    text: str
    tree: ast.expr
    names: frozenset[str]
    constants: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Fact:
        """Read an assumption. Raises UsageError for one that is none."""
        plain = re.sub(r"\[\s*\*\s*\]", f"[{_EVERY}]", text.replace("%_", "_")).strip()
        plain = re.sub(r"(?<![\w\])\s])\s*%(?=[A-Za-z_])|^%(?=[A-Za-z_])", "", plain)
        try:
            tree = ast.parse(plain, mode="eval").body
            names = frozenset(_names(tree))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UsageError(f"`{text}` is no assumption", help=_HELP) from None
        if not isinstance(tree, (ast.Compare, ast.BoolOp)) or not names:
            raise UsageError(f"`{text}` compares nothing", help=_HELP)
        numbers = [
            n.value for n in ast.walk(tree)
            if isinstance(n, ast.Constant) and isinstance(n.value, int)
        ]  # fmt: skip
        return cls(text, tree, names, tuple(dict.fromkeys(numbers)))

    def holds(self, values: Mapping[str, int]) -> bool:
        """True if it holds as far as the names in it have values: for every element of them."""
        of_every = [name for name in self.names if name.endswith("[*]")]
        if not of_every:
            return self._holds(values)
        heads = [name[:-2] for name in of_every]
        places = {n[len(h) : n.index("]") + 1] for n in values for h in heads if n.startswith(h)}
        return all(self._holds(_at(values, heads, place)) for place in sorted(places))

    def _holds(self, values: Mapping[str, int]) -> bool:
        try:
            return bool(_value(self.tree, values))
        except (_NotKnown, ZeroDivisionError):
            return True

    def bounds(self) -> Iterator[tuple[str, int | None, int | None]]:
        """The names that it bounds by a constant, with the least and the largest value."""
        if isinstance(self.tree, ast.BoolOp) and isinstance(self.tree.op, ast.Or):
            yield from _of_choices(self.tree)
        for part in _conjuncts(self.tree):
            sides = [part.left, *part.comparators]
            for left, sign, right in zip(sides, part.ops, sides[1:], strict=False):
                yield from _bound(left, type(sign), right)
                turned = _TURNED.get(type(sign))
                if turned is not None:
                    yield from _bound(right, turned, left)

    @property
    def has_gaps(self) -> bool:
        """True if it says of what a number is a multiple, or names its values."""
        is_choice = isinstance(self.tree, ast.BoolOp) and isinstance(self.tree.op, ast.Or)
        return (is_choice and len(self.names) == 1) or any(self.steps())

    def steps(self) -> Iterator[tuple[str, int, int]]:
        """The names that it says a remainder of: the name, the divisor, the remainder."""
        for part in _conjuncts(self.tree):
            match part:
                case ast.Compare(
                    left=ast.BinOp(left=name, op=ast.Mod(), right=ast.Constant(value=int(step))),
                    ops=[ast.Eq()],
                    comparators=[ast.Constant(value=int(rest))],
                ) if step > 0 and 0 <= rest < step:
                    away = 0
                    match name:
                        case ast.BinOp(
                            op=ast.Sub() | ast.Add(), right=ast.Constant(value=int(moved))
                        ):
                            away = moved if isinstance(name.op, ast.Sub) else -moved
                            name = name.left
                    if isinstance(name, (ast.Name, ast.Subscript)):
                        yield _name(name), step, (rest + away) % step


def _of_choices(tree: ast.BoolOp) -> Iterator[tuple[str, int | None, int | None]]:
    """What each of several choices bounds by a constant."""
    every = [
        list(_bound(part.left, type(part.ops[0]), part.comparators[0]))
        for part in tree.values if isinstance(part, ast.Compare) and len(part.ops) == 1
    ]  # fmt: skip
    if len(every) == len(tree.values) and len({b[0] for found in every for b in found}) == 1:
        lows, highs = zip(*[(low, high) for (_, low, high), *_ in every], strict=True)
        are_low, are_high = (all(v is not None for v in ends) for ends in (lows, highs))
        yield every[0][0][0], min(lows) if are_low else None, max(highs) if are_high else None


def _conjuncts(tree: ast.expr) -> Iterator[ast.Compare]:
    if isinstance(tree, ast.Compare):
        yield tree
    elif isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for part in tree.values:
            yield from _conjuncts(part)


def _bound(
    name: ast.expr, sign: type, value: ast.expr
) -> Iterator[tuple[str, int | None, int | None]]:
    if not isinstance(name, (ast.Name, ast.Subscript)):
        return
    try:
        limit = _value(value, {})
    except (_NotKnown, ZeroDivisionError):
        return
    match sign:
        case ast.Lt | ast.LtE:
            yield _name(name), None, limit - (sign is ast.Lt)
        case ast.Gt | ast.GtE:
            yield _name(name), limit + (sign is ast.Gt), None
        case ast.Eq:
            yield _name(name), limit, limit


def _names(tree: ast.expr) -> Iterator[str]:
    match tree:
        case ast.Name() | ast.Subscript():
            yield _name(tree)
        case ast.Constant(value=value) if type(value) is int:
            return
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _names(inner)
        case ast.BinOp(op=op) if type(op) in _OPERATIONS:
            yield from _names(tree.left)
            yield from _names(tree.right)
        case ast.Compare():
            if not all(type(op) in _OPERATIONS for op in tree.ops):
                raise ValueError
            for each in (tree.left, *tree.comparators):
                yield from _names(each)
        case ast.BoolOp():
            for each in tree.values:
                yield from _names(each)
        case _:
            raise ValueError


def _name(tree: ast.expr) -> str:
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        place = tree.slice
        if isinstance(place, ast.Name) and place.id == _EVERY:
            return f"{tree.value.id}[*]"
        if isinstance(place, ast.Constant) and type(place.value) is int:
            return f"{tree.value.id}[{place.value}]"
    raise ValueError


def _value(tree: ast.expr, values: Mapping[str, int]) -> Any:
    match tree:
        case ast.Constant():
            return tree.value
        case ast.UnaryOp():
            return -_value(tree.operand, values)
        case ast.BinOp():
            sides = _value(tree.left, values), _value(tree.right, values)
            return _OPERATIONS[type(tree.op)](*sides)
        case ast.BoolOp():
            found = (_value(each, values) for each in tree.values)
            return all(found) if isinstance(tree.op, ast.And) else any(found)
        case ast.Compare():
            sides = [_value(each, values) for each in (tree.left, *tree.comparators)]
            signs = [_OPERATIONS[type(op)] for op in tree.ops]
            return all(s(a, b) for s, a, b in zip(signs, sides, sides[1:], strict=False))
    name = _name(tree)
    if name not in values:
        raise _NotKnown
    return values[name]


def _at(values: Mapping[str, int], heads: Sequence[str], place: str) -> dict[str, int]:
    """Values with those of one element of arrays in the place of each element."""
    found = dict(values)
    for head in heads:
        if head + place in values:
            found[f"{head}[*]"] = values[head + place]
    return found


@dataclass(slots=True, eq=False)
class Facts:
    """All assumptions of a check. `indices` are arguments that say where something runs, with the
    argument that they are less than."""

    facts: list[Fact] = field(default_factory=list)
    indices: dict[str, str] = field(default_factory=dict)
    _asked: dict[tuple[Symbol, ...], tuple[dict[Symbol, str], dict[tuple[int, ...], bool]]] = field(
        default_factory=dict
    )
    """Of some symbols those that are meant, by their names there, and what was answered."""
    _of_ranges: list[Facts] = field(default_factory=list)
    """Those among them that say neither a remainder nor values, once they are asked for."""

    @classmethod
    def of(cls, texts: Iterable[str], indices: Mapping[str, str] | None = None) -> Facts:
        """Read assumptions. Raises UsageError for what is none."""
        return cls([Fact.of(text) for text in texts], dict(indices or {}))

    @property
    def names(self) -> set[str]:
        """The arguments that they are about."""
        return {name.partition("[")[0] for fact in self.facts for name in fact.names}

    def hold(self, values: Assignment, *, steps: bool = True) -> bool:
        """True if values break none of them; without `steps` none but those that say of what a
        number is a multiple, or name its values."""
        if not self.facts:
            return True
        if not steps:
            if not self._of_ranges:
                kept = [f for f in self.facts if not f.has_gaps]
                self._of_ranges.append(Facts(kept, self.indices))
            return self._of_ranges[0].hold(values)
        symbols = (*values,)
        asked = self._asked.get(symbols)
        if asked is None:
            names = {n for fact in self.facts for n in fact.names}
            meant = [s for s in symbols if any(_is_of(n, s.name) for n in names)]
            asked = self._asked[symbols] = {s: _plain(s.name) for s in meant}, {}
        about, answers = asked
        key = (*[values[symbol] for symbol in about],)
        found = answers.get(key)
        if found is None:
            named = dict(zip(about.values(), key, strict=True))
            found = answers[key] = all(fact.holds(named) for fact in self.facts)
        return found

    def of_symbol(self, symbol: Symbol) -> Symbol:
        """Return a symbol with the range, the first value and the kind that they give it."""
        below = self.indices.get(symbol.name)
        if below is not None:
            symbol = symbol.but(
                kind=INDEX, low=0, high=min(symbol.high, (1 << 16) - 1), default=0, below=below
            )
        if below is None and symbol.name in self.indices.values():
            symbol = symbol.but(kind=COUNT, low=1, default=1)
        if not self.facts:
            return symbol
        low, high = symbol.low, symbol.high
        for fact in self.facts:
            for name, least, most in fact.bounds():
                if _is_of(name, symbol.name):
                    low = low if least is None else max(low, least)
                    high = high if most is None else min(high, most)
        told = [
            (step, rest) for fact in self.facts for name, step, rest in fact.steps()
            if _is_of(name, symbol.name)
        ]  # fmt: skip
        if told:
            step, rest = max(told)
            symbol = symbol.but(step=step, rest=rest)
            low, high = low + (rest - low) % step, high - (high - rest) % step
        if low > high:
            raise UsageError(
                f"no value of `{symbol.name}` meets the assumptions", help=_facts_text(self)
            )
        symbol = symbol.but(low=low, high=high)
        return symbol.but(default=self._first(symbol))

    def _first(self, symbol: Symbol) -> int:
        name = _plain(symbol.name)
        own = [f for f in self.facts if all(_is_of(n, name) for n in f.names)]
        near = [symbol.default, symbol.low, *self.values(symbol)]
        for value in (min(max(v, symbol.low), symbol.high) for v in near):
            if all(fact.holds({name: value}) for fact in own):
                return value
        return min(max(symbol.default, symbol.low), symbol.high)

    def values(self, symbol: Symbol) -> list[int]:
        """Values that may meet what is said of a symbol, small ones first."""
        found = {symbol.low, symbol.low + 1, symbol.high, symbol.default, *range(33)}
        told = [f for f in self.facts if any(_is_of(name, symbol.name) for name in f.names)]
        constants = {c for fact in told for c in fact.constants} | {max(symbol.low, 0)}
        for c in constants:
            found |= {c, c + 1, c - 1, 2 * c, 3 * c, 4 * c, 8 * c}
            if c > 1:  # the first multiples from there on
                found |= {d + -d % c + k for d in constants for k in (0, c)}
                found |= {d + k * c for d in constants for k in (1, 2, 3)}
        inside = [v for v in found if symbol.low <= v <= symbol.high]
        return sorted(inside, key=lambda v: (v < 0, abs(v)))

    def start(self, symbols: Iterable[Symbol]) -> dict[Symbol, int]:
        """Return first values that meet all of them. Raises UsageError if none are found."""
        made = {symbol: symbol.default for symbol in symbols}
        if self.hold(made):
            return made
        moved = sorted((s for s in made if self.values_of(s)), key=lambda s: s.name)
        count = 0
        for several in (1, 2, 3):
            for chosen in _groups(moved, several):
                for values in product(*(self.values(s) for s in chosen)):
                    count += 1
                    tried = {**made, **dict(zip(chosen, values, strict=True))}
                    if self.hold(tried):
                        return tried
                    if count > _MOST:
                        break
        raise UsageError("no values were found that meet all assumptions", help=_facts_text(self))

    def values_of(self, symbol: Symbol) -> bool:
        """True if something is said of a symbol."""
        return any(_is_of(name, symbol.name) for fact in self.facts for name in fact.names)


def _facts_text(facts: Facts) -> str:
    return "; ".join(f"`{fact.text}`" for fact in facts.facts)


def _groups(symbols: Sequence[Symbol], several: int) -> Iterator[tuple[Symbol, ...]]:
    from itertools import combinations

    yield from combinations(symbols, several)


def _plain(name: str) -> str:
    """Without the words on how often a place was written or read."""
    return name[: name.index("]") + 1] if "]" in name else name


def _is_of(name: str, symbol: str) -> bool:
    """True if a name in an assumption means a symbol."""
    plain = _plain(symbol)
    return name == plain or (name.endswith("[*]") and plain.startswith(name[:-2]))
