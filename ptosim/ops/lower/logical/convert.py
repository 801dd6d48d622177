"""Conversions, and the bits of a vector as other lanes."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.lane_layout import CONTIGUOUS, LaneLayout, deinterleaved, strided
from ptosim.ground.isa.conversions import lane_conversion
from ptosim.ground.isa.dtypes import dtype
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, refuse, unsigned, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.values import counts

PARTS = {1: ("",), 2: ("EVEN", "ODD"), 4: ("P0", "P1", "P2", "P3")}
Part = Callable[[str, LaneLayout, slice], list[Register]]
"""From the word of a part, the layout of the source and which of its registers to the converted
ones."""
ALL = slice(None)


@lowers("vcvt")
def convert(op: Operation, low: Lowering) -> None:
    """dst = src in another element type."""
    source, result = names.vector(op, "src"), names.result(op)
    src, dst = _lanes(names.elem_of(source), op), _lanes(names.elem_of(result), op)
    if lane_conversion(dtype(src), dtype(dst)) is None and _keeps_low_bits(op, src, dst):
        # The low bits of a number are those of its view without a sign.
        src, dst = f"ui{bits_of(src)}", f"ui{bits_of(dst)}"
    made = _instruction(op, low, src, dst)
    a, b = names.bits_of(source), names.bits_of(result)

    def part(word: str, layout: LaneLayout, which: slice) -> list[Register]:
        return [made(r, word) for r in low.at(source, layout)[which]]

    if a == b:
        layout = low.layout(result)
        registers = [made(r, "") for r in low.at(source, layout)]
        low.define(result, layout, low.views(registers, names.elem_of(result)))
    elif b > a:
        widened(low, source, result, b // a, part, low.layout(source))
    else:
        narrowed(low, source, result, a // b, part)


def _keeps_low_bits(op: Operation, src: str, dst: str) -> bool:
    integers = dtype(src).is_integer and dtype(dst).is_integer
    narrows = bits_of(dst) < bits_of(src)
    return integers and narrows and names.attribute(op, "saturate") == "NOSAT"


def _lanes(elem: str, op: Operation) -> str:
    return "bf16" if elem.endswith("bf16x2") else unsigned(elem)


def _instruction(
    op: Operation, low: Lowering, src: str, dst: str
) -> Callable[[Register, str], Register]:
    """Return what converts one register, with the rounding and saturation that the pair takes."""
    pair = lane_conversion(dtype(src), dtype(dst))
    if pair is None:
        raise refuse(f"the vector unit has no conversion from {src} to {dst}")
    rounding = names.attribute(op, "rounding") or ("A" if "hif8" in dst else "R")
    saturate = names.attribute(op, "saturate") or "SAT"
    if pair.rnd and rounding not in pair.rnd:
        raise refuse(f"the vector unit does not round {src} to {dst} by {rounding}")
    every = low.out.every(bits_of(src))

    def one(value: Register, word: str) -> Register:
        words = [
            *([f'rnd = "{rounding}"'] if pair.rnd else []),
            *([f'sat = "{saturate}"'] if pair.sat else []),
            *([f'part = "{word}"'] if word else []),
        ]
        text = f" {{{', '.join(words)}}}" if words else ""
        return low.out.one("vcvt", [low.out.view(value, src), every], vector_type(dst), text)

    return one


def widened(
    low: Lowering, source: Value, result: Value, ratio: int, part: Part, layout: LaneLayout
) -> None:
    """Define the result of a conversion to lanes `ratio` times as wide."""
    lanes, wanted = names.lanes_of(result), low.layout(result)
    bits = names.bits_of(result)
    if layout.kind == "num_groups" and (layout.slots == 1 or layout.stride == ratio):
        target = LaneLayout("num_groups", layout.number, slots=layout.slots)
        _give(low, result, target, part(PARTS[ratio][0], layout, ALL))
        return
    if layout.kind == "num_groups":
        layout = CONTIGUOUS
    if lanes == 1:
        _give(low, result, CONTIGUOUS, part(PARTS[ratio][0], CONTIGUOUS, ALL))
        return
    stride = layout.stride if layout.kind == "contiguous" else 0
    if wanted.is_contiguous and CONTIGUOUS.registers(lanes, bits) == 1:
        stride = ratio
    if not stride or ratio % stride:
        stride = 1
    target = deinterleaved(ratio // stride)
    sizes = counts(target, lanes, bits)
    made: list[Register] = []
    for number, word in enumerate(PARTS[ratio][::stride]):
        made += part(word, strided(stride), slice(sizes[number]))
    _give(low, result, target, made)


def narrowed(low: Lowering, source: Value, result: Value, ratio: int, part: Part) -> None:
    """Define the result of a conversion to lanes of a fraction of the width."""
    lanes, layout = names.lanes_of(result), low.layout(source)
    bits = names.bits_of(source)
    if layout.kind == "num_groups" and (layout.slots == 1 or layout.stride == 1):
        stride = 1 if layout.slots == 1 else ratio
        target = LaneLayout("num_groups", layout.number, stride, layout.slots)
        _give(low, result, target, part(PARTS[ratio][0], layout, ALL))
        return
    if layout.kind != "deinterleaved" or layout.number not in (1, ratio, ratio // 2):
        wanted = low.layout(result)
        layout = (
            deinterleaved(ratio // wanted.stride) if wanted.kind == "contiguous" else CONTIGUOUS
        )
    if lanes == 1:
        layout = CONTIGUOUS
    stride = ratio // layout.parts
    sizes = counts(layout, lanes, bits)
    every = low.out.every(names.bits_of(result))
    made: list[Register] = []
    for number in range(layout.parts):
        word = PARTS[ratio][number * stride]
        start = sum(sizes[:number])
        found = part(word, layout, slice(start, start + sizes[number]))
        type_ = found[0].type if found else ""
        made = [
            low.out.one("vor", [made[i], r, every], type_) if i < len(made) else r
            for i, r in enumerate(found)
        ] + made[len(found) :]
    _give(low, result, strided(stride), made)


def _give(low: Lowering, result: Value, layout: LaneLayout, registers: list[Register]) -> None:
    low.define(result, layout, low.views(registers, names.elem_of(result)))


@lowers("vinterpret_cast")
def interpret(op: Operation, low: Lowering) -> None:
    """The same bits as lanes of another type: no instruction."""
    source, result = names.vector(op, "src"), names.result(op)
    layout = low.layout(source)
    if names.bits_of(source) != names.bits_of(result):
        layout = CONTIGUOUS
    low.define(result, layout, low.views(low.at(source, layout), names.elem_of(result)))
