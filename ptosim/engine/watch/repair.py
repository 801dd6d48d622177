"""Text to paste: the flags or the barrier that would order two operations.

A flag is set after the one and waited for before the other, at places that are reached equally
often whatever path the program takes: in the innermost block that both are in or, where the second
comes before the first in the text, in the body of the loop that carries the dependence."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ptosim.engine.watch.access import Access
from ptosim.ground.diagnostics.model import Fix
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source, Span

Path = list[tuple[Operation, int]]
"""The operations around one, outermost first, with the number of the region that it is in."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of a loop: its variable, its number from 1 on, the variable's value if known."""

    variable: str
    number: int
    value: int | None

    def __str__(self) -> str:
        if self.value is None:
            return f"iteration {self.number} of %{self.variable}"
        return f"%{self.variable} = {self.value}"


class Nesting:
    """The nesting of the operations of a module, found when it is first asked for."""

    def __init__(self, resolved: ResolvedModule) -> None:
        self._module = resolved.module
        self._names = {f.op: f.name for f in resolved.functions.values()}
        self._parents: dict[Operation, tuple[Operation, int]] | None = None
        self._called: set[str] = set()

    def path(self, op: Operation) -> Path:
        """Return what is around an operation."""
        parents = self._known()
        path: Path = []
        found = parents.get(op)
        while found is not None:
            path.insert(0, found)
            found = parents.get(found[0])
        return path

    def iterations(self, op: Operation, execution: int) -> tuple[Iteration, ...] | None:
        """Return the iterations of the loops around an operation at its nth execution, outermost
        first; () outside loops, None where the text alone does not say."""
        self._known()
        loops: list[Operation] = []
        for around, _ in self.path(op):
            if around.has("counted"):
                loops.append(around)
            elif around.has("function"):
                if self._names.get(around) in self._called:
                    return None
            elif not around.has("once"):
                return None
        left = execution - 1
        found: list[Iteration] = []
        for loop in reversed(loops):
            trips = _trips(loop)
            if trips == 0 or (trips is None and loop is not loops[0]):
                return None
            number = left if loop is loops[0] or trips is None else left % trips
            left = 0 if trips is None else left // trips
            found.append(_iteration(loop, number))
        return tuple(reversed(found))

    def _known(self) -> dict[Operation, tuple[Operation, int]]:
        if self._parents is not None:
            return self._parents
        self._parents = {}
        for owner in self._module.walk():
            if owner.has("call"):
                self._called.add(str(owner.bound.get("callee")).lstrip("@"))
            for number, region in enumerate(owner.regions):
                for inner in region.ops:
                    self._parents[inner] = owner, number
        return self._parents


def _trips(loop: Operation) -> int | None:
    lower, upper, step = (getattr(loop.bound.get(n), "const", None) for n in _BOUNDS)
    if lower is None or upper is None or not step:
        return None
    return max(0, -(-(upper - lower) // step))


_BOUNDS = ("lower", "upper", "step")


def _iteration(loop: Operation, number: int) -> Iteration:
    lower, step = (getattr(loop.bound.get(n), "const", None) for n in ("lower", "step"))
    value = None if lower is None or step is None else lower + number * step
    return Iteration(loop.regions[0].blocks[0].values[0].name, number + 1, value)


# -- repairs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repair:
    """What to do, in words, and as edits."""

    text: str
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class _Places:
    """Operations of one block: after `give` a flag is set, before `take` it is waited for; `loop`
    carries it from one iteration to the next."""

    give: Operation
    take: Operation
    loop: Operation | None = None


class Repairs:
    """Knows the text of a program and the event ids it uses."""

    def __init__(self, resolved: ResolvedModule, nesting: Nesting) -> None:
        self._source: Source = resolved.module.source
        self._event_ids = machine(resolved.chip).event_ids
        self._nesting = nesting

    def between(
        self, first: Operation, second: Operation, source: str, target: str, same_core: bool
    ) -> Repair:
        """Return what orders `second` on pipe `target` after `first` on pipe `source`."""
        line_one, line_two = self._line(first), self._line(second)
        if not same_core:
            return Repair(
                f"signal with pto.sync.set after line {line_one} and wait with pto.sync.wait "
                f"before line {line_two}"
            )
        if source == target:
            return self._barrier(second, target)
        number = self._free_id(source, target)
        if number is None:
            return self._barrier(second, "ALL")
        make = _cpp_flag if self._source.is_cpp else _flag
        give, take = (make(word, source, target, number) for word in ("set", "wait"))
        places = self._places(first, second)
        if places is None:
            return Repair(
                f"insert `{give}` after line {line_one} and `{take}` before line {line_two}, on "
                "every path that reaches both"
            )
        return self._flags(places, give, take)

    def _barrier(self, second: Operation, pipe: str) -> Repair:
        from ptosim.language.build import Builder, text_of  # most programs need no repair

        is_cpp = self._source.is_cpp
        barrier = f"pipe_barrier(PIPE_{pipe});" if is_cpp else text_of([Builder().barrier(pipe)])
        return Repair(
            f"insert `{barrier}` before line {self._line(second)}",
            (self._before(second, barrier),),
        )

    def _flags(self, places: _Places, give: str, take: str) -> Repair:
        after, before = self._last_line(places.give), self._line(places.take)
        fixes = (self._after(places.give, give), self._before(places.take, take))
        if places.loop is None:
            text = f"insert `{give}` after line {after} and `{take}` before line {before}"
            return Repair(text, fixes)
        loop = places.loop
        return Repair(
            f"across iterations: insert `{give}` after line {after} and once before the loop in "
            f"line {self._line(loop)}, `{take}` before line {before} and once after the loop",
            (*fixes, self._before(loop, give), self._after(loop, take)),
        )

    # -- places -----------------------------------------------------------------------------------

    def _places(self, first: Operation, second: Operation) -> _Places | None:
        one, two = self._nesting.path(first), self._nesting.path(second)
        depth = 0
        while depth < min(len(one), len(two)) and one[depth] == two[depth]:
            depth += 1
        give, take = self._at(one, depth, first), self._at(two, depth, second)
        if depth and give.start < take.start:
            return _Places(give, take)
        for at in range(depth - 1, -1, -1):
            loop = one[at][0]
            if loop.has("loop"):
                give, take = self._at(one, at + 1, first), self._at(two, at + 1, second)
                return _Places(give, take, loop)
        return None

    def _at(self, path: Path, depth: int, op: Operation) -> Operation:
        """The operation of the block at a depth that is, or contains, another one."""
        return path[depth][0] if depth < len(path) else op

    # -- text -------------------------------------------------------------------------------------

    def _line(self, op: Operation) -> int:
        return self._source.line_column(op.start)[0]

    def _last_line(self, op: Operation) -> int:
        return self._source.line_column(max(op.end - 1, op.start))[0]

    def _free_id(self, source: str, target: str) -> int | None:
        """The lowest event id that the program does not use between two pipes; None if there is
        none."""
        text = self._source.text.replace('"', "").replace("<", "").replace(">", "")
        for number in range(self._event_ids):
            if f"PIPE_{source}, PIPE_{target}, EVENT_ID{number}" not in text:
                return number
        return None

    def _before(self, op: Operation, line: str) -> Fix:
        start = self._start_of_line(op)
        return Fix(Span(self._source, start, start), f"{self._indent(op)}{line}\n")

    def _after(self, op: Operation, line: str) -> Fix:
        text = self._source.text
        end = text.find("\n", op.end)
        end = len(text) if end < 0 else end - (text[end - 1] == "\r")
        return Fix(Span(self._source, end, end), f"\n{self._indent(op)}{line}")

    def _start_of_line(self, op: Operation) -> int:
        return self._source.text.rfind("\n", 0, op.start) + 1

    def _indent(self, op: Operation) -> str:
        from ptosim.language.rewrite.abstract import indent_of

        return indent_of(self._source.text, op.start)


def _cpp_flag(word: str, source: str, target: str, number: int) -> str:
    return f"{word}_flag(PIPE_{source}, PIPE_{target}, EVENT_ID{number});"


def _flag(word: str, source: str, target: str, number: int) -> str:
    from ptosim.language.build import Builder, text_of

    return text_of([Builder().flag(word, source, target, number)])


def is_inserted(resolved: ResolvedModule, access: Access) -> bool:
    """True for an access in a function into which the assembler inserts flags."""
    home = access.inst.op.function if access.inst.op is not None else None
    names = {f.op: f.name for f in resolved.functions.values()}
    return home is not None and names.get(home) in resolved.settings.ordered


def mistaken(resolved: ResolvedModule, access: Access) -> tuple[str, ...]:
    """Return a note on flags that are inserted from a pipe which does not do an access, if any."""
    passes = access.inst.op.passes if access.inst.op is not None else None
    if passes is None or passes.modelled is None or not is_inserted(resolved, access):
        return ()
    return (
        f"assemblers before 0.63 take '{access.inst.operation.name}' for an operation of "
        f"PIPE_{passes.modelled}: the flags that they insert order nothing",
    )


def in_branches(first: Access, second: Access, source: str, target: str) -> tuple[str, ...]:
    """Return a note where a flag between the pipes of two accesses is on another path than they:
    outside of the branch that both are in, where it orders what was before and not the work of the
    branch, or in a branch between them."""
    one, two = first.inst.op, second.inst.op
    function = one.inside("function") if one is not None else None
    if one is None or two is None or function is None or function is not two.inside("function"):
        return ()
    branch = one.inside("branch")
    common = branch if branch is not None and branch in two.around() else None
    pipes = (f"PIPE_{source}", f"PIPE_{target}")
    for op in _flags_of(function).get(pipes, ()):
        between = op.inside("branch") if one.start < op.start < two.start else None
        if common is not None and common not in op.around():
            return (f"the flag of {' -> '.join(pipes)} is outside of the branch that both are in",)
        if between is not None and not {between} & {*one.around(), *two.around()}:
            return (f"the flag of {' -> '.join(pipes)} is missing where its branch is not taken",)
    return ()


@lru_cache(maxsize=2)
def _flags_of(function: Operation) -> dict[tuple[str, str], list[Operation]]:
    """Return the operations of a function that signal, by their pipes; a program may have thousands
    of races."""
    found: dict[tuple[Any, Any], list[Operation]] = {}
    for op in function.walk():
        if op.has("signals"):
            sides = (getattr(op.bound.get(n), "const", None) for n in ("src_pipe", "dst_pipe"))
            one, two = (getattr(side, "member", side) for side in sides)
            found.setdefault((one, two), []).append(op)
    return found
