"""Operations on rectangles of tiles: where both sources are valid and where one is, and two tiles
side by side."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from ptosim.ground.ir.core import Operation
from ptosim.ops.lower.elementwise import PAIRS, WIDER, Table, instruction, keep, of_two, widened
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    expansion,
    row_major,
    tile,
    valid,
)
from ptosim.ops.lower.writer import Writer, bits, vreg

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
