"""Rounds of a loop of tile operations, executed at once where nothing but values is asked for.

A period of the loop (of as many rounds as it has buffers in turn) is followed on affine numbers
(`machine.affine`): its control flow, scalars, views and flags are executed, its tile operations
noted with windows that move. If it ends where it began, one step farther on, it goes on like that
for as many periods as the horizon says, and `stacks` executes those. The last period is executed as
usual, so that what is on chip afterwards is what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.engine.batch.stacks import Stacks
from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.engine.batch.trace import Loop
from ptosim.engine.batch.windows import Step, side_by_side
from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.symbolic import numbers_of
from ptosim.engine.period.state import agrees, opaque_results
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.affine import (
    Horizon,
    NeedsValue,
    Opaque,
    Unknown,
    later,
    line,
    moves,
    now,
    step_of,
)
from ptosim.machine.core import Core
from ptosim.machine.effects.account import acts_on_memory
from ptosim.machine.effects.storage import role_of
from ptosim.machine.gm import addresses
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.functions import EVENTS
from ptosim.ops.base.orders import Barrier, SetFlag, WaitFlag
from ptosim.ops.scalar.numbers import ScalarFault

FEWEST = 4
"""Periods that are worth it."""
ROUNDS = (1, 2, 3, 4, 5, 6)
"""Rounds of the periods that are tried."""
MOST_FOLLOWED = 600
"""Instructions of a period of several rounds that are followed."""
MOST_OF_ROUND = 2500
"""Those of a period of one, in which a loop may be."""
WORTH, SEEN = 300, 3
"""Instructions of rounds that are worth being followed when a loop comes for the first times: most
rounds of one in another loop are executed with those of that one."""
MOST_PLANS = 8
"""Stacks of a loop that are kept."""
MOST_WAIT = 256
"""Visits that a loop is left alone for at most, where its periods turned out to be few."""

_HANDLES = (
    "handle", "window", "view", "points_into", "same_storage", "makes_storage", "picks_slot",
    "sets_valid", "pure", "tells_core",
)  # fmt: skip
"""Traits of operations of the scalar unit that do nothing but make values."""
_FAULTS = (NotAtOnceError, NeedsValue, OpFault, ScalarFault, TypeError, AttributeError, ValueError,
           OverflowError, LookupError)  # fmt: skip
"""What following a period on numbers that move may raise: the rounds are executed as usual."""
_SCALARS = (int, float, bool, str)


class AnotherLengthError(Exception):
    """A period of so many rounds does not end as it began; one of more rounds may."""


class Done(NamedTuple):
    """What was executed: so many times so many instructions; see `trace.Trace`."""

    rounds: int
    length: int
    scalars: int = 0


@dataclass(slots=True, eq=False)
class _Period:
    """A period as it was followed: its tile operations with their operands, its instructions, the
    slots that it began with."""

    steps: list[tuple[Inst, tuple[Any, ...]]]
    length: int
    begun: list[Any]


class TileLoop:
    """A loop of tile operations."""

    def __init__(self, engine: Any, loop: Loop) -> None:
        self._engine, self._loop = engine, loop
        self._own = frozenset(_slots_of(engine.program, loop))
        self._rounds: int | None = None  # of a period; None: not known yet
        self._plans: dict[Any, Stacks | None] = {}
        self._wait, self._gap, self._seen = 0, 1, 0

    def run(self, core: Core, slots: list[Any], room: int) -> Done | None:
        """Execute periods at once, as many as may be, of at most `room` instructions. Returns what
        was done, None if nothing was. Raises NotAtOnceError if it is never to be tried again."""
        if not self._engine.is_bare:
            raise NotAtOnceError
        left = self._left(slots)
        if left < FEWEST + 1 or self._is_left(left):
            return None
        for rounds in ROUNDS if self._rounds is None else (self._rounds,):
            if left < rounds * (FEWEST + 1):
                break
            try:
                done = self._attempt(core, rounds, room)
            except AnotherLengthError:
                continue
            except _FAULTS as fault:
                raise NotAtOnceError from fault
            if done is not None:
                self._rounds, self._gap = rounds, 1
                return done
        self._wait, self._gap = self._gap, min(2 * self._gap, MOST_WAIT)
        if self._rounds is None and self._gap == MOST_WAIT:
            raise NotAtOnceError
        return None

    def _is_left(self, rounds: int) -> bool:
        """True if it is not tried this time."""
        if rounds * (self._loop.end - self._loop.head) < WORTH and self._seen < SEEN:
            self._seen += 1
            return True
        if self._wait:
            self._wait -= 1
            return True
        return False

    def _left(self, slots: list[Any]) -> int:
        """The rounds that are left."""
        loop = self._loop
        start, step, upper = slots[loop.variable], slots[loop.step], slots[loop.upper]
        if not start.__class__ is step.__class__ is upper.__class__ is int or step <= 0:
            raise NotAtOnceError
        return -((start - upper) // step)

    def _attempt(self, core: Core, rounds: int, room: int) -> Done | None:
        kept, flags = core.slots, dict(core.flags)
        gains = self._gains(core, rounds) if self._loop.carried else {}
        level = Horizon.begin()
        try:
            core.slots = self._moving(kept, gains, rounds, level)
            period = self._followed(core, rounds, level, begun=list(core.slots))
            most = Horizon.levels[-1]
            if core.flags != flags:
                raise AnotherLengthError
        except BaseException:
            core.flags.clear()
            core.flags.update(flags)
            raise
        finally:
            Horizon.end()
            core.slots = kept
        periods = min(most, room // period.length)
        if periods < FEWEST:
            raise AnotherLengthError
        done = self._executed(core, period, level, periods)
        for at, value in enumerate(period.begun):
            if at not in self._own:
                kept[at] = later(value, level, done)
        return Done(done, period.length) if done else None

    # -- one period --------------------------------------------------------------------------------

    def _gains(self, core: Core, rounds: int) -> dict[int, Any]:
        """What the slots that rounds hand on hold after a period."""
        kept, flags = core.slots, dict(core.flags)
        core.slots = list(kept)
        try:
            self._walked(core, rounds, 0)
            return {slot: core.slots[slot] for slot in self._loop.carried}
        finally:
            core.flags.clear()
            core.flags.update(flags)
            core.slots = kept

    def _moving(
        self, slots: list[Any], after: dict[int, Any], rounds: int, level: int
    ) -> list[Any]:
        """The slots as they move: what the body computes is nobody's before it is computed."""
        loop = self._loop
        made = [Opaque(v, level) if at in self._own else v for at, v in enumerate(slots)]
        for slot in loop.carried:
            made[slot] = _moved(slots[slot], after[slot], level)
        made[loop.variable] = line(slots[loop.variable], slots[loop.step] * rounds, level)
        return made

    def _followed(self, core: Core, rounds: int, level: int, begun: list[Any]) -> _Period:
        period = self._walked(core, rounds, level)
        own, slots = self._own, core.slots
        ends = (agrees(v, slots[at], level) for at, v in enumerate(begun) if at not in own)
        if not all(ends):
            raise AnotherLengthError
        period.begun = begun
        return period

    def _walked(self, core: Core, rounds: int, level: int) -> _Period:
        """Follow a period from the head of the loop to where it comes to the head again."""
        insts, slots = self._engine.program.insts, core.slots
        head, end = self._loop.head, self._loop.end + 1
        period, pc = _Period([], 0, []), head
        most = MOST_FOLLOWED if rounds > 1 else MOST_OF_ROUND
        while rounds:
            if not head <= pc <= end:
                raise AnotherLengthError
            if period.length > most:
                raise NotAtOnceError
            inst = insts[pc]
            period.length += 1
            if inst.kind is Kind.BRANCH:
                pc = inst.run(slots)
                rounds -= pc == head
                continue
            self._one(core, inst, period, level)
            pc += 1
        return period

    def _one(self, core: Core, inst: Inst, period: _Period, level: int) -> None:
        if inst.kind is Kind.EXEC:
            operands = inst.getter(core.slots)
            if inst.operation.name in EVENTS:
                self._event(core, inst, operands)
            else:
                period.steps.append((inst, operands))
            return
        op = inst.operation
        if inst.kind is Kind.ACTION:
            if acts_on_memory(op, self._engine.profile.target) or not any(map(op.has, _HANDLES)):
                raise NotAtOnceError
        elif inst.kind is not Kind.SCALAR:
            raise NotAtOnceError
        try:
            inst.run(core.slots if inst.kind is Kind.SCALAR else core)
        except NeedsValue:
            if not level or numbers_of(self._engine.program, inst) is None:
                raise
            opaque_results(self._engine, core, inst, (level,))

    def _event(self, core: Core, inst: Inst, operands: Any) -> None:
        """A flag or a barrier: after a period the flags are as before it."""
        if moves(operands if operands.__class__ is tuple else (operands,)):
            raise AnotherLengthError
        bound = self._engine.bound(core, inst)
        binding = bound.binding
        is_flag = isinstance(binding.sync, SetFlag | WaitFlag | Barrier)
        if not is_flag or bound.at_issue is not None or binding.signals or binding.awaits:
            raise NotAtOnceError
        if bound.guard is not None and not bound.guard():
            raise NotAtOnceError
        bound.commit()

    # -- many of them ------------------------------------------------------------------------------

    def _executed(self, core: Core, period: _Period, level: int, periods: int) -> int:
        """Execute so many periods; return how many were. Raises NotAtOnceError."""
        if not period.steps:  # barriers and flags alone, which are then as before
            return periods
        steps = [_step(inst, operands, level) for inst, operands in period.steps]
        offsets = [s.values[s.window].offset if s.window else 0 for s in steps]
        keys = [_key(step) for step in steps]
        target = self._engine.profile.target
        joined, places = side_by_side(steps, keys, offsets, target)
        if len(joined) < len(steps):
            try:
                return self._stacked(core, joined, places, periods)
            except (NotAtOnceError, OpFault):
                pass
        return self._stacked(core, steps, offsets, periods)

    def _stacked(
        self, core: Core, steps: Sequence[Step], offsets: Sequence[int], periods: int
    ) -> int:
        keys = [_key(step) for step in steps]
        length, inner = _block(keys, offsets)
        repeats = len(steps) // length
        block = list(zip(steps[:length], zip(keys[:length], inner, strict=True), strict=True))
        key = (repeats, *(each for _, each in block))
        if key not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            firsts = {each: at for at, (_, each) in reversed(list(enumerate(block)))}
            made = [s._replace(inner=each[1], first=firsts[each]) for s, each in block]
            self._plans[key] = Stacks(self._engine, core, made, repeats)
        stacks = self._plans[key]
        assert stacks is not None
        buffers = self._engine.machine.buffers
        bases = addresses(buffers)
        starts = [
            bases[w.buffer]
            + offsets[w.step] * steps[w.step].values[steps[w.step].window].spec.dtype.bits // 8
            for w in stacks.windows
        ]
        done = stacks.run(offsets, starts, periods)
        if not done:
            raise NotAtOnceError
        return done


def _step(inst: Inst, operands: Any, level: int) -> Step:
    """An operation with what its operands are in the first period. Raises NotAtOnceError for
    operands that move in another way than windows do."""
    flat = operands if operands.__class__ is tuple else (operands,)
    if len(inst.operands) == 1:
        flat = (operands,)
    if any(isinstance(slot, tuple) for _, slot in inst.operands):
        raise NotAtOnceError
    values, window, stride = {}, "", None
    for (name, _), value in zip(inst.operands, flat, strict=True):
        if value.__class__ is GmView:
            if window:
                raise NotAtOnceError
            window, stride = name, step_of(value.offset, level)
            value = now(value)
        elif value is not None and not isinstance(value, (TileRef, *_SCALARS)):
            raise NotAtOnceError
        values[name] = value
    if stride == 0 and role_of(inst.operation, window) is not Role.IN:
        raise NotAtOnceError  # every period writes the same bytes
    return Step(inst, values, window, stride)


def _block(keys: Sequence[Any], offsets: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """After how many steps a period does the same again, to its end, and by how much their windows
    move from time to time: all of its steps if it never does, and by nothing."""
    count = len(keys)
    again = (at for at in range(1, count // 2 + 1) if count % at == 0 and keys[at] == keys[0])
    for length in again:
        if any(keys[at] != keys[at - length] for at in range(length, count)):
            continue
        ways = [offsets[at + length] - offsets[at] for at in range(length)]
        if all(
            offsets[at] - offsets[at - length] == ways[at % length] for at in range(length, count)
        ):
            return length, tuple(ways)
    return count, (0,) * count


def _key(step: Step) -> tuple[Any, ...]:
    """What the execution of a step depends on beside the place of its window."""
    values = (
        (v.spec, v.memory) if v.__class__ is GmView
        else (v.__class__, v.hex()) if isinstance(v, float)
        else (v.__class__, v)
        for v in step.values.values()
    )  # fmt: skip
    return step.inst.pc, step.stride, *values


def _moved(before: Any, after: Any, level: int) -> Any:
    """A value that a period hands on, as it moves if it always gains what it does in this one."""
    kind = before.__class__
    if kind is not after.__class__ or isinstance(before, Unknown):
        raise AnotherLengthError
    if kind is int:
        return line(before, after - before, level)
    if kind in (GmView, Pointer) and before[:-1] == after[:-1]:
        return before._replace(
            **{before._fields[-1]: line(before[-1], after[-1] - before[-1], level)}
        )
    if before is not after and before != after:
        raise AnotherLengthError
    return before


def _slots_of(program: Any, loop: Loop) -> Iterator[int]:
    """The slots of what the rounds of a loop compute, and do not hand on."""
    kept = {loop.variable, *loop.carried}
    for inst in program.insts[loop.head + 1 : loop.end]:
        op = inst.op
        regions = op.regions if op is not None else ()
        inner = (value for region in regions for block in region.blocks for value in block.values)
        for value in (*(op.results if op is not None else ()), *inner):
            slot = program.slots.get(value)
            if slot is not None and slot not in kept:
                yield slot
