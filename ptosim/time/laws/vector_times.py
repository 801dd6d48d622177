"""What the instructions of a region take out of order: figures of each, and of pairs of them."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import dataclass
from ptosim.time.laws.instructions import Timed
from ptosim.time.laws.shapes import VectorStep

BARRIER = "mem_bar"


@dataclass(frozen=True, slots=True)
class Times:
    """One instruction: cycles to its result, `load`, `store` or nothing, whether it writes a vector
    register, takes a place in the shared queue, has only the first port, and goes to the queue of
    special instructions; how many instructions of its loop read its register, -1 if others do."""

    latency: int
    memory: str
    takes_time: bool
    writes: bool
    queued: bool
    one_port: bool
    special: bool
    readers: int


class Pipeline:
    """The figures of the vector unit for the instructions of a region."""

    def __init__(
        self, steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
    ) -> None:
        self._steps = steps
        self._timed = found
        self._table = table
        self.width = self._figure("dispatch", "width")
        self.delay = self._figure("dispatch", "delay")
        self.registers = self._figure("registers", "count")
        self.release = self._figure("registers", "release")
        self.depth = self._figure("queue", "depth")
        self.leave = self._figure("queue", "release")
        self.port_depth = self._figure("port", "depth")
        self.port_width = self._figure("port", "width")
        self.in_flight = self._figure("in_flight", "count")
        self.loads = self._figure("loads", "ports")
        self.stores = self._figure("stores", "ports")
        self.beside = bool(self._figure("stores", "beside"))
        self.found = [
            _times(time, count) for time, count in zip(found, _readers(steps), strict=True)
        ]
        self.oldest = round(max((t.latency for t in found), default=0)) + self.release
        """Cycles after which it is all the same when something started."""
        self._intervals: dict[tuple[int, int], int] = {}
        self._distances: dict[tuple[int, int], int] = {}

    def _figure(self, row: str, name: str) -> int:
        return int(self._table[f"window.{row}"][name])

    def interval(self, before: int, after: int) -> int:
        """Return the cycles from the start of an instruction to that of another one on its port."""
        key = before, after
        if key not in self._intervals:
            self._intervals[key] = self._interval(before, after)
        return self._intervals[key]

    def _interval(self, before: int, after: int) -> int:
        first, then = self._timed[before], self._timed[after]
        row = self._table.rows.get(f"interval.{first.row} {then.row}")
        if row is not None:
            narrow = self._steps[after].bits <= 16
            return int(row.get("cycles16", row["cycles"]) if narrow else row["cycles"])
        if first.row == then.row:
            return max(round(first.on_port if first.one_port else first.busy), 1)
        return 2 if round(first.latency - then.latency) == 1 else 1

    def distance(self, before: int, after: int) -> int:
        """Return the cycles from the start of an instruction to that of a reader of its result."""
        key = before, after
        if key not in self._distances:
            self._distances[key] = self._distance(before, after)
        return self._distances[key]

    def _distance(self, before: int, after: int) -> int:
        if self._steps[after].name == BARRIER:
            return round(self._timed[before].latency)
        return handed_on(self._timed[before], self._timed[after], self._table)


def handed_on(first: Timed, then: Timed, table: CostTable) -> int:
    """Return the cycles from the start of an instruction to that of one that takes its result: its
    latency but for the last cycles, how many depends on both."""
    if not first.busy:
        return 0
    return max(round(first.latency) - _early(first, then, table), 0)


def _early(first: Timed, then: Timed, table: CostTable) -> int:
    window = {name: table[f"window.{name}"] for name in ("loads", "stores", "forward")}
    if first.memory == "load":
        return int(window["loads"]["early"]) - 2 * (then.memory == "store")
    if then.memory == "store":
        return int(window["stores"]["stored" if "stored" in first.unit else "early"])
    if "early" not in first.unit or "late" in then.unit:
        return int(table["function.forward"]["cycles"])
    return int(window["forward"]["select" if "select" in then.unit else "early"])


def _times(timed: Timed, readers: int) -> Times:
    takes_time = bool(timed.busy)
    return Times(
        round(timed.latency),
        timed.memory,
        takes_time,
        takes_time and timed.memory != "store" and "masks" not in timed.unit,
        takes_time and timed.memory != "load",
        timed.one_port,
        "special" in timed.unit,
        readers,
    )


def _readers(steps: Sequence[VectorStep]) -> list[int]:
    """How many instructions of its loop read what each makes; -1 if one of another loop does, which
    may read it any number of times."""
    readers = [0] * len(steps)
    for step in steps:
        for source in (*step.sources, *step.carried):
            if steps[source].loop != step.loop or step.times != steps[source].times:
                readers[source] = -1
            elif readers[source] >= 0:
                readers[source] += 1
    return readers
