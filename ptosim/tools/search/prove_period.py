"""Any number of rounds, by induction over one period.

The scalar unit's part of a program is executed for every value of an open scalar, which is exact
and quick: no operation on data takes part. It shows where rounds repeat: the same operations, with
windows of global memory that move by the same distance in each period, for every value until so
many rounds before its own end, and an end that is the same one, moved, for every value.

Then one period is enough. At the head of the loop both programs hold in global memory the same
bytes, and on the chip some bytes that are the same expression as others; that they do so one period
later is shown for bytes of which nothing else is known: each class of equal ones is an unknown of
its own. The same is shown of the end, begun at such a head. Both are shown at two heads: what
moves, moves evenly, and what is equal twice, is so for ever. Values for which something else
happens are left to proofs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.period.state import heads_of
from ptosim.ground.records import dataclass, field
from ptosim.machine.core import Core
from ptosim.machine.values import GmView, Pointer
from ptosim.tools.search.prove_memory import (
    Hashes,
    Place,
    Unprovable,
    input_byte,
    input_places,
    joined,
    mixed,
    salt,
)
from ptosim.tools.search.prove_ops import exact, is_handle
from ptosim.tools.search.prove_shared import FAULTS, Parting

LEAST_VALUES = 48
"""Values of a scalar below which each is gone through."""
_LEAST_ROUNDS = 12
_LONGEST, _SOONEST = 8, 8
"""Rounds of the longest period, and after which a loop repeats at the latest."""
_MOST = 6_000_000
"""Instructions of the scalar unit, for all values together."""
_REFINED = 8
"""Times that classes of equal bytes are made finer."""


class NotPeriodic(Exception):
    """It cannot be shown that rounds repeat for all values."""


# -- what the scalar unit does for every value -----------------------------------------------------

Trace = list[tuple[int, tuple[Any, ...]]]
"""Operations that were issued: places in the program, and operands."""


class Form(NamedTuple):
    """A trace without the places in global memory, and these: memories and first bytes."""

    rest: tuple[Any, ...]
    memories: tuple[Any, ...]
    places: np.ndarray


def form_of(trace: Trace) -> Form:
    """Take the places in global memory out of a trace."""
    rest: list[Any] = []
    memories: list[Any] = []
    places: list[int] = []
    for pc, values in trace:
        rest.append(pc)
        for value in values:
            if isinstance(value, GmView):
                rest.append(("view", value.spec))
                memories.append(value.memory)
                places.append(value.start.byte)
            elif isinstance(value, Pointer) and value.is_global:
                rest.append("pointer")
                memories.append(value.memory)
                places.append(value.byte)
            else:
                rest.append(_told(value))
    return Form(tuple(rest), tuple(memories), np.array(places, np.int64))


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


class Skeleton(Parting):
    """Executes the scalar unit's part for all values but the last, which only leads."""

    def __init__(self, launched: Any, values: Sequence[Mapping[str, int]]) -> None:
        super().__init__(launched, values, Path(), 1, _MOST)
        self.course = Course()
        self._waiting: list[tuple[list[int], int, list[Any], Trace | None]] = []
        self._left_at: dict[int, tuple[dict[int, int], int]] = {}
        self._pc = 0
        self._rest: Trace | None = None

    def on_start(self, engine: Any) -> None:
        """Execute it, and nothing else."""
        super().on_start(engine)
        if len(engine.machine.cores) != 1:
            raise NotPeriodic("several cores")
        (core,) = engine.machine.cores
        heads = {inst.pc for inst in heads_of(engine.insts)}
        try:
            self._go(core, core.pc, heads)
            while self._waiting:
                group, pc, slots, rest = self._waiting.pop()
                self._resume(core, group, slots)
                self._rest = list(rest) if rest is not None else []
                visits, length = self._left_at[group[0]]
                self._go(core, pc, heads)
                for number in self.alive:
                    self.course.ends[number] = End(visits, length, self._rest)
        except FAULTS as problem:
            raise NotPeriodic(f"a fault: {problem}") from problem
        raise Done

    def _resume(self, core: Core, group: list[int], slots: list[Any]) -> None:
        self.alive, self.base = group, group[-1]
        self._sizes.clear()
        core.slots[:] = slots
        for slot, every in core.slots[self._half].items():
            core.slots[slot] = every[self.base]

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
                values = inst.getter(core.slots)
                is_one = values.__class__ is not tuple
                trace.append((inst.pc, (values,) if is_one else values))
            else:
                self._handles(core, inst)

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
    """The rounds of a loop from round `first` on: each `rounds` of them are the ones before, moved."""

    head: int
    first: int
    rounds: int


def period_of(course: Course) -> tuple[Period, list[Form]]:
    """Return how a course repeats, and its rounds. Raises NotPeriodic."""
    long = [pc for pc, visits in course.visits.items() if len(visits) >= _LEAST_ROUNDS]
    if not long:
        raise NotPeriodic("no loop has enough rounds")
    visits = course.visits[long[0]]
    forms = [form_of(course.trace[a:b]) for a, b in zip(visits, visits[1:], strict=False)]
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


def _together(periods: Sequence[Period], rounds: Sequence[int]) -> list[Period]:
    """The periods of two programs, as long that one of each belongs to one of the other."""
    one, two = periods
    many, few = max(rounds), max(min(rounds), 1)
    ratio = max(round(many / few), 1)
    factors = (ratio, 1) if rounds[0] >= rounds[1] else (1, ratio)
    unit = lcm(*(
        p.rounds // np.gcd(p.rounds, f) for p, f in zip(periods, factors, strict=True)
    ))  # fmt: skip
    first = max(-(-p.first // f) for p, f in zip(periods, factors, strict=True))
    return [
        Period(p.head, first * f, int(unit) * f) for p, f in zip((one, two), factors, strict=True)
    ]


def _moved(forms: Sequence[Form], steps: Sequence[np.ndarray]) -> dict[Any, set[int]]:
    """By how much the accesses to each memory move."""
    found: dict[Any, set[int]] = {}
    for form, step in zip(forms, steps, strict=True):
        for memory, each in zip(form.memories, step.tolist(), strict=True):
            found.setdefault(memory, set()).add(each)
    return found


# -- what memory holds at a head -------------------------------------------------------------------

Held = dict[Place, Hashes]


class Heads:
    """Looks on at a run: at some visits of a head memory is kept (`looks`), at one of them it is
    given other content first (`given`); after the last one the run is over, unless it `ends`."""

    def __init__(
        self, follower: Any, head: int, looks: Sequence[int],
        given: tuple[int, Callable[[Any], None]] | None, *, ends: bool,
    ) -> None:  # fmt: skip
        self.follower, self.head, self.looks, self.given = follower, head, looks, given
        self.ends = ends
        self.seen: dict[int, tuple[Held, list[Hashes], Any]] = {}
        self._visits = 0

    def on_start(self, engine: Any) -> None:
        """Watch the head."""
        inst: Inst = engine.insts[self.head]
        run, cores = inst.run, engine.machine.cores

        def visit(slots: list[Any]) -> Any:
            if self._visits in self.looks or (self.given and self._visits == self.given[0]):
                self._look(cores)
            self._visits += 1
            return run(slots)

        engine.insts[self.head] = inst.running(visit)

    def _look(self, cores: Sequence[Core]) -> None:
        follower, visit = self.follower, self._visits
        if any(core.queues for core in cores):
            raise NotPeriodic("a pipe waits at the head of the loop")
        if follower.holds_more:
            raise NotPeriodic("more than memory is handed on to the next round")
        memory = follower.memory
        if visit in self.looks:
            spaces = {place: held.hashes.copy() for place, held in memory.spaces.items()}
            buffers = [held.hashes.copy() for held in memory.buffers]
            self.seen[visit] = spaces, buffers, [sorted(c.registers.items()) for c in cores]
        if self.given is not None and visit == self.given[0]:
            self.given[1](memory)
        if not self.ends and visit == max(self.looks):
            raise Done


class Classes:
    """Which bytes on the chip are the same expression at each head, in both programs: a number for
    each. Of those that `stay`, it is the expression itself; those that `move` are a byte of an
    argument, so much farther at each head."""

    def __init__(self, one: Sequence[Held], other: Sequence[Held], pure: Mapping[str, int]) -> None:
        if set(one[0]) != set(one[1]) or set(other[0]) != set(other[1]):
            raise NotPeriodic("another memory is reached in a later round")
        self._keys = [(side, p) for side, held in enumerate((one, other)) for p in held[0]]
        self._sizes = [len((one, other)[side][0][p]) for side, p in self._keys]
        first, second = (self._joined(one[at], other[at]) for at in (0, 1))
        self.stay = first == second
        self.move = np.zeros(len(first), bool)
        self._numbers = np.where(self.stay, first, joined(salt("head"), first, second))
        self._moves: list[tuple[str, np.ndarray, np.ndarray, np.ndarray]] = []
        for name, size in pure.items():
            here, there = (input_places(name, held) for held in (first, second))
            every = np.flatnonzero(~self.stay & (here < size) & (there < size))
            self.move[every] = True
            begin = here[every].astype(np.int64)
            self._moves.append((name, every, begin, there[every].astype(np.int64) - begin))

    def _joined(self, one: Held, other: Held) -> Hashes:
        return np.concatenate([(one, other)[side][place] for side, place in self._keys])

    def numbers(self, head: int) -> Hashes:
        """Return the numbers of all bytes at a head."""
        found = self._numbers.copy()
        for name, every, begin, step in self._moves:
            moved = self.move[every]
            found[every[moved]] = input_byte(name, (begin + head * step)[moved])
        return found

    def of(self, side: int, head: int) -> Iterator[tuple[Place, Hashes]]:
        """Yield the numbers of the memories of one program at a head."""
        numbers, at = self.numbers(head), 0
        for (which, place), size in zip(self._keys, self._sizes, strict=True):
            if which == side:
                yield place, numbers[at : at + size]
            at += size

    def refined(self, one: Held, other: Held, head: int) -> bool:
        """Make classes finer by what their bytes are at the next head, begun at this one. False if
        they need not be."""
        after, known = self._joined(one, other), self.stay | self.move
        left = known & (after != self.numbers(head + 1))
        order = np.argsort(self._numbers, kind="stable")
        numbers, found = self._numbers[order], after[order]
        apart = (numbers[1:] == numbers[:-1]) & (found[1:] != found[:-1]) & ~known[order][1:]
        if not left.any() and not apart.any():
            return False
        self.stay &= ~left
        self.move &= ~left
        finer = joined(salt("finer"), self._numbers, after)
        self._numbers = np.where(self.stay | self.move, self._numbers, finer)
        return True


# -- induction -------------------------------------------------------------------------------------

Walk = Callable[[Any, Callable[[Any], Any]], tuple[Any, Any]]
"""Follows a launch with one more observer, which is made of the follower; gives both of them back
when the run is over, or the observer has ended it."""
Launch = Callable[[Mapping[str, int]], tuple[Any, Any]]


class _Member(NamedTuple):
    """A value: the last head before its end at which both programs are, its number, and where in
    global memory the end of each program is."""

    head: int
    number: int
    places: tuple[np.ndarray, np.ndarray]


class _Tail(NamedTuple):
    """An end that several values have, moved by the same distance from head to head: the first two
    of them, by how much the accesses of each program move, and all of them."""

    members: tuple[_Member, _Member]
    moved: tuple[dict[Any, set[int]], dict[Any, set[int]]]
    all: list[_Member]


class Induction:
    """Shows of many values of one scalar at once that two programs are equal. Raises NotPeriodic, or
    Unprovable, where this cannot be shown of any."""

    def __init__(self, launch: Launch, values: Sequence[Mapping[str, int]], walk: Walk) -> None:
        self.launch, self.values, self.walk = launch, values, walk
        ((name, last),) = values[-1].items()
        lead = {name: last + (last - values[-2][name])}
        self._courses = [_course(one, [*values, lead]) for one in launch(lead)]
        found = [period_of(course) for course in self._courses]
        self._periods = _together([p for p, _ in found], [len(forms) for _, forms in found])
        self._moved = [
            _moved(forms[p.first : p.first + p.rounds], [
                other.places - one.places
                for one, other in zip(forms[p.first :], forms[p.first + p.rounds :], strict=False)
            ][: p.rounds])
            for p, (_, forms) in zip(self._periods, found, strict=True)
        ]  # fmt: skip

    def proven(self) -> set[int]:
        """Return the numbers of the values of which it is shown."""
        tails = list(self._tails())
        heads = [m for tail in tails for m in tail.all if m.head >= 2]
        if not heads:
            raise NotPeriodic("no value is far enough from its end")
        one = min(heads, key=lambda m: m.head).number
        classes, pure = self._begun(one)
        for _ in range(_REFINED):
            if not any([self._is_finer(one, head, classes, pure) for head in (0, 1)]):
                break
        else:
            raise NotPeriodic("equal bytes are others in each round")
        done: set[int] = set()
        for tail in tails:
            if self._is_equal(tail, classes, pure):
                done |= {member.number for member in tail.all}
        return done

    def _visit(self, side: int, head: int) -> int:
        period = self._periods[side]
        return period.first + period.rounds * head

    # -- ends -------------------------------------------------------------------------------------

    def _tails(self) -> Iterator[_Tail]:
        classes: dict[Any, list[_Member]] = {}
        for number in range(len(self.values)):
            found = self._end_of(number)
            if found is not None:
                classes.setdefault(found[0], []).append(found[1])
        for form, members in classes.items():
            members.sort(key=lambda m: m.head)
            first = members[0]
            second = next((m for m in members if m.head > first.head), None)
            if second is None:
                continue
            apart = second.head - first.head
            steps = [b - a for a, b in zip(first.places, second.places, strict=True)]
            if any((step % apart).any() for step in steps):
                continue
            steps = [step // apart for step in steps]
            like = [
                m
                for m in members
                if all(
                    np.array_equal(here, there + step * (m.head - first.head))
                    for here, there, step in zip(m.places, first.places, steps, strict=True)
                )
            ]
            memories = [Form(f[0], f[1], steps[0]) for f in form[:2]]
            yield _Tail(
                (first, second), tuple(_moved([f], [s]) for f, s in zip(memories, steps, strict=True)),
                like,
            )  # type: ignore[arg-type]  # fmt: skip

    def _end_of(self, number: int) -> tuple[Any, _Member] | None:
        ends = [course.ends.get(number) for course in self._courses]
        if ends[0] is None or ends[1] is None:
            return None
        counts = [e.visits.get(p.head, 0) for e, p in zip(ends, self._periods, strict=True)]  # type: ignore[union-attr]
        head = min(
            (n - 1 - p.first) // p.rounds for n, p in zip(counts, self._periods, strict=True)
        )
        if head < 0:
            return None
        forms, left = [], []
        for side, (end, course, period) in enumerate(
            zip(ends, self._courses, self._periods, strict=True)
        ):
            visit = self._visit(side, head)
            begin = course.visits[period.head][visit]
            forms.append(form_of([*course.trace[begin : end.length], *end.rest]))  # type: ignore[union-attr]
            left.append(counts[side] - visit)
        key = (*((f.rest, f.memories) for f in forms), tuple(left))
        return key, _Member(head, number, (forms[0].places, forms[1].places))

    # -- heads -------------------------------------------------------------------------------------

    def _walked(
        self, number: int, looks: Sequence[int], given: int | None = None,
        classes: Classes | None = None, pure: set[str] | None = None, *, ends: bool = False,
    ) -> list[tuple[Any, Heads, Any]]:  # fmt: skip
        """Follow both programs with one value; at the head `given` memory holds what `classes`
        say, and of what is not `pure` each byte an unknown of its own."""
        found = []
        for side, launched in enumerate(self.launch(self.values[number])):
            visits = [self._visit(side, head) for head in looks]
            load = None
            if given is not None:
                assert classes is not None
                assert pure is not None
                load = self._visit(side, given), _loader(classes, side, given, pure)

            def observer(
                follower: Any, visits: Sequence[int] = visits, load: Any = load, side: int = side
            ) -> Heads:
                return Heads(follower, self._periods[side].head, visits, load, ends=ends)

            found.append(self.walk(launched, observer))
        return found  # type: ignore[return-value]

    def _begun(self, number: int) -> tuple[Classes, set[str]]:
        """Return the classes of equal bytes of the first heads, and the arguments that no round
        writes."""
        looks = [0, 1, 2]
        both = self._walked(number, looks)
        held: list[list[Held]] = []
        pure: list[set[str]] = []
        for side, (follower, heads) in enumerate(both):  # type: ignore[misc]
            seen = [heads.seen[self._visit(side, head)] for head in looks]
            if any(each[2] != seen[0][2] for each in seen):
                raise NotPeriodic("a register is another one in a later round")
            held.append([spaces for spaces, _, _ in seen])
            pure.append(_pure(follower, [b for _, b, _ in seen]))
        for head in looks:
            self._same_memory([h.seen[self._visit(s, head)][1] for s, (_, h) in enumerate(both)])  # type: ignore[misc]
        kept = pure[0] & pure[1]
        self._move_together(self._moved, both[0][0], kept)
        sizes = {b.name: b.size for b in both[0][0].memory.machine.buffers if b.name in kept}
        return Classes(held[0][:2], held[1][:2], sizes), kept

    def _is_finer(self, number: int, head: int, classes: Classes, pure: set[str]) -> bool:
        both = self._walked(number, [head + 1], head, classes, pure)
        seen = [h.seen[self._visit(side, head + 1)] for side, (_, h) in enumerate(both)]  # type: ignore[misc]
        self._same_memory([each[1] for each in seen])
        for side, (follower, _) in enumerate(both):  # type: ignore[misc]
            if not pure <= _pure(follower, [seen[side][1]]):
                raise NotPeriodic("a later round writes another argument")
        return classes.refined(seen[0][0], seen[1][0], head)

    def _same_memory(self, both: Sequence[Sequence[Hashes]]) -> None:
        one, other = both
        if not all(map(np.array_equal, one, other)):
            raise NotPeriodic("global memory differs at the heads")

    def _move_together(self, moved: Sequence[Any], follower: Any, pure: set[str]) -> None:
        """What is written must move as all else that reaches the same memory does."""
        names = [buffer.name for buffer in follower.memory.machine.buffers]
        steps: dict[Any, set[int]] = {}
        for each in moved:
            for memory, some in each.items():
                steps.setdefault(memory, set()).update(some)
        for memory, some in steps.items():
            if names[memory] not in pure and len(some) > 1:
                raise NotPeriodic(f"accesses to %{names[memory]} move by different distances")

    def _is_equal(self, tail: _Tail, classes: Classes, pure: set[str]) -> bool:
        for member in tail.members:
            try:
                both = self._walked(member.number, (), member.head, classes, pure, ends=True)
            except Unprovable:
                return False
            kept = set(pure)
            for follower, _ in both:  # type: ignore[misc]
                kept &= _pure(follower, [[b.hashes for b in follower.memory.buffers]])
            try:
                self._same_memory([[b.hashes for b in f.memory.buffers] for f, _ in both])  # type: ignore[misc]
                self._move_together(tail.moved, both[0][0], kept)
            except NotPeriodic:
                return False
        return True


def _loader(classes: Classes, side: int, head: int, pure: set[str]) -> Callable[[Any], None]:
    def load(memory: Any) -> None:
        for place, numbers in classes.of(side, head):
            memory.at(place).hashes[:] = numbers
        for buffer, held in zip(memory.machine.buffers, memory.buffers, strict=True):
            if buffer.name not in pure:
                every = input_byte(buffer.name, np.arange(buffer.size))
                held.hashes[:] = mixed(every ^ salt("at a head"))

    return load


def _pure(follower: Any, looks: Sequence[Sequence[Hashes]]) -> set[str]:
    """The arguments that hold at all looks what they were given with."""
    return {
        buffer.name
        for number, buffer in enumerate(follower.memory.machine.buffers)
        if all(
            np.array_equal(look[number], input_byte(buffer.name, np.arange(buffer.size)))
            for look in looks
        )
    }


def _course(launched: Any, values: Sequence[Mapping[str, int]]) -> Course:
    skeleton = Skeleton(launched, values)
    try:
        launched.program.run(
            launched.args, entry=launched.entry, block_num=launched.block_num, timing=False,
            sanitize="none", observers=[skeleton],
        )  # fmt: skip
    except Done:
        return skeleton.course
    raise NotPeriodic("nothing was executed")
