"""Commands that show the threads of a SIMT launch."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from ptosim.debug.commands.table import command
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.shell import Shell
from ptosim.engine.simt.record import Recorder
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.source import Source
from ptosim.ground.words import few, whole
from ptosim.machine.core import Core, Machine
from ptosim.machine.values import Fragment
from ptosim.machine.vector import WARP

# Threads of a SIMT launch in the debugger: where each is and went, what it holds, the lanes of a
# warp as rows. What is shown is the last launch that the core has begun.

MAX_GROUPS = 24
SHOWN = 3
"""Values beside each lane where none are asked for."""

_PLACE = re.compile(r"\(?\s*(\d{1,18})(?:\s*,\s*(\d{1,18})\s*,\s*(\d{1,18}))?\s*\)?")


class Threads:
    """The last launch of a core."""

    def __init__(
        self, core: Core, machine: Machine, source: Source, current: Operation | None = None
    ) -> None:
        """`current` is what the core executes next: a launch that failed there is shown."""
        failed = core.simt.failed
        self.has_failed = failed is not None and failed.launch is current
        record: Recorder | None = failed if self.has_failed else core.simt.record
        if record is None:
            raise UsageError(
                "the core has not launched threads yet",
                help="go on after a `pto.simt_launch` or `pto.section.simt` first",
            )
        self.record = record
        self.machine = machine
        self.source = source

    # -- threads ----------------------------------------------------------------------------------

    def name(self, thread: int) -> str:
        """Return the coordinates of a thread."""
        x, y, _ = self.record.dims
        return f"({thread % x},{thread // x % y},{thread // (x * y)})"

    def number(self, text: str) -> int:
        """Return the linear id of `(x,y,z)`, or of a linear id. Raises UsageError for another
        text, and for a thread that the launch does not have."""
        found = _PLACE.fullmatch(text.strip())
        if found is None:
            raise UsageError("a thread is named by its coordinates", help="thread (3,0,0)")
        x, y, z = self.record.dims
        first, second, third = found.groups()
        if second is None:
            number, fits = int(first), int(first) < self.record.threads
        else:
            place = int(first), int(second), int(third)
            number = place[0] + x * (place[1] + y * place[2])
            fits = all(p < d for p, d in zip(place, (x, y, z), strict=True))
        if not fits:
            raise UsageError(f"the launch has ({x}, {y}, {z}) threads, not {text.strip()}")
        return number

    def line(self, op: Operation) -> int:
        """Return the line of an operation."""
        return self.source.line_column(op.start)[0]

    def _title(self) -> str:
        x, y, z = self.record.dims
        op = self.record.launch
        what = f"{self.record.threads} threads ({x}, {y}, {z}) of {op.name} in line {self.line(op)}"
        return f"{what}, which failed" if self.has_failed else what

    # -- where they are ---------------------------------------------------------------------------

    def groups(self) -> Sheet:
        """Return the threads that are at one operation and came the same way, as rows."""
        sheet = Sheet(self._title(), (">threads", "which", ">line", "last operation", "way"))
        ways = [self._way(t) for t in range(self.record.threads)]
        members: dict[tuple[int, str], list[int]] = {}
        for thread, way in enumerate(ways):
            members.setdefault((int(self.record.last[thread]), way), []).append(thread)
        for (last, way), threads in list(members.items())[:MAX_GROUPS]:
            op = self.record.ops[last] if last >= 0 else None
            line, name = (self.line(op), op.name) if op is not None else ("", "none")
            sheet.add(len(threads), self._which(threads), line, name, way or "with all")
        if len(members) > MAX_GROUPS:
            sheet.notes.append(f"and {len(members) - MAX_GROUPS} more groups")
        return sheet

    def _which(self, threads: list[int]) -> str:
        """Threads of a group: a run of them as its ends, of others the first ones."""
        if len(threads) > 2 and threads[-1] - threads[0] == len(threads) - 1:
            return f"{self.name(threads[0])} to {self.name(threads[-1])}"
        return few([*map(self.name, threads)], 3)

    def _way(self, thread: int) -> str:
        """Where a thread went another way than others of the launch did."""
        taken: Counter[Operation] = Counter()
        met: Counter[Operation] = Counter()
        for parting in self.record.partings:
            if parting.present[thread]:
                met[parting.op] += 1
                taken[parting.op] += bool(parting.taken[thread])
        return ", ".join(
            f"line {self.line(op)} {_choice(op, taken[op], count)}" for op, count in met.items()
        )

    # -- what they hold ---------------------------------------------------------------------------

    def values(self) -> list[Value]:
        """Return the values of the launch that have names, in the order of the text."""
        return sorted((v for v in self.record.slots if v.name), key=lambda v: v.start)

    def thread(self, number: int) -> Sheet:
        """Return the values of one thread."""
        lane = f"lane {number % WARP} of warp {number // WARP}"
        sheet = Sheet(f"thread {self.name(number)}: {lane}", ("value", "type", "holds", ">line"))
        for value in self.values():
            held = self.record.value(value, number)
            if held is not None and value.const is None:
                line = self.source.line_column(value.start)[0]
                sheet.add(f"%{value.name}", str(value.type), self._text_of(held), line)
        way = self._way(number)
        sheet.notes.append(f"went {way}" if way else "went with all")
        return sheet

    def warp(self, number: int, names: list[str]) -> Sheet:
        """Return the lanes of a warp as rows, with some values or those that were made last."""
        first = number * WARP
        if not 0 <= first < self.record.threads:
            raise UsageError(f"the launch has {-(-self.record.threads // WARP)} warps")
        values = [self._named(n) for n in names] or self._latest()
        columns = [">lane", "thread", "last operation", *(f">%{v.name}" for v in values)]
        sheet = Sheet(f"warp {number} of {self._title()}", columns)
        for thread in range(first, min(first + WARP, self.record.threads)):
            last = int(self.record.last[thread])
            op = self.record.ops[last] if last >= 0 else None
            where = f"{op.name}, line {self.line(op)}" if op is not None else "none"
            held = [self.record.value(v, thread) for v in values]
            cells = ["-" if h is None else self._text_of(h) for h in held]
            sheet.add(thread % WARP, self.name(thread), where, *cells)
        return sheet

    def _latest(self) -> list[Value]:
        own = [v for v in self.values() if v.const is None and not v.is_argument]
        return own[-SHOWN:]

    def _named(self, name: str) -> Value:
        word = name.removeprefix("%")
        found = [v for v in self.values() if v.name == word]
        if not found:
            raise UsageError(f"the launch has no value `%{word}`", help="`thread 0` lists them")
        return found[-1]

    def _text_of(self, held: Any) -> str:
        if isinstance(held, tuple):
            memory, byte = held
            return f"{self._memory(memory)} + {byte:#x}"
        if isinstance(held, list):
            return f"[{', '.join(map(short_number, held))}]"
        if isinstance(held, bool):
            return str(held).lower()
        return short_number(np.asarray(held)[()])

    def _memory(self, memory: Any) -> str:
        """What a pointer leads into: a buffer, a space, an array of the thread's own."""
        if isinstance(memory, int):
            return self.machine.buffers[memory].name
        if isinstance(memory, Fragment):
            return f"array of line {self.source.line_column(memory.number)[0]}"
        return str(memory)


def _choice(op: Operation, taken: int, met: int) -> str:
    if op.has("loop"):
        return f"{taken} rounds"
    if met == 1:
        return "then" if taken else "else"
    return f"then {taken} of {met}"


def _threads(shell: Shell) -> Threads:
    session = shell.session
    launch = session.launch
    source = launch.resolved.module.source
    return Threads(session.core, launch.machine, source, session.current_op())


@command("threads", "looking", "threads")
def threads(shell: Shell, args: str) -> None:
    """The threads of the last launch: groups at one operation that came the same way, with the
    branches and loops where they parted."""
    shell.show(_threads(shell).groups())


@command("thread", "looking", "thread (X,Y,Z)", example="thread (3,0,0)")
def thread(shell: Shell, args: str) -> None:
    """What one thread of the last launch holds, and where it went another way than others."""
    if not args:
        raise UsageError("`thread` takes coordinates", help="thread (3,0,0)")
    found = _threads(shell)
    shell.show(found.thread(found.number(args)))


@command("warp", "looking", "warp N [%v …]", example="warp 0 %v")
def warp(shell: Shell, args: str) -> None:
    """The lanes of a warp of the last launch as rows, with some values or those made last."""
    words = args.split()
    number = whole(words[0]) if words else None
    if number is None:
        raise UsageError("`warp` takes a number", help="warp 0 %v")
    shell.show(_threads(shell).warp(number, words[1:]))
