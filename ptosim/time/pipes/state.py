"""The state of a timing model: kept, for the way back to it, and walked through, as times, records
and a shape that can be compared and moved.

Records are only ever appended, so their number represents them, also where periods of them are
folded, and an archive keeps those that the way back cuts off for the way forward. Events keep their
identity, because steps that are executed again refer to them.

A `Walk` goes through everything that later operations depend on, always in the same order. It hands
every cycle to `time` and every record to `record` and puts back what they return; what is neither
goes into `shape`. So one walk reads the state, another one moves it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.fast import DataOrder
from ptosim.time.pipes.last_uses import HELD, Cells, Far, Given
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.records import Records
from ptosim.time.pipes.steps import Flag, Step
from ptosim.time.pipes.timers import CoreTimer, SignalRecords

Archive = dict[Any, Records]
"""Records as many as they ever were, by core or signal."""

_PER_PIPE = ("free", "done", "free_record", "done_record")
_PLAIN = ("clock", "blocked", "gate", "gate_record")


class SavedModel(NamedTuple):
    """Cores, events, regions of data, transfers that compete."""

    cores: tuple[dict[str, Any], ...]
    events: tuple[tuple[Flag, tuple[Any, ...]], ...]
    orders: tuple[Any, ...]
    pools: tuple[Any, ...]
    signals: dict[Any, int]


def save(model: TimingModel, orders: Sequence[DataOrder]) -> SavedModel:
    """Return the state of a model between two operations."""
    events = {id(f): f for f in _events(model, orders)}.values()
    return SavedModel(
        tuple(map(_saved_core, model.cores)),
        tuple((f, f.saved()) for f in events),
        tuple(order.save() for order in orders),
        model.pools.save(),
        model.signals.save(),
    )


def restore(
    model: TimingModel,
    orders: Sequence[DataOrder],
    saved: SavedModel,
    archive: Archive | None,
) -> None:
    """Go to another state of the same run. Without an archive it must be an earlier one, and what
    came after it is forgotten."""
    for event in model.flags.values():
        event.reset()
    model.signals.forget()
    for event, held in saved.events:
        event.set(*held)
        model.signals.put(event)
    for core, state in zip(model.cores, saved.cores, strict=True):
        _restore_core(core, state)
        _go(core, state["extent"], archive)
    for core in model.cores:
        _drop_later(core)
    for signal, given in model.signals.given.items():
        _go(given, (saved.signals.get(signal, 0), 0), archive)
    for order, state in zip(orders, saved.orders, strict=True):
        order.restore(state)
    model.pools.restore(saved.pools)
    model.ready.clear()


def _saved_core(core: CoreTimer) -> dict[str, Any]:
    state: dict[str, Any] = {name: getattr(core, name) for name in _PLAIN}
    state |= {name: list(getattr(core, name)) for name in _PER_PIPE}
    state["extent"] = core.extent
    state["queues"] = [q and list(q) for q in core.queues]
    state["backlog"] = list(core.backlog)
    state["stalled"] = {reason: list(each) for reason, each in core.stalled.items()}
    state["slowed"] = dict(core.slowed)
    return state


def _restore_core(core: CoreTimer, state: dict[str, Any]) -> None:
    for name in _PLAIN:
        setattr(core, name, state[name])
    for name in _PER_PIPE:  # in place: the fast issuers hold these lists
        getattr(core, name)[:] = state[name]
    core.queues[:] = [deque(q) if q is not None else None for q in state["queues"]]
    core.backlog = deque(state["backlog"])
    for reason, each in core.stalled.items():
        each[:] = state["stalled"].get(reason) or [0] * len(each)
    for reason in state["stalled"].keys() - core.stalled.keys():
        core.stalled[reason] = list(state["stalled"][reason])
    core.slowed = dict(state["slowed"])


def _go(core: CoreTimer | SignalRecords, extent: tuple[int, int], archive: Archive | None) -> None:
    """Have so many records, and waits after them; what is lacking comes from the archive."""
    if archive is not None:
        kept = archive.setdefault(core.index, Records())
        if core.extent > kept.extent:
            kept.become(core)
        if extent > core.extent:
            core.become(kept)
    core.cut(*extent)


def _drop_later(core: CoreTimer) -> None:
    """Of waits after the last record that were merged, drop those for what is not there: the last
    of many was kept, which may come later than the state that is gone to."""
    first = len(core.waits) - core.extent[1]
    if core.searched_waits <= first:
        return
    cores, sources = core.model.cores, core.wait_sources
    for at in range(len(sources) - 2, first - 2, -2):
        if sources[at + 1] >= cores[sources[at]].count:
            del sources[at : at + 2], core.waits[at : at + 2]
    core.searched_waits = min(core.searched_waits, len(core.waits))


def _events(model: TimingModel, orders: Sequence[DataOrder]) -> Iterator[Flag]:
    """Every event that can still be given or taken."""
    yield from model.flags.values()
    for order in orders:
        yield from order.events()
    for core in model.cores:
        held = [*core.backlog, *([core.gate] if core.gate is not None else [])]
        for queue in core.queues:
            held += queue or ()
        for step, _ in held:
            yield from _of(step)


def _of(step: Step) -> Iterator[Flag]:
    yield from step.takes
    yield from step.gives
    if step.then is not None:
        yield from _of(step.then)


# -- going through the state -----------------------------------------------------------------------


Time = Callable[[Any], Any]
"""From a cycle to the one that takes its place."""
Record = Callable[[int, int], int]
"""From a core and the code of one of its causes to the code that takes its place."""


class Walk:
    """One walk through the state of some cores of a model. `shape` is a tuple after it."""

    def __init__(self, time: Time, record: Record) -> None:
        self.time = time
        self.record = record
        self.shape: list[Any] = []
        self._seen: dict[int, int] = {}  # events without a name, by identity

    def model(
        self, model: TimingModel, orders: Sequence[DataOrder], cores: Iterable[CoreTimer]
    ) -> None:
        """Go through the cores, their events, and who used which bytes."""
        note = self.shape.append
        for timer in cores:
            self._core(timer)
            if orders:
                self._order(orders[timer.index])
        note(len(model.flags))
        for flag in model.flags.values():
            self._content(flag)

    # -- cores -------------------------------------------------------------------------------------

    def _core(self, timer: CoreTimer) -> None:
        time, record, index = self.time, self.record, timer.index
        timer.clock = time(timer.clock)
        for column in (timer.free, timer.done):
            column[:] = map(time, column)
        for codes in (timer.free_record, timer.done_record):
            codes[:] = [record(index, code) for code in codes]
        timer.gate_record = record(index, timer.gate_record)
        self.shape.append((index, timer.blocked))
        for queue in timer.queues:
            self.shape.append(-1 if queue is None else len(queue))
            for at, (step, issued) in enumerate(queue or ()):
                self._step(step)
                queue[at] = step, time(issued)  # type: ignore[index]
        if timer.gate is not None:
            step, issued = timer.gate
            self.shape.append("gate")
            self._step(step)
            timer.gate = step, time(issued)
        for step, scalars in timer.backlog:
            self.shape.append(("backlog", scalars))
            self._step(step)

    def _step(self, step: Step) -> None:
        self.shape.append((id(step.base), step.drains, len(step.takes), len(step.gives)))
        for flag in (*step.takes, *step.gives):
            self._flag(flag)

    # -- events ------------------------------------------------------------------------------------

    def _flag(self, flag: Flag) -> None:
        """An event that something refers to; one with a name has its turn among all."""
        if flag.key is not None:
            self.shape.append(id(flag))
            return
        number = self._seen.get(id(flag))
        if number is None:
            self._seen[id(flag)] = number = len(self._seen)
            self._content(flag)
        self.shape.append(("event", number))

    def _content(self, flag: Flag) -> None:
        self.shape.append((len(flag.times), len(flag.held), len(flag.waiters)))
        for entries in (flag.times, flag.held):
            for at, (when, core, record) in enumerate(entries):
                self.shape.append(core)
                entries[at] = self.time(when), core, self.record(core, record)
        for timer, pipe in flag.waiters:
            self.shape.append((timer.index, pipe))

    # -- bytes -------------------------------------------------------------------------------------

    def _order(self, order: DataOrder) -> None:
        self.shape.append(order.version)
        reaches: dict[int, Any] = {}
        for name, memory in order.near.items():
            self._cells(order.timer.index, name, memory, reaches)
        for reach in reaches.values():
            reach.given = self._given(order.timer.index, reach.given)
        for buffer in order.far.values():
            self._far(buffer)

    def _cells(self, core: int, name: Any, memory: Cells, reaches: dict[int, Any]) -> None:
        for cell in memory.cells:
            self.shape.append((name, cell.first, cell.end, cell.wrote, cell.read, len(cell.past)))
            for filling in cell.past:
                self.shape.append(tuple(filling))
                for key, given in filling.items():
                    filling[key] = self._given(core, given)
            for last in cell.uses.values():
                last.given = self._given(core, last.given)
                reaches.update((id(reach), reach) for reach in last.uses.values())

    def _given(self, core: int, given: Given) -> Given:
        when, by = given
        if when >= HELD:
            self._flag(by)
            return given
        self.shape.append(when >= 0)
        return (self.time(when), self.record(core, by)) if when >= 0 else given

    def _far(self, buffer: Far) -> None:
        """Of global memory the time of the last use decides if anybody has to look further."""
        buffer.settle()
        self.shape.append(tuple(buffer.used))
        for key, spans in buffer.spans.items():
            is_held = spans.latest >= HELD
            self.shape.append((key, is_held))
            if not is_held:
                spans.latest = self.time(spans.latest)


class Reading(Walk):
    """A walk that reads: `times`, `codes` of records (with their cores), and the shape."""

    def __init__(self) -> None:
        self.times: list[Any] = []
        self.codes: list[int] = []
        self.owners: list[int] = []
        super().__init__(self._time, self._record)

    def _time(self, when: Any) -> Any:
        self.times.append(when)
        return when

    def _record(self, core: int, code: int) -> int:
        self.codes.append(code)
        self.owners.append(core)
        return code


class Writing(Walk):
    """A walk that puts other times and codes into the places of a reading."""

    def __init__(self, times: Iterable[Any], codes: Iterable[int]) -> None:
        next_time, next_code = iter(times).__next__, iter(codes).__next__
        super().__init__(lambda when: next_time(), lambda core, code: next_code())
