"""TQUANT to the microscaling formats, in the three stages of the A5 library: the largest magnitude
of each group, exponents and scales from it, and the scaled elements.

Magnitudes are compared as integers, so that NaN wins. Elements are widened to f32, whatever they
are. Stages 1 and 2 meet in the scratch tile of the maxima, stages 2 and 3 in that of the scales."""

from __future__ import annotations

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.records import dataclass
from ptosim.language.build import Typed
from ptosim.ops.lower import casts
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    expansion,
    row_major,
    tile,
    valid,
    word,
)
from ptosim.ops.lower.writer import Writer

# TQUANT to INT8: multiply, add, and the chain of conversions of the A5 library (f32, i32, f32, f16,
# 8 bits), whose first step saturates and whose last one rounds a second time.


def int8(op: Operation, out: Writer) -> None:
    """q = saturate(round(x * scale[r] [+ offset[r]]))."""
    source, target, scale = tile(op, "src", out), tile(op, "dst", out), tile(op, "fp", out)
    offset = tile(op, "offset", out) if isinstance(op.bound.get("offset"), Operand) else None
    kind = word(op, "quant_type")
    unsigned = kind == "INT8_ASYM" or (kind is None and target.type.dtype.kind == "uint")
    if unsigned and offset is None:
        raise NotExpandable("scale and offset share a tile")
    row_major(source, target)
    if scale.type.rows * scale.type.cols == 1 and source.type.rows > 1:
        raise NotExpandable("one scale for all rows is no form of the library")
    rows, cols = valid(source)
    if rows == 0 or cols == 0:
        return
    codes = "ui8" if unsigned else "si8"
    x, q, by = source.pointer(out), target.pointer(out, codes), scale.pointer(out)
    shift = offset.pointer(out) if offset else None
    with out.loop(rows) as row:
        factor = out.load(by, "f32", row, "BRC_B32")
        zero = out.load(shift, "f32", row, "BRC_B32") if shift else None
        for column, count in out.columns(cols, 64):
            value = out.load(x, "f32", out.place((row, source.type.cols), (column, 1)))
            value = out.binary("vmul", value, factor, out.every(), "f32")
            if zero:
                value = out.binary("vadd", value, zero, out.every(), "f32")
            value = out.convert(value, "f32", "si32")
            value = out.convert(value, "si32", "f32")
            value = out.convert(value, "f32", "f16", "EVEN")
            value = out.convert(value, "f16", codes, "EVEN")
            at = out.place((row, target.type.cols), (column, 1))
            out.store(value, codes, q, codes, at, out.first(count), "PK4_B32")


GROUP = 32
_ALGORITHMS = {
    "OcpMxFp8E4M3": (8, False), "NvMxFp8E4M3": (8, True),
    "OcpMxFp4E2M1": (4, False), "NvMxFp4E2M1": (4, True),
}  # fmt: skip
_CTRL_AFTER = 1 << 50
_INF, _NAN = 0x7F800000, 0x7FC00000
_NAN_CODE = 0x7F
_WINDOW = 8
_SCRATCH_IN_EXPONENTS = 16


@dataclass(frozen=True, slots=True)
class Mx:
    """One quantisation: its tiles, extents and rule."""

    src: TileUse
    dst: TileUse
    exp: TileUse
    max: TileUse
    scaling: TileUse
    width: int  # bits of an element of the result
    nv: bool
    rows: int
    cols: int
    results: bool  # maxima and scales are results (tquant.mx): what is after them is undefined

    @property
    def elem(self) -> str:
        """Element type of the source."""
        return self.src.elem

    @property
    def words(self) -> str:
        """Element type of the scratch tiles as bits."""
        return "i32" if self.elem == "f32" else "ui16"


@expansion("pto.tquant")
def tquant(op: Operation, out: Writer) -> None:
    """Integers with a scale for each row, or groups of 32 with a shared exponent."""
    if op.variant is not None and op.variant.name == "int8":
        int8(op, out)
        return
    _write(_described(op, out), out, op, word(op, "grp_axis") == 0)


@expansion("pto.tquant.mx")
def tquant_mx(op: Operation, out: Writer) -> None:
    """Groups of 32 with a shared exponent; every result is a tile of the program."""
    if isinstance(op.bound.get("exp_zz"), Operand):
        raise NotExpandable("the library has no body for exp_zz")
    src, dst = tile(op, "src", out), tile(op, "dst", out)
    tiles = (src, dst, tile(op, "exp", out), tile(op, "max", out), tile(op, "scaling", out))
    rows, cols = valid(src)
    along_columns = word(op, "grpAxis") == "axis0"
    if cols != src.type.cols or (along_columns and dst.type.cols * _numbers(dst) != src.type.cols):
        raise NotExpandable("a tile has padding")
    width = 4 if word(op, "quant_type") == "MXFP4_E2M1" else 8
    nv = str(word(op, "quantScaleAlg")).upper() == "NV"
    _write(Mx(*tiles, width, nv, rows, cols, True), out, op, along_columns)


def _numbers(use: TileUse) -> int:
    """Numbers in an element of a tile."""
    return getattr(use.type.dtype, "count", 1)


def _write(mx: Mx, out: Writer, op: Operation, along_columns: bool) -> None:
    pointers = Pointers(mx, out)
    if along_columns:
        _columns(mx, out, pointers, interleaved=bool(word(op, "interleave")))
    elif mx.exp.type.rows == 1:
        _flat(mx, out, pointers)
    else:
        _rows(mx, out, pointers)
    control = Typed(f"%{out.prefix}ctrl", "i64")
    out.after.constant(control.name, _CTRL_AFTER, control.type)
    out.after.op("pto.set_ctrl", [control])


def _described(op: Operation, out: Writer) -> Mx:
    for name in ("max", "scaling"):
        if not isinstance(op.bound.get(name), Operand):
            raise NotExpandable(
                f"the operand {name} is left out, and a region has no memory of its own"
            )
    src, dst = tile(op, "src", out), tile(op, "dst", out)
    algorithm = word(op, "mx_alg")
    if algorithm in _ALGORITHMS:
        width, nv = _ALGORITHMS[str(algorithm)]
    else:
        kind = word(op, "quant_type")
        four = kind == "MXFP4_E2M1" or (kind is None and dst.type.dtype.bits == 4)
        width, nv = 4 if four else 8, word(op, "scale_alg") == "NV"
    rows, cols = valid(src)
    if src.type.blayout != "row_major" or cols != src.type.cols or rows == 0 or cols % GROUP:
        raise NotExpandable("the source has padding, or no rows")
    return Mx(
        src,
        dst,
        tile(op, "exp", out),
        tile(op, "max", out),
        tile(op, "scaling", out),
        width,
        nv,
        rows,
        cols,
        False,
    )


class Pointers:
    """Pointers to the five tiles, typed as the instructions use them."""

    def __init__(self, mx: Mx, out: Writer) -> None:
        self.src = mx.src.pointer(out, "f32" if mx.elem == "f32" else "ui16")
        self.dst = mx.dst.pointer(out, "ui8")
        self.exp = mx.exp.pointer(out, "ui8")
        self.max = mx.max.pointer(out, mx.words)
        self.scaling = mx.scaling.pointer(out, mx.words)


def _patterns(mx: Mx, out: Writer, p: Pointers, at: str) -> str:
    """Bit patterns of elements without their sign, in i32 lanes."""
    if mx.elem == "f32":
        bits = out.cast(out.load(p.src, "f32", at), "f32", "i32")
    else:
        bits = out.load(p.src, "ui16", at, "UNPK_B16", "i32")
    keep = 0x7FFFFFFF if mx.elem == "f32" else 0x7FFF
    return out.binary("vand", bits, out.everywhere(keep), out.every(), "i32")


def _widened(mx: Mx, out: Writer, bits: str) -> str:
    """f32 patterns (i32 lanes) of patterns of the source's type."""
    if mx.elem == "f32":
        return bits
    if mx.elem == "bf16":
        return out.shift("vshls", bits, 16)
    single = out.convert(out.cast(bits, "i32", "f16"), "f16", "f32", "EVEN")
    return out.cast(single, "f32", "i32")


# -- exponents and scales -------------------------------------------------------------------------


def _exponents(mx: Mx, out: Writer, maxima: str) -> str:
    """Shared exponents from f32 patterns of the maxima."""
    if not mx.nv:
        emax = 8 if mx.width == 8 else 2
        above = out.with_constant("vmaxs", out.shift("vshrs", maxima, 23), emax)
        exponent = out.with_constant("vadds", above, -emax)
        return out.select(out.everywhere(255), exponent, out.compare(maxima, _INF, "gt"), "i32")
    reciprocal = "0x3B124925" if mx.width == 8 else "0x3E2AAAAB"
    quotient = out.with_constant("vmuls", out.cast(maxima, "i32", "f32"), reciprocal, "f32")
    bits = out.binary(
        "vand", out.cast(quotient, "f32", "i32"), out.everywhere(0x7FFFFFFF), out.every(), "i32"
    )
    exponent = out.shift("vshrs", bits, 23)
    fraction = out.binary("vand", bits, out.everywhere(0x7FFFFF), out.every(), "i32")
    up = out.compare(fraction, 0, "ne")
    up = out.compare(bits, 0x400000, "gt", up)
    up = out.compare(bits, 0x7F000000, "lt", up)
    exponent = out.select(out.with_constant("vadds", exponent, 1), exponent, up, "i32")
    return out.select(out.everywhere(254), exponent, out.compare(bits, _INF, "eq"), "i32")


def _scales(out: Writer, exponents: str) -> tuple[str, str]:
    """f32 patterns of 2^(127 - e), and the mask of the groups that are NaN."""
    rest = out.binary("vsub", out.everywhere(254), exponents, out.every(), "i32")
    small = out.compare(exponents, 254, "eq")
    scale = out.select(out.everywhere(0x400000), out.shift("vshls", rest, 23), small, "i32")
    nan = out.compare(exponents, 255, "eq")
    return out.select(out.everywhere(_NAN), scale, nan, "i32"), nan


def _results(mx: Mx, out: Writer, raw: str) -> tuple[str, str, str]:
    """Maxima, exponents and scales (words of the scratch tiles) of groups, from raw maxima."""
    wide = _widened(mx, out, raw)
    if mx.elem == "f16" and not mx.nv:
        nan = out.compare(raw, 0x7C00, "gt")
        raw = out.select(out.everywhere(0x7FC0), out.shift("vshrs", wide, 16), nan, "i32")
        wide = out.shift("vshls", raw, 16)
    exponents = _exponents(mx, out, wide)
    scale, nan = _scales(out, exponents)
    if mx.elem != "f32":
        quiet = out.everywhere(0x7F81 if mx.width == 8 else 0x7FC0)
        scale = out.select(quiet, out.shift("vshrs", scale, 16), nan, "i32")
    return raw, exponents, scale


def _store_words(mx: Mx, out: Writer, pointer: str, value: str, at: str, chosen: str) -> None:
    dist = "NORM_B32" if mx.elem == "f32" else "PK_B32"
    out.store(value, "i32", pointer, mx.words, at, chosen, dist)


def _store_twice(out: Writer, p: Pointers, scale: str, at: str, count: int) -> None:
    """Each scale two times, as the unrolled loop of the library leaves them."""
    low, high = out.spread("vintlv", scale, scale, "i32")
    place = out.place((at, 2))
    out.store(low, "i32", p.scaling, "i32", place, out.first(min(2 * count, 64)), "NORM_B32")
    if count > 32:
        further = out.place((place, 1), (out.index(64), 1))
        rest = out.first(2 * count - 64)
        out.store(high, "i32", p.scaling, "i32", further, rest, "NORM_B32")


# -- elements -------------------------------------------------------------------------------------


def _third_stage(mx: Mx, out: Writer, p: Pointers, at: str, scale: str, count: int) -> None:
    """`count` elements from element `at` on, times their scales (f32 lanes), narrowed."""
    if mx.elem == "f32":
        x = out.load(p.src, "f32", at)
    else:
        x = out.cast(
            _widened(mx, out, out.load(p.src, "ui16", at, "UNPK_B16", "i32")), "i32", "f32"
        )
    product = out.binary("vmul", x, scale, out.every(), "f32")
    if mx.width == 4:
        code = casts.encode(out, product, "f4E2M1FN")
        chosen = out.first(count // 2)
        out.store(casts.pack(out, code), "i32", p.dst, "ui8", out.part(at), chosen, "PK4_B32")
        return
    # A conversion that saturates makes zero of NaN; the code of a NaN is 7F without a sign.
    code = out.cast(out.convert(product, "f32", "f8E4M3FN", "P0"), "f8E4M3FN", "i32")
    code = out.select(out.everywhere(_NAN_CODE), code, out.nan(product, "f32"), "i32")
    out.store(code, "i32", p.dst, "ui8", at, out.first(count), "PK4_B32")


def _one_scale(mx: Mx, out: Writer, p: Pointers, place: str) -> str:
    """The scale of a group in every lane, as f32."""
    if mx.elem == "f32":
        return out.cast(out.load(p.scaling, "i32", place, "BRC_B32"), "i32", "f32")
    both = out.load(p.scaling, "ui16", place, "BRC_B16", "i32")
    return out.cast(out.shift("vshls", both, 16), "i32", "f32")


def _scale_of_each(mx: Mx, out: Writer, p: Pointers, place: str) -> str:
    """The scales of 64 columns, as f32."""
    if mx.elem == "f32":
        return out.cast(out.load(p.scaling, "i32", place), "i32", "f32")
    short = out.load(p.scaling, "ui16", place, "UNPK_B16", "i32")
    return out.cast(out.shift("vshls", short, 16), "i32", "f32")


# -- places ---------------------------------------------------------------------------------------


def _barrier(out: Writer) -> None:
    out.op("mem_bar", ['"VST_VLD"'])


def _maxima(mx: Mx, out: Writer, p: Pointers, groups: int) -> None:
    """Stage 1: the maxima of all groups, densely."""
    few = out.first(GROUP)
    with out.loop(groups) as group:
        most = out.unary("vcmax", _patterns(mx, out, p, out.place((group, GROUP))), few, "i32")
        dist = "1PT_B32" if mx.elem == "f32" else "1PT_B16"
        out.store(most, "i32", p.max, mx.words, group, few, dist)
    _barrier(out)


def _load_words(mx: Mx, out: Writer, pointer: str, at: str) -> str:
    return out.load(pointer, mx.words, at, "NORM" if mx.elem == "f32" else "UNPK_B16", "i32")


def _elements(mx: Mx, out: Writer, p: Pointers, groups: int, *, twice: bool) -> None:
    """Stage 3 for groups along rows."""
    _barrier(out)
    with out.loop(groups) as group:
        scale = _one_scale(mx, out, p, out.place((group, 2)) if twice else group)
        _third_stage(mx, out, p, out.place((group, GROUP)), scale, GROUP)


def _flat(mx: Mx, out: Writer, p: Pointers) -> None:
    """Groups along rows, all of them densely in a one-row exponent tile."""
    groups = mx.rows * mx.cols // GROUP
    elements = mx.src.type.rows * mx.src.type.cols
    unrolled = mx.elem == "f32" and elements > 1024 and elements % 256 == 0
    twice = unrolled and mx.rows * mx.cols % 256 == 0 and not mx.results
    whole_steps = mx.elem == "f32" and not mx.nv and not twice and not mx.results
    if whole_steps and groups >= 64 and groups % 64:
        raise NotExpandable("the library writes whole steps of 64 groups here")
    _maxima(mx, out, p, groups)
    for at, count in out.columns(groups, 64):
        raw, exponents, scale = _results(mx, out, _load_words(mx, out, p.max, at))
        chosen = out.first(count)
        _store_words(mx, out, p.max, raw, at, chosen)
        out.store(exponents, "i32", p.exp, "ui8", at, chosen, "PK4_B32")
        if twice:
            _store_twice(out, p, scale, at, count)
        else:
            _store_words(mx, out, p.scaling, scale, at, chosen)
    _elements(mx, out, p, groups, twice=twice)


def _rows(mx: Mx, out: Writer, p: Pointers) -> None:
    """Groups along rows, a row of exponents for each row."""
    per_row = mx.cols // GROUP
    groups = mx.rows * per_row
    if not mx.results and per_row <= _WINDOW and groups * (4 if mx.elem == "f32" else 2) % 32:
        raise NotExpandable("the library leaves undefined bytes after the maxima")
    _maxima(mx, out, p, groups)
    with out.loop(mx.rows) as row:
        for column, count in out.columns(per_row, 64):
            at = out.place((row, per_row), (column, 1))
            raw, exponents, scale = _results(mx, out, _load_words(mx, out, p.max, at))
            chosen = out.first(count)
            _store_words(mx, out, p.max, raw, at, chosen)
            place = out.place((row, mx.exp.type.cols), (column, 1))
            out.store(exponents, "i32", p.exp, "ui8", place, chosen, "PK4_B32")
            _store_words(mx, out, p.scaling, scale, at, chosen)
    _elements(mx, out, p, groups, twice=False)
    if mx.elem != "f32":
        _windows(mx, out, p, per_row)


def _windows(mx: Mx, out: Writer, p: Pointers, per_row: int) -> None:
    """The library hands the scales of 8 groups at a time to its last stage through the start of the
    maxima, or, for few groups, after the exponents. What is there in the end are the last ones."""
    if mx.width == 8 and mx.rows * per_row < _WINDOW:
        with out.loop(mx.rows) as row:
            scale = _load_words(mx, out, p.scaling, out.place((row, per_row)))
            start = out.place((row, mx.exp.type.cols), (out.index(_SCRATCH_IN_EXPONENTS), 1))
            halves = out.op("castptr", [p.exp], ["!pto.ptr<ui8, ub>"], "!pto.ptr<ui16, ub>")
            _store_words(mx, out, halves, scale, out.part(start), out.first(per_row))
        return
    for start in range(0, per_row, _WINDOW):
        at = out.index((mx.rows - 1) * per_row + start)
        scale = _load_words(mx, out, p.scaling, at)
        count = min(_WINDOW, per_row - start)
        _store_words(mx, out, p.max, scale, out.index(0), out.first(count))


def _columns(mx: Mx, out: Writer, p: Pointers, *, interleaved: bool) -> None:
    """Groups along columns: 32 rows share an exponent."""
    groups = mx.rows // GROUP
    step = 2 if interleaved else 1
    with out.loop(groups, step) as group:
        for column, count in out.columns(mx.cols, 64):
            start = out.place((group, mx.cols), (column, 1))
            found = []
            for further in range(step):
                at = out.place((start, 1), (out.index(further * mx.cols), 1)) if further else start
                found.append(_column_groups(mx, out, p, at, column, count))
            if not interleaved:
                out.store(found[0], "i32", p.exp, "ui8", start, out.first(count), "PK4_B32")
                continue
            row = out.place((out.part(group), mx.exp.type.cols), (column, 2))
            low, high = out.spread("vintlv", found[0], found[1], "i32")
            out.store(low, "i32", p.exp, "ui8", row, out.first(min(2 * count, 64)), "PK4_B32")
            if count > 32:
                further = out.place((row, 1), (out.index(64), 1))
                rest = out.first(2 * count - 64)
                out.store(high, "i32", p.exp, "ui8", further, rest, "PK4_B32")
    _barrier(out)
    with out.loop(groups) as group:
        for column, count in out.columns(mx.cols, 64):
            scale = _scale_of_each(mx, out, p, out.place((group, mx.cols), (column, 1)))
            start = out.place((group, GROUP * mx.cols), (column, 1))
            with out.loop(GROUP) as row:
                at = out.place((row, mx.cols), (start, 1))
                _third_stage(mx, out, p, at, scale, count)


def _column_groups(mx: Mx, out: Writer, p: Pointers, place: str, column: str, count: int) -> str:
    """Maxima and scales of the groups whose results are at `place`; return their exponents."""
    # place = group * cols + column, so the first element is place * 32 - column * 31
    start = out.place((place, GROUP), (column, 1 - GROUP))

    def larger(row: str, most: str) -> str:
        bits = _patterns(mx, out, p, out.place((row, mx.cols), (start, 1)))
        return out.binary("vmax", most, bits, out.every(), "i32")

    raw, exponents, scale = _results(mx, out, out.fold(GROUP, out.everywhere(0), "i32", larger))
    chosen = out.first(count)
    _store_words(mx, out, p.max, raw, place, chosen)
    _store_words(mx, out, p.scaling, scale, place, chosen)
    return exponents
