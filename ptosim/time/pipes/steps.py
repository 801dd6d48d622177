"""What is issued: an operation with its cost and the events that it waits for and gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Protocol

from ptosim.ground.errors import LimitError
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import dataclass, field, replace
from ptosim.time.laws.cost import Cost

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "MTE4", "MTE5", "V2")
PIPE_INDEX = {name: number for number, name in enumerate(PIPES)}
S = 0
BANDWIDTH = "shared bandwidth"
"""Why a pipe takes longer for a transfer: others transfer at the same time."""
MOST_TIME = 1 << 61
"""Cycles of a run: larger numbers say that a time is not known yet."""
MOST_CYCLES = 1 << 50
"""Of one operation: a week and a half. Assumed, no source gives a limit: sums stay in 64 bits."""


@dataclass(slots=True, eq=False)
class Flag:
    """An event that is given and taken: the times at which it was given and not yet taken, each
    with the core and the record that gave it; and who waits, in order. One that `keeps` is given
    once and can be taken by any number; `credits` are given before anything is issued. One of a
    `group` counts when as many have been given, and then as many times."""

    key: Any
    reason: str
    _: KW_ONLY
    keeps: bool = False
    group: int = 1
    credits: int = 0
    held: list[tuple[int, int, int]] = field(default_factory=list)
    times: deque[tuple[int, int, int]] = field(default_factory=deque)
    waiters: deque[tuple[Any, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Go back to how the event is before anything is issued."""
        self.set([(0, 0, -1)] * self.credits, (), ())

    def saved(self) -> tuple[tuple[Any, ...], ...]:
        """Return what was given and who waits, for `set`."""
        return tuple(self.times), tuple(self.waiters), tuple(self.held)

    def set(self, times: Iterable[Any], waiters: Iterable[Any], held: Iterable[Any]) -> None:
        """Replace what was given, who waits, and what a group has of its number."""
        self.times.clear()
        self.times.extend(times)
        self.waiters.clear()
        self.waiters.extend(waiters)
        self.held[:] = held


Stretch = tuple[Any, int, int, bool]
"""Global memory: who used the buffer, first byte, byte after the last, and whether it is
written."""


@dataclass(slots=True, eq=False, repr=False)
class Step:
    """An operation as the pipes see it; equal operations of a core share one object.

    `is_work`: it occupies its pipe; `drains`: everything before on the pipe (the scalar unit: on
    every pipe) is done first; `takes` and `gives` are events; `carry` is what a given event takes
    to arrive; `shared` is the demand of a transfer that competes for bandwidth, (pool,
    bytes/cycle). `site` says to which instruction of the program it belongs.
    """

    pipe: int
    site: Any
    cost: Cost
    _: KW_ONLY
    issue: int = 1
    takes: tuple[Flag, ...] = ()
    gives: tuple[Flag, ...] = ()
    drains: bool = False
    is_work: bool = True
    carry: int = 0
    shared: tuple[str, float] | None = None
    then: Step | None = None  # a second step of the same operation
    # Where data order the program: the bytes of the core's memories that it reads and writes, and
    # who used them.
    ranges: Any = None
    reach: Any = None
    busy: int = field(init=False)
    latency: int = field(init=False)
    is_plain: bool = field(init=False)
    flag: Flag | None = field(init=False)  # the one event of an operation that does nothing else
    base: Step = field(init=False)
    buffer: ClassVar[Any] = None  # global memory: see `Placed`
    far: ClassVar[tuple[Stretch, ...]] = ()
    is_quick: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.busy, self.latency = self.cost.busy, self.cost.latency
        if self.busy + self.latency > MOST_CYCLES:  # times of a run are 64 bits
            raise LimitError(
                f"an operation of pipe {PIPES[self.pipe]} takes more than {MOST_CYCLES:,} cycles",
                help="look for a count or a size that is not the one meant",
            )
        events = (*self.takes, *self.gives)
        self.is_plain = self.is_work and not (events or self.drains or self.shared)
        is_flag = len(events) == 1 and not (self.is_work or self.drains)
        self.flag = events[0] if is_flag else None
        self.base = self

    def ordered(self, takes: tuple[Flag, ...], gives: tuple[Flag, ...], *, drains: bool) -> Step:
        """Return the step of one execution with events of its own; it is recorded as this one."""
        step = replace(
            self,
            takes=self.takes + takes,
            gives=self.gives + gives,
            drains=self.drains or drains,
        )
        step.base = self.base
        return step

    def __repr__(self) -> str:
        return f"Step({PIPES[self.pipe]}, {self.cost!r})"


@dataclass(slots=True, eq=False)
class Placed:
    """An execution of a step (`base`) with the global memory that it uses, where data order the
    program: a stretch of a buffer that it reads or `writes`. `is_quick`: nothing else is to be
    looked at."""

    base: Step
    buffer: Any
    first: int
    end: int
    writes: bool
    is_quick: ClassVar[bool] = True

    @property
    def far(self) -> tuple[Stretch, ...]:
        """What it uses."""
        return ((self.buffer, self.first, self.end, self.writes),)

    def moved(self, distance: int) -> Placed:
        """Return an execution that uses global memory so many bytes farther on."""
        return Placed(
            self.base, self.buffer, self.first + distance, self.end + distance, self.writes
        )


@dataclass(slots=True, eq=False)
class Spread:
    """The same with several stretches, or on a pipe that drains."""

    base: Step
    far: tuple[Stretch, ...]
    buffer: ClassVar[Any] = None
    is_quick: ClassVar[bool] = False

    def moved(self, distance: int) -> Spread:
        """Return an execution that uses global memory so many bytes farther on."""
        return Spread(
            self.base, tuple((f, a + distance, b + distance, w) for f, a, b, w in self.far)
        )


Issued = Step | Placed | Spread
"""What is issued where data order the program."""


class Model(Protocol):
    """What the pipes of a core and the signals ask of the timing model that they are in."""

    scalar_cycles: int
    cores: Any
    pools: Any
    in_step: Any
    flags: dict[Any, Flag]
    ready: deque[Flag]

    def flag(
        self, key: Any, reason: str, credits: int = 0, group: int = 1, *, keeps: bool = False
    ) -> Flag:
        """Return the event of a key."""
        ...

    def give(self, flag: Flag, when: int, core: int, record: int) -> None:
        """An event is given."""
        ...

    def pump(self) -> None:
        """Let everything go on that events have made ready."""
        ...


# Where in a program an operation is.


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the program: its place and the loop around it."""

    line: int
    outer: Loop | None = None

    @property
    def label(self) -> str:
        """Lines of the loop and of those around it, outermost first."""
        prefix = f"{self.outer.label} > " if self.outer is not None else ""
        return f"{prefix}loop at line {self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One instruction of the program: its number, operation, line (1-based), text, innermost
    loop."""

    pc: int
    mnemonic: str
    line: int
    text: str
    loop: Loop | None = None
    file: str = ""


# -- the loops of a program ------------------------------------------------------------------------


def loops_of(resolved: ResolvedModule) -> dict[Operation, Loop]:
    """Return the innermost loop of each operation that is in one."""
    found: dict[Operation, Loop] = {}

    def walk(op: Operation, loop: Loop | None) -> None:
        if "loop" in op.traits:
            line, _ = resolved.module.source.line_column(op.start)
            loop = Loop(line, loop)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    if loop is not None:
                        found[inner] = loop
                    walk(inner, loop)

    for function in resolved.functions.values():
        walk(function.op, None)
    return found
