"""Operations of the scalar unit that make handles on global memory, or access an element of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.ir.types import DType, MemRefType, PtrType, ScalarType, Type, ViewType
from ptosim.machine.affine import NeedsValue, Unknown
from ptosim.machine.core import Core, Machine
from ptosim.machine.gm import ViewSpec, addresses, five_dims, view_spec
from ptosim.machine.pages import view_dtype
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.functions import value
from ptosim.ops.base.orders import Action, Looks, ValueContext
from ptosim.ops.scalar.numbers import wrap


@value("pto.addptr")
def addptr(ctx: ValueContext) -> Action:
    """result = pointer + offset elements."""
    type_ = ctx.type("ptr")
    if not isinstance(type_, PtrType):
        text = f"'{ctx.op.name}' moves a pointer; it is executed with no other type"
        raise UnsupportedError([finding("PTO8002", text)])
    bits = type_.elem.bits

    def add(pointer: Pointer, offset: int) -> Pointer:
        return Pointer(pointer.memory, pointer.byte + offset * bits // 8)

    return ctx.computed(add, "ptr", "offset")


@value("pto.castptr", "pto.ptrtoint", "pto.inttoptr")
def castptr(ctx: ValueContext) -> Action:
    """An integer is a byte address in the space of the result's type; a pointer keeps its place. In
    global memory the addresses are those of the machine, in a space of a core offsets in it."""
    type_, machine = ctx.result_type, ctx.machine
    space = getattr(type_, "space", None)

    def cast(given: int | Pointer | GmView) -> int | Pointer:
        if isinstance(given, int):
            return _pointer(machine, space, given)
        if space is not None or not isinstance(type_, ScalarType):
            return _start(given)
        found = _address(machine, given)
        # That of a pointer far away has more bits than its type.
        return found if found.__class__ is Unknown else wrap(found, type_.dtype)

    return ctx.computed(cast, "src")


def _start(given: Pointer | GmView) -> Pointer:
    return given.start if isinstance(given, GmView) else given


def _pointer(machine: Machine, space: str | None, address: int) -> Pointer:
    """The buffer that begins at an address, or the last one before it."""
    if space != "gm":
        return Pointer(space, address)
    bases = addresses(machine.buffers)
    before = [base for base in bases if base <= address]
    if not before:
        raise OpFault(
            "PTO6603",
            f"{address:#x} is no address in global memory",
            help="only a pointer argument, or an integer made of one, leads there",
        )
    return Pointer(bases.index(max(before)), address - max(before))


def _address(machine: Machine, given: Pointer | GmView) -> int:
    memory, byte = _start(given)
    return addresses(machine.buffers)[memory] + byte if isinstance(memory, int) else byte


@value("pto.make_tensor_view")
def make_tensor_view(ctx: ValueContext) -> Action:
    """A view of global memory: pointer, sizes and strides in elements."""
    type_ = ctx.result_type
    assert isinstance(type_, ViewType)
    pointer, result = ctx.slots["ptr"], ctx.result
    space = getattr(ctx.type("ptr"), "space", None)
    on_chip = space if space != "gm" else None
    shape = ctx.slots["shape"] or ()
    strides = ctx.slots["strides"] or ()
    dtype, layout = type_.elem, ctx.layout or "nd"
    declared = tuple(d or 1 for d in type_.dims)

    def made(sizes: tuple[int, ...], steps: tuple[int, ...]) -> ViewSpec:
        whole = sizes or declared
        return view_spec(*five_dims(whole, steps or contiguous(whole)), dtype, layout)

    written = [o.const for name in ("shape", "strides") for o in ctx.op.bound.get(name) or ()]
    known = None
    if None not in written:
        known = made(tuple(written[: len(shape)]), tuple(written[len(shape) :]))

    def run(core: Core) -> None:
        slots = core.slots
        memory, first = _first_element(slots[pointer], dtype)
        if isinstance(memory, str) or on_chip:
            raise OpFault(
                "PTO6002",
                f"a tensor view is of global memory, its pointer is to `{on_chip or memory}`",
                help="what is on chip is a tile: `pto.alloc_tile`",
            )
        spec = known or made(tuple(slots[s] for s in shape), tuple(slots[s] for s in strides))
        slots[result] = GmView(spec, memory, first)

    return run


def _first_element(given: Pointer | GmView, dtype: DType) -> tuple[Any, int]:
    """Return the memory of a pointer, or of a memref, and its first element."""
    if isinstance(given, GmView):
        return given.memory, given.offset
    return given.memory, given.byte * 8 // dtype.bits


def contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a shape whose last dimension is a run."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


@value("pto.partition_view")
def partition_view(ctx: ValueContext) -> Action:
    """A window of a view: offsets in elements along each dimension, new sizes, the same strides."""
    source, result = ctx.slots["source"], ctx.result
    offsets = ctx.slots["offsets"] or ()
    sizes = ctx.slots["sizes"] or ()
    leading = 5 - max(len(offsets), len(sizes))
    # Loops move a window of one size along a view: what does not depend on the place is kept.
    known: dict[Any, tuple[ViewSpec, Axes]] = {}

    def window(spec: ViewSpec, lengths: list[int]) -> tuple[ViewSpec, Axes]:
        whole = list(spec.sizes)
        whole[leading : leading + len(lengths)] = lengths
        axes = [(slot, spec.strides[i], spec.sizes[i] - whole[i], whole[i])
                for i, slot in enumerate(offsets, leading)]  # fmt: skip
        for axis, (_, _, _, size) in enumerate(axes):
            if size < 0:
                raise OpFault(
                    "PTO6002",
                    f"partition size {size} along dimension {axis} is negative: the board hangs",
                    help="`arith.maxsi %n, %c0 : index` keeps a size from being negative",
                )
        if len(known) >= MAX_WINDOWS:
            known.clear()
        found = view_spec(tuple(whole), spec.strides, spec.dtype, spec.layout), tuple(axes)
        known[spec, *lengths] = found
        return found

    def run(core: Core) -> None:
        slots = core.slots
        if slots[source] is None:
            raise OpFault("PTO6003", f"the view of '{ctx.op.name}' has no place yet")
        spec, memory, at = slots[source]
        lengths = [slots[s] for s in sizes]
        inner, axes = known.get((spec, *lengths)) or window(spec, lengths)
        first = at
        try:
            for slot, stride, room, _ in axes:
                offset = slots[slot]
                at += offset * stride
                if not 0 <= offset <= room:
                    _warn_outside(ctx, slots, axes)
        except NeedsValue:  # in a run without values: whether it is inside stays open
            at = sum((slots[slot] * stride for slot, stride, _, _ in axes), first)
        slots[result] = GmView(inner, memory, at)

    return run


Axes = tuple[tuple[int, int, int, int], ...]
"""Of each dimension of a window that has an offset: its slot, the stride, the largest offset inside
the view, and the size of the window."""

MAX_WINDOWS = 256
"""Sizes that are kept for an operation."""


def _warn_outside(ctx: ValueContext, slots: list[Any], axes: Axes) -> None:
    for axis, (slot, _, room, size) in enumerate(axes):
        offset = slots[slot]
        if not 0 <= offset <= room:
            ctx.report(
                "PTO6101",
                f"the window [{offset}, {offset + size}) leaves its view along dimension {axis} "
                f"(size {room + size})",
                "correct the offset, or give the view the size that its buffer has",
            )


@value("pto.get_tensor_view_dim")
def get_tensor_view_dim(ctx: ValueContext) -> Action:
    """The size of a view along a dimension."""
    rank = len(ctx.type("source").dims)

    def size(view: GmView, axis: int) -> int:
        if not 0 <= axis < rank:
            raise OpFault("PTO6002", f"a view of {rank} dimensions has no dimension {axis}")
        return view.spec.sizes[5 - rank + axis]

    return ctx.computed(size, "source", "index")


@value("pto.get_tensor_view_stride")
def get_tensor_view_stride(ctx: ValueContext) -> Action:
    """The elements from one index of a dimension to the next; a window has those of its view."""
    rank = len(ctx.type("source").dims)

    def stride(view: GmView, axis: int) -> int:
        if not 0 <= axis < rank:
            raise OpFault("PTO6002", f"a view of {rank} dimensions has no dimension {axis}")
        return view.spec.strides[5 - rank + axis]

    return ctx.computed(stride, "source", "index")


@value("pto.load_scalar", "pto.ld_dev")
def load_scalar(ctx: ValueContext) -> Action:
    """result = pointer[offset]."""
    slots = ctx.slots["ptr"], ctx.slots["offset"], ctx.result
    return _Load(ctx.machine, *slots, ctx.type("ptr").elem)


class _Load(Looks):
    def __init__(
        self, machine: Machine, pointer: int, offset: int, result: int, dtype: DType
    ) -> None:
        self._machine, self._dtype = machine, dtype
        self._pointer, self._offset, self._result = pointer, offset, result

    def __call__(self, core: Core) -> None:
        slots, dtype = core.slots, self._dtype
        pointer, offset = slots[self._pointer], slots[self._offset]
        if self._machine.looked is not None:
            _look(self._machine.looked, pointer, offset, dtype)
        place = _element(self._machine, core, pointer, offset, dtype)
        slots[self._result] = place[0].item() if dtype.family != "bf16" else float(place[0])


@value("pto.store_scalar", "pto.st_dev")
def store_scalar(ctx: ValueContext) -> Action:
    """pointer[offset] = value."""
    pointer, offset, source = ctx.slots["ptr"], ctx.slots["offset"], ctx.slots["value"]
    dtype = ctx.type("ptr").elem

    def run(core: Core) -> None:
        slots = core.slots
        place = _element(ctx.machine, core, slots[pointer], slots[offset], dtype)
        place[0] = np.array(slots[source]).astype(place.dtype)

    return run


def _look(
    looked: set[tuple[int, int, int]], pointer: Pointer | GmView, offset: int, dtype: DType
) -> None:
    """Note what is loaded. Raises NeedsValue where memory that has no values here would decide."""
    number, at = _start(pointer)
    if not isinstance(number, int):
        raise NeedsValue(Unknown("what is on chip"))
    size = dtype.bits // 8
    looked.add((number, at + offset * size, at + (offset + 1) * size))


def _element(
    machine: Machine, core: Core, pointer: Pointer | GmView, offset: int, dtype: DType
) -> np.ndarray:
    number, at = _start(pointer)
    assert number is not None
    buffer = machine.buffers[number] if isinstance(number, int) else None
    data = core.space(str(number)).data if buffer is None else buffer.content
    size = dtype.bits // 8
    start = at + offset * size
    if start < 0 or start + size > len(data):
        name = number if buffer is None else buffer.name
        raise OpFault(
            "PTO6001",
            f"element {start // size} is outside `{name}` ({len(data) // size} elements)",
            context={"buffer": name},
        )
    kind = view_dtype(dtype)
    if buffer is not None:
        return buffer.array((1,), kind, start, (size,))
    return np.ndarray((1,), kind, data, start)


@value("builtin.unrealized_conversion_cast")
def conversion_cast(ctx: ValueContext) -> Action:
    """The value itself, between spellings of one kind of type; a pointer to the first element of a
    memref, or the memref that begins at a pointer: a value of another kind of type is what no
    execution can make of it."""
    source, result = ctx.type("source"), ctx.result_type
    if isinstance(source, MemRefType) and isinstance(result, PtrType):
        return ctx.computed(lambda view: view.start, "source")
    if isinstance(source, PtrType) and isinstance(result, MemRefType):
        return ctx.computed(lambda pointer: _view_at(result, pointer), "source")
    if type(source) is not type(result):
        text = (
            f"'{ctx.op.name}' from {source} to {result} is not executed: they are kept differently"
        )
        raise UnsupportedError([finding("PTO8002", text)])
    return ctx.computed(lambda given: given, "source")


def _view_at(type_: MemRefType, pointer: Pointer) -> GmView:
    view = memref_view(type_, 0)
    at, rest = divmod(pointer.byte * 8, type_.elem.bits)
    if rest:
        raise OpFault("PTO8002", f"{pointer.byte:#x} is inside an element of {type_.elem}")
    return view._replace(memory=pointer.memory, offset=at)


def default_value(type_: Type, number: int) -> Any:
    """Return what a function argument is at the start: a pointer to its buffer, or a view."""
    if isinstance(type_, PtrType):
        return Pointer(number, 0)
    if isinstance(type_, MemRefType):
        return memref_view(type_, number)
    if isinstance(type_, ScalarType):
        return 0
    return None


def memref_view(type_: MemRefType, number: int) -> GmView:
    """Return the view of global memory that a memref argument is."""
    sizes = tuple(d or 1 for d in type_.dims) or (1,)
    strides = type_.strides
    steps = contiguous(sizes) if strides is None else tuple(s or 1 for s in strides)
    spec = view_spec(*five_dims(sizes, steps), type_.elem, "nd")
    return GmView(spec, number, type_.offset or 0)
