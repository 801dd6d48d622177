"""Copies by bursts and loops: GM, UB and L1.

PTO micro-instruction specification, data movement. Between global and local memory lengths and
strides are bytes, from start to start; each `loop` is one more level around the bursts, the first
the innermost. On chip, lengths and gaps are units of 32 bytes, and a gap follows its burst (also
for L1 to UB, where the text says bytes: the public programs' data need units). Bytes after the end
of a GM buffer are read as 0 and not written, with a warning: real programs move more than their
buffers hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from ptosim.ground.ir.types import ScalarType
from ptosim.ground.records import NamedTuple
from ptosim.machine.core import SLOT_LOOPS, SLOT_STORES, Core
from ptosim.machine.gm import reach
from ptosim.machine.pages import view_dtype
from ptosim.ops.base.binding import Binding, OpFault, typed_scalar
from ptosim.ops.base.functions import STATE, Commit, kernel, nothing
from ptosim.ops.micro.modes import StoreMode
from ptosim.ops.micro.pointers import (
    Place,
    copies,
    holds,
    leaves,
    place,
    reads,
    require,
    require_each,
    writes,
)

Level = tuple[int, int, int]
"""Count, source stride and destination stride of a level, in bytes."""


MAX_TOLD = 4096
"""Bursts that are told apart where a copy leaves its destination."""


MAX_BURSTS = 2**20
"""Bursts that are copied one by one: 16 times as many as the field of their count can say."""


class Copy(NamedTuple):
    """A transfer: what goes where, the bytes of a burst, the levels from the innermost on."""

    source: Place
    target: Place
    length: int
    levels: Sequence[Level]


# -- a copy ----------------------------------------------------------------------------------------


def check_sizes(op: Binding, copy: Copy) -> None:
    """Raise OpFault for a negative size of a transfer, which hangs a board."""
    least = min(copy.length, *(level[0] for level in copy.levels), 0)
    if least < 0:
        raise OpFault(
            "PTO6002",
            f"'{op.op.name}': a size of the transfer is negative: {least}: the board hangs",
            help="`arith.maxsi %n, %c0 : i64` keeps it from being negative; 0 moves nothing",
        )


def copied(op: Binding, copy: Copy) -> Commit:
    """Return the effect of a copy."""
    levels = [level for level in copy.levels if level[0] != 1]
    if copy.length <= 0 or any(level[0] <= 0 for level in levels):
        return nothing
    copy = copy._replace(levels=levels)
    mode = op.values.get("stores")
    if mode is not None:
        return _combined(op, copy, mode)
    _note_reach(op, copy)
    source = holds(op, copy.source, *_reach(copy.source.start, copy.length, levels, 1))
    target = holds(op, copy.target, *_reach(copy.target.start, copy.length, levels, 2), writes=True)
    if not (source and target) or _overlaps(copy):
        _refuse_too_many(op, copy)
        return partial(_burst_by_burst, copy)
    return _at_once(copy)


STATE["pto.mte_ub_gm"] = (("stores", SLOT_STORES),)


def _refuse_too_many(op: Binding, copy: Copy) -> None:
    refuse_many(op, prod(level[0] for level in copy.levels))


def refuse_many(op: Binding, count: int) -> None:
    """Raise for more bursts than are copied one by one."""
    if count > MAX_BURSTS:
        raise OpFault(
            "PTO1104",
            f"'{op.op.name}' copies {count:,} bursts one by one; at most {MAX_BURSTS:,} are",
            help="look at how the count was computed; give bursts that are different ones strides",
        )


def _combined(op: Binding, copy: Copy, mode: StoreMode) -> Commit:
    """A store whose elements are combined with those in global memory, one by one."""
    source, target, length = copy.source, copy.target, copy.length
    if length % mode.dtype.itemsize:
        raise OpFault(
            "PTO6670",
            f"stores {length} bytes in elements of {mode.dtype.itemsize} ({mode.element})",
        )
    _refuse_too_many(op, copy)
    reads(op, source, length, *((n, step) for n, step, _ in copy.levels))
    written = [(n, step) for n, _, step in copy.levels]
    writes(op, target, length, *written)
    if op.touches is not None:
        op.touches.combines = True
    holds(op, source, *_reach(source.start, length, copy.levels, 1))
    holds(op, target, *_reach(target.start, length, copy.levels, 2), writes=True)

    def store() -> None:
        for start, at in bursts(copy):
            old = read_bytes(target, at, length)
            write_bytes(target, at, mode.combined(old, read_bytes(source, start, length)))

    return store


def _note_reach(op: Binding, copy: Copy) -> None:
    """What a copy reaches. Between memories on chip bytes stay as they are found; what is dropped
    after the end of a GM buffer is not read either."""
    source, target = copy.source, copy.target
    if not source.drops and not target.drops:
        copies(op, source, target, copy.length, *copy.levels)
        return
    levels = copy.levels
    end = _reach(target.start, copy.length, levels, 2)[1]
    if target.drops and end > target.size:
        for start, at in islice(bursts(copy), MAX_TOLD):
            kept = min(copy.length, target.size - at)
            reads(op, source._replace(start=start), kept)
    else:
        reads(op, source, copy.length, *((n, step) for n, step, _ in levels))
    writes(op, target, copy.length, *((n, step) for n, _, step in levels))


def _reach(start: int, length: int, levels: Sequence[Level], axis: int) -> tuple[int, int]:
    """The first byte that a copy touches, and the one after the last."""
    low, high = reach([level[0] for level in levels], [level[axis] for level in levels])
    return start + low, start + high + length


def _overlaps(copy: Copy) -> bool:
    """True unless the bursts of the destination are known to be apart from each other, and from the
    source where that is the same memory."""
    if copy.source.data is copy.target.data or copy.source.name == copy.target.name:
        return True
    size = copy.length
    for count, _, stride in sorted(copy.levels, key=lambda level: abs(level[2])):
        if abs(stride) < size:
            return True
        size += (count - 1) * abs(stride)
    return False


def _at_once(copy: Copy) -> Commit:
    shape = (*(level[0] for level in reversed(copy.levels)), copy.length)
    views = [
        where.array(shape, np.uint8, (*(level[axis] for level in reversed(copy.levels)), 1))
        for where, axis in ((copy.source, 1), (copy.target, 2))
    ]
    return partial(np.copyto, views[1], views[0])


def bursts(copy: Copy) -> Iterator[tuple[int, int]]:
    """Yield the first byte of source and destination of each burst, in order."""
    yield from _bursts_of(copy.levels[::-1], copy.source.start, copy.target.start)


def _bursts_of(levels: Sequence[Level], start: int, at: int) -> Iterator[tuple[int, int]]:
    """The bursts of levels, the outermost first, from two places on; none is kept, for there may be
    2³² of them."""
    if not levels:
        yield start, at
        return
    count, source, target = levels[0]
    for n in range(count):
        yield from _bursts_of(levels[1:], start + n * source, at + n * target)


def _burst_by_burst(copy: Copy) -> None:
    for start, at in bursts(copy):
        write_bytes(copy.target, at, read_bytes(copy.source, start, copy.length))


def read_bytes(where: Place, start: int, size: int) -> np.ndarray:
    """Return a copy of bytes; those outside are 0."""
    if start >= 0 and start + size <= where.size:
        return where.data[start : start + size].copy()
    data = np.zeros(size, np.uint8)
    low, high = max(start, 0), min(start + size, where.size)
    if low < high:
        data[low - start : high - start] = where.data[low:high]
    return data


def write_bytes(where: Place, start: int, data: np.ndarray) -> None:
    """Write bytes; those outside are dropped."""
    low, high = max(start, 0), min(start + len(data), where.size)
    if low < high:
        where.data[low:high] = data[low - start : high - start]


# -- between global and local memory ---------------------------------------------------------------


def _levels(op: Binding) -> list[Level]:
    """Bursts, then the loops from the innermost on."""
    values = op.values
    bursts = tuple(values[f"nburst.{n}"] for n in ("count", "src_stride", "dst_stride"))
    return [bursts, *_loops(op)]


def _loops(op: Binding) -> Iterator[Level]:
    names = ("count", "src_stride", "dst_stride")
    return zip(*(op.values.get(f"loop.{name}") or () for name in names), strict=True)


@kernel("pto.mte_gm_ub", "pto.mte_ub_gm", "pto.mte_gm_l1")
def transfer(op: Binding) -> Commit:
    """Bursts of bytes between global memory and UB or L1."""
    source, target = place(op, "src"), place(op, "dst")
    copy = Copy(source, target, op.values["length"], _levels(op))
    check_sizes(op, copy)
    _check_alignment(op, copy)
    _check_order(op, copy)
    registers = _left_registers(op)
    if not op.has("pad.value"):
        return _leaving(op, _with_tails(op, copy), registers)
    counts = op.values.get("pad.left", 0), op.values.get("pad.right", 0)
    clause = op.op.bound["pad"]
    bits = pad_bits(op.values["pad.value"], clause.operands["value"].type)
    return _leaving(op, padded(op, copy, counts, bits), registers | {"pad": bits})


def _with_tails(op: Binding, copy: Copy) -> Commit:
    """Return the effect of a transfer: A5 writes whole blocks of 32 bytes into UB, and what follows
    a burst in its last one is undefined (PTOAS#1431), so that it shows as memory does that nothing
    has written. Bursts that are not at blocks, or over each other, are other faults."""
    commit = copied(op, copy)
    rest, copy = -copy.length % 32, copy._replace(levels=[x for x in copy.levels if x[0] != 1])
    steps = [(n, step) for n, _, step in copy.levels]
    if not rest or copy.length <= 0 or op.target != "a5" or copy.target.name != "vec":
        return commit
    starts = [copy.target.start, *(step for _, step in steps)]
    if any(start % 32 for start in starts) or _overlaps(copy._replace(length=copy.length + rest)):
        return commit
    tail = copy.target._replace(start=copy.target.start + copy.length)
    leaves(op, tail, rest, *steps)
    if commit is nothing or not holds(
        op, tail, *_reach(tail.start, rest, copy.levels, 2), writes=True
    ):
        return commit
    shape, strides = zip(*reversed(steps), strict=True) if steps else ((), ())
    view = tail.array((*shape, rest), np.uint8, (*strides, 1))
    fill = op.core.unwritten

    def effect() -> None:
        commit()
        view[...] = fill

    return effect


_WAYS = {"pto.mte_gm_ub": "outtoub", "pto.mte_ub_gm": "ubtoout"}


def _left_registers(op: Binding) -> dict[str, Any]:
    """What is in the loop registers of the older copies after a copy with loops: counts of 1, and
    the strides of two of them, of which the first is in those of the outer loop."""
    way, loops = _WAYS.get(op.op.name), list(_loops(op))[:2]
    if way is None or not loops:
        return {}
    left: dict[str, Any] = {f"{way}_count{n}": 1 for n in (1, 2)}
    for n, (_, source, target) in enumerate(reversed(loops), 1):
        left |= {f"{way}_src{n}": source, f"{way}_dst{n}": target}
    return left


def _leaving(op: Binding, commit: Commit, registers: dict[str, Any]) -> Commit:
    """Return an effect after which registers have other values."""
    if not registers:
        return commit

    def run() -> None:
        commit()
        set_registers(op.core, registers)

    return run


def _check_order(op: Binding, copy: Copy) -> None:
    """Tell where the documentation (the first loop is the innermost) and the assembler (it is the
    outer one of two) give different bytes: where rounds of loops write the same ones."""
    rounds = [level for level in copy.levels if level[0] > 1]
    if len([level for level in copy.levels[1:] if level[0] > 1]) < 2 or copy.length <= 0:
        return
    if _overlaps(copy._replace(levels=rounds)):
        op.report(
            "PTO6607",
            "has loops whose rounds write the same bytes: the first loop is taken as the "
            "innermost, as the documentation says; the assembler makes it the outer one of two",
        )


def _check_alignment(op: Binding, copy: Copy) -> None:
    """Tell of a burst on chip that does not begin at a block of 32 bytes: the first one, or one at
    its distance from another."""
    for side, where in enumerate((copy.source, copy.target), 1):
        if where.drops:
            continue
        steps = (level[side] for level in copy.levels if level[0] > 1 and copy.length > 0)
        apart = next((step for step in steps if step % 32), 0)
        if where.start % 32:
            told = f"addresses {where.name} at {where.start:#x}"
        elif apart:
            told = f"addresses {where.name} in steps of {apart:,} bytes"
        else:
            continue
        op.report("PTO6605", f"{told}; the transfer needs a multiple of 32")


def set_registers(core: Core, registers: Mapping[str, Any]) -> None:
    """Set registers that the older copies go by: a new tuple, so that each copy is bound to the
    values that it was issued with."""
    slots = core.slots
    slots[SLOT_LOOPS] = tuple(sorted({**dict(slots[SLOT_LOOPS] or ()), **registers}.items()))


def pad_bits(value: Any, type_: Any) -> Any:
    """Return the bits of a value of padding in its type; a number without a type stays one."""
    if not isinstance(type_, ScalarType):
        return value
    kind = view_dtype(type_.dtype)
    return typed_scalar(value, kind).tobytes().ljust(8, b"\0")


def padded(op: Binding, copy: Copy, counts: tuple[int, int], value: Any) -> Commit:
    """Fill elements before and after the data of each burst, the data moved after those in
    front; with no counts the rest of the last 32-byte block. `value` is what `pad_bits` gives."""
    left, right = counts
    dtype = view_dtype(op.op.bound["dst"].type.elem)
    is_bits = isinstance(value, bytes)
    unit = value[: dtype.itemsize] if is_bits else typed_scalar(value, dtype).tobytes()
    front, rest = max(left, 0) * len(unit), -copy.length % 32
    tail = max(right, 0) * len(unit) if left or right else rest
    if op.target == "a2a3":  # pads after the data only, up to the end of the block
        if left:
            op.report("PTO6607", "pads after the data only: A2/A3 has no padding in front of it")
        front, tail = 0, min(tail, rest)
    moved = copy._replace(target=copy.target._replace(start=copy.target.start + front))
    move = copied(op, moved)
    steps = [(n, step) for n, _, step in copy.levels]
    writes(op, copy.target, front, *steps)
    after = moved.target._replace(start=moved.target.start + copy.length)
    writes(op, after, tail, *steps)
    _refuse_too_many(op, copy)
    around = front + copy.length + tail
    if around <= 0 or any(level[0] <= 0 for level in copy.levels):
        return move
    require(op, copy.target, *_reach(copy.target.start, around, copy.levels, 2))
    before, filler = (  # which the memory holds, so they are no larger
        np.frombuffer((unit * (size // len(unit) + 1))[:size], np.uint8) for size in (front, tail)
    )

    def pad() -> None:
        move()
        for _, at in bursts(copy):
            write_bytes(copy.target, at, before)
            write_bytes(copy.target, at + front + copy.length, filler)

    return pad


# -- on chip ---------------------------------------------------------------------------------------


def gapped(
    source: Place, target: Place, count: int, length: int, gaps: tuple[int, int], unit: int = 32
) -> Copy:
    """Return a copy whose lengths and gaps are units of bytes; a gap follows each burst."""
    read, write = ((length + gap) * unit for gap in gaps)
    return Copy(source, target, length * unit, [(count, read, write)])


def _gaps(op: Binding) -> tuple[int, int, tuple[int, int]]:
    values = op.values
    return (
        values["nburst.count"],
        values["length"],
        (values["nburst.src_gap"], values["nburst.dst_gap"]),
    )


@kernel("pto.mte_ub_ub", "pto.mte_ub_l1", "pto.mte_l1_ub", "pto.mte_l1_fb")
def on_chip(op: Binding) -> Commit:
    """Bursts of 32-byte units between UB and L1; a cube core means the UB of vector core 0. L1 to
    the buffer of fixpipe parameters goes in units of 64 bytes. Loops around them count bytes."""
    count, length, gaps = _gaps(op)
    unit = 64 if op.op.name == "pto.mte_l1_fb" else 32
    copy = gapped(place(op, "src"), place(op, "dst"), count, length, gaps, unit)
    return copied(op, copy._replace(levels=[*copy.levels, *_loops(op)]))


@kernel("pto.mte_l1_bt")
def to_bias(op: Binding) -> Commit:
    """L1 to the bias table, in units of 32 source bytes; 16-bit floats become f32."""
    src, dst = (op.op.bound[name].type.elem for name in ("src", "dst"))
    if src.bits != dst.bits:
        return widened(op, *_gaps(op))
    count, length, gaps = _gaps(op)
    return copied(op, gapped(place(op, "src"), place(op, "dst"), count, length, gaps))


def widened(op: Binding, count: int, length: int, gaps: tuple[int, int]) -> Commit:
    """Bursts of units of 32 source bytes, each value made one of the destination's type."""
    source, target = place(op, "src"), place(op, "dst")
    src, dst = (view_dtype(op.op.bound[name].type.elem) for name in ("src", "dst"))
    grow = dst.itemsize // src.itemsize
    step_in, step_out = (length + gaps[0]) * 32, (length + gaps[1]) * 32 * grow
    size = length * 32
    if count <= 0 or size <= 0:
        return nothing
    require_each(op, source, size, (count, step_in))
    require_each(op, target, size * grow, (count, step_out))
    refuse_many(op, count)
    units = (src.itemsize, dst.itemsize)
    copies(op, source, target, size, (count, step_in, step_out), unit=units)

    def widen() -> None:
        for i in range(count):
            data = read_bytes(source, source.start + i * step_in, size)
            wide = data.view(src).astype(dst).view(np.uint8)
            write_bytes(target, target.start + i * step_out, wide)

    return widen
