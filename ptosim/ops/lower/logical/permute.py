"""Lanes in another order, histograms."""

from __future__ import annotations

from itertools import pairwise

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.lane_layout import CONTIGUOUS, deinterleaved, register_lanes
from ptosim.ops.lower.logical import names
from ptosim.ops.lower.logical.emitter import bits_of, refuse, vector_type
from ptosim.ops.lower.logical.lowering import Lowering, lowers
from ptosim.ops.lower.logical.masks import exact
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.rows import Place
from ptosim.ops.lower.logical.values import Held, in_layout, pair, ramp_from
from ptosim.ops.vmi.elementwise import indices_of


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
    source = low.at(names.vector(op, "src"), CONTIGUOUS)[0]
    if lanes != _size(op)[2]:  # an index may name what the register has after the lanes
        zero = low.out.everywhere("0.000000e+00" if "f" in elem else 0, elem)
        inside = low.out.first(lanes, names.bits_of(names.vector(op, "src")))
        source = low.out.one("vsel", [source, zero, inside], vector_type(elem))
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
        made = _active_before(low, mask, bits)
    low.define(result, CONTIGUOUS, [low.out.view(made, elem)])


def _active_before(low: Lowering, mask: Register, bits: int) -> Register:
    signed = f"si{bits}"
    source = low.out.view(low.out.everywhere(0, f"i{bits}"), signed)
    return low.out.one("vusqz", [source, mask], vector_type(signed))


@lowers("expand_load")
def expand_load(op: Operation, low: Lowering) -> None:
    """Consecutive elements in the active lanes: each gathers the one of the number of active lanes
    before it."""
    result = names.result(op)
    lanes, bits, elem = names.lanes_of(result), names.bits_of(result), names.elem_of(result)
    if (lanes, bits) != (64, 32):
        raise refuse("one register of 32-bit lanes, unless all lanes are active")
    mask = exact(low.out, low.mask(op), lanes, CONTIGUOUS, bits)[0]
    index = low.out.view(_active_before(low, mask, bits), "i32")
    type_, place = vector_type(elem), Place(op, low)
    found = low.out.one("vgather2", [place.moved(), index, mask], type_)
    rest = low.at(names.vector(op, "passthru"), CONTIGUOUS)[0]
    low.define(result, CONTIGUOUS, [low.out.one("vsel", [found, rest, mask], type_)])


@lowers("compress_store")
def compress_store(op: Operation, low: Lowering) -> None:
    """The active lanes one after the other: a stream that squeezed lanes are appended to."""
    value = names.vector(op, "value")
    lanes, bits = names.lanes_of(value), names.bits_of(value)
    if lanes != register_lanes(bits):
        raise refuse("multi-chunk, or padding mask lanes: exactly one full register")
    mask = exact(low.out, low.mask(op), lanes, CONTIGUOUS, bits)[0]
    source, start = low.at(value, CONTIGUOUS)[0], Place(op, low).moved()
    low.out.emit("sprclr", ['"AR"'])
    squeezed = low.out.one("vsqz", [source, mask], source.type)
    empty = low.out.one("init_align", [], "!pto.align")
    items = [empty, squeezed, start, '"POST_UPDATE"']
    low.out.emit("vstar", [low.out.one("vstur", items, "!pto.align"), start])


@lowers("shuffle")
def shuffle(op: Operation, low: Lowering) -> None:
    """Lanes in an order that the text fixes: registers as they are, one lane everywhere, or lanes
    at equal distances of one register."""
    source, result = names.vector(op, "src"), names.result(op)
    elem, bits, order = names.elem_of(source), names.bits_of(source), indices_of(op)
    size, registers = register_lanes(bits), low.at(source, CONTIGUOUS)
    low.define(
        result,
        CONTIGUOUS,
        [
            _ordered(low, order[at : at + size], registers, elem)
            for at in range(0, len(order), size)
        ],
    )


def _ordered(low: Lowering, order: list[int], registers: list[Register], elem: str) -> Register:
    bits = bits_of(elem)
    where, start = divmod(order[0], register_lanes(bits))
    steps = {b - a for a, b in pairwise(order)}
    if steps <= {1} and start == 0:
        return registers[where]
    if len({lane // register_lanes(bits) for lane in order}) > 1 or len(steps) > 1:
        raise refuse("only registers as they are, one lane everywhere, or a ramp of one register")
    if steps <= {0} and start == 0:
        items = [registers[where], low.out.every(bits), {"position": '"LOWEST"'}]
        return low.out.one("vdup", items, vector_type(elem))
    step = min(steps, default=0)
    if step == 1:
        index = ramp_from(low.out, f"ui{bits}", start)
    elif step == 0:
        index = low.out.view(low.out.everywhere(start, f"i{bits}"), f"ui{bits}")
    elif bits > 8:
        by, every = low.out.constant(step, f"i{bits}"), low.out.every(bits)
        plain = low.out.one("vmuls", [low.out.ramp(f"i{bits}"), by, every], vector_type(f"i{bits}"))
        first = low.out.constant(start, f"i{bits}")
        index = low.out.view(low.out.one("vadds", [plain, first, every], plain.type), f"ui{bits}")
    else:
        raise refuse("a ramp of bytes of another step than 1")
    return low.out.one("vselr", [registers[where], index], vector_type(elem))


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
