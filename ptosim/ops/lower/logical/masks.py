"""Logical masks as predicate registers: made where they are needed, in the layout and for the lane
width of the vectors that they go with."""

from __future__ import annotations

from ptosim.ground.ir.lane_layout import BLOCKS, CONTIGUOUS, LaneLayout, register_lanes
from ptosim.ground.records import dataclass
from ptosim.ops.lower.logical.emitter import Emitter, mask_type, refuse, vector_type
from ptosim.ops.lower.logical.physical import Register
from ptosim.ops.lower.logical.values import canonical, counts, joined, spread

WIDTHS = (8, 16, 32)


@dataclass(slots=True, eq=False)
class First:
    """The first `count` lanes, of each group of `size` lanes where there are groups. The count is a
    number, or a register with an index that is not below 0."""

    lanes: int
    count: int | Register
    size: int = 0


@dataclass(slots=True, eq=False)
class Image:
    """Predicates in registers: of a comparison, of a carry, or what a loop hands on."""

    lanes: int
    layout: LaneLayout
    bits: int
    registers: list[Register]
    clean: bool = False  # no lane after the last is set


@dataclass(slots=True, eq=False)
class Logic:
    """A combination of masks: pand, por, pxor; pnot of one."""

    lanes: int
    name: str
    parts: tuple[Mask, ...]


@dataclass(slots=True, eq=False)
class Listed:
    """Lanes that the text lists."""

    lanes: int
    bits: tuple[bool, ...]


Mask = First | Image | Logic | Listed


def is_full(mask: Mask | None) -> bool:
    """True if every lane is active, whatever the program computes."""
    if mask is None:
        return True
    if isinstance(mask, First):
        return isinstance(mask.count, int) and mask.count >= (mask.size or mask.lanes)
    return isinstance(mask, Listed) and all(mask.bits)


def predicates(
    out: Emitter, mask: Mask | None, lanes: int, layout: LaneLayout, bits: int
) -> list[Register]:
    """Return the predicates of a mask (None: all lanes) for vectors in a layout, one for each
    register. Lanes after the last may be set; see `exact`."""
    layout = canonical(layout, lanes)
    if mask is None or is_full(mask):
        return [out.every(bits)] * layout.registers(lanes, bits)
    key = ("mask", mask, layout, bits)
    if key not in out.local:
        out.local[key] = _made(out, mask, layout, bits)
    return out.local[key]


def exact(
    out: Emitter, mask: Mask | None, lanes: int, layout: LaneLayout, bits: int
) -> list[Register]:
    """Return the predicates of a mask with no lane after the last one set."""
    layout = canonical(layout, lanes)
    if not _is_partial(layout, lanes, bits):
        return predicates(out, mask, lanes, layout, bits)
    tails = _first(out, First(lanes, lanes), layout, bits)
    if is_full(mask):
        return tails
    found = predicates(out, mask, lanes, layout, bits)
    if isinstance(mask, (First, Listed)):
        return found
    return [
        m if t is out.every(bits) else anded(out, m, t, bits)
        for m, t in zip(found, tails, strict=True)
    ]


def anded(out: Emitter, a: Register, b: Register, bits: int) -> Register:
    """Return the lanes of two predicates."""
    return out.one("pand", [a, b, out.every(bits)], mask_type(bits))


def _is_partial(layout: LaneLayout, lanes: int, bits: int) -> bool:
    """True if a register has lanes that hold nothing of the vector."""
    return layout.registers(lanes, bits) * register_lanes(bits) != lanes


def _made(out: Emitter, mask: Mask, layout: LaneLayout, bits: int) -> list[Register]:
    if isinstance(mask, First):
        return _first(out, mask, layout, bits)
    if isinstance(mask, Image):
        return _converted(out, mask, layout, bits)
    if isinstance(mask, Listed):
        return _listed(out, mask, layout, bits)
    parts = [predicates(out, part, mask.lanes, layout, bits) for part in mask.parts]
    every, type_ = out.every(bits), mask_type(bits)
    return [out.one(mask.name, [*found, every], type_) for found in zip(*parts, strict=True)]


# -- the first lanes -------------------------------------------------------------------------------


def _first(out: Emitter, mask: First, layout: LaneLayout, bits: int) -> list[Register]:
    if layout.kind == "contiguous" and layout.stride > 1:
        wide = bits * layout.stride
        if wide not in WIDTHS:
            found = _first(out, mask, CONTIGUOUS, bits)
            return spread(out, "p", found, layout, mask.lanes, bits, mask_type(bits))
        return [out.mask_view(m, bits) for m in _first(out, mask, CONTIGUOUS, wide)]
    size = register_lanes(bits)
    per_part = counts(layout, mask.lanes, bits)
    if mask.size:
        return _of_groups(out, mask, layout, bits)
    found: list[Register] = []
    for part, registers in enumerate(per_part):
        if layout.kind == "num_groups":
            step, count = layout.slots, mask.count
        else:
            step, count = size, _in_part(out, mask.count, layout, part, bits)
        found += _prefix(out, count, registers, step, bits)
    return found


def _prefix(
    out: Emitter, count: int | Register, registers: int, step: int, bits: int
) -> list[Register]:
    """Predicates of the first lanes, `step` of them in each register."""
    if isinstance(count, int):
        return [out.first(min(count - number * step, step), bits) for number in range(registers)]
    found: list[Register] = []
    left = out.scalar("arith.index_cast", (count,), "index", "i32")
    for number in range(registers):
        if step < register_lanes(bits):
            capped = _clamped(out, count, number * step, step)
            left = out.scalar("arith.index_cast", (capped,), "index", "i32")
        mask, left = out.emit(f"plt_b{bits}", [left], [mask_type(bits), "i32"])
        found.append(mask)
    return found


def _clamped(out: Emitter, count: Register, start: int, size: int) -> Register:
    """Return how many of `size` items from `start` on are below a count."""
    lower = out.scalar("arith.maxsi", (count, out.constant(start)), "index")
    upper = out.scalar("arith.minsi", (lower, out.constant(start + size)), "index")
    return upper if not start else out.scalar(
        "arith.subi", (upper, out.constant(start)), "index"
    )  # fmt: skip


def _in_part(
    out: Emitter, count: int | Register, layout: LaneLayout, part: int, bits: int
) -> int | Register:
    """How many of the first `count` lanes are in a part: the first ones of it."""
    if layout.parts == 1:
        return count
    factor = layout.parts
    run = register_lanes(bits) // BLOCKS if layout.kind == "block_deinterleaved" else 1
    turn = factor * run
    if isinstance(count, int):
        return count // turn * run + min(max(count % turn - part * run, 0), run)
    turns = out.scalar("arith.divui", (count, out.constant(turn)), "index")
    rest = out.scalar("arith.remui", (count, out.constant(turn)), "index")
    return out.plus(out.times(turns, run), _clamped(out, rest, part * run, run))


def _of_groups(out: Emitter, mask: First, layout: LaneLayout, bits: int) -> list[Register]:
    """The first lanes of every group: counts where a register is in one group, else a comparison of
    the number of the lane in its group."""
    lanes = register_lanes(bits)
    if layout.kind == "num_groups" or mask.size % layout.parts:
        raise refuse("cannot materialize requested VMI operand layout of a mask of groups")
    size = mask.size // layout.parts
    found: list[Register] = []
    for part, registers in enumerate(counts(layout, mask.lanes, bits)):
        count = _in_part(out, mask.count, layout, part, bits)
        if size % lanes == 0:
            for number in range(registers):
                start = number * lanes % size
                here = (
                    min(max(count - start, 0), lanes)
                    if isinstance(count, int)
                    else _clamped(out, count, start, lanes)
                )
                found += _prefix(out, here, 1, lanes, bits)
        elif lanes % size == 0:
            found += [_periodic(out, count, size, bits)] * registers
        elif isinstance(mask.count, int):
            listed = tuple(i % mask.size < mask.count for i in range(mask.lanes))
            return _listed(out, Listed(mask.lanes, listed), layout, bits)
        else:
            raise refuse("no row for this group size")
    if _is_partial(layout, mask.lanes, bits):
        tails = _first(out, First(mask.lanes, mask.lanes), layout, bits)
        found = [anded(out, m, t, bits) for m, t in zip(found, tails, strict=True)]
    return found


def _periodic(out: Emitter, count: int | Register, size: int, bits: int) -> Register:
    if isinstance(count, int) and (count >= size or count <= 0):
        return out.every(bits) if count > 0 else out.none(bits)
    every, elem, plain = out.every(bits), f"ui{bits}", f"i{bits}"
    index = out.one("vand", [out.ramp(plain), out.everywhere(size - 1, plain), every],
                    vector_type(plain))  # fmt: skip
    if isinstance(count, int):
        bound = out.constant(count, plain)
    else:
        capped = _clamped(out, count, 0, size)
        bound = out.scalar("arith.index_cast", (capped,), "index", plain)
        if bits == 8 and size == 256:
            raise refuse("no row for this group size")
    return out.one("vcmps", [out.view(index, elem), bound, every, '"lt"'], mask_type(bits))


# -- other masks -----------------------------------------------------------------------------------


def _listed(out: Emitter, mask: Listed, layout: LaneLayout, bits: int) -> list[Register]:
    """Each register from its runs of active lanes."""
    if layout.kind == "contiguous" and layout.stride > 1:
        found = predicates(out, mask, mask.lanes, CONTIGUOUS, bits)
        return spread(out, "p", found, layout, mask.lanes, bits, mask_type(bits))
    size = register_lanes(bits)
    rows = [[False] * size for _ in range(layout.registers(mask.lanes, bits))]
    for lane, active in enumerate(mask.bits):
        place = layout.place(lane, bits)
        rows[layout.number_of(place, mask.lanes, bits)][place.lane] = active
    return [_runs(out, row, bits) for row in rows]


def _runs(out: Emitter, row: list[bool], bits: int) -> Register:
    edges = [
        i for i in range(len(row) + 1) if (row[i - 1] if i else False) != (i < len(row) and row[i])
    ]
    found: Register | None = None
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        one = out.first(end, bits)
        if start:
            one = out.one("pxor", [one, out.first(start, bits), out.every(bits)], mask_type(bits))
        found = one if found is None else out.one(
            "por", [found, one, out.every(bits)], mask_type(bits)
        )  # fmt: skip
    return found if found is not None else out.none(bits)


def _converted(out: Emitter, mask: Image, layout: LaneLayout, bits: int) -> list[Register]:
    """To another layout or width, by contiguous ones of each width between."""
    source = canonical(mask.layout, mask.lanes)
    if source == layout and mask.bits == bits:
        return mask.registers
    now, width, lanes = mask.registers, mask.bits, mask.lanes
    if source != CONTIGUOUS:
        now = joined(out, "p", now, source, lanes, width, mask_type(width))
    while width < bits:
        now = _wider(out, now, width * 2, CONTIGUOUS.registers(lanes, width * 2))
        width *= 2
    while width > bits:
        now = _narrower(out, now, width // 2)
        width //= 2
    if layout == CONTIGUOUS:
        return now
    return spread(out, "p", now, layout, lanes, bits, mask_type(bits))


def _wider(out: Emitter, masks: list[Register], bits: int, count: int) -> list[Register]:
    found = [
        out.one("punpack", [m, f'"{half}"'], mask_type(bits))
        for m in masks
        for half in ("LOWER", "HIGHER")[: 1 if len(masks) * 2 > count and m is masks[-1] else 2]
    ]
    return found[:count]


def _narrower(out: Emitter, masks: list[Register], bits: int) -> list[Register]:
    found, type_ = [], mask_type(bits)
    for at in range(0, len(masks), 2):
        one = out.one("ppack", [masks[at], '"LOWER"'], type_)
        if at + 1 < len(masks):
            other = out.one("ppack", [masks[at + 1], '"HIGHER"'], type_)
            one = out.one("por", [one, other, out.every(bits)], type_)
        found.append(one)
    return found
