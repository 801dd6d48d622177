"""Memory as the threads of a launch see it: UB of their core, and global memory. Each access is one
step for all threads, with its bounds, its races and what it touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, PackedDType
from ptosim.machine.storage import view_dtype
from ptosim.semantics.simt.frame import Frame, LanePtr, Lanes
from ptosim.semantics.simt.tracks import Conflict, Tracks, run_of

_U64 = np.dtype(np.uint64)


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
    """Return how an element type is in memory. Pairs of low precision are one number of bits."""
    if isinstance(dtype, PackedDType) and dtype.name.startswith("vector"):
        part = view_dtype(dtype.part)
        return Element(dtype.bits // 8, np.dtype(f"u{dtype.bits // 8}"), part, dtype.count)
    if dtype.bits < 8:
        raise ValueError(f"{dtype} is no element of its own")
    whole = view_dtype(dtype)
    return Element(whole.itemsize, whole)


class LaneMemory:
    """Loads and stores of one launch."""

    def __init__(self, frame: Frame, *, watched: bool) -> None:
        self.frame = frame
        self.watched = watched
        self.tracks: dict[Any, Tracks] = {}
        self._views: dict[Any, np.ndarray] = {}

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
        if offset is not None and len(byte) == 1 and not int(byte[0]) % size:
            index = self._near(offset, int(byte[0]) // size)
            view = self._view(pointer.memory, element)
            if int(index.view(_U64).max()) < len(view):
                return view, index
        if offset is not None:
            byte = byte + (offset if size == 1 else offset.astype(np.int64, copy=False) * size)
        mask = self.frame.mask
        if mask is not None and byte.shape[-1] > 1:
            byte = np.where(mask, byte, byte[int(mask.argmax())])
        view = self._view(pointer.memory, element)
        if int(byte.view(_U64).max()) > (len(view) - 1) * size:
            self._outside(op, pointer.memory, byte, size)
        if int(np.bitwise_or.reduce(byte)) & (size - 1):
            return self._unaligned(pointer.memory, element, byte)
        return view, byte >> (size.bit_length() - 1)

    def _near(self, offset: Lanes, first: int) -> Lanes:
        """Elements counted from one that all threads mean."""
        index = offset.astype(np.int64, copy=False)
        index = index + first if first else index
        mask = self.frame.mask
        if mask is not None and len(index) > 1:
            return np.where(mask, index, index[int(mask.argmax())])
        return np.ascontiguousarray(index)

    def _unaligned(self, memory: Any, element: Element, byte: Lanes) -> tuple[np.ndarray, Lanes]:
        """Elements at any bytes, as a view with an element at each of them."""
        data = self._bytes(memory)
        view = np.ndarray(len(data) - element.size + 1, element.whole, data, 0, (1,))
        return view, byte

    def _outside(self, op: Operation, memory: Any, byte: Lanes, size: int) -> None:
        frame, limit = self.frame, len(self._bytes(memory))
        full = frame.full(byte)
        ids = frame.active()
        wrong = ids[(full[ids] < 0) | (full[ids] + size > limit)]
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
        view, index = self.place(op, pointer, offset, element)
        if self.watched:
            self._note_read(op, pointer, index, view, element)
        where = run_of(index)
        found = view.take(index) if where is index else view[where].copy()
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
        view, index = self.place(op, pointer, offset, element)
        ids = None if frame.mask is None else np.flatnonzero(frame.mask)
        index = frame.chosen(index, ids)
        data = element.packed(frame.chosen(value, ids))
        tracks = self.tracks_of(pointer.memory, element.size)
        where = run_of(index)
        conflict, kept = tracks.write(where, view.strides[0], element.size, ids)
        if conflict is not None:
            self.race(op, pointer.memory, conflict, element.size)
        if kept is not None:
            where, data = index[kept], data[kept]
        view[where] = data

    def tracks_of(self, memory: Any, size: int) -> Tracks:
        """Return who accessed a memory; `size` are the bytes of the first access."""
        found = self.tracks.get(memory)
        if found is None:
            limit = len(self._bytes(memory))
            clock = self.frame.clock
            found = self.tracks[memory] = Tracks(clock, limit, size, watched=self.watched)
        return found

    def _note_read(
        self, op: Operation, pointer: LanePtr, index: Lanes, view: np.ndarray, element: Element
    ) -> None:
        frame = self.frame
        tracks = self.tracks_of(pointer.memory, element.size)
        ids = frame.active()
        everybody = len(index) == 1 and len(ids) > 1
        if len(index) > 1 and frame.mask is not None:
            index = index[ids]
        where, step = run_of(index), view.strides[0]
        conflict = tracks.read(where, step, element.size, ids, everybody=everybody)
        if conflict is not None:
            self.race(op, pointer.memory, conflict, element.size)

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
