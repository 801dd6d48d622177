"""How logical vectors reach UB: addresses, bounds, alignment, the account of accesses.

An access covers the logical lanes and nothing else; what a register would read beside them is not
accounted. Bytes must be in UB (a trap); everything else that a board would do differently is a
warning.

Block forms: 32-byte blocks at a stride, and which of them a mask lets through.

Block k begins (rs + k * bs) * 32 bytes after the pointer, both strides unsigned numbers of 16
bits. The text has a mask of lanes; the instruction reads one bit a block, at position k of the
32-bit view of the mask (`vmi.block_gate`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import BLOCK_BYTES, REGISTER_BYTES
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, near
from ptosim.machine.vector import PAGE_BITS, VectorWindow
from ptosim.ops.base.binding import OpFault, outside_space
from ptosim.ops.micro.context import MOST_OF_ENTRY
from ptosim.ops.micro.hazards import STORE_LOAD, stores, unordered_places
from ptosim.ops.vmi.context import LogicalContext

Address = Callable[[list], int]


def element_bytes(ctx: LogicalContext, name: str) -> int:
    """Return the bytes of an element that a pointer points to."""
    return max(ctx.type(name).elem.bits // 8, 1)


def start_of(ctx: LogicalContext, pointer: str) -> Address:
    """Return the function that computes where an access begins: pointer + offset in elements."""
    at, size = ctx[pointer], element_bytes(ctx, pointer)
    has_offset = ctx.has("offset")
    index = ctx["offset"] if has_offset else at
    const = ctx.const("offset") if has_offset else 0

    def start(slots: list) -> int:
        base = slots[at]
        try:
            first = base.byte
        except AttributeError:
            first = _start(base)
        return near(first + (slots[index] if const is None else const) * size)

    return start


def address(ctx: LogicalContext, pointer: str, *, aligned: bool = True) -> Address:
    """Return the function that computes where an access begins, and checks it. `aligned` says that
    a place which is no multiple of 32 bytes is worth a warning."""
    begin, size = start_of(ctx, pointer), element_bytes(ctx, pointer)

    def of_element(slots: list) -> int:
        start = begin(slots)
        if start % size:
            raise misaligned(ctx, start, size)
        return start

    if not aligned:
        return of_element

    def of_block(slots: list) -> int:
        start = of_element(slots)
        if start % BLOCK_BYTES:
            warn_unaligned(ctx, start)
        return start

    return of_block


def unit_of(ctx: LogicalContext, pointer: str, *, aligned: bool = True) -> int:
    """Return what an address is a multiple of where there is nothing to report of it."""
    return max(element_bytes(ctx, pointer), BLOCK_BYTES if aligned else 1)


def _start(base: object) -> int:
    if isinstance(base, TileRef):
        return base.addr
    assert isinstance(base, GmView)
    return base.start.byte


def misaligned(ctx: LogicalContext, start: int, size: int) -> OpFault:
    """Return the fault of an address between two elements."""
    return OpFault(
        "PTO6705",
        f"'{ctx.op.name}' accesses byte {start:#x}, which is no multiple of its {size}-byte "
        "elements",
        help="a pointer that was cast to wider elements must be at one of them",
    )


def warn_unaligned(ctx: LogicalContext, start: int) -> None:
    """Report an access of whole registers that is not at a block."""
    ctx.report(
        "PTO6704",
        f"accesses {start:#x}, which is not 32-byte aligned",
        "begin at a multiple of 32 bytes, or use a group form",
    )


# -- loads ----------------------------------------------------------------------------------------


def loader(
    ctx: LogicalContext, size: int, *, rest: bool = True
) -> Callable[[Core, int], bytearray]:
    """Return the function that reads `size` bytes of UB, a copy of them. `rest`: whole registers
    are read, of which those bytes are used."""
    place, report = ctx.place, ctx.report
    stamp, entry = place.stamp(size), place.entry(size)
    beyond = -size % REGISTER_BYTES if rest else 0
    noted = np.zeros(1, np.int64)

    def load(core: Core, start: int) -> bytearray:
        ub = core.ub
        end = start + size
        if start < 0 or end > ub.size:
            raise outside_space(ctx.op.name, "UB", start, end, ub.size)
        if ub.log is not None:
            if size <= MOST_OF_ENTRY:
                ub.log.append(entry + start)
            else:
                ub.note(place.code, noted + start, size)
        ub.last[start:end] = stamp
        _touch(ub, start, end)
        if ub.marks.find(ub.interval, start, end) >= 0:
            report(*STORE_LOAD)
        if beyond and end + beyond > ub.size:
            _warn_rest(ctx, end + beyond - ub.size)
        return ub.data[start:end]

    return load


def _warn_rest(ctx: LogicalContext, excess: int) -> None:
    ctx.report(
        "PTO6707",
        f"reads whole registers, of which the last one is beyond the end of UB by {excess} bytes; "
        "the logical lanes are right",
    )


def _touch(ub: VectorWindow, start: int, end: int) -> None:
    first, last = start >> PAGE_BITS, (end - 1) >> PAGE_BITS
    ub.touched.add(first)
    if last != first:
        ub.touched.update(range(first, last + 1))


def gathered(ctx: LogicalContext, core: Core, starts: np.ndarray, width: int) -> np.ndarray:
    """Return the elements of `width` bytes at byte addresses, as unsigned numbers."""
    if not len(starts):
        return np.zeros(0, f"u{width}")
    ub = core.ub
    check_places(ctx, ub, starts, width)
    places = starts[:, None] + np.arange(width)
    np.frombuffer(ub.last, np.uint8)[places] = ctx.place.number
    ub.touched.update((starts >> PAGE_BITS).tolist())
    ub.note(ctx.place.code, starts, width)
    if (np.frombuffer(ub.marks, np.uint8)[places] == ub.interval).any():
        ctx.report(*STORE_LOAD)
    return np.frombuffer(ub.data, np.uint8)[places].reshape(-1).view(f"u{width}")


def check_places(ctx: LogicalContext, ub: VectorWindow, starts: np.ndarray, width: int) -> None:
    """Raise if an element is outside of UB, or between two elements."""
    low, high = int(starts.min()), int(starts.max()) + width
    if low < 0 or high > ub.size:
        raise outside_space(ctx.op.name, "UB", low, high, ub.size)
    wrong = starts % width != 0
    if wrong.any():
        raise misaligned(ctx, int(starts[wrong][0]), width)


# -- stores ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Run:
    """Bytes that a store writes one after the other, those that `gate` says."""

    start: int
    data: bytes
    gate: np.ndarray | None = None

    def each_byte(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses and the bytes."""
        data = np.frombuffer(self.data, np.uint8)
        at = self.start + np.arange(len(data))
        return (at, data) if self.gate is None else (at[self.gate], data[self.gate])

    def commit(self, ctx: LogicalContext, core: Core) -> None:
        """Write them."""
        ub, size = core.ub, len(self.data)
        if not size:
            return
        if self.start < 0 or self.start + size > ub.size:
            raise outside_space(ctx.op.name, "UB", self.start, self.start + size, ub.size)
        found = stores(ub, ctx.place, self.start, self.data, self.gate)
        _touch(ub, self.start, self.start + size)
        if found is not None:
            ctx.report(*found)


@dataclass(slots=True, eq=False)
class Scattered:
    """Elements that a store writes at byte addresses, a later one over an earlier one."""

    starts: np.ndarray
    units: np.ndarray

    def each_byte(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses and the bytes."""
        width = self.units.dtype.itemsize
        places = self.starts[:, None] + np.arange(width)
        return places.reshape(-1), np.ascontiguousarray(self.units).view(np.uint8).reshape(-1)

    def commit(self, ctx: LogicalContext, core: Core) -> None:
        """Write them."""
        if not len(self.starts):
            return
        ub, place, width = core.ub, ctx.place, self.units.dtype.itemsize
        check_places(ctx, ub, self.starts, width)
        places, data = self.each_byte()
        found = unordered_places(ub, place, places, data)
        ub.note(place.code, self.starts, width)
        np.frombuffer(ub.data, np.uint8)[places] = data
        np.frombuffer(ub.last, np.uint8)[places] = place.number
        np.frombuffer(ub.marks, np.uint8)[places] = ub.interval
        ub.touched.update((self.starts >> PAGE_BITS).tolist())
        if found is not None:
            ctx.report(*found)


Plan = Run | Scattered
Planner = Callable[[Core], Plan]


def storing(ctx: LogicalContext, planner: Planner) -> Callable[[Core], None]:
    """Return the instruction that writes what a planner says."""
    ctx.planned = planner
    return lambda core: planner(core).commit(ctx, core)


def active_run(start: int, units: np.ndarray, on: np.ndarray | None) -> Run:
    """Return the store of those units, one after the other from `start`, that are active (None:
    all)."""
    if on is None:
        return Run(start, units.tobytes())
    chosen = np.flatnonzero(on)
    if not len(chosen):
        return Run(start, b"")
    size = units.dtype.itemsize
    first, last = int(chosen[0]), int(chosen[-1]) + 1
    data = units[first:last].tobytes()
    if last - first == len(chosen):
        return Run(start + first * size, data)
    return Run(start + first * size, data, np.repeat(on[first:last], size))


# -- blocks at a stride ----------------------------------------------------------------------------


def block_starts(ctx: LogicalContext, pointer: str, size: int) -> Callable[[list], np.ndarray]:
    """Return the function that gives where the blocks of `size` bytes begin."""
    at, stride = address(ctx, pointer, aligned=False), ctx["block_stride"]
    repeat = ctx["repeat_stride"] if ctx.has("repeat_stride") else None
    number = np.arange(-(-size // BLOCK_BYTES))

    def starts(slots: list) -> np.ndarray:
        first = at(slots)
        if first % BLOCK_BYTES:
            warn_unaligned(ctx, first)
        step = slots[stride] & 0xFFFF
        more = 0 if repeat is None else slots[repeat] & 0xFFFF
        return first + (more + number * step) * BLOCK_BYTES

    return starts


def gated(ctx: LogicalContext, width: int) -> Callable[[list], np.ndarray]:
    """Return the function that gives the lanes of `width` bytes which are accessed."""
    mask, by_lane = ctx["mask"], ctx.switch("vmi.block_gate") == "lane"
    size, step = BLOCK_BYTES // width, 4 // width

    def lanes(slots: list) -> np.ndarray:
        on = slots[mask].on
        blocks = -(-len(on) // size)
        at = np.arange(blocks) * step
        bits = np.zeros(blocks, np.bool_)
        bits[at < len(on)] = on[at[at < len(on)]]
        whole = np.repeat(bits, size)[: len(on)]
        if (whole != on).any():
            ctx.report(
                "PTO6706",
                "has a mask that is not the same for whole blocks: the text means lanes, the "
                "instruction reads one bit for each block of 32 bytes",
                "`--set vmi.block_gate=position` gives what the instruction does",
            )
        return on if by_lane else whole

    return lanes
