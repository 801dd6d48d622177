"""How long a launch takes as it is measured: the cores, L2, HBM and the head together.

The cycles of the cores are what the pipes take. All cores together draw their bytes through L2, and
lines that L2 does not have through HBM, where reads and writes are one account. None of the three
can be exceeded; where two are near each other they add up in part: the root of a sum of powers. In
front is the head of a task, and blocks start one after the other: while the last ones start, L2 and
HBM are at work for the first, so only what cores do is later for it. A profiler measures the task
(`device`), launches in a row share what the queue takes between them (`back_to_back`), and an eager
call takes what the host needs (`wall`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import exp, hypot, inf, log1p
from typing import Any

from ptosim.ground.isa.costs import GIB, limit_spreads, spreads
from ptosim.ground.records import dataclass
from ptosim.time.laws.cost import SHARED
from ptosim.time.pipes.records import busy_until
from ptosim.time.pipes.steps import BANDWIDTH, PIPES
from ptosim.time.report.figures import COLD, Figures

MIB = 1 << 20
CUBE, VECTOR, CORE, L2, HBM, LAUNCH = "cube", "vector", "core", "L2", "HBM", "launch"
_OF_PIPE = {"M": CUBE, "V": VECTOR}


@dataclass(frozen=True, slots=True)
class Between:
    """A time in microseconds, and between which it is expected."""

    us: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return it as data."""
        return {"us": round(self.us, 3), "low": round(self.low, 3), "high": round(self.high, 3)}


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """The times of a launch and what they are made of, in microseconds. `hbm_bytes` go through HBM,
    `l2_bytes` through L2 (what all cores transfer), `unique_bytes` are those of all lines that are
    touched. No launch is faster than `bound_us`, the greatest of `bounds`; `limit` is what took
    longest: cube, vector, core (a port of it), L2, HBM or launch (the head)."""

    device: Between
    back_to_back: Between
    wall: Between
    limit: str
    start: str
    core_us: float
    l2_us: float
    hbm_us: float
    head_us: float
    bounds: dict[str, float]
    unique_bytes: int
    l2_bytes: int
    hbm_bytes: int
    every_transfer: bool

    @property
    def bound_us(self) -> float:
        """No launch of these bytes and operations is faster."""
        return max(self.bounds.values(), default=0.0)

    @property
    def of_bound(self) -> float:
        """The part of the time that the bound is."""
        return self.bound_us / self.device.us if self.device.us else 0.0

    def times(self) -> dict[str, dict[str, float]]:
        """Return the three times as data."""
        return {
            "device": self.device.to_dict(),
            "back_to_back": self.back_to_back.to_dict(),
            "wall": self.wall.to_dict(),
        }

    def memory(self) -> dict[str, Any]:
        """Return the account of memory as data."""
        return {
            "start": self.start,
            "bound_us": round(self.bound_us, 3),
            "bounds": {name: round(us, 3) for name, us in self.bounds.items()},
            "unique_bytes": self.unique_bytes,
            "l2_bytes": self.l2_bytes,
            "hbm_bytes": self.hbm_bytes,
            "core_us": round(self.core_us, 3),
            "l2_us": round(self.l2_us, 3),
            "hbm_us": round(self.hbm_us, 3),
            "head_us": round(self.head_us, 3),
            "every_transfer": self.every_transfer,
        }


def launch_times(report: Figures, assumed: float = 0.0) -> LaunchTimes:
    """Return the times of a launch. `assumed` is how far its cycles may be off, relative, by
    figures that are assumed."""
    table, touched = report.table, report.footprint
    core = report.microseconds
    moved = sum(report.moved().values()) + report.added
    far = from_hbm(report, report.start)
    l2_us = moved / _rate(report, "machine.l2")
    hbm_us = far / (_rate(report, "machine.hbm") * _share(report))
    power = table["machine.mix"]["power"]
    served = sum(same_address(report).values()) if report.bound.endswith(" MTE2") else 0
    adding = adding_in_turn(report)
    served = (served + adding) / report.mhz
    front, each = _head(report)
    device = front + _root((started(report, core, each) + served, l2_us, hbm_us), power)
    work = _root((core + served, l2_us, hbm_us), power)
    head = device - work
    after = table["machine.next"]
    row = max(after["floor_us"], device + after["us"])
    host = table["machine.host"]
    limit = LAUNCH if head > work else _limit(report, core, l2_us, hbm_us)
    bounds = _bounds(report, moved, l2_us)
    least = max(bounds.values())
    limits = {_limit(report, 1.0, 0, 0): core + served, L2: l2_us, HBM: hbm_us}
    in_turn = adding / report.mhz * spreads()["assumed"]
    open_us = hypot(core * assumed, in_turn) / max(core + served, 1e-9)
    width = _width(limits, open_us, head, power)

    def between(us: float) -> Between:
        return Between(us, max(us * exp(-width), least), us * exp(width))

    in_row = between(row)
    in_row = Between(row, max(in_row.low, after["floor_us"]), in_row.high)
    wall = Between(
        max(host["us"], row), max(host["low_us"], in_row.low), max(host["high_us"], in_row.high)
    )
    return LaunchTimes(
        between(device), in_row, wall, limit, report.start,
        core, l2_us, hbm_us, head, bounds, touched.unique, moved, round(far),
        touched.every_transfer,
    )  # fmt: skip


def _width(limits: dict[str, float], assumed: float, head: float, power: float) -> float:
    """How far a time may be off, as a logarithm: what its limits are, each by its share of the
    time; of those that add up as a root of powers the share is that of its power. By how much the
    first of them, the cores', may be off for what is assumed of them comes on top, as of something
    independent."""
    widths = limit_spreads()
    limits = {name: max(us, 0.0) for name, us in limits.items()}
    work = _root(tuple(limits.values()), power)
    if work <= 0:
        return widths[LAUNCH]
    shares = {name: (us / work) ** power for name, us in limits.items()}
    mixed = sum(widths[name] * share for name, share in shares.items())
    more = log1p(assumed) * next(iter(shares.values())) * work / (work + head)
    return hypot((mixed * work + widths[LAUNCH] * head) / (work + head), more)


def same_address(report: Figures) -> dict[int, int]:
    """Return how many cycles longer loads take that all blocks of a wave begin at one address, by
    line of the program, of the core that they take longest on. Requests of several cores for one
    line are served one after the other; on a chip without a row for it they are not."""
    row = report.table.rows.get("machine.same")
    lines = report.footprint.together if row is not None else {}
    busy: dict[int, Counter[int]] = {line: Counter() for line in lines}
    for step, count, core in report.executed if lines else ():
        if step.site.line in lines and step.cost.moved is not None:
            busy[step.site.line][core] += step.cost.busy * count
    more = row["longer"] - 1 if row is not None else 0.0
    return {line: round(more * max(cores.values(), default=0)) for line, cores in busy.items()}


def adding_in_turn(report: Figures) -> int:
    """Return how many cycles blocks wait that add to the same lines of memory at the same time. A
    line is added to by one after the other; as they go on in the same order, each is a line after
    the one before it, so the last one waits as long as that line takes, for each of the others. If
    stores are what takes longest on a core, each of them waits, else the last one (assumed: nothing
    measured is published)."""
    blocks = dict(report.footprint.adding)
    if not blocks:
        return 0
    waits: Counter[int] = Counter()
    each = report.bound.rpartition(" ")[2] in ("MTE3", "FIX")
    hbm = report.table.rows.get("machine.hbm")
    granule = hbm.get("granule") if hbm is not None else 0
    for step, count, core in report.executed:
        moved = step.cost.moved
        if moved is not None and moved.adds and step.site.line in blocks:
            line = step.cost.busy * min(granule / max(moved.bytes, 1), 1)
            one = (blocks[step.site.line] - 1) * line
            waits[core] = waits[core] + round(one * count) if each else max(round(one), waits[core])
    return max(waits.values(), default=0)


def from_hbm(report: Figures, start: str) -> float:
    """Return the bytes that go through HBM. A launch that begins warm finds in L2 what fits; of
    more than that ever less stays from one launch to the next."""
    touched, l2 = report.footprint, report.table.rows.get("machine.l2")
    far, held = touched.fetched + touched.returned, touched.held
    if start == COLD or not held or l2 is None:
        return far + touched.passed
    size, kept = l2["mib"] * MIB, l2["warm"]
    over = held / size - kept
    stays = kept * size * exp(-l2["beyond"] * over) if over > 0 else held
    return max(far - stays * (1 + touched.both / held), 0.0) + touched.passed


def rates_over_time(report: Figures, columns: int) -> dict[str, list[float]]:
    """Return how much of what L2 and HBM give the cores that run at a time draw in so many parts of
    the makespan; more than 1 where they ask for more than there is. Lines that come from HBM are
    spread over all transfers."""
    touched, moved = report.footprint, report.moved()
    every = touched.fetched + touched.returned
    far = (from_hbm(report, report.start) - touched.passed) / every if every else 0.0
    of_all = {
        "read": touched.fetched * far + touched.passed, "write": touched.returned * far,
    }  # fmt: skip
    found = {
        L2: (_rate(report, "machine.l2"), dict.fromkeys(of_all, 1.0)),
        HBM: (
            _rate(report, "machine.hbm") * _share(report),
            {d: of_all[d] / moved[d] if moved[d] else 0.0 for d in of_all},
        ),
    }
    each = max(report.span, 1) / columns
    drawn = {direction: [0.0] * columns for direction in of_all}
    for core in report.model.cores:
        ends = core.ends
        for place, times in core.times():
            step = core.steps[place]
            if step.cost.moved is None:
                continue
            start, length = core.starts[place], max(ends[place] - core.starts[place], 1)
            last = start + length + sum(more * by for more, by in times)
            row = drawn[step.cost.moved.direction]
            for at in range(int(start / each), min(int((last - 1) / each) + 1, columns)):
                low, high = at * each - start, (at + 1) * each - start
                busy = busy_until(high, length, times) - busy_until(low, length, times)
                row[at] += step.cost.moved.bytes * busy / length
    blocks = report.blocks
    alike = blocks.at_once if blocks.is_one_for_all else 1
    us = each / report.mhz / alike
    return {
        name: [
            sum(part[d] * drawn[d][at] for d in drawn) / us / rate if rate < inf else 0.0
            for at in range(columns)
        ]
        for name, (rate, part) in found.items()
    }


def _rate(report: Figures, name: str) -> float:
    """Bytes a microsecond; a chip that says nothing of it has as much as is asked for."""
    row = report.table.rows.get(name)
    return row["gib_per_second"] * GIB / 1e6 if row is not None else inf


def _share(report: Figures) -> float:
    """The part of the peak of HBM that this mix of reads and writes reaches."""
    row, touched = report.table.rows.get("machine.hbm"), report.footprint
    if row is None:
        return 1.0
    every = touched.fetched + touched.returned + touched.passed
    mix = min(2 * touched.returned / every, 1.0) if every else 0.0
    return row["reads"] - row["turns"] * mix


def _root(limits: tuple[float, ...], power: float) -> float:
    """The root of a sum of powers; no less than the greatest."""
    most = max(limits)
    if most <= 0 or most == inf:
        return max(most, 0.0)
    return most * sum((max(x, 0.0) / most) ** power for x in limits) ** (1 / power)


def _head(report: Figures) -> tuple[float, float]:
    """What is in front of the work in the time of a task, and how much later each block starts than
    the one before it. Of tasks with a cube it is known for all blocks together only."""
    row = report.table["machine.task"]
    if not _uses_cube(report):
        return row["us"], row["us_per_block"]
    part = min(report.blocks.at_once / max(report.cube_cores, 1), 1.0)
    return row["cube_us"] + row["cube_us_full"] * part, 0.0


def started(report: Figures, core: float, each: float) -> float:
    """How long the cores take whose blocks start one after the other. The n-th block starts when
    the one before it has, and a core is free; so of work that is short the last block waits for the
    starts of all, else for the blocks before it on its core and the starts of its own wave. A core
    that waits for bandwidth that all share does not wait longer for starting later."""
    if not each:
        return core
    blocks = report.blocks
    last = (blocks.count - 1) % blocks.at_once + 1
    own = core * _unshared(report)
    starts = max(own / blocks.waves + blocks.count * each, own + last * each)
    return max(core, starts)


def _unshared(report: Figures) -> float:
    """The part of the cycles in which cores do not wait for what all share: what they take
    without that, or, of long launches, all but what the busiest pipe waits."""
    steps = (step.cost for step, _, _ in report.executed)
    waits = any(p.stalls.get(BANDWIDTH) for p in report.pipes) or any(
        s.name in SHARED for cost in steps if cost.moved is not None for s in cost.stages
    )
    known = report.unshared if waits else 1.0
    if known is None:
        known = 1 - _shared_cycles(report) / max(report.span, 1)
    return min(max(known, 0.0), 1.0)


def _shared_cycles(report: Figures) -> float:
    """Cycles that the busiest pipe waits for what all cores share."""
    busiest = max(report.pipes, key=lambda p: p.busy, default=None)
    if busiest is None:
        return 0.0
    waits: dict[int, float] = defaultdict(float)
    for step, count, core in report.executed:
        if PIPES[step.pipe] == busiest.pipe and step.cost.moved is not None:
            waits[core] += count * sum(s.cycles for s in step.cost.stages if s.name in SHARED)
    return busiest.stalls.get(BANDWIDTH, 0) + max(waits.values(), default=0)


def _uses_cube(report: Figures) -> bool:
    return any(use.pipe in ("M", "MTE1", "FIX") for use in report.pipes)


def _limit(report: Figures, core: float, l2_us: float, hbm_us: float) -> str:
    if max(l2_us, hbm_us) > core:
        return L2 if l2_us > hbm_us else HBM
    return _OF_PIPE.get(report.bound.rpartition(" ")[2], CORE)


def at_peak(report: Figures) -> float:
    """Microseconds that the products of the busiest cube take at its peak: without their starts."""
    cubes: dict[int, float] = defaultdict(float)
    for step, count, core in report.executed:
        if PIPES[step.pipe] == "M":
            cubes[core] += count * sum(s.cycles for s in step.cost.stages if s.name != "start")
    most = max(cubes.values(), default=0)
    return most * report.cycles / max(report.span, 1) / report.mhz


def _bounds(report: Figures, moved: int, l2_us: float) -> dict[str, float]:
    """What no launch can be faster than, by what says so: lines that data place may be the same
    ones, and where L2 is known to give more than the rows that its rate is fitted to, that counts.
    """
    l2 = report.table.rows.get("machine.l2")
    resident = 0.0 if report.start == COLD or l2 is None else l2["mib"] * MIB
    touched = report.footprint
    held = max(touched.held - touched.unsure - touched.open, 1)
    both = 0 if touched.open else touched.both
    least = max(held - resident, 0) * (1 + both / held) + touched.passed
    at_most = "machine.l2_peak" in report.table.rows
    return {
        CUBE: at_peak(report),
        L2: min(l2_us, moved / _rate(report, "machine.l2_peak")) if at_most else l2_us,
        HBM: least / _rate(report, "machine.hbm"),
    }
