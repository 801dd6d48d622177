"""Copies by bursts and loops: GM, UB and L1.

PTO micro-instruction specification, data movement. Between global and local memory lengths and
strides are bytes, from start to start; each `loop` is one more level around the bursts, the first
the innermost. On chip, lengths and gaps are units of 32 bytes, and a gap follows its burst (also
for L1 to UB, where the text says bytes: the public programs' data need units). Bytes after the end
of a GM buffer are read as 0 and not written, with a warning: real programs move more than their
buffers hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from ptosim.machine.core import SLOT_STORES
from ptosim.machine.gm import reach
from ptosim.machine.storage import view_dtype
from ptosim.semantics.base.binding import Binding, typed_scalar
from ptosim.semantics.base.faults import OpFault
from ptosim.semantics.base.functions import STATE, Commit, kernel, nothing
from ptosim.semantics.micro.modes import StoreMode
from ptosim.semantics.micro.pointers import Place, copies, holds, place, reads, require, writes

Level = tuple[int, int, int]
"""Count, source stride and destination stride of a level, in bytes."""


MAX_TOLD = 4096
"""Bursts that are told apart where a copy leaves its destination."""


class Copy(NamedTuple):
    """A transfer: what goes where, the bytes of a burst, the levels from the innermost on."""

    source: Place
    target: Place
    length: int
    levels: Sequence[Level]


# -- a copy ----------------------------------------------------------------------------------------


def copied(op: Binding, copy: Copy) -> Commit:
    """Return the effect of a copy."""
    levels = [level for level in copy.levels if level[0] != 1]
    if copy.length <= 0 or any(level[0] <= 0 for level in levels):
        return nothing
    copy = copy._replace(levels=levels)
    mode = op.values.get("stores")
    if mode is not None:
        return _combined(op, copy, mode)
    _tell(op, copy)
    source = holds(op, copy.source, *_reach(copy.source.start, copy.length, levels, 1))
    target = holds(op, copy.target, *_reach(copy.target.start, copy.length, levels, 2), writes=True)
    if not (source and target) or _overlaps(copy):
        return partial(_burst_by_burst, copy)
    return _at_once(copy)


STATE["pto.mte_ub_gm"] = (("stores", SLOT_STORES),)


def _combined(op: Binding, copy: Copy, mode: StoreMode) -> Commit:
    """A store whose elements are combined with those in global memory, one by one."""
    source, target, length = copy.source, copy.target, copy.length
    if length % mode.dtype.itemsize:
        raise OpFault(
            "PTO6670",
            f"stores {length} bytes in elements of {mode.dtype.itemsize} ({mode.element})",
        )
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


def _tell(op: Binding, copy: Copy) -> None:
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
        np.ndarray(
            shape,
            np.uint8,
            where.data,
            where.start,
            (*(level[axis] for level in reversed(copy.levels)), 1),
        )
        for where, axis in ((copy.source, 1), (copy.target, 2))
    ]
    return partial(np.copyto, views[1], views[0])


def bursts(copy: Copy) -> Iterator[tuple[int, int]]:
    """Yield the first byte of source and destination of each burst, in order."""
    for counts in product(*(range(level[0]) for level in reversed(copy.levels))):
        steps = list(zip(reversed(counts), copy.levels, strict=True))
        yield (
            copy.source.start + sum(i * level[1] for i, level in steps),
            copy.target.start + sum(i * level[2] for i, level in steps),
        )


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
    levels = [tuple(values[f"nburst.{n}"] for n in ("count", "src_stride", "dst_stride"))]
    counts = values.get("loop.count", ())
    levels += zip(
        counts, values.get("loop.src_stride", ()), values.get("loop.dst_stride", ()), strict=True
    )
    return levels


@kernel("pto.mte_gm_ub", "pto.mte_ub_gm", "pto.mte_gm_l1")
def transfer(op: Binding) -> Commit:
    """Bursts of bytes between global memory and UB or L1."""
    source, target = place(op, "src"), place(op, "dst")
    _check_alignment(op, source, target)
    copy = Copy(source, target, op.values["length"], _levels(op))
    if not op.has("pad.value"):
        return copied(op, copy)
    left, right = op.values.get("pad.left", 0), op.values.get("pad.right", 0)
    return _padded(op, copy, left, right)


def _check_alignment(op: Binding, *places: Place) -> None:
    for where in places:
        if not where.drops and where.start % 32:
            op.report(
                "PTO6605",
                f"addresses {where.name} at {where.start:#x}; the transfer needs a multiple of 32",
            )


def _padded(op: Binding, copy: Copy, left: int, right: int) -> Commit:
    """Fill elements before and after the data of each burst, the data moved after those in
    front; with no counts the rest of the last 32-byte block."""
    dtype = view_dtype(op.op.bound["dst"].type.elem)
    unit = typed_scalar(op.values["pad.value"], dtype).tobytes()
    before = np.frombuffer(unit * left, np.uint8)
    tail = right * len(unit) if left or right else -copy.length % 32
    filler = np.frombuffer((unit * (tail // len(unit) + 1))[:tail], np.uint8)
    moved = copy._replace(target=copy.target._replace(start=copy.target.start + len(before)))
    move = copied(op, moved)
    steps = [(n, step) for n, _, step in copy.levels]
    writes(op, copy.target, len(before), *steps)
    after = moved.target._replace(start=moved.target.start + copy.length)
    writes(op, after, tail, *steps)
    around = Copy(copy.source, copy.target, len(before) + copy.length + tail, copy.levels)
    if around.length > 0 and all(level[0] > 0 for level in copy.levels):
        require(op, copy.target, *_reach(copy.target.start, around.length, copy.levels, 2))

    def pad() -> None:
        move()
        for _, at in bursts(copy):
            write_bytes(copy.target, at, before)
            write_bytes(copy.target, at + len(before) + copy.length, filler)

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
    the buffer of fixpipe parameters goes in units of 64 bytes."""
    count, length, gaps = _gaps(op)
    unit = 64 if op.op.name == "pto.mte_l1_fb" else 32
    return copied(op, gapped(place(op, "src"), place(op, "dst"), count, length, gaps, unit))


@kernel("pto.mte_l1_bt")
def to_bias(op: Binding) -> Commit:
    """L1 to the bias table, in units of 32 source bytes; 16-bit floats become f32."""
    count, length, gaps = _gaps(op)
    source, target = place(op, "src"), place(op, "dst")
    src, dst = (view_dtype(op.op.bound[name].type.elem) for name in ("src", "dst"))
    if src.itemsize == dst.itemsize:
        return copied(op, gapped(source, target, count, length, gaps))
    grow = dst.itemsize // src.itemsize
    step_in, step_out = (length + gaps[0]) * 32, (length + gaps[1]) * 32 * grow
    size = length * 32
    if count > 0 and size > 0:
        require(op, source, source.start, source.start + (count - 1) * step_in + size)
        require(op, target, target.start, target.start + (count - 1) * step_out + size * grow)
    units = (src.itemsize, dst.itemsize)
    copies(op, source, target, size, (count, step_in, step_out), unit=units)

    def widen() -> None:
        for i in range(count):
            data = read_bytes(source, source.start + i * step_in, size)
            wide = data.view(src).astype(dst).view(np.uint8)
            write_bytes(target, target.start + i * step_out, wide)

    return widen
