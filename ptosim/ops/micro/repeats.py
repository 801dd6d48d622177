"""Vector instructions of A2/A3: repeats of eight blocks of 32 bytes in UB.

Public description of the A2/A3 vector unit (documentation; no recorded data). Element e of block b
of repeat r is at base + (r * repeat stride + b * block stride) * 32 + e * size, for each operand
with strides of its own. In normal mode two mask registers say which of the up to 128 lanes of every
repeat are written (all, at first); in count mode the first one is a number of elements, which take
as many repeats as they need. Lanes that are not selected keep what is there. One repeat follows the
other: what a later one reads of an earlier one's results it sees.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.dates import Profile
from ptosim.ground.records import dataclass
from ptosim.machine.core import SLOT_MASKS, Core
from ptosim.machine.numbers import lanes as numerics
from ptosim.machine.pages import view_dtype
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import STATE, Commit, kernel, nothing, support, value
from ptosim.ops.base.orders import Action, ValueContext
from ptosim.ops.micro.modes import COUNT_MODE, EVERY_LANE, set_control
from ptosim.ops.micro.pointers import Place, place, reads, require, writes

BLOCK = 32
BLOCKS = 8
_WORD = (1 << 64) - 1

_NUMBERS = ("f32", "f16", "i32", "i16")
_FLOATS = ("f32", "f16")
_OF_FLOATS = frozenset(("exp", "ln", "sqrt", "rsqrt"))
_UNSIGNED = ("ui32", "ui16")
_BITS = frozenset(("and", "or", "not", "shl", "shr", "dup"))
"""Operations that unsigned integers have too; they take the bits of any type."""

_WORDS = {
    **{word: word for word in (
        "add", "sub", "mul", "div", "max", "min", "and", "or", "addrelu", "not", "abs", "relu",
        "exp", "ln", "sqrt", "rsqrt", "shl", "shr",
    )},
    **{f"{word}s": word for word in ("mul", "add", "max", "min")},
}  # fmt: skip
"""What an operation computes, by its name without `pto.ub.v`; `dup` writes its scalar."""
_NAMES = [f"pto.ub.v{name}" for name in (*_WORDS, "dup")]


def _function(name: str, lanes: np.dtype) -> Callable[..., np.ndarray]:
    if name == "dup":
        return lambda scalar: scalar
    return numerics.of(_WORDS[name], lanes, "ones" if name == "div" else "")


# -- masks -----------------------------------------------------------------------------------------


@value("pto.ub.set_mask")
def set_mask(ctx: ValueContext) -> Action:
    """Both mask registers; instructions have those that they were issued with."""
    low, high = ctx.slots["mask0"], ctx.slots["mask1"]

    def run(core: Core) -> None:
        slots = core.slots
        mode = (slots[SLOT_MASKS] or EVERY_LANE)[0]
        slots[SLOT_MASKS] = (mode, slots[low] & _WORD, slots[high] & _WORD)

    return run


@value("pto.ub.set_mask_count", "pto.ub.set_mask_norm")
def set_mask_mode(ctx: ValueContext) -> Action:
    """Whether the first mask register is a number of elements: bit 56 of the control register."""
    counts = ctx.op.name == "pto.ub.set_mask_count"

    def run(core: Core) -> None:
        ctrl = core.registers["ctrl"]
        set_control(core, ctrl | COUNT_MODE if counts else ctrl & ~COUNT_MODE)

    return run


STATE.update(dict.fromkeys(_NAMES, (("masks", SLOT_MASKS),)))


# -- instructions ----------------------------------------------------------------------------------


Lanes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Lanes by their repeat, block and place in the block."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Where the lanes of an operand are, and their strides in bytes."""

    where: Place
    repeat: int
    block: int

    def _bytes(self, lanes: Lanes, size: int) -> np.ndarray:
        repeat, block, lane = lanes
        first = self.where.start + repeat * self.repeat + block * self.block + lane * size
        return first[:, None] + np.arange(size)

    def load(self, lanes: Lanes, dtype: np.dtype) -> np.ndarray:
        """Return the elements of some lanes."""
        return self.where.data[self._bytes(lanes, dtype.itemsize)].reshape(-1).view(dtype)

    def store(self, lanes: Lanes, values: np.ndarray, dtype: np.dtype) -> None:
        """Store elements, or one in each of the lanes."""
        each = np.ascontiguousarray(np.broadcast_to(values, lanes[0].shape), dtype)
        self.where.data[self._bytes(lanes, dtype.itemsize)] = each.view(np.uint8).reshape(
            len(each), -1
        )


@support(*_NAMES)
def _has_type(op: Operation, profile: Profile) -> str | None:
    elem = op.bound["dst"].type.elem.name
    known = (*_NUMBERS, *_UNSIGNED) if _name(op) in _BITS else _NUMBERS
    known = _FLOATS if _name(op) in _OF_FLOATS else known
    return None if elem in known else f"elements of type {elem}; there are {', '.join(known)}"


def _name(op: Operation) -> str:
    return op.name.removeprefix("pto.ub.v")


@kernel(*_NAMES)
def repeats(op: Binding) -> Commit:
    """dst = function of the sources, lane by lane, repeat by repeat."""
    lanes = view_dtype(op.op.bound["dst"].type.elem)
    if _name(op.op) in _BITS:
        lanes = numerics.unsigned(lanes)
    active = _active(op, lanes.itemsize)
    if not active.any():
        return nothing
    function = _function(_name(op.op), lanes)
    names = [n for n in ("src0", "src1", "src") if n in op.op.bound]
    sources = [_operand(op, n) for n in names]
    target = _operand(op, "dst")
    for operand in sources:
        _note_reach(op, operand, active, lanes.itemsize, reads)
    _note_reach(op, target, active, lanes.itemsize, writes)
    scalars = [_scalar(op, lanes)] if "scalar" in op.op.bound else []
    parts = _parts(active, at_once=_is_batch(sources, target, active))

    def run() -> None:
        for part in parts:
            values = function(*[operand.load(part, lanes) for operand in sources], *scalars)
            target.store(part, values, lanes)

    return run


def _parts(active: np.ndarray, *, at_once: bool) -> list[Lanes]:
    """The active lanes that are computed at once: all, or those of one repeat after the other."""
    repeat, block, lane = np.nonzero(active)
    if at_once:
        return [(repeat, block, lane)]
    ends = np.searchsorted(repeat, np.arange(len(active) + 1))
    return [(repeat[i:j], block[i:j], lane[i:j]) for i, j in pairwise(ends.tolist()) if i < j]


_FIELDS = {"repeat": 8, "dst_blk": 16, "src_blk": 16, "dst_rep": 8, "src_rep": 12}
"""Bits of a number of the forms with one source; those of the form with two have 8 each."""


def _number(op: Binding, name: str) -> int:
    given = op.values[name]
    bits = 8 if "src1" in op.op.bound else _FIELDS[name]
    cut = given & ((1 << bits) - 1)
    if cut != given:
        op.report("PTO6630", f"{name} is {given}, of which {bits} bits are left: {cut}")
    return cut


def _operand(op: Binding, name: str) -> Operand:
    return Operand(
        place(op, name), _number(op, f"{name}_rep") * BLOCK, _number(op, f"{name}_blk") * BLOCK
    )


def _scalar(op: Binding, lanes: np.dtype) -> np.ndarray:
    """The element that the low bits of an integer are."""
    low = (op.values["scalar"] & _WORD).to_bytes(8, "little")[: lanes.itemsize]
    return np.frombuffer(low, lanes)[0]


BEYOND_CHIP = 1 << 20
"""Bytes; no memory on chip is as large."""


def _active(op: Binding, size: int) -> np.ndarray:
    """Which lanes take part: [repeat, block, lane of the block]."""
    counts, low, high = op.values["masks"] or EVERY_LANE
    lanes = BLOCK * BLOCKS // size
    if not counts:
        image = (low | high << 64).to_bytes(16, "little")
        on = np.unpackbits(np.frombuffer(image, np.uint8), bitorder="little")[:lanes].astype(bool)
        return np.tile(on.reshape(1, BLOCKS, -1), (_number(op, "repeat"), 1, 1))
    if low > lanes:
        op.report(
            "PTO6631",
            f"counts {low} elements; for more than the {lanes} of a repeat the hardware is wrong",
        )
    low = min(low, BEYOND_CHIP // size)  # a larger count leaves every memory all the same
    rounds = -(-low // lanes)
    return (np.arange(rounds * lanes) < low).reshape(rounds, BLOCKS, BLOCK // size)


def _is_batch(sources: list[Operand], target: Operand, active: np.ndarray) -> bool:
    """True if no repeat touches what another one writes, so that all can be done at once."""
    count = len(active)
    reach = (BLOCKS - 1) * target.block + BLOCK
    if count > 1 and target.repeat < reach:
        return False
    first, last = target.where.start, target.where.start + (count - 1) * target.repeat + reach
    for source in sources:
        start = source.where.start
        end = start + (count - 1) * source.repeat + (BLOCKS - 1) * source.block + BLOCK
        same = (start, source.repeat, source.block) == (first, target.repeat, target.block)
        if not same and start < last and first < end:
            return False
    return True


def _note_reach(op: Binding, operand: Operand, active: np.ndarray, size: int, tell: Any) -> None:
    """Tell of the bytes of the active lanes; raise if they are not all in UB. Masks are the same in
    every repeat; only the last of a count may have fewer lanes."""
    alike = len(active) - int((active[-1] != active[0]).any())
    _tell_alike(op, operand, active[0], (0, alike), size, tell)
    for r in range(alike, len(active)):
        _tell_alike(op, operand, active[r], (r, 1), size, tell)


def _tell_alike(
    op: Binding,
    operand: Operand,
    blocks: np.ndarray,
    repeats: tuple[int, int],
    size: int,
    tell: Any,
) -> None:
    """Tell of repeats with the same lanes: the first one, and how many."""
    first, times = repeats
    where, levels = operand.where, ((times, operand.repeat),)
    if blocks.all():
        runs, levels = [(0, 0, BLOCK // size)], ((BLOCKS, operand.block), *levels)
    else:
        runs = _runs(blocks)
    for b, lane, length in runs:
        at = where.start + first * operand.repeat + b * operand.block + lane * size
        reach = sum((count - 1) * step for count, step in levels) + length * size
        require(op, where, at, at + reach)
        tell(op, where._replace(start=at), length * size, *levels)


def _runs(blocks: np.ndarray) -> list[tuple[int, int, int]]:
    """Active lanes next to each other: block, first lane, how many."""
    found = []
    for b, lanes in enumerate(blocks.tolist()):
        at = 0
        for on, group in groupby(lanes):
            length = len(list(group))
            if on:
                found.append((b, at, length))
            at += length
    return found
