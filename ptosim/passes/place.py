"""Addresses of tiles that the program does not place itself: allocation in order of appearance.

As in the assembler's planner each space is filled from address 0 upwards, every tile at the
planner's alignment; here without reuse. Scratch that an operation needs and the program does not
give comes behind the tiles and is counted with them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ptosim.diagnostics.model import Label, Sink, error
from ptosim.ir.core import Operand, Operation, Value
from ptosim.ir.program import Function, ResolvedModule
from ptosim.ir.types import MemRefType, TileType
from ptosim.isa.expr import evaluate
from ptosim.isa.machines import MachineDef, SpaceDef, machine
from ptosim.passes.verify import environment
from ptosim.source import Span

_WORD = re.compile(r"%?[\w.]+")


@dataclass(slots=True)
class Placed:
    """Bytes [addr, addr + bytes) of a space that belong to a value or to an operation's scratch."""

    name: str
    space: str
    addr: int
    bytes: int
    start: int  # offset of the definition in the source
    planned: bool


@dataclass(slots=True)
class Placement:
    """Where everything lies."""

    values: dict[Value, int] = field(default_factory=dict)
    scratch: dict[tuple[Operation, str], int] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)

    def used(self, space: str) -> int:
        """Return the end of the highest byte in use."""
        return max((p.addr + p.bytes for p in self.placed if p.space == space), default=0)


def place(resolved: ResolvedModule, functions: list[Function], sink: Sink) -> Placement:
    """Place the tiles of functions that run on one core; over-budget spaces are errors."""
    placer = _Placer(resolved, sink)
    for function in functions:
        for op in function.op.walk():
            placer.fixed(op)
    for function in functions:
        placer.arguments(function)
        for op in function.op.walk():
            placer.operation(op)
    for function in functions:
        for op in function.op.walk():
            placer.scratch(op)
    placer.check_budget()
    return placer.placement


class _Placer:
    def __init__(self, resolved: ResolvedModule, sink: Sink) -> None:
        self.resolved = resolved
        self.sink = sink
        self.source = resolved.module.source
        self.machine: MachineDef = machine(resolved.target)
        self.placement = Placement()
        self._next: dict[str, int] = {}
        self._pinned: dict[Value, int] = {}
        self._misplaced: set[str] = set()  # spaces with a tile that was reported already

    # -- tiles that the program places ------------------------------------------------------------

    def fixed(self, op: Operation) -> None:
        """Check a constant address, and remember it."""
        if op.name == "pto.tassign" and op.bound:
            self._tassign(op)
            return
        if op.name != "pto.alloc_tile" or not op.results:
            return
        addr = op.bound.get("addr")
        type_ = op.results[0].type
        if not isinstance(addr, Operand) or not isinstance(type_, TileType):
            return
        if addr.const is not None:
            self._check_address(op, op.results[0].name, type_, addr.const)
            self._record(op.results[0].name, type_.loc, addr.const, type_.bytes, op.start, False)

    def _tassign(self, op: Operation) -> None:
        source, addr = op.bound["source"], op.bound["addr"]
        type_ = source.type
        if isinstance(type_, TileType) and addr.const is not None:
            self._check_address(op, source.value.name, type_, addr.const)
            self._record(source.value.name, type_.loc, addr.const, type_.bytes, op.start, False)
            if not op.results:
                self._pinned[source.value] = addr.const
                self.placement.values[source.value] = addr.const

    def _check_address(self, op: Operation, name: str, type_: TileType, addr: int) -> None:
        space = self.machine.spaces[type_.loc]
        end = addr + type_.bytes
        if addr < 0 or end > space.bytes:
            self._misplaced.add(type_.loc)
        if type_.bytes > space.bytes:
            self._placement_error(
                op, "PTO4352", "SA-0352", name,
                f"takes {type_.bytes} bytes, more than {_titled(space)} has ({space.bytes})",
            )  # fmt: skip
        elif addr < 0 or end > space.bytes:
            self._placement_error(
                op, "PTO4353", "SA-0353", name,
                f"ends at {end:#x}, outside {_titled(space)} ({space.bytes} bytes)",
            )  # fmt: skip
        if addr % space.align:
            self._placement_error(
                op, "PTO4354", "SA-0354", name,
                f"lies at {addr:#x}, not aligned to {space.align} bytes",
            )  # fmt: skip

    def _placement_error(self, op: Operation, code: str, vendor: str, name: str, what: str) -> None:
        self.sink.emit(
            error(
                code,
                f"tile %{name} {what}",
                Span(self.source, op.start, op.end),
                notes=(f"[{vendor}] TASSIGN of the vendor's headers states the same condition",),
                help="choose another address, or a smaller tile",
            )
        )

    # -- tiles that the planner places ------------------------------------------------------------

    def arguments(self, function: Function) -> None:
        """Tile arguments of a function that runs on its own."""
        for value in function.args:
            if isinstance(value.type, TileType) and value not in self._pinned:
                self._tile(value, value.type, value.start)

    def operation(self, op: Operation) -> None:
        """Give the tiles that an operation makes an address, unless it names one."""
        if op.name == "pto.alloc_tile":
            if op.bound.get("addr") is None and op.results:
                self._tile(op.results[0], op.results[0].type, op.start)
        elif op.name == "memref.alloc":
            for value in op.results:
                if isinstance(value.type, MemRefType):
                    self._memref(value, value.type, op.start)
        elif op.definition is not None and op.definition.form == "dps":
            for value in op.results:
                self._tile(value, value.type, op.start)

    def _tile(self, value: Value, type_: Any, start: int) -> None:
        if isinstance(type_, TileType) and value not in self.placement.values:
            addr = self._allocate(type_.loc, type_.bytes)
            self.placement.values[value] = addr
            self._record(value.name, type_.loc, addr, type_.bytes, start, True)

    def _memref(self, value: Value, type_: MemRefType, start: int) -> None:
        count = 1
        for dim in type_.dims:
            count *= dim or 1
        size = type_.elem.bytes_for(count)
        space = type_.space if type_.space in self.machine.spaces else "vec"
        addr = self._allocate(space, size)
        self.placement.values[value] = addr
        self._record(value.name, space, addr, size, start, True)

    def _allocate(self, space: str, size: int) -> int:
        """The next free bytes of a space that no tile of the program lies in."""
        align = self.machine.spaces[space].plan_align
        taken = sorted(
            (p.addr, p.addr + p.bytes)
            for p in self.placement.placed
            if p.space == space and not p.planned
        )
        at = self._next.get(space, 0)
        for start, end in taken:
            if start < at + size and at < end:
                at = -(-end // align) * align
        self._next[space] = at + -(-size // align) * align
        return at

    def scratch(self, op: Operation) -> None:
        """Give an operation the scratch its row asks for and the program leaves out."""
        if op.definition is None or not op.definition.scratch or op.variant is None:
            return
        names = environment(op, self.resolved.target)
        for need in op.definition.scratch:
            if names.get(need.name) is None and evaluate(need.when, names):
                size = int(evaluate(need.bytes, names))
                addr = self._allocate(need.space, size)
                self.placement.scratch[op, need.name] = addr
                label = f"scratch {need.name} of {op.definition.mnemonic}"
                self._record(label, need.space, addr, size, op.start, True)

    def _record(
        self, name: str, space: str, addr: int, size: int, start: int, planned: bool
    ) -> None:
        self.placement.placed.append(Placed(name, space, addr, size, start, planned))

    # -- budget -----------------------------------------------------------------------------------

    def check_budget(self) -> None:
        """Report every space that the planner would have to overfill."""
        for name, space in self.machine.spaces.items():
            planned = [p for p in self.placement.placed if p.space == name and p.planned]
            end = max((p.addr + p.bytes for p in planned), default=0)
            if end > space.planner and name not in self._misplaced:
                self.sink.emit(self._over_budget(space, planned, end))

    def _over_budget(self, space: SpaceDef, planned: list[Placed], end: int):
        biggest = sorted(planned, key=lambda p: -p.bytes)[:5]
        first, *rest = (Label(self._word(p.start), f"{p.name}: {p.bytes} bytes") for p in biggest)
        return error(
            "PTO4001",
            f"{space.name} overflow, requires {end * 8} bits while {space.planner * 8} bits "
            "avaliable!",
            first.span,
            label=first.text,
            more=tuple(rest),
            notes=(
                f"{end} bytes of tiles in {_titled(space)}; the planner has {space.planner} of "
                f"{space.bytes} bytes",
                "tiles are placed one behind the other, without reuse",
            ),
            help=f"free {end - space.planner} bytes: shrink the largest tiles, or place tiles at "
            "level 3",
        )

    def _word(self, start: int) -> Span:
        """The name or operation that begins at an offset."""
        word = _WORD.match(self.source.text, start)
        return Span(self.source, start, word.end() if word else start + 1)


def _titled(space: SpaceDef) -> str:
    return f"{space.alias} ({space.name})"
