"""The checker of certificates: tiles in FIFOs between cores.

A push and a pop move bytes and nothing else, or they have no certificate. Which byte comes from
where is not taken from the rules of FIFOs: each is done again on contents drawn at random, with the
counters of its slots as they were before it, and told by what it leaves in its tile, in its slots
and in the memory of the slots. What a push converts on its way is no move, and not followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ptosim.machine.core import Share, ShareKey
from ptosim.ops.base.orders import Alloc, FifoUse, Free, Pop, Push
from ptosim.ops.sync.fifo_ends import end_of, share_keys, slot_start
from ptosim.tools.certificate_rules import Place, Unfollowed

SLOT = "slot"
"""The name of a slot of a FIFO, as a memory."""


def is_use(op: Any) -> bool:
    """True for an operation on a FIFO."""
    return isinstance(op.sync, FifoUse)


def moves_nothing(op: Any) -> bool:
    """True for a use that only counts: a slot is taken or given back, or a view of it handed on.
    Raises Unfollowed for a FIFO that is not followed."""
    end = end_of(op)
    if end.key != op.sync.key or op.machine.stub is not None:
        raise Unfollowed("a FIFO whose end was set up again, or that has no other end")
    if end.epilogue is not None and end.slot is None:
        raise Unfollowed("tiles that a push converts on their way")
    return isinstance(op.sync, (Alloc, Free)) or end.slot is not None


def _number(op: Any, share: Share) -> int:
    """The slot that a use has just filled or emptied."""
    done = share.pushed if isinstance(op.sync, Push) else share.popped
    return (done - 1) % end_of(op).slot_num


def slots_of(op: Any) -> dict[Place, tuple[ShareKey, int]]:
    """Return the slots that a use has just filled or emptied, as memories."""
    use, fifos = op.sync, op.core.cluster.fifos
    keys = share_keys(op, end_of(op), use.direction)
    numbers = {key: _number(op, fifos.share(key)) for key in keys}
    return {(SLOT, (op.core.place, key, n)): (key, n) for key, n in numbers.items()}


def content(op: Any, slot: tuple[ShareKey, int]) -> np.ndarray:
    """Return the bytes of a slot. Raises Unfollowed for one that holds nothing."""
    held = op.core.cluster.fifos.share(slot[0]).entries.get(slot[1])
    if held is None:
        raise Unfollowed("a slot that nothing has filled")
    return np.ascontiguousarray(held).reshape(-1).view(np.uint8)


def in_memory(op: Any) -> tuple[Place, int, int] | None:
    """Return the bytes in global memory that belong to the slot of a use; None if it is on the
    chip, or no slot takes part."""
    end, slots = end_of(op), list(slots_of(op).values())
    if end.gm is None or not slots:
        return None
    memory, start = slot_start(op, end, op.sync.direction, slots[0][1])
    size = op.machine.buffers[memory].size
    return ("gm", memory), max(start, 0), min(start + end.slot_size, size)


def key_of(op: Any) -> tuple[Any, ...]:
    """What a use does beside its operands: how its end is set up, and what its slots hold."""
    fifos = op.core.cluster.fifos
    held = [fifos.share(key).entries[number] for key, number in slots_of(op).values()]
    return repr(end_of(op)), op.sync.direction, [(str(h.dtype), h.shape) for h in held]


@contextmanager
def before(op: Any, changed: dict[Place, np.ndarray]) -> Iterator[dict[Place, Any]]:
    """The FIFOs as they were before a use, with some contents of its slots; afterwards they are as
    they are now. Gives the slots."""
    fifos, slots = op.core.cluster.fifos, slots_of(op)
    now = fifos.copy()
    try:
        for place, (key, number) in slots.items():
            share = fifos.share(key)
            if isinstance(op.sync, Push):
                share.pushed -= 1
            elif isinstance(op.sync, Pop):
                share.popped -= 1
                share.freed -= op.target == "a2a3"
            if place in changed:
                held = share.entries[number]
                given = np.asarray(changed[place], np.uint8)
                share.entries[number] = given.view(held.dtype).reshape(held.shape)
        yield slots
    finally:
        fifos.restore(now)
