"""When a program executes, by the definition: an operation starts at the latest of its issue, the end
of the one before on its pipe, and what its pipe waited for. Slow, and written apart from the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Range = tuple[str | int, int, int]


@dataclass(frozen=True)
class Act:
    """One instruction. `kind`: work (for `busy` cycles; its result comes `latency` later), set, wait,
    barrier (of a pipe; of the scalar unit: of every pipe). `flag` names the event of a set or wait;
    `carry` is how long it takes to arrive."""

    kind: str
    pipe: str
    busy: int = 0
    latency: int = 0
    flag: str = ""
    carry: int = 0
    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()


class Unit:
    """A pipe: what it has to do (with the cycles of issue), and how far it got."""

    def __init__(self) -> None:
        self.todo: list[tuple[Act, int]] = []
        self.free = 0
        self.done = 0


def makespan(programs: Sequence[Sequence[Act]], issue: int = 1) -> int | None:
    """Return the cycle at which the last operation of the last core is done; None for a deadlock.

    `issue` is what the scalar unit takes for every instruction."""
    cores = [_Core(list(program), issue) for program in programs]
    flags: dict[str, list[int]] = {}
    while any(core.advance(flags) for core in cores):
        pass
    if not all(core.finished for core in cores):
        return None
    return max(max(core.clock, *(u.done for u in core.units.values())) for core in cores)


class _Core:
    def __init__(self, program: list[Act], issue: int) -> None:
        self.program = program
        self.issue = issue
        self.clock = 0
        self.units = {name: Unit() for name in {a.pipe for a in program} | {"S"}}

    @property
    def finished(self) -> bool:
        return not self.program and not any(u.todo for u in self.units.values())

    def advance(self, flags: dict[str, list[int]]) -> bool:
        """Do one thing; False if nothing can be done."""
        for name, unit in self.units.items():
            if name != "S" and unit.todo and self._execute(unit, flags):
                return True
        if not self.program:
            return False
        act = self.program[0]
        if act.pipe == "S" and not self._scalar(act, flags):
            return False
        if act.pipe != "S":
            self.units[act.pipe].todo.append((act, self.clock))
            self.clock += self.issue
        self.program.pop(0)
        return True

    def _execute(self, unit: Unit, flags: dict[str, list[int]]) -> bool:
        act, issued = unit.todo[0]
        if act.kind == "wait":
            if not flags.get(act.flag):
                return False
            unit.free = max(unit.free, flags[act.flag].pop(0))
        elif act.kind == "set":
            given = max(unit.free, unit.done, issued)
            flags.setdefault(act.flag, []).append(given + act.carry)
        else:
            if act.kind == "barrier":
                unit.free = max(unit.free, unit.done)
            unit.free = max(unit.free, issued) + act.busy
            unit.done = max(unit.done, unit.free + act.latency)
        unit.todo.pop(0)
        return True

    def _scalar(self, act: Act, flags: dict[str, list[int]]) -> bool:
        """The scalar unit itself waits: nothing after is issued before it goes on."""
        start = self.clock
        if act.kind == "wait":
            if not flags.get(act.flag):
                return False
            self.clock = max(start + self.issue, flags[act.flag].pop(0))
        else:
            if any(u.todo for u in self.units.values()):
                return False
            self.clock = max(start, *(u.done for u in self.units.values())) + max(act.busy, 0)
            self.clock = max(self.clock, start + self.issue)
            self.units["S"].done = self.clock
        return True


def ordered_makespan(program: Sequence[Act], draining: frozenset[str], issue: int = 1) -> int:
    """Return the same for one core whose operations are ordered by their data: after those that wrote
    what one reads, after those that read or wrote what it writes. On the same pipe the order of the
    pipe is enough, except on `draining` pipes."""
    free: dict[str, int] = {}
    finished: list[int] = []
    last: dict[str, int] = {}
    for number, act in enumerate(program):
        start = max(free.get(act.pipe, 0), number * issue)
        for before, done in zip(program[:number], finished, strict=True):
            if not _conflict(before, act):
                continue
            if before.pipe != act.pipe:
                start = max(start, done)
            elif act.pipe in draining:
                start = max(start, last.get(act.pipe, 0))
        free[act.pipe] = start + act.busy
        last[act.pipe] = max(last.get(act.pipe, 0), free[act.pipe] + act.latency)
        finished.append(last[act.pipe])  # a flag after it is set when all before it is done
    return max([*finished, len(program) * issue])


def _conflict(before: Act, act: Act) -> bool:
    return (
        _overlap(before.writes, act.reads)
        or _overlap(before.writes, act.writes)
        or _overlap(before.reads, act.writes)
    )


def _overlap(some: Sequence[Range], others: Sequence[Range]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)
