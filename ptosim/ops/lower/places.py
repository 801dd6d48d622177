"""Operations that take each element from a place of its own: gathers by index, transposes, and the
indices themselves.

A register gathers elements of 32 bits by 32-bit indices and of 16 bits by 16-bit ones, which count
elements and have no sign."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ops.lower.elementwise import keep, scalar_of
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    agree,
    expansion,
    extents,
    row_major,
    tile,
    valid,
    word,
)
from ptosim.ops.lower.writer import Writer, bits, mask_of, vreg

_INDEX = {32: "i32", 16: "i16"}
"""Elements of the indices, by the width of what they gather."""


def _gather(out: Writer, pointer: str, index: str, mask: str, elem: str) -> str:
    of = vreg(_INDEX[bits(elem)])
    types = [f"!pto.ptr<{elem}, ub>", of, mask_of(elem)]
    return out.op("vgather2", [pointer, index, mask], types, vreg(elem))


def _of_width(target: TileUse, source: TileUse) -> str:
    """The elements of the indices. Raises NotExpandable for those that no register gathers."""
    if source.elem != target.elem or bits(target.elem) not in _INDEX:
        raise NotExpandable(f"a register gathers no {source.elem} as {target.elem}")
    return _INDEX[bits(target.elem)]


@expansion("pto.tgather")
def gathered(op: Operation, out: Writer) -> None:
    """dst = the elements of src, in memory order, that indices name."""
    if op.variant is None or op.variant.name != "index":
        raise NotExpandable("only the form by indices is written out")
    source, indices, target = (tile(op, name, out) for name in ("src", "indices", "dst"))
    row_major(indices, target)
    number = _of_width(target, source)
    if bits(indices.elem) != bits(number):
        raise NotExpandable(f"indices of {indices.elem} are not as wide as what they gather")
    rows, cols = extents(target, out)
    if not all(map(agree, extents(indices, out), (rows, cols))):
        raise NotExpandable("the valid shapes of the tiles differ")
    elem, width = target.elem, bits(target.elem)
    table, places, kept = source.pointer(out), indices.pointer(out), target.pointer(out)
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            index = out.load(places, indices.elem, out.place((row, indices.type.cols), (column, 1)))
            if indices.elem != number:
                index = out.op("vbitcast", [index], [vreg(indices.elem)], vreg(number))
            found = _gather(out, table, index, mask, elem)
            keep(out, found, kept, out.place((row, target.type.cols), (column, 1)), mask, elem)


@expansion("pto.ttrans")
def transposed(op: Operation, out: Writer) -> None:
    """dst[c, r] = src[r, c]: each register takes a piece of a column of the source."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    row_major(source, target)
    number, (rows, cols) = _of_width(target, source), valid(source)
    if (rows, cols) != (int(source.type.rows), int(source.type.cols)):
        raise NotExpandable("of a source that is valid in a part the whole static shape is turned")
    if source.name == target.name:
        raise NotExpandable("the tile is turned in its own place")
    if rows * cols > 1 << bits(number):
        raise NotExpandable(f"the source has more elements than {number} counts")
    elem, width = target.elem, bits(target.elem)
    table, kept = source.pointer(out), target.pointer(out)
    zero = out.constant(0, number)
    lanes = out.once("vci", [zero, '{order = "ASC"}'], [number], vreg(number))
    steps = out.with_constant("vmuls", lanes, cols, number)
    with out.rows(cols) as row:
        for column, count in out.columns(rows, 2048 // width):
            mask = out.first(count, width)
            first = out.number(out.place((column, cols), (row, 1)), number)
            index = out.scalar("vadds", steps, first, number, out.every(width), number)
            found = _gather(out, table, index, mask, elem)
            keep(out, found, kept, out.place((row, target.type.cols), (column, 1)), mask, elem)


@expansion("pto.tci")
def counted(op: Operation, out: Writer) -> None:
    """dst = scalar, scalar + 1, …: with scratch; without it the scalar unit stores them."""
    if op.bound.get("tmp") is None:
        raise NotExpandable("without scratch it is done by the scalar unit")
    if word(op, "descending"):
        raise NotExpandable("lanes that count down are described by documents only")
    target = tile(op, "dst", out)
    row_major(target)
    elem = target.elem
    if elem not in _INDEX.values():
        raise NotExpandable(f"numbers of {elem} are not counted in a register")
    value, type_ = scalar_of(op, elem)
    kept, cols = target.pointer(out), extents(target, out)[1]
    for column, count in out.columns(cols, 2048 // bits(elem)):
        mask = out.first(count, bits(elem))
        lanes = out.once("vci", [value, '{order = "ASC"}'], [type_], vreg(elem))
        first = out.number(column, elem)
        made = out.scalar("vadds", lanes, first, elem, mask, elem)
        keep(out, made, kept, column, mask, elem)
