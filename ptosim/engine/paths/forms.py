"""Forms: how a number of the scalar unit was computed from what nobody knows before the run.

A form is evaluated under an assignment of values to symbols, by the functions that computed the
number itself: it wraps around where they do. Values are never replaced by forms: what a core
computes with are numbers, and forms are beside them (`watch.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter, ne
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

from ptosim.engine.core.bound import Inst
from ptosim.ground.diagnostics.model import Diagnostic, Severity, Sink
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.schema import DType
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.ground.source import Span
from ptosim.machine.affine import NeedsValue
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault, word_of

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
        self._plans: dict[Any, _Plan] | None = None
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
            plan = plans[key] = _Plan((self,), env)
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


class _Plan:
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


# What one following of a program noted: decisions and bounds.


CANNOT = (ArithmeticError, IndexError, NeedsValue, OpFault, ScalarFault, TypeError, ValueError)
"""What evaluating a form may raise where a run under the assignment would not get there."""
_NOT_THERE = (*CANNOT, NoRound)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What the path depends on: the instruction, how often it was reached before, the form that
    decides, and how it decided."""

    inst: Inst
    visit: int
    form: Form
    outcome: Any

    @property
    def key(self) -> tuple[int, int, Any]:
        """The same decision in any run."""
        return self.inst.pc, self.visit, self.outcome

    def holds(self, env: Env) -> bool:
        """True if it turns out the same under an assignment."""
        try:
            return bool(self.form.value(env) == self.outcome)
        except _NOT_THERE:
            return False


class Course:
    """Decisions that are asked together whether they turn out the same."""

    __slots__ = ("_decisions", "_outcomes", "_plan")

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._decisions = decisions
        self._outcomes = [decision.outcome for decision in decisions]
        self._plan: _Plan | None = None

    def wrong(self, assignment: Assignment) -> int:
        """Return how many turn out another way under an assignment."""
        if self._plan is None:
            self._plan = _Plan([d.form for d in self._decisions], Env(assignment))
        try:
            return sum(map(ne, self._plan.values(assignment), self._outcomes))
        except _NOT_THERE:
            env = Env(assignment)
            return sum([not decision.holds(env) for decision in self._decisions])

    def holds(self, assignment: Assignment) -> bool:
        """Return if all turn out the same under an assignment."""
        return not self._decisions or not self.wrong(assignment)


class Limit:
    """A check of an instruction whose operands have forms. `breaks` says what is told with other
    operands, nothing where it holds; `after` is how many decisions its run had made, `others` are
    operands without forms, `guards` what its round decided of the branches that it is in;
    `answers` gives what was told before, by operands."""

    __slots__ = (
        "_plans", "_symbols", "after", "answers", "breaks", "guards", "inst", "operands", "others",
    )  # fmt: skip

    def __init__(
        self,
        inst: Inst,
        operands: Mapping[int, Form],
        breaks: Callable[[Mapping[int, Any]], str],
        after: int = 0,
        others: Mapping[int, Any] = MappingProxyType({}),
        guards: Sequence[Decision] = (),
        answers: Callable[[], Mapping[Any, str]] = dict,
    ) -> None:
        self.inst, self.operands, self.breaks, self.answers = inst, operands, breaks, answers
        self.after, self.others, self.guards = after, others, guards
        self._plans: tuple[Mapping[Any, str], list[tuple[_Plan, _Plan | None]]] | None = None
        self._symbols: frozenset[Symbol] | None = None

    @property
    def symbols(self) -> frozenset[Symbol]:
        """What it depends on."""
        if self._symbols is None:
            self._symbols = frozenset().union(*[f.symbols for f in self.operands.values()])
        return self._symbols

    def is_met(self, assignment: Assignment, *, is_guarded: bool = False) -> bool | None:
        """Return if it holds in the first rounds and in the last ones under an assignment; None if
        the instruction is not reached with one. Where branches leave the last round out, the one
        before is asked; the first is asked whatever they decide, unless it `is_guarded`."""
        told = self.told(assignment, is_guarded=is_guarded)
        return None if told is None else not told

    def told(self, assignment: Assignment, *, is_guarded: bool = False) -> str | None:
        """Return what is told of it under an assignment, nothing where it holds; None if the
        instruction is not reached with one."""
        found: str | None = None
        if self._plans is None:
            self._plans = self.answers(), list(self._planned(assignment))
        answers, plans = self._plans
        for number, (plan, guard) in enumerate(plans):
            is_asked = number or is_guarded
            try:
                if guard is not None and is_asked and not self._is_inside(guard, assignment):
                    continue
                values = (*plan.values(assignment),)
            except _NOT_THERE:
                continue
            try:
                found = answers.get(values)
            except TypeError:  # an operand that has no hash
                found = None
            if found is None:
                found = self.breaks(dict(zip(self.operands, values, strict=True)))
            if found:
                return found
            if guard is not None and number:
                break  # one round at the end is enough
        return found

    def _planned(self, assignment: Assignment) -> Iterator[tuple[_Plan, _Plan | None]]:
        """Yield how its operands are computed in the first round and in the last ones, and what
        branches decide there."""
        forms, guards = tuple(self.operands.values()), [g.form for g in self.guards]
        envs = [Env(assignment, is_inside=True)]
        if any(form.is_of_round for form in forms):
            ends = (0, -1) if guards else (0,)
            envs += [Env(assignment, is_last=True, is_inside=True, later=end) for end in ends]
        for env in envs:
            yield _Plan(forms, env), _Plan(guards, env) if guards else None

    def _is_inside(self, guard: _Plan, assignment: Assignment) -> bool:
        decided = zip(guard.values(assignment), self.guards, strict=True)
        return all(now == each.outcome for now, each in decided)


class Window(NamedTuple):
    """A window of global memory that a transfer uses, on a core: a view, or its form."""

    inst: Inst
    view: Any
    is_write: bool
    core: int

    @property
    def memory(self) -> Any:
        """The buffer that it is of."""
        return (self.view.now if isinstance(self.view, Form) else self.view).memory


class Use(NamedTuple):
    """What an operation on tiles is given, on a core: numbers and handles, or their forms, by slot.
    `reach` says which bytes on chip it reads and writes with other ones."""

    inst: Inst
    core: int
    given: Mapping[int, Any]
    reach: Callable[[Mapping[int, Any]], tuple[Reach, Reach]]

    @property
    def forms(self) -> list[Form]:
        """The forms among what it is given that depend on symbols in their round."""
        return [f for f in self.given.values() if isinstance(f, Form) and f.own]


Reach = list[tuple[str, tuple[Any, ...]]]
"""Bytes of memories on chip, by name, as equally long runs (`machine.effects.strided`)."""


@dataclass(slots=True, eq=False)
class Noted:
    """Of one run: its decisions in their order, its bounds, each once, and the one that it broke.
    `symbols` are those that it met, `computed` the forms that the instructions which were asked
    for made, in their order, `ends` values with which a loop ends that goes on and on, `certain`
    what checks depend on that fail for an index that occurs, by the place of their operation,
    `windows` those of global memory that transfers used in their first rounds, `uses` those of
    memory on chip, where a symbol says how large a tile is."""

    decisions: list[Decision] = field(default_factory=list)
    limits: dict[Any, Limit] = field(default_factory=dict)
    broken: Limit | None = None
    ends: Mapping[Symbol, int] = field(default_factory=dict)
    certain: dict[int, frozenset[Symbol]] = field(default_factory=dict)
    symbols: dict[Symbol, int] = field(default_factory=dict)
    computed: dict[int, list[Form]] = field(default_factory=dict)
    windows: dict[tuple[int, int, int], Window] = field(default_factory=dict)
    uses: dict[tuple[int, int, int], Use] = field(default_factory=dict)

    def release(self) -> None:
        """Let go of what checks can be asked again with: it refers to itself."""
        for held in (self.decisions, self.limits, self.computed, self.uses):
            held.clear()
        self.broken = None

    @property
    def decided_by(self) -> frozenset[Symbol]:
        """The symbols that the path depends on."""
        return frozenset().union(*(d.form.symbols for d in self.decisions))


# What an instruction makes of forms: its meaning, or executing it again on other values, without
# anything being told.


_PROBE = 12_345
"""A number that no operation makes by chance."""


def is_of_buffer(context: Mapping[str, Any] | None) -> bool:
    """True for a finding about the end of a buffer: how large it is, the caller decides; in a run
    it is as large as the views of its arguments reach."""
    return "buffer" in (context or {})


_OTHERS = ("PTO71", "PTO8")
"""Findings that operands do not decide: on bytes without a value, which what was written before
decides, and on what this version does not execute."""


def _is_bound(found: Diagnostic) -> bool:
    return not is_of_buffer(found.context) and not found.code.startswith(_OTHERS)


Replay = Callable[[tuple[int, ...], tuple[Any, ...]], Mapping[int, Any]]
"""Executes an instruction with other values in some slots; gives what it writes, by slot."""


class Made(Form):
    """A handle, or a number, that an instruction makes of forms: it is executed again on others."""

    __slots__ = ("given", "place", "replay", "slot")

    def __init__(
        self,
        now: Any,
        given: Mapping[int, Any],
        slot: int,
        replay: Replay,
        place: tuple[int, int],
    ) -> None:
        """`place` is the instruction's, and the number of the core that executes it again, if one
        does."""
        super().__init__(now, given.values())
        self.given, self.slot, self.replay, self.place = given, slot, replay, place

    def how(self, env: Env) -> tuple[Callable[..., Any], Sequence[Any]]:
        """Executing the instruction again."""
        replay, slot, taken = self.replay, self.slot, tuple(self.given)
        return (
            lambda *values: replay(taken, values)[slot],
            tuple(self.given.values()),
        )

    def parts(self) -> Any:
        yield from self.given.values()

    def likeness(self, of: Callable[[Any], int]) -> tuple[Any, ...]:
        return Made, self.place, self.slot, *self.given, *map(of, self.given.values())


class _Nowhere(Sink):
    """Takes findings of which nobody asks, before they are made."""

    def emit(self, diagnostic: Diagnostic) -> None:
        pass

    def report(self, code: str, message: str, span: Span | None = None, **details: Any) -> None:
        pass


_NOWHERE = _Nowhere()


class Muted:
    """An engine whose findings go nowhere, on the arguments of its launch that were `kept`;
    `told` is the message of the first one about a bound, unless nobody `asks` for it."""

    __slots__ = ("_asks", "_engine", "_kept", "_launch", "_of", "_other", "told")

    def __init__(self, engine: Any, launch: Any, kept: Any, *, asks: bool = True) -> None:
        self._engine, self._asks = engine, asks
        self._launch, self._of = launch, kept
        self._kept: Any = None
        self._other: Any = None
        self.told = ""

    def __enter__(self) -> None:
        engine, launch = self._engine, self._launch
        self._kept = engine.sink, engine.reported
        engine.sink, engine.reported = Sink() if self._asks else _NOWHERE, set()
        if launch.engine is not engine:
            self._other = launch.put_back(self._of)

    def __exit__(self, *_: object) -> None:
        engine = self._engine
        told = engine.sink.diagnostics
        if told:
            bad = (d for d in told if d.severity > Severity.NOTE)
            self.told = next((d.message for d in bad if _is_bound(d)), "")
        engine.sink, engine.reported = self._kept
        if self._other is not None:
            self._launch.put_back(self._other)


def symbol_of(form: Made) -> Form:
    """What tells where a core is as it is, and not computed with it, is the symbol itself."""
    for slot, part in form.given.items():
        others = {**{s: value_of(p, Env({})) for s, p in form.given.items()}, slot: _PROBE}
        is_like_it = isinstance(part, Form) and part.now == form.now
        made = form.replay((*others,), (*others.values(),)) if is_like_it else {}
        if made.get(form.slot) == _PROBE:
            return part
    return form


def meaning_of(inst: Inst) -> tuple[str, DType | None]:
    """The word of what a scalar operation on whole numbers computes, with `u` where it sees them
    without a sign, and the type of its result."""
    if inst.op is None or len(inst.op.results) != 1:
        return "", None
    type_ = inst.op.results[0].type
    if not isinstance(type_, ScalarType) or type_.dtype.is_float:
        return "", None
    word, kind = word_of(inst.op)
    return (word + "u" * (kind == "u") if word else ""), type_.dtype
