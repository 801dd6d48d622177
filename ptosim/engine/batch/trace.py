"""One round of a loop, followed for many rounds at once before any of them is executed.

Numbers, pointers and masks are computed: of those that differ from round to round, the series of
all rounds. Inner loops and branches are followed where every round goes the same way, so that what
is left is a list of steps on registers. What an instruction takes from the round before is guessed
to grow by the same amount in each, and checked. Where something differs in a later round (the last
registers of a row, a branch that is taken there) only the rounds before it are executed at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.engine.batch.places import Access, Log, Places, log_of, places_of_rounds
from ptosim.engine.batch.steps import (
    KNOWN,
    MANY,
    ONE,
    NotAtOnceError,
    Register,
    Step,
    Values,
    computed,
    copied,
    is_like,
    is_open,
    is_series,
    is_wide,
    loaded,
    number_of,
    of_round,
    stored,
    told,
    window,
    with_number,
)
from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.machine.vector import VectorWindow
from ptosim.ops.base.binding import OpFault
from ptosim.ops.micro.context import Computed, Counted, Known, Load, Rows, Store, as_rows
from ptosim.ops.scalar.numbers import LARGEST, OF_MANY, ScalarFault, is_small

MOST_STEPS = 400
"""Steps of a round; more are not worth their plan."""


@dataclass(slots=True, eq=False)
class Trace:
    """What rounds do at once: steps, places, instructions of a round and the scalar ones among
    them, what is known to be in slots after the last round."""

    rounds: int
    steps: list[Step]
    places: Places
    log: Log
    length: int
    scalars: int
    last: list[tuple[int, Any]]


@dataclass(slots=True, eq=False)
class Loop:
    """A loop: its head, the instruction that ends a round, variable, upper bound and step; the
    slots that its round hands to the next."""

    head: int
    end: int
    variable: int
    upper: int
    step: int
    yielded: tuple[int, ...]
    carried: tuple[int, ...]


def follow(
    program: DecodedProgram, loop: Loop, slots: list[Any], ub: VectorWindow, rounds: int
) -> Trace:
    """Return what so many rounds of a loop do, or fewer of them. Raises NotAtOnceError."""
    start, step = slots[loop.variable], slots[loop.step]
    if max(abs(start), abs(start + rounds * step)) >= LARGEST:
        raise NotAtOnceError
    tracer = _Tracer(program, loop, slots, ub, rounds)
    tracer.values[loop.variable] = np.arange(start, start + rounds * step, step)
    if loop.carried:
        tracer.guess(_after_one(program, loop, slots, ub))
    tracer.follow()
    return tracer.finished()


def _after_one(
    program: DecodedProgram, loop: Loop, slots: list[Any], ub: VectorWindow
) -> list[Any]:
    """What one round hands to the next."""
    tracer = _Tracer(program, loop, slots, ub, 1)
    tracer.values[loop.variable] = slots[loop.variable]
    tracer.follow()
    return [tracer.value(slot) for slot in loop.yielded]


class _Tracer:
    """Follows a round. In `values` an array is a series of numbers, one for each round; so is the
    byte of a pointer."""

    def __init__(
        self,
        program: DecodedProgram,
        loop: Loop,
        slots: list[Any],
        ub: VectorWindow,
        rounds: int,
    ) -> None:
        self.program, self.loop, self.slots, self.ub = program, loop, slots, ub
        self.rounds = self.asked = rounds
        self.values = Values(slots)
        self.length = self.scalars = 0
        self._told: dict[int, Any] = {}
        self._guessed: list[tuple[int, int, np.ndarray]] = []
        # Steps and accesses are made when it is known how many rounds there are.
        self._plan: list[Any] = []
        self._accesses: list[tuple[Any, np.ndarray | int, int, int]] = []

    # -- values -----------------------------------------------------------------------------------

    def value(self, slot: int) -> Any:
        """What is in a slot, as far as it is known before the rounds are executed."""
        if slot in self.values:
            return self.values[slot]
        value = self.slots[slot]
        return value if value.__class__ in KNOWN else ONE

    def guess(self, after: Sequence[Any]) -> None:
        """Let what rounds hand on grow by what it grows in the first one."""
        for target, source, value in zip(self.loop.carried, self.loop.yielded, after, strict=True):
            before = self.value(target)
            if isinstance(before, Register):
                if source == target:
                    continue
                raise NotAtOnceError
            number, grown = number_of(before), number_of(value)
            if grown.__class__ is not int or not is_like(before, value):
                raise NotAtOnceError
            growth = grown - number
            if max(abs(number), abs(growth) * (self.rounds + 1)) >= LARGEST:
                raise NotAtOnceError
            series = number + growth * np.arange(self.rounds + 1, dtype=np.int64)
            self._guessed.append((target, source, series[1:]))
            if growth:
                self.values[target] = with_number(before, series[:-1])

    def _check_guesses(self) -> None:
        """Leave the rounds up to the first that hands on something else."""
        for target, source, expected in self._guessed:
            value = self.value(source)
            if not is_like(self.slots[target], value):
                raise NotAtOnceError
            self._only_before(np.not_equal(number_of(value), expected), 1)

    def _only_before(self, differs: np.ndarray, more: int = 0) -> None:
        """Leave the rounds before the first where something is different, and `more` of them."""
        if differs.any():
            self.rounds = min(self.rounds, int(differs.argmax()) + more)

    def _same(self, value: Any) -> Any:
        """A value that has to be the same in every round: that of the first."""
        if isinstance(value, np.ndarray):
            self._only_before(value != value[0])
            return value[0].item()
        if isinstance(value, Register):
            raise NotAtOnceError
        return value

    # -- control ----------------------------------------------------------------------------------

    def follow(self) -> None:
        """Follow the round to its end."""
        pc, insts = self.loop.head + 1, self.program.insts
        self._count(scalar=True)  # the test
        while pc != self.loop.end:
            inst = insts[pc]
            if len(self._plan) > MOST_STEPS or self.rounds < 1:
                raise NotAtOnceError
            if inst.kind is Kind.VECTOR:
                self._count(scalar=False)
                self._vector(inst)
                pc += 1
                continue
            self._count(scalar=True)
            form: Any = form_of(inst.run)
            if inst.kind is Kind.BRANCH:
                pc = self._branch(form)
            else:
                self._scalar(inst, form)
                pc += 1
        self._count(scalar=True)  # the advance, and the way back
        self._count(scalar=True)
        self._check_guesses()

    def _count(self, *, scalar: bool) -> None:
        self.length += 1
        self.scalars += scalar

    def _branch(self, form: tuple[Any, ...]) -> int:
        if form[0] == "jump":
            return form[1]
        if form[0] == "if":
            _, condition, then, otherwise = form
            return then if self._same(self.value(condition)) else otherwise
        _, variable, upper, body, after = form
        now, end = self.value(variable), self.value(upper)
        if isinstance(now, Register) or isinstance(end, Register):
            raise NotAtOnceError
        return (
            body if self._same(np.less(now, end) if is_series(now, end) else now < end) else after
        )

    def _scalar(self, inst: Inst, form: tuple[Any, ...]) -> None:
        if form[0] == "call":
            _, function, sources, result = form
            self._set(result, self._computed(inst, function, [self.value(s) for s in sources]))
        elif form[0] == "copy":
            self._copy(form[1], form[2])
        elif form[0] == "start":
            _, step, sources, targets = form
            if self._same(self.value(step)) <= 0:
                raise NotAtOnceError
            self._copy(sources, targets)
        else:
            _, variable, step, sources, targets = form
            self._copy(sources, targets)
            now, by = self.value(variable), self.value(step)
            if isinstance(now, Register) or isinstance(by, Register):
                raise NotAtOnceError
            self._set(variable, now + by)

    def _computed(self, inst: Inst, function: Any, given: list[Any]) -> Any:
        if not is_series(*given):
            if not all(type(v) in (int, bool) for v in given):
                raise NotAtOnceError
            return function(*given)
        many = OF_MANY.get(inst.operation.name)
        if many is None or not is_wide(inst.operation) or not all(map(is_small, given)):
            raise NotAtOnceError
        found = many(*given)
        if found is None or not is_small(found):
            raise NotAtOnceError
        return found

    def _set(self, slot: int, value: Any) -> None:
        self.values[slot] = value
        if isinstance(value, Register):
            self._told.pop(slot, None)

    def _copy(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> None:
        taken = [self.value(s) for s in sources]
        opaque = [
            pair for pair, value in zip(zip(sources, targets, strict=True), taken, strict=True)
            if isinstance(value, Register)
        ]  # fmt: skip
        for target, value in zip(targets, taken, strict=True):
            self._set(target, value)
        if opaque:
            step = copied(tuple(s for s, _ in opaque), tuple(t for _, t in opaque))
            self._plan.append(lambda rounds: step)

    # -- instructions -----------------------------------------------------------------------------

    def _vector(self, inst: Inst) -> None:
        what: Rows | None = as_rows(inst.run)
        if isinstance(what, Computed):
            self._compute(inst, what)
        elif isinstance(what, Load):
            self._load(what)
        elif isinstance(what, Store):
            self._store(what)
        elif isinstance(what, Counted):
            self._counted(what)
        elif isinstance(what, Known):
            if any(is_open(self.value(s)) for s in what.reads):
                raise NotAtOnceError
            what.run(self.values)  # type: ignore[arg-type]
        else:
            raise NotAtOnceError

    def _compute(self, inst: Inst, what: Computed) -> None:
        read = set(what.sources) | set(operand_slots(inst.operation, self.program))
        if what.mask is not None:
            read.add(what.mask)
        is_many = False
        for slot in read:
            value = self.value(slot)
            is_many |= value is MANY
            if not isinstance(value, Register):
                self._tell(slot, value)
        for target in what.targets:
            self._set(target, MANY if is_many else ONE)
        self._plan.append(lambda rounds: computed(what, rounds, is_many=is_many))

    def _tell(self, slot: int, value: Any) -> None:
        """Let the execution know a value that the round has given a slot."""
        if slot not in self.values or self._told.get(slot, self) is value:
            return
        if is_open(value):
            raise NotAtOnceError
        self._told[slot] = value
        step = told(slot, value)
        self._plan.append(lambda rounds: step)

    def _counted(self, what: Counted) -> None:
        count = self.value(what.source)
        if isinstance(count, np.ndarray):
            self._only_before(count < what.lanes)
            self._set(what.target, what.full)
            self._set(what.remaining, count - what.lanes)
        elif type(count) is int:
            what.run(self.values)  # type: ignore[arg-type]
        else:
            raise NotAtOnceError

    def _load(self, what: Load) -> None:
        starts = self._starts(what)
        many = isinstance(starts, np.ndarray)
        for target in what.targets:
            self._set(target, MANY if many else ONE)
        number = self._access(what, starts, 0, what.size)
        self._plan.append(
            lambda rounds: loaded(
                what.spread, what.targets, self._shape(number, rounds),
                keeps=self._is_overwritten(number),
            )
        )  # fmt: skip

    def _store(self, what: Store) -> None:
        starts = self._starts(what)
        first, end = 0, what.size
        if what.mask is not None and what.active is not None:
            mask = self.value(what.mask)
            if is_open(mask):
                raise NotAtOnceError
            first, end = window(what.active(mask), what.size, what.width)
        if first == end:
            return
        number = self._access(what, starts, first, end)
        part = None if (first, end) == (0, what.size) else slice(first, end)
        for slot in what.sources:
            if not isinstance(value := self.value(slot), Register):
                self._tell(slot, value)
        self._plan.append(
            lambda rounds: stored(what.image, what.sources, self._shape(number, rounds), part)
        )

    def _starts(self, what: Load | Store) -> np.ndarray | int:
        if what.when is not None and self.value(what.when[0]) != what.when[1]:
            raise NotAtOnceError
        starts = what.at(self.values)
        if isinstance(starts, np.ndarray):
            if starts.dtype != np.int64 or int(np.abs(starts).max()) >= LARGEST:
                raise NotAtOnceError
            if self.asked > 1:
                self._only_before(starts[1:] - starts[:-1] != starts[1] - starts[0], 1)
        elif type(starts) is not int:
            raise NotAtOnceError
        if what.unit > 1 and np.any(np.remainder(starts, what.unit)):
            raise NotAtOnceError
        return starts

    def _access(self, what: Load | Store, starts: np.ndarray | int, first: int, end: int) -> int:
        beyond = what.beyond if isinstance(what, Load) else 0
        self._accesses.append((what, starts, first, end))
        if beyond and int(np.max(starts)) + end + beyond > self.ub.size:
            raise NotAtOnceError
        return len(self._accesses) - 1

    # -- the end ----------------------------------------------------------------------------------

    def _shape(self, number: int, rounds: int) -> tuple[int, int, int, int]:
        _, starts, first, end = self._accesses[number]
        if not isinstance(starts, np.ndarray):
            return starts + first, 0, 1, end - first
        step = int(starts[1] - starts[0])
        return int(starts[0]) + first, step, rounds if step else 1, end - first

    def _range(self, number: int) -> tuple[int, int]:
        _, starts, first, end = self._accesses[number]
        if not isinstance(starts, np.ndarray):
            return starts + first, starts + end
        one, other = int(starts[0]), int(starts[self.rounds - 1])
        return min(one, other) + first, max(one, other) + end

    def _is_overwritten(self, number: int) -> bool:
        """True if the bytes of a load change, or are the same in every round."""
        if self._shape(number, self.rounds)[1] == 0:
            return True
        low, high = self._range(number)
        for other in range(number + 1, len(self._accesses)):
            if isinstance(self._accesses[other][0], Store):
                start, end = self._range(other)
                if start < high and low < end:
                    return True
        return False

    def finished(self) -> Trace:
        """Return the rounds that can be executed at once."""
        rounds = self.rounds
        if rounds < 2:
            raise NotAtOnceError
        accesses = []
        for number, (what, starts, first, end) in enumerate(self._accesses):
            low, high = self._range(number)
            if low < 0 or high > self.ub.size:
                raise NotAtOnceError
            every = np.broadcast_to(np.asarray(starts, np.int64), (self.asked,))[:rounds] + first
            is_entry = end - first == what.entry
            accesses.append(Access(every, end - first, what.place, is_entry, what.pages_of_all))
        places = places_of_rounds(accesses, rounds)
        if isinstance(places, int):  # rounds before one that meets what they do
            self.rounds = places
            return self.finished()
        return Trace(
            rounds, [make(rounds) for make in self._plan], places, log_of(accesses, rounds),
            self.length, self.scalars, self._last(rounds),
        )  # fmt: skip

    def _last(self, rounds: int) -> list[tuple[int, Any]]:
        """What is known to be in slots after the last round, before the next one begins."""
        found = []
        for slot, value in self.values.items():
            if not isinstance(value, Register) and slot != self.loop.variable:
                found.append((slot, of_round(value, rounds - 1)))
        handed = dict(found)
        found += [(t, handed[s]) for s, t in zip(self.loop.yielded, self.loop.carried, strict=True)
                  if s in handed]  # fmt: skip
        return found


def operand_slots(op: Operation, program: DecodedProgram) -> list[int]:
    """Return the slots of the operands of an instruction."""
    found = []
    for bound in op.bound.values():
        for operand in bound if isinstance(bound, list) else (bound,):
            slot = program.slots.get(getattr(operand, "value", None))  # type: ignore[arg-type]
            if slot is not None:
                found.append(slot)
    return found


FAULTS = (NotAtOnceError, OpFault, ScalarFault, OverflowError)
"""What following a round may raise: it is executed, and told of, by itself. An array of addresses
has no place for one beyond 64 bits; a round by itself says that it is outside of UB."""
