"""Why: what an operation waits for, and where the value of an element comes from.

An element of an input belongs to the chain if changing its bits changes the output. That is tried
out on the state before the operation, for the element at the same place first, then by halving the
input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.debug.names import brief
from ptosim.debug.reading import (
    Place,
    Reading,
    element_index,
    element_place,
    read_bytes,
    read_tile,
    read_view,
)
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.tables.memory import core_name, sync_of, waits_for
from ptosim.debug.writes import Write
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.core import Core
from ptosim.machine.effects.storage import bound_values, written_name
from ptosim.machine.gm import strided_view
from ptosim.machine.tile import Tile, TileRef
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding

DEPTH = 6
LINES = 32


# -- why an operation waits ------------------------------------------------------------------------


def waiting(session: Debugger) -> Sheet:
    """What every core and pipe that waits is waiting for, and which lines could let it go on."""
    sheet = Sheet("", (">line", "operation", "on", "waits for", "let go by"))
    for core in session.launch.machine.cores:
        heads = [queue[0] for queue in core.queues.values()]
        if core.stalled is not None:
            heads.insert(0, core.stalled)
        for inst, bound in heads:
            sync = sync_of(bound)
            where = f"{core_name(core)} {inst.pipe}" if core.index else f"pipe {inst.pipe}"
            sheet.add(
                session.names.line(inst.op), brief(inst.op), where, waits_for(sync),
                _givers(session, inst.op),
            )  # fmt: skip
    if not sheet.rows:
        op = session.current_op()
        sheet.notes.append(f"nothing waits; next: {brief(op)}" if op else "nothing waits")
    return sheet


def _givers(session: Debugger, op: Operation) -> str:
    """The lines whose operation signals what `op` waits for."""
    signal = _signal(op)
    if not signal or not op.has("waits"):
        return ""
    firsts = session.names.firsts
    lines = [session.names.line(o) for o in firsts if o.has("signals") and _signal(o) == signal]
    return f"line {', '.join(map(str, lines))}" if lines else "no operation of the program"


def _signal(op: Operation) -> dict[str, str]:
    """What tells a signal from others: its operands, without the pipe that gives or takes it."""
    return {
        name: str(getattr(operand.const, "member", operand.const))
        for name, operand in op.operands()
        if operand.const is not None and name not in ("pipe", "op_type")
    }


# -- where a value comes from ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """An element at a moment: `name` as shown, its bytes, and its number; `value` is what the
    program calls it, where it is an operand."""

    name: str
    place: Place
    number: Any
    value: Value | None = None


class Link(NamedTuple):
    """An element of a chain: who wrote it, and the write that read it (None for the first)."""

    node: Node
    write: Write
    reader: Write | None


class Chain:
    """The operations that made an element, followed so deep and for so many elements."""

    def __init__(self, session: Debugger, depth: int = DEPTH, most: int = LINES) -> None:
        self.session = session
        self.depth, self.most = depth, most
        self.sheet = Sheet("", ("value", "written by"), head=False)
        self.links: list[Link] = []
        self.seen: set[tuple[Place, int]] = set()

    def follow(
        self, node: Node, position: int, depth: int = 0, reader: Write | None = None
    ) -> None:
        """Add the writer of an element as of a position, and what the writer read."""
        session = self.session
        write = session.writes.last_write(node.place, position)
        self.links.append(Link(node, write, reader))
        label = f"{'  ' * depth}{node.name} = {_text(node.number)}"
        if write.event is None:
            given = "the argument" if node.place.space == "gm" else "nothing: never written"
            self.sheet.add(label, given)
            return
        op = write.event.inst.op
        line = session.names.line(op) if op is not None else "?"
        self.sheet.add(label, f"#{write.before} line {line}: {brief(op)}", mark=depth == 0)
        key = (node.place, write.before)
        if key in self.seen or depth >= self.depth or len(self.sheet.rows) >= self.most:
            return
        self.seen.add(key)
        binding, core = write.event.binding, write.event.core
        if binding is None:
            return
        for child in self._inputs(core, binding, node.place, write.before):
            if isinstance(child, Node):
                self.follow(child, write.before, depth + 1, write)
            else:
                self.sheet.add("  " * (depth + 1) + child, "")

    def _inputs(self, core: Core, binding: Binding, place: Place, before: int) -> list[Node | str]:
        walker = self.session.walker
        found: list[Node | str] = []
        index = index_of(binding, core, place)
        for operand, role, value in bound_values(binding.op, binding.values):
            if role in ("out", "scratch"):
                continue
            walker.goto(before)
            name = written_name(binding.op, operand)
            if isinstance(value, (int, float)):
                found.append(f"{name} = {_text(value)}")
                continue
            reading = reading_of(self.session, core, value)
            if reading is not None and reading.codes.size:
                probe = _Probe(self.session, core, place, before, reading)
                named = getattr(binding.op.bound.get(operand), "value", None)
                found += self._influences(name, probe, index, named)
        return found

    def _influences(
        self, name: str, probe: _Probe, index: tuple[int, ...] | None, named: Value | None
    ) -> list[Node | str]:
        """The elements of an input that the output depends on."""
        reading = probe.reading
        guess = _same_place(index, reading.codes.shape)
        if guess is None or not probe.matters([guess]):
            everything = [*np.ndindex(*reading.codes.shape)]
            if not probe.matters(everything):
                return []
            guess = _halved(everything, probe.matters)
            others = [e for e in everything if e != guess]
            if others and probe.matters(others):
                return [f"{name}: several of its {len(everything)} elements"]
        place = element_place(probe.core, reading, guess)
        shown = f"{name}[{', '.join(map(str, guess))}]"
        return [Node(shown, place, reading.numbers[guess], named)]


@dataclass(eq=False)
class _Probe:
    """Tells whether elements of an input matter for the bytes of an output."""

    session: Debugger
    core: Core
    place: Place
    before: int
    reading: Reading

    def __post_init__(self) -> None:
        self.plain = self._result(None)

    def matters(self, elements: list[tuple[int, ...]]) -> bool:
        """True if other bits in these elements give other bytes."""
        bits = self.reading.dtype.bits
        masks = ((1 << bits) - 1, 1 << (bits - 1), 1 << max(bits // 2, 0))
        for mask in masks:
            codes = self.reading.codes.copy()
            raw = codes.view(f"u{codes.dtype.itemsize}")
            raw[tuple(np.array(elements).T)] ^= raw.dtype.type(mask)
            if self._result(codes) != self.plain:
                return True
        return False

    def _result(self, codes: np.ndarray | None) -> bytes:
        walker = self.session.walker
        walker.goto(self.before)
        with walker.trial():
            if codes is not None:
                _store(self.session, self.core, self.reading, codes)
            walker.step()
            return read_bytes(walker.machine, self.place)


def _store(session: Debugger, core: Core, reading: Reading, codes: np.ndarray) -> None:
    if reading.kind == "tile":
        Tile(reading.ref, core.space(reading.ref.type.loc).data).write(codes)
        return
    spec, number, offset = reading.ref
    target = strided_view(session.launch.machine.buffers[number], spec, offset)
    target[...] = codes.reshape(target.shape)


def reading_of(session: Debugger, core: Core, value: object) -> Reading | None:
    try:
        if isinstance(value, TileRef):
            return read_tile(core, value)
        if isinstance(value, GmView) and value.spec.dtype.bits != 4:
            return read_view(session.launch.machine, value)
    except (UsageError, AttributeError):
        return None
    return None


def index_of(binding: Binding, core: Core, place: Place) -> tuple[int, ...] | None:
    """The element of an output that begins at a byte."""
    for _, role, value in bound_values(binding.op, binding.values):
        offsets = offsets_of(core, value, place) if role != "in" else None
        hits = np.argwhere(offsets == place.start) if offsets is not None else None
        if hits is not None and len(hits):
            return tuple(int(i) for i in hits[0])
    return None


def offsets_of(core: Core, value: object, place: Place) -> np.ndarray | None:
    """Byte addresses of all elements of a tile or view in the memory of `place`."""
    if isinstance(value, TileRef) and value.type.loc == place.space and core.index == place.core:
        layout = Tile(value, core.space(value.type.loc).data).layout
        rows, cols = np.indices((value.v_row, value.v_col))
        return value.addr + layout.offset(rows, cols) * value.type.dtype.bits // 8
    if isinstance(value, GmView) and (place.space, place.core) == ("gm", value.memory):
        spec, _, offset = value
        grid = np.indices(spec.sizes[-2:])
        offsets = offset + grid[0] * spec.strides[-2] + grid[1] * spec.strides[-1]
        return offsets * spec.dtype.bits // 8
    return None


def _same_place(index: tuple[int, ...] | None, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The element of an input that is at the place of an output's element, or is broadcast to
    it."""
    if index is None or len(index) != len(shape):
        return None
    guess = tuple(0 if n == 1 else i for i, n in zip(index, shape, strict=True))
    return guess if all(i < n for i, n in zip(guess, shape, strict=True)) else None


def _halved(
    elements: list[tuple[int, ...]], matters: Callable[[list[tuple[int, ...]]], bool]
) -> tuple[int, ...]:
    """One element that matters, of some that do together."""
    while len(elements) > 1:
        half = elements[: len(elements) // 2]
        elements = half if matters(half) else elements[len(elements) // 2 :]
    return elements[0]


def origin(session: Debugger, text: str) -> Sheet:
    """The chain of operations that made an element what it is: `%x[r, c]`."""
    name, bracket, rest = text.strip().partition("[")
    if not bracket:
        raise UsageError("`why` takes one element", help=f"why {name or '%x'}[0, 0]")
    reading = session.reading(name)
    place = session.place_of(text)
    index = element_index(session.evaluate(f"({rest.rstrip().removesuffix(']')},)"))
    if len(index) != reading.numbers.ndim:
        index = tuple(int(i) for i in np.unravel_index(index[0], reading.numbers.shape))
    here = session.position
    chain = Chain(session)
    try:
        shown = f"{name}[{', '.join(map(str, index))}]"
        chain.follow(Node(shown, place, reading.numbers[index]), here)
    finally:
        session.walker.goto(here)
    if len(chain.sheet.rows) >= LINES:
        chain.sheet.notes.append("the chain goes on; ask for one of its elements")
    return chain.sheet


def writer(session: Debugger, text: str) -> list[str]:
    """Go to the operation that wrote an element, tile or range last; what is said about it."""
    place = session.place_of(text)
    write = session.goto_last_write(text)
    if write.event is None:
        given = place.space == "gm" and place.core < len(session.launch.machine.buffers)
        what = "has the value that the launch gave it" if given else "was never written"
        return [f"{text.strip()} {what}"]
    size = place.end - place.start
    return [f"{text.strip()}: {size} byte{'s' if size > 1 else ''} at {place}, written last by"]


def _text(number: Any) -> str:
    return short_number(number) if not isinstance(number, str) else number
