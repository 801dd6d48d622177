"""Double buffering: a loop that loads, computes and stores takes two rounds at a time, each with
buffers of its own, so that the second is loaded while the first is computed.

The text gets addresses (level 3), every loop that loads is written twice in its body, tiles that
transfers fill or empty have a twin at another place, and flags and barriers are planned anew. What
a round hands to the next stays where it was. Nothing here is trusted: the result is for a proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Tok, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import TileType
from ptosim.ground.isa.targets import machine
from ptosim.ground.records import dataclass, field, replace
from ptosim.ground.source import Source
from ptosim.language.build import Builder, text_of
from ptosim.language.frontend import Front, FrontOptions
from ptosim.language.rewrite.abstract import Edit, edited, indent_of, loop_head
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.machine.effects.storage import operand_value, root_of
from ptosim.machine.layout import round_up
from ptosim.tools.search.rewrite_sync import (
    NotApplicable,
    bodies,
    constant_of,
    first_of,
    fresh,
    operations,
    read,
    renamed,
    values_of,
    with_sync,
    without_sync,
)

ALIGN = 256
_TRANSFERS = ("pto.tload", "pto.tstore")


def double_buffered(source: Source, options: FrontOptions) -> Source:
    """Return a program with two buffers in its loops, addresses and flags. Raises NotApplicable
    where there is no such loop, or no room for a second buffer."""
    placed = _with_addresses(without_sync(source, options), options)
    return with_sync(_unrolled(placed, replace(options, level=None)), replace(options, level=None))


def _with_addresses(source: Source, options: FrontOptions) -> Source:
    try:
        text, _ = rewritten(source, replace(options, sync=None), plan=True, insert_sync=False)
    except ProgramError as problem:
        raise NotApplicable(f"no addresses can be planned: {first_of(problem)}") from problem
    except UsageError as problem:
        raise NotApplicable(str(problem).removeprefix("--plan: ")) from problem
    return source.changed(text)


def _unrolled(source: Source, options: FrontOptions) -> Source:
    front = read(source, options)
    edits: list[Edit] = []
    why = NotApplicable("there is no loop that loads tiles and has only one buffer for them")
    for function in bodies(front.resolved):
        rooms = _Rooms(front, function)
        for loop in _loops(function):
            suffix = f"{fresh(front, '_twin')}{len(edits) or ''}"
            try:
                edits += _Twice(front, loop, rooms, suffix).edits()
            except NotApplicable as reason:
                why = reason
    if not edits:
        raise why
    return source.changed(edited(source.text, edits))


def _loops(function: Function) -> Iterator[Operation]:
    """Innermost counted loops over index that load and hand no values from round to round."""
    for op in function.op.walk():
        if not op.has("counted") or op.results:
            continue
        inside = list(operations(op))
        if any(o.has("loop") for o in inside) or not any(o.name == "pto.tload" for o in inside):
            continue
        if str(op.regions[0].blocks[0].values[0].type) == "index":
            yield op


# -- room for twins --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Storage:
    """A tile of the text: its bytes, and the operations that use it, in the order of the text."""

    value: Value
    addr: int
    users: list[Operation] = field(default_factory=list)

    @property
    def space(self) -> str:
        """The memory that it is in."""
        return _tile(self.value).loc

    @property
    def end(self) -> int:
        """One after its last byte."""
        return self.addr + _tile(self.value).bytes


def _tile(value: Value) -> TileType:
    assert isinstance(value.type, TileType)
    return value.type


class _Rooms:
    """The tiles of a function with their addresses, and the places that are free for others."""

    def __init__(self, front: Front, function: Function) -> None:
        self.front = front
        self.storages: dict[Value, _Storage] = {}
        self.taken: list[tuple[Operation, str, int, int]] = []
        for op in operations(function.op):
            if op.has("makes_storage"):
                self._allocated(op)
            for value in values_of(op):
                storage = self.storages.get(root_of(value))
                if storage is not None and not op.has("same_storage"):
                    storage.users.append(op)

    def _allocated(self, op: Operation) -> None:
        at = constant_of(op, "addr")
        if not isinstance(op.results[0].type, TileType):
            raise NotApplicable(f"'{op.name}' allocates something else than a tile")
        if at is None:
            line, _ = self.front.source.line_column(op.start)
            raise NotApplicable(f"the address of the tile in line {line} is not a constant")
        self.storages[op.results[0]] = _Storage(op.results[0], at)

    def meeting(self, storages: Iterable[_Storage]) -> list[_Storage]:
        """Return all storages that share bytes with some, and those that share bytes with them."""
        found = list(storages)
        for one in found:
            found += [
                s for s in self.storages.values()
                if s not in found and s.space == one.space and s.addr < one.end and one.addr < s.end
            ]  # fmt: skip
        return found

    def free(self, loop: Operation, space: str, size: int) -> int:
        """Take bytes that nothing uses while a loop runs. Raises NotApplicable if there is no
        room."""
        busy = [(s.addr, s.end) for s in self.storages.values() if s.space == space
                and _is_live(s, loop)]  # fmt: skip
        busy += [(a, b) for other, where, a, b in self.taken if where == space and other is loop]
        definition = machine(self.front.chip)
        busy += [(p.start, p.start + p.bytes) for p in definition.scratch if p.space == space]
        at = 0
        for start, end in sorted(busy):
            if start >= at + size:
                break
            at = max(at, round_up(end, ALIGN))
        if at + size > definition.spaces[space].bytes:
            raise NotApplicable(f"{space} has no room for a second buffer of {size:,} bytes")
        self.taken.append((loop, space, at, at + size))
        return at


def _is_live(storage: _Storage, loop: Operation) -> bool:
    """True if a storage is used in a loop, or before and after it."""
    places = [op.start for op in storage.users]
    inside = any(loop.start <= place < loop.end for place in places)
    before = any(place < loop.start for place in places)
    return inside or (before and any(place >= loop.end for place in places))


def _fills(op: Operation, storages: list[_Storage]) -> bool:
    """True if an operation writes all of one of the tiles and reads none of them."""
    target = operand_value(op, "dst")
    roots = {s.value for s in storages}
    taken = [v for v in values_of(op) if root_of(v) in roots]
    return taken == [target] and target is not None and _is_whole(target)


def _is_whole(value: Value) -> bool:
    """True for a tile itself, or all of it under another name."""
    root = root_of(value)
    same = isinstance(value.type, TileType) and isinstance(root.type, TileType)
    return same and _tile(value).bytes == _tile(root).bytes


def _address_of(op: Operation) -> Tok:
    """Return the word that is the address of an allocation."""
    operand = op.bound.get("addr")
    if not isinstance(operand, Operand) or not isinstance(operand.tok, Tok):
        raise NotApplicable(f"'{op.name}' has an address that is not written")
    return operand.tok


def _line(op: Operation) -> str:
    return text_of([op])


# -- one loop --------------------------------------------------------------------------------------


class _Twice:
    """A loop whose body is written twice."""

    def __init__(self, front: Front, loop: Operation, rooms: _Rooms, suffix: str) -> None:
        self.front = front
        self.text = front.source.text
        self.loop = loop
        self.rooms = rooms
        self.suffix = suffix
        self.block = loop.regions[0].blocks[0]
        self.margin = indent_of(self.text, loop.start)
        first, last = self.block.ops[0], self.block.ops[-1]
        self.head = self.text.index("{", self._after_operands(first)) + 1
        self.tail = self.text.rindex("}", last.end, loop.end)
        if self.text[self.tail + 1 : loop.end].strip():
            raise NotApplicable("a loop with attributes")
        self.addresses = Builder()
        self.outside: list[str] = []

    def _after_operands(self, first: Operation) -> int:
        operands = [self.loop.bound[n] for n in ("lower", "upper", "step")]
        ends = [o.tok.start for o in operands if isinstance(o, Operand) and o.tok is not None]
        if len(ends) != 3 or max(ends) >= first.start:
            raise NotApplicable("a loop whose bounds are not written")
        return max(ends)

    def edits(self) -> list[Edit]:
        """Return what becomes of the loop."""
        twins = self._twins()
        names = {v.name: f"{v.name}{self.suffix}" for v in self._defined()}
        names |= {v.name: f"{v.name}{self.suffix}" for v in twins}
        body = self.text[self.head : self.tail]
        moved = self._moved_inside(twins)
        shift = self.head
        copy = edited(body, [Edit(e.start - shift, e.end - shift, e.text) for e in moved])
        bounds = Builder()
        header, rest = self._bounds(bounds)
        step = self._word("step")
        inner = f"{self.margin}  "
        counter = self.block.values[0].name
        b = Builder()
        b.op("arith.addi", [f"%{counter}", step], ["index"], results=[f"%{names[counter]}"])
        second = f"{inner}{text_of(b.ops)}\n"
        lines = [*map(_line, self.addresses.ops), *self.outside, *map(_line, bounds.ops)]
        made = "".join(f"{line}\n{self.margin}" for line in lines)
        made += f"{header}{body.rstrip()}\n\n{second}{renamed(copy, names).strip(chr(10))}}}"
        if rest:
            made += f"\n{self.margin}{rest}{body}}}"
        return [Edit(self.loop.start, self.loop.end, made)]

    def _defined(self) -> Iterator[Value]:
        """Values that the body defines."""
        for op in (self.loop, *operations(self.loop)):
            if op is not self.loop:
                yield from op.results
            for region in op.regions:
                for block in region.blocks:
                    yield from block.values

    # -- bounds -----------------------------------------------------------------------------------

    def _word(self, name: str) -> str:
        operand = self.loop.bound[name]
        assert isinstance(operand, Operand)
        return operand.tok.value if hasattr(operand.tok, "value") else str(operand.const)  # type: ignore[union-attr]

    def _bounds(self, b: Builder) -> tuple[str, str]:
        """Build what the new bounds are; return the head of the loop, and that of the loop over
        what is left."""
        low, high, step = (constant_of(self.loop, n) for n in ("lower", "upper", "step"))
        counter = f"%{self.block.values[0].name}"
        lower, upper, stride = (self._word(n) for n in ("lower", "upper", "step"))
        two, even = f"%two{self.suffix}", f"%even{self.suffix}"
        step = step if step is not None and step > 0 else None
        if step is not None:
            b.constant(two, 2 * step, "index")
        else:
            b.op("arith.addi", [stride, stride], ["index"], results=[two])
        if low is not None and high is not None and step is not None:
            rounds = max(0, -(-(high - low) // step))
            if rounds < 2:
                raise NotApplicable("a loop of one round")
            if rounds % 2 == 0:
                return loop_head(counter, [lower, upper, two]), ""
            b.constant(even, low + rounds // 2 * 2 * step, "index")
        else:
            self._even(b, lower, upper, stride)
        return loop_head(counter, [lower, even, two]), loop_head(counter, [even, upper, stride])

    def _even(self, b: Builder, lower: str, upper: str, stride: str) -> None:
        """Build the end of the rounds that have a second one: `lower` and as many whole pairs of
        steps as there are rounds."""

        def name(stem: str) -> str:
            return f"%{stem}{self.suffix}"

        def step(word: str, one: str, two: str, result: str) -> str:
            b.op(f"arith.{word}", [one, two], ["index"], results=[name(result)])
            return name(result)

        b.constant(name("zero"), 0, "index")
        length = step("subi", upper, lower, "length")
        span = step("maxsi", length, name("zero"), "span")
        rounds = step("ceildivsi", span, stride, "rounds")
        b.constant(name("number"), 2, "index")
        pairs = step("divsi", rounds, name("number"), "pairs")
        step("addi", lower, step("muli", pairs, name("two"), "whole"), "even")

    # -- twins ------------------------------------------------------------------------------------

    def _twins(self) -> list[Value]:
        """Tiles of outside that get a twin, with the lines that make it: all that share bytes with
        what a transfer of the loop fills or empties, and other names of them."""
        moved = self.rooms.meeting(dict.fromkeys(self._transferred()))
        self._refuse_carried(moved)
        self.bases = self._bases(moved)
        inside = set(self._defined())
        twins = [s.value for s in moved if s.value not in inside]
        for value in twins:
            self.outside.append(self._twin_of(value.owner, self.bases[value]))
        named = {v for op in operations(self.loop) for v in values_of(op)}
        for value in sorted(named, key=lambda v: v.start):
            if value not in inside and value not in twins and root_of(value) in self.bases:
                twins.append(value)
                self.outside.append(self._renamed_line(value.owner, twins))
        return twins

    def _refuse_carried(self, moved: list[_Storage]) -> None:
        """What a round leaves in a tile for the next one, or for what comes after the loop, is in
        one of two buffers then: each must be filled first, in the loop and after it."""
        for storage in moved:
            group = [s for s in self.rooms.meeting([storage]) if s in moved]
            users = sorted({op for s in group for op in s.users}, key=lambda op: op.start)
            inside = [op for op in users if self.loop.start <= op.start < self.loop.end]
            after = [op for op in users if op.start >= self.loop.end]
            for first in (inside[:1], after[:1]):
                if first and not _fills(first[0], group):
                    line, _ = self.front.source.line_column(first[0].start)
                    name = storage.value.name
                    raise NotApplicable(f"line {line} takes %{name} as a round of the loop left it")

    def _transferred(self) -> Iterator[_Storage]:
        for op in operations(self.loop):
            if op.name not in _TRANSFERS:
                continue
            value = operand_value(op, "dst" if op.name == "pto.tload" else "src")
            storage = self.rooms.storages.get(root_of(value)) if value is not None else None
            if storage is not None:
                yield storage

    def _bases(self, moved: list[_Storage]) -> dict[Value, int]:
        """New addresses; storages that share bytes keep their distances."""
        bases: dict[Value, int] = {}
        for storage in moved:
            if storage.value in bases:
                continue
            group = self.rooms.meeting([storage])
            low, high = min(s.addr for s in group), max(s.end for s in group)
            at = self.rooms.free(self.loop, storage.space, high - low)
            bases |= {s.value: at + s.addr - low for s in group}
        return bases

    def _twin_of(self, op: Operation | None, base: int) -> str:
        """The line that allocates a twin."""
        assert op is not None
        name = op.results[0].name
        twin = f"{name}{self.suffix}"
        self.addresses.constant(f"%addr_{twin}", base, "i64")
        at = _address_of(op)
        text = edited(self.text, [Edit(at.start, at.end, f"%addr_{twin}")])
        longer = len(text) - len(self.text)
        return renamed(text[op.start : op.end + longer], {name: twin})

    def _renamed_line(self, op: Operation | None, values: list[Value]) -> str:
        assert op is not None
        text = self.text[op.start : op.end]
        return renamed(text, {v.name: f"{v.name}{self.suffix}" for v in values})

    def _moved_inside(self, twins: list[Value]) -> list[Edit]:
        """Edits of the copy of the body: allocations inside it that get another address."""
        edits = []
        for op in operations(self.loop):
            if not op.has("makes_storage") or op.results[0] not in self.bases:
                continue
            at = _address_of(op)
            name = f"%addr_{op.results[0].name}{self.suffix}"
            self.addresses.constant(name, self.bases[op.results[0]], "i64")
            edits.append(Edit(at.start, at.end, name))
        return edits
