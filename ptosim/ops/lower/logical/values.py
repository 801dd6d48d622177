"""Logical vectors as registers in a layout, and the changes from one layout to another."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.ir.lane_layout import CONTIGUOUS, LaneLayout, register_lanes, strided
from ptosim.ground.records import dataclass
from ptosim.ops.lower.logical.emitter import Emitter, bits_of, refuse, vector_type
from ptosim.ops.lower.logical.physical import Register


@dataclass(slots=True, eq=False)
class Held:
    """A logical vector: its registers part by part; a `uniform` one has the same number in every
    lane, in one register that serves for all."""

    elem: str
    lanes: int
    layout: LaneLayout
    registers: list[Register]
    uniform: bool = False

    @property
    def bits(self) -> int:
        """Bits of a lane."""
        return bits_of(self.elem)


def canonical(layout: LaneLayout, lanes: int) -> LaneLayout:
    """Return one spelling of layouts that put the lanes in the same places."""
    if lanes == 1:
        return CONTIGUOUS
    if layout.kind == "num_groups" and layout.slots == 1:
        return LaneLayout("num_groups", layout.number, slots=1)
    if layout.kind == "num_groups" and lanes <= layout.slots:
        return strided(layout.stride)
    return layout


def counts(layout: LaneLayout, lanes: int, bits: int) -> tuple[int, ...]:
    """Return the registers of each part."""
    return layout.part_registers(lanes, bits)


def split(registers: Sequence[Register], parts: Sequence[int]) -> list[list[Register]]:
    """Return the registers of each part."""
    found, at = [], 0
    for count in parts:
        found.append(list(registers[at : at + count]))
        at += count
    return found


def in_layout(out: Emitter, value: Held, to: LaneLayout) -> list[Register]:
    """Return the registers of a value in a layout; changes are made once at a place. Raises
    NotExpandable for a change that no instructions make."""
    to = canonical(to, value.lanes)
    if value.uniform:
        return [value.registers[0]] * to.registers(value.lanes, value.bits)
    if to == canonical(value.layout, value.lanes):
        return value.registers
    key = ("layout", value, to)
    if key not in out.local:
        out.local[key] = _changed(out, value, to)
    return out.local[key]


def _changed(out: Emitter, value: Held, to: LaneLayout) -> list[Register]:
    source = canonical(value.layout, value.lanes)
    if source == CONTIGUOUS:
        return _spread(out, value, to)
    if to == CONTIGUOUS:
        return _joined(out, value, source)
    middle = Held(value.elem, value.lanes, CONTIGUOUS, in_layout(out, value, CONTIGUOUS))
    return in_layout(out, middle, to)


def pair(out: Emitter, name: str, a: Register, b: Register, type_: str) -> list[Register]:
    """Write an instruction that rearranges two registers."""
    return out.emit(name, [a, b], [type_, type_])


def interleaved(
    out: Emitter, name: str, a: list[Register], b: list[Register], type_: str, count: int
) -> list[Register]:
    """Return the first `count` registers of a0 b0 a1 b1 …; where b has none, a is taken."""
    found: list[Register] = []
    for number, first in enumerate(a):
        second = b[number] if number < len(b) else first
        if len(found) < count:
            found += pair(out, name, first, second, type_)
    return found[:count]


def parted(
    out: Emitter, name: str, values: list[Register], type_: str, sizes: Sequence[int]
) -> list[list[Register]]:
    """Return the even and the odd lanes of registers in a row, so many registers of each."""
    low: list[Register] = []
    high: list[Register] = []
    for at in range(0, len(values), 2):
        second = values[at + 1] if at + 1 < len(values) else values[at]
        first, other = pair(out, name, values[at], second, type_)
        low.append(first)
        high.append(other)
    return [low[: sizes[0]], high[: sizes[1]]]


def _joined(out: Emitter, value: Held, source: LaneLayout) -> list[Register]:
    """To contiguous."""
    type_ = vector_type(value.elem)
    if (
        source.kind == "num_groups"
        and source.slots == 1
        and value.lanes <= register_lanes(value.bits)
    ):
        return [_collected(out, value.registers, value.bits, type_)]
    return joined(out, "v", value.registers, source, value.lanes, value.bits, type_)


def _collected(out: Emitter, registers: Sequence[Register], bits: int, type_: str) -> Register:
    """The lowest lanes of registers in one: each is spread, the lanes before it stay."""
    every, total = out.every(bits), registers[0]
    for number, register in enumerate(registers[1:], 1):
        spread_one = out.one("vdup", [register, every, {"position": '"LOWEST"'}], type_)
        total = out.one("vsel", [total, spread_one, out.first(number, bits)], type_)
    return total


def joined(
    out: Emitter, letter: str, registers: list[Register], source: LaneLayout, lanes: int, bits: int,
    type_: str,
) -> list[Register]:  # fmt: skip
    """Return contiguous registers of vectors (`v`) or of predicates."""
    count = CONTIGUOUS.registers(lanes, bits)
    width = "" if letter == "v" else f"_b{bits}"
    parts = split(registers, counts(source, lanes, bits))
    if source.kind == "deinterleaved" and source.stride == 1:
        name = f"{letter}intlv{width}"
        if source.number == 4:
            halves = [-(-lanes // 2), lanes // 2]
            sizes = [CONTIGUOUS.registers(max(h, 1), bits) for h in halves]
            even = interleaved(out, name, parts[0], parts[2], type_, sizes[0])
            odd = interleaved(out, name, parts[1], parts[3], type_, sizes[1]) if parts[1] else []
            parts = [even, odd]
        return interleaved(out, name, parts[0], parts[1], type_, count)
    if source.kind == "contiguous":
        now = registers
        stride = source.stride
        while stride > 1:
            stride //= 2
            need = strided(stride).registers(lanes, bits)
            now = parted(out, f"{letter}dintlv{width}", now, type_, (need, 0))[0]
        return now
    raise refuse(f"cannot materialize requested VMI operand layout: {source} as contiguous")


def _spread(out: Emitter, value: Held, to: LaneLayout) -> list[Register]:
    """From contiguous."""
    if to.kind == "num_groups":
        return _into_slots(out, value, to)
    type_ = vector_type(value.elem)
    return spread(out, "v", value.registers, to, value.lanes, value.bits, type_)


def spread(
    out: Emitter, letter: str, registers: list[Register], to: LaneLayout, lanes: int, bits: int,
    type_: str,
) -> list[Register]:  # fmt: skip
    """Return contiguous registers of vectors (`v`) or of predicates in another layout."""
    width = "" if letter == "v" else f"_b{bits}"
    if to.kind == "deinterleaved" and to.stride == 1:
        name = f"{letter}dintlv{width}"
        if to.number == 2:
            even, odd = parted(out, name, registers, type_, counts(to, lanes, bits))
            return even + odd
        sizes = counts(to, lanes, bits)
        halves = [CONTIGUOUS.registers(max(h, 1), bits) for h in (-(-lanes // 2), lanes // 2)]
        even, odd = parted(out, name, registers, type_, halves)
        first, third = parted(out, name, even, type_, (sizes[0], sizes[2]))
        second, fourth = parted(out, name, odd, type_, (sizes[1], sizes[3]))
        return first + second + third + fourth
    if to.kind == "contiguous":
        now, stride = registers, 1
        while stride < to.stride:
            stride *= 2
            need = strided(stride).registers(lanes, bits)
            # Of predicates the lanes between are off; of vectors nobody looks at them.
            other = [out.none(bits)] * len(now) if letter == "p" else now
            now = interleaved(out, f"{letter}intlv{width}", now, other, type_, need)
        return now
    raise refuse(f"cannot materialize requested VMI operand layout: contiguous as {to}")


def _into_slots(out: Emitter, value: Held, to: LaneLayout) -> list[Register]:
    """Results of groups from one vector: each register takes its lanes by an index."""
    size = register_lanes(value.bits)
    index = f"ui{value.bits}"
    found = []
    for first in range(0, value.lanes, to.slots):
        source = value.registers[first // size]
        at = ramp_from(out, index, first % size)
        found.append(out.one("vselr", [source, at], vector_type(value.elem)))
    return found


def ramp_from(out: Emitter, elem: str, start: int) -> Register:
    """Return a register with start, start + 1 … in its lanes."""
    plain = f"i{bits_of(elem)}"
    ramp = out.ramp(plain)
    if start:
        key = ("ramp from", elem, start)
        if key not in out.local:
            number, every = out.constant(start, plain), out.every(bits_of(elem))
            out.local[key] = out.one("vadds", [ramp, number, every], vector_type(plain))
        ramp = out.local[key]
    return out.view(ramp, elem)
