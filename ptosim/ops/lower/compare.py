"""Comparisons into packed masks, and selection by them: one bit an element, eight to a byte, least
significant first.

256 columns make one image of a mask, 32 bytes: four registers of 32-bit elements, two of 16 bits,
one of 8. A comparison writes whole groups of 128 bits (256 for 8-bit elements), zeros after the
valid columns."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Node, Operation
from ptosim.ops.lower.elementwise import keep, scalar_of
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    agree,
    expansion,
    extents,
    row_major,
    tile,
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
