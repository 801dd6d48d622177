"""Events of the FIFOs between the cube core and the vector cores of a cluster.

A push waits for a free slot and gives data, a pop takes data, a free gives the slot back; on A2/A3
the pop copies and frees at once. A FIFO from cube to vector hands every tile to both vector cores
(each takes its part), one from vector to cube waits for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.engine.records import Inst
from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef

SLOTS = 8
"""Slots of a FIFO in one direction, where the program does not say."""

_PUSH = frozenset(("pto.tpush", "pto.tpush_to_aiv", "pto.tpush_to_aic"))
_POP = frozenset(("pto.tpop", "pto.tpop_from_aic", "pto.tpop_from_aiv"))
_FREE = frozenset(("pto.tfree", "pto.tfree_from_aic", "pto.tfree_from_aiv"))
FIFO_OPS = _PUSH | _POP | _FREE


def fifo_keys(core: Core, name: str, target: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the keys of the events that an operation on a FIFO takes and gives."""
    block = core.block
    to_vector = (core.kind != "vector") == (name in _PUSH)
    direction = "c2v" if to_vector else "v2c"
    ends = [core.sub_block] if core.kind == "vector" else [0, 1]
    if core.kind == "any":
        ends = [0]
    data = tuple(("fifo data", block, direction, end) for end in ends)
    free = tuple(("fifo free", block, direction, end) for end in ends)
    if name in _PUSH:
        return free, data
    if name in _POP:
        return data, free if target == "a2a3" else ()
    return (), () if target == "a2a3" else free


def fifo_events(
    bridge: Any, core: Core, inst: Inst, values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...], str | None]:
    """Return the events of an instruction and the pipe that waits; nothing for one that has no
    FIFO."""
    name = inst.op.name if inst.op is not None else ""
    if name not in FIFO_OPS:
        return (), (), None
    target = bridge.table.target
    takes, gives = (
        tuple(bridge.fifo_event(key, SLOTS if key[0] == "fifo free" else 0) for key in keys)
        for keys in fifo_keys(core, name, target)
    )
    return takes, gives, _waiting_pipe(name, target, values)


def _waiting_pipe(name: str, target: str, values: Mapping[str, Any]) -> str | None:
    """On A5 a pop only hands out the slot: the pipe that reads it waits."""
    if target != "a5" or name not in _POP:
        return None
    tile = next((v for v in values.values() if isinstance(v, TileRef)), None)
    return "MTE1" if tile is not None and tile.type.loc == "mat" else "V"
