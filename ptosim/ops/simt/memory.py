"""Memory as the threads of a launch see it: UB of their core, and global memory. Each access is one
step for all threads, with its bounds, its races and what it touches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, PackedDType
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.gm import addresses
from ptosim.machine.pages import view_dtype
from ptosim.ops.base.binding import OpFault
from ptosim.ops.simt.frame import (
    Frame,
    LaneContext,
    LanePtr,
    Lanes,
    Run,
    computed,
    element_type,
    lanes,
)
from ptosim.ops.simt.tracks import Access, Conflict, History, Ids, Where, Written, run_of

_U64 = np.dtype(np.uint64)
_MOST_RUNS = 64


@dataclass(frozen=True, slots=True)
class Element:
    """How an element is in memory and as a value: bytes, NumPy type of the whole element, and of
    its parts where it has several."""

    size: int
    whole: np.dtype
    part: np.dtype | None = None
    count: int = 1

    def unpacked(self, raw: Lanes) -> Lanes:
        """Return elements of memory as a value."""
        if self.part is None:
            return raw
        return np.ascontiguousarray(raw).view(self.part).reshape(len(raw), self.count).T

    def packed(self, value: Lanes) -> Lanes:
        """Return a value as elements of memory."""
        if self.part is None:
            return value if value.dtype == self.whole else value.astype(self.whole)
        return np.ascontiguousarray(value.T, self.part).view(self.whole).reshape(-1)


def element_of(dtype: DType) -> Element:
    """Return how an element type is in memory; pairs of low precision are one number of bits.
    Raises OpFault for elements that share a byte."""
    if isinstance(dtype, PackedDType) and dtype.name.startswith("vector"):
        part = view_dtype(dtype.part)
        return Element(dtype.bits // 8, np.dtype(f"u{dtype.bits // 8}"), part, dtype.count)
    if dtype.bits < 8:
        text = f"accesses elements of {dtype}, several of which share a byte"
        raise OpFault("PTO8002", text)
    whole = view_dtype(dtype)
    return Element(whole.itemsize, whole)


class Spot(NamedTuple):
    """The elements that the threads which execute mean: `where` in a `view` of a memory, one for
    each, or one for all; the bytes they are in; who they are (None: all threads)."""

    view: np.ndarray
    where: Where
    reach: tuple[int, int]
    ids: Ids | None
    is_one: bool  # for several threads


class _Run(NamedTuple):
    """What is known of offsets: what they come from (which keeps ids in use), their numbers, the
    highest one, the run that they are."""

    origin: tuple[Any, ...]
    offset: Lanes
    high: int
    run: Where


class LaneMemory:
    """Loads and stores of one launch."""

    def __init__(self, frame: Frame, *, watched: bool) -> None:
        self.frame = frame
        self.watched = watched
        self.history = History(frame.clock, self.race)
        self._views: dict[Any, np.ndarray] = {}
        self._runs: dict[tuple[int, int], _Run] = {}
        # What was found for values; these are kept, so that their identities stay theirs.
        self._spots: dict[tuple[int, ...], tuple[Spot, tuple[Any, ...]]] = {}

    # -- places -----------------------------------------------------------------------------------

    def _bytes(self, memory: Any) -> np.ndarray:
        data = self._views.get(memory)
        if data is None:
            frame = self.frame
            if isinstance(memory, int):
                data = frame.machine.buffers[memory].data
            else:
                data = np.frombuffer(frame.core.space(str(memory)).data, np.uint8)
            self._views[memory] = data
        return data

    def _view(self, memory: Any, element: Element) -> np.ndarray:
        key = (memory, element.whole)
        view = self._views.get(key)
        if view is None:
            data = self._bytes(memory)
            view = data[: len(data) // element.size * element.size].view(element.whole)
            self._views[key] = view
        return view

    def name(self, memory: Any) -> str:
        """Return what a memory is called in messages."""
        if isinstance(memory, int):
            return f"`{self.frame.machine.buffers[memory].name}`"
        return {"vec": "UB"}.get(memory, str(memory))

    def place(
        self, op: Operation, pointer: LanePtr, offset: Lanes | None, element: Element
    ) -> tuple[np.ndarray, Lanes]:
        """Return the elements of a memory and which of them each thread means. Lanes that do not
        execute mean one of those that do. Raises OpFault for a place outside the memory."""
        byte, size = pointer.byte, element.size
        if offset is not None:
            byte = byte + (offset if size == 1 else offset.astype(np.int64, copy=False) * size)
        mask = self.frame.mask
        if mask is not None and byte.shape[-1] > 1:
            byte = np.where(mask, byte, byte[int(mask.argmax())])
        byte = np.ascontiguousarray(byte)
        view = self._view(pointer.memory, element)
        if int(byte.view(_U64).max()) > (len(view) - 1) * size:
            self._outside(op, pointer.memory, byte, size)
        if int(np.bitwise_or.reduce(byte)) & (size - 1):
            return self._unaligned(pointer.memory, element, byte)
        return view, byte >> (size.bit_length() - 1)

    def spot(self, op: Operation, pointer: LanePtr, offset: Lanes | None, element: Element) -> Spot:
        """Return the elements that the threads which execute mean. Values never change, so that
        these are found once where a loop does not move them. Raises OpFault for a place outside
        the memory."""
        ids = None if self.frame.mask is None else self.frame.active()
        key = id(pointer), id(offset), id(ids), id(element)
        found = self._spots.get(key)
        if found is None:
            if len(self._spots) > _MOST_RUNS:
                self._spots.clear()
            made = self._spot(op, pointer, offset, element, ids)
            found = self._spots[key] = made, (pointer, offset, ids, element)
        return found[0]

    def _spot(
        self,
        op: Operation,
        pointer: LanePtr,
        offset: Lanes | None,
        element: Element,
        ids: Ids | None,
    ) -> Spot:
        frame = self.frame
        byte, size = pointer.byte, element.size
        if offset is not None and len(byte) == 1:
            start = byte.item(0)
            if not start % size:
                near = self._near(pointer.memory, offset, start // size, element, ids)
                if near is not None:
                    return near
        view, index = self.place(op, pointer, offset, element)
        is_one = len(index) == 1 and frame.threads > 1
        if ids is not None and not is_one:
            index = index.take(ids)
        step = view.strides[0]
        reach = int(index.min()) * step, int(index.max()) * step + size
        return Spot(view, run_of(index, frame.ids), reach, ids, is_one)

    def _near(
        self, memory: Any, offset: Lanes, first: int, element: Element, ids: Ids | None
    ) -> Spot | None:
        """Elements counted from one that all threads mean; None if one is outside the memory."""
        view, size = self._view(memory, element), element.size
        if len(offset) == 1 and self.frame.threads > 1:
            at = first + offset.item(0)
            if not 0 <= at < len(view):
                return None
            return Spot(view, np.array([at]), (at * size, (at + 1) * size), ids, True)
        known = self._known(offset, ids)
        high = first + known.high
        if isinstance(known.run, slice):
            low = first + known.run.start
            if low < 0 or high >= len(view):
                return None
            return Spot(view, slice(low, high + 1), (low * size, (high + 1) * size), ids, False)
        if first < 0 or not 0 <= known.high < len(view) - first:
            return None
        index = known.offset + first if first else known.offset
        return Spot(view, index, (0, (high + 1) * size), ids, False)

    def _known(self, offset: Lanes, ids: Ids | None) -> _Run:
        """What is known of offsets; arrays of values never change, so that it is found once."""
        key = id(offset), id(ids)
        known = self._runs.get(key)
        if known is None:
            if len(self._runs) > _MOST_RUNS:
                self._runs.clear()
            lanes = offset if ids is None else offset.take(ids)
            known = self._runs[key] = self._measured(lanes, (offset, ids))
        return known

    def _measured(self, offset: Lanes, origin: tuple[Any, ...]) -> _Run:
        index = np.ascontiguousarray(offset.astype(np.int64, copy=False))
        run = run_of(index, self.frame.ids)
        if isinstance(run, slice):
            return _Run(origin, index, run.stop - 1, run)
        # Of numbers without a sign the negative ones are the highest.
        high = int(index.view(_U64).max())
        return _Run(origin, index, high if high < 1 << 63 else -1, index)

    def _unaligned(self, memory: Any, element: Element, byte: Lanes) -> tuple[np.ndarray, Lanes]:
        """Elements at any bytes, as a view with an element at each of them."""
        data = self._bytes(memory)
        view = np.ndarray(len(data) - element.size + 1, element.whole, data, 0, (1,))
        return view, byte

    def _outside(self, op: Operation, memory: Any, byte: Lanes, size: int) -> None:
        frame, limit = self.frame, len(self._bytes(memory))
        full = frame.full(byte)
        ids = frame.active()
        wrong = ids[(full[ids] < 0) | (full[ids] > limit - size)]  # a sum could wrap
        if not len(wrong):
            return
        at = int(full[wrong[0]])
        raise frame.fault(
            "PTO7302",
            op,
            f"of thread {frame.name_of(wrong[0])} accesses bytes [{at:#x}, {at + size:#x}) of "
            f"{self.name(memory)}, which has {limit:#x}",
            help="test the index against the length before the access: "
            "`%in = arith.cmpi ult, %i, %n` and `scf.if %in`",
            notes=(f"threads: {frame.names_of(wrong)}",),
        )

    # -- loads and stores -------------------------------------------------------------------------

    def load(
        self, op: Operation, pointer: LanePtr, offset: Lanes | None, element: Element
    ) -> Lanes:
        """Return the element that each thread reads."""
        view, where, reach, ids, is_one = self.spot(op, pointer, offset, element)
        if self.watched:
            memory, step, size = pointer.memory, view.strides[0], element.size
            written = self.written(memory, size)
            written.read(where, step, size, reach)
            self.history.add(Access("read", op, memory, where, step, size, ids, reach))
        found = view[where].copy() if isinstance(where, slice) else view.take(where)
        if ids is not None and not is_one:
            lanes = np.zeros(self.frame.threads, found.dtype)
            lanes[ids] = found
            found = lanes
        return element.unpacked(found)

    def store(
        self,
        op: Operation,
        pointer: LanePtr,
        offset: Lanes | None,
        element: Element,
        value: Lanes,
    ) -> None:
        """Write an element of each thread; of several threads at one place the one with the highest
        id is last."""
        frame = self.frame
        view, where, reach, ids, is_one = self.spot(op, pointer, offset, element)
        if is_one:  # as an element for each of the threads, the last of which stays
            where = np.repeat(np.r_[where], frame.threads if ids is None else len(ids))
        data = element.packed(frame.chosen(value, ids))
        kept = self.wrote(op, pointer.memory, (view, where, reach, ids), element.size)
        if kept is not None:
            where, data = np.r_[where][kept], data[kept]
        view[where] = data

    def wrote(
        self, op: Operation, memory: Any, at: tuple[Any, ...], size: int, *, atomic: bool = False
    ) -> np.ndarray | None:
        """Note writes; return which of them count where not all do."""
        view, where, reach, ids = at
        step = view.strides[0]
        written = self.written(memory, size)
        is_clean, kept = written.write(where, step, size, ids, reach, atomic=atomic)
        if self.watched:
            kind = "atomic" if atomic else "write"
            access = Access(kind, op, memory, where, step, size, ids, reach)
            self.history.add(access, is_clean=is_clean)
        return kept

    def written(self, memory: Any, size: int) -> Written:
        """Return who wrote a memory; `size` are the bytes of the first access."""
        found = self.history.written.get(memory)
        if found is None:
            limit = len(self._bytes(memory))
            found = Written(self.frame.clock, limit, size, watched=self.watched)
            self.history.written[memory] = found
        return found

    def race(self, op: Operation, memory: Any, conflict: Conflict, size: int) -> None:
        """Report that two threads use one element, and nothing orders them."""
        if not self.watched:
            return
        frame = self.frame
        kind, thread, other, at = conflict
        done = {"write": "writes", "read": "reads", "overwrite": "writes"}[kind]
        before = "read" if kind == "overwrite" else "wrote"
        who = "another thread" if thread == other else f"thread {frame.name_of(other)}"
        both = "writes" if kind == "write" else "accesses"
        frame.report(
            "PTO7300",
            op,
            f"of thread {frame.name_of(thread)} {done} {size} bytes at {at:#x} of "
            f"{self.name(memory)} that {who} {before}, with no barrier between",
            help=f"put `pto.syncthreads` between the two {both}, or use an atomic operation",
            key=kind,
        )


# -- loads and stores ------------------------------------------------------------------------------


@lanes("pto.load", "pto.ldg", "pto.load_scalar")
def load(ctx: LaneContext) -> Run:
    """The element at pointer + offset elements."""
    op, pointer, offset, target = ctx.op, ctx.slots["ptr"], ctx.slots["offset"], ctx.results[0]
    element = element_of(ctx.elem("ptr"))

    def run(frame: Frame) -> None:
        values = frame.values
        at = values[offset]
        values[target] = frame.memory.load(op, values[pointer], at, element)

    return run


@lanes("pto.store", "pto.stg", "pto.store_scalar")
def store(ctx: LaneContext) -> Run:
    """Write the element at pointer + offset elements."""
    op, pointer, offset, source = ctx.op, ctx.slots["ptr"], ctx.slots["offset"], ctx.slots["value"]
    element = element_of(ctx.elem("ptr"))

    def run(frame: Frame) -> None:
        values = frame.values
        frame.memory.store(op, values[pointer], values[offset], element, values[source])

    return run


@lanes("pto.addptr")
def addptr(ctx: LaneContext) -> Run:
    """The pointer some elements farther on."""
    bits = ctx.elem("ptr").bits

    def add(pointer: LanePtr, offset: Lanes) -> LanePtr:
        distance = offset.astype(np.int64) * bits // 8
        return LanePtr(pointer.memory, pointer.byte + distance)

    return computed(add, [ctx.slots["ptr"], ctx.slots["offset"]], ctx.results[0])


@lanes("pto.castptr")
def castptr(ctx: LaneContext) -> Run:
    """An integer is a byte address in the space of the result's type; a pointer keeps its place. In
    global memory the addresses are those of the machine, as the scalar unit has them."""
    space = getattr(ctx.result_type, "space", None)
    kind = element_type(ctx.result_type)
    source, target, op = ctx.slots["src"], ctx.results[0], ctx.op

    def run(frame: Frame) -> None:
        given = frame.values[source]
        if isinstance(given, LanePtr):
            frame.values[target] = given if space is not None else _number(frame, given, kind.bits)
            return
        address = given.astype(np.int64)
        if space != "gm":
            frame.values[target] = LanePtr(space, address)
            return
        used = frame.full(address)[frame.active()]
        bases = addresses(frame.machine.buffers)
        starts = sorted(set(bases))
        before = np.unique(np.searchsorted(starts, used, side="right")) - 1
        if len(before) != 1 or before[0] < 0:
            text = f"{int(used[0]):#x} is no address in global memory"
            if len(before) > 1:
                text = "makes pointers into several arguments in one value"
            raise frame.fault("PTO6603", op, text)
        start = starts[before[0]]
        frame.values[target] = LanePtr(bases.index(start), address - np.int64(start))

    return run


def _number(frame: Frame, given: LanePtr, bits: int) -> Lanes:
    memory, byte = given
    base = addresses(frame.machine.buffers)[memory] if isinstance(memory, int) else 0
    return (byte + base).astype(f"i{bits // 8}")
