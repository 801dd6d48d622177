"""The trace of a launch in the Chrome Trace Event format, as chrome://tracing and Perfetto open it.

A process for each core, a track for each pipe, a slice for each operation, a flow arrow from the
operation that gave an event to the first one after the wait for it, and counters of the bytes
that are under way, of the bandwidth that they take, of UB in use, and of the tiles in FIFOs.

The format counts microseconds, and viewers keep whole nanoseconds: with the unit `cycles` a cycle
is a nanosecond, so that every operation has its exact length; with `us` times are those of the
target's clock, where an operation of one cycle lasts less than a nanosecond and vanishes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from ptosim.time.pipes.steps import PIPES
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.figures import Figures

Change = tuple[int, int]
"""A cycle, and by how much the level changes there."""

LARGEST = 1 << 24
"""Bytes of a range that is a tile; vector regions, which may touch all of UB, are no tiles."""


def levels(core: CoreTimer) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """Yield every counter of a core: name, unit, and (cycle, level) in the order of time."""
    for name, unit, changes in (
        ("bytes in flight", "bytes", _in_flight(core)),
        ("GM bandwidth", "bytes in 100 cycles", _bandwidth(core)),
        ("UB bytes", "bytes", _occupied(core)),
    ):
        if changes:
            yield name, unit, _sums(changes)


def _sums(changes: list[Change]) -> list[tuple[int, int]]:
    level = 0
    found: dict[int, int] = {}
    for cycle, change in sorted(changes):
        level += change
        found[cycle] = level
    return list(found.items())


def _in_flight(core: CoreTimer) -> list[Change]:
    """Bytes that transfers of global memory under way move."""
    changes = []
    for step, start, done in zip(core.steps, core.starts, core.dones, strict=True):
        if step.cost.moved is not None:
            size = step.cost.moved.bytes
            changes += [(start, size), (done, -size)]
    return changes


def _bandwidth(core: CoreTimer) -> list[Change]:
    """What transfers of global memory under way move in 100 cycles, each evenly while it lasts."""
    changes = []
    for step, start, done in zip(core.steps, core.starts, core.dones, strict=True):
        if step.cost.moved is not None and done > start:
            rate = round(100 * step.cost.moved.bytes / (done - start))
            changes += [(start, rate), (done, -rate)]
    return changes


def _occupied(core: CoreTimer) -> list[Change]:
    """Bytes of UB that hold data of use. Bytes of overlapping tiles count once for each tile."""
    changes: list[Change] = []
    for place, spans in lifetimes(core).items():
        if place[0] == "vec":
            size = place[2] - place[1]
            changes += [change for a, b in spans for change in ((a, size), (b, -size))]
    return changes


Place = tuple[str, int, int]
"""A memory on chip, the first byte, and one past the last."""


def lifetimes(core: CoreTimer) -> dict[Place, list[tuple[int, int]]]:
    """Return when each place on chip that operations name holds data of use, in cycles: from when
    it is filled to when it is used last before it is filled anew."""
    open_: dict[Place, tuple[int, int]] = {}
    found: dict[Place, list[tuple[int, int]]] = {}
    rows = sorted(zip(core.starts, core.dones, range(len(core.steps)), strict=True))
    for start, done, number in rows:
        ranges = core.steps[number].ranges or ((), ())
        reads = {place for place in ranges[0] if _is_tile(*place)}
        writes = {place for place in ranges[1] if _is_tile(*place)}
        for place in writes - reads:
            if place in open_:
                found.setdefault(place, []).append(open_.pop(place))
        for place in reads | writes:
            first, last = open_.get(place, (start, done))
            open_[place] = (first, max(last, done))
    for place, span in open_.items():
        found.setdefault(place, []).append(span)
    return found


def _is_tile(space: object, low: int, high: int) -> bool:
    return isinstance(space, str) and high - low < LARGEST


def fifo_levels(cores: list[CoreTimer]) -> Iterator[tuple[int, str, list[tuple[int, int]]]]:
    """Yield the depth of every FIFO, one for each vector core that takes part: the core that
    pushes, a name, and (cycle, tiles pushed and not yet taken)."""
    changes: dict[tuple[Any, ...], list[Change]] = {}
    pushers: dict[tuple[Any, ...], int] = {}
    for core in cores:
        for step, start, done in zip(core.steps, core.starts, core.dones, strict=True):
            for flag in step.gives:
                if _is_data(flag.key):
                    changes.setdefault(flag.key, []).append((done, 1))
                    pushers[flag.key] = core.index
            for flag in step.takes:
                if _is_data(flag.key):
                    changes.setdefault(flag.key, []).append((start, -1))
    for key, found in changes.items():
        *_, direction, vector = key
        yield pushers.get(key, 0), f"FIFO depth {direction} AIV{vector}", _sums(found)


def _is_data(key: object) -> bool:
    return isinstance(key, tuple) and bool(key) and key[0] == "fifo"


# -- events ----------------------------------------------------------------------------------------


UNITS = ("cycles", "us")
"""What times of a trace are: a cycle as a nanosecond, or microseconds of the target's clock."""


LEFT_OUT = len(PIPES)
"""The track of rounds that are not shown."""


def trace_events(report: Figures, unit: str = UNITS[0]) -> list[dict[str, Any]]:
    """Return all events, those of a track in the order of time. Raises ValueError for a unit that
    there is not."""
    if unit not in UNITS:
        raise ValueError(f"the unit of a trace is one of {', '.join(UNITS)}, not {unit}")
    per = report.mhz if unit == "us" else 1000.0  # cycles of a microsecond in the trace
    events: list[dict[str, Any]] = []
    flows = _Flows(report, per)
    for core in report.model.cores:
        events += _names(core)
        events += _slices(core, per)
        events += _left_out(core, per)
        for name, unit, levels_ in levels(core):
            events += _counter(per, core.index, name, unit, levels_)
        events += flows.of(core)
    for pid, name, found in fifo_levels(report.model.cores):
        events += _counter(per, pid, name, "tiles", found)
    return events


def _names(core: CoreTimer) -> list[dict[str, Any]]:
    used = sorted({step.pipe for step in core.steps})
    events = [_meta("process_name", core.index, 0, {"name": core.name})]
    events.append(_meta("process_sort_index", core.index, 0, {"sort_index": core.index}))
    for pipe in used:
        events.append(_meta("thread_name", core.index, pipe, {"name": PIPES[pipe]}))
        events.append(_meta("thread_sort_index", core.index, pipe, {"sort_index": pipe}))
    return events


def _meta(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _slices(core: CoreTimer, per: float) -> list[dict[str, Any]]:
    """A slice ends where its pipe takes the next operation, so slices of a track never overlap; the
    result may come later, which `latency` in the arguments says."""
    events = []
    columns = zip(core.steps, core.starts, core.ends, core.dones, strict=True)
    for step, start, end, done in columns:
        site = step.site
        args = {
            "line": site.line,
            "source": site.text,
            "cycles": step.cost.cycles,
            "start_cycle": start,
            "busy": end - start,
            "latency": done - end,
            "confidence": step.cost.confidence,
        }
        if site.loop is not None:
            args["loop"] = site.loop.label
        event = {
            "ph": "X", "name": site.mnemonic, "cat": step.cost.class_name, "pid": core.index,
            "tid": step.pipe, "ts": start / per, "dur": (end - start) / per, "args": args,
        }  # fmt: skip
        events.append(event)
    return events


def _left_out(core: CoreTimer, per: float) -> list[dict[str, Any]]:
    """A slice on a track of its own for the rounds of a loop that repeat, where none is shown."""
    events: list[dict[str, Any]] = []
    for repeat in (each for outer in core.repeats for each in outer.tree()):
        each = max(repeat.starts)
        start = core.starts[repeat.place] + each
        args = {"line": repeat.line, "rounds": repeat.rounds, "cycles": each}
        events.append({
            "ph": "X", "name": repeat.name, "cat": "repeat", "pid": core.index, "tid": LEFT_OUT,
            "ts": start / per, "dur": each * repeat.count / per, "args": args,
        })  # fmt: skip
    if events:
        events.insert(0, _meta("thread_name", core.index, LEFT_OUT, {"name": "left out"}))
    return events


def _counter(
    per: float, pid: int, name: str, unit: str, levels: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    return [
        {
            "ph": "C", "name": name, "pid": pid, "tid": 0,
            "ts": cycle / per, "args": {unit: level},
        }
        for cycle, level in levels
    ]  # fmt: skip


class _Flows:
    """Arrows from whoever gave an event to the next operation of the pipe that waited."""

    def __init__(self, report: Figures, per: float) -> None:
        self.cores = report.model.cores
        self.per = per
        self._count = 0

    def of(self, core: CoreTimer) -> list[dict[str, Any]]:
        """Return the arrows that end on a core."""
        events: list[dict[str, Any]] = []
        for waiter, giver, record in _waits(core):
            source = self.cores[giver]
            self._count += 1
            common = {"name": "event", "cat": "sync", "id": self._count}
            start, end = source.start(record), core.starts[waiter]
            events.append(
                {**common, "ph": "s", "pid": giver, "tid": source.step(record).pipe,
                 "ts": start / self.per}
            )  # fmt: skip
            events.append(
                {**common, "ph": "f", "bp": "e", "pid": core.index,
                 "tid": core.steps[waiter].pipe, "ts": end / self.per}
            )  # fmt: skip
        return events


def _waits(core: CoreTimer) -> list[tuple[int, int, int]]:
    """Return which records of a core waited for others: record, and the core and the record that it
    waited for. Where data order the program that is whatever an operation started after on another
    pipe."""
    found = set()
    following = _following(core)
    for number in range(0, len(core.waits), 2):
        giver, record = core.wait_sources[number], core.wait_sources[number + 1]
        waiter = following(core.waits[number], core.waits[number + 1])
        if record >= 0 and waiter is not None:
            found.add((waiter, giver, record))
    if core.by_data:
        steps = core.steps
        for waiter, cause in enumerate(core.causes):
            if cause >= 0 and core.step(cause).pipe != steps[waiter].pipe:
                found.add((waiter, core.index, cause))
    return sorted(found)


def _following(core: CoreTimer) -> Any:
    """Return a function from a position and a pipe to the first record of that pipe at or after
    it."""
    numbers: dict[int, list[int]] = {}
    for number, step in enumerate(core.steps):
        numbers.setdefault(step.pipe, []).append(number)

    def find(position: int, pipe: int) -> int | None:
        known = numbers.get(pipe, [])
        at = bisect_left(known, position)
        return known[at] if at < len(known) else None

    return find
