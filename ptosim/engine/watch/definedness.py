"""Which elements of the outputs were written with values: what is left of the bytes' history at the
end of a run; and what copies and FIFOs hand on: bytes without a value have none at the other end.

Whoever reads bytes without a value is reported once; what it computes of them has none either, and
is not reported again. A trail says how such bytes came to where they are, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from ptosim.engine.core.bound import DecodedProgram
from ptosim.engine.watch.access import Access, Shadows, footprint
from ptosim.engine.watch.shadow import ORIGIN, Atom, Entry, Footprint, Shadow
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import DType
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.core import Core
from ptosim.machine.effects.account import DEFINED, TAINTED, UNDEFINED
from ptosim.machine.effects.ranges import EMPTY, intervals
from ptosim.machine.effects.storage import written_name
from ptosim.machine.effects.strided import MAX_RUNS, Touch, runs_of
from ptosim.machine.tile import Tile, TileRef, tile_ref
from ptosim.machine.values import Pointer
from ptosim.ops.base.binding import Binding

STALE = TAINTED + 1
"""What a copy hands on of bytes that have another buffer's values: they are not the reader's."""
MOST_BYTES = 1 << 22
"""Of an operand, looked at one by one: of a larger one all that is computed of it has no value."""
_ALIKE = ("elementwise", "tile_scalar", "memory", "micro_dma")
"""Families whose results have the elements of their sources, in their order."""


def without_values(print_: Footprint, stale: Iterable[Atom] = ()) -> np.ndarray | None:
    """Return which bytes of an operand have no value, ascending, what is `stale` among them; None
    for too many."""
    if print_.bytes > MOST_BYTES:
        return None
    places = _places(print_)
    found = print_.shadow.states(places) != DEFINED
    return found | print_.shadow.belong(places, stale) if stale else found


def keeps_order(op: Operation | None) -> bool:
    """True for an operation whose result has no value just where its sources have none."""
    family = op.definition.family if op is not None and op.definition is not None else ""
    return family in _ALIKE


# -- whose they are --------------------------------------------------------------------------------


def is_computed(value: Value) -> bool:
    """True for a tile at an address that is no constant."""
    owner = value.owner
    given = owner.bound.get("addr") if owner is not None else None
    return isinstance(given, Operand) and given.value is not None and given.const is None


class Names:
    """Which storages of a program may be names of one: what one of them wrote is the other's, too.

    Two that the planner places are never names of one. Two at addresses of the program are if they
    have the same bytes, or one is a part of the other; where they overlap in part they are not."""

    def __init__(self, program: DecodedProgram) -> None:
        self.inputs: set[Value] = set()  # tiles that have values from the start
        self._slots = program.slots
        self._apart: dict[tuple[Value, Value], bool] = {}

    def place(self, core: Core, value: Value) -> tuple[int, int | None] | None:
        """The address and the bytes of a buffer, None where it is not known what it is."""
        slot = self._slots.get(value)
        if slot is None or (value.is_argument and value not in self.inputs):
            return None
        held = core.slots[slot]
        if isinstance(held, TileRef):
            return held.addr, held.type.bytes
        return (held.byte, None) if isinstance(held, Pointer) else None

    def are_apart(self, core: Core, one: Value, two: Value) -> bool:
        """True if bytes that one of two storages wrote are certainly not meant by the other."""
        found = self._apart.get((one, two))
        if found is None:
            found = self._apart[one, two] = self._are_apart(core, one, two)
        return found

    def _are_apart(self, core: Core, one: Value, two: Value) -> bool:
        if is_computed(one) or is_computed(two):
            return False
        if _is_planned(one) and _is_planned(two):
            return one.owner.function is two.owner.function  # type: ignore[union-attr]
        first, second = self.place(core, one), self.place(core, two)
        if first is None or second is None or first[1] is None or second[1] is None:
            return False
        (low, size), (start, limit) = sorted(((first[0], first[1]), (second[0], second[1])))
        return low < start < low + size < start + limit


def _is_planned(value: Value) -> bool:
    """True for a tile that the planner places."""
    owner = value.owner
    return owner is not None and owner.has("makes_storage") and owner.bound.get("addr") is None


# -- where they come from --------------------------------------------------------------------------

MOST_STEPS = 8
"""Steps of a trail that are kept: of a longer one the first."""


class Step(NamedTuple):
    """What an operation did with bytes without a value; `name` is the operand that has them then,
    as the program calls it."""

    did: str
    op: Operation | None
    name: str


@dataclass(slots=True, eq=False)
class Cause:
    """A finding about bytes without a value, and where in global memory what was computed of them
    went: the operations that stored it."""

    told: Any
    ends: list[Operation] = field(default_factory=list)


class Trail(NamedTuple):
    """How bytes without a value came to where they are, and the finding that told of them, if one
    did. It holds as long as `stamp` is the access that wrote them last."""

    steps: tuple[Step, ...]
    cause: Cause | None = None
    stamp: Any = None

    @property
    def is_stale(self) -> bool:
        """True if another buffer left the bytes, with values of its own."""
        return any(step.did == "reused" for step in self.steps)

    def longer(self, did: str, op: Operation | None, name: str) -> Trail:
        """Return the trail with one step more; a loop comes by each operation once."""
        if len(self.steps) >= MOST_STEPS or any(step.op is op for step in self.steps):
            return self
        return self._replace(steps=(*self.steps, Step(did, op, name)))


def trail_of(atom: Atom, print_: Footprint, *, is_stale: bool = False) -> Trail:
    """Return how the bytes of an atom came to have no value; `is_stale`: they have another
    buffer's."""
    if is_stale:
        steps = [Step("allocated", print_.owner.owner, f"%{print_.owner.name}")]
        if atom.write[2] is not None:
            steps.append(Step("reused", atom.write[2].inst.op, f"%{atom.owner.name}"))
        return Trail(tuple(steps))
    held: Trail | None = atom.trail
    if held is not None and held.stamp is atom.write[2]:
        return held
    writer = atom.write[2]
    if writer is None or atom.defined == UNDEFINED:
        owner = print_.owner
        if owner is None or owner.owner is None:
            return Trail(())
        return Trail((Step("allocated", owner.owner, f"%{owner.name}"),))
    return Trail((Step("left", writer.inst.op, ""),) if atom.defined != TAINTED else ())


def taint(
    op: Operation | None, sources: list[np.ndarray | None], written: Footprint, trail: Trail
) -> None:
    """Say of what an operation wrote that it has no value where its sources have none."""
    found = [s for s in sources if s is not None and s.size == written.bytes]
    if keeps_order(op) and len(found) == len(sources):
        without = np.logical_or.reduce(found)
        if not without.all():
            runs = runs_of(_places(written)[without], 1) if without.any() else ()
            parts = runs if len(runs) < MAX_RUNS else written.parts
            written = Footprint(written.shadow, parts, written.name, None)
    for atom in written.atoms():
        atom.defined, atom.trail = TAINTED, trail._replace(stamp=atom.write[2])


def _places(print_: Footprint) -> np.ndarray:
    rows = intervals(print_.parts)
    sizes = rows[:, 1] - rows[:, 0]
    starts = np.repeat(rows[:, 0] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return starts + np.arange(int(sizes.sum()))


# -- at the end of a run ---------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A map of some bytes: the first one, the bytes of a unit, the label of each unit, and by label
    whether it was written with a value."""

    base: int
    unit: int
    labels: np.ndarray
    written: np.ndarray


class _Part(NamedTuple):
    """What is known of a buffer, as pieces or as the ranges of bytes that were written; the bytes
    of an argument in it, its elements and shape."""

    pieces: list[_Piece]
    ranges: np.ndarray
    offset: int
    size: int
    elem: DType
    shape: tuple[int, ...]


class Definedness(Mapping[str, np.ndarray]):
    """Boolean arrays by the names of arguments in global memory, made when they are asked for: True
    where every byte of an element was written with a value."""

    def __init__(self) -> None:
        self._parts: dict[str, _Part] = {}
        self._without: dict[str, np.ndarray] = {}

    def add(
        self,
        name: str,
        shadow: Shadow,
        place: tuple[int, int],
        elem: DType,
        shape: tuple[int, ...],
    ) -> None:
        """Keep what is known of an argument: `place` is its first byte and its bytes."""
        self._parts[name] = _Part(list(_pieces(shadow)), EMPTY, *place, elem, shape)

    def add_ranges(
        self,
        name: str,
        ranges: np.ndarray,
        place: tuple[int, int],
        elem: DType,
        shape: tuple[int, ...],
    ) -> None:
        """Do the same for a buffer of which these ranges of bytes were written with values."""
        self._parts[name] = _Part([], ranges, *place, elem, shape)

    def leave_out(self, name: str, elements: np.ndarray) -> None:
        """Say of some elements of an argument that they have no value after all."""
        self._without[name] = elements

    def __getitem__(self, name: str) -> np.ndarray:
        pieces, ranges, offset, size, elem, shape = self._parts[name]
        of_bytes: np.ndarray = np.zeros(offset + size, bool)
        for base, unit, labels, written in pieces:
            known = np.repeat(written[labels], unit)[: max(offset + size - base, 0)]
            of_bytes[base : base + len(known)] = known
        for low, high in ranges.tolist():
            of_bytes[low:high] = True
        of_bytes = of_bytes[offset:]
        if elem.bits < 8:
            of_bytes = np.repeat(of_bytes, 8 // elem.bits)
        else:
            of_bytes = np.logical_and.reduce(of_bytes.reshape(-1, elem.bits // 8), axis=1)
        found = of_bytes[: int(np.prod(shape))].reshape(shape)
        without = self._without.get(name)
        return found if without is None else found & ~without

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _pieces(shadow: Shadow) -> Iterator[_Piece]:
    for base, region in shadow.regions():
        written = [a.write is not ORIGIN and a.defined == DEFINED for a in region.atoms]
        yield _Piece(base, region.unit, region.labels, np.array(written, bool))


# -- copies ----------------------------------------------------------------------------------------

MOST_PLACES = 1 << 22
"""Bytes of a copy that are looked at one by one, some times as many as a memory on chip has. Of a
copy that reaches more of them, its bursts over each other, the destination counts as defined where
not the whole source is without values: less is known of it."""


Told = Callable[[Trail], None]
"""Is told of trails that end in global memory."""
Foreign = Callable[[Core, Atom, Footprint], bool]
"""True for a value in an operand that another buffer left there."""


def copier(
    binding: Binding, access: Access, shadows: Shadows, is_stale: Foreign, went_out: Told
) -> Callable[[], None] | None:
    """Return what gives the destinations of copies the states of their sources, None if nothing is
    copied. It is called after the destinations were noted as written."""
    touches = binding.touches
    found = [(source, target, (1, 1)) for source, target in binding.copied]
    found += touches.found if touches is not None else []
    if not found:
        return None
    op = binding.op
    if access.copied is None:
        access.copied = tuple([footprint(source, op, shadows) for source, _, _ in found])
    pairs = zip(access.copied, found, strict=True)
    known = [(print_, pair) for print_, pair in pairs if print_ is not None]
    if not known:
        return None

    def left(atom: Atom, print_: Footprint) -> bool:
        writer = atom.write[2]
        return (writer is None or writer.inst.op is not op) and is_stale(binding.core, atom, print_)

    def spread() -> None:
        for print_, pair in known:
            stale = [a for a in print_.atoms() if a.owner is not print_.owner and left(a, print_)]
            if stale or any(atom.defined != DEFINED for atom in print_.atoms()):
                trails = _spread(op, print_, *pair, shadows, stale)
                if isinstance(pair[1].where, int):
                    for trail in trails:
                        went_out(trail)

    return spread


def _spread(
    op: Operation,
    print_: Footprint,
    source: Touch,
    target: Touch,
    unit: tuple[int, int],
    shadows: Shadows,
    stale: list[Atom],
) -> Iterable[Trail]:
    states = {STALE if atom in stale else atom.defined: atom for atom in print_.atoms()}
    trails = {
        state: trail_of(atom, print_, is_stale=state == STALE).longer(
            "copied", op, written_name(op, target.operand)
        )
        for state, atom in states.items()
        if state != DEFINED
    }
    if len(states) == 1:
        found = footprint(target, None, shadows)
        if found is not None:
            _set(found, *next(iter(trails.items())))
        return trails.values()
    source, target = _moving(source, target)
    if max(_count(source), _count(target)) > MOST_PLACES:
        return ()
    of_bytes = print_.shadow.states(_reached(source))
    if stale:
        of_bytes[print_.shadow.belong(_reached(source), stale)] = STALE
    if unit != (1, 1):
        of_bytes = np.repeat(of_bytes[:: unit[0]], unit[1])
    places, shadow = _reached(target), shadows(target.core, target.where)
    for state, trail in trails.items():
        chosen = np.unique(places[of_bytes == state])
        parts = runs_of(chosen, 1) if len(chosen) else ()
        if parts and len(parts) < MAX_RUNS:
            _set(Footprint(shadow, parts, target.operand, None), state, trail)
    return trails.values()


def _set(print_: Footprint, state: int, trail: Trail) -> None:
    for atom in print_.atoms():
        atom.defined = UNDEFINED if state == STALE else state
        atom.trail = trail._replace(stamp=atom.write[2])


def _moving(source: Touch, target: Touch) -> tuple[Touch, Touch]:
    """A copy without levels that stay where they are: these move the same bytes again."""
    both = [
        pair for pair in zip(source.levels, target.levels, strict=True) if pair[0][1] or pair[1][1]
    ]
    return (
        source._replace(levels=tuple(one for one, _ in both)),
        target._replace(levels=tuple(other for _, other in both)),
    )


def _count(touch: Touch) -> int:
    return touch.run * prod(n for n, _ in touch.levels)


def _reached(touch: Touch) -> np.ndarray:
    """Every byte that a copy inside its space reaches, burst by burst."""
    starts = np.zeros((1,), np.int64)
    for n, distance in reversed(touch.levels):
        starts = (starts[:, None] + np.arange(n) * distance).reshape(-1)
    return (touch.start + starts[:, None] + np.arange(touch.run)).reshape(-1)


# -- FIFOs -----------------------------------------------------------------------------------------


class Pushed(NamedTuple):
    """A push of elements without a value: which ones, the state of the first of them and how it
    came there, who pushed which tile."""

    lost: np.ndarray
    state: int
    trail: Trail
    atom: Atom
    entry: Entry
    print_: Footprint


class Passed:
    """What is in the entries of FIFOs, by what orders a pop after its push: the shape of a tile
    with values, or the push of one that has none in part."""

    def __init__(self) -> None:
        self._slots: dict[Hashable, deque[Pushed | tuple[int, ...]]] = {}
        self._popped: set[Hashable] = set()

    def push(self, binding: Binding, entry: Entry, is_stale: Foreign) -> None:
        """A tile goes into the entry of each vector core that takes part."""
        ref = binding.pushed
        found: Pushed | None = None
        if ref is not None:
            every = (_pushed(ref, entry, print_, is_stale) for print_ in entry[2].found)
            found = next((push for push in every if push is not None), None)
        shape = (ref.v_row, ref.v_col) if ref is not None else ()
        for key in binding.signals:
            self._slots.setdefault(key, deque()).append(found or shape)

    def pop(self, binding: Binding) -> tuple[Pushed | None, np.ndarray | None]:
        """The oldest tile is taken: return who pushed elements without a value, and which of its
        own these are."""
        taken = []
        for key in binding.awaits:
            self._popped.add(key)
            slots = self._slots.get(key)
            if slots:
                taken.append(slots.popleft())
        found = next((push for push in taken if isinstance(push, Pushed)), None)
        if found is None or binding.popped is None:
            return None, None
        entries = [p.lost if isinstance(p, Pushed) else np.zeros(p, bool) for p in taken]
        return found, binding.popped(entries)

    @staticmethod
    def fill(push: Pushed, lost: np.ndarray, ref: TileRef, shadow: Shadow) -> None:
        """The lost elements of a tile that was popped have no value, as the push had none."""
        at_start = tile_ref(ref.type, 0, ref.v_row, ref.v_col)
        held = bytearray(ref.type.bytes)
        tile = Tile(at_start, held)
        of_bytes = np.repeat(np.where(lost, 255, 0).astype(np.uint8), tile.dtype.itemsize, axis=1)
        tile.write(of_bytes.view(tile.dtype) & 15 if tile.bits == 4 else of_bytes.view(tile.dtype))
        chosen = np.flatnonzero(np.frombuffer(held, np.uint8)) + ref.addr
        parts = runs_of(chosen, 1) if len(chosen) else ()
        if parts:
            _set(Footprint(shadow, parts, "tile", None), push.state, push.trail)

    def state(self) -> tuple[Any, ...]:
        """What is in each FIFO, in its order: shapes, and pushes of what has no value."""
        of = lambda each: id(each) if isinstance(each, Pushed) else each  # noqa: E731
        return tuple((key, tuple(map(of, slots))) for key, slots in self._slots.items() if slots)

    def left(self) -> Iterator[Pushed]:
        """Yield what nobody pops: where the other half is not at hand, it is taken as read."""
        for key, slots in self._slots.items():
            if key not in self._popped:
                yield from (push for push in slots if isinstance(push, Pushed))


def _pushed(ref: TileRef, entry: Entry, print_: Footprint, is_stale: Foreign) -> Pushed | None:
    """What a push of a tile hands on without a value, None if it has values all over."""
    core, op = entry[2].core, entry[2].inst.op
    stale = [atom for atom in print_.atoms() if is_stale(core, atom, print_)]
    first = next((a for a in print_.atoms() if a.defined != DEFINED or a in stale), None)
    lost = without_values(print_, stale) if first is not None else None
    if first is None or lost is None:
        return None
    held = np.zeros(ref.type.bytes, np.uint8)
    held[_places(print_)[lost] - ref.addr] = 255
    tile = Tile(tile_ref(ref.type, 0, ref.v_row, ref.v_col), bytearray(held))
    values = np.ascontiguousarray(tile.read())
    elements = values.view(np.uint8).reshape(*values.shape, -1).max(axis=2) > 0
    way = trail_of(first, print_, is_stale=first in stale)
    way = way.longer("pushed", op, written_name(op, print_.name))
    return Pushed(elements, STALE if first in stale else first.defined, way, first, entry, print_)
