"""Tiles: windows of tiles, run-time valid extents, and shapes that the C++ library refuses."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.source import Source
from ptosim.machine.layout import box_shape
from ptosim.passes.verify.checks.placements import constant, name_span, operand_span


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report windows that cut boxes, wrong valid extents, and shapes that C++ refuses."""
    source = resolved.module.source
    for function in resolved.functions.values():
        for op in function.op.walk() if function.has_body else ():
            if op.name == "pto.alloc_tile":
                sink.extend(_library_shape(op, source))
            elif op.name == "pto.subset" and op.bound:
                sink.extend(_subset(op, source))
            elif op.name == "pto.set_validshape" and op.bound:
                sink.extend(_set_valid(op, function, source))


# -- shapes ----------------------------------------------------------------------------------------


def _library_shape(op: Operation, source: Source) -> Iterator[Diagnostic]:
    type_ = op.results[0].type if op.results else None
    if not isinstance(type_, TileType):
        return
    fault = _unaligned(type_)
    if fault is not None:
        yield finding(
            "PTO2044",
            f"'{op.name}' op: {fault}; a C++ build of this program would stop at a static "
            "assertion",
            name_span(op, source),
            notes=(
                "tile class of the pto-isa headers: rows (columns of a col_major tile) are "
                "multiples of 32 bytes, boxed tiles are multiples of their box",
            ),
            help="make the tile larger and give it the smaller valid shape",
        )


def _unaligned(type_: TileType) -> str | None:
    bits = type_.dtype.bits
    if not type_.is_boxed:
        by_rows = type_.blayout == "row_major"
        line = (type_.cols if by_rows else type_.rows) * bits
        what = "row" if by_rows else "column"
        return None if line % 256 == 0 else f"a {what} of the tile has {line / 8:g} bytes"
    rows, cols = box_shape(type_.dtype, type_.slayout, type_.fractal)
    free_rows = type_.loc == "vec" or type_.fractal == 32 or type_.rows == 1
    if type_.cols % cols or (type_.rows % rows and not free_rows):
        return f"{type_.rows}x{type_.cols} is not made of boxes of {rows}x{cols}"
    return None


# -- subset ----------------------------------------------------------------------------------------


def _subset(op: Operation, source: Source) -> Iterator[Diagnostic]:
    type_ = op.bound["source"].type
    sizes = [constant(o) for o in op.bound.get("sizes") or ()]
    if not isinstance(type_, TileType):
        return
    if len(sizes) != 2:
        yield _fault(op, "PTO2027", "takes two sizes, [rows, cols]", source)
        return
    offsets = [constant(op.bound["row"]), constant(op.bound["col"])]
    if any(s is None or s <= 0 for s in sizes):
        yield _fault(op, "PTO2026", "subset sizes must be positive constants", source)
        return
    if any(o is not None and o < 0 for o in offsets):
        yield _fault(op, "PTO2026", "subset offsets must be non-negative", source)
        return
    known = [s for s in sizes if s is not None]
    for offset, size, limit in zip(offsets, known, (type_.rows, type_.cols), strict=True):
        if (offset or 0) + size > limit:
            text = f"subset window {offset or 0} + {size} exceeds the source's {limit}"
            yield _fault(op, "PTO2026", text, source)
    if type_.is_boxed:
        yield from _boxed_subset(op, type_, known, offsets, source)


def _boxed_subset(
    op: Operation, type_: TileType, sizes: list[int], offsets: list[int | None], source: Source
) -> Iterator[Diagnostic]:
    box = box_shape(type_.dtype, type_.slayout, type_.fractal)
    if any(n % b for n, b in zip((*sizes, *(o or 0 for o in offsets)), (*box, *box), strict=True)):
        text = "boxed layout subset sizes/offsets must be multiples of inner shape "
        text += f"{box[0]}x{box[1]}"
        yield _fault(op, "PTO2026", text, source)
    by_rows = type_.blayout == "row_major"
    axis, word, name = (1, "cols", "RowMajor") if by_rows else (0, "rows", "ColMajor")
    if sizes[axis] != (type_.rows, type_.cols)[axis]:
        yield _fault(op, "PTO2026", f"boxed {name} subset must keep full {word}", source)
    elif offsets[axis] != 0:
        text = f"boxed {name} subset requires static {word[:-1]} offset = 0"
        yield _fault(op, "PTO2026", text, source)


def _fault(op: Operation, code: str, text: str, source: Source) -> Diagnostic:
    return finding(code, f"'{op.name}' op {text}", name_span(op, source))


# -- set_validshape --------------------------------------------------------------------------------


def _set_valid(op: Operation, function: Function, source: Source) -> Iterator[Diagnostic]:
    tile: Operand = op.bound["source"]
    if tile.value in function.args and not function.implicit:
        yield finding(
            "PTO2028",
            f"'{op.name}' op requires a locally bound tile source; function arguments/results are "
            "unsupported",
            operand_span(tile, op, source),
            help="set the valid shape in the function that allocates the tile",
        )
    if not isinstance(tile.type, TileType):
        return
    for name, limit in (("valid_row", tile.type.rows), ("valid_col", tile.type.cols)):
        extent = constant(op.bound[name])
        if extent is not None and not 0 <= extent <= limit:
            yield finding(
                "PTO2045",
                f"'{op.name}' op sets {name} to {extent}, outside [0, {limit}]",
                operand_span(op.bound[name], op, source),
                notes=("a run stops here: the valid region lies inside the tile",),
            )
