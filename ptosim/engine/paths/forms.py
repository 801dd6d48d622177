"""Forms: how a number of the scalar unit was computed from what nobody knows before the run.

A form is evaluated under an assignment of values to symbols, by the functions that computed the
number itself: it wraps around where they do. Values are never replaced by forms: what a core
computes with are numbers, and forms are beside them (`watch.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ptosim.ground.isa.enums import DType
from ptosim.ground.records import NamedTuple

INDEX, COUNT, ARGUMENT, DATA = "index", "count", "argument", "data"
"""Kinds of symbols: where something runs, how many there are, what the caller gives, what memory
holds."""

DEEPEST = 150
"""Forms that are more deeply nested keep their value of this run."""


class Symbol(NamedTuple):
    """An unknown whole number: its name, kind, the least and largest value, and the value that the
    first run takes. An index is less than the symbol of name `below`."""

    name: str
    kind: str
    low: int
    high: int
    default: int
    below: str = ""


Assignment = Mapping[Symbol, int]


def range_of(dtype: DType) -> tuple[int, int]:
    """Return the least and the largest number of an integer type."""
    if dtype.name == "i1":
        return 0, 1
    bits = min(dtype.bits or 64, 64)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.kind == "int" else (0, 2**bits - 1)


class Env:
    """An assignment under which forms are evaluated. With `is_last` the variable of a loop is that
    of the last round; with `is_inside` a round has to be one that the loop makes; `later` is by how
    many rounds later it is taken."""

    __slots__ = ("assignment", "is_inside", "is_last", "known", "later")

    def __init__(
        self,
        assignment: Assignment,
        *,
        is_last: bool = False,
        is_inside: bool = False,
        later: int = 0,
    ) -> None:
        self.assignment = assignment
        self.later = later
        self.is_last, self.is_inside = is_last, is_inside
        self.known: dict[int, Any] = {}


class NoRound(Exception):
    """Under an assignment a loop makes no round: what is in it does not happen."""


class Form:
    """An expression; `now` is its value in the run that made it. `symbols` are those that it may
    depend on, `own` those that it depends on in the round that it is of: not what says how many
    rounds there are. It `is_of_round` if another round has another value."""

    __slots__ = ("depth", "is_of_round", "now", "own", "symbols")

    def __init__(self, now: Any, parts: Iterable[Any]) -> None:
        forms = [part for part in parts if isinstance(part, Form)]
        self.now = now
        self.symbols: frozenset[Symbol] = frozenset().union(*(form.symbols for form in forms))
        self.own: frozenset[Symbol] = frozenset().union(*(form.own for form in forms))
        self.is_of_round = any(form.is_of_round for form in forms)
        self.depth = 1 + max((form.depth for form in forms), default=0)

    def value(self, env: Env) -> Any:
        """Return the value under an assignment. Raises what computing it raises."""
        if self.depth > DEEPEST:
            return self.now
        known = env.known
        key = id(self)
        if key not in known:
            known[key] = self._value(env)
        return known[key]

    def _value(self, env: Env) -> Any:
        """What nothing more is known of keeps its value of this run."""
        return self.now

    def parts(self) -> Iterator[Any]:
        """The forms and values that it is computed from."""
        yield from ()


class Unknowable(Form):
    """A symbol as a form."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: Symbol, now: int) -> None:
        super().__init__(now, ())
        self.symbol = symbol
        self.symbols = self.own = frozenset((symbol,))

    def _value(self, env: Env) -> Any:
        return env.assignment.get(self.symbol, self.symbol.default)


class Computed(Form):
    """What a function of the scalar unit makes of forms and numbers; `word` says which one it is,
    '' where nothing is said of it (`ops.scalar.numbers.word_of`), `dtype` what it makes."""

    __slots__ = ("dtype", "function", "sources", "word")

    def __init__(
        self,
        now: Any,
        function: Callable[..., Any],
        sources: tuple[Any, ...],
        word: str = "",
        dtype: DType | None = None,
    ) -> None:
        super().__init__(now, sources)
        self.function = function
        self.sources = sources
        self.word, self.dtype = word, dtype

    def _value(self, env: Env) -> Any:
        return self.function(*[value_of(source, env) for source in self.sources])

    def parts(self) -> Iterator[Any]:
        yield from self.sources


class Round(Form):
    """The variable of a loop in one of its rounds."""

    __slots__ = ("lower", "number", "step", "upper")

    def __init__(self, now: Any, lower: Any, upper: Any, step: Any, number: int) -> None:
        super().__init__(now, (lower, upper, step))
        self.is_of_round = True
        self.own = frozenset().union(*(p.own for p in (lower, step) if isinstance(p, Form)))
        self.lower, self.upper, self.step, self.number = lower, upper, step, number

    def after(self, now: Any) -> Round:
        """Return the variable in the next round."""
        return Round(now, self.lower, self.upper, self.step, self.number + 1)

    def _value(self, env: Env) -> Any:
        lower, step = value_of(self.lower, env), value_of(self.step, env)
        if not (env.is_last or env.is_inside):
            return lower + step * (self.number + env.later)
        rounds = -(-(value_of(self.upper, env) - lower) // step) if step > 0 else 0
        if rounds <= self.number:
            raise NoRound
        return lower + step * (rounds - 1 if env.is_last else self.number)

    def parts(self) -> Iterator[Any]:
        yield from (self.lower, self.upper, self.step)


def value_of(given: Any, env: Env) -> Any:
    """Return the value of a form under an assignment; anything else is its own value."""
    return given.value(env) if isinstance(given, Form) else given


def constants_of(form: Form, most: int = 24) -> list[int]:
    """Return the whole numbers that a form is computed with, the first ones found."""
    found: dict[int, None] = {}
    seen: set[int] = set()
    todo: list[Any] = [form]
    while todo and len(found) < most:
        part = todo.pop()
        if isinstance(part, Form) and id(part) not in seen:
            seen.add(id(part))
            todo.extend(part.parts())
        elif isinstance(part, int) and not isinstance(part, bool):
            found[part] = None
    return list(found)
