"""Reductions of rows, and operations with one value for each row or one row for all.

Sums take the order of tiles on A5: the tree of a register, then the registers of a row from left to
right. Extremes leave out NaN, and the first of equal elements stays. A value of a row is read and
written alone, as column-major tiles of one column have it."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation
from ptosim.ops.lower.elementwise import PAIRS, of_two
from ptosim.ops.lower.operands import NotExpandable, TileUse, expansion, row_major, tile, valid
from ptosim.ops.lower.writer import Writer, bits, vreg

SUMS = {"pto.trowsum": ("vcadd", "f32")}
BEST = {"pto.trowmax": ("vcmax", "vmax", "f16 f32"), "pto.trowmin": ("vcmin", "vmin", "f16 f32")}
WORDS = ("add", "sub", "mul", "div", "max", "min")
ROW_FORMS = {f"pto.trowexpand{w}": PAIRS[f"pto.t{w}"] for w in WORDS}
COLUMN_FORMS = {f"pto.tcolexpand{w}": PAIRS[f"pto.t{w}"] for w in WORDS}
COPIES = ("pto.trowexpand", "pto.tcolexpand")
_INFINITY = {"vmax": {16: "0xFC00", 32: "0xFF800000"}, "vmin": {16: "0x7C00", 32: "0x7F800000"}}


@expansion(*SUMS)
def sums(op: Operation, out: Writer) -> None:
    """dst[r] = 0 + the sum of each register of the row."""
    source, target = _of_rows(op, out)
    name, elements = SUMS[op.name]
    _known(name, elements, source.elem)

    def step(w: Writer, total: str, register: str, mask: str, elem: str) -> str:
        return w.binary("vadd", total, w.unary(name, register, mask, elem), w.every(32), elem)

    _reduced(out, source, target, "0.0", step)


@expansion(*BEST)
def best(op: Operation, out: Writer) -> None:
    """dst[r] = the largest (smallest) number of the row, of a row of NaN an infinity."""
    source, target = _of_rows(op, out)
    name, word, elements = BEST[op.name]
    _known(name, elements, source.elem)

    def step(w: Writer, total: str, register: str, mask: str, elem: str) -> str:
        v, m = vreg(elem), f"!pto.mask<b{bits(elem)}>"
        numbers = w.op("vcmp", [register, register, mask, '"eq"'], [v, v, m], m)
        found = w.unary(name, register, numbers, elem)
        return of_two(w, word, [total, found], w.every(bits(elem)), elem)

    _reduced(out, source, target, _INFINITY[word][bits(source.elem)], step)


def _known(name: str, elements: str, elem: str) -> None:
    if elem not in elements.split():
        raise NotExpandable(f"{name} gives other bytes, or none, for {elem}")


def _of_rows(op: Operation, out: Writer) -> tuple[TileUse, TileUse]:
    source, target = tile(op, "src", out), tile(op, "dst", out)
    row_major(source)
    return source, target


Step = Callable[[Writer, str, str, str, str], str]
"""From what was found so far (lane 0), a register, its mask and element type to what is found."""


def _reduced(out: Writer, source: TileUse, target: TileUse, start: str, step: Step) -> None:
    rows, cols = valid(source)
    if rows == 0 or cols == 0:
        raise NotExpandable(f"{source.name} has no elements")
    elem = source.elem
    width = bits(elem)
    lanes = 2048 // width
    first = out.everywhere(start, elem)
    pointer, result = source.pointer(out), target.pointer(out)

    def next_of(row: str, column: str, count: int, total: str) -> str:
        at = out.place((row, source.type.cols), (column, 1))
        return step(out, total, out.load(pointer, elem, at), out.first(count, width), elem)

    with out.rows(rows) as row:
        total, full = first, cols // lanes
        for number in range(full):
            total = next_of(row, out.index(number * lanes), lanes, total)
        if cols % lanes:
            total = next_of(row, out.index(full * lanes), cols % lanes, total)
        _store_one(out, total, result, out.place((row, _pitch(target))), elem)


def _pitch(use: TileUse) -> int:
    """Elements from the value of a row to the next."""
    return 1 if use.type.blayout == "col_major" else use.type.cols


def _store_one(out: Writer, value: str, pointer: str, at: str, elem: str) -> None:
    width = bits(elem)
    types = [vreg(elem), f"!pto.ptr<{elem}, ub>", f"!pto.mask<b{width}>"]
    words = {"dist": f'"1PT_B{width}"'}
    out.op("vsts", [value, out.at(pointer, at), out.every(width), words], types)


# -- broadcasts ------------------------------------------------------------------------------------


@expansion(*ROW_FORMS)
def row_forms(op: Operation, out: Writer) -> None:
    """dst[r, c] = src0 and src1, one of which has one value for each row."""
    name, elements = ROW_FORMS[op.name]
    target, a, b = tile(op, "dst", out), tile(op, "src0", out), tile(op, "src1", out)
    row_major(target)
    is_full = a.type.blayout == "row_major" and valid(a) == valid(target)
    matrix, column = (a, b) if is_full else (b, a)
    row_major(matrix)
    _known(name, elements, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        one, other = registers if is_full else reversed(registers)
        return of_two(w, name, [one, other], mask, elem)

    _broadcast(out, target, matrix, column, body, by_rows=True)


@expansion(*COLUMN_FORMS)
def column_forms(op: Operation, out: Writer) -> None:
    """dst[r, c] = src0[r, c] and src1[0, c]."""
    name, elements = COLUMN_FORMS[op.name]
    target, matrix, row = tile(op, "dst", out), tile(op, "src0", out), tile(op, "src1", out)
    row_major(target, matrix, row)
    _known(name, elements, target.elem)
    body = lambda w, r, mask, e: of_two(w, name, r, mask, e)  # noqa: E731
    _broadcast(out, target, matrix, row, body, by_rows=False)


@expansion(*COPIES)
def copies(op: Operation, out: Writer) -> None:
    """dst[r, c] = src[r, 0], or src[0, c]."""
    target, source = tile(op, "dst", out), tile(op, "src", out)
    row_major(target)
    by_rows = op.name == COPIES[0]
    if not by_rows:
        row_major(source)
    _broadcast(out, target, None, source, lambda w, r, mask, e: r[0], by_rows=by_rows)


Body = Callable[[Writer, list[str], str, str], str]


def _broadcast(
    out: Writer,
    target: TileUse,
    matrix: TileUse | None,
    vector: TileUse,
    body: Body,
    *,
    by_rows: bool,
) -> None:
    rows, cols = valid(target)
    if rows == 0 or cols == 0:
        return
    elem, elements = target.elem, {use.elem for use in (matrix, vector) if use is not None}
    width = bits(elem)
    if elements != {elem} or width not in (8, 16, 32):
        raise NotExpandable(f"the elements are {', '.join(sorted(elements))} and {elem}")
    from_matrix = matrix.pointer(out) if matrix is not None else ""
    from_vector, to = vector.pointer(out), target.pointer(out)
    with out.rows(rows) as row:
        one = out.place((row, _pitch(vector)))
        value = out.load(from_vector, elem, one, f"BRC_B{width}") if by_rows else ""
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            registers = [value or out.load(from_vector, elem, column)]
            if matrix is not None:
                at = out.place((row, matrix.type.cols), (column, 1))
                registers.insert(0, out.load(from_matrix, elem, at))
            made = body(out, registers, mask, elem)
            at = out.place((row, target.type.cols), (column, 1))
            types = [vreg(elem), f"!pto.ptr<{elem}, ub>", f"!pto.mask<b{width}>"]
            out.op("vsts", [made, out.at(to, at), mask], types)
