"""Addresses of tiles that the program does not place itself: allocation in order of appearance.

As in the assembler's planner each space is filled from address 0 upwards, every tile at the
planner's alignment, without reuse while everything fits; a space that would overflow is planned
again with tiles that share bytes where their lifetimes allow it (see `reuse`). Scratch that an
operation needs and the program does not give comes after the tiles and is counted with them."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MemRefType, MultiTileType, TileType
from ptosim.ground.isa.schema import OpDef, ScratchDef
from ptosim.ground.isa.targets import MachineDef, SpaceDef, machine, unit_rules
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source, Span
from ptosim.language.place.reuse import Buffer, Lifetime, lifetimes, pack
from ptosim.language.verify.rule_views import environment, evaluate
from ptosim.machine.effects.storage import is_uncounted, named_values

# What is wrong with an address that the program gives a tile.

_CURE = "choose another address, or a smaller tile"


def space_limit(space: SpaceDef) -> int:
    """All bytes of a space that the assembler knows of."""
    return max(space.bytes, space.planner)


def address_faults(
    op: Operation,
    name: str,
    type_: TileType | MultiTileType,
    addr: int,
    space: SpaceDef,
    source: Source,
    *,
    whole_units: bool,
) -> Iterator[Diagnostic]:
    """Yield what the headers of the library and the assembler refuse of a constant address. With
    `whole_units` it is a multiple of what the planner gives: 512 bytes in left, right and acc."""

    def fault(code: str, vendor: str, what: str, cure: str = _CURE) -> Diagnostic:
        note = f"[{vendor}] TASSIGN of the vendor's headers states the same condition"
        place = Span(source, op.start, op.end)
        return finding(code, f"tile %{name}{what}", place, notes=(note,), help=cure)

    end, limit = addr + type_.bytes, space_limit(space)
    if type_.bytes > limit:
        what = f" takes {type_.bytes:,} bytes, more than {titled(space)} has ({space.bytes:,})"
        yield fault("PTO4352", "SA-0352", what)
    elif addr < 0:
        yield fault("PTO4353", "SA-0353", f": addr must be non-negative, got {addr}")
    elif end > limit:
        what = f" ends at {end:#x}, outside {titled(space)} ({space.bytes:,} bytes)"
        yield fault("PTO4353", "SA-0353", what)
    align = space.plan_align if whole_units else space.align
    if addr % align:
        what = f"addr must be aligned to {align} bytes for local tile memory space, got {addr}"
        yield fault("PTO4354", "SA-0354", f": {what}", f"use a multiple of {align}")


def titled(space: SpaceDef) -> str:
    """A space with both of its names."""
    return f"{space.alias} ({space.name})"


Owner = Value | tuple[Operation, str]
"""What bytes belong to: a value, or scratch of an operation by its name in the row."""

_AVAILABLE = {"legacy": "avaliable!", "modern": "available"}
"""How the assembler's planners spell it."""
_SLOT_ALIGN = 256  # of the slots of a FIFO
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
    """Where everything is."""

    values: dict[Value, int] = field(default_factory=dict)
    scratch: dict[tuple[Operation, str], Placed] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)

    def used(self, space: str) -> int:
        """Return the end of the highest byte in use."""
        return max((p.addr + p.bytes for p in self.placed if p.space == space), default=0)


def place(resolved: ResolvedModule, functions: list[Function], sink: Sink) -> Placement:
    """Place the tiles of functions that run on one core; over-budget spaces are errors."""
    placer = _Placer(resolved, sink)
    ops = [op for function in functions for op in function.ops]
    placer.by_the_program(ops)
    placer.called = called_functions(functions)
    for function in functions:
        placer.function = function
        placer.arguments(function)
        for op in function.ops:
            if op.results and op.definition is not None:
                placer.made(op, op.definition)
    for function in functions:
        placer.function = function
        for op in function.ops:
            if op.scratch and op.variant is not None:
                placer.scratch(op)
    placer.share()
    placer.check_budget()
    return placer.placement


def called_functions(functions: list[Function]) -> set[str]:
    """Return the names that calls in the functions reach."""
    return {op.bound["callee"] for f in functions for op in f.ops if "callee" in op.bound}


class _Placer:
    def __init__(self, resolved: ResolvedModule, sink: Sink) -> None:
        self.resolved = resolved
        self.sink = sink
        self.source = resolved.module.source
        self.machine: MachineDef = machine(resolved.chip)
        self.placement = Placement()
        self.function: Function | None = None  # whose tiles are being placed
        self.called: set[str] = set()  # functions that others call
        self._owners: list[tuple[Owner, Placed, Function | None]] = []
        self._next: dict[str, int] = {}
        self._taken: dict[str, list[tuple[int, int]]] = {}
        """The bytes of tiles that the program places itself, by space, in order."""
        self._pinned: dict[Value, int] = {}
        self._misplaced: set[str] = set()  # spaces with a tile that was reported already

    # -- tiles that the program places ------------------------------------------------------------

    def by_the_program(self, ops: Sequence[Operation]) -> None:
        """Take the addresses that the program gives, then those of the slots of FIFOs."""
        for op in ops:
            if "places" in op.traits and op.bound:
                self.assigned(op)
            elif "makes_storage" in op.traits and op.results:
                self.fixed(op)
        for op in ops:
            if "reserves" in op.traits and op.results:
                self.reserved(op)
        for op in ops:
            if "imports" in op.traits and op.results:
                self.imported(op)

    def fixed(self, op: Operation) -> None:
        """Check the constant address of a new tile, and remember it."""
        addr = op.bound.get("addr")
        type_ = op.results[0].type
        if not isinstance(addr, Operand) or not isinstance(type_, (TileType, MultiTileType)):
            return
        if isinstance(addr.const, int):
            self._check_address(op, op.results[0].name, type_, addr.const)
            self._record(op.results[0].name, type_.loc, addr.const, type_.bytes, op.start, False)

    def reserved(self, op: Operation) -> None:
        """The slots of a FIFO at the program's address, else in front of everything planned."""
        attrs = {name: attr_value(attr) for name, attr in op.attrs.items()}
        location = attrs.get("location")
        space = str(getattr(location, "member", location)).lower()
        if space not in self.machine.spaces:
            return  # the attribute is reported already
        base, size = attrs.get("base"), int(attrs.get("size", 0))
        planned = not isinstance(base, int)
        at = self._allocate(space, size, _SLOT_ALIGN) if planned else int(base)
        self.placement.values[op.results[0]] = at
        self._record(str(attrs.get("name")), space, at, size, op.start, planned)

    def imported(self, op: Operation) -> None:
        """A peer's slots are where the peer reserves them."""
        attrs = {name: attr_value(attr) for name, attr in op.attrs.items()}
        peer = self.resolved.peer(op)
        for other in peer.ops if peer is not None else ():
            if "reserves" in other.traits and other.results:
                theirs = attr_value(other.attrs["name"])
                if theirs == attrs.get("name"):
                    known = self.placement.values.get(other.results[0], 0)
                    self.placement.values[op.results[0]] = known

    def assigned(self, op: Operation) -> None:
        """Check the constant address that a tile is given, and remember it."""
        source, addr = op.bound["source"], op.bound["addr"]
        type_ = source.type
        if isinstance(type_, TileType) and isinstance(addr.const, int):
            self._check_address(op, source.value.name, type_, addr.const)
            self._record(source.value.name, type_.loc, addr.const, type_.bytes, op.start, False)
            if not op.results:
                self._pinned[source.value] = addr.const
                self.placement.values[source.value] = addr.const

    def _check_address(
        self, op: Operation, name: str, type_: TileType | MultiTileType, addr: int
    ) -> None:
        space = self.machine.spaces[type_.loc]
        if not 0 <= addr <= space_limit(space) - type_.bytes:
            self._misplaced.add(type_.loc)
        strict = "tile_alignment" in unit_rules(self.resolved.date).rules
        self.sink.extend(
            address_faults(op, name, type_, addr, space, self.source, whole_units=strict)
        )

    # -- tiles that the planner places ------------------------------------------------------------

    def arguments(self, function: Function) -> None:
        """Tile arguments of a function that runs on its own; a called one gets its caller's."""
        for value in () if function.name in self.called else function.args:
            if isinstance(value.type, TileType) and value not in self._pinned:
                self._tile(value, value.type, value.start)

    def made(self, op: Operation, row: OpDef) -> None:
        """Give the tiles and buffers that an operation makes an address, unless it names one."""
        makes_storage = "makes_storage" in op.traits
        if not (makes_storage or row.form == "dps") or op.bound.get("addr") is not None:
            return
        for value in op.results:
            if isinstance(value.type, MemRefType) and makes_storage:
                self._memref(value, value.type, op.start)
            elif isinstance(value.type, (TileType, MultiTileType)):
                self._tile(value, value.type, op.start)

    def _tile(self, value: Value, type_: TileType | MultiTileType, start: int) -> None:
        if value not in self.placement.values:
            size = type_.bytes
            addr = self._allocate(type_.loc, size)
            self.placement.values[value] = addr
            self._record(value.name, type_.loc, addr, size, start, True, value)

    def _memref(self, value: Value, type_: MemRefType, start: int) -> None:
        count = 1
        for dim in type_.dims:
            count *= dim or 1
        size = type_.elem.bytes_for(count)
        space = type_.space if type_.space in self.machine.spaces else "vec"
        addr = self._allocate(space, size)
        self.placement.values[value] = addr
        self._record(value.name, space, addr, size, start, True, value)

    def _allocate(self, space: str, size: int, coarse: int = 1) -> int:
        """The next free bytes of a space that hold no tile of the program."""
        align = max(self.machine.spaces[space].plan_align, coarse)
        at = self._next.get(space, 0)
        for start, end in self._taken.get(space, ()):
            if start < at + size and at < end:
                at = -(-end // align) * align
        self._next[space] = at + -(-size // align) * align
        return at

    def scratch(self, op: Operation) -> None:
        """Give an operation the scratch that it needs and the program leaves out."""
        for name, use in (op.scratch or {}).items():
            if not use.is_lacking or not self._gives(use.definition):
                continue
            names = environment(op, self.resolved.target)
            try:
                size = evaluate(use.definition.bytes or "", names)
            except TypeError:  # of an operand without a type or extents
                continue
            if not isinstance(size, int):
                continue
            space = use.definition.space
            addr = self._allocate(space, size)
            label = f"scratch {name} of {op.name.removeprefix('pto.')}"
            placed = self._record(label, space, addr, size, op.start, True, (op, name))
            self.placement.scratch[op, name] = placed

    def _gives(self, entry: ScratchDef) -> bool:
        """False at level 3 for scratch that the assembler has the program place."""
        is_ours = self.resolved.settings.level != 3 or not (entry.missing or entry.hidden)
        return entry.bytes is not None and is_ours

    def _record(
        self,
        name: str,
        space: str,
        addr: int,
        size: int,
        start: int,
        planned: bool,
        owner: Owner | None = None,
    ) -> Placed:
        placed = Placed(name, space, addr, size, start, planned)
        self.placement.placed.append(placed)
        if not planned:
            insort(self._taken.setdefault(space, []), (addr, addr + size))
        if owner is not None:
            self._owners.append((owner, placed, self.function))
        return placed

    # -- reuse ------------------------------------------------------------------------------------

    def share(self) -> None:
        """Plan again, with shared bytes, each space that overflows."""
        lives: dict[Owner, tuple[int, Lifetime]] | None = None
        for name, space in self.machine.spaces.items():
            planned = [(o, p) for o, p, _ in self._owners if p.space == name]
            end = max((p.addr + p.bytes for _, p in planned), default=0)
            # Of a small memory there is less than the planner hands out: first into what there is.
            limits = [limit for limit in _limits(space) if end > limit]
            if not limits:
                continue
            if lives is None:
                lives = self._lifetimes()
            taken = [
                (p.addr, p.addr + p.bytes)
                for p in self.placement.placed
                if p.space == name and not p.planned
            ]
            buffers = _buffers(planned, space, lives)
            tried = (self._pack(buffers, limit, taken) for limit in limits)
            found = next((made for made in tried if made is not None), None)
            if found is not None:
                self._move(planned, found)
            else:
                self._share_without_scratch(planned, buffers, taken, space)

    def _pack(
        self, buffers: list[Buffer], limit: int, taken: list[tuple[int, int]]
    ) -> dict[Owner, int] | None:
        rules = unit_rules(self.resolved.date).rules
        over = "results_over_sources" in rules and self.resolved.settings.planner == "legacy"
        return pack(buffers, limit, taken, over_sources=over)

    def _share_without_scratch(
        self,
        planned: list[tuple[Owner, Placed]],
        buffers: list[Buffer],
        taken: list[tuple[int, int]],
        space: SpaceDef,
    ) -> None:
        """Plan a space that overflows without the tiles that count nothing; they are at its start,
        where nothing touches them."""
        free = self._free_scratch()
        counted = [buffer for buffer in buffers if buffer.owner not in free]
        if len(counted) == len(buffers):
            return
        tried = (self._pack(counted, limit, taken) for limit in _limits(space))
        found = next((made for made in tried if made is not None), None)
        if found is not None:
            self._move(planned, {owner: found.get(owner, 0) for owner, _ in planned})

    def _free_scratch(self) -> set[Owner]:
        """The tiles that are scratch in every use, where the planner counts those nothing."""
        rules = unit_rules(self.resolved.date).rules
        if f"free_scratch_{self.resolved.target}" not in rules:
            return set()
        scratch: set[Owner] = set()
        others: set[Owner] = set()
        for op in self.resolved.ops:
            for name, _, value in named_values(op):
                is_made = value in op.results and "makes_storage" in op.traits
                is_free = is_uncounted(op, name, self.resolved.target)
                if not is_made:
                    (scratch if is_free else others).add(value)
        return scratch - others

    def _lifetimes(self) -> dict[Owner, tuple[int, Lifetime]]:
        lives: dict[Owner, tuple[int, Lifetime]] = {}
        functions = {id(f): f for _, _, f in self._owners if f is not None}
        for number, function in enumerate(functions.values()):
            owned = [o for o, _, f in self._owners if f is function]
            found, spans = lifetimes(function, {o for o in owned if isinstance(o, Value)})
            lives |= {value: (number, life) for value, life in found.items()}
            for owner in owned:
                if isinstance(owner, tuple):
                    at = spans[owner[0]][0]
                    lives[owner] = number, Lifetime(at, at, {"V"})
        return lives

    def _move(self, planned: list[tuple[Owner, Placed]], found: dict[Owner, int]) -> None:
        for owner, placed in planned:
            placed.addr = found[owner]
            if isinstance(owner, Value):
                self.placement.values[owner] = placed.addr

    # -- budget -----------------------------------------------------------------------------------

    def check_budget(self) -> None:
        """Report every space that the planner would have to overfill."""
        for name, space in self.machine.spaces.items():
            planned = [p for p in self.placement.placed if p.space == name and p.planned]
            end = max((p.addr + p.bytes for p in planned), default=0)
            if end > space.planner and name not in self._misplaced:
                self.sink.emit(self._over_budget(space, planned, end))
            elif name not in self._misplaced:
                self._real_size(space)

    def _real_size(self, space: SpaceDef) -> None:
        """Report what the assembler places beyond the end of a memory that it takes for larger."""
        for placed in self.placement.placed:
            end = placed.addr + placed.bytes
            if placed.space == space.name and end > space.bytes:
                self.sink.report(
                    "PTO4005",
                    f"{placed.name} ends at {end:#x}, beyond the {space.bytes:,} bytes of "
                    f"{titled(space)}",
                    self._word(placed.start),
                    notes=(f"the assembler takes the memory for {space.planner} bytes",),
                    help=f"free {end - space.bytes} bytes: shrink the tile, or use it in parts",
                )

    def _over_budget(self, space: SpaceDef, planned: list[Placed], end: int):
        biggest = sorted(planned, key=lambda p: -p.bytes)[:5]
        first, *rest = (Label(self._word(p.start), f"{p.name}: {p.bytes:,} bytes") for p in biggest)
        return finding(
            "PTO4001",
            f"{space.name} overflow, requires {end * 8} bits while {space.planner * 8} bits "
            f"{_AVAILABLE[self.resolved.settings.planner]}",
            first.span,
            label=first.text,
            more=tuple(rest),
            notes=(
                f"{end:,} bytes of tiles in {titled(space)}; the planner has {space.planner:,} of "
                f"{space.bytes:,} bytes",
                "tiles that are in use at the same time cannot share bytes",
                *self._budget_notes(space.name),
            ),
            help=f"free {end - space.planner:,} bytes: shrink the largest tiles, or place tiles at "
            "level 3",
        )

    def _budget_notes(self, space: str) -> list[str]:
        """What the rows of the operations that are used say about the budget of a space."""
        notes: dict[str, None] = {}
        for op in self.resolved.ops:
            table = op.definition.access.get("budget", {}) if op.definition is not None else {}
            entry = table.get(self.resolved.target)
            if entry is None or entry["space"] != space or op.variant is None:
                continue
            if op.variant.name in entry["variant"].split():
                notes[entry["text"]] = None
        return list(notes)

    def _word(self, start: int) -> Span:
        """The name or operation that begins at an offset."""
        word = _WORD.match(self.source.text, start)
        return Span(self.source, start, word.end() if word else start + 1)


def _buffers(
    planned: list[tuple[Owner, Placed]], space: SpaceDef, lives: dict[Owner, tuple[int, Lifetime]]
) -> list[Buffer]:
    buffers = []
    for order, (owner, placed) in enumerate(planned):
        size = -(-placed.bytes // space.plan_align) * space.plan_align
        group, life = lives.get(owner, (-1, None))
        buffers.append(Buffer(owner, size, order, group, life))
    return buffers


def _limits(space: SpaceDef) -> list[int]:
    """Ends that placed tiles should not go beyond, the lowest first: that of the memory where the
    planner does not know it, and the planner's own."""
    return [space.bytes, space.planner] if space.bytes < space.planner else [space.planner]
