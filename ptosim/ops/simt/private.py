"""Memory of each thread's own: arrays of a launch, and fragments that live from one section of a
kernel to the next.

Words that threads keep from one launch of a kernel to the next, by their linear ids."""

from __future__ import annotations

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import ScalarType, Type, VectorType
from ptosim.ground.limits import current
from ptosim.machine.core import Core
from ptosim.machine.pages import POISON
from ptosim.machine.values import Fragment, Pointer
from ptosim.ops.base.functions import value
from ptosim.ops.base.orders import Action, ValueContext
from ptosim.ops.simt.frame import (
    Frame,
    LaneContext,
    LanePtr,
    Lanes,
    PrivatePtr,
    Run,
    element_type,
    lane_dtype,
    lanes,
    width_of,
)
from ptosim.ops.simt.memory import element_of

PERSISTENT = "pto.persistent"


def bytes_of(type_: Type) -> int:
    """Return the bytes of a number, or of a small vector of numbers."""
    return max(element_type(type_).bits // 8, 1) * (width_of(type_) or 1)


def fragment_of(op: Operation, count: int) -> Fragment:
    """Return the memory that an allocation makes; none for a count below zero, whose every access
    is a fault then."""
    return Fragment(op.start, max(count, 0) * bytes_of(op.attributes["elem"]))


@value("llvm.alloca")
def persistent_fragment(ctx: ValueContext) -> Action:
    """A fragment of each thread: nothing until a section uses it."""
    count, result, op = ctx.slots["count"], ctx.result, ctx.op

    def run(core: Core) -> None:
        made = core.slots[result] = fragment_of(op, core.slots[count])
        core.simt.fragments.pop(made.number, None)

    return run


@lanes("llvm.alloca")
def private_array(ctx: LaneContext) -> Run:
    """An array of each thread, for the rest of the launch."""
    op, count, target = ctx.op, ctx.slots["count"], ctx.results[0]

    def run(frame: Frame) -> None:
        most = int(frame.full(frame.values[count])[frame.active()].max())
        made = fragment_of(op, most)
        frame.private[made.number] = _fresh(frame, op, made)
        frame.values[target] = PrivatePtr(made, np.zeros(1, np.int64))

    return run


@lanes("llvm.getelementptr")
def element_pointer(ctx: LaneContext) -> Run:
    """A place so many units farther on."""
    size = bytes_of(ctx.op.attributes.get("unit", ctx.op.results[0].type))

    def move(pointer: PrivatePtr | LanePtr, index: Lanes) -> PrivatePtr | LanePtr:
        return pointer._replace(byte=pointer.byte + index.astype(np.int64) * size)

    return ctx.computed(move, "ptr", "index")


_UB = "llvm.ptr<6>"


@lanes("llvm.inttoptr")
def place_of_an_address(ctx: LaneContext) -> Run:
    """A place in UB."""
    _only_ub(ctx.op)
    return ctx.computed(lambda byte: LanePtr("vec", byte.astype(np.int64)), "src")


@value("llvm.inttoptr")
def pointer_of_an_address(ctx: ValueContext) -> Action:
    """A place in UB that threads are given."""
    _only_ub(ctx.op)
    return ctx.computed(lambda byte: Pointer("vec", byte), "src")


def _only_ub(op: Operation) -> None:
    type_ = op.results[0].type
    if str(type_) != f"!{_UB}":
        text = f"'{op.name}' makes a pointer of {type_}; only space 6, `!{_UB}`, is known: UB"
        raise UnsupportedError([finding("PTO8002", text)])


_MOST_BYTES = 1 << 28
"""Of one allocation for all threads of a launch: a thousand times what a core has on chip."""


def _fresh(frame: Frame, op: Operation, memory: Fragment) -> Lanes:
    size = frame.threads * memory.bytes
    if size > _MOST_BYTES:
        raise frame.fault(
            "PTO8002",
            op,
            f"uses an array of {memory.bytes:,} bytes for each of {frame.threads:,} threads; at "
            f"most {_MOST_BYTES:,} bytes are simulated for all of them",
            help="look at how the count was computed, or launch fewer threads",
        )
    current().need(size, f"the arrays of {frame.threads:,} threads")
    fill = 0 if frame.core.uninit == "zero" else POISON
    return np.full((frame.threads, memory.bytes), fill, np.uint8)


def _rows(frame: Frame, op: Operation, memory: Fragment) -> Lanes:
    """The bytes of an allocation, a row for each thread; a section with more threads than the ones
    before finds new rows."""
    rows = frame.private.get(memory.number)
    if rows is not None:
        return rows
    fragments = frame.core.simt.fragments
    rows = fragments.get(memory.number)
    if rows is None or len(rows) < frame.threads:
        grown = _fresh(frame, op, memory)
        if rows is not None:
            grown[: len(rows)] = rows
        rows = fragments[memory.number] = grown
    return rows


def _elements(
    frame: Frame, op: Operation, pointer: PrivatePtr, kind: np.dtype, count: int
) -> tuple[Lanes, Lanes]:
    """The memory of all threads as elements at any byte, and where those of each thread begin."""
    memory, byte = pointer
    size = kind.itemsize * count
    place = frame.full(byte)
    ids = frame.active()
    wrong = ids[(place[ids] < 0) | (place[ids] > memory.bytes - size)]  # a sum could wrap
    if len(wrong):
        at = int(place[wrong[0]])
        raise frame.fault(
            "PTO7302",
            op,
            f"of thread {frame.name_of(wrong[0])} accesses bytes [{at}, {at + size}) of its own "
            f"array, which has {memory.bytes}",
            help="keep the index below the number of elements",
        )
    flat = _rows(frame, op, memory).reshape(-1)
    view = np.ndarray(len(flat) - kind.itemsize + 1, kind, flat, 0, (1,))
    inside = np.clip(place, 0, max(memory.bytes - size, 0))
    return view, frame.ids * memory.bytes + inside


def _steps(count: int | None) -> list[Lanes]:
    """The elements after a place that one number, or the numbers of a small vector, are in."""
    return [np.array([at], np.int64) for at in range(count or 1)]


@lanes("llvm.load")
def load(ctx: LaneContext) -> Run:
    """An element, or several one after the other."""
    op, source, target, type_ = ctx.op, ctx.slots["ptr"], ctx.results[0], ctx.result_type
    dtype, count = element_type(type_), width_of(type_)
    kind, element = lane_dtype(dtype), element_of(dtype)

    def run(frame: Frame) -> None:
        pointer = frame.values[source]
        if isinstance(pointer, LanePtr):
            found = [frame.memory.load(op, pointer, at, element) for at in _steps(count)]
            frame.values[target] = found[0] if count is None else np.stack(found)
            return
        view, place = _elements(frame, op, pointer, kind, count or 1)
        if count is None:
            frame.values[target] = view[place]
        else:
            steps = np.arange(count)[:, None] * kind.itemsize
            frame.values[target] = view[place + steps]

    return run


@lanes("llvm.store")
def store(ctx: LaneContext) -> Run:
    """Write an element, or several one after the other."""
    op, source, target, type_ = ctx.op, ctx.slots["value"], ctx.slots["ptr"], ctx.type("value")
    if not isinstance(type_, (ScalarType, VectorType)):
        raise UsageError(f"'{op.name}' writes numbers to memory, not a value of type {type_}")
    dtype, count = element_type(type_), width_of(type_)
    kind, element = lane_dtype(dtype), element_of(dtype)

    def run(frame: Frame) -> None:
        pointer, written = frame.values[target], frame.values[source]
        if isinstance(pointer, LanePtr):
            parts = [written] if count is None else written
            for at, part in zip(_steps(count), parts, strict=True):
                frame.memory.store(op, pointer, at, element, part)
            return
        view, place = _elements(frame, op, pointer, kind, count or 1)
        ids = None if frame.mask is None else np.flatnonzero(frame.mask)
        given = frame.chosen(frame.values[source], ids)
        place = frame.chosen(place, ids)
        if count is not None:
            place = place + np.arange(count)[:, None] * kind.itemsize
        view[place] = given

    return run


# -- numbers of small vectors ----------------------------------------------------------------------


@lanes("llvm.extractelement")
def extract(ctx: LaneContext) -> Run:
    """One number of a small vector."""

    op, source, place, target = ctx.op, ctx.slots["src"], ctx.slots["index"], ctx.results[0]

    def run(frame: Frame) -> None:
        vector, index = frame.values[source], frame.values[place].astype(np.int64)
        inside = _inside(frame, op, index, len(vector))
        if len(inside) == 1:
            frame.values[target] = vector[int(inside[0])]
            return
        full = np.broadcast_to(vector, (len(vector), len(inside)))
        frame.values[target] = np.take_along_axis(full, inside[None], axis=0)[0]

    return run


def _inside(frame: Frame, op: Operation, index: Lanes, count: int) -> Lanes:
    """The places of numbers in a small vector; anything for threads that do not execute."""
    ids = frame.active()
    wrong = ids[(frame.full(index)[ids] < 0) | (frame.full(index)[ids] >= count)]
    if len(wrong):
        at = int(frame.full(index)[wrong[0]])
        raise frame.fault(
            "PTO7302",
            op,
            f"of thread {frame.name_of(wrong[0])} takes number {at} of a vector of {count}",
            help="keep the index below the number of elements",
        )
    return np.clip(index, 0, count - 1)


@lanes("llvm.insertelement")
def insert(ctx: LaneContext) -> Run:
    """A small vector with another number at one place."""

    def put(number: Lanes, vector: Lanes, index: Lanes) -> Lanes:
        at = np.arange(len(vector))[:, None] == index
        return np.where(at, number, vector)

    return ctx.computed(put, "value", "src", "index")


# -- words kept from one launch to the next --------------------------------------------------------


def words_of(value: Lanes) -> list[Lanes]:
    """Return a value as words of 32 bits, the low one first; a smaller one fills the low bits."""
    raw = np.ascontiguousarray(value)
    size = raw.dtype.itemsize
    bits = raw.view(f"u{size}") if raw.dtype.kind != "b" else raw.astype(np.uint8)
    if size < 8:
        return [bits.astype(np.uint32)]
    return [bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)]


def value_of(words: list[Lanes], wanted: np.dtype) -> Lanes:
    """Return the value that words hold."""
    if wanted.kind == "b":
        return (words[0] & 1).astype(bool)
    if wanted.itemsize == 8:
        both = words[1].astype(np.uint64) << np.uint64(32) | words[0].astype(np.uint64)
        return both.view(wanted)
    return words[0].astype(f"u{wanted.itemsize}").view(wanted)


@lanes("pto.keep")
def keep(ctx: LaneContext) -> Run:
    """Keep a value for the next launch. Keeps are the end of a function: all take effect there."""
    slot, source = int(ctx.op.attributes["slot"]), ctx.slots["value"]

    def run(frame: Frame) -> None:
        value = np.array(frame.full(frame.values[source]))
        for number, word in enumerate(words_of(value)):
            frame.keeps[slot + number] = word

    return run


@lanes("pto.resume")
def resume(ctx: LaneContext) -> Run:
    """The value that the same thread kept in a launch before."""
    op, slot, target = ctx.op, int(ctx.op.attributes["slot"]), ctx.results[0]
    wanted = lane_dtype(ctx.result_type.dtype)  # type: ignore[attr-defined]
    count = 2 if wanted.itemsize == 8 else 1

    def run(frame: Frame) -> None:
        state = frame.core.simt
        words = [state.kept.get(slot + number) for number in range(count)]
        found = [w for w in words if w is not None]
        if len(found) < count:
            raise frame.fault(
                "PTO7304",
                op,
                f"reads slot {slot}, which no launch of this kernel has kept",
                help=f"end a launch before this one with `pto.keep %v {{slot = {slot} : i64}}`",
            )
        short = min(len(w) for w in found)
        if short < frame.threads:
            raise frame.fault(
                "PTO7304",
                op,
                f"of thread {frame.name_of(short)} reads slot {slot}, which a launch of {short} "
                "threads has kept",
                help="launch as many threads as kept the value",
            )
        if not set(range(slot, slot + count)) <= state.latest:
            frame.report(
                "PTO7303",
                op,
                f"reads slot {slot}, which the launch before this one did not keep",
                help="resume and keep it in every launch between",
            )
        frame.values[target] = value_of([w[: frame.threads] for w in found], wanted)

    return run
