"""Lanes in another order, histograms."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import CONTIGUOUS, deinterleaved, register_lanes
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import refuse, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import exact
from ptosim.ops.lower.logical.values import Held, in_layout, pair


def _size(op: Operation) -> tuple[int, int, int, str]:
    """Lanes, registers, lanes of a register and element type of what is rearranged."""
    value = names.vector(op, "lhs", "src")
    lanes, bits = names.lanes_of(value), names.bits_of(value)
    return lanes, CONTIGUOUS.registers(lanes, bits), register_lanes(bits), names.elem_of(value)


@lowers("vintlv", "vdintlv")
def interleave(op: Operation, low: Lowering) -> None:
    """The lanes of two vectors in turn, or back. Of several registers that is a layout."""
    lanes, registers, width, elem = _size(op)
    if lanes % width or registers not in (1, 2, 4):
        raise refuse("interleave of one register, or of 2 or 4 registers per operand")
    a, b = (names.vector(op, n) for n in ("lhs", "rhs"))
    first, second = names.result(op, "low"), names.result(op, "high")
    if registers == 1:
        x, y = low.at(a, CONTIGUOUS)[0], low.at(b, CONTIGUOUS)[0]
        made = pair(low.out, names.word(op), x, y, vector_type(elem))
        low.define(first, CONTIGUOUS, [made[0]])
        low.define(second, CONTIGUOUS, [made[1]])
        return
    half = registers // 2
    if names.word(op) == "vintlv":
        one, two = low.at(a, CONTIGUOUS), low.at(b, CONTIGUOUS)
        low.define(first, deinterleaved(2), one[:half] + two[:half])
        low.define(second, deinterleaved(2), one[half:] + two[half:])
        return
    one, two = low.at(a, deinterleaved(2)), low.at(b, deinterleaved(2))
    low.define(first, CONTIGUOUS, one[:half] + two[:half])
    low.define(second, CONTIGUOUS, one[half:] + two[half:])


@lowers("vselr")
def pick(op: Operation, low: Lowering) -> None:
    """Lane i = the lane of src that the index names."""
    lanes, _, _, elem = _size(op)
    if lanes not in {8: (64, 128, 256), 16: (64, 128), 32: (64,)}[2048 // _size(op)[2]]:
        raise refuse("vselr supports only 64, 128, 256 lanes of 8, 64, 128 of 16, 64 of 32 bits")
    if lanes != _size(op)[2]:
        raise refuse("vselr supports only full registers here: indices beyond the lanes differ")
    source = low.at(names.vector(op, "src"), CONTIGUOUS)[0]
    index = low.at(names.vector(op, "indices"), CONTIGUOUS)[0]
    made = low.out.one("vselr", [source, index], vector_type(elem))
    low.define(names.result(op), CONTIGUOUS, [made])


@lowers("compress", "active_prefix_index")
def squeeze(op: Operation, low: Lowering) -> None:
    """The active lanes in front, or how many are before each lane."""
    result = names.result(op)
    lanes, bits, elem = names.lanes_of(result), names.bits_of(result), names.elem_of(result)
    if lanes != register_lanes(bits):
        raise refuse("multi-chunk, or padding mask lanes: exactly one full register")
    mask = exact(low.out, low.mask(op), lanes, CONTIGUOUS, bits)[0]
    if names.word(op) == "compress":
        source = low.at(names.vector(op, "src"), CONTIGUOUS)[0]
        made = low.out.one("vsqz", [source, mask], vector_type(elem))
    else:
        signed = f"si{bits}"
        source = low.out.view(low.out.everywhere(0, f"i{bits}"), signed)
        made = low.out.one("vusqz", [source, mask], vector_type(signed))
    low.define(result, CONTIGUOUS, [low.out.view(made, elem)])


@lowers("vdhist", "vchist")
def histogram(op: Operation, low: Lowering) -> None:
    """acc and how often each byte is among the active lanes, or a byte at most as large."""
    source, result = names.vector(op, "src"), names.result(op)
    lanes = names.lanes_of(source)
    acc = low.views(low.at(names.vector(op, "acc"), CONTIGUOUS), "ui16")
    registers = low.views(low.at(source, CONTIGUOUS), "ui8")
    masks = exact(low.out, low.mask(op), lanes, CONTIGUOUS, 8)
    name = {"vdhist": "dhistv2", "vchist": "chistv2"}[names.word(op)]
    made = []
    for half, total in enumerate(acc):
        bins = low.out.constant(half, "i32")
        for register, mask in zip(registers, masks, strict=True):
            total = low.out.one(name, [total, register, mask, bins], vector_type("ui16"))
        made.append(total)
    low.define(result, CONTIGUOUS, low.views(made, names.elem_of(result)))


@lowers("channel_split")
def split_channels(op: Operation, low: Lowering) -> None:
    """Every second or fourth lane: the parts of a deinterleaved vector."""
    source = names.vector(op, "src")
    number = len(op.results)
    lanes, bits = names.lanes_of(source), names.bits_of(source)
    if number not in (2, 4) or lanes % (number * register_lanes(bits)):
        raise refuse("only 2 or 4 channels, of full registers")
    registers = low.at(source, deinterleaved(number))
    each = len(registers) // number
    for channel, value in enumerate(op.results):
        low.define(value, CONTIGUOUS, registers[channel * each : (channel + 1) * each])


@lowers("channel_merge")
def merge_channels(op: Operation, low: Lowering) -> None:
    """The lanes of two or four vectors in turn."""
    result = names.result(op)
    sources = [v for v in op.operand_values() if names.is_vector(v)]
    lanes = names.lanes_of(sources[0])
    if len(sources) not in (2, 4) or lanes % register_lanes(names.bits_of(result)):
        raise refuse("only 2 or 4 channels, of full registers")
    registers = [r for v in sources for r in low.at(v, CONTIGUOUS)]
    layout = deinterleaved(len(sources))
    held = Held(names.elem_of(result), names.lanes_of(result), layout, registers)
    wanted = low.layout(result)
    low.define(result, wanted, in_layout(low.out, held, wanted))
