"""Loads and stores of groups: rows at a distance, and single elements at a distance."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import CONTIGUOUS, LaneLayout, grouped, register_lanes
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, refuse, vector_type
from ptosim.ops.lower.logical.groups import spread_results
from ptosim.ops.lower.logical.lowering import Lowering
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.places import Place, loaded, stored_as_it_is
from ptosim.ops.lower.logical.values import Held, canonical, in_layout


def load_rows(op: Operation, low: Lowering, place: Place, groups: int, brc: bool) -> None:
    """Rows at a distance; one element for each group, or the same in all lanes of the group."""
    result = names.result(op)
    lanes, bits = names.lanes_of(result), names.bits_of(result)
    size = lanes // groups
    if brc or size == 1:
        if brc and size > 1:
            return _load_spread(op, low, place, groups, size)
        low.define(result, *_slots(op, low, place, groups, low.layout(result)))
        return None
    stride = names.constant(names.operand(op, "stride"))
    if stride == size:
        low.define(result, *loaded(low, place, low.layout(result), lanes))
        return None
    step = low.number(op, "stride")
    width = register_lanes(bits)
    if size % width == 0:
        made = [
            place.load(low.out.plus(low.out.times(step, g), at))
            for g in range(groups)
            for at in range(0, size, width)
        ]
        low.define(result, CONTIGUOUS, made)
        return None
    layout = low.layout(result)
    factor = size // names.block_lanes(bits)
    if layout.kind != "block_deinterleaved" or layout.number != factor:
        layout = CONTIGUOUS
    if layout.is_contiguous and factor != 1:
        low.define(result, CONTIGUOUS, _merged(low, place, step, groups, size))
        return None
    blocks = _block_step(low, stride, size, bits)
    made = []
    for part in range(layout.parts):
        for first in range(0, groups, 8):
            mask = low.out.first(min(groups - first, 8), 32)
            at = low.out.plus(low.out.times(step, first), part * names.block_lanes(bits))
            made.append(_load_blocks(low, place, at, blocks, mask))
    low.define(result, layout, made)
    return None


def _merged(low: Lowering, place: Place, step: Register, groups: int, size: int) -> list[Register]:
    """Rows that share a register: each is loaded to where it belongs, then they are joined."""
    bits = bits_of(place.elem)
    width = register_lanes(bits)
    if width % size:
        raise refuse("cannot materialize requested VMI operand layout: rows of this size")
    made = []
    for first in range(0, groups, width // size):
        rows = range(first, min(first + width // size, groups))
        joined: Register | None = None
        for lane, row in zip(range(0, width, size), rows, strict=False):
            at = low.out.plus(low.out.times(step, row), -lane) if row else 0
            one = place.load(at)
            if joined is not None:
                uses = [joined, one, low.out.first(lane, bits)]
                one = low.out.one("vsel", uses, one.type)
            joined = one
        assert joined is not None
        made.append(joined)
    return made


def _block_step(low: Lowering, stride: int | None, size: int, bits: int) -> Register:
    block = names.block_lanes(bits)
    if size not in (block, 2 * block, 4 * block):
        raise refuse("cannot materialize requested VMI operand layout: rows of this size")
    if stride is None or stride <= 0 or stride % block:
        raise refuse(f"requires a constant positive row_stride divisible by {block}")
    return low.out.constant(stride // block, "i16")


def _load_blocks(
    low: Lowering, place: Place, at: Register, step: Register, mask: Register
) -> Register:
    items = [place.moved(at), step, low.out.constant(0, "i16"), mask]
    return low.out.one("vsldb", items, vector_type(place.elem))


def _slots(
    op: Operation, low: Lowering, place: Place, groups: int, wanted: LaneLayout
) -> tuple[LaneLayout, list[Register]]:
    """One element for each group: all at once where they follow each other, else one by one."""
    stride = names.constant(names.operand(op, "stride"))
    bits = bits_of(place.elem)
    wanted = canonical(wanted, groups)
    if stride == 1 and not (wanted.kind == "num_groups" and wanted.slots == 1):
        return loaded(low, place, wanted, groups)
    step = low.number(op, "stride")
    made = [place.load(low.out.times(step, g), f"BRC_B{bits}") for g in range(groups)]
    return grouped(groups, 1), made


def _load_spread(op: Operation, low: Lowering, place: Place, groups: int, size: int) -> None:
    result = names.result(op)
    bits = names.bits_of(result)
    stride = names.constant(names.operand(op, "stride"))
    if groups == 8 and size == names.block_lanes(bits) and bits in (16, 32) and stride == 1:
        low.define(result, CONTIGUOUS, [place.load(0, f"E2B_B{bits}")])
        return
    slots = 1 if size % register_lanes(bits) == 0 or stride != 1 else 8
    layout, registers = _slots(op, low, place, groups, grouped(groups, slots))
    held = Held(names.elem_of(result), groups, canonical(layout, groups), registers)
    spread_results(low, held, result, size)


# -- stores ----------------------------------------------------------------------------------------


def store_rows(op: Operation, low: Lowering, place: Place, groups: int) -> None:
    """Rows at a distance, or one element for each group."""
    value = low.held(names.vector(op, "value", "low"))
    size = value.lanes // groups
    if size == 1:
        return _store_slots(op, low, place, value)
    stride = names.constant(names.operand(op, "stride"))
    step = low.number(op, "stride")
    width, bits = register_lanes(value.bits), value.bits
    if stride == size and value.lanes % width == 0:
        for number, register in enumerate(in_layout(low.out, value, CONTIGUOUS)):
            place.store(register, number * width, low.out.every(bits))
        return None
    if size % width == 0:
        for number, register in enumerate(in_layout(low.out, value, CONTIGUOUS)):
            group, at = divmod(number * width, size)
            place.store(register, low.out.plus(low.out.times(step, group), at), low.out.every(bits))
        return None
    layout = canonical(value.layout, value.lanes)
    factor = size // names.block_lanes(bits)
    if factor > 1 and (layout.kind != "block_deinterleaved" or layout.number != factor):
        raise refuse("cannot materialize requested VMI operand layout: rows of blocks")
    layout = layout if factor > 1 else CONTIGUOUS
    blocks = _block_step(low, stride, size, bits)
    registers = in_layout(low.out, value, layout)
    per_part = len(registers) // layout.parts
    for number, register in enumerate(registers):
        part, first = divmod(number, per_part)
        mask = low.out.first(min(groups - first * 8, 8), 32)
        at = low.out.plus(low.out.times(step, first * 8), part * names.block_lanes(bits))
        uses = [register, place.moved(at), blocks, low.out.constant(0, "i16"), mask]
        low.out.emit("vsstb", uses)
    return None


def _store_slots(op: Operation, low: Lowering, place: Place, value: Held) -> None:
    """One element for each group; of 32-bit lanes to bytes the lowest byte."""
    packed = bits_of(place.elem) == 8 and value.bits == 32
    stride = names.constant(names.operand(op, "stride"))
    layout = canonical(value.layout, value.lanes)
    is_single = layout.kind == "num_groups" and layout.slots == 1
    step = low.number(op, "stride")
    if value.uniform or (stride == 1 and not is_single):
        _store_together(low, place, value, packed)
        return
    if not is_single:
        layout = grouped(value.lanes, 1)
        raise_on = in_layout(low.out, value, layout)
    else:
        raise_on = value.registers
    for group, register in enumerate(raise_on):
        at = low.out.times(step, group) if group else 0
        if packed:
            register = low.out.view(register, "ui8")
        bits = 8 if packed else value.bits
        place.store(register, at, low.out.every(bits), f"1PT_B{bits}")


def _store_together(low: Lowering, place: Place, value: Held, packed: bool) -> None:
    if not packed and stored_as_it_is(low, place, value):
        return
    layout = canonical(value.layout, value.lanes)
    slots = layout.slots if layout.kind == "num_groups" else register_lanes(value.bits)
    if layout.kind == "contiguous":
        layout = CONTIGUOUS
    for number, register in enumerate(in_layout(low.out, value, layout)):
        mask = low.out.first(min(value.lanes - number * slots, slots), value.bits)
        if packed:
            register = low.out.view(register, "ui8")
        place.store(register, number * slots, mask, "PK4_B32" if packed else "")
