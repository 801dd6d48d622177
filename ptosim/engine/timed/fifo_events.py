"""Events of the FIFOs between the cube core and the vector cores of a cluster.

A push waits for free slots and gives data, a pop takes data, a free gives slots back; on A2/A3 the
pop copies and frees at once. Which tiles go where the binding says; here they become events of the
timing model. Slots come back in groups, as the consumer signals them."""

from __future__ import annotations

from typing import Any

from ptosim.language.place.sides import READERS
from ptosim.machine.core import Core
from ptosim.machine.effects.ranges import Range
from ptosim.machine.fifo import PipeEnd, ShareKey
from ptosim.ops.base.orders import FifoUse, Pop
from ptosim.time.pipes.steps import Flag

_MEMORY = {"vector": "vec", "cube": "mat"}


def is_fifo(binding: Any) -> bool:
    """True if a bound operation is one on a FIFO."""
    return isinstance(binding.sync, FifoUse)


def fifo_events(
    bridge: Any, core: Core, binding: Any
) -> tuple[tuple[Flag, ...], tuple[Flag, ...], str | None]:
    """Return the events that an operation takes and gives, and the pipe that waits or gives if it
    is not the operation's own: on A5 a pop only hands out a slot, and the pipe that reads it waits
    and gives it back."""
    kind, direction = binding.sync.kind, binding.sync.direction
    end, vectors = _end(core, binding), _vectors(core, binding)
    on_chip = bridge.table.target == "a5"
    free = tuple(
        bridge.fifo_event(
            ("fifo free", core.place, end.key, direction, v), end.slot_num, end.period
        )
        for v in vectors
    )
    keys = (*binding.signals, *binding.awaits) if kind in ("push", "pop") else ()
    data = tuple(bridge.fifo_event(key) for key in keys)
    if end.slot is not None:
        return _of_views(kind, free, data)
    if kind == "push":
        return free, data, None
    reader = READERS[core.kind] if on_chip else None
    if kind == "pop":
        return data, () if on_chip else free, reader
    return (), free if on_chip else (), reader


def _of_views(
    kind: str, free: tuple[Flag, ...], data: tuple[Flag, ...]
) -> tuple[tuple[Flag, ...], tuple[Flag, ...], str | None]:
    """Of entries that are the slots in global memory: the scalar unit waits for a free one and for
    a full one; it is full when its stores are done, free when its loads are."""
    if kind == "alloc":
        return free, (), "S"
    if kind == "push":
        return (), data, None
    return (data, (), "S") if kind == "pop" else ((), free, "MTE2")


def pops_tile(core: Core, binding: Any) -> bool:
    """True for a pop that hands out a tile of the core's own memory."""
    return isinstance(binding.sync, Pop) and _end(core, binding).slot is None


def popped_range(core: Core, binding: Any) -> Range:
    """Return the bytes of the slot that the next pop hands out."""
    end = _end(core, binding)
    direction = binding.sync.direction
    shares = core.cluster.fifos.shares
    first = [shares.get(ShareKey(end.key, direction, v)) for v in _vectors(core, binding)][:1]
    issued = first[0].issued if first and first[0] is not None else 0
    start = end.address(direction, issued)
    return _MEMORY[core.kind], start, start + end.slot_size


def _end(core: Core, binding: Any) -> PipeEnd:
    return core.cluster.fifos.ends[core.index, binding.sync.key]


def _vectors(core: Core, binding: Any) -> list[int]:
    """The vector cores that take part: with split 0 only the first does."""
    vectors = [c.sub_block for c in binding.machine.mates(core, "vector")] or [0]
    if not binding.attr("split"):
        vectors = vectors[:1]
    if core.kind == "vector":
        vectors = [v for v in vectors if v == core.sub_block]
    return vectors
