"""What every thread of a launch did, for the debugger: the values that it gave names, the last
operation that it executed, and where threads of a warp went different ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.records import NamedTuple
from ptosim.ops.simt.frame import Frame, LanePtr, Lanes, PrivatePtr


class Parting(NamedTuple):
    """Threads that went different ways at an operation: who took its first way, of who came."""

    op: Operation
    taken: Lanes
    present: Lanes


class Held(NamedTuple):
    """A value of the threads in `lanes`, and who of them has it."""

    lanes: Any
    known: Lanes


class Recorder:
    """Keeps one launch. `last` is the number in `ops` of the operation that each thread executed
    last."""

    def __init__(self, frame: Frame, slots: Mapping[Value, int]) -> None:
        self.dims = frame.dims
        self.threads = frame.threads
        self.launch = frame.launch
        self.slots = slots
        self.ops: list[Operation] = []
        self.last = np.full(frame.threads, -1)
        self.partings: list[Parting] = []
        self._numbers: dict[Operation, int] = {}
        self._held: dict[int, Held] = {}
        everybody = np.ones(frame.threads, bool)
        for slot in slots.values():
            value = frame.values[slot]
            if value is not None:
                self._held[slot] = Held(value, everybody)

    def before(self, frame: Frame, op: Operation) -> None:
        """Threads execute an operation."""
        number = self._numbers.get(op)
        if number is None:
            number = self._numbers[op] = len(self.ops)
            self.ops.append(op)
        self.last[frame.active()] = number

    def after(self, frame: Frame, results: tuple[int, ...]) -> None:
        """An operation has given values to the threads that executed it."""
        mask = frame.mask
        for slot in results:
            value = frame.values[slot]
            known = np.ones(self.threads, bool) if mask is None else mask
            old = self._held.get(slot)
            if mask is not None and old is not None:
                value, known = _over(mask, value, old)
            self._held[slot] = Held(value, known)

    def parted(self, frame: Frame, op: Operation, taken: Lanes) -> None:
        """Threads go different ways at an operation."""
        present = frame.ids >= 0 if frame.mask is None else frame.mask
        self.partings.append(Parting(op, taken, present))

    def value(self, value: Value, thread: int) -> Any:
        """Return what a value is for a thread, a pointer as its memory and byte; None if it has
        none."""
        slot = self.slots.get(value)
        held = self._held.get(slot) if slot is not None else None
        if held is None or not held.known[thread]:
            return None
        lanes = held.lanes
        if isinstance(lanes, LanePtr | PrivatePtr):
            byte = lanes.byte
            return lanes.memory, int(byte[thread if len(byte) > 1 else 0])
        lane = lanes[..., thread if lanes.shape[-1] > 1 else 0]
        return lane.tolist() if lane.ndim else lane.item()


def _over(mask: Lanes, value: Any, old: Held) -> tuple[Any, Lanes]:
    known = mask | old.known
    if isinstance(value, LanePtr | PrivatePtr):
        if value.memory != old.lanes.memory:
            return value, mask
        return value._replace(byte=np.where(mask, value.byte, old.lanes.byte)), known
    return np.where(mask, value, old.lanes), known
