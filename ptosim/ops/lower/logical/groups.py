"""Reductions of groups and of whole vectors, and results of groups back in their lanes."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.lane_layout import (
    CONTIGUOUS,
    LaneLayout,
    deinterleaved,
    grouped,
    register_lanes,
    strided,
)
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, refuse, unsigned, vector_type
from ptosim.ops.lower.logical.layouts import of_results
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import exact, is_full
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.values import Held, canonical, in_layout, ramp_from

COMBINE = {"vcadd": "vadd", "vcmax": "vmax", "vcmin": "vmin"}
IN_BLOCKS = {"vcadd": "vcgadd", "vcmax": "vcgmax", "vcmin": "vcgmin"}


@lowers(*names.REDUCTIONS)
def reduce(op: Operation, low: Lowering) -> None:
    """dst = sum or extremum of the active lanes, of each group or of all."""
    source = names.vector(op, "src")
    groups = names.group_count(op)
    elem = names.elem_of(source)
    if elem not in ("f16", "f32") and not elem.lstrip("us").startswith("i"):
        raise refuse(f"no reductions of {elem}")
    if groups is None:
        return _whole(op, low)
    size, block = names.lanes_of(source) // groups, names.block_lanes(names.bits_of(source))
    if size % register_lanes(names.bits_of(source)) == 0:
        return _of_registers(op, low, groups, size)
    if size not in (block // 4, block // 2, block, 2 * block, 4 * block) or not size:
        raise refuse("no row for this group size")
    return _of_blocks(op, low, groups, size)


def _of_blocks(op: Operation, low: Lowering, groups: int, size: int) -> None:
    """Each block of each part is reduced, then the parts are combined."""
    source, result, word = names.vector(op, "src"), names.result(op), names.word(op)
    elem = unsigned(names.elem_of(source))
    bits, lanes = bits_of(elem), names.lanes_of(source)
    layout = _layout_for(low, source, size)
    registers = low.views(low.at(source, layout), elem)
    masks = exact(low.out, low.mask(op), lanes, layout, bits)
    type_, every = vector_type(elem), low.out.every(bits)
    found = [
        low.out.one(IN_BLOCKS[word], [r, m], type_) for r, m in zip(registers, masks, strict=True)
    ]
    step = len(found) // layout.parts
    parts = [found[k * step : (k + 1) * step] for k in range(layout.parts)]
    if layout.parts > 1 and word == "vcadd" and "f" in elem:
        low.notes.append((op, "adds lanes of several parts: floats in another order"))
    while len(parts) > 1:
        parts = [
            [low.out.one(COMBINE[word], [a, b, every], type_) for a, b in zip(x, y, strict=True)]
            for x, y in zip(parts[::2], parts[1::2], strict=True)
        ]
    target = of_results(groups, size, bits)
    low.define(result, target, low.views(parts[0], names.elem_of(result)))


def _layout_for(low: Lowering, source: Value, size: int) -> LaneLayout:
    """The layout in which a block holds lanes of one group only."""
    bits, block = names.bits_of(source), names.block_lanes(names.bits_of(source))
    here = canonical(low.held(source).layout, names.lanes_of(source))
    if size < block:
        return strided(block // size)
    if size == block:
        return CONTIGUOUS
    factor = size // block
    if here.number == factor and here.kind == "block_deinterleaved" and bits:
        return here
    return deinterleaved(factor)


def _reduced(
    op: Operation, low: Lowering, registers: list[Register], masks: list[Register], elem: str
) -> tuple[list[Register], str]:
    """Lane 0 of each register: its reduction. Sums of narrow integers are wider."""
    word, to = names.word(op), elem
    if word == "vcadd" and "i" in elem and bits_of(elem) < 32:
        to = f"{elem.rstrip('0123456789')}{2 * bits_of(elem)}"
    type_ = vector_type(to)
    return [low.out.one(word, [r, m], type_) for r, m in zip(registers, masks, strict=True)], to


def _of_registers(op: Operation, low: Lowering, groups: int, size: int) -> None:
    """Each register is reduced, then the registers of each group are combined."""
    source, result = names.vector(op, "src"), names.result(op)
    elem = unsigned(names.elem_of(source))
    bits, lanes = bits_of(elem), names.lanes_of(source)
    registers = low.views(low.at(source, CONTIGUOUS), elem)
    masks = exact(low.out, low.mask(op), lanes, CONTIGUOUS, bits)
    found, to = _reduced(op, low, registers, masks, elem)
    each = size // register_lanes(bits)
    made = [_chain(op, low, found[g * each : (g + 1) * each], to) for g in range(groups)]
    low.define(result, grouped(groups, 1), low.views(made, names.elem_of(result)))


def _chain(op: Operation, low: Lowering, values: list[Register], elem: str) -> Register:
    """The first, then each next one combined with what there is."""
    every, total = low.out.every(bits_of(elem)), values[0]
    for value in values[1:]:
        total = low.out.one(COMBINE[names.word(op)], [value, total, every], vector_type(elem))
    return total


def _whole(op: Operation, low: Lowering) -> None:
    source, result, word = names.vector(op, "src"), names.result(op), names.word(op)
    elem = unsigned(names.elem_of(source))
    bits, lanes = bits_of(elem), names.lanes_of(source)
    mask = low.mask(op)
    registers = low.views(low.at(source, CONTIGUOUS), elem)
    if (
        is_full(mask)
        and lanes % register_lanes(bits) == 0
        and (word != "vcadd" or "f" in elem or bits == 32)
    ):
        total, every = registers[0], low.out.every(bits)
        for value in registers[1:]:
            total = low.out.one(COMBINE[word], [total, value, every], vector_type(elem))
        found, to = _reduced(op, low, [total], [every], elem)
    else:
        masks = exact(low.out, mask, lanes, CONTIGUOUS, bits)
        found, to = _reduced(op, low, registers, masks, elem)
        found = [_chain(op, low, found, to)]
    low.define(result, CONTIGUOUS, low.views(found, names.elem_of(result)))


# -- back to the lanes -----------------------------------------------------------------------------


@lowers("vbrc")
def broadcast(op: Operation, low: Lowering) -> None:
    """dst = a number, or the result of its group, in every lane."""
    result = names.result(op)
    source = names.value_of(op, "src")
    elem = names.elem_of(result)
    if not names.is_vector(source):
        spread = low.as_lanes(low.number(op, "src"), elem)
        low.define(result, CONTIGUOUS, [spread], uniform=True)
        return
    assert source is not None
    held = low.held(source)
    if held.uniform:
        low.define(result, CONTIGUOUS, held.registers, uniform=True)
    elif held.lanes == 1:
        items = [held.registers[0], low.out.every(bits_of(elem)), {"position": '"LOWEST"'}]
        one = low.out.one("vdup", items, vector_type(elem))
        low.define(result, CONTIGUOUS, [one], uniform=True)
    else:
        spread_results(low, held, result, names.lanes_of(result) // held.lanes)


def spread_results(low: Lowering, held: Held, result: Value, size: int) -> None:
    """Define a vector whose groups of `size` lanes each hold one result."""
    bits, lanes, elem = held.bits, names.lanes_of(result), names.elem_of(result)
    width = register_lanes(bits)
    layout = low.layout(result)
    if layout.stride > 1 and width % (size * layout.stride):
        layout = CONTIGUOUS
    number = layout.registers(lanes, bits)
    # Lanes of a part that belong to one group, the distance between lanes included.
    run = size * layout.stride // layout.parts if size % layout.parts == 0 else 0
    source = canonical(held.layout, held.lanes)
    slots = source.slots if source.kind == "num_groups" else width
    if source.stride != 1 or (source.kind != "num_groups" and source != CONTIGUOUS):
        source, slots = CONTIGUOUS, width
    if slots == 1 and run and run % width:
        source, slots = CONTIGUOUS, width
    registers = in_layout(low.out, held, source)
    if not run or (run % width and (width % run or width // run > slots)):
        raise refuse("cannot materialize requested VMI operand layout: results of groups")
    made = []
    per_part = number // layout.parts
    for at in range(number):
        first = at % per_part * width // run  # the first group of the register
        where, lane = divmod(first, slots)
        index = _group_index(low, bits, run, lane, width)
        made.append(low.out.one("vselr", [registers[where], index], vector_type(elem)))
    low.define(result, layout, made)


def _group_index(low: Lowering, bits: int, run: int, first: int, width: int) -> Register:
    """A register whose lane i is first + i / run: which result each lane takes."""
    plain, every = f"i{bits}", low.out.every(bits)
    if run >= width:
        return low.out.everywhere(first, f"ui{bits}")
    key = ("group index", bits, run, first)
    if key in low.out.local:
        return low.out.local[key]
    base = ("group index", bits, run, 0)
    if base not in low.out.local:
        shift = low.out.constant(run.bit_length() - 1, "i16")
        if run & (run - 1):
            raise refuse("no row for this group size")
        type_ = vector_type(f"ui{bits}")
        ramp = ramp_from(low.out, f"ui{bits}", 0)
        low.out.local[base] = low.out.one("vshrs", [ramp, shift, every], type_)
    if first:
        start = low.out.view(low.out.local[base], plain)
        moved = low.out.one("vadds", [start, low.out.constant(first, plain), every],
                            vector_type(plain))  # fmt: skip
        low.out.local[key] = low.out.view(moved, f"ui{bits}")
    return low.out.local[key]
