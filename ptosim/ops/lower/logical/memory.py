"""Loads and stores between UB and the registers of a vector."""

from __future__ import annotations

from ptosim.ground.ir.attributes import Dense, attr_value
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import CONTIGUOUS, register_lanes
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, plain_type, refuse, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import First, Listed, exact, is_full, predicates
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.rows import Place, load_rows, loaded, store_rows, stored_as_it_is
from ptosim.ops.lower.logical.values import Held, in_layout

# -- loads -----------------------------------------------------------------------------------------


@lowers("vload")
def load(op: Operation, low: Lowering) -> None:
    """dst = elements from memory on, in the layout that the vector is to have."""
    mode = names.attribute(op, "dist_mode")
    if mode == "unpack":
        raise refuse('VMI-RESIDUAL-OP: dist_mode "unpack"')
    place = Place(op, low)
    result = names.result(op)
    if len(op.results) == 2:
        return _load_both(op, low, place)
    if names.operand(op, "block_stride") is not None:
        return _load_block_form(op, low, place)
    groups = names.group_count(op)
    if groups is not None:
        return load_rows(op, low, place, groups, mode == "brc")
    if mode == "brc":
        one = place.load(0, f"BRC_B{bits_of(place.elem)}")
        low.define(result, CONTIGUOUS, low.views([one], names.elem_of(result)), uniform=True)
        return None
    layout = low.layout(result)
    low.define(result, *loaded(low, place, layout, names.lanes_of(result)))
    return None


def _load_both(op: Operation, low: Lowering, place: Place) -> None:
    """The even elements in one vector, the odd ones in the other."""
    first, second = op.results
    lanes, size = names.lanes_of(first), register_lanes(bits_of(place.elem))
    if lanes % size:
        raise refuse("vldsx2 takes full registers")
    pairs = [place.load_pair(2 * at) for at in range(0, lanes, size)]
    low.define(first, CONTIGUOUS, [p[0] for p in pairs])
    low.define(second, CONTIGUOUS, [p[1] for p in pairs])


def _load_block_form(op: Operation, low: Lowering, place: Place) -> None:
    result = names.result(op)
    if CONTIGUOUS.registers(names.lanes_of(result), names.bits_of(result)) > 1:
        raise refuse("block forms are of one contiguous physical register")
    lanes = names.lanes_of(result)
    steps = low.number(op, "block_stride"), low.number(op, "repeat_stride")
    mask = predicates(low.out, First(lanes, lanes), lanes, CONTIGUOUS, bits_of(place.elem))[0]
    low.define(result, CONTIGUOUS, [place.load_blocks(0, *steps, mask)])


# -- stores ----------------------------------------------------------------------------------------


@lowers("vstore")
def store(op: Operation, low: Lowering) -> None:
    """Write the active lanes of a vector."""
    place = Place(op, low)
    groups = names.group_count(op)
    if groups is not None:
        return store_rows(op, low, place, groups)
    if names.value_of(op, "high") is not None:
        return _store_both(op, low, place)
    value = low.held(names.vector(op, "value", "low"))
    if names.operand(op, "block_stride") is not None:
        return _store_block_form(op, low, place)
    mask = low.mask(op)
    if is_full(mask) and stored_as_it_is(low, place, value):
        return None
    size, bits = register_lanes(value.bits), value.bits
    masks = exact(low.out, mask, value.lanes, CONTIGUOUS, bits)
    for number, register in enumerate(in_layout(low.out, value, CONTIGUOUS)):
        place.store(register, number * size, masks[number])
    return None


def _store_both(op: Operation, low: Lowering, place: Place) -> None:
    """The lanes of two vectors in turn; a mask is lost."""
    first, second = names.vector(op, "low", "value"), names.vector(op, "high")
    lanes, size = names.lanes_of(first), register_lanes(bits_of(place.elem))
    if lanes % size:
        raise refuse("vstsx2 takes full registers")
    both = zip(low.at(first, CONTIGUOUS), low.at(second, CONTIGUOUS), strict=True)
    for number, (a, b) in enumerate(both):
        place.store_pair(a, b, 2 * number * size)


@lowers("vsstb")
def store_blocks(op: Operation, low: Lowering) -> None:
    """Write a vector in blocks, without a repeat stride."""
    _store_block_form(op, low, Place(op, low))


def _store_block_form(op: Operation, low: Lowering, place: Place) -> None:
    value = low.held(names.vector(op, "value", "low"))
    if CONTIGUOUS.registers(value.lanes, value.bits) > 1:
        raise refuse("block forms are of one contiguous physical register")
    repeat = low.number(op, "repeat_stride") if names.operand(op, "repeat_stride") else None
    if not is_full(low.mask(op)):
        low.notes.append((op, "registers are stored by whole blocks: a mask that is not uniform in "
                          "a block writes other bytes"))  # fmt: skip
    mask = exact(low.out, low.mask(op), value.lanes, CONTIGUOUS, value.bits)[0]
    place.store_blocks(
        in_layout(low.out, value, CONTIGUOUS)[0], 0, low.number(op, "block_stride"),
        repeat or low.out.constant(0, "i16"), mask,
    )  # fmt: skip


# -- by indices ------------------------------------------------------------------------------------


@lowers("vgather")
def gather(op: Operation, low: Lowering) -> None:
    """dst = elements at indices; inactive lanes are 0, or what is passed through."""
    result, indices = names.result(op), names.vector(op, "indices")
    lanes, bits = names.lanes_of(result), names.bits_of(result)
    if bits != names.bits_of(indices) or lanes % register_lanes(bits):
        raise refuse(
            "gathers are of full registers with indices of the width of 32-bit result elements"
        )
    type_, pointer = vector_type(names.elem_of(result)), low.number(op, "base")
    masks = predicates(low.out, low.mask(op), lanes, CONTIGUOUS, bits)
    other = names.value_of(op, "passthru")
    zero = "0.000000e+00" if "f" in names.elem_of(result) else 0
    rest = (
        low.at(other, CONTIGUOUS)
        if other is not None
        else [low.out.everywhere(zero, names.elem_of(result))] * len(masks)
    )
    made = []
    for index, mask, kept in zip(low.at(indices, CONTIGUOUS), masks, rest, strict=True):
        one = low.out.one("vgather2", [pointer, index, mask], type_)
        made.append(low.out.one("vsel", [one, kept, mask], type_))
    low.define(result, CONTIGUOUS, made)


@lowers("vscatter")
def scatter(op: Operation, low: Lowering) -> None:
    """Write lanes to indices."""
    value, indices = low.held(names.vector(op, "value")), names.vector(op, "indices")
    if value.bits != names.bits_of(indices) or value.lanes % register_lanes(value.bits):
        raise refuse("scatters are of full registers with 32-bit result elements")
    masks = predicates(low.out, low.mask(op), value.lanes, CONTIGUOUS, value.bits)
    index = low.at(indices, CONTIGUOUS)
    pointer = low.number(op, "base")
    for a, i, m in zip(in_layout(low.out, value, CONTIGUOUS), index, masks, strict=True):
        low.out.emit("vscatter", [a, pointer, i, m])


@lowers("masked_load")
def masked_load(op: Operation, low: Lowering) -> None:
    """dst = memory where the mask is set, else what is passed through."""
    result = names.result(op)
    lanes, bits = names.lanes_of(result), names.bits_of(result)
    if lanes % register_lanes(bits):
        raise refuse("VGATHER-based lowering of loads that may read outside")
    layout, registers = loaded(low, Place(op, low), low.layout(result), lanes)
    held = Held(names.elem_of(result), lanes, layout, registers)
    layout = low.layout(result)
    masks = predicates(low.out, low.mask(op), lanes, layout, bits)
    rest = low.at(names.vector(op, "passthru"), layout)
    made = [
        low.out.one("vsel", [a, b, m], a.type)
        for a, b, m in zip(in_layout(low.out, held, layout), rest, masks, strict=True)
    ]
    low.define(result, layout, made)


# Vectors and masks from nothing or from numbers.


@lowers("create_mask")
def first_lanes(op: Operation, low: Lowering) -> None:
    """dst = the first lanes."""
    low.known[names.result(op)] = _first(op, low, names.lanes_of(names.result(op)), 0)


@lowers("create_group_mask")
def first_of_groups(op: Operation, low: Lowering) -> None:
    """dst = the first lanes of each group."""
    size = int(names.attribute(op, "group_size"))  # the row requires it
    low.known[names.result(op)] = _first(op, low, size, size)


def _first(op: Operation, low: Lowering, limit: int, size: int) -> First:
    lanes = names.lanes_of(names.result(op))
    known = names.constant(names.operand(op, "count"))
    if known is not None:
        return First(lanes, min(max(known, 0), limit), size if size < lanes else 0)
    out, count = low.out, low.number(op, "count")
    least = out.scalar("arith.maxsi", (count, out.constant(0)), "index")
    most = out.scalar("arith.minsi", (least, out.constant(limit)), "index")
    return First(lanes, most, size if size < lanes else 0)


@lowers("pset", "pge")
def pattern(op: Operation, low: Lowering) -> None:
    """dst = every lane, or the first ones of each group."""
    result = names.result(op)
    lanes = names.lanes_of(result)
    size = lanes // (names.group_count(op) or 1)
    found = names.operand(op, "pattern")
    text = str(op.bound.get("pattern") if found is None else found.const).strip('"')
    count = int(text.removeprefix("PAT_VL")) if "VL" in text else size
    low.known[result] = First(lanes, min(count, size), size if size < lanes else 0)


@lowers("plt")
def counted(op: Operation, low: Lowering) -> None:
    """dst = the first lanes; remaining = the count that they leave."""
    mask, rest = names.result(op), names.result(op, "remaining")
    lanes, out = names.lanes_of(mask), low.out
    count = low.number(op, "count")
    taken = out.scalar("arith.minsi", (count, out.constant(lanes, "i32")), "i32")
    left = out.scalar("arith.subi", (count, taken), "i32")
    least = out.scalar("arith.maxsi", (taken, out.constant(0, "i32")), "i32")
    low.known[mask] = First(lanes, out.scalar("arith.index_cast", (least,), "i32", "index"))
    low.known[rest] = left


@lowers("constant_mask")
def listed(op: Operation, low: Lowering) -> None:
    """dst = the lanes that the text lists."""
    result = names.result(op)
    lanes = names.lanes_of(result)
    bits = tuple(str(word).lower() in ("true", "1") for word in _literals(op, lanes, 1))
    count = sum(bits)
    if all(bits[:count]):
        low.known[result] = First(lanes, count)
    else:
        low.known[result] = Listed(lanes, bits)


@lowers("constant")
def splat(op: Operation, low: Lowering) -> None:
    """dst = one number in every lane."""
    result = names.result(op)
    elem = names.elem_of(result)
    literals = _literals(op, names.lanes_of(result), bits_of(elem))
    if len({str(word) for word in literals}) != 1:
        raise refuse("VMI-UNSUPPORTED: non-splat constant")
    number = low.out.constant(literals[0], plain_type(elem))
    spread = low.as_lanes(number, elem)
    low.define(result, CONTIGUOUS, [spread], uniform=True)


def _literals(op: Operation, lanes: int, bits: int) -> list[str]:
    value = attr_value(op.attrs["value"])
    if not isinstance(value, Dense):
        raise refuse("a constant without dense elements")
    found = value.of(value.dims or (lanes,), bits)
    if not found or len(found) not in (1, lanes):
        raise refuse("a constant with another number of elements")
    return [tok.value for tok in (found * lanes if len(found) == 1 else found)]


@lowers("vci")
def ramp(op: Operation, low: Lowering) -> None:
    """dst = base, base + 1 … in each group, downwards with DESC."""
    result = names.result(op)
    elem, lanes = names.elem_of(result), names.lanes_of(result)
    bits, down = bits_of(elem), names.attribute(op, "order") == "DESC"
    width = register_lanes(bits)
    size = lanes // (names.group_count(op) or 1)
    base = low.number(op, "base")
    if size < lanes and size < width:
        made = [_short(low, base, elem, size, down)] * CONTIGUOUS.registers(lanes, bits)
        low.define(result, CONTIGUOUS, made)
        return
    words = [{"order": '"DESC"'}] if down else []
    registers: list[Register] = []
    for at in range(0, lanes, width):
        number = _plus(low, base, -(at % size) if down else at % size)
        plain = number.type
        made_one = low.out.one("vci", [number, *words], vector_type(plain))
        registers.append(low.out.view(made_one, elem))
    low.define(result, CONTIGUOUS, registers)


def _plus(low: Lowering, base: Register, by: int) -> Register:
    if not by:
        return base
    if base.type in ("f16", "f32"):
        other = low.out.constant(f"{by}.0", base.type)
        return low.out.scalar("arith.addf", (base, other), base.type)
    return low.out.plus(base, by)


def _short(low: Lowering, base: Register, elem: str, size: int, down: bool) -> Register:
    """A ramp that begins anew in the register."""
    bits = bits_of(elem)
    plain = f"i{bits}"
    if elem in ("f16", "f32") or size & (size - 1):
        raise refuse("no row for this group size")
    every, type_ = low.out.every(bits), vector_type(plain)
    inside = low.out.one("vand", [low.out.ramp(plain), low.out.everywhere(size - 1, plain), every],
                         type_)  # fmt: skip
    start = low.out.view(low.as_lanes(base, elem), plain)
    made = low.out.one("vsub" if down else "vadd", [start, inside, every], type_)
    return low.out.view(made, elem)
