"""What the scalar unit makes of a program for every value of an open scalar, and where it repeats.

No operation on data is executed: those that are issued are noted, with their operands, for all
values at once as long as they are the same, and for each value from where it parts. A loop repeats
from a round on where each period of rounds issues what the one before it did, with every place in
global memory moved by a distance of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.paths.flow import sources_of, targets_of
from ptosim.engine.period.state import heads_of
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.records import dataclass, field
from ptosim.machine.core import Core
from ptosim.machine.values import GmView, Pointer
from ptosim.tools.search.prove_ops import exact, is_handle
from ptosim.tools.search.prove_values import FAULTS, Valued, walks

_LEAST_ROUNDS = 12
_LONGEST, _SOONEST = 8, 8
"""Rounds of the longest period, and after which a loop repeats at the latest."""
_MOST = 6_000_000
"""Instructions of the scalar unit, for all values together."""
_BETWEEN = tuple(
    f"pto.{word}" for word in ("syncall", "sync.", "tsync", "set_ffts", "set_cross", "wait_cross")
)
"""How the names of what orders blocks begin."""


def _stays_inside(inst: Inst) -> bool:
    """True for what reaches nothing but UB and registers of lanes, inside a vector region."""
    if inst.kind is not Kind.ACTION:
        return inst.kind in (Kind.SCALAR, Kind.BRANCH, Kind.VECTOR)
    return inst.op is not None and is_handle(inst.op.name) and not inst.op.has("reads_memory")


class NotPeriodic(Exception):
    """It cannot be shown that rounds repeat for all values."""


# -- what the scalar unit does for every value -----------------------------------------------------

Trace = list[tuple[int, tuple[Any, ...]]]
"""Operations that were issued: places in the program, and operands."""


class Form(NamedTuple):
    """A trace without the places in global memory, and these: memories, first bytes, and the
    windows themselves."""

    rest: tuple[Any, ...]
    memories: tuple[Any, ...]
    places: np.ndarray
    views: tuple[GmView, ...]


def form_of(trace: Trace) -> Form:
    """Take the places in global memory out of a trace."""
    rest: list[Any] = []
    memories: list[Any] = []
    places: list[int] = []
    views: list[GmView] = []
    for pc, values in trace:
        rest.append(pc)
        for value in values:
            if isinstance(value, GmView):
                spec = value.spec
                if value.offset * spec.dtype.bits % 8:
                    raise NotPeriodic("a window begins inside a byte")
                rest.append((spec.dtype, spec.layout, spec.sizes, walks(value)))
                memories.append(value.memory)
                places.append(value.start.byte)
                views.append(value)
            else:
                rest.append(_told(value))
    return Form(tuple(rest), tuple(memories), np.array(places, np.int64), tuple(views))


def _told(value: Any) -> Any:
    if isinstance(value, (bool, int, float, np.floating)) or value.__class__ in (tuple, list):
        return value.__class__, exact(value)
    return value


class End(NamedTuple):
    """How a value leaves the others: visits of each head and operations until then, and those that
    it issues afterwards."""

    visits: dict[int, int]
    length: int
    rest: Trace


@dataclass(slots=True, eq=False)
class Course:
    """What a program issues for all values together, where its heads are visited, and how each
    value ends."""

    trace: Trace = field(default_factory=list)
    visits: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, End] = field(default_factory=dict)


class Done(Exception):
    """All is known that a run was begun for."""


class Skeleton(Valued):
    """Executes the scalar unit's part for all values but the last, which only leads."""

    def __init__(self, launched: Any, values: Sequence[Mapping[str, int]]) -> None:
        super().__init__(launched, values)
        self._steps = 0
        self.course = Course()
        self._waiting: list[tuple[list[int], int, list[Any], Trace | None]] = []
        self._left_at: dict[int, tuple[dict[int, int], int]] = {}
        self._sizes_of: dict[Any, int] = {}
        self._pc = 0
        self._taken: dict[int, tuple[int, ...]] = {}
        self._rest: Trace | None = None

    def on_issue(self, core: Core, inst: Inst, bound: Any) -> None:
        """Execute it from the first instruction on, and nothing else."""
        engine = self._engine
        if len(engine.machine.cores) != 1:
            raise NotPeriodic("several cores")
        heads = {inst.pc for inst in heads_of(engine.insts)}
        self._sizes_of = {buffer.number: buffer.size for buffer in engine.machine.buffers}
        try:
            self._go(core, inst.pc, heads)
            while self._waiting:
                group, pc, slots, rest = self._waiting.pop()
                self._resume(core, group, slots)
                self._rest = list(rest) if rest is not None else []
                visits, length = self._left_at[group[0]]
                engine.sink, engine.reported = Sink(), set()
                self._go(core, pc, heads)
                for number in self.alive if not len(engine.sink) else ():
                    self.course.ends[number] = End(visits, length, self._rest)
        except FAULTS as problem:
            raise NotPeriodic(f"a fault: {problem}") from problem
        raise Done

    def _resume(self, core: Core, group: list[int], slots: list[Any]) -> None:
        core.slots[:] = slots
        self._goes_on_as(group)

    def _go(self, core: Core, pc: int, heads: set[int]) -> None:
        insts, course = self._engine.insts, self.course
        is_main = self._rest is None
        trace = course.trace if self._rest is None else self._rest
        while pc >= 0 and not (is_main and len(self.alive) == 1):
            self._pc = pc
            self._steps += 1
            if self._steps > _MOST:
                raise NotPeriodic("too many instructions")
            inst = insts[pc]
            pc += 1
            if inst.kind is Kind.SCALAR:
                inst.run(core.slots)
            elif inst.kind is Kind.BRANCH:
                if is_main and inst.pc in heads:
                    course.visits.setdefault(inst.pc, []).append(len(trace))
                pc = inst.run(core.slots)
            elif inst.kind is Kind.EXEC:
                trace.append((inst.pc, self._issues(core, inst)))
            elif inst.kind is Kind.REGION:
                trace.append((inst.pc, self._region(core, inst)))
                pc = inst.end + 1
            else:
                self._handles(core, inst)

    def _issues(self, core: Core, inst: Inst) -> tuple[Any, ...]:
        """The operands of an operation; what it reaches of an argument must be a window in it."""
        if inst.operation.results:
            raise NotPeriodic("an operation has a result")
        if self.launched.only is not None and inst.operation.name.startswith(_BETWEEN):
            raise NotPeriodic("blocks wait for each other")
        given = inst.getter(core.slots)
        values: tuple[Any, ...] = given if given.__class__ is tuple else (given,)
        for value in values:
            if isinstance(value, Pointer) and value.is_global:
                raise NotPeriodic("an operation takes a pointer")
            if isinstance(value, GmView):
                low, high = value.span()
                size = next(
                    b.size for b in self._engine.machine.buffers if b.number == value.memory
                )
                if low < 0 or high > size:
                    raise NotPeriodic("an operation reaches outside of an argument")
        return values

    def _region(self, core: Core, inst: Inst) -> tuple[Any, ...]:
        """What a vector region takes from outside of it, which says all that it does to places and
        masks: none of it is executed."""
        engine, taken = self._engine, self._taken.get(inst.pc)
        if taken is None:
            inside = engine.program.insts[inst.pc + 1 : inst.end]
            if inst.operation.results or not all(map(_stays_inside, inside)):
                raise NotPeriodic("more than vector instructions in a region")
            made = {s for i in inside for s in targets_of(engine.program, i)}
            read = {s for i in inside for s in sources_of(engine.program, i)}
            taken = self._taken[inst.pc] = tuple(sorted(read - made))
        beside = core.slots[self._half]
        if any(map(beside.__contains__, taken)):
            self._part_by_operands(beside, core.slots, taken)
        values = tuple(core.slots[slot] for slot in taken)
        if any(isinstance(v, GmView) or (isinstance(v, Pointer) and v.is_global) for v in values):
            raise NotPeriodic("a region reaches global memory")
        return values

    def _handles(self, core: Core, inst: Inst) -> None:
        op = inst.op
        if inst.kind is not Kind.ACTION or op is None or op.has("call"):
            raise NotPeriodic("more than operations on tiles")
        if not is_handle(op.name) or op.has("reads_memory"):
            raise NotPeriodic(f"`{op.name}` may look at data")
        core.pc = inst.pc
        inst.run(core)

    def _part(self, groups: Sequence[list[int]]) -> bool:
        """Keep each group of values for later."""
        (core,) = self._engine.machine.cores
        for group in groups:
            if self.base in group:
                raise NotPeriodic("a number is not the one that it was")
            gone = set(group)
            self.alive = [k for k in self.alive if k not in gone]
            slots = list(core.slots)
            slots[self._half] = dict(slots[self._half])
            if self._rest is None:
                visits = {pc: len(at) for pc, at in self.course.visits.items()}
                self._left_at |= dict.fromkeys(group, (visits, len(self.course.trace)))
            rest = None if self._rest is None else list(self._rest)
            self._waiting.append((group, self._pc, slots, rest))
        return False


# -- where it repeats ------------------------------------------------------------------------------


class Period(NamedTuple):
    """The rounds of a loop from round `first` on: each `rounds` of them are those before, moved."""

    head: int
    first: int
    rounds: int


def period_of(course: Course) -> tuple[Period, list[Form]]:
    """Return how a course repeats, and its rounds. Raises NotPeriodic."""
    long = [
        pc
        for pc, visits in course.visits.items()
        if len(visits) >= _LEAST_ROUNDS
        and len({end.visits.get(pc, 0) for end in course.ends.values()}) >= _LEAST_ROUNDS
    ]
    if not long:
        raise NotPeriodic("no loop has so many rounds that several values have in common")
    visits = course.visits[long[0]]
    forms = [form_of(course.trace[a:b]) for a, b in pairwise(visits)]
    for first in range(1, _SOONEST + 1):
        for rounds in range(1, _LONGEST + 1):
            if len(forms) - first >= 3 * rounds and _repeats(forms[first:], rounds):
                return Period(long[0], first, rounds), forms
    raise NotPeriodic("no period was found")


def _repeats(forms: Sequence[Form], rounds: int) -> bool:
    steps: dict[int, np.ndarray] = {}
    for at, (one, other) in enumerate(zip(forms, forms[rounds:], strict=False)):
        if one.rest != other.rest or one.memories != other.memories:
            return False
        step = other.places - one.places
        if not np.array_equal(steps.setdefault(at % rounds, step), step):
            return False
    return True


def in_step(periods: Sequence[Period], rounds: Sequence[int]) -> list[Period]:
    """The periods of two programs, as long that one of each belongs to one of the other."""
    one, two = periods
    many, few = max(rounds), max(min(rounds), 1)
    ratio = max(round(many / few), 1)
    factors = (ratio, 1) if rounds[0] >= rounds[1] else (1, ratio)
    unit = lcm(*(
        p.rounds // gcd(p.rounds, f) for p, f in zip(periods, factors, strict=True)
    ))  # fmt: skip
    first = max(-(-p.first // f) for p, f in zip(periods, factors, strict=True))
    return [Period(p.head, first * f, unit * f) for p, f in zip((one, two), factors, strict=True)]


def distances(forms: Sequence[Form], steps: Sequence[np.ndarray]) -> dict[Any, set[int]]:
    """By how much the accesses to each memory move."""
    found: dict[Any, set[int]] = {}
    for form, step in zip(forms, steps, strict=True):
        for memory, each in zip(form.memories, step.tolist(), strict=True):
            found.setdefault(memory, set()).add(each)
    return found


# -- what may meet ---------------------------------------------------------------------------------


def bytes_of(view: GmView) -> np.ndarray:
    """Return the bytes that a window reaches, from its first one on."""
    spec, width = view.spec, -(-view.spec.dtype.bits // 8)
    found = np.arange(width)
    for size, stride in zip(spec.sizes, spec.strides, strict=True):
        steps = np.arange(size, dtype=np.int64) * (stride * spec.dtype.bits // 8)
        found = (steps[:, None] + found).reshape(-1)
    return found


class Reach(NamedTuple):
    """The first and last bytes that a program reaches of a memory until each of its operations, and
    those that each value reaches on its own; folded into `fold` bytes if that is not 0."""

    until: np.ndarray
    ends: dict[int, tuple[int, int]]

    def of(self, number: int, length: int) -> tuple[int, int]:
        """Return the first byte that a value reaches and the one after the last."""
        low, high = self.ends[number]
        before = self.until[length]
        return min(low, int(before[0])), max(high, int(before[1]))


_NOWHERE = 1 << 62, -(1 << 62)


def _folded(view: GmView, fold: int) -> tuple[int, int]:
    """The bytes of a window, all in the `fold` bytes of one turn; of none if it is 0."""
    if not fold:
        return view.span()
    spec, width = view.spec, -(-view.spec.dtype.bits // 8)
    steps = [(n, s * spec.dtype.bits // 8) for n, s in zip(spec.sizes, spec.strides, strict=True)]
    low = view.start.byte % fold + sum(min(s, 0) * (n - 1) for n, s in steps if s % fold)
    high = view.start.byte % fold + sum(max(s, 0) * (n - 1) for n, s in steps if s % fold)
    return (low, high + width) if low >= 0 and high + width <= fold else (0, fold)


def reach_of(course: Course, memory: int, fold: int) -> Reach:
    """Return what a program reaches of one memory."""
    known: dict[GmView, tuple[int, int]] = {}

    def hull(values: tuple[Any, ...]) -> tuple[int, int]:
        found = _NOWHERE
        for value in values:
            if isinstance(value, GmView) and value.memory == memory:
                at = known.get(value) or known.setdefault(value, _folded(value, fold))
                found = min(found[0], at[0]), max(found[1], at[1])
        return found

    every = np.array([_NOWHERE, *(hull(values) for _, values in course.trace)], np.int64)
    until = np.stack([
        np.minimum.accumulate(every[:, 0]), np.maximum.accumulate(every[:, 1])
    ], axis=1)  # fmt: skip
    ends = {}
    for number, end in course.ends.items():
        parts = [hull(values) for _, values in end.rest]
        ends[number] = (
            min([_NOWHERE[0], *(a for a, _ in parts)]),
            max([_NOWHERE[1], *(b for _, b in parts)]),
        )
    return Reach(until, ends)


def strides_of(course: Course, memory: int) -> set[int]:
    """Return the distances, in bytes, between rows of the windows of a memory."""
    views = {
        v
        for _, values in course.trace
        for v in values
        if isinstance(v, GmView) and v.memory == memory
    }
    return {
        abs(stride) * view.spec.dtype.bits // 8
        for view in views
        for size, stride in zip(view.spec.sizes, view.spec.strides, strict=True)
        if size > 1 and abs(stride) > 1
    }


def meets(one: GmView, at: np.ndarray, other: GmView, step: int, rounds: np.ndarray) -> np.ndarray:
    """Say for each of some places of a window if it meets another one there, or one of so many
    that are `step` bytes apart each; those of several rounds by their first and last bytes only."""
    first, here, there = other.start.byte, bytes_of(one), bytes_of(other)
    if not here.size or not there.size:
        return np.zeros(len(at), bool)
    low, high = at + here.min(), at + here.max() + 1
    below, above = first + there.min(), first + there.max() + 1
    if step:
        sign = 1 if step > 0 else -1
        ends = np.sort(np.stack([(low - above) * sign, (high - below) * sign]), axis=0)
        least, most = ends[0] // abs(step) + 1, -(-ends[1] // abs(step)) - 1
        return np.maximum(least, 0) <= np.minimum(most, rounds - 1)
    found = (low < above) & (below < high) & (rounds > 0)
    for number in np.flatnonzero(found):
        found[number] = bool(np.intersect1d(here + at[number], there + first).size)
    return found


def course_of(launched: Any, values: Sequence[Mapping[str, int]]) -> Course:
    """Return what a program does for all of some values but the last, which only leads. Raises
    NotPeriodic for one with more than operations on tiles of one core."""
    skeleton = Skeleton(launched, values)
    try:
        launched.run([skeleton], sanitize="none")
    except Done:
        return skeleton.course
    raise NotPeriodic("nothing was executed")
