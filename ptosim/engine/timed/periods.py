"""What a launch is at the head of a loop: everything that decides how it goes on, in time and in
the values of its cores, so that two rounds can be compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.fifo import Fifos, PipeEnd, Share, ShareKey
from ptosim.machine.moving import Blurred, Moving, line
from ptosim.machine.unknown import Unknown
from ptosim.machine.values import GmView, Pointer
from ptosim.time.pipes.state import Reading
from ptosim.time.pipes.timers import CoreTimer

COUNTERS = ("taken", "pushed", "issued", "popped", "freed")
"""Of a vector core's share of a FIFO."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A launch at the head of a loop: times, codes of records and their cores, what is no number;
    the values of the cores, the counters of FIFOs, records by core, repeats so far, instructions
    executed."""

    times: Sequence[Any]
    codes: Sequence[int]
    owners: Sequence[int]
    shape: tuple[Any, ...]
    slots: dict[int, list[Any]]
    fifos: dict[Any, tuple[int, ...]]
    records: tuple[int, ...]
    repeats: int
    executed: int


def moment_of(engine: Any, cores: Sequence[Core]) -> Moment:
    """Return what a launch is now, as far as these cores go; the others have ended."""
    reading, model, orders = Reading(), engine.timing.model, engine.timing.orders
    reading.model(model, orders, live_timers(engine))
    shape = (*reading.shape, *_control(engine, cores))
    return Moment(
        reading.times, reading.codes, reading.owners, shape,
        {core.index: list(core.slots) for core in cores},
        {key: _counted(share) for key, share in _shares(engine)},
        tuple(len(t.steps) + t.skipped for t in model.cores),
        sum(len(t.repeats) for t in model.cores),
        engine.executed,
    )  # fmt: skip


def held_back(engine: Any) -> int:
    """Return how many operations wait in the queues of the pipes."""
    return sum(len(q) for t in engine.timing.model.cores if t.blocked for q in t.queues if q)


def live_timers(engine: Any) -> list[CoreTimer]:
    """Return the pipes of the cores that go on, or still have to wait for something."""
    cores = engine.machine.cores
    return [t for t in engine.timing.model.cores if t.is_stuck or not cores[t.index].halted]


def _control(engine: Any, cores: Sequence[Core]) -> tuple[Any, ...]:
    """What of the cores is no value of the program: where they are, flags, counters."""
    found: list[Any] = [_items(engine.machine.global_counters)]
    found += [_items(cluster.counters) for cluster in engine.machine.clusters]
    for core in cores:
        stalled = core.stalled[0].pc if core.stalled is not None else -1
        queues = tuple((p, tuple(i.pc for i, _ in q)) for p, q in core.queues.items())
        found.append((
            core.pc, stalled, queues, _items(core.flags), _items(core.tokens),
            _items(core.registers), engine.scalars[core.index],
        ))  # fmt: skip
    return tuple(found)


def _items(counters: dict[Any, int]) -> tuple[Any, ...]:
    return tuple((key, number) for key, number in counters.items() if number)


def _shares(engine: Any) -> list[tuple[tuple[int, ShareKey], Share]]:
    return [
        ((number, key), share)
        for number, cluster in enumerate(engine.machine.clusters)
        for key, share in cluster.fifos.shares.items()
    ]


def _counted(share: Share) -> tuple[int, ...]:
    return tuple(getattr(share, name) for name in COUNTERS)


# -- FIFOs -----------------------------------------------------------------------------------------


def fifo_steps(engine: Any, moments: Sequence[Moment]) -> dict[Any, tuple[int, ...]] | None:
    """Return what the counters of each share gain in a period that leads from each moment to the
    next; None if they do not behave in the same way in each: all gain the same, as many as leave
    places and groups of slots as they are, after the first round of the slots."""
    found: dict[Any, tuple[int, ...]] = {}
    last = moments[-1].fifos
    for number, key in last:
        values = [m.fifos[number, key] for m in moments if (number, key) in m.fifos]
        if len(values) < len(moments):
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


def moved_values(old: Sequence[Any], before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """Return the values of a core as they move, after the same three times one period apart: those
    that stay are plain, numbers that gain the same are lines, of others nobody knows."""
    return [_moved(a, b, c) for a, b, c in zip(old, before, now, strict=True)]


def _moved(old: Any, before: Any, now: Any) -> Any:
    if now is before is old:
        return now
    kind = now.__class__
    if kind is int and before.__class__ is int and old.__class__ is int:
        step = now - before
        return line(now, step) if before - old == step else Blurred(now)
    if kind is before.__class__ is old.__class__ and not isinstance(now, Unknown):
        if kind is GmView and now[:2] == before[:2] == old[:2]:
            return _at(now, _moved(old[2], before[2], now[2]))
        if kind is Pointer and now[0] == before[0] == old[0]:
            return _at(now, _moved(old[1], before[1], now[1]))
        if kind in (bool, str, float, tuple, GmView, Pointer) and now == before == old:
            return now
    return Blurred(now)


def _at(handle: Any, place: Any) -> Any:
    if place.__class__ is Blurred:
        return Blurred(handle)
    return handle._replace(**{handle._fields[-1]: place})


def agrees(start: Any, end: Any) -> bool:
    """True if a value at the end of a period is what it was at the start, one period later."""
    if start.__class__ is Blurred:
        return end.__class__ is not Blurred
    if start.__class__ is Moving:
        return _is_next(start, end)
    if start is end:
        return True
    if start.__class__ is not end.__class__:
        return False
    if isinstance(start, (GmView, Pointer)):
        same = start[:-1] == end[:-1]
        return same and agrees(start[-1], end[-1])
    return start.__class__ in (bool, int, str, float, tuple) and start == end


def _is_next(start: Moving, end: Any) -> bool:
    return (
        end.__class__ is Moving and end.step == start.step and end.value == start.value + start.step
    )
