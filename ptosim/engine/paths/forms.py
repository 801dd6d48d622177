"""Forms: how a number of the scalar unit was computed from what nobody knows before the run.

A form is evaluated under an assignment of values to symbols, by the functions that computed the
number itself: it wraps around where they do. Values are never replaced by forms: what a core
computes with are numbers, and forms are beside them (`watch.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter, ne
from typing import Any
from weakref import WeakValueDictionary

from ptosim.ground.isa.schema import DType
from ptosim.machine.affine import NeedsValue
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault

INDEX, COUNT, ARGUMENT, DATA = "index", "count", "argument", "data"
"""Kinds of symbols: where something runs, how many there are, what the caller gives, what memory
holds."""

DEEPEST = 150
"""Forms that are more deeply nested keep their value of this run."""


class Symbol:
    """An unknown whole number: its name, kind, the least and largest value, and the value that the
    first run takes. An index is less than the symbol of name `below`. It is assumed to be `rest`
    more than a multiple of `step`. Equal ones are one object: assignments look them up all the
    time."""

    __slots__ = ("__weakref__", *(_FIELDS := (
        "name", "kind", "low", "high", "default", "below", "step", "rest"
    )))  # fmt: skip
    name: str
    kind: str
    low: int
    high: int
    default: int
    below: str
    step: int
    rest: int

    def __new__(  # noqa: PYI034
        cls,
        name: str,
        kind: str,
        low: int,
        high: int,
        default: int,
        below: str = "",
        step: int = 1,
        rest: int = 0,
    ) -> Symbol:
        fields = name, kind, low, high, default, below, step, rest
        known = _SYMBOLS.get(fields)
        if known is not None:
            return known
        made = super().__new__(cls)
        for field_, value in zip(cls._FIELDS, fields, strict=True):
            setattr(made, field_, value)
        return _SYMBOLS.setdefault(fields, made)

    def but(self, **changes: Any) -> Symbol:
        """Return another one, with some fields changed."""
        return Symbol(**{name: getattr(self, name) for name in self._FIELDS} | changes)

    def __repr__(self) -> str:
        return f"Symbol({', '.join(repr(getattr(self, name)) for name in self._FIELDS)})"


_SYMBOLS: WeakValueDictionary[tuple[Any, ...], Symbol] = WeakValueDictionary()
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
    many rounds later it is taken (below 0: before the last one)."""

    __slots__ = ("assignment", "is_inside", "is_last", "later")

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


class NoRound(Exception):
    """Under an assignment a loop makes no round: what is in it does not happen."""


class Form:
    """An expression; `now` is its value in the run that made it. `symbols` are those that it may
    depend on, `own` those that it depends on in the round that it is of: not what says how many
    rounds there are. It `is_of_round` if another round has another value."""

    __slots__ = ("_plans", "depth", "is_of_round", "now", "own", "symbols")

    def __init__(self, now: Any, parts: Iterable[Any]) -> None:
        forms = [part for part in parts if isinstance(part, Form)]
        self.now = now
        self._plans: dict[Any, Plan] | None = None
        if len(forms) == 1:
            (form,) = forms
            self.symbols: frozenset[Symbol] = form.symbols
            self.own: frozenset[Symbol] = form.own
            self.is_of_round, self.depth = form.is_of_round, form.depth + 1
            return
        self.symbols = frozenset().union(*[form.symbols for form in forms])
        self.own = frozenset().union(*[form.own for form in forms])
        self.is_of_round = any(form.is_of_round for form in forms)
        self.depth = 1 + max([form.depth for form in forms], default=0)

    def value(self, env: Env) -> Any:
        """Return the value under an assignment. Raises what computing it raises."""
        plans, key = self._plans, (env.is_last, env.is_inside, env.later)
        if plans is None:
            plans = self._plans = {}
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = Plan((self,), env)
        (made,) = plan.values(env.assignment)
        return made

    def how(self, env: Env) -> tuple[Callable[..., Any], Sequence[Any]] | None:
        """Return the function that computes it, and of what, whatever the assignment; None for a
        symbol, and where nothing more is known: that keeps its value of this run."""
        return None

    def parts(self) -> Iterator[Any]:
        """The forms and values that it is computed from."""
        yield from ()

    def likeness(self, of: Callable[[Any], int]) -> tuple[Any, ...]:
        """Return what two forms have in common that compute the same; `of` numbers their parts."""
        return (id(self),)


class Unknowable(Form):
    """A symbol as a form."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: Symbol, now: int) -> None:
        super().__init__(now, ())
        self.symbol = symbol
        self.symbols = self.own = frozenset((symbol,))

    def likeness(self, of: Callable[[Any], int]) -> tuple[Any, ...]:
        return Unknowable, self.symbol


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

    def how(self, env: Env) -> tuple[Callable[..., Any], Sequence[Any]]:
        """Its function, of its sources."""
        return self.function, self.sources

    def parts(self) -> Iterator[Any]:
        yield from self.sources

    def likeness(self, of: Callable[[Any], int]) -> tuple[Any, ...]:
        return Computed, self.function, *map(of, self.sources)


class Round(Form):
    """The variable of a loop in one of its rounds: it begins with `first` and gains `gain` in each,
    as a value does that is carried from round to round (`Carried`)."""

    __slots__ = ("lower", "number", "step", "upper")

    @property
    def first(self) -> Any:
        """What it is in the first round."""
        return self.lower

    @property
    def gain(self) -> Any:
        """What each round adds."""
        return self.step

    def __init__(self, now: Any, lower: Any, upper: Any, step: Any, number: int) -> None:
        super().__init__(now, (lower, upper, step))
        self.is_of_round = True
        self.own = frozenset().union(*(p.own for p in (lower, step) if isinstance(p, Form)))
        self.lower, self.upper, self.step, self.number = lower, upper, step, number

    def after(self, now: Any) -> Round:
        """Return the variable in the next round."""
        return Round(now, self.lower, self.upper, self.step, self.number + 1)

    def how(self, env: Env) -> tuple[Callable[..., Any], Sequence[Any]]:
        """The bounds of the loop, and the round."""
        number, is_last, later = self.number, env.is_last, env.later
        if not (is_last or env.is_inside):
            at = number + later
            return (lambda first, gain: first + gain * at), (self.first, self.gain)

        def inside(first: Any, gain: Any, lower: Any, step: Any, upper: Any) -> Any:
            rounds = rounds_of(lower, upper, step)
            if rounds <= number or rounds + later < 1:
                raise NoRound
            return first + gain * (rounds - 1 + later if is_last else number)

        return inside, (self.first, self.gain, self.lower, self.step, self.upper)

    def parts(self) -> Iterator[Any]:
        yield from (self.lower, self.upper, self.step)

    def likeness(self, of: Callable[[Any], int]) -> tuple[Any, ...]:
        return Round, self.number, *map(of, self.parts())

    def at_the_end(self, now: Any) -> Form:
        """Return what it is when the loop is over."""
        parts = self.first, self.gain, self.lower, self.step, self.upper
        return Computed(now, _after_rounds, parts)


class Carried(Round):
    """A value that a loop carries from round to round, and adds the same to in each."""

    __slots__ = ("begin", "more")

    def __init__(self, now: Any, begin: Any, more: Any, of: Round) -> None:
        super().__init__(now, of.lower, of.upper, of.step, of.number)
        own = [part for part in (begin, more) if isinstance(part, Form)]
        self.own = frozenset().union(*(part.own for part in own))
        self.symbols |= frozenset().union(*(part.symbols for part in own))
        self.depth = max([self.depth, *(1 + part.depth for part in own)])
        self.begin, self.more = begin, more

    @property
    def first(self) -> Any:
        return self.begin

    @property
    def gain(self) -> Any:
        return self.more

    def after(self, now: Any) -> Round:
        return Carried(now, self.begin, self.more, super().after(now))

    def parts(self) -> Iterator[Any]:
        yield from (self.begin, self.more, *super().parts())


def rounds_of(lower: int, upper: int, step: int) -> int:
    """Return how many rounds a loop makes."""
    return -((lower - upper) // step) if step > 0 and upper > lower else 0


def _after_rounds(first: int, gain: int, lower: int, step: int, upper: int) -> int:
    return first + gain * rounds_of(lower, upper, step)


class Plan:
    """The steps that compute forms, in their order: what they have in common once. Assignments that
    follow one another differ in one symbol or two: what does not depend on these keeps its value of
    the last one."""

    __slots__ = ("_given", "_known", "_made", "_some", "_steps", "_taken", "_values")

    def __init__(self, forms: Sequence[Form], env: Env) -> None:
        given = list(frozenset().union(*[form.symbols for form in forms]))
        at = {symbol: place for place, symbol in enumerate(given)}
        self._given = given
        self._taken = itemgetter(*given) if len(given) > 1 else _first_of(given)
        self._values: list[Any] = [symbol.default for symbol in given]
        self._steps: list[_Step] = []
        self._known: tuple[int, ...] | None = None
        self._some: dict[tuple[bool, ...], list[_Step]] = {}
        depends: dict[int, int] = {}  # by place, a bit for each symbol
        places: dict[int, int] = {}
        todo = list(forms)
        while todo:
            each = todo[-1]
            how = each.how(env) if each.depth <= DEEPEST else None
            parts = how[1] if how is not None else ()
            missing = [p for p in parts if isinstance(p, Form) and id(p) not in places]
            if missing and id(each) not in places:
                todo += missing
                continue
            todo.pop()
            if id(each) in places:
                continue
            if isinstance(each, Unknowable):
                place = places[id(each)] = at[each.symbol]
                depends[place] = 1 << place
                continue
            sources = [places[id(p)] if isinstance(p, Form) else self._place(p) for p in parts]
            place = places[id(each)] = self._place(each.now)
            if how is not None:
                bits = 0
                for source in sources:
                    bits |= depends.get(source, 0)
                self._steps.append((place, how[0], *_sources(sources), bits))
                depends[place] = bits
        self._made = _taking([places[id(form)] for form in forms])

    def _place(self, value: Any) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def values(self, assignment: Assignment) -> Sequence[Any]:
        """Return the values under an assignment. Raises what computing one raises."""
        try:
            now = self._taken(assignment)
        except KeyError:
            get = assignment.get
            now = (*[get(symbol, symbol.default) for symbol in self._given],)
        known, values, steps = self._known, self._values, self._steps
        if now == known:
            return self._made(values)
        if known is not None:
            moved = (*map(ne, now, known),)
            some = self._some.get(moved)
            if some is None:
                bits = sum([1 << n for n, is_moved in enumerate(moved) if is_moved])
                some = self._some[moved] = [step for step in steps if step[-1] & bits]
            steps = some
        self._known = None
        values[: len(now)] = now
        for place, function, one, other, take, _ in steps:
            if take is None:
                values[place] = function(values[one], values[other])
            elif other == _ALONE:
                values[place] = function(values[one])
            else:
                values[place] = function(*take(values))
        self._known = now
        return self._made(values)


def _first_of(given: Sequence[Symbol]) -> Callable[[Assignment], tuple[int, ...]]:
    if not given:
        return lambda assignment: ()
    (only,) = given
    return lambda assignment: (assignment[only],)


_ALONE = -1
_Step = tuple[
    int, Callable[..., Any], int, int, Callable[[list[Any]], Sequence[Any]] | None, int
]  # fmt: skip
"""Where a value goes, what computes it, of what (of two values their places, of one its own and
`_ALONE`, else what takes them), and a bit for each symbol that it depends on."""


def _sources(
    places: Sequence[int],
) -> tuple[int, int, Callable[[list[Any]], Sequence[Any]] | None]:
    if len(places) == 2:
        return places[0], places[1], None
    return (places[0], _ALONE, _taking(places)) if len(places) == 1 else (0, 0, _taking(places))


def _taking(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Return what takes some values from among all."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))


def value_of(given: Any, env: Env) -> Any:
    """Return the value of a form under an assignment; anything else is its own value."""
    return given.value(env) if isinstance(given, Form) else given


class Likeness:
    """Tells which forms compute the same whatever is assumed: they have the same number. Without
    `rounds` those of other rounds of a loop are alike, too."""

    def __init__(self, *, rounds: bool = True) -> None:
        self._has_rounds = rounds
        self._numbers: dict[Any, int] = {}
        self._known: dict[
            int, tuple[Any, int]
        ] = {}  # with the form, so that no other one gets its id

    def of(self, part: Any) -> int:
        """Return the number of a form, or of a value."""
        if isinstance(part, Form):
            known = self._known.get(id(part))
            if known is None:
                same = part.likeness(self.of) if part.depth <= DEEPEST else (id(part),)
                if part.__class__ is Round and not self._has_rounds:
                    same = Round, *same[2:]
                known = self._known[id(part)] = part, self._number(same)
            return known[1]
        return self._number((part.__class__, part))

    def _number(self, same: tuple[Any, ...]) -> int:
        try:
            return self._numbers.setdefault(same, len(self._numbers))
        except TypeError:  # has no hash: like nothing else
            return self._number((id(same),))


def parts_of(*roots: Any) -> Iterator[Any]:
    """Yield forms and all that they are computed from: each form once."""
    seen: set[int] = set()
    todo: list[Any] = list(roots)
    while todo:
        part = todo.pop()
        if isinstance(part, Form):
            if id(part) in seen:
                continue
            seen.add(id(part))
            todo.extend(part.parts())
        yield part


def constants_of(form: Form, most: int = 24) -> list[int]:
    """Return the whole numbers that a form is computed with, the first ones found."""
    numbers = (p for p in parts_of(form) if isinstance(p, int) and not isinstance(p, bool))
    found: dict[int, None] = {}
    while len(found) < most and (number := next(numbers, None)) is not None:
        found[number] = None
    return list(found)


CANNOT = (ArithmeticError, IndexError, NeedsValue, OpFault, ScalarFault, TypeError, ValueError)
"""What evaluating a form may raise where a run under the assignment would not get there."""
