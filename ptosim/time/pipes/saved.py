"""The state of a timing model at a moment of a run, and the way back to it.

Records are only ever appended, so their number represents them, also where periods of them are
folded, and an archive keeps those that the way back cuts off for the way forward. Events keep their
identity, because steps that are executed again refer to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.records import NamedTuple
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.order import DataOrder
from ptosim.time.pipes.records import Records
from ptosim.time.pipes.signals import Given
from ptosim.time.pipes.steps import Flag, Step
from ptosim.time.pipes.timers import CoreTimer

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


def _go(core: CoreTimer | Given, extent: tuple[int, int], archive: Archive | None) -> None:
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
