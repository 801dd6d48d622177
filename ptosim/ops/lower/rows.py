"""Reductions of rows, and operations with one value for each row or one row for all.

Sums take the order of tiles on A5: the tree of a register, then the registers of a row from left to
right. Extremes leave out NaN, and the first of equal elements stays. A value of a row is read and
written alone, as column-major tiles of one column have it."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.ground.ir.core import Operation
from ptosim.ops.lower.elementwise import PAIRS, WIDER, of_two, widened
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    expansion,
    extents,
    keep,
    pitch_of_column,
    row_major,
    tile,
)
from ptosim.ops.lower.writer import Extent, Open, Writer, bits, vreg

_SUMMED = ("f16", "i32", "i16", "ui32", "ui16")
"""Elements that no instruction sums to the same bytes."""
SUMS = {"pto.trowsum": ("vcadd", "f32")}
BEST = {"pto.trowmax": ("vcmax", "vmax", "f16 f32"), "pto.trowmin": ("vcmin", "vmin", "f16 f32")}
WORDS = ("add", "sub", "mul", "div", "max", "min")
COLUMNS = {"pto.tcolsum": PAIRS["pto.tadd"], "pto.tcolprod": PAIRS["pto.tmul"]}
COLUMNS |= {f"pto.tcol{w}": PAIRS[f"pto.t{w}"] for w in ("max", "min")}
ROW_PLACES = {"pto.trowargmax": ("vcmax", "gt"), "pto.trowargmin": ("vcmin", "lt")}
COLUMN_PLACES = {"pto.tcolargmax": "gt", "pto.tcolargmin": "lt"}
_LEAST = {"f32": ("0xFF800000", "0x7F800000"), "i32": (-(2**31), 2**31 - 1), "ui32": (0, 2**32 - 1)}
ROW_FORMS = {f"pto.trowexpand{w}": PAIRS[f"pto.t{w}"] for w in WORDS}
COLUMN_FORMS = {f"pto.tcolexpand{w}": PAIRS[f"pto.t{w}"] for w in WORDS}
ROW_FORMS["pto.trowexpandexpdif"] = COLUMN_FORMS["pto.tcolexpandexpdif"] = ("vexpdif", "")
"""How one value for each row is combined; `vexpdif` rounds the difference, a tile does not."""
COPIES = ("pto.trowexpand", "pto.tcolexpand")
_INFINITY = {"vmax": {16: "0xFC00", 32: "0xFF800000"}, "vmin": {16: "0x7C00", 32: "0x7F800000"}}


@expansion(*SUMS)
def sums(op: Operation, out: Writer) -> None:
    """dst[r] = 0 + the sum of each register of the row."""
    source, target = _of_rows(op, out)
    name, elements = SUMS[op.name]
    if source.elem in _SUMMED:
        zero = "0.0" if source.elem.startswith("f") else 0
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
    if source.elem in ("i32", "i16", "ui32", "ui16"):
        _in_levels(out, source, target, PAIRS[f"pto.t{word[1:]}"], _limit(source.elem, word))
        return
    _known(name, elements, source.elem)

    def step(w: Writer, total: str, register: str, mask: str, elem: str) -> str:
        v, m = vreg(elem), f"!pto.mask<b{bits(elem)}>"
        numbers = w.op("vcmp", [register, register, mask, '"eq"'], [v, v, m], m)
        found = w.unary(name, register, numbers, elem)
        return of_two(w, word, [total, found], w.every(bits(elem)), elem)

    _reduced(out, source, target, _INFINITY[word][bits(source.elem)], step)


def _limit(elem: str, word: str) -> int:
    """The integer that any other one is larger (smaller) than."""
    half = 1 << (bits(elem) - 1)
    if elem[0] == "u":
        return 0 if word == "vmax" else 2 * half - 1
    return -half if word == "vmax" else half - 1


def _known(name: str, elements: str, elem: str) -> None:
    if elem.lstrip("" if name == "vdiv" else "u") not in elements.split():
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
        _store_one(out, of_row(row), result, out.place((row, pitch_of_column(target))), elem)


class _Ranked:
    """The best of many numbers and where it is, in lanes of 32 bits: what both places of extremes
    are made of. Raises NotExpandable for numbers that are not compared so."""

    def __init__(self, op: Operation, out: Writer, better: str) -> None:
        self.out, self.better = out, better
        self.source, self.target = _of_rows(op, out)
        self.value = tile(op, "value", out) if op.bound.get("value") is not None else None
        elem, self.place = self.source.elem, self.target.elem
        if elem not in WIDER or bits(self.place) != 32:
            raise NotExpandable(f"places of {elem} in {self.place} are not written out")
        self.rows, self.cols = extents(self.source, out)
        if 0 in (self.rows, self.cols):
            raise NotExpandable(f"{self.source.name} has no elements")
        self.wide = WIDER[elem]
        self.here = self.source.pointer(out)
        self.starts = [
            (out.everywhere(_LEAST[self.wide][better == "lt"], self.wide), self.wide),
            (out.everywhere(0, self.place), self.place),
        ]

    def load(self, row: str, column: str) -> str:
        """Return 64 numbers of a row."""
        elem = self.source.elem
        at = self.out.place((row, self.source.type.cols), (column, 1))
        dist = "NORM" if elem == self.wide else "UNPK_B16"
        return widened(self.out, self.out.load(self.here, elem, at, dist), elem)

    def taken(self, one: str, best: str, mask: str) -> str:
        """Return where a number is better than the best one so far."""
        v, m = vreg(self.wide), "!pto.mask<b32>"
        return self.out.op("vcmp", [one, best, mask, f'"{self.better}"'], [v, v, m], m)

    def chosen(self, one: list[str], best: list[str], mask: str) -> list[str]:
        """Return the better number and its place."""
        kinds = zip(one, best, (self.wide, self.place), strict=True)
        return [self.out.select(a, b, mask, kind) for a, b, kind in kinds]

    def narrow(self, value: str) -> str:
        """Return numbers as the elements that they were, one in each 32 bits."""
        elem = self.source.elem
        if elem == "f16":
            return self.out.convert(value, self.wide, elem, "EVEN", "R", "NOSAT")
        return self.out.cast(value, self.wide, elem)


@expansion(*ROW_PLACES)
def row_places(op: Operation, out: Writer) -> None:
    """dst[r] = the first column of row r with its largest (smallest) number, and that number."""
    name, better = ROW_PLACES[op.name]
    ranked = _Ranked(op, out, better)
    elem, number, every = ranked.wide, ranked.place, out.every(32)
    v, m = vreg(elem), "!pto.mask<b32>"
    there = ranked.target.pointer(out)
    with out.rows(ranked.rows) as row:

        def step(column: str, count: Extent, best: list[str]) -> list[str]:
            """Lane 0 of a reduced register is its best number, lane 1 the place of that."""
            given = ranked.load(row, column)
            numbers = out.op("vcmp", [given, given, out.first(count), '"eq"'], [v, v, m], m)
            found = out.unary(name, given, numbers, elem)
            inside = out.cast(out.spread("vdintlv", found, found, elem)[1], elem, number)
            first = out.number(column, "i32")
            at = out.scalar("vadds", inside, first, "i32", every, number)
            return ranked.chosen([found, at], best, ranked.taken(found, best[0], every))

        best = _over_columns(out, ranked.cols, ranked.starts, step)
        at = out.place((row, pitch_of_column(ranked.target)))
        _store_one(out, best[1], there, at, number)
        if ranked.value is not None:
            at = out.place((row, pitch_of_column(ranked.value)))
            kept = ranked.value
            _store_one(out, ranked.narrow(best[0]), kept.pointer(out), at, kept.elem)


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
    ranked = _Ranked(op, out, COLUMN_PLACES[op.name])
    row_major(ranked.target, *([ranked.value] if ranked.value is not None else []))
    number, m = ranked.place, "!pto.mask<b32>"
    for column, count in out.columns(ranked.cols, 64):
        mask = out.first(count, 32)

        def step(row: str, best: list[str], column: str = column, mask: str = mask) -> list[str]:
            given = ranked.load(row, column)
            at = out.number(row, "i32")
            every = out.op("vdup", [at, mask], ["i32", m], vreg(number))
            return ranked.chosen([given, every], best, ranked.taken(given, best[0], mask))

        best = out.fold_all(ranked.rows, ranked.starts, step)
        _store_spread(out, best[1], ranked.target, column, mask)
        if ranked.value is not None:
            _store_spread(out, ranked.narrow(best[0]), ranked.value, column, mask)


def _store_spread(out: Writer, value: str, target: TileUse, column: str, mask: str) -> None:
    """Write elements that are in lanes of 32 bits."""
    elem = target.elem
    dist = "NORM_B32" if bits(elem) == 32 else "PK_B32"
    out.store(value, elem, target.pointer(out), elem, column, mask, dist)


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
        one = out.place((row, pitch_of_column(vector)))
        value = out.load(from_vector, elem, one, f"BRC_B{width}") if by_rows else ""
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            registers = [value or out.load(from_vector, elem, column)]
            if matrix is not None:
                at = out.place((row, matrix.type.cols), (column, 1))
                registers.insert(0, out.load(from_matrix, elem, at))
            made = body(out, registers, mask, elem)
            keep(out, made, to, out.place((row, target.type.cols), (column, 1)), mask, elem)
