"""What one following of a program noted: its decisions, its bounds, the memory that it used, each
with the forms of what they depend on; and what instructions make of forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import ne
from types import MappingProxyType
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.paths.forms import CANNOT, Assignment, Env, Form, NoRound, Plan, Symbol, value_of
from ptosim.ground.diagnostics.model import Diagnostic, Severity, Sink
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.schema import DType
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.ground.source import Span
from ptosim.ops.scalar.numbers import word_of

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
        self._plan: Plan | None = None

    def wrong(self, assignment: Assignment) -> int:
        """Return how many turn out another way under an assignment."""
        if self._plan is None:
            self._plan = Plan([d.form for d in self._decisions], Env(assignment))
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
        self._plans: tuple[Mapping[Any, str], list[tuple[Plan, Plan | None]]] | None = None
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

    def _planned(self, assignment: Assignment) -> Iterator[tuple[Plan, Plan | None]]:
        """Yield how its operands are computed in the first round and in the last ones, and what
        branches decide there."""
        forms, guards = tuple(self.operands.values()), [g.form for g in self.guards]
        envs = [Env(assignment, is_inside=True)]
        if any(form.is_of_round for form in forms):
            ends = (0, -1) if guards else (0,)
            envs += [Env(assignment, is_last=True, is_inside=True, later=end) for end in ends]
        for env in envs:
            yield Plan(forms, env), Plan(guards, env) if guards else None

    def _is_inside(self, guard: Plan, assignment: Assignment) -> bool:
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
