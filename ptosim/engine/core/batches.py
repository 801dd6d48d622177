"""Rounds of a loop in a vector region that have nothing to do with one another, executed at once:
registers of all rounds are the rows of an array.

A loop is taken if its body is integer arithmetic on addresses, whole loads and stores, and
computations lane by lane, without anything that one round hands to the next. Whether the rounds are
independent shows in their addresses, which are computed first: a store that meets bytes of another
round, bytes that nothing has ordered yet, a place outside UB, or a mask that leaves lanes out, and
nothing is done: the rounds are executed one after the other, with what there is to report. After a
batch UB, what is remembered of accesses, their log, and the slots are as after the last round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ptosim.engine.core.records import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import Form, form_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import REGISTER_BYTES, ScalarType
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.vector import PAGE_BITS, VectorWindow
from ptosim.semantics.micro.context import LaneWise, WholeAccess, as_rows
from ptosim.semantics.scalar.many import LARGEST, OF_MANY, is_small

FEWEST = 8
"""Rounds that are worth a batch."""
ATTEMPTS = 3
"""Batches of a loop that may fail before it is left alone."""
MOST = 1024
"""Rounds of one batch, whose registers stay in cache."""
MAX_PLANS = 256
"""Plans of a loop that are kept."""
_NONE: Any = object()


class _Accesses:
    """One load or store in every round: where it begins, the bytes from round to round, the first
    byte and the one after the last."""

    __slots__ = (
        "_of",
        "_views",
        "entry",
        "first",
        "high",
        "low",
        "pages",
        "starts",
        "step",
        "what",
    )

    def __init__(self, what: WholeAccess, starts: np.ndarray) -> None:
        self.what = what
        self.starts = starts
        self.first, last = int(starts[0]), int(starts[-1])
        self.step = int(starts[1]) - self.first
        self.low, self.high = min(self.first, last), max(self.first, last) + REGISTER_BYTES
        self.entry = what.place.entry(REGISTER_BYTES)
        self.pages = set((starts >> PAGE_BITS).tolist())
        self._of: VectorWindow | None = None
        self._views: tuple[np.ndarray, ...] = ()

    def is_same(self, other: _Accesses) -> bool:
        return self.first == other.first and self.step == other.step

    def meets(self, other: _Accesses) -> bool:
        """True if any two of their accesses have bytes in common."""
        if self.high <= other.low or other.high <= self.low:
            return False
        places = np.sort(other.starts)
        after = np.searchsorted(places, self.starts - (REGISTER_BYTES - 1))
        found = places[np.minimum(after, len(places) - 1)]
        return bool((np.abs(found - self.starts) < REGISTER_BYTES).any())

    def rows(self, ub: VectorWindow) -> tuple[np.ndarray, ...]:
        """The bytes of all rounds as rows of views: of the data, of what accessed them last, and of
        the marks of stores. They are made once for a core."""
        if self._of is not ub:
            self._of, self._views = ub, tuple(map(self._rows, (ub.data, ub.last, ub.marks)))
        return self._views

    def _rows(self, data: bytearray) -> np.ndarray:
        """A view of rows; of one place that does not change, a row."""
        size = REGISTER_BYTES
        if self.step == 0:
            return np.frombuffer(data, np.uint8, size, self.first)
        if self.step == size:
            count = len(self.starts)
            return np.frombuffer(data, np.uint8, size * count, self.first).reshape(count, size)
        every = np.frombuffer(data, np.uint8)[self.low : self.high]
        begin = every[self.first - self.low :]
        return np.lib.stride_tricks.as_strided(begin, (len(self.starts), size), (self.step, 1))


class Batches:
    """The loops of a program whose rounds may be executed at once, by the place of their heads."""

    def __init__(self, program: DecodedProgram) -> None:
        self._program = program
        self._known: dict[int, Batch | None] = {}
        self._failed: dict[int, int] = {}

    def at(self, head: int) -> Batch | None:
        """Return the loop that begins at `head`, None if its rounds are executed one by one."""
        if head not in self._known:
            self._known[head] = batch_of(self._program, head)
        return self._known[head]

    def run(self, core: Core, head: int, slots: list[Any], room: int) -> int:
        """Execute rounds of a loop at once; return how many. A loop that fails to be independent
        again and again is left alone."""
        batch = self.at(head)
        if batch is None:
            return 0
        rounds = batch.run(core, slots, room)
        if rounds >= 0:
            return rounds
        self._failed[head] = self._failed.get(head, 0) + 1
        if self._failed[head] >= ATTEMPTS:
            self._known[head] = None
        return 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where rounds reach, and what the scalar unit has computed after the last one: (slot,
    number)."""

    rounds: int
    accesses: tuple[_Accesses, ...]
    last: tuple[tuple[int, int], ...]


class Batch:
    """A loop whose rounds can be executed at once, if their addresses say so."""

    def __init__(self, head: Inst, body: list[Inst], step: int) -> None:
        self.variable, self.upper = _form(head)[1:3]
        self.step = step
        self.length = len(body) + 3  # with the test, the advance, and the way back
        self.scalars = 3 + sum(inst.kind is Kind.SCALAR for inst in body)
        self._arithmetic = [
            (OF_MANY[inst.operation.name], *_form(inst)[2:])
            for inst in body
            if inst.kind is Kind.SCALAR
        ]
        steps = (as_rows(inst.run) for inst in body if inst.kind is Kind.VECTOR)
        self._steps = [step for step in steps if step is not None]
        self._masks = {(s.mask, f"off{s.width}") for s in self._steps if s.mask is not None}
        self._inputs = _inputs(body, {self.variable})
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def run(self, core: Core, slots: list[Any], room: int) -> int:
        """Execute rounds at once, as many as may be, of at most `room` instructions. Returns their
        number, 0 if they are few, -1 if they are not to be executed at once."""
        start, step, upper = slots[self.variable], slots[self.step], slots[self.upper]
        if not all(type(number) is int for number in (start, step, upper)) or step <= 0:
            return -1
        rounds = min(-(-(upper - start) // step), room // self.length, MOST)
        if rounds < FEWEST:
            return 0
        if any(getattr(slots[mask], off) is not None for mask, off in self._masks):
            return -1
        key = (start, step, rounds, core.ub.size, *[slots[s] for s in self._inputs])
        plan = self._plans.get(key, _NONE)
        if plan is _NONE:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._plan(slots, core.ub, (start, step, rounds))
        if plan is None or _is_open(plan.accesses, core.ub):
            return -1
        self._execute(core.ub, list(slots), slots, plan)
        for slot, number in plan.last:
            slots[slot] = number
        slots[self.variable] = start + plan.rounds * step
        return plan.rounds

    # -- addresses --------------------------------------------------------------------------------

    def _plan(self, slots: list[Any], ub: VectorWindow, trip: tuple[int, int, int]) -> _Plan | None:
        """Compute where every load and store is, for as many rounds as each has one distance; None
        if a number is too large, a place outside UB, or a round in the way of another one."""
        start, step, rounds = trip
        if max(abs(start), abs(start + rounds * step)) >= LARGEST:
            return None
        numbers = list(slots)
        numbers[self.variable] = np.arange(start, start + rounds * step, step)
        if not self._computed(numbers):
            return None
        reached = [w for w in self._steps if isinstance(w, WholeAccess)]
        starts = [np.broadcast_to(np.asarray(w.at(numbers), np.int64), (rounds,)) for w in reached]
        for places in starts:
            distances = np.diff(places)
            other = np.flatnonzero(distances != distances[0])
            rounds = min(rounds, int(other[0]) + 1 if len(other) else rounds)
        accesses = tuple(_Accesses(w, p[:rounds]) for w, p in zip(reached, starts, strict=True))
        if rounds < FEWEST or not all(a.low >= 0 and a.high <= ub.size for a in accesses):
            return None
        if not _is_independent(accesses):
            return None
        last = [(result, numbers[result]) for _, _, result in self._arithmetic]
        return _Plan(
            rounds, accesses, tuple((t, int(v[rounds - 1] if np.ndim(v) else v)) for t, v in last)
        )

    def _computed(self, numbers: list[Any]) -> bool:
        """Compute what the scalar unit does, for all rounds; False if a number is too large."""
        for function, sources, result in self._arithmetic:
            given = [numbers[s] for s in sources]
            if not all(map(is_small, given)):
                return False
            found = function(*given)
            if found is None or not is_small(found):
                return False
            numbers[result] = found
        return True

    # -- execution --------------------------------------------------------------------------------

    def _execute(self, ub: VectorWindow, numbers: list[Any], slots: list[Any], plan: _Plan) -> None:
        """Execute the instructions one after the other, each for all rounds; leave in the slots
        what the last round does."""
        rounds = plan.rounds
        if ub.log is not None:
            codes = [a.entry + a.starts for a in plan.accesses]
            ub.log.frombytes(np.stack(codes, axis=1).tobytes())
        shadow = _Rows(numbers)
        left = iter(plan.accesses)
        for what in self._steps:
            if isinstance(what, LaneWise):
                for before in what.before:
                    before(shadow)  # type: ignore[arg-type]
                taken = [numbers[s] for s in what.sources]
                if any(t.ndim == 2 for t in taken):
                    taken = [
                        t if t.ndim == 2 else np.broadcast_to(t, (rounds, t.shape[0]))
                        for t in taken
                    ]
                target, rows = what.target, what.function(*taken)
            elif what.place.is_store:
                _store(ub, next(left), numbers[what.register])
                continue
            else:
                target, rows = what.register, _load(ub, next(left))
            numbers[target] = rows
            slots[target] = rows[rounds - 1].copy() if rows.ndim == 2 else rows


def _inputs(body: list[Inst], varying: set[int]) -> tuple[int, ...]:
    """The slots that decide where a loop reaches, and that it does not change."""
    made = varying | {slot for inst in body for slot in _made(inst)}
    found: set[int] = set()
    for inst in body:
        what = as_rows(inst.run)
        if inst.kind is Kind.SCALAR:
            found.update(_form(inst)[2])
        elif isinstance(what, WholeAccess):
            found.update(what.reads)
    return tuple(sorted(found - made))


def _form(inst: Inst) -> Form:
    form = form_of(inst.run)
    assert form is not None
    return form


class _Rows:
    """In the place of a core where an instruction only looks at slots."""

    __slots__ = ("slots",)

    def __init__(self, slots: list[Any]) -> None:
        self.slots = slots


def _is_independent(accesses: tuple[_Accesses, ...]) -> bool:
    """True if no store of a round meets an access of another one, nor a load after it."""
    for at, access in enumerate(accesses):
        if not access.what.place.is_store:
            continue
        if abs(access.step) < REGISTER_BYTES:
            return False
        for number, other in enumerate(accesses):
            if number == at or not access.meets(other):
                continue
            is_load_before = number < at and not other.what.place.is_store
            if not is_load_before or not access.is_same(other):
                return False
    return True


def _is_open(accesses: tuple[_Accesses, ...], ub: VectorWindow) -> bool:
    """True if a load reads what no barrier has ordered yet, or a store replaces it."""
    for at, access in enumerate(accesses):
        place = access.what.place
        if not place.is_store:
            if ub.marks.find(ub.interval, access.low, access.high) >= 0:
                return True
            continue
        before = [a for a in accesses[:at] if access.is_same(a)]
        if before:  # loaded in the same round
            if before[-1].what.place.number not in place.known:
                return True
            continue
        last = np.frombuffer(ub.last, np.uint8)[access.low : access.high]
        if (number := int(last.max())) and not _is_known_at(last, number, place.known):
            return True
    return False


def _is_known_at(last: np.ndarray, number: int, known: bytes) -> bool:
    if int(last.min()) == number:
        return number in known
    return not last.tobytes().translate(None, known)


def _load(ub: VectorWindow, access: _Accesses) -> np.ndarray:
    """The registers of all rounds, one if it is the same in every round."""
    data, last, _ = access.rows(ub)
    last.fill(access.what.place.number)
    ub.touched |= access.pages
    return data.copy().view(access.what.lanes)


def _store(ub: VectorWindow, access: _Accesses, value: np.ndarray) -> None:
    data, last, marks = access.rows(ub)
    np.copyto(data, np.ascontiguousarray(value).view(np.uint8))
    marks.fill(ub.interval)
    last.fill(access.what.place.number)
    ub.touched |= access.pages


# -- which loops -----------------------------------------------------------------------------------


def batch_of(program: DecodedProgram, head: int) -> Batch | None:
    """Return the loop that begins at `head` as a batch, None if its rounds are executed one by
    one."""
    form = form_of(program.insts[head].run)
    if form is None or form[0] != "for":
        return None
    body = program.insts[head + 1 : form[4] - 2]
    advance = form_of(program.insts[form[4] - 2].run)
    back = form_of(program.insts[form[4] - 1].run)
    if advance is None or advance[0] != "next" or advance[3] or back != ("jump", head):
        return None
    has_vector = any(inst.kind is Kind.VECTOR for inst in body)
    if not has_vector or not all(_is_known(inst) for inst in body):
        return None
    varying = {form[1]} | {slot for inst in body for slot in _made(inst)}
    if any(_takes_varying(inst, varying, program) for inst in body):
        return None
    return Batch(program.insts[head], body, advance[2])


def _is_known(inst: Inst) -> bool:
    if inst.kind is Kind.VECTOR:
        return as_rows(inst.run) is not None
    form = form_of(inst.run)
    is_call = inst.kind is Kind.SCALAR and form is not None and form[0] == "call"
    return is_call and inst.operation.name in OF_MANY and _is_wide(inst.operation)


def _is_wide(op: Operation) -> bool:
    """True for operations on signed numbers of 32 bits and more, which those computed here are in
    the range of."""
    values = [*op.results, *op.operand_values()]
    types = [v.type for v in values]
    return all(
        isinstance(t, ScalarType) and t.dtype.bits >= 32 and t.dtype.kind == "int" for t in types
    )


def _made(inst: Inst) -> Iterator[int]:
    if inst.kind is Kind.SCALAR:
        yield _form(inst)[3]
        return
    what = as_rows(inst.run)
    if isinstance(what, LaneWise):
        yield what.target
    elif isinstance(what, WholeAccess) and not what.place.is_store:
        yield what.register


def _takes_varying(inst: Inst, varying: set[int], program: DecodedProgram) -> bool:
    """True for a scalar in every lane, a mask or a pointer that changes from round to round."""
    if inst.kind is Kind.SCALAR:
        return False
    for name, operand in inst.operation.bound.items():
        value = getattr(operand, "value", None)
        if value is None or program.slots.get(value) not in varying:
            continue
        if name in ("mask", "src", "base") and isinstance(as_rows(inst.run), WholeAccess):
            return True
        if name == "mask" or (isinstance(value.type, ScalarType) and name != "offset"):
            return True
    return len(inst.operation.results) > len(list(_made(inst)))  # an updated pointer
