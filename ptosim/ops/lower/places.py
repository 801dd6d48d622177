"""Operations that take each element from a place of its own, or bring it to one: gathers and
scatters by index and by pattern, transposes, triangles, the indices themselves, sorts and
histograms.

A register gathers elements of 32 bits by 32-bit indices and of 16 bits by 16-bit ones, which count
elements and have no sign."""

from __future__ import annotations

from itertools import pairwise

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.records import NamedTuple
from ptosim.ops.lower.operands import (
    NotExpandable,
    NotOfVectorUnit,
    TileUse,
    agree,
    expansion,
    extents,
    keep,
    row_major,
    scalar_of,
    tile,
    tile_of,
    valid,
    word,
)
from ptosim.ops.lower.writer import Writer, bits, mask_of, vreg
from ptosim.ops.tile.gather import KEPT
from ptosim.ops.tile.sort import counted_byte

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


def _by_width(elem: str) -> tuple[str, int]:
    """The elements that count lanes of a width, and how many lanes there are. Raises NotExpandable
    for lanes that nothing counts."""
    if bits(elem) not in _INDEX:
        raise NotExpandable(f"nothing counts lanes of {elem}")
    return _INDEX[bits(elem)], 2048 // bits(elem)


def _lanes(out: Writer, number: str) -> str:
    """0, 1, 2, … in the lanes of a register."""
    zero = out.constant(0, number)
    return out.once("vci", [zero, '{order = "ASC"}'], [number], vreg(number))


@expansion("pto.tgather")
def gathered(op: Operation, out: Writer) -> None:
    """dst = the elements of src, in memory order, that indices name; or what a pattern keeps."""
    form = op.variant.name if op.variant is not None else ""
    if form == "mask":
        _gathered_by_pattern(op, out)
    elif form == "index":
        _gathered_by_index(op, out)
    else:
        raise NotExpandable("the form that compares is described by documents only")


def _gathered_by_index(op: Operation, out: Writer) -> None:
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


@expansion("pto.tgatherb")
def gathered_blocks(op: Operation, out: Writer) -> None:
    """dst = blocks of 32 bytes of src at byte offsets: eight of them make a register."""
    source, offsets, target = (tile(op, name, out) for name in ("src", "offset", "dst"))
    row_major(offsets, target)
    if bits(offsets.elem) != 32:
        raise NotExpandable(f"offsets of {offsets.elem} are not taken")
    elem, lanes = target.elem, 2048 // bits(target.elem)
    table, kept = source.pointer(out, elem), target.pointer(out)
    places = offsets.pointer(out, "i32")
    rows, cols = valid(target)
    types = [f"!pto.ptr<{elem}, ub>", vreg("i32"), mask_of("i32")]
    with out.rows(rows) as row:
        for column, count in out.columns(cols, lanes):
            block = out.part(column, lanes // 8)
            at = out.place((row, offsets.type.cols), (block, 1))
            where = out.load(places, "i32", at)
            blocks = out.first(-(-count * 8 // lanes))
            found = out.op("vgatherb", [table, where, blocks], types, vreg(elem))
            at = out.place((row, target.type.cols), (column, 1))
            keep(out, found, kept, at, out.first(count, bits(elem)), elem)


class _Pattern(NamedTuple):
    """Along what a pattern selects (`row`: columns of each row), how far one of those is from the
    next, and the first of them."""

    axis: str
    step: int
    first: int


def _pattern(op: Operation) -> _Pattern:
    written = op.bound.get("direction")
    axis = getattr(written, "const", None) or word(op, "axis")
    if axis is None:
        raise NotExpandable("without an axis what is kept is packed over rows")
    kept = KEPT[str(word(op, "maskPattern"))]
    return _Pattern(str(axis), 4 // len(kept), kept[0])


def _gathered_by_pattern(op: Operation, out: Writer) -> None:
    source, target = tile(op, "src", out), tile(op, "dst", out)
    row_major(source, target)
    if bits(source.elem) != bits(target.elem) or source.name == target.name:
        raise NotExpandable("it is written out between two tiles of elements of one width")
    picked, elem, width = _pattern(op), target.elem, bits(target.elem)
    pitch, apart = source.type.cols, target.type.cols
    table, kept = source.pointer(out, elem), target.pointer(out)
    rows, cols = extents(target, out)
    in_rows = picked.axis == "row" and picked.step > 1
    steps = _steps(out, picked, source) if in_rows else ""
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            if in_rows:
                begin = out.place((row, pitch), (column, picked.step), (out.index(picked.first), 1))
                found = _gather(out, table, _moved(out, steps, begin, elem), mask, elem)
            else:
                line = (row, pitch * picked.step), (out.index(picked.first * pitch), 1)
                found = out.load(table, elem, out.place((column, 1), *line))
            keep(out, found, kept, out.place((row, apart), (column, 1)), mask, elem)


def _steps(out: Writer, picked: _Pattern, tile_: TileUse) -> str:
    """The places of what a pattern selects, from the first of a register on."""
    number, _ = _by_width(tile_.elem)
    if int(tile_.type.rows) * int(tile_.type.cols) > 1 << bits(number):
        raise NotExpandable(f"the tile has more elements than {number} counts")
    return out.with_constant("vmuls", _lanes(out, number), picked.step, number)


def _moved(out: Writer, steps: str, begin: str, elem: str) -> str:
    number, _ = _by_width(elem)
    first = out.number(begin, number)
    return out.scalar("vadds", steps, first, number, out.every(bits(number)), number)


@expansion("pto.tscatter")
def scattered(op: Operation, out: Writer) -> None:
    """The elements of src at places of dst that indices name, or a pattern; the rest is zero."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    row_major(source, target)
    if source.name == target.name:
        raise NotExpandable("the tile is scattered over itself")
    is_by_index = op.variant is None or op.variant.name != "mask"
    picked = None if is_by_index else _pattern(op)
    in_rows = picked is not None and picked.axis == "row" and picked.step > 1
    elem, (number, lanes) = target.elem, _by_width(target.elem)
    indices = tile(op, "indices", out) if is_by_index else None
    if indices is not None:
        row_major(indices)
    steps = _steps(out, picked, target) if in_rows and picked is not None else ""
    if picked is None or picked.step > 1:
        _zeroed(out, target)
    here, kept = source.pointer(out), target.pointer(out)
    places = indices.pointer(out) if indices is not None else ""
    rows, cols = extents(source, out)
    with out.rows(rows) as row:
        for column, count in out.columns(cols, lanes):
            mask = out.first(count, bits(elem))
            value = out.load(here, elem, out.place((row, source.type.cols), (column, 1)))
            if indices is not None:
                at = out.place((row, indices.type.cols), (column, 1))
                index = out.load(places, indices.elem, at)
                _scatter(out, value, kept, out.cast(index, indices.elem, number), mask, elem)
            elif in_rows and picked is not None:
                begin = (column, picked.step), (out.index(picked.first), 1)
                at = out.place((row, target.type.cols), *begin)
                _scatter(out, value, kept, _moved(out, steps, at, elem), mask, elem)
            else:
                assert picked is not None
                pitch = target.type.cols
                line = (row, pitch * picked.step), (out.index(picked.first * pitch), 1)
                keep(out, value, kept, out.place((column, 1), *line), mask, elem)


def _zeroed(out: Writer, target: TileUse) -> None:
    """Clear the whole of a tile, and order what is stored later after it."""
    elem, kept = target.elem, target.pointer(out)
    zero = out.everywhere(0 if elem.lstrip("su").startswith("i") else "0.0", elem)
    count = int(target.type.rows) * int(target.type.cols)
    for column, some in out.columns(count, 2048 // bits(elem)):
        keep(out, zero, kept, column, out.first(some, bits(elem)), elem)
    out.op("mem_bar", ['"VST_VST"'])


def _scatter(out: Writer, value: str, pointer: str, index: str, mask: str, elem: str) -> None:
    types = [vreg(elem), f"!pto.ptr<{elem}, ub>", vreg(_INDEX[bits(elem)]), mask_of(elem)]
    out.op("vscatter", [value, pointer, index, mask], types)


_FAR = 30_000
"""Beyond the lanes of any register, and within 16 bits."""


@expansion("pto.ttri")
def triangle(op: Operation, out: Writer) -> None:
    """dst[r, c] = 1 on one side of a diagonal and on it, else 0."""
    target = tile(op, "dst", out)
    row_major(target)
    elem, (number, lanes) = target.elem, _by_width(target.elem)
    is_whole = elem.lstrip("su").startswith("i")
    one, zero = (out.everywhere(v if is_whole else f"{v}.0", elem) for v in (1, 0))
    diagonal, far = _diagonal(op, out), (out.index(-_FAR), out.index(_FAR))
    side = "ge" if word(op, "upperOrLower") else "le"
    kept, counted_ = target.pointer(out), _lanes(out, number)
    rows, cols = extents(target, out)
    with out.rows(rows) as row:
        for column, count in out.columns(cols, lanes):
            at = out.place((row, 1), (diagonal, 1), (column, -1))
            last = out.number(out.between(at, *far), number)
            items = [counted_, last, out.every(bits(elem)), f'"{side}"']
            inside = out.op("vcmps", items, [vreg(number), number, mask_of(elem)], mask_of(elem))
            made = out.select(one, zero, inside, elem)
            mask = out.first(count, bits(elem))
            keep(out, made, kept, out.place((row, target.type.cols), (column, 1)), mask, elem)


def _diagonal(op: Operation, out: Writer) -> str:
    """The number of the diagonal as an index."""
    given = op.bound["diagonal"]
    if isinstance(given, Operand) and isinstance(given.const, int):
        return out.index(given.const)
    if not isinstance(given, Operand) or given.value is None:
        raise NotExpandable("the diagonal has no name")
    return out.as_index(f"%{given.value.name}", str(given.type))


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
    steps = out.with_constant("vmuls", _lanes(out, number), cols, number)
    with out.rows(cols) as row:
        for column, count in out.columns(rows, 2048 // width):
            mask = out.first(count, width)
            first = out.number(out.place((column, cols), (row, 1)), number)
            index = out.scalar("vadds", steps, first, number, out.every(width), number)
            found = _gather(out, table, index, mask, elem)
            keep(out, found, kept, out.place((row, target.type.cols), (column, 1)), mask, elem)


@expansion("pto.tci")
def counted(op: Operation, out: Writer) -> None:
    """dst = scalar, scalar + 1, …, or downwards (0, 1, … times -1, and the scalar added): with
    scratch; without it the scalar unit stores them."""
    if op.bound.get("tmp") is None:
        raise NotOfVectorUnit("without scratch it is done by the scalar unit")
    target, is_down = tile(op, "dst", out), bool(word(op, "descending"))
    row_major(target)
    elem = target.elem
    if elem not in _INDEX.values():
        raise NotExpandable(f"numbers of {elem} are not counted in a register")
    value, type_ = scalar_of(op, elem)
    kept, cols = target.pointer(out), extents(target, out)[1]
    for column, count in out.columns(cols, 2048 // bits(elem)):
        mask = out.first(count, bits(elem))
        start = out.constant(0, elem) if is_down else value
        lanes = out.once(
            "vci", [start, '{order = "ASC"}'], [elem if is_down else type_], vreg(elem)
        )
        made = out.scalar("vadds", lanes, out.number(column, elem), elem, mask, elem)
        if is_down:
            made = out.with_constant("vmuls", made, -1, elem)
            made = out.scalar("vadds", made, value, type_, mask, elem)
        keep(out, made, kept, column, mask, elem)


# -- sorts: instructions on memory, without a region -----------------------------------------------
#
# A record has 8 bytes: a score, and an index in the last four. What is sorted first where a score
# is NaN no document says, of tiles nor of instructions.

_BLOCK = 32
_MOST_REPEATS = 255


@expansion("pto.tsort32")
def sorted_blocks(op: Operation, out: Writer) -> None:
    """Each 32 elements of src as records, sorted downwards."""
    source, indices, target = (tile(op, name, out) for name in ("src", "idx", "dst"))
    row_major(source, indices, target)
    rows, cols = valid(source)
    places, _ = valid(indices)
    if cols % _BLOCK:
        raise NotExpandable("a partial block is filled up, and no memory is there for it")
    if places not in (1, rows):
        raise NotExpandable("the indices have another number of rows")
    pitches = source.type.cols, 0 if places == 1 else indices.type.cols, target.type.cols
    with out.outside():
        pointers = [source.pointer(out), indices.pointer(out), target.pointer(out)]
        with out.rows(rows) as row:
            for first in range(0, cols, _BLOCK * _MOST_REPEATS):
                count = min(cols - first, _BLOCK * _MOST_REPEATS)
                step = 64 // bits(target.elem)  # elements of a record
                starts = (first, first, first * step)
                here, index, there = (
                    _from(out, pointer, use.elem, out.place((row, pitch), (out.index(at), 1)))
                    for pointer, use, pitch, at in zip(
                        pointers, (source, indices, target), pitches, starts, strict=True
                    )
                )
                types = [f"!pto.ptr<{use.elem}, ub>" for use in (target, source, indices)]
                repeat = out.index(count // _BLOCK)
                out.op("vbitsort", [there, here, index, repeat], [*types, "index"])


def _from(out: Writer, pointer: str, elem: str, at: str) -> str:
    type_ = f"!pto.ptr<{elem}, ub>"
    name = out.name()
    out.body.op("pto.addptr", [pointer, at], [type_], results=[name], arrow=[type_])
    return name


@expansion("pto.tmrgsort")
def merged(op: Operation, out: Writer) -> None:
    """Sorted lists of records as one: each four runs of a tile, or up to four tiles."""
    target = tile(op, "dst", out)
    row_major(target)
    if target.elem != "f32":
        raise NotExpandable("an instruction merges records by scores of f32")
    if op.variant is not None and op.variant.name == "runs":
        _runs_merged(op, out, target)
    else:
        _lists_merged(op, out, target)


def _runs_merged(op: Operation, out: Writer, target: TileUse) -> None:
    source, written = tile(op, "src", out), op.bound["blockLen"]
    length = written.const if isinstance(written, Operand) else None
    _, cols = valid(source)
    if not isinstance(length, int) or source.name == target.name:
        raise NotExpandable("it is written out between two tiles, of runs of a known length")
    with out.outside():
        here, there = source.pointer(out), target.pointer(out)
        for group in range(0, cols, 4 * length):
            ends = [min(group + k * length, cols) for k in range(5)]
            sizes = [(b - a) // 2 for a, b in pairwise(ends)]
            starts = [_from(out, here, "f32", out.index(at)) for at in ends[:4]]
            _merge(out, _from(out, there, "f32", out.index(group)), starts, sizes)


def _lists_merged(op: Operation, out: Writer, target: TileUse) -> None:
    """Into scratch, from where the destination takes what it has room for."""
    names = [f"srcs[{number}]" for number in range(len(op.bound["srcs"]))]
    if op.bound.get("excuted") is not None:
        raise NotExpandable("what it took of each list is not handed on")
    sources = [tile_of(operand, names[n], out) for n, operand in enumerate(op.bound["srcs"])]
    sizes = [valid(use)[1] // 2 for use in sources]
    (_, cols), total = valid(target), sum(sizes)
    has_room = op.bound.get("tmp") is not None
    if not has_room and 2 * total != cols:
        raise NotExpandable("the merged list has no room but the destination, of another size")
    into = tile(op, "tmp", out) if has_room else target
    if any(use.name == into.name for use in sources):
        raise NotExpandable("a list is merged in its own place")
    stops = bool(op.attributes.get("exhausted"))
    with out.outside():
        starts = [use.pointer(out) for use in sources]
        _merge(out, into.pointer(out), [*starts, *starts[:1] * (4 - len(starts))], sizes, stops)
    if has_room:
        here, there = into.pointer(out), target.pointer(out)
        for column, count in out.columns(cols, 64):
            keep(out, out.load(here, "f32", column), there, column, out.first(count), "f32")


def _merge(
    out: Writer, there: str, starts: list[str], sizes: list[int], stops: bool = False
) -> None:
    """One merge of up to four lists; a word has their lengths, another one which there are."""
    if max(sizes) >= 1 << 16:
        raise NotExpandable("a list has more records than an instruction counts")
    lengths = sum(size << 16 * number for number, size in enumerate(sizes))
    present = sum(1 << number for number, size in enumerate(sizes) if size)
    words = [out.constant(w, "i64") for w in (lengths, 1 | present << 8 | stops << 12)]
    pointer = "!pto.ptr<f32, ub>"
    out.op("vmrgsort4", [there, *starts, *words], [*[pointer] * 5, "i64", "i64"])


# -- histograms ------------------------------------------------------------------------------------

_KEYS = 256
"""Keys that are looked at together: a register of each byte of theirs."""


@expansion("pto.thistogram")
def counted_bytes(op: Operation, out: Writer) -> None:
    """dst[r, b] = how many keys of row r have a byte not above b, of those whose higher bytes are
    what idx says: of 16-bit keys for each row, of 32-bit keys for each column."""
    source, filters, target = (tile(op, name, out) for name in ("src", "idx", "dst"))
    row_major(source, target)
    rows, cols = valid(source)
    if 0 in (rows, cols) or cols >= 1 << 16:
        raise NotExpandable("a row has no keys, or more than 16 bits count")
    size = bits(source.elem) // 8
    place = counted_byte(op, size)
    keys = _Keys(out, source, filters, size)
    there, zero = target.pointer(out), out.everywhere(0, "ui16")
    types = [vreg("ui16"), vreg("ui8"), mask_of("ui8"), "i32"]
    with out.rows(rows) as row:
        totals = [zero, zero]
        for first in range(0, cols, _KEYS):
            parts = keys.parts(row, first)
            mask = out.first(min(_KEYS, cols - first), 8)
            for byte in range(size - 1, place, -1):
                mask = keys.having(parts[byte], row, first, size - 1 - byte, mask)
            for side in (0, 1):
                items = [totals[side], parts[place], mask, out.constant(side, "i32")]
                totals[side] = out.op("chistv2", items, types, vreg("ui16"))
        for side, total in enumerate(totals):
            for number, words in enumerate(out.spread("vintlv", total, zero, "ui16")):
                at = out.place((row, target.type.cols), (out.index(128 * side + 64 * number), 1))
                made = out.cast(words, "ui16", target.elem)
                keep(out, made, there, at, out.every(32), target.elem)


class _Keys:
    """The keys of a histogram: their bytes, and what the higher ones must be."""

    def __init__(self, out: Writer, source: TileUse, filters: TileUse, size: int) -> None:
        self.out, self.source, self.filters, self.size = out, source, filters, size
        self.here = source.pointer(out, "ui8")
        self.wanted = filters.pointer(out)

    def parts(self, row: str, first: int) -> list[str]:
        """Return a register of each byte of _KEYS keys, the lowest one first."""
        pitch = self.source.type.cols * self.size
        at = (row, pitch), (self.out.index(first * self.size), 1)
        v, words = vreg("ui8"), '"DINTLV_B8"'
        pairs = []
        for number in range(self.size // 2):
            place = self.out.place(*at, (self.out.index(512 * number), 1))
            items = [self.out.at(self.here, place), words]
            pairs.append(self.out.pair("vldsx2", items, ["!pto.ptr<ui8, ub>"], [v, v]))
        if self.size == 2:
            return list(pairs[0])
        (even, odd), (more_even, more_odd) = pairs
        zero, two = self.out.spread("vdintlv", even, more_even, "ui8")
        one, three = self.out.spread("vdintlv", odd, more_odd, "ui8")
        return [zero, one, two, three]

    def having(self, part: str, row: str, first: int, number: int, mask: str) -> str:
        """Return the keys of a mask whose byte, the `number`-th from above, is the wanted one."""
        out, v, m = self.out, vreg("ui8"), mask_of("ui8")
        if self.size == 2:
            wanted = out.load(self.wanted, "ui8", out.place((row, 1)), "BRC_B8")
        else:
            at = out.index(number * self.filters.type.cols + first)
            wanted = out.load(self.wanted, "ui8", at)
        return out.op("vcmp", [part, wanted, mask, '"eq"'], [v, v, m], m)
