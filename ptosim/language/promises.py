"""What whoever launches a kernel promises of its scalar arguments.

pypto gives every block its number, the number of blocks, and every vector core its lane, as the
last arguments of a kernel: what they are is known without the caller, as it is of
`pto.get_block_idx`. Source of the ranges: the order of arguments in pypto's wrapper (2026-08); that
extents are at least 1 is assumed, no check of it is known."""

from __future__ import annotations

from ptosim.ground.ir.core import Operand, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.records import NamedTuple

INDEX, COUNT, EXTENT, FREE = "index", "count", "extent", "free"
"""Where something runs; how many there are; a size of a tensor; whatever the caller likes."""
BLOCK, BLOCKS, LANE = "block", "blocks", "lane"
"""What of a core an argument tells."""
MOST_BLOCKS = 65_536


class Promise(NamedTuple):
    """What holds for an argument: its kind, the least and the largest value (None: that of its
    type), the argument that it is less than, and what of the core that executes it it tells. A
    launch may have more blocks than there are cores: an index is no number of a core."""

    kind: str
    low: int | None = None
    high: int | None = None
    below: str = ""
    tells: str = ""
    certainty: str = "read in sources"


BLOCK_INDEX = "__pypto_spmd_block_idx"
_NAMED = {
    BLOCK_INDEX: Promise(INDEX, 0, MOST_BLOCKS - 1, "__pypto_spmd_block_num", BLOCK),
    "__pypto_spmd_block_num": Promise(COUNT, 1, MOST_BLOCKS, tells=BLOCKS),
    "__pypto_spmd_subblock_idx": Promise(INDEX, 0, 1, tells=LANE),
}
_EXTENT = Promise(EXTENT, 1, certainty="assumed")
_FREE = Promise(FREE)


def promises_of(function: Function) -> dict[str, Promise]:
    """Return what holds for each whole number among the arguments of a function, by name."""
    sizes = set(_sizes(function))
    found = {}
    for value in function.args:
        if isinstance(value.type, ScalarType) and not value.type.dtype.is_float:
            usual = _EXTENT if value in sizes and value.type.dtype.name == "index" else _FREE
            found[value.name] = _NAMED.get(value.name, usual)
    return found


def told_by(value: Value) -> str:
    """Return what of a core an argument tells; '' for one that the caller gives."""
    if not value.is_argument or not isinstance(value.type, ScalarType):
        return ""
    promise = _NAMED.get(value.name)
    return promise.tells if promise is not None else ""


def tells_core(function: Function) -> bool:
    """True if a function knows which block executes it, or how many there are: by an operation or
    by an argument."""
    return any(map(told_by, function.args)) or any(op.has("tells_core") for op in function.ops)


def _sizes(function: Function) -> list[Value]:
    """The numbers that are an extent of a view of global memory as they are."""
    views = [op for op in function.ops if op.has("view")]
    shapes = [o for op in views for o in op.bound.get("shape") or ()]
    return [o.value for o in shapes if isinstance(o, Operand) and o.value is not None]
