"""Loads and stores of groups: rows at a distance, and single elements at a distance."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import CONTIGUOUS, LaneLayout, grouped, register_lanes
from ptosim.language.build import Words
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import At, Emitter, bits_of, refuse, vector_type
from ptosim.ops.lower.logical.groups import spread_results
from ptosim.ops.lower.logical.lowering import Lowering
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.values import Held, canonical, counts, in_layout, interleaved, pair

# Places in UB, and what is loaded from them and stored to them, in each layout.

UNPACK = {(8, 2): "UNPK_B8", (16, 2): "UNPK_B16", (8, 4): "UNPK4"}
"""Distributions of loads that leave lanes between elements, by width and distance."""


PACK = {(8, 2): "PK_B16", (16, 2): "PK_B32", (8, 4): "PK4_B32"}
"""Distributions of stores that leave those lanes out."""


class Place:
    """A pointer, an offset in elements, and the element type."""

    def __init__(self, op: Operation, low: Lowering) -> None:
        self.out: Emitter = low.out
        self.elem = names.pointer_elem(op)
        self.pointer = low.number(op, "base")
        if "memref" in self.pointer.type:
            to = f"!pto.ptr<{self.elem}, ub>"
            cast = "builtin.unrealized_conversion_cast"
            self.pointer = low.out.scalar(cast, (self.pointer,), self.pointer.type, to)
        self.offset = low.number(op, "offset")

    def at(self, more: int | Register) -> Register:
        """Return an offset further on."""
        return self.out.plus(self.offset, more)

    def moved(self, more: int | Register = 0) -> Register:
        """Return the pointer moved by the offset."""
        return self.out.moved(self.pointer, self.at(more))

    def load(self, more: int | Register, dist: str = "") -> Register:
        """Load a register."""
        return self.out.one("vlds", [self._place(more), *_dist(dist)], vector_type(self.elem))

    def load_pair(self, more: int) -> list[Register]:
        """Load the even and the odd elements of two registers."""
        items = [self._place(more), f'"DINTLV_B{bits_of(self.elem)}"']
        return self.out.emit("vldsx2", items, [vector_type(self.elem)] * 2)

    def store(self, value: Register, more: int | Register, mask: Register, dist: str = "") -> None:
        """Store the active lanes of a register."""
        self.out.emit("vsts", [value, self._place(more), mask, *_dist(dist)])

    def store_pair(self, low: Register, high: Register, more: int) -> None:
        """Store the elements of two registers in turn."""
        bits = bits_of(self.elem)
        mask = self.out.every(bits)
        self.out.emit("vstsx2", [low, high, self._place(more), f'"INTLV_B{bits}"', mask])

    def load_blocks(self, more: int, step: Register, first: Register, mask: Register) -> Register:
        """Load eight blocks, `step` blocks from each other."""
        return self.out.one("vsldb", [self.moved(more), step, first, mask], vector_type(self.elem))

    def store_blocks(
        self, value: Register, more: int, step: Register, first: Register, mask: Register
    ) -> None:
        """Store eight blocks, `step` blocks from each other."""
        self.out.emit("vsstb", [value, self.moved(more), step, first, mask])

    def _place(self, more: int | Register) -> At:
        return At(self.pointer, self.at(more))


def _dist(word: str) -> list[Words]:
    return [{"dist": f'"{word}"'}] if word else []


def loaded(
    low: Lowering, place: Place, layout: LaneLayout, lanes: int
) -> tuple[LaneLayout, list[Register]]:
    """Return consecutive elements, in a layout as near to the one that is asked for as loads
    give, and that layout."""
    bits = bits_of(place.elem)
    size = register_lanes(bits)
    layout = canonical(layout, lanes)
    if (
        layout.kind == "deinterleaved"
        and lanes % (2 * size) == 0
        and lanes % (layout.number * size) == 0
    ):
        return _deinterleaved(place, layout, lanes, size)
    if layout.kind == "contiguous" and (bits, layout.stride) in UNPACK:
        word, each = UNPACK[bits, layout.stride], size // layout.stride
        number = layout.registers(lanes, bits)
        return layout, [place.load(k * each, word) for k in range(number)]
    if layout.kind == "num_groups" and layout.slots == 1:
        return layout, [place.load(g, f"BRC_B{bits}") for g in range(lanes)]
    if layout.kind == "num_groups" and layout.stride == 1:
        number = layout.registers(lanes, bits)
        return layout, [place.load(k * layout.slots) for k in range(number)]
    if layout.kind == "block_deinterleaved" and lanes % (layout.number * size) == 0:
        return layout, _block_by_block(low, place, layout, lanes)
    return CONTIGUOUS, [place.load(k * size) for k in range(CONTIGUOUS.registers(lanes, bits))]


def _deinterleaved(
    place: Place, layout: LaneLayout, lanes: int, size: int
) -> tuple[LaneLayout, list[Register]]:
    pairs = [place.load_pair(at) for at in range(0, lanes, 2 * size)]
    even, odd = [p[0] for p in pairs], [p[1] for p in pairs]
    if layout.number == 2:
        return layout, even + odd
    type_ = vector_type(place.elem)
    quarters: list[list[Register]] = [[], [], [], []]
    for which, half in enumerate((even, odd)):
        for at in range(0, len(half), 2):
            first, second = pair(place.out, "vdintlv", half[at], half[at + 1], type_)
            quarters[which].append(first)
            quarters[which + 2].append(second)
    return layout, [r for quarter in quarters for r in quarter]


def _block_by_block(low: Lowering, place: Place, layout: LaneLayout, lanes: int) -> list[Register]:
    bits = bits_of(place.elem)
    size = register_lanes(bits)
    step, first = low.out.constant(layout.number, "i16"), low.out.constant(0, "i16")
    return [
        place.load_blocks(
            k * size * layout.number + part * (size // 8), step, first, low.out.every(32)
        )
        for part, number in enumerate(counts(layout, lanes, bits))
        for k in range(number)
    ]


def stored_as_it_is(low: Lowering, place: Place, value: Held) -> bool:
    """Store a vector whose layout a store can undo; False if there is no such store."""
    layout, bits, lanes = canonical(value.layout, value.lanes), value.bits, value.lanes
    size = register_lanes(bits)
    is_whole = lanes % (layout.parts * size) == 0
    if value.uniform:
        return False
    if layout.kind == "deinterleaved" and layout.stride == 1 and is_whole:
        _store_pairs(low, place, value, layout.number)
    elif layout.kind == "block_deinterleaved" and is_whole:
        _store_block_by_block(low, place, layout, value.registers, size)
    elif layout.kind == "contiguous" and (bits, layout.stride) in PACK:
        wide, each = bits * layout.stride, size // layout.stride
        for number, register in enumerate(value.registers):
            mask = low.out.first(min(lanes - number * each, each), wide)
            place.store(register, number * each, mask, PACK[bits, layout.stride])
    elif layout.kind == "num_groups" and layout.slots == 1:
        for group, register in enumerate(value.registers):
            place.store(register, group, low.out.every(bits), f"1PT_B{bits}")
    elif layout.kind == "num_groups" and (layout.stride == 1 or (bits, layout.stride) in PACK):
        word = "" if layout.stride == 1 else PACK[bits, layout.stride]
        for number, register in enumerate(value.registers):
            at = number * layout.slots
            mask = low.out.first(min(lanes - at, layout.slots), bits * layout.stride)
            place.store(register, at, mask, word)
    else:
        return False
    return True


def _store_pairs(low: Lowering, place: Place, value: Held, number: int) -> None:
    """Parts in turn: two by a store, four first to two."""
    step = len(value.registers) // number
    parts = [value.registers[k * step : (k + 1) * step] for k in range(number)]
    if number == 4:
        type_ = vector_type(value.elem)
        parts = [
            interleaved(low.out, "vintlv", parts[k], parts[k + 2], type_, 2 * step)
            for k in range(2)
        ]
    for at, (a, b) in enumerate(zip(parts[0], parts[1], strict=True)):
        place.store_pair(a, b, 2 * at * register_lanes(value.bits))


def _store_block_by_block(
    low: Lowering, place: Place, layout: LaneLayout, registers: Sequence[Register], size: int
) -> None:
    step, first = low.out.constant(layout.number, "i16"), low.out.constant(0, "i16")
    per_part = len(registers) // layout.number
    for number, register in enumerate(registers):
        part, k = divmod(number, per_part)
        at = k * size * layout.number + part * (size // 8)
        place.store_blocks(register, at, step, first, low.out.every(32))


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
