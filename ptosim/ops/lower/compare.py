"""Comparisons into packed masks, and selection by them: one bit an element, eight to a byte, least
significant first.

256 columns make one image of a mask, 32 bytes: four registers of 32-bit elements, two of 16 bits,
one of 8. A comparison writes whole groups of 128 bits (256 for 8-bit elements), zeros after the
valid columns."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from ptosim.ground.ir.core import Node, Operation
from ptosim.ops.lower.elementwise import (
    PAIRS,
    WIDER,
    Table,
    instruction,
    of_two,
    widened,
)
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    agree,
    expansion,
    extents,
    keep,
    row_major,
    scalar_of,
    tile,
    valid,
)
from ptosim.ops.lower.writer import Extent, Open, Writer, bits, mask_of, vreg

IMAGE = 256
"""Columns of one image of a mask."""
_B8 = "!pto.mask<b8>"
_COMPARED = ("f32", "f16", "i32", "i16", "i8", "ui8", "ui16", "ui32")


# -- comparisons -----------------------------------------------------------------------------------

Compare = Callable[[str, str], str]
"""From the place of a register and the mask of its columns to the mask of those that hold."""


@expansion("pto.tcmp")
def tcmp(op: Operation, out: Writer) -> None:
    """Bits of dst = how two tiles compare, row by row."""
    first, second = tile(op, "src0", out), tile(op, "src1", out)
    if first.type.cols != second.type.cols:
        raise NotExpandable("the rows of the sources are not equally far apart")
    target, elem = _compared(op, first, second, out), first.elem
    rows, cols = _known_columns(first, out)
    here, there, word = first.pointer(out), second.pointer(out), str(op.attributes["cmpMode"])
    types = [vreg(elem), vreg(elem), mask_of(elem)]

    def compare(at: str, mask: str) -> str:
        pair = [out.load(here, elem, at), out.load(there, elem, at)]
        return out.op("vcmp", [*pair, mask, f'"{word}"'], types, mask_of(elem))

    _written(out, first, (rows, cols), target, target.type.cols * bits(target.elem) // 8, compare)


@expansion("pto.tcmps")
def tcmps(op: Operation, out: Writer) -> None:
    """Bits of dst = how a tile compares with a scalar, groups back to back over all rows."""
    source = tile(op, "src", out)
    target, elem = _compared(op, source, source, out), source.elem
    rows, cols = _known_columns(source, out)
    value, type_ = scalar_of(op, elem)
    here, word = source.pointer(out), str(op.attributes["cmpMode"])

    def compare(at: str, mask: str) -> str:
        types = [vreg(elem), type_, mask_of(elem)]
        items = [out.load(here, elem, at), value, mask, f'"{word}"']
        return out.op("vcmps", items, types, mask_of(elem))

    width = bits(elem)
    at_groups = cols % (256 if width == 8 else 128) == 0
    is_run = isinstance(rows, int) and (rows == 1 or source.type.cols == cols)
    if width == 32 and not at_groups and not is_run:  # elements are numbered through
        raise NotExpandable("rows do not begin at a group of mask bits")
    if is_run and isinstance(rows, int) and (width == 32 or at_groups):
        rows, cols = 1, rows * cols
    _written(out, source, (rows, cols), target, _group_bytes(cols, width), compare)


def _compared(op: Operation, first: TileUse, second: TileUse, out: Writer) -> TileUse:
    target = tile(op, "dst", out)
    row_major(first, second, target)
    if first.elem not in _COMPARED or first.elem != second.elem:
        raise NotExpandable(f"registers of {first.elem} are not compared")
    return target


def _known_columns(use: TileUse, out: Writer) -> tuple[Extent, int]:
    rows, cols = extents(use, out)
    if isinstance(cols, Open):
        raise NotExpandable(f"the valid columns of {use.name} are known at run time only")
    if 0 in (rows, cols):
        raise NotExpandable(f"{use.name} has no elements")
    return rows, cols


def _group_bytes(cols: int, width: int) -> int:
    group = 256 if width == 8 else 128
    return -(-cols // group) * group // 8


def _written(
    out: Writer,
    source: TileUse,
    shape: tuple[Extent, int],
    target: TileUse,
    pitch: int,
    compare: Compare,
) -> None:
    """Write rows of bits, `pitch` bytes apart."""
    (rows, cols), width = shape, bits(source.elem)
    if _group_bytes(cols, width) > pitch:
        raise NotExpandable("rows of the mask run into the next ones")
    if rows != 1 and pitch % 32:
        raise NotExpandable("rows of the mask begin inside of a block of 32 bytes")
    to = target.pointer(out, "ui8")
    with out.rows(rows) as row:
        for column, count in out.columns(cols, IMAGE):
            at = out.place((row, source.type.cols), (column, 1))
            image = _image(out, at, count, width, compare)
            place = out.place((row, pitch), (out.part(column, 8), 1))
            short = width > 8 and count <= 128
            words = f'"{"PK" if short else "NORM"}"'
            if short:
                image = out.pair("pintlv_b8", [image, image], [_B8, _B8], [_B8, _B8])[0]
            out.op("psts", [image, out.at(to, place), words], [_B8, "!pto.ptr<ui8, ub>"])


def _image(out: Writer, at: str, count: int, width: int, compare: Compare) -> str:
    """256 columns as bits: the masks of registers, of which two at a time lose every other bit."""
    lanes = 2048 // width
    masks = []
    for first in range(0, IMAGE, lanes):
        if first >= count:
            none = out.once(f"pset_b{width}", ['"PAT_ALLF"'], [], f"!pto.mask<b{width}>")
            masks.append(_as_bits(out, none, width))
            continue
        mask = out.first(min(lanes, count - first), width)
        place = out.place((at, 1), (out.index(first), 1)) if first else at
        masks.append(_as_bits(out, compare(place, mask), width))
    while len(masks) > 1:
        pairs = zip(masks[::2], masks[1::2], strict=True)
        masks = [out.pair("pdintlv_b8", [a, b], [_B8, _B8], [_B8, _B8])[0] for a, b in pairs]
    return masks[0]


def _as_bits(out: Writer, mask: str, width: int) -> str:
    return mask if width == 8 else out.op("pbitcast", [mask], [f"!pto.mask<b{width}>"], _B8)


# -- selection -------------------------------------------------------------------------------------


@expansion("pto.tsel")
def tsel(op: Operation, out: Writer) -> None:
    """dst = src0 where the bit of the mask is one, else src1."""
    first, second = tile(op, "src0", out), tile(op, "src1", out)
    row_major(second)
    there = second.pointer(out)

    def other(row: str, column: str, mask: str) -> str:
        return out.load(there, second.elem, out.place((row, second.type.cols), (column, 1)))

    _selected(op, out, [first, second], other)


@expansion("pto.tsels")
def tsels(op: Operation, out: Writer) -> None:
    """dst = src where the bit of the mask is one, else the scalar."""
    first = tile(op, "src", out)
    value, type_ = scalar_of(op, first.elem)

    def other(row: str, column: str, mask: str) -> str:
        return out.op("vdup", [value, mask], [type_, mask_of(first.elem)], vreg(first.elem))

    _selected(op, out, [first], other)


def _selected(
    op: Operation, out: Writer, sources: list[TileUse], other: Callable[[str, str, str], str]
) -> None:
    target, given = tile(op, "dst", out), tile(op, "mask", out)
    first, elem = sources[0], target.elem
    row_major(target, given, first)
    rows, cols = _known_columns(target, out)
    for use in sources:
        if use.elem != elem or not all(map(agree, extents(use, out), (rows, cols))):
            raise NotExpandable("the tiles differ in their valid shapes or elements")
    width, pitch = bits(elem), given.type.cols * bits(given.elem) // 8
    if width not in (8, 16, 32) or pitch % 32:
        raise NotExpandable("rows of the mask begin inside of a block of 32 bytes")
    lanes = 2048 // width
    here, to, bytes_ = first.pointer(out), target.pointer(out), given.pointer(out, "ui8")
    with out.rows(rows) as row:
        for column, count in out.columns(cols, IMAGE):
            at = out.place((row, pitch), (out.part(column, 8), 1))
            masks = _loaded(out, out.at(bytes_, at), count, width)
            for number in range(-(-count // lanes)):
                start = number * lanes
                mask = out.first(min(lanes, count - start), width)
                begin = out.place((column, 1), (out.index(start), 1)) if start else column
                one = out.load(here, elem, out.place((row, first.type.cols), (begin, 1)))
                made = out.select(one, other(row, begin, mask), masks[number], elem)
                keep(out, made, to, out.place((row, target.type.cols), (begin, 1)), mask, elem)


def _loaded(out: Writer, place: Node, count: int, width: int) -> list[str]:
    """The masks of the registers of up to 256 columns: an image of one bit each, or of 128 columns
    one that has each bit twice already."""
    short = width > 8 and count <= 128
    has, dist = (16, "US") if short else (8, "NORM")
    types = ["!pto.ptr<ui8, ub>"]
    masks = [out.op("plds", [place, f'"{dist}"'], types, f"!pto.mask<b{has}>")]
    while has < width:
        a, b, has = f"!pto.mask<b{has}>", f"!pto.mask<b{2 * has}>", 2 * has
        parts = [(m, half) for m in masks for half in ("LOWER", "HIGHER")]
        masks = [out.op("punpack", [m, f'"{half}"'], [a], b) for m, half in parts]
    return masks


# Operations on rectangles of tiles: where both sources are valid and where one is, and two tiles
# side by side.

PARTS: Table = {f"pto.tpart{w}": PAIRS[f"pto.t{w}"] for w in ("add", "mul", "max", "min")}
ARGUMENTS = {"pto.tpartargmax": "gt", "pto.tpartargmin": "lt"}
"""How the first value compares with the second where the first is taken."""


@expansion(*PARTS)
def parts(op: Operation, out: Writer) -> None:
    """dst = function of two tiles where both are valid, and the one that is valid elsewhere."""
    sources, target = [tile(op, "src0", out), tile(op, "src1", out)], tile(op, "dst", out)
    name = instruction(op, PARTS, target.elem)
    _in_parts(
        out, [sources], [target], lambda w, r, m, e: [of_two(w, name, [r[0][0], r[0][1]], m, e[0])]
    )


@expansion(*ARGUMENTS)
def part_arguments(op: Operation, out: Writer) -> None:
    """As `parts`, of values with their indices: the second pair of equal ones. Values of 16 bits
    are compared in lanes of 32."""
    if op.variant is None or op.variant.name != "pairs":
        raise NotExpandable("the form of April is not written out")
    values = [tile(op, "src0", out), tile(op, "src1", out)]
    indices = [tile(op, "idx0", out), tile(op, "idx1", out)]
    targets = [tile(op, "dst", out), tile(op, "dst_idx", out)]
    elem = targets[0].elem
    if elem not in WIDER or bits(targets[1].elem) != 32:
        raise NotExpandable(f"values of {elem} with indices of {targets[1].elem} are not compared")
    better, wide = ARGUMENTS[op.name], WIDER[elem]

    def body(w: Writer, registers: list[list[str]], mask: str, elems: list[str]) -> list[str]:
        (a, b), (i, j) = registers
        v, m = vreg(wide), "!pto.mask<b32>"
        pair = [widened(w, register, elem) for register in (a, b)]
        first = w.op("vcmp", [*pair, mask, f'"{better}"'], [v, v, m], m)
        one, other = (w.cast(register, elem, "i32") for register in (a, b))
        value = w.cast(w.select(one, other, first, "i32"), "i32", elem)
        return [value, w.select(i, j, first, elems[1])]

    _in_parts(out, [values, indices], targets, body)


@expansion("pto.tconcat")
def joined(op: Operation, out: Writer) -> None:
    """dst = the valid columns of src0, then those of src1."""
    sources, target = [tile(op, name, out) for name in ("src0", "src1")], tile(op, "dst", out)
    row_major(*sources, target)
    if any(op.bound.get(name) is not None for name in ("src0Idx", "src1Idx")):
        raise NotExpandable("how much each source has is known at run time only")
    if any(use.elem != target.elem or use.name == target.name for use in sources):
        raise NotExpandable("it is written out between three tiles of one element type")
    rows, left = valid(target)[0], 0
    for use in sources:
        high, cols = valid(use)
        if not high * cols:
            continue
        if left * bits(target.elem) % 256:
            raise NotExpandable("a part begins inside of a block of 32 bytes")
        here, there = use.pointer(out), target.pointer(out)
        with out.rows(rows) as row:
            for column, count in out.columns(cols, 2048 // bits(target.elem)):
                mask = out.first(count, bits(target.elem))
                at = out.place((row, use.type.cols), (column, 1))
                value = out.load(here, use.elem, at)
                at = out.place((row, target.type.cols), (column, 1), (out.index(left), 1))
                keep(out, value, there, at, mask, target.elem)
        left += cols


Together = Callable[[Writer, list[list[str]], str, list[str]], list[str]]
"""From the registers of both sources of each target, mask and element types to what is stored."""


def _in_parts(
    out: Writer, sources: list[list[TileUse]], targets: list[TileUse], body: Together
) -> None:
    """One rectangle after the other, along the borders of the valid shapes of both sources."""
    row_major(*targets, *(use for pair in sources for use in pair))
    shapes, whole = [valid(use) for use in sources[0]], valid(targets[0])
    cuts = [
        sorted({0, end, *(min(shape[axis], end) for shape in shapes)})
        for axis, end in enumerate(whole)
    ]
    for top, bottom in pairwise(cuts[0]):
        for left, right in pairwise(cuts[1]):
            covered = [top < rows and left < cols for rows, cols in shapes]
            if not any(covered):
                raise NotExpandable("neither source covers a part of the destination")
            if left * bits(targets[0].elem) % 256:
                raise NotExpandable("a part begins inside of a block of 32 bytes")
            _part(
                out, sources, targets, (top, bottom, left, right), body if all(covered) else covered
            )


def _part(
    out: Writer,
    sources: list[list[TileUse]],
    targets: list[TileUse],
    place: tuple[int, int, int, int],
    body: Together | list[bool],
) -> None:
    """The elements of a rectangle: a function of both sources, or the one that covers it."""
    top, bottom, left, right = place
    elems = [use.elem for use in targets]
    width = max(map(bits, elems))
    with out.rows(bottom - top) as row:
        for column, count in out.columns(right - left, 2048 // width):
            mask = out.first(count, width)

            def at(use: TileUse, row: str = row, column: str = column) -> str:
                first = out.index(top * use.type.cols + left)
                return out.place((first, 1), (row, use.type.cols), (column, 1))

            loaded = [
                [
                    out.load(use.pointer(out), use.elem, at(use), _SPREAD[width // bits(use.elem)])
                    for use in _covering(pair, body)
                ]
                for pair in sources
            ]
            made = (
                [pair[0] for pair in loaded]
                if isinstance(body, list)
                else body(out, loaded, mask, elems)
            )
            for use, value in zip(targets, made, strict=True):
                if bits(use.elem) == width:
                    keep(out, value, use.pointer(out), at(use), mask, use.elem)
                else:
                    out.store(value, use.elem, use.pointer(out), use.elem, at(use), mask, "PK_B32")


_SPREAD = {1: "NORM", 2: "UNPK_B16"}


def _covering(pair: list[TileUse], body: Together | list[bool]) -> list[TileUse]:
    if not isinstance(body, list):
        return pair
    return [use for use, covers in zip(pair, body, strict=True) if covers]
