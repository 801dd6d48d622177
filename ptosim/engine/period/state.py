"""What a launch is at the head of a loop: everything that decides how it goes on, in time and in
the values of its cores, so that rounds can be compared; and what it is so many periods later."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.symbolic import numbers_of
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.affine import (
    NO_LINE,
    Affine,
    Finder,
    NeedsValue,
    Opaque,
    Unknown,
    is_same,
    later,
    line,
    moves,
    now,
    settled,
    step_of,
)
from ptosim.machine.core import Core, Fifos, PipeEnd, Share, ShareKey
from ptosim.machine.values import GmView, Pointer

if TYPE_CHECKING:
    from ptosim.time.pipes.timers import CoreTimer

COUNTERS = ("taken", "pushed", "issued", "popped", "freed")
"""Of a vector core's share of a FIFO."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A launch at the head of a loop: times, codes of records and their cores, what is no number;
    the values of the cores, the counters of FIFOs, by core the records so far and those of them
    that are kept, instructions executed."""

    times: Sequence[Any]
    codes: Sequence[int]
    owners: Sequence[int]
    shape: tuple[Any, ...]
    slots: dict[int, list[Any]]
    fifos: dict[Any, tuple[int, ...]]
    records: tuple[int, ...]
    kept: tuple[int, ...]
    executed: int


def state_of(engine: Any, cores: Sequence[Core]) -> State:
    """Return what a launch is now, as far as these cores go; the others have ended."""
    from ptosim.time.pipes.state import Reading  # a check, which has no time, does without

    reading, model, orders = Reading(), engine.timing.model, engine.timing.orders
    reading.model(model, orders, live_timers(engine))
    shape = (*reading.shape, *control_of(engine, cores))
    return State(
        reading.times, reading.codes, reading.owners, shape,
        {core.index: list(core.slots) for core in cores},
        fifos_of(engine),
        tuple(t.count for t in model.cores),
        tuple(len(t.steps) for t in model.cores),
        engine.executed,
    )  # fmt: skip


def held_back(engine: Any) -> int:
    """Return how many operations wait in the queues of the pipes."""
    return sum(len(q) for t in engine.timing.model.cores if t.blocked for q in t.queues if q)


def live_timers(engine: Any) -> list[CoreTimer]:
    """Return the pipes of the cores that go on, or still have to wait for something."""
    cores = engine.machine.cores
    return [t for t in engine.timing.model.cores if t.is_stuck or not cores[t.index].halted]


def control_of(engine: Any, cores: Sequence[Core]) -> tuple[Any, ...]:
    """Return what of the cores is no value of the program: where they are, flags, counters."""
    found: list[Any] = [_items(engine.machine.global_counters)]
    found += [_items(cluster.counters) for cluster in engine.machine.clusters]
    for core in cores:
        stalled = core.stalled[0].pc if core.stalled is not None else -1
        queues = tuple((p, tuple(i.pc for i, _ in q)) for p, q in core.queues.items())
        found.append((
            core.pc, stalled, queues, _items(core.flags), _items(core.tokens),
            _items(core.token_lines), _items(core.registers), engine.scalars[core.index],
        ))  # fmt: skip
    return tuple(found)


def _items(counters: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple((key, held) for key, held in counters.items() if held)


def fifos_of(engine: Any) -> dict[Any, tuple[int, ...]]:
    """Return the counters of each share of a FIFO."""
    return {key: _counted(share) for key, share in _shares(engine)}


def _shares(engine: Any) -> list[tuple[tuple[int, ShareKey], Share]]:
    return [
        ((number, key), share)
        for number, cluster in enumerate(engine.machine.clusters)
        for key, share in cluster.fifos.shares.items()
    ]


def _counted(share: Share) -> tuple[int, ...]:
    return tuple(getattr(share, name) for name in COUNTERS)


# -- evenness --------------------------------------------------------------------------------------


def is_even(old: State, before: State, last: State) -> bool:
    """True if times, records and what is kept of them move by the same amounts from each state to
    the next, and everything else stays."""
    if not old.shape == before.shape == last.shape:
        return False
    if not all(map(_is_even, old.times, before.times, last.times)):
        return False
    gains = _gains(before.records, last.records)
    if gains != _gains(old.records, before.records):
        return False
    if _gains(before.kept, last.kept) != _gains(old.kept, before.kept):
        return False
    codes = zip(old.codes, before.codes, last.codes, last.owners, strict=True)
    return all(c - b == b - a and _is_gain(c, c - b, owner, gains) for a, b, c, owner in codes)


def _is_even(old: Any, before: Any, last: Any) -> bool:
    """True if numbers move by the same amount, which no outer loop changes."""
    gain, first = last - before, before - old
    return gain.__class__ is first.__class__ is int and gain == first


def _gains(before: Sequence[int], last: Sequence[int]) -> list[int]:
    return [b - a for a, b in zip(before, last, strict=True)]


def _is_gain(code: int, step: int, core: int, gains: list[int]) -> bool:
    """True if a cause stays, or is the same one of the next period."""
    if step == 0:
        return True
    if code >= 0:
        return step == gains[core]
    return code < -1 and step == -(gains[(-2 - code) & 0xFFFF] << 16)


def same_records(timers: Sequence[CoreTimer], start: State, end: State) -> bool:
    """True if the records since the end of a period are those of the period before it, with causes
    that move as records do."""
    gains = _gains(start.records, end.records)
    kept = _gains(start.kept, end.kept)
    return all(_same_of(timer, length, gains) for timer, length in zip(timers, kept, strict=True))


def _same_of(timer: CoreTimer, length: int, gains: list[int]) -> bool:
    last = len(timer.steps)
    if last < 2 * length:
        return False
    first, before = last - length, last - 2 * length
    if timer.steps[first:last] != timer.steps[before:first]:
        return False
    for at in range(first, last):
        code = timer.causes[at]
        if not _is_gain(code, code - timer.causes[at - length], timer.index, gains):
            return False
    repeats = timer.repeats_from(before)
    earlier = [repeat for repeat in repeats if repeat.place < first]
    later_ = repeats[len(earlier) :]
    return len(earlier) == len(later_) and all(
        a.is_like(b, length) for a, b in zip(earlier, later_, strict=True)
    )


def total_after(before: Any, after: Any, level: int, periods: int) -> Any:
    """A counter after so many periods more, each of which adds more by the same amount."""
    if before.__class__ is int and after.__class__ is int:
        return after + (after - before) * periods
    gain = after - before
    grows = step_of(gain, level)
    return settled(after, level) + (
        settled(gain, level) * periods + grows * (periods * (periods + 1) // 2)
    )


# -- FIFOs -----------------------------------------------------------------------------------------


def fifo_gains(engine: Any, states: Sequence[Any]) -> dict[Any, tuple[int, ...]] | None:
    """Return what the counters of each share gain in a period that leads from each state to the
    next; None if they do not behave in the same way in each: all gain the same, as many as leave
    places and groups of slots as they are, after the first round of the slots."""
    found: dict[Any, tuple[int, ...]] = {}
    last = states[-1].fifos
    for number, key in last:
        values = [m.fifos[number, key] for m in states if (number, key) in m.fifos]
        if len(values) < len(states):
            return None
        gains = {
            tuple(b - a for a, b in zip(x, y, strict=True)) for x, y in itertools.pairwise(values)
        }
        if len(gains) != 1:
            return None
        (gain,) = gains
        found[number, key] = gain
        if any(gain) and not _keeps(engine.machine.clusters[number].fifos, key, values[0], gain):
            return None
    return found


def _keeps(fifos: Fifos, key: ShareKey, before: Any, gain: tuple[int, ...]) -> bool:
    pushed, popped, freed = gain[1], gain[3], gain[4]
    same = pushed == popped == freed and all(g in (0, pushed) for g in gain)
    ends: list[PipeEnd] = [end for (_, k), end in fifos.ends.items() if k == key.fifo]
    if not same or not ends:
        return False
    most = max(end.slot_num for end in ends)
    sizes = (n for e in ends for n in (e.slot_num, e.period, e.local_slot_num) if n)
    return max(before[0], before[1]) >= most and pushed % math.lcm(*sizes) == 0


def move_fifos(engine: Any, gains: dict[Any, tuple[int, ...]], periods: int) -> None:
    """Let the counters gain what they do in so many periods."""
    for key, share in _shares(engine):
        for name, gain in zip(COUNTERS, gains.get(key, ()), strict=False):
            setattr(share, name, getattr(share, name) + gain * periods)


# -- values of the program -------------------------------------------------------------------------


def affine_values(states: Sequence[Any], core: int, level: int) -> list[Any]:
    """Return the values of a core as they move, after three states one period apart: those that
    stay are what they are, numbers that gain the same are affine, of others nobody knows."""
    slots = (state.slots[core] for state in states)
    return [_affine(a, b, c, level) for a, b, c in zip(*slots, strict=True)]


def _affine(old: Any, before: Any, last: Any, level: int) -> Any:
    if last is before is old:
        return last
    kinds = {value.__class__ for value in (old, before, last)}
    if kinds <= {int, Affine}:
        is_line = _is_even(old, before, last)
        return line(last, last - before, level) if is_line else Opaque(last, level)
    kind = last.__class__
    if len(kinds) == 1 and not isinstance(last, Unknown):
        if kind is GmView and last[:2] == before[:2] == old[:2]:
            return _at(last, _affine(old[2], before[2], last[2], level))
        if kind is Pointer and last[0] == before[0] == old[0]:
            return _at(last, _affine(old[1], before[1], last[1], level))
        if kind in (bool, str, float, tuple, GmView, Pointer) and last == before == old:
            return last
    return Opaque(last, level)


def _at(handle: Any, place: Any) -> Any:
    if place.__class__ is Opaque:
        return Opaque(handle, place.level)
    return handle._replace(**{handle._fields[-1]: place})


def agrees(start: Any, end: Any, level: int) -> bool:
    """True if a value at the end of a period is what it was at the start, one period later."""
    if start.__class__ is Opaque and start.level == level:
        return end.__class__ is not Opaque
    if start is end and (start.__class__ is Opaque or not moves(start)):
        return True
    kinds = {start.__class__, end.__class__}
    if kinds <= {int, Affine}:
        return is_same(start + step_of(start, level), end)
    if len(kinds) > 1:
        return False
    if isinstance(start, (GmView, Pointer)):
        same = start[:-1] == end[:-1]
        return same and agrees(start[-1], end[-1], level)
    return start.__class__ in (bool, str, float, tuple) and start == end


def opaque_results(
    engine: Any, core: Core, inst: Inst, levels: Sequence[int], *, windows: bool = False
) -> bool:
    """Let the results of an instruction that needs a number that moves be such that nobody knows
    how they move; False where it is no instruction that computes numbers. `windows`: those that
    only begin elsewhere may be such, too."""
    results = numbers_of(engine.program, inst)
    if results is None and windows:
        results = window_of(engine, core, inst)
    if not levels or results is None:
        return False
    made = on_present_values(core, inst, results)
    for slot, value in zip(results, made, strict=True):
        for level in levels:
            value = Opaque(value, level)
        core.slots[slot] = value
    return True


def on_present_values(core: Core, inst: Inst, results: Sequence[int]) -> list[Any]:
    """Return what an instruction leaves in the slots `results` on what its operands are now."""
    kept = list(core.slots)
    core.slots[:] = map(now, kept)
    try:
        inst.run(core.slots if inst.kind is Kind.SCALAR else core)
        return [core.slots[slot] for slot in results]
    finally:
        core.slots[:] = kept


def window_of(engine: Any, core: Core, inst: Inst) -> tuple[int, ...] | None:
    """The slot of a window of a known size; None for anything else."""
    op, slots = inst.op, engine.program.slots
    if op is None or not op.has("window"):
        return None
    sizes = [o.value for o in op.bound.get("sizes") or () if o.value in slots]
    if any(moves(core.slots[slots[value]]) for value in sizes):
        return None
    return tuple(slots[value] for value in op.results)


def times_after(state: State, level: int, periods: int) -> list[Any]:
    """Return the times of a state so many periods later."""
    return [later(when, level, periods) for when in state.times]


def distances_of(value: Any, numbers: bool, free: bool, levels: range) -> list[int]:
    """Return by how many bytes a window of global memory moves in a period of each level. Raises
    NeedsValue for an operand that decides what an operation takes."""
    kind = value.__class__
    if free and kind in (GmView, Pointer) and value.memory.__class__ is int:
        bits = value.spec.dtype.bits if kind is GmView else 8
        place = value[-1]
        gains = [step_of(place, level) * bits for level in levels]
        if place.__class__ is Affine and not any(gain % 8 for gain in gains):
            return [gain // 8 for gain in gains]
    elif numbers and kind in (Affine, Opaque):
        return [0 for _ in levels]
    raise NeedsValue(NO_LINE)


# Heads of loops: the branch that tests whether another round comes, at which round a counted loop
# is, and whether it pays to look for a period of it.


MOST_ROUNDS = 24
"""Rounds of the longest period that is looked for."""

LEAST_LEFT = 32
"""Rounds that a loop has to have left for a trial to pay, if they are short."""

FEW, LONG = 8, 20_000
"""Rounds that any loop has to have left, and instructions that those of one with fewer rounds than
LEAST_LEFT have together."""

MOST_EXECUTED = 40_000
"""Instructions of the longest period that is looked for."""

START, NEVER = 2, 1 << 62
SOON = 2
"""Visits of a head until it is looked at next; a visit that looks counts again."""


@dataclass(slots=True, eq=False)
class Head:
    """The head of a loop on one core: what the launch was at its last rounds, the round that it is
    at, the visits until the next trial if this one fails, whether its rounds turned out to be
    short, and with how many instructions in them those of a loop of few rounds are long."""

    finder: Finder[Any]
    round: int = 0
    gap: int = 4 * MOST_ROUNDS
    is_short: bool = False
    long: int = LONG

    def pays(self, left: int, executed: int) -> bool:
        """True if a loop has enough to execute in the rounds that are left, now that so many
        instructions were executed."""
        if left >= LEAST_LEFT:
            return True
        states = self.finder.states
        if left >= FEW and states and not self.is_short:
            self.is_short = (executed - states[-1].executed) * left < self.long
        return left >= FEW and not self.is_short

    @property
    def is_over(self) -> bool:
        """True if a period would be too long, in rounds or in instructions."""
        states = self.finder.states
        if len(states) > 2 * MOST_ROUNDS:
            return True
        return len(states) > 1 and states[-1].executed - states[-2].executed > MOST_EXECUTED


class Bounds(NamedTuple):
    """The first value of a counted loop, the one that it does not reach, its step, and the value
    that it is at."""

    lower: int
    upper: int
    step: int
    at: int

    @property
    def left(self) -> int:
        """The rounds that are left with the present one."""
        return -((self.at - self.upper) // max(self.step, 1))

    @property
    def round(self) -> int:
        """The number of the present round, from 1."""
        return (self.at - self.lower) // max(self.step, 1) + 1


def heads_of(insts: list[Inst]) -> list[Inst]:
    """Return the tests of the loops outside of vector regions: of the branches of a loop the first
    one."""
    inside = {pc for i in insts if i.kind is Kind.REGION for pc in range(i.pc, i.end)}
    tests = {id(i.op): i for i in reversed(insts) if _is_head(i) and i.pc not in inside}
    return sorted(tests.values(), key=lambda inst: inst.pc)


def _is_head(inst: Inst) -> bool:
    return inst.kind is Kind.BRANCH and inst.op is not None and inst.op.has("loop")


def bounds_of(engine: Any, inst: Inst, core: Core) -> Bounds | None:
    """Return where a counted loop is; None for another loop, or one whose bounds are not known."""
    op, slots = inst.operation, engine.program.slots
    if not op.has("counted"):
        return None
    found = []
    for name in ("lower", "upper", "step"):
        operand = op.bound[name]
        found.append(operand.const if operand.value is None else core.slots[slots[operand.value]])
    found.append(core.slots[slots[op.regions[0].blocks[0].values[0]]])
    found = list(map(now, found))
    return Bounds(*found) if all(v.__class__ is int for v in found) else None
