"""Layouts of views of global memory: what sizes and strides imply, and what the program says.

A view is nz if its inner dimensions are whole fractals; else its last two dimensions decide between
nd and dn. A view of one row or one column is both; it takes the layout of the tiles that are loaded
from it or stored to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import MemRefType, PtrType, TileType, ViewType
from ptosim.ground.source import Source, Span
from ptosim.passes.verify.checks.placements import constant, name_span
from ptosim.passes.verify.rule_views import attribute

_WINDOWS = ("pto.partition_view", "pto.subview")
_TRANSFERS = {
    "pto.tload": ("src", "dst"),
    "pto.tprefetch": ("src", "dst"),
    "pto.tstore": ("dst", "src"),
    "pto.tstore_fp": ("dst", "src"),
}


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Give every view its layout (`resolved.layouts`); report an attribute that contradicts it."""
    roots: dict[Value, Operation] = {}
    ambiguous: dict[Operation, set[str]] = {}
    for op in resolved.module.walk():
        if op.name == "pto.make_tensor_view" and op.results and op.bound:
            sink.extend(_view(op, resolved, ambiguous))
            roots[op.results[0]] = op
        elif op.name in _WINDOWS and op.results:
            root = _root(op.bound.get("source"), roots)
            roots |= {op.results[0]: root} if root is not None else {}
        elif op.name in _TRANSFERS:
            _note_tile(op, roots, ambiguous)
    for op, layouts in ambiguous.items():
        if len(layouts) == 1:
            resolved.layouts[op] = layouts.pop()
    for value, root in roots.items():
        if value.owner is not None:
            resolved.layouts[value.owner] = resolved.layouts[root]


def _root(operand: object, roots: dict[Value, Operation]) -> Operation | None:
    value = operand.value if isinstance(operand, Operand) else None
    return roots.get(value) if value is not None else None


def _view(
    op: Operation, resolved: ResolvedModule, ambiguous: dict[Operation, set[str]]
) -> Iterator[Diagnostic]:
    given = _attribute(op)
    resolved.layouts[op] = given or "nd"
    shape, strides = _static(op, "shape"), _static(op, "strides")
    if not shape or not strides or len(shape) != len(strides):
        return
    layout, both = infer(shape, strides, _bits(op))
    if given is None:
        resolved.layouts[op] = layout
        if both and shape[-1] == 1:
            ambiguous[op] = set()
    elif given != layout and not (both and given in ("nd", "dn")):
        yield _mismatch(op, given, layout, (shape, strides), resolved.module.source)


def _mismatch(
    op: Operation, given: str, layout: str, numbers: tuple[list[int], list[int]], source: Source
) -> Diagnostic:
    attr = op.attrs["layout"]
    at = Span(source, attr.key.start, attr.key.end) if attr.key else name_span(op, source)
    return finding(
        "PTO2043",
        f"'{op.name}' op layout mismatch: user-specified layout={given} but sizes and strides "
        f"imply {layout}",
        at,
        notes=(f"sizes {numbers[0]}, strides {numbers[1]}",),
        help=f"write `layout = #pto.layout<{layout}>`, or leave the attribute out",
    )


def _attribute(op: Operation) -> str | None:
    definition = op.definition.attrs.get("layout") if op.definition else None
    return attribute(op, definition) if definition else None


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
    view, tile = _TRANSFERS[op.name]
    root = _root(op.bound.get(view), roots)
    type_ = getattr(op.bound.get(tile), "type", None)
    if root in ambiguous and isinstance(type_, TileType) and type_.loc == "vec":
        ambiguous[root].add("nd" if type_.blayout == "row_major" else "dn")
