"""Reductions of rows, and operations with one value for each row or one row for all.

Sums take the order of tiles on A5: the tree of a register, then the registers of a row from left to
right. Extremes leave out NaN, and the first of equal elements stays. A value of a row is read and
written alone, as column-major tiles of one column have it."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation
from ptosim.ops.lower.elementwise import PAIRS, keep, of_two
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    expansion,
    extents,
    row_major,
    tile,
)
from ptosim.ops.lower.writer import Extent, Open, Writer, bits, vreg

_SUMMED = ("f16", "i32", "i16")
"""Elements that no instruction sums to the same bytes."""
SUMS = {"pto.trowsum": ("vcadd", "f32")}
BEST = {"pto.trowmax": ("vcmax", "vmax", "f16 f32"), "pto.trowmin": ("vcmin", "vmin", "f16 f32")}
WORDS = ("add", "sub", "mul", "div", "max", "min")
COLUMNS = {"pto.tcolsum": PAIRS["pto.tadd"], "pto.tcolprod": PAIRS["pto.tmul"]}
COLUMNS |= {f"pto.tcol{w}": PAIRS[f"pto.t{w}"] for w in ("max", "min")}
ROW_PLACES = {"pto.trowargmax": ("vcmax", "gt"), "pto.trowargmin": ("vcmin", "lt")}
COLUMN_PLACES = {"pto.tcolargmax": "gt", "pto.tcolargmin": "lt"}
_LEAST = {"f32": ("0xFF800000", "0x7F800000"), "i32": (-(2**31), 2**31 - 1)}
ROW_FORMS = {f"pto.trowexpand{w}": PAIRS[f"pto.t{w}"] for w in WORDS}
COLUMN_FORMS = {f"pto.tcolexpand{w}": PAIRS[f"pto.t{w}"] for w in WORDS}
COPIES = ("pto.trowexpand", "pto.tcolexpand")
_INFINITY = {"vmax": {16: "0xFC00", 32: "0xFF800000"}, "vmin": {16: "0x7C00", 32: "0x7F800000"}}


@expansion(*SUMS)
def sums(op: Operation, out: Writer) -> None:
    """dst[r] = 0 + the sum of each register of the row."""
    source, target = _of_rows(op, out)
    name, elements = SUMS[op.name]
    if source.elem in _SUMMED:
        zero = 0 if source.elem.startswith("i") else "0.0"
        _in_levels(out, source, target, PAIRS["pto.tadd"], zero)
        return
    _known(name, elements, source.elem)

    def step(w: Writer, total: str, register: str, mask: str, elem: str) -> str:
        return w.binary("vadd", total, w.unary(name, register, mask, elem), w.every(32), elem)

    _reduced(out, source, target, "0.0", step)


@expansion("pto.trowprod")
def products(op: Operation, out: Writer) -> None:
    """dst[r] = the product of the registers of the row, of each neighbors in pairs."""
    source, target = _of_rows(op, out)
    one = 1 if source.elem.lstrip("su").startswith("i") else "1.0"
    _in_levels(out, source, target, PAIRS["pto.tmul"], one)


def _in_levels(
    out: Writer, source: TileUse, target: TileUse, pair: tuple[str, str], neutral: int | str
) -> None:
    """Combine the lanes of each register in pairs of neighbors, level by level, and registers from
    left to right; lanes after the row are `neutral`."""
    name, elements = pair
    _known(name, elements, source.elem)
    rest = out.everywhere(neutral, source.elem)

    def step(w: Writer, total: str, register: str, mask: str, elem: str) -> str:
        every, left = w.every(bits(elem)), 2048 // bits(elem)
        found = w.select(register, rest, mask, elem)
        while left > 1:
            even, odd = w.spread("vdintlv", found, found, elem)
            found, left = w.binary(name, even, odd, every, elem), left // 2
        return w.binary(name, total, found, every, elem)

    _reduced(out, source, target, neutral, step)


@expansion(*BEST)
def best(op: Operation, out: Writer) -> None:
    """dst[r] = the largest (smallest) number of the row, of a row of NaN an infinity."""
    source, target = _of_rows(op, out)
    name, word, elements = BEST[op.name]
    if source.elem in ("i32", "i16"):
        least = -(1 << (bits(source.elem) - 1))
        start = least if word == "vmax" else -least - 1
        _in_levels(out, source, target, (word, source.elem), start)
        return
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


def _reduced(out: Writer, source: TileUse, target: TileUse, start: int | str, step: Step) -> None:
    rows, cols = extents(source, out)
    if 0 in (rows, cols):
        raise NotExpandable(f"{source.name} has no elements")
    elem = source.elem
    width = bits(elem)
    lanes = 2048 // width
    first = out.everywhere(start, elem)
    pointer, result = source.pointer(out), target.pointer(out)

    def next_of(row: str, column: str, count: Extent, total: str) -> str:
        at = out.place((row, source.type.cols), (column, 1))
        return step(out, total, out.load(pointer, elem, at), out.first(count, width), elem)

    def of_row(row: str) -> str:
        if isinstance(cols, Open):
            every = cols
            rest = lambda c, t: next_of(row, c, out.left(every, c), t)  # noqa: E731
            return out.fold(cols, first, elem, rest, step=lanes)
        total, full = first, cols // lanes
        for number in range(full):
            total = next_of(row, out.index(number * lanes), lanes, total)
        if cols % lanes:
            total = next_of(row, out.index(full * lanes), cols % lanes, total)
        return total

    with out.rows(rows) as row:
        _store_one(out, of_row(row), result, out.place((row, _pitch(target))), elem)


@expansion(*ROW_PLACES)
def row_places(op: Operation, out: Writer) -> None:
    """dst[r] = the first column of row r with its largest (smallest) number, and that number."""
    source, target = _of_rows(op, out)
    value = tile(op, "value", out) if op.bound.get("value") is not None else None
    elem, place, (name, better) = source.elem, target.elem, ROW_PLACES[op.name]
    if elem not in _LEAST or bits(place) != 32:
        raise NotExpandable(f"numbers of {elem} have places of another width")
    rows, cols = extents(source, out)
    if 0 in (rows, cols):
        raise NotExpandable(f"{source.name} has no elements")
    v, m, every = vreg(elem), "!pto.mask<b32>", out.every(32)
    starts = [
        (out.everywhere(_LEAST[elem][better == "lt"], elem), elem),
        (out.everywhere(0, place), place),
    ]
    here, there = source.pointer(out), target.pointer(out)
    with out.rows(rows) as row:

        def step(column: str, count: Extent, best: list[str]) -> list[str]:
            """Lane 0 of a reduced register is its best number, lane 1 the place of that."""
            at = out.place((row, source.type.cols), (column, 1))
            given = out.load(here, elem, at)
            numbers = out.op("vcmp", [given, given, out.first(count), '"eq"'], [v, v, m], m)
            found = out.unary(name, given, numbers, elem)
            inside = out.cast(out.spread("vdintlv", found, found, elem)[1], elem, place)
            number = out.scalar("vadds", inside, out.number(column, place), place, every, place)
            taken = out.op("vcmp", [found, best[0], every, f'"{better}"'], [v, v, m], m)
            return [
                out.select(found, best[0], taken, elem),
                out.select(number, best[1], taken, place),
            ]

        best = _over_columns(out, cols, starts, step)
        _store_one(out, best[1], there, out.place((row, _pitch(target))), place)
        if value is not None:
            at = out.place((row, _pitch(value)))
            _store_one(out, best[0], value.pointer(out), at, elem)


def _over_columns(
    out: Writer,
    cols: Extent,
    starts: list[tuple[str, str]],
    step: Callable[[str, Extent, list[str]], list[str]],
) -> list[str]:
    """Carry registers over the registers of a row, of 64 lanes."""
    if isinstance(cols, Open):
        return out.fold_all(cols, starts, lambda c, b: step(c, out.left(cols, c), b), step=64)
    best = [start for start, _ in starts]
    for first in range(0, cols, 64):
        best = step(out.index(first), min(64, cols - first), best)
    return best


def _pitch(use: TileUse) -> int:
    """Elements from the value of a row to the next."""
    return 1 if use.type.blayout == "col_major" else use.type.cols


def _store_one(out: Writer, value: str, pointer: str, at: str, elem: str) -> None:
    width = bits(elem)
    types = [vreg(elem), f"!pto.ptr<{elem}, ub>", f"!pto.mask<b{width}>"]
    words = {"dist": f'"1PT_B{width}"'}
    out.op("vsts", [value, out.at(pointer, at), out.every(width), words], types)


# -- along columns ---------------------------------------------------------------------------------

_MOST_PAIRED = 256
"""Rows that are added in pairs, written one by one."""


@expansion(*COLUMNS)
def columns(op: Operation, out: Writer) -> None:
    """dst[0, c] = the rows of column c from top to bottom, or in pairs."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    row_major(source, target)
    name, elements = COLUMNS[op.name]
    _known(name, elements, source.elem)
    rows, cols = extents(source, out)
    if 0 in (rows, cols):
        raise NotExpandable(f"{source.name} has no elements")
    paired = bool(op.attributes.get("isBinary"))
    if paired and (isinstance(rows, Open) or rows > _MOST_PAIRED):
        raise NotExpandable(f"rows in pairs are written out where there are at most {_MOST_PAIRED}")
    elem, width, pitch = source.elem, bits(source.elem), source.type.cols
    here, there = source.pointer(out), target.pointer(out)
    for column, count in out.columns(cols, 2048 // width):
        mask = out.first(count, width)

        def of(row: str, column: str = column) -> str:
            return out.load(here, elem, out.place((row, pitch), (column, 1)))

        def both(a: str, b: str, mask: str = mask) -> str:
            return of_two(out, name, [a, b], mask, elem)

        if paired and isinstance(rows, int):
            made = _in_pairs(list(range(rows)), lambda row: of(out.index(row)), both)
        elif rows == 1:
            made = of(out.index(0))
        else:
            start = [(of(out.index(0)), elem)]
            next_of = lambda row, total: [both(total[0], of(row))]  # noqa: E731
            made = out.fold_all(rows, start, next_of, first=1)[0]
        keep(out, made, there, column, mask, elem)


Sum = int | tuple["Sum", "Sum"]


def _in_pairs(rows: list[Sum], of: Callable[[int], str], both: Callable[[str, str], str]) -> str:
    """Combine rows in pairs, level by level; an odd last one joins the last pair of its level. What
    one result needs is written before the next one: few registers are in use at a time."""
    while len(rows) > 1:
        paired: list[Sum] = list(zip(rows[:-1:2], rows[1::2], strict=True))
        if len(rows) % 2:
            paired[-1] = (paired[-1], rows[-1])
        rows = paired

    def made(part: Sum) -> str:
        return of(part) if isinstance(part, int) else both(made(part[0]), made(part[1]))

    return made(rows[0])


@expansion(*COLUMN_PLACES)
def column_places(op: Operation, out: Writer) -> None:
    """dst[0, c] = the first row of column c with its largest (smallest) number, and that number."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    value = tile(op, "value", out) if op.bound.get("value") is not None else None
    row_major(source, target, *([value] if value is not None else []))
    elem, better = source.elem, COLUMN_PLACES[op.name]
    if elem not in _LEAST or bits(target.elem) != 32:
        raise NotExpandable(f"numbers of {elem} have places of another width")
    rows, cols = extents(source, out)
    if 0 in (rows, cols):
        raise NotExpandable(f"{source.name} has no elements")
    here, v, m, place = source.pointer(out), vreg(elem), "!pto.mask<b32>", target.elem
    starts = [
        (out.everywhere(_LEAST[elem][better == "lt"], elem), elem),
        (out.everywhere(0, place), place),
    ]
    for column, count in out.columns(cols, 64):
        mask = out.first(count, 32)

        def step(row: str, best: list[str], column: str = column, mask: str = mask) -> list[str]:
            given = out.load(here, elem, out.place((row, source.type.cols), (column, 1)))
            taken = out.op("vcmp", [given, best[0], mask, f'"{better}"'], [v, v, m], m)
            number = out.number(row, place)
            every = out.op("vdup", [number, mask], [place, m], vreg(place))
            return [
                out.select(given, best[0], taken, elem),
                out.select(every, best[1], taken, place),
            ]

        best = out.fold_all(rows, starts, step)
        keep(out, best[1], target.pointer(out), column, mask, place)
        if value is not None:
            keep(out, best[0], value.pointer(out), column, mask, elem)


# -- broadcasts ------------------------------------------------------------------------------------


@expansion(*ROW_FORMS)
def row_forms(op: Operation, out: Writer) -> None:
    """dst[r, c] = src0 and src1, one of which has one value for each row."""
    name, elements = ROW_FORMS[op.name]
    target, a, b = tile(op, "dst", out), tile(op, "src0", out), tile(op, "src1", out)
    row_major(target)
    is_full = _covers(a, target)
    matrix, column = (a, b) if is_full else (b, a)
    row_major(matrix)
    _known(name, elements, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        one, other = registers if is_full else reversed(registers)
        return of_two(w, name, [one, other], mask, elem)

    _broadcast(out, target, matrix, column, body, by_rows=True)


def _covers(first: TileUse, target: TileUse) -> bool:
    """True if the first operand is the matrix, and the other one has a value for each row."""
    if first.type.blayout != "row_major":
        return False
    pairs = ((first.type.v_row, target.type.v_row), (first.type.v_col, target.type.v_col))
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return False
    if None in (first.type.v_col, target.type.v_col) and first.type.cols != target.type.cols:
        raise NotExpandable(f"that {first.name} has a value for each row is known at run time only")
    return True


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
    rows, cols = extents(target, out)
    if 0 in (rows, cols):
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
            keep(out, made, to, out.place((row, target.type.cols), (column, 1)), mask, elem)
