"""Memory of the other cores of a cluster: UB belongs to a vector core, everything else on the chip
to the cube core. A core that is neither (`any`) has all of it."""

from __future__ import annotations

from ptosim.machine.core import CUBE_SPACES, Core
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding


def vector_cores(op: Binding) -> list[Core]:
    """Return the cores whose UB a move from the cube core can reach, by number; a core that has
    none beside it reaches its own."""
    if op.core.kind != "cube":
        return [op.core]
    return op.machine.mates(op.core, "vector") or [op.core]


def owned_tile(op: Binding, name: str) -> Tile:
    """Return a tile operand in the memory of the core that owns its space: a vector core that
    writes to L1 writes to the cube core's."""
    ref = op.values[name]
    if ref.type.loc not in CUBE_SPACES or op.core.kind != "vector":
        return op.tile(name)
    cubes = op.machine.mates(op.core, "cube")
    if not cubes:
        return op.tile(name)
    op.made = [(cubes[0], ref)]
    return op.bind_tile(ref, name, cubes[0])
