"""Shapes, windows and layouts of tiles and views, as far as constants say them before the run: what
rules of `isa/structure.toml` ask, the windows of views, and the layouts that views have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Node, Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import (
    BLOCK_BITS,
    Dim,
    MemRefType,
    MultiTileType,
    PtrType,
    TileType,
    ViewType,
)
from ptosim.ground.isa.dates import holds
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.language.bind.bind import operand_kinds
from ptosim.language.verify.operands import constant, operand_span
from ptosim.machine.layout import box_shape


def _in_bytes(bits: int) -> str:
    """Bytes as they are read; numbers of any length."""
    return str(bits // 8) if bits % 8 == 0 else f"{bits // 8}.{bits % 8 * 125:03}".rstrip("0")


def misaligned(type_: TileType) -> str | None:
    """The assembler's rule on the shapes of allocations, in its words."""
    bits = type_.dtype.bits
    if not type_.is_boxed and type_.blayout == "row_major":
        row = type_.cols * bits
        name = "row-major none_box tile row byte size (cols * sizeof(dtype))"
        aligned = row % (128 if type_.dtype.kind == "packed" else 256) == 0
        return None if aligned else f"{name} to be 32-byte aligned, but got {_in_bytes(row)} bytes"
    if not type_.is_boxed:
        column = type_.rows * bits
        name = "col-major none_box tile column byte size (rows * sizeof(dtype))"
        if column % 256 == 0:
            return None
        return f"{name} to be 32-byte aligned, but got {_in_bytes(column)} bytes"
    rows, cols = box_shape(type_.dtype, type_.slayout, type_.fractal)
    if type_.cols % cols:
        return f"boxed tile cols to be a multiple of innerCols ({cols})"
    free_rows = type_.loc == "vec" or type_.fractal == 32 or type_.rows == 1
    if type_.rows % rows and not free_rows:
        return f"boxed tile rows to be a multiple of innerRows ({rows})"
    return None


def _unaligned(type_: TileType) -> str | None:
    bits = type_.dtype.bits
    if not type_.is_boxed:
        by_rows = type_.blayout == "row_major"
        line = (type_.cols if by_rows else type_.rows) * bits
        what = "row" if by_rows else "column"
        return (
            None if line % BLOCK_BITS == 0 else f"a {what} of the tile has {_in_bytes(line)} bytes"
        )
    rows, cols = box_shape(type_.dtype, type_.slayout, type_.fractal)
    free_rows = type_.loc == "vec" or type_.fractal == 32 or type_.rows == 1
    if type_.cols % cols or (type_.rows % rows and not free_rows):
        return f"{type_.rows}x{type_.cols} is not made of boxes of {rows}x{cols}"
    return None


# -- windows of tiles ------------------------------------------------------------------------------


class Window(NamedTuple):
    """One axis of a window of a tile."""

    offset: int
    size: int
    limit: int


class Limit(NamedTuple):
    """A valid extent that is set, None where only the run knows it, and what the tile has."""

    name: str
    extent: int | None
    limit: int


def _windows(
    offsets: Sequence[int | None], sizes: Sequence[int], limits: Sequence[int]
) -> list[Window]:
    found = zip(offsets, sizes, limits, strict=True)
    return [Window(offset or 0, size, limit) for offset, size, limit in found]


def _limits(op: Operation, type_: TileType) -> list[Limit]:
    found = (("valid_row", type_.rows), ("valid_col", type_.cols))
    return [Limit(name, constant(op.bound[name]), limit) for name, limit in found]


def _slot_type(type_: object) -> object:
    return type_.slot if isinstance(type_, MultiTileType) else type_


class Listed(NamedTuple):
    """A list of another view of a memref: if it has integers only, how many, how many it needs."""

    name: str
    is_numbers: bool
    given: int
    wanted: int

    @property
    def is_right(self) -> bool:
        """True for as many integers as are needed."""
        return self.is_numbers and self.given == self.wanted


_LISTS = ("offset", "sizes", "strides")


def _lists_of(op: Operation, rank: int) -> list[Listed] | None:
    """The lists of another view of a memref in the order of the text; None unless each is once."""
    words = [clause.parts[0].value for clause in op.clauses]
    if sorted(words) != sorted(_LISTS):
        return None
    return [_listed(op, clause, 1 if w == "offset" else rank)
            for clause, w in zip(op.clauses, words, strict=True)]  # fmt: skip


def _listed(op: Operation, clause: Node, wanted: int) -> Listed:
    name = clause.parts[0].value
    entries = op.bound[name]
    is_whole = len(entries) == len(clause.parts[1].parts)
    return Listed(name, is_whole and all(map(_is_number, entries)), len(entries), wanted)


def _is_number(entry: object) -> bool:
    kinds = operand_kinds(entry) if isinstance(entry, Operand) else frozenset()
    return kinds is None or "index" in kinds


VERBS = {
    "lists_of": _lists_of,
    "first_wrong": lambda lists: [found for found in lists if not found.is_right][:1],
    "slot_type": _slot_type,
    "misaligned": misaligned,
    "unaligned": _unaligned,
    "box_of": lambda type_: box_shape(type_.dtype, type_.slayout, type_.fractal),
    "all_positive": lambda numbers: all(n is not None and n > 0 for n in numbers),
    "multiples": lambda numbers, units: (
        not any((n or 0) % unit for n, unit in zip(numbers, units, strict=True))
    ),
    "windows": _windows,
    "limits": _limits,
}
"""What rules can ask of shapes."""


# -- windows of views ------------------------------------------------------------------------------


def windows(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report constant windows that are empty, negative, or larger than their view."""
    source = resolved.module.source
    made_of = holds(_MADE_OF, resolved.date)
    for op in resolved.ops:
        if "window" in op.traits and op.bound.get("offsets") and op.results:
            whole = _view_dims(op.bound["source"].type)
            made = _made(op, whole) if made_of else whole
            yield from _window(op, made, source, "" if made == whole else _EXTENTS)


_MADE_OF = {"since": "2026-09"}
"""Constants that a view is made of count as its extents where its type has `?` (pypto#2686)."""
_EXTENTS = (
    "constants that the view is made of are its extents: assembler 0.61 and later refuse this"
)


def _made(op: Operation, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The extents of the view that a window is of, with the constants that it was made of."""
    value = op.bound["source"].value
    shape = value.owner.bound.get("shape") if value is not None and value.owner is not None else ()
    if not shape or len(shape) != len(dims):
        return dims
    return tuple(d if d is not None else constant(s) for d, s in zip(dims, shape, strict=True))


def _window(
    op: Operation, whole: tuple[Dim, ...], source: Source, why: str
) -> Iterator[Diagnostic]:
    offsets, sizes = op.bound.get("offsets") or [], op.bound.get("sizes") or []
    result = _view_dims(op.results[0].type)
    for dim, operand in enumerate(offsets):
        offset = constant(operand)
        if offset is not None and offset < 0:
            yield _outside_view(
                op, operand, f"offset {offset} at dim {dim} must be non-negative", source
            )
    for dim, operand in enumerate(sizes):
        size = constant(operand)
        if size is None:
            continue
        if size <= 0:
            yield _outside_view(op, operand, f"size {size} at dim {dim} must be positive", source)
            continue
        expected = result[dim] if len(result) == len(sizes) else None
        if expected is not None and expected != size:
            text = f"size/result mismatch at dim {dim}: size {size}, result type {expected}"
            yield _outside_view(op, operand, text, source)
        offset = constant(offsets[dim]) if dim < len(offsets) else None
        limit = whole[dim] if len(whole) == len(sizes) else None
        if limit is not None and offset is not None and offset >= 0 and offset + size > limit:
            text = f"offset {offset} + size {size} exceeds static source dim ({limit}) at dim {dim}"
            yield _outside_view(op, operand, text, source, why, _within(limit, offset, size))


def _view_dims(type_: object) -> tuple[Dim, ...]:
    return type_.dims if isinstance(type_, ViewType) else ()


def _within(limit: int, offset: int, size: int) -> str:
    """What to write for a window of a size at an offset that leaves its view."""
    if size > limit:
        return f"a size of at most {limit - offset if offset < limit else limit}"
    most = f"a size of at most {limit - offset}" if offset < limit else ""
    return f"an offset of at most {limit - size}{f', or {most}' if most else ''}"


def _outside_view(
    op: Operation, operand: Operand, text: str, source: Source, why: str = "", cure: str = ""
) -> Diagnostic:
    return finding(
        "PTO2026",
        f"'{op.name}' op {text}",
        operand_span(operand, op, source),
        notes=(why or "a window is inside its view",),
        help=cure or None,
    )


def layouts(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Give every view its layout (`resolved.layouts`); report an attribute that contradicts it."""
    roots: dict[Value, Operation] = {}
    ambiguous: dict[Operation, set[str]] = {}
    for op in resolved.ops:
        if "view" in op.traits and op.results and op.bound:
            yield from _view_layout(op, resolved, ambiguous)
            roots[op.results[0]] = op
        elif "window" in op.traits and op.results:
            root = _root(op.bound.get("source"), roots)
            roots |= {op.results[0]: root} if root is not None else {}
        elif ambiguous:
            _note_tile(op, roots, ambiguous)
    yield from _tables(resolved, roots, ambiguous)
    _packed_scales(resolved, roots)
    for op, layouts in ambiguous.items():
        if len(layouts) == 1:
            resolved.layouts[op] = layouts.pop()
    for value, root in roots.items():
        if value.owner is not None:
            resolved.layouts[value.owner] = resolved.layouts[root]


def _root(operand: object, roots: dict[Value, Operation]) -> Operation | None:
    value = operand.value if isinstance(operand, Operand) else None
    return roots.get(value) if value is not None else None


_SCALE_TABLES = ("mx_a_zz", "mx_b_nn")
_TABLE_OF = {("row_major", "row_major"): "mx_a_zz", ("col_major", "col_major"): "mx_b_nn"}
"""The table that fills a tile of scales, by its layout."""


def _packed_scales(resolved: ResolvedModule, roots: dict[Value, Operation]) -> None:
    """A view without a layout, a window of which fills a tile of block scales in L1, is a table of
    scales as the cube has them; a tile of one row takes them one after the other."""
    for op in resolved.ops:
        if "loads_tile" not in op.traits:
            continue
        root, dst = _root(op.bound.get("src"), roots), op.bound.get("dst")
        tile = dst.type if isinstance(dst, Operand) else None
        if root is None or root.attributes["layout"] or not isinstance(tile, TileType):
            continue
        if tile.loc == "mat" and tile.dtype.family == "f8E8M0FNU" and tile.rows > 1:
            table = _TABLE_OF.get((tile.blayout, tile.slayout))
            sizes = root.bound.get("shape")
            if table is not None:
                is_packed = isinstance(sizes, list) and len(sizes) == 2
                resolved.layouts[root] = f"packed {table}" if is_packed else table


def _view_layout(
    op: Operation, resolved: ResolvedModule, ambiguous: dict[Operation, set[str]]
) -> Iterator[Diagnostic]:
    given = op.attributes["layout"]
    resolved.layouts[op] = given or "nd"
    if given in _SCALE_TABLES:  # boxes of 16 lines and two groups are five dimensions
        sizes = op.bound.get("shape")
        resolved.layouts[op] = given if isinstance(sizes, list) and len(sizes) == 5 else "nd"
        return
    shape, strides = _static(op, "shape"), _static(op, "strides")
    if not shape or not strides or len(shape) != len(strides):
        return
    layout, both = infer(shape, strides, _bits(op))
    if given is None:
        resolved.layouts[op] = layout
        if both and shape[-1] == 1:
            ambiguous[op] = set()
    elif given != layout and not (both and given in ("nd", "dn")):
        yield _other_layout(op, given, layout, (shape, strides), resolved.module.source)


def _tables(
    resolved: ResolvedModule, roots: dict[Value, Operation], ambiguous: Collection[Operation]
) -> Iterator[Diagnostic]:
    """Report tables that are not laid out row by row; one whose view is not seen may be."""
    source = resolved.module.source
    for op in resolved.ops:
        root = _root(op.bound.get("mem"), roots) if "nd_table" in op.traits else None
        if root is not None and root not in ambiguous and resolved.layouts[root] != "nd":
            yield finding(
                "PTO2018",
                f"'{op.name}' op expects mem to use ND logical layout, not "
                f"{resolved.layouts[root]}",
                operand_span(op.bound["mem"], op, source),
                help="indices count rows and elements in row-major order: make the view row by row",
            )


def _other_layout(
    op: Operation, given: str, layout: str, numbers: tuple[list[int], list[int]], source: Source
) -> Diagnostic:
    attr = op.attrs["layout"]
    at = attr.key.span(source) if attr.key else op.span(source)
    return finding(
        "PTO2043",
        f"'{op.name}' op layout mismatch: user-specified layout={given} but sizes and strides "
        f"imply {layout}",
        at,
        notes=(f"sizes {numbers[0]}, strides {numbers[1]}",),
        help=f"write `layout = #pto.layout<{layout}>`, or leave the attribute out",
    )


def _bits(op: Operation) -> int:
    operand = op.bound.get("ptr")
    type_ = getattr(operand, "type", None)
    return type_.elem.bits if isinstance(type_, (PtrType, MemRefType)) else 32


def _static(op: Operation, name: str) -> list[int] | None:
    """Return sizes (from the type or the operands) or strides if all of them are constants."""
    given = op.bound.get(name)
    numbers = [constant(o) for o in given] if isinstance(given, list) else []
    type_ = op.results[0].type
    if name == "shape" and isinstance(type_, ViewType) and len(type_.dims) == len(numbers):
        numbers = [n if d is None else d for d, n in zip(type_.dims, numbers, strict=True)]
    known = [n for n in numbers if n is not None]
    return known if len(known) == len(numbers) else None


def infer(shape: Sequence[int], strides: Sequence[int], bits: int) -> tuple[str, bool]:
    """Return the layout of constant sizes and strides, and whether nd and dn fit alike."""
    (_, _, s2, rows, cols), (_, _, _, row_step, col_step) = _five(shape, strides)
    if s2 == 16 and s2 * rows * bits == 512 * 8 and col_step == 1 and row_step == cols:
        return "nz", False
    by_rows = (cols == 1 or col_step == 1) and (rows == 1 or row_step == cols)
    by_cols = (rows == 1 or row_step == 1) and (
        cols == 1 or col_step == rows or (rows == 1 and col_step == 1)
    )
    if by_rows and by_cols:
        return ("dn" if cols == 1 and rows != 1 else "nd"), True
    return ("dn" if by_cols else "nd"), False


def _five(shape: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    sizes, steps = list(shape), list(strides)
    while len(sizes) < 5:
        steps.insert(0, sizes[0] * steps[0])
        sizes.insert(0, 1)
    return sizes[-5:], steps[-5:]


def _note_tile(
    op: Operation, roots: dict[Value, Operation], ambiguous: dict[Operation, set[str]]
) -> None:
    """A transfer between a view and a tile: one of them is its source, one its destination."""
    ends = (op.bound.get("src"), op.bound.get("dst"))
    for view, tile in (ends, ends[::-1]):
        root = _root(view, roots)
        type_ = tile.type if isinstance(tile, Operand) else None
        if root in ambiguous and isinstance(type_, TileType) and type_.loc == "vec":
            ambiguous[root].add("nd" if type_.blayout == "row_major" else "dn")
