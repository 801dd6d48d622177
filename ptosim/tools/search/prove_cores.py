"""What cores do together, for the proof: tiles in FIFOs, and sums that several add to.

A push keeps the expressions of its tile's elements, a pop writes them to the tile that it hands
out. Slots in global memory are memory as any other; slots on the chip are a memory of their own
here, since they hold elements in no layout until the consumer's tile has them.

What is added to an element of global memory is known by who adds it: for each pipe of a core what
it has added, in its order. In which order those of several come is not given; programs with the
same of all of them give the same in each order, and a proof says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ptosim.machine.core import PipeEnd, Share, ShareKey
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import Alloc, FifoUse, Free, Pop, Push
from ptosim.ops.sync.fifo import popped, stored_at
from ptosim.ops.sync.fifo_ends import end_of, share_keys, shares_of, slot_start, split_of
from ptosim.tools.search.prove_memory import (
    Bytes,
    Elements,
    HashedMemory,
    Hashes,
    Place,
    Unprovable,
    constant,
    element_places,
    joined,
    salt,
)
from ptosim.tools.search.prove_ops import Step


def fifo_use(op: Binding) -> FifoUse | None:
    """Return how an operation uses a FIFO, None if it uses none."""
    return op.sync if isinstance(op.sync, FifoUse) else None


class Slots:
    """What the slots of all FIFOs hold, and the factors of their pushes."""

    def __init__(self, memory: HashedMemory, *, loose: bool) -> None:
        self.memory, self.loose = memory, loose
        self._held: dict[tuple[Any, ShareKey], dict[int, Hashes]] = {}
        self._factors: dict[tuple[int, str], Hashes] = {}

    @property
    def is_filled(self) -> bool:
        """True if something was pushed, or factors were set."""
        return bool(self._held or self._factors)

    def follow(self, op: Binding) -> tuple[list[Bytes], list[Bytes]]:
        """Follow a use of a FIFO that took effect: the bytes that it has read and written."""
        use, end = op.sync, end_of(op)
        assert isinstance(use, FifoUse)
        if end.key != use.key or op.machine.stub is not None:
            raise Unprovable("uses a FIFO whose end was set up again, or one without its other end")
        if isinstance(use, (Alloc, Free)) or end.slot is not None:
            return [], []  # a view of a slot is handed on: nothing is copied
        shares = list(self._shares(op, end, use.direction))
        if isinstance(use, Push):
            return self._push(op, end, use.direction, shares)
        assert isinstance(use, Pop)
        return self._pop(op, end, use.direction, shares)

    def _shares(
        self, op: Binding, end: PipeEnd, direction: str
    ) -> Iterator[tuple[Share, dict[int, Hashes]]]:
        for key in share_keys(op, end, direction):
            share = op.core.cluster.fifos.share(key)
            yield share, self._held.setdefault((op.core.place, key), {})

    def _push(
        self, op: Binding, end: PipeEnd, direction: str,
        shares: list[tuple[Share, dict[int, Hashes]]],
    ) -> tuple[list[Bytes], list[Bytes]]:  # fmt: skip
        if not shares:
            return [], []
        tile, step = op.tile("tile"), Step(op, self.memory, loose=self.loose)
        made = self._converted(step, end, step.read("tile", tile.v_row, tile.v_col))
        index = shares[0][0].pushed - 1
        for _, held in shares:
            held[index % end.slot_num] = made
        read = [(e.place, e.places.reshape(-1)) for e in step.reads]
        if end.gm is None:
            return read, []
        size = shares[0][0].entries[index % end.slot_num].dtype.itemsize
        at = stored_at(op, direction, split_of(op), made.shape, size)
        slot = self._slot(op, end, direction, index, made.shape, at, size)
        slot.write(made)
        return read, [(slot.place, slot.places.reshape(-1))]

    def _converted(self, step: Step, end: PipeEnd, elements: Hashes) -> Hashes:
        """What a push makes of the elements on their way, one by one or with those of a column."""
        epilogue = end.epilogue
        quant = epilogue.conversion if epilogue is not None else None
        if quant is None:
            return elements
        factors, name = [], f"pipe {end.number} {quant.scale}"
        given = step.op.core.registers.get(name)
        if quant.scale == "vector":
            held = self._factors.get((step.op.core.number, name))
            if held is None or len(held) < elements.shape[1]:
                raise Unprovable("scales columns by factors that were not followed")
            factors, given = [held[None, : elements.shape[1]]], None
        return joined(step.key("push", repr(epilogue), end.popped_as, given), elements, *factors)

    def keep_factors(self, op: Binding) -> list[Bytes]:
        """Follow what sets the factors of the next pushes of a pipe: the bytes that it reads."""
        number = op.attr("id") or 0
        if not op.has("scaling_tile"):
            return []
        tile, step = op.tile("scaling_tile"), Step(op, self.memory, loose=self.loose)
        made = step.read("scaling_tile", tile.v_row, tile.v_col).reshape(-1)
        kind = salt("factors", str(tile.type.dtype))
        self._factors[op.core.number, f"pipe {number} vector"] = joined(kind, made)
        return [(e.place, e.places.reshape(-1)) for e in step.reads]

    def _pop(
        self, op: Binding, end: PipeEnd, direction: str,
        shares: list[tuple[Share, dict[int, Hashes]]],
    ) -> tuple[list[Bytes], list[Bytes]]:  # fmt: skip
        core, ref = op.made[0]
        place = self.memory.space(core, ref.type.loc)
        if not shares:  # the vector core that takes no part gets zeros
            at = element_places(ref, ref.v_row, ref.v_col).reshape(-1)
            self.memory.of(place).put(at, constant(np.zeros(len(at), np.uint8)))
            return [], [(place, at)]
        index, read = shares[0][0].popped - 1, list[Bytes]()
        number, size = index % end.slot_num, ref.type.dtype.bits // 8

        def fetch(shape: tuple[int, ...], first: int, row: int) -> Hashes:
            slot = self._slot(op, end, direction, index, shape, (first, row), size)
            read.append((slot.place, slot.places.reshape(-1)))
            return slot.read()

        entries = [held.get(number) for _, held in shares]
        if any(each is None for each in entries):
            raise Unprovable("takes a tile of a FIFO that was not followed")
        made = popped(op, end, direction, entries, split_of(op), size, fetch)  # type: ignore[arg-type]
        target = Elements(self.memory, place, element_places(ref, *made.shape))
        target.write(made)
        return read, [(place, target.places.reshape(-1))]

    def _slot(
        self, op: Binding, end: PipeEnd, direction: str, index: int, shape: tuple[int, ...],
        at: tuple[int, int], size: int,
    ) -> Elements:  # fmt: skip
        """Elements of a slot in global memory: `at` are its first byte and those of a row."""
        memory, start = slot_start(op, end, direction, index)
        rows, cols = np.ogrid[: shape[0], : shape[1]]
        places = start + at[0] + rows * at[1] + cols * size
        return Elements(self.memory, ("gm", memory), places[..., None] + np.arange(size))


@contextmanager
def done_again(op: Binding, function: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Give what does a use of a FIFO, which was done, again and again; the FIFOs are afterwards as
    they were. Raises Unprovable if its slots do not get the same each second time."""
    fifos, use = op.core.cluster.fifos, op.sync
    assert isinstance(use, FifoUse)
    now, before = fifos.copy(), fifos.copy()
    fifos.restore(before)
    for share in shares_of(op, end_of(op), use.direction)():
        _take_back(share, use, frees=op.target == "a2a3" and end_of(op).slot is None)
    before = fifos.copy()
    told: list[list[tuple[int, bytes]]] = []

    def again() -> None:
        fifos.restore(before)
        function()
        shares = shares_of(op, end_of(op), use.direction)()
        told.append([(n, e.tobytes()) for s in shares for n, e in s.entries.items()])

    try:
        yield again
    finally:
        fifos.restore(now)
    if any(told[n] != told[n + 1] for n in range(0, len(told) - 1, 2)):
        raise Unprovable("depends on bytes that the rules do not name")


def _take_back(share: Share, use: FifoUse, *, frees: bool) -> None:
    """The counters of a share before a use."""
    if isinstance(use, Push):
        share.pushed -= 1
    elif isinstance(use, Pop):
        share.popped -= 1
        share.freed -= frees
    elif isinstance(use, Free):
        share.freed -= not frees
    else:
        share.taken -= 1


class Sums:
    """Elements of global memory that are added to: what was there, and what each pipe has added.
    `unordered` are the numbers of the buffers with elements that several have added to."""

    def __init__(self, memory: HashedMemory) -> None:
        self.memory = memory
        self.unordered: set[int] = set()
        self._states: dict[Place, Hashes] = {}
        self._starts: dict[Place, Hashes] = {}
        self._totals: dict[Place, Hashes] = {}
        self._own: dict[Place, dict[tuple[int, str], Hashes]] = {}

    @property
    def is_begun(self) -> bool:
        """True if something was added to."""
        return bool(self._own)

    def add(self, elements: Elements, hashes: Hashes, key: np.uint64, who: tuple[int, str]) -> None:
        """Add to elements in place; `who` are the core and the pipe that do."""
        place, first = elements.place, elements.places[..., 0]
        size = len(self.memory.of(place).hashes)
        for table in (self._states, self._starts, self._totals):
            table.setdefault(place, np.zeros(size, np.uint64))
        every = self._own.setdefault(place, {})
        mine = every.setdefault(who, np.zeros(size, np.uint64))
        now = elements.read()
        begins = self._states[place][first] != now
        for other in every.values():
            other[first[begins]] = 0
        total = np.where(begins, np.uint64(0), self._totals[place][first])
        start = np.where(begins, now, self._starts[place][first])
        before = mine[first]
        after = joined(key, before, hashes)
        with np.errstate(over="ignore"):
            total = total - _share(before) + _share(after)
        made = joined(salt("sum"), start, total)
        mine[first] = after
        if any((other[first] != 0).any() for name, other in every.items() if name != who):
            self.unordered.add(place[1])
        self._states[place][first], self._starts[place][first] = made, start
        self._totals[place][first] = total
        elements.write(made)


def _share(added: Hashes) -> Hashes:
    """What a pipe has added, as a summand; nothing of one that has added nothing."""
    return np.where(added == 0, np.uint64(0), joined(salt("added"), added))


def adds(op: Binding) -> bool:
    """True for a store that adds to what is in global memory."""
    view = op.values.get("dst")
    is_store = isinstance(view, GmView) and isinstance(op.values.get("src"), TileRef)
    return is_store and op.attr("atomicType") == "atomic_add"


def plain(op: Binding) -> Binding:
    """Return a store that adds as one that does not."""
    attributes = {**op.attributes, "atomicType": None}
    made = Binding(op.op, op.values, attributes, op.core, op.machine, op.profile, op.source)
    made.emit, made.slots = lambda finding: None, op.slots
    return made
