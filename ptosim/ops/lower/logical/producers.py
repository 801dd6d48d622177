"""Vectors and masks from nothing or from numbers."""

from __future__ import annotations

from ptosim.ground.ir.attributes import Dense, attr_value
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import CONTIGUOUS, register_lanes
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, plain_type, refuse, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import First, Listed
from ptosim.ops.lower.logical.physical import Register


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
