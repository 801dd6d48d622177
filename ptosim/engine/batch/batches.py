"""Rounds of a loop in a vector region that have nothing to do with one another, executed at once:
registers of all rounds are the rows of an array.

Whether the rounds are independent, and where they reach, is known before they are executed: from
numbers, pointers and masks, which do not depend on what registers hold (`trace`, `places`). It is
found out once for the values that it depends on. Where a load meets what nothing has ordered yet,
in a place outside UB, or after a few loops that turned out to be dependent, rounds are executed one
after the other, with what there is to report. After a batch UB, what is remembered of accesses,
their log, and the slots are as after the last round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ptosim.engine.batch.steps import KNOWN, NotAtOnceError, Values, of_last_round
from ptosim.engine.batch.trace import FAULTS, Loop, Trace, follow, operand_slots
from ptosim.engine.core.bound import DecodedProgram, Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.ground.ir.types import PtrType, ScalarType
from ptosim.machine.core import Core
from ptosim.ops.micro.context import as_rows

if TYPE_CHECKING:
    from ptosim.engine.batch.tile_loops import TileLoop

FEWEST = 8
"""Rounds that are worth a batch."""
WORTH = 300
"""Instructions of a batch that are worth a plan of its own; one that comes again is in any case."""
ATTEMPTS = 3
"""Batches of a loop that may fail before it is left alone."""
MOST = 256
"""Rounds of one batch, whose registers stay in cache."""
MAX_PLANS = 256
"""Plans of a loop that are kept."""

_FORMS = {
    Kind.SCALAR: frozenset(("call", "copy", "start", "next")),
    Kind.BRANCH: frozenset(("for", "if", "jump")),
}
_NONE: Any = object()


class Batches:
    """The loops of a program whose rounds may be executed at once, by the place of their heads."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._program = engine, engine.program
        self.known: dict[int, Batch | TileLoop | None] = {}
        """By head; None where rounds are executed one by one."""
        self._failed: dict[int, int] = {}

    def at(self, head: int) -> Batch | TileLoop | None:
        """Return the loop that begins at `head`, None if its rounds are executed one by one."""
        if head not in self.known:
            self.known[head] = self._batch_of(head)
        return self.known[head]

    def _batch_of(self, head: int) -> Batch | TileLoop | None:
        loop = loop_of(self._program, head)
        if loop is None:
            return None
        body = self._program.insts[loop.head + 1 : loop.end]
        if any(inst.kind is Kind.VECTOR for inst in body):
            return batch_of(self._program, loop)
        if not self._engine.is_bare or not any(inst.kind is Kind.EXEC for inst in body):
            return None
        from ptosim.engine.batch.tile_loops import TileLoop  # of runs for values alone

        return TileLoop(self._engine, loop)

    def run(self, core: Core, head: int, slots: list[Any], room: int) -> tuple[int, int]:
        """Execute rounds of a loop at once, of at most `room` instructions; return how many
        instructions they were, and the scalar ones among them. A loop that fails to be independent
        again and again is left alone."""
        batch = self.at(head)
        if batch is None:
            return 0, 0
        try:
            trace = batch.run(core, slots, room)
        except NotAtOnceError:  # of tile operations, for good
            self.known[head] = trace = None
        if trace is None:
            return 0, 0
        if trace is not FAILED:
            return trace.rounds * trace.length, trace.rounds * trace.scalars
        self._failed[head] = self._failed.get(head, 0) + 1
        if self._failed[head] >= ATTEMPTS:
            self.known[head] = None
        return 0, 0


FAILED: Any = object()
"""What a batch gives whose rounds have to be executed one after the other."""


class Batch:
    """A loop whose rounds can be executed at once, if their places say so."""

    def __init__(self, program: DecodedProgram, loop: Loop) -> None:
        self._program, self._loop = program, loop
        insts = program.insts[loop.head : loop.end + 1]
        self._inputs = tuple(
            sorted({s for inst in insts for s in _read(inst, program)} | {*loop.carried})
        )
        self._length = len(insts)
        self._plans: dict[tuple[Any, ...], Trace | None] = {}
        self._seen: set[int] = set()

    def run(self, core: Core, slots: list[Any], room: int) -> Trace | None:
        """Execute rounds at once, as many as may be, of at most `room` instructions. Returns what
        they did; None if they are few, FAILED if they are not to be executed at once."""
        loop = self._loop
        start, step, upper = slots[loop.variable], slots[loop.step], slots[loop.upper]
        if not type(start) is type(step) is type(upper) is int or step <= 0:
            return FAILED
        rounds = min(-(-(upper - start) // step), room // self._length, MOST)
        if rounds < FEWEST:
            return None
        trace = self._plan(slots, core, rounds)
        if trace is _FEW:
            return None
        if trace is None or trace.rounds < FEWEST:
            return FAILED
        if trace.rounds * trace.length > room:
            return None
        if trace.places.is_open(core.ub):
            return FAILED
        _execute(trace, core, slots)
        slots[loop.variable] = start + trace.rounds * step
        return trace

    def _plan(self, slots: list[Any], core: Core, rounds: int) -> Trace | None:
        """Return what rounds do, None if they depend on one another. A plan is made for many
        rounds, or the second time."""
        values = [slots[s] for s in self._inputs]
        key = (
            rounds, slots[self._loop.variable], core.ub.size,
            *[v if v.__class__ in KNOWN else None for v in values],
        )  # fmt: skip
        trace = self._plans.get(key, _NONE)
        if trace is not _NONE:
            return trace
        if rounds * self._length < WORTH and (seen := hash(key)) not in self._seen:
            self._seen.add(seen)
            return _FEW
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        try:
            trace = follow(self._program, self._loop, slots, core.ub, rounds)
        except FAULTS:
            trace = None
        if trace is not None:
            self._length = max(self._length, trace.length)
        self._plans[key] = trace
        return trace


def _execute(trace: Trace, core: Core, slots: list[Any]) -> None:
    """Execute the steps one after the other, each for all rounds; leave in the slots what the last
    round does."""
    ub = core.ub
    trace.log.write(ub)
    values = Values(slots)
    for step in trace.steps:
        step(values, ub)
    trace.places.note(ub)
    for slot, value in values.items():
        slots[slot] = of_last_round(value)
    for slot, value in trace.last:
        slots[slot] = value


# -- which loops -----------------------------------------------------------------------------------


def loop_of(program: DecodedProgram, head: int) -> Loop | None:
    """Return the counted loop that begins at `head`, None if there is none."""
    form = form_of(program.insts[head].run)
    if form is None or form[0] != "for":
        return None
    _, variable, upper, _, after = form
    end = after - 2
    advance, back = (form_of(program.insts[at].run) for at in (end, end + 1))
    if advance is None or advance[0] != "next" or back != ("jump", head):
        return None
    _, _, step, yielded, carried = advance
    return Loop(head, end, variable, upper, step, yielded, carried)


def batch_of(program: DecodedProgram, loop: Loop) -> Batch | None:
    """Return a loop in a vector region as a batch, None if its rounds are executed one by one."""
    if not all(map(_is_taken, program.insts[loop.head + 1 : loop.end])):
        return None
    _, *handed = program.insts[loop.head].operation.regions[0].blocks[0].values
    if not all(isinstance(value.type, ScalarType | PtrType) for value in handed):
        return None
    return Batch(program, loop)


def _is_taken(inst: Inst) -> bool:
    if inst.kind is Kind.VECTOR:
        return as_rows(inst.run) is not None
    form = form_of(inst.run)
    return form is not None and form[0] in _FORMS.get(inst.kind, ())


def _read(inst: Inst, program: DecodedProgram) -> Iterator[int]:
    """The slots that decide what an instruction does before it is executed."""
    if inst.kind is Kind.VECTOR:
        yield from operand_slots(inst.operation, program)
        return
    form: tuple[Any, ...] = form_of(inst.run) or ("",)
    match form[0]:
        case "call":
            yield from form[2]
        case "copy":
            yield from form[1]
        case "start":
            yield from (form[1], *form[2])
        case "next":
            yield from (form[1], form[2], *form[3])
        case "for":
            yield from form[1:3]
        case "if":
            yield form[1]


_FEW = Trace(0, [], None, None, 0, 0, [])  # type: ignore[arg-type]
