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
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ptosim.engine.core.bound import Inst
from ptosim.machine.core import Core
from ptosim.machine.values import GmView
from ptosim.tools.search.prove_course import (
    Course,
    Done,
    Form,
    NotPeriodic,
    Period,
    course_of,
    distances,
    form_of,
    in_step,
    meets,
    period_of,
    reach_of,
    strides_of,
)
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

LEAST_VALUES = 48
"""Values of a scalar below which each is gone through."""
_REFINED = 8
"""Times that classes of equal bytes are made finer."""

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
        """Make classes finer by what their bytes are at the next head, begun at this one. False
        if they need not be."""
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

Walk = Callable[[Any, Callable[[Any], Any]], tuple[Any, Any, set[str]]]
"""Follows a launch with one more observer, which is made of the follower; gives both of them back
when the run is over, with its doubts, or when the observer has ended it."""
Launch = Callable[[Mapping[str, int]], tuple[Any, Any]]


class _Walked(NamedTuple):
    """A launch that was followed, with what looked on, and its doubts."""

    follower: Any
    heads: Heads
    doubts: set[str]

    @property
    def buffers(self) -> Sequence[Any]:
        """Return the arguments in global memory."""
        return self.follower.memory.machine.buffers  # type: ignore[no-any-return]

    @property
    def names(self) -> list[str]:
        """Return their names."""
        return [buffer.name for buffer in self.buffers]


class _Member(NamedTuple):
    """A value: the last head before its end at which both programs are, its number, and where in
    global memory the end of each program is."""

    head: int
    number: int
    places: tuple[np.ndarray, np.ndarray]
    forms: tuple[Form, Form]


class _Tail(NamedTuple):
    """An end that several values have, moved by the same distance from head to head: the first two
    of them, by how much each access, and the accesses of each program, move, and all of them."""

    members: tuple[_Member, _Member]
    steps: list[np.ndarray]
    moved: tuple[dict[Any, set[int]], dict[Any, set[int]]]
    all: list[_Member]


class Induction:
    """Shows of many values of one scalar at once that two programs are equal. Raises NotPeriodic,
    or Unprovable, where this cannot be shown of any."""

    def __init__(
        self, launch: Launch, values: Sequence[Mapping[str, int]], walk: Walk,
        is_clean: Callable[[Mapping[str, int]], bool],
    ) -> None:  # fmt: skip
        self.launch, self.values, self.walk, self.is_clean = launch, values, walk, is_clean
        self.buffers: Sequence[Any] = ()
        self.written: set[int] = set()
        self.elements = self.executed = 0  # that were compared, and instructions for it
        ((name, last),) = values[-1].items()
        blocks = launch(values[-1])[0].block_num or 1  # one round more for each of them
        lead = {name: last + blocks * (last - values[-2][name])}
        self._courses = [course_of(one, [*values, lead]) for one in launch(lead)]
        found = [period_of(course) for course in self._courses]
        self._periods = in_step([p for p, _ in found], [len(forms) for _, forms in found])
        self._moved = [
            distances(forms[p.first : p.first + p.rounds], [
                other.places - one.places
                for one, other in zip(forms[p.first :], forms[p.first + p.rounds :], strict=False)
            ][: p.rounds])
            for p, (_, forms) in zip(self._periods, found, strict=True)
        ]  # fmt: skip
        every = zip(self._courses, self._periods, [forms for _, forms in found], strict=True)
        self._before = [list(_before(*each)) for each in every]

    def proven(self) -> set[int]:
        """Return the numbers of the values of which it is shown."""
        tails = list(self._tails())
        heads = [m for tail in tails for m in tail.all if m.head >= 2]
        if not heads:
            raise NotPeriodic("no value is far enough from its end")
        one = min(heads, key=lambda m: m.head).number
        classes, pure = self._begun(one)
        for _ in range(_REFINED):
            if not any(self._is_finer(one, head, classes, pure) for head in (0, 1)):
                break
        else:
            raise NotPeriodic("equal bytes are others in each round")
        done: set[int] = set()
        for tail in tails:
            kept = self._is_equal(tail, classes, pure)
            if kept is not None:
                done |= self._apart(tail, kept)
                self.written |= {n for n, b in enumerate(self.buffers) if b.name not in kept}
        return done

    def reaches(self, memory: int, fold: int) -> Iterator[dict[int, tuple[int, int]]]:
        """Yield what each program reaches of a memory, for each value that has an end."""
        for course in self._courses:
            reach = reach_of(course, memory, fold)
            yield {n: reach.of(n, end.length) for n, end in course.ends.items()}

    def folds(self, memory: int) -> set[int]:
        """Return lengths into which what is reached of a memory may be folded."""
        found = {abs(step) for moved in self._moved for step in moved.get(memory, ())}
        return found.union(*(strides_of(course, memory) for course in self._courses)) | {0}

    def _apart(self, tail: _Tail, pure: set[str]) -> set[int]:
        """Return the values of an end that is ordered for all of them as it is for those that are
        executed, the first two and the last: where it moves by another distance than what was
        before, it meets nothing of that in memory that is written."""
        done = {member.number for member in tail.members}
        like = [member for member in tail.all if member.number not in done]
        if not like or not self.is_clean(self.values[like[-1].number]):
            return done
        heads = np.array([member.head for member in like], np.int64)
        meet = np.zeros(len(like), bool)
        for side, steps in enumerate(tail.steps):
            names: dict[Any, str] = {n: b.name for n, b in enumerate(self.buffers)}
            every = np.stack([member.places[side] for member in like])
            for access, view in enumerate(like[0].forms[side].views):
                if names[view.memory] in pure:
                    continue
                step = int(steps[access])
                for other, moves, is_once in self._before[side]:
                    if other.memory == view.memory and moves != step:
                        rounds = np.ones_like(heads) if is_once else heads
                        meet |= meets(view, every[:, access], other, moves, rounds)
        return done | {m.number for m, met in zip(like, meet, strict=True) if not met}

    def _visit(self, side: int, head: int) -> int:
        period = self._periods[side]
        return period.first + period.rounds * head

    # -- ends -------------------------------------------------------------------------------------

    def _tails(self) -> Iterator[_Tail]:
        classes: dict[Any, list[_Member]] = {}
        for number in range(len(self.values)):
            found = self._end_of(number)
            if found is not None:
                try:
                    classes.setdefault(found[0], []).append(found[1])
                except TypeError as problem:  # an operand that is no key
                    raise NotPeriodic(str(problem)) from problem
        for members in classes.values():
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
            one, other = (
                distances([of], [step]) for of, step in zip(first.forms, steps, strict=True)
            )
            yield _Tail((first, second), steps, (one, other), like)

    def _end_of(self, number: int) -> tuple[Any, _Member] | None:
        """The form of the ends of a value, begun at its last head, and where they are."""
        sides = list(zip(self._courses, self._periods, strict=True))
        ends = [course.ends[number] for course, _ in sides if number in course.ends]
        if len(ends) < len(sides):
            return None
        counts = [e.visits.get(p.head, 0) for e, p in zip(ends, self._periods, strict=True)]
        head = min((n - 1 - p.first) // p.rounds for n, (_, p) in zip(counts, sides, strict=True))
        if head < 0:
            return None
        visits = [self._visit(side, head) for side in range(len(sides))]
        forms = [
            form_of([*course.trace[course.visits[p.head][visit] : end.length], *end.rest])
            for (course, p), end, visit in zip(sides, ends, visits, strict=True)
        ]
        left = tuple(n - visit for n, visit in zip(counts, visits, strict=True))
        key = (*((f.rest, f.memories) for f in forms), left)
        one, other = forms
        return key, _Member(head, number, (one.places, other.places), (one, other))

    # -- heads -------------------------------------------------------------------------------------

    def _walked(
        self, number: int, looks: Sequence[int], given: int | None = None,
        classes: Classes | None = None, pure: set[str] | None = None, *, ends: bool = False,
    ) -> list[_Walked]:  # fmt: skip
        """Follow both programs with one value; at the head `given` memory holds what `classes`
        say, and of what is not `pure` each byte an unknown of its own."""
        found: list[_Walked] = []
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

            found.append(_Walked(*self.walk(launched, observer)))
            self.executed += found[-1].follower.engine.executed
        if found[0].names != found[1].names:
            raise NotPeriodic("the programs have other arguments")
        return found

    def _begun(self, number: int) -> tuple[Classes, set[str]]:
        """Return the classes of equal bytes of the first heads, and the arguments that no round
        writes."""
        looks = [0, 1, 2]
        both = self._walked(number, looks)
        held: list[list[Held]] = []
        pure: list[set[str]] = []
        for side, walked in enumerate(both):
            seen = [walked.heads.seen[self._visit(side, head)] for head in looks]
            if any(each[2] != seen[0][2] for each in seen):
                raise NotPeriodic("a register is another one in a later round")
            held.append([spaces for spaces, _, _ in seen])
            pure.append(_pure(walked.follower))
        for head in looks:
            _same([w.heads.seen[self._visit(side, head)][1] for side, w in enumerate(both)])
        kept = pure[0] & pure[1]
        _move_together(self._moved, both[0].names, kept)
        sizes = {b.name: b.size for b in both[0].buffers if b.name in kept}
        return Classes(held[0][:2], held[1][:2], sizes), kept

    def _is_finer(self, number: int, head: int, classes: Classes, pure: set[str]) -> bool:
        both = self._walked(number, [head + 1], head, classes, pure)
        seen = [w.heads.seen[self._visit(side, head + 1)] for side, w in enumerate(both)]
        _same([buffers for _, buffers, _ in seen])
        for walked in both:
            if not pure <= _pure(walked.follower):
                raise NotPeriodic("a later round writes another argument")
        return classes.refined(seen[0][0], seen[1][0], head)

    def _is_equal(self, tail: _Tail, classes: Classes, pure: set[str]) -> set[str] | None:
        """Return the arguments that nothing writes; None where ends are not shown to be equal."""
        names = set(pure)
        try:
            for member in tail.members:
                both = self._walked(member.number, (), member.head, classes, pure, ends=True)
                held = [[b.hashes for b in w.follower.memory.buffers] for w in both]
                _same(held)
                self.elements += sum(b.size // max(1, b.dtype.bits // 8) for b in both[0].buffers)
                kept = [_pure(w.follower) for w in both]
                names &= kept[0] & kept[1]
                self.buffers = both[0].buffers
                _move_together(tail.moved, both[0].names, names)
                if any(w.follower.holds_more for w in both) or both[1].doubts - both[0].doubts:
                    return None
        except (NotPeriodic, Unprovable):
            return None
        return names


def apart(blocks: Sequence[Induction]) -> set[int]:
    """Return the values that are shown for every block, where no block reaches what another one
    writes: then what each of them leaves is what all of them do."""
    found = set.intersection(*(one.proven() for one in blocks))
    if len(blocks) == 1:
        return found
    for memory in set().union(*(one.written for one in blocks)):
        folds = sorted(set().union(*(one.folds(memory) for one in blocks)))
        found &= set().union(*(_apart_in(blocks, memory, fold, found) for fold in folds))
    return found


def _apart_in(blocks: Sequence[Induction], memory: int, fold: int, numbers: set[int]) -> set[int]:
    sides = zip(*(one.reaches(memory, fold) for one in blocks), strict=True)
    kept = set(numbers)
    for side in sides:
        for number in numbers:
            spans = sorted(s for s in (each[number] for each in side) if s[0] < s[1])
            if any(one[1] > other[0] for one, other in pairwise(spans)):
                kept.discard(number)
    return kept


def _before(
    course: Course, period: Period, forms: Sequence[Form]
) -> Iterator[tuple[GmView, int, bool]]:
    """Yield the windows before the first head, which are there once, and those of the first period,
    with the distance by which each moves."""
    begun = form_of(course.trace[: course.visits[period.head][period.first]])
    yield from ((view, 0, True) for view in dict.fromkeys(begun.views))
    first, second = forms[period.first :], forms[period.first + period.rounds :]
    for one, other in list(zip(first, second, strict=False))[: period.rounds]:
        steps = (other.places - one.places).tolist()
        yield from ((v, step, False) for v, step in zip(one.views, steps, strict=True))


def _same(both: Sequence[Sequence[Hashes]]) -> None:
    one, other = both
    if not all(map(np.array_equal, one, other)):
        raise NotPeriodic("global memory differs")


def _move_together(moved: Sequence[Any], names: Sequence[str], pure: set[str]) -> None:
    """What is written must move as all else that reaches the same memory does."""
    steps: dict[Any, set[int]] = {}
    for each in moved:
        for memory, some in each.items():
            steps.setdefault(memory, set()).update(some)
    for memory, some in steps.items():
        if names[memory] not in pure and len(some) > 1:
            raise NotPeriodic(f"accesses to %{names[memory]} move by different distances")


def _loader(classes: Classes, side: int, head: int, pure: set[str]) -> Callable[[Any], None]:
    def load(memory: Any) -> None:
        (core,) = memory.machine.cores
        for place, numbers in classes.of(side, head):
            memory.of(memory.own(core, place[0])).hashes[:] = numbers
        for buffer, held in zip(memory.machine.buffers, memory.buffers, strict=True):
            if buffer.name not in pure:
                every = input_byte(buffer.name, np.arange(buffer.size))
                held.hashes[:] = mixed(every ^ salt("at a head"))

    return load


def _pure(follower: Any) -> set[str]:
    """The arguments that nothing has written. One that holds what it was given with at each head
    may have held something else in between."""
    both = zip(follower.memory.machine.buffers, follower.memory.buffers, strict=True)
    return {buffer.name for buffer, held in both if not held.is_written}
