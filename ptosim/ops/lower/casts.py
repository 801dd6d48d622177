"""TCVT: elements in 32-bit lanes, so that every width is a load that spreads and a store that
packs.

A 64-bit element takes two such lanes. What the vector unit's conversion does differently is
repaired with a select: with saturation it makes 0 of NaN, the tile operation keeps NaN."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType
from ptosim.ground.isa.conversions import conversion, conversion_name, saturation
from ptosim.ground.records import dataclass
from ptosim.ops.lower.operands import (
    NotExpandable,
    TileUse,
    expansion,
    extents,
    pitch_of_column,
    row_major,
    tile,
    valid,
)
from ptosim.ops.lower.writer import MASK, Open, Writer, bits, vreg

# 4-bit floats in 32-bit lanes. The vector unit's arithmetic does what no instruction here does.

_SIGN, _MAGNITUDE = 0x80000000, 0x7FFFFFFF
NAN_CODE = 7


_OF_SIGNS = {"F": "FC", "C": "CF"}
"""The letters that a magnitude is rounded by, of a positive and of a negative number."""


def encode(out: Writer, value: str, elem: str, letter: str = "R") -> str:
    """Return codes (i32 lanes) of f32 lanes, rounded by a letter of `vcvt` (R, A, F, C, Z),
    saturated, NaN as 7."""
    bits = out.cast(value, "f32", "i32")
    size = out.binary("vand", bits, out.everywhere(_MAGNITUDE), out.every(), "i32")
    magnitude = _e2m1 if elem == "f4E2M1FN" else _e1m2
    by = _OF_SIGNS.get(letter, letter)
    made = [magnitude(out, size, each) for each in by]
    below = out.compare(bits, 0, "lt")
    code = made[0] if len(made) == 1 else out.select(made[1], made[0], below, "i32")
    negative = out.binary("vor", code, out.everywhere(8), out.every(), "i32")
    signed = out.select(negative, code, below, "i32")
    nan = out.compare(size, 0x7F800000, "gt")
    return out.select(out.everywhere(NAN_CODE), signed, nan, "i32")


def _e2m1(out: Writer, size: str, letter: str) -> str:
    if letter != "R":
        return _e2m1_in_steps(out, size, letter)
    # |x| plus the power of two whose unit in the last place is the step of the grid at |x|.
    exponent = _octave(out, size)
    magic = out.shift("vshls", out.with_constant("vadds", exponent, 22), 23)
    total = out.binary(
        "vadd", out.cast(size, "i32", "f32"), out.cast(magic, "i32", "f32"), out.every(), "f32"
    )
    steps = out.binary("vsub", out.cast(total, "f32", "i32"), magic, out.every(), "i32")
    return _code_of_steps(out, steps, exponent)


def _e2m1_in_steps(out: Writer, size: str, letter: str) -> str:
    """|x| divided by the step of the grid, which is exact, as an integer by any mode."""
    exponent = _octave(out, size)
    less = out.binary("vsub", out.everywhere(255), exponent, out.every(), "i32")
    inverse = out.cast(out.shift("vshls", less, 23), "i32", "f32")
    steps = out.binary("vmul", out.cast(size, "i32", "f32"), inverse, out.every(), "f32")
    return _code_of_steps(out, _at_most_seven(out, steps, letter), exponent)


def _octave(out: Writer, size: str) -> str:
    """The biased exponent, which gives the step of the grid: that of 1, 2 or 4."""
    exponent = out.shift("vshrs", size, 23)
    return out.with_constant("vmins", out.with_constant("vmaxs", exponent, 127), 129)


def _code_of_steps(out: Writer, steps: str, exponent: str) -> str:
    octave = out.shift("vshls", out.with_constant("vadds", exponent, -127), 1)
    return out.with_constant("vmins", out.binary("vadd", steps, octave, out.every(), "i32"), 7)


def _e1m2(out: Writer, size: str, letter: str) -> str:
    """A grid of quarters."""
    quarters = out.with_constant("vmuls", out.cast(size, "i32", "f32"), "4.0", "f32")
    return _at_most_seven(out, quarters, letter)


def _at_most_seven(out: Writer, value: str, letter: str) -> str:
    """At most 7, the largest code."""
    steps = out.convert(value, "f32", "si32", rnd=letter)
    return out.with_constant("vmins", out.cast(steps, "si32", "i32"), 7)


def pack(out: Writer, codes: str) -> str:
    """Return the bytes (lanes 0 to 31) of 64 codes: even elements in the low half."""
    even, odd = out.spread("vdintlv", codes, codes, "i32")
    return out.binary("vor", even, out.shift("vshls", odd, 4), out.every(), "i32")


def unpack(out: Writer, packed: str) -> str:
    """Return the 64 codes of 32 bytes (i32 lanes)."""
    low = out.binary("vand", packed, out.everywhere(15), out.every(), "i32")
    return out.spread("vintlv", low, out.shift("vshrs", packed, 4), "i32")[0]


def decode(out: Writer, codes: str, elem: str) -> str:
    """Return f32 patterns (i32 lanes) of codes."""
    size = out.binary("vand", codes, out.everywhere(7), out.every(), "i32")
    if elem == "f4E2M1FN":
        # The fields of the code are those of a float whose exponents are 126 too small.
        low = out.cast(out.shift("vshls", size, 22), "i32", "f32")
        value = out.with_constant("vmuls", low, "0x7E800000", "f32")
    else:
        whole = out.convert(out.cast(size, "i32", "si32"), "si32", "f32")
        value = out.with_constant("vmuls", whole, "0.25", "f32")
    sign = out.binary(
        "vand", out.shift("vshls", codes, 28), out.everywhere(_SIGN - (1 << 32)), out.every(), "i32"
    )
    return out.binary("vor", out.cast(value, "f32", "i32"), sign, out.every(), "i32")


_LETTERS = {
    "RINT": "R", "CAST_RINT": "R", "ROUND": "A", "FLOOR": "F", "CEIL": "C", "TRUNC": "Z",
    "ODD": "O",
}  # fmt: skip
_LOADS = {8: "UNPK4_B8", 16: "UNPK_B16", 32: "NORM", 64: "NORM"}
_STORES = {8: "PK4_B32", 16: "PK_B32", 32: "NORM_B32"}
_FLOATS = ("f32", "f16", "bf16")
_CODES = ("f8E4M3FN", "f8E5M2", "hif8")
_FP4 = ("f4E2M1FN", "f4E1M2FN")

# Without saturation these go through a saturated 32-bit integer, whose low bits stay.
_BY_WORD = {("f16", "i16"), ("f16", "i8"), ("f16", "ui8"), ("f32", "i16")}


@dataclass(frozen=True, slots=True)
class Request:
    """What is converted: element types, the letter of the rounding, saturation."""

    src: str
    dst: str
    letter: str
    saturates: bool


@expansion("pto.tcvt")
def tcvt(op: Operation, out: Writer) -> None:
    """dst = src in another element type."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    row_major(source, target)
    request = _request(op, source, target)
    if 0 in (source.type.v_row, source.type.v_col):
        return
    if request.dst in _FP4 or request.src in _FP4:
        _four_bits(out, source, target, request)
    else:
        _each(out, source, target, request)


@expansion("pto.tdequant")
def tdequant(op: Operation, out: Writer) -> None:
    """dst[r, c] = (src[r, c] - offset[r]) * scale[r] in f32, each step rounded."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    parameters = [tile(op, name, out) for name in ("offset", "scale")]
    row_major(source, target)
    (rows, cols), lanes = extents(source, out), 2048 // 32
    if isinstance(cols, Open) or (cols > lanes and cols % lanes):
        raise NotExpandable("the last part of a row is stored whole by the library")
    name = conversion_name(source.type.dtype)
    wide = f"{'u' if name[0] == 'u' else 's'}i32"
    code = f"ui{bits(name)}" if name[0] == "u" else f"si{bits(name)}"
    here, there = source.pointer(out), target.pointer(out)
    columns = [use.pointer(out) for use in parameters]
    with out.rows(rows) as row:
        given = [
            out.load(pointer, "f32", out.place((row, pitch_of_column(use))), "BRC_B32")
            for pointer, use in zip(columns, parameters, strict=True)
        ]
        for column, count in out.columns(cols, lanes):
            at = out.place((row, source.type.cols), (column, 1))
            loaded = out.load(here, source.elem, at, _LOADS[bits(name)])
            whole = out.convert(out.cast(loaded, source.elem, code), code, wide, _part(code, wide))
            made = out.convert(out.cast(whole, wide, "si32"), "si32", "f32")
            for word, value in zip(("vsub", "vmul"), given, strict=True):
                made = out.binary(word, made, value, out.every(), "f32")
            at = out.place((row, target.type.cols), (column, 1))
            out.store(made, "f32", there, "f32", at, out.first(count), "NORM_B32")


def _request(op: Operation, source: TileUse, target: TileUse) -> Request:
    src, dst = (_single(use.type.dtype) for use in (source, target))
    given = op.attributes["rmode"] or "RINT"  # the member, also where the text has its number
    if src == dst == "f32":
        return Request(src, dst, _LETTERS.get(str(given), "R"), True)
    row = conversion(source.type.dtype, target.type.dtype, "a5")
    if row is None:
        raise NotExpandable(f"a5 has no conversion of {source.type.dtype} to {target.type.dtype}")
    to_integer = src in _FLOATS and dst not in (*_FLOATS, *_CODES, *_FP4)
    if given == "NONE" or (given == "ODD" and (src, dst) != ("f32", "f16")):
        given = "TRUNC" if to_integer else "RINT"
    letter = _LETTERS[str(given)]
    if src not in _FLOATS or dst in _CODES:
        letter = "A" if dst == "hif8" else "R"
    return Request(src, dst, letter, saturation(op, row, "a5", "policy").saturates)


def _single(dtype: DType) -> str:
    """The format of an element, of one that is a pair that of each half."""
    name = conversion_name(dtype)
    return f"{name.removesuffix('x2')}FN" if dtype.kind == "packed" else name


def register_type(name: str) -> str:
    """Return the lanes that hold elements of a format: signed integers by their own word."""
    return f"s{name}" if name[0] == "i" else name


def _each(out: Writer, source: TileUse, target: TileUse, request: Request) -> None:
    """Loops over rows and registers of a row; one loop where both tiles are runs of memory."""
    src, dst = request.src, request.dst
    rows, cols = extents(source, out)
    is_run = source.type.cols == cols == target.type.cols
    if is_run and isinstance(rows, int) and isinstance(cols, int):
        rows, cols = min(rows, 1), rows * cols
    wide = 64 in (bits(src), bits(dst))
    load = "UNPK_B32" if wide and bits(src) == 32 else _LOADS[bits(src)]
    reads = f"ui{bits(src)}" if src in _CODES else source.elem
    writes = f"ui{bits(dst)}" if dst in _CODES else target.elem
    here, there = source.pointer(out, reads), target.pointer(out, writes)
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 32 if wide else 64):
            at = out.place((row, source.type.cols), (column, 1))
            given = out.load(here, reads, at, load, register_type(src))
            result = _value(out, given, request)
            at = out.place((row, target.type.cols), (column, 1))
            _store(out, result, request, (there, writes), at, out.first(count))


def _store(
    out: Writer, value: str, request: Request, to: tuple[str, str], at: str, chosen: str
) -> None:
    lanes, (pointer, elem) = register_type(request.dst), to
    if bits(request.dst) == 64:  # the first 32 of the mask
        types = [vreg(lanes), f"!pto.ptr<{elem}, ub>", MASK]
        out.op("vsts", [value, out.at(pointer, at), chosen], types)
        return
    spread = bits(request.src) == 64 and request.dst == "f32"
    out.store(
        value, lanes, pointer, elem, at, chosen, "PK_B64" if spread else _STORES[bits(request.dst)]
    )


def _value(out: Writer, given: str, request: Request) -> str:
    """Return the converted lanes, the lowest part of each 32-bit (64-bit) lane."""
    src, dst, letter = request.src, request.dst, request.letter
    a, b = register_type(src), register_type(dst)
    if src == dst:
        return out.op("vtrc", [given, out.every(), f'"{letter}"'], [vreg(a), MASK], vreg(a))
    if (src, dst) == ("i64", "i32"):
        return _low_words(out, given, request.saturates)
    # From f16 to a 32-bit integer an instruction always saturates; f32 says whether.
    if (src, dst) == ("f16", "hif8") or ((src, dst) == ("f16", "i32") and not request.saturates):
        single = out.convert(given, "f16", "f32", "EVEN")
        return _value(out, single, Request("f32", dst, letter, request.saturates))
    part = _part(src, dst)
    if not request.saturates and (src, dst) in _BY_WORD:
        whole = out.convert(given, a, "si32", _part(src, "i32"), letter, "SAT")
        narrow = "ui8" if bits(dst) == 8 else "si16"
        low = out.convert(whole, "si32", narrow, _part("i32", dst), "R", "NOSAT")
        return out.cast(low, narrow, b)
    if src in _FLOATS and dst in _FLOATS and bits(b) <= bits(a) and request.saturates:
        return _keeping_nan(out, given, a, b, part, letter)
    if src in _FLOATS and dst in _CODES and request.saturates:
        return _keeping_nan_code(out, given, a, b, part, letter)
    return out.convert(given, a, b, part, letter, "SAT" if request.saturates else "NOSAT")


def _keeping_nan(out: Writer, given: str, a: str, b: str, part: str, letter: str) -> str:
    clamped = out.convert(given, a, b, part, letter, "SAT")
    ieee = out.convert(given, a, b, part, letter, "NOSAT")
    return out.select(ieee, clamped, out.nan(ieee, b), b)


def _keeping_nan_code(out: Writer, given: str, a: str, b: str, part: str, letter: str) -> str:
    """As `_keeping_nan`, of f32 to a float of 8 bits, which nothing selects or compares."""
    clamped = out.cast(out.convert(given, a, b, part, letter, "SAT"), b, "i32")
    ieee = out.cast(out.convert(given, a, b, part, letter, "NOSAT"), b, "i32")
    return out.cast(out.select(ieee, clamped, out.nan(given, a), "i32"), "i32", b)


def _low_words(out: Writer, given: str, saturates: bool) -> str:
    """The low halves of 64-bit lanes; saturated where the upper half says more than a sign."""
    both = out.cast(given, "si64", "si32")
    low, high = out.spread("vdintlv", both, both, "si32")
    if not saturates:
        return low
    v = vreg("si32")
    sign = out.shift("vshrs", low, 31, "si32")
    lost = out.op("vcmp", [high, sign, out.every(), '"ne"'], [v, v, MASK], MASK)
    # All ones for a negative number: its opposite is the largest one, its neighbor the smallest.
    negative = out.shift("vshrs", high, 31, "si32")
    largest = out.everywhere(0x7FFFFFFF, "si32")
    limit = out.binary("vxor", negative, largest, out.every(), "si32")
    return out.select(limit, low, lost, "si32")


def _part(src: str, dst: str) -> str:
    ratio = max(bits(src), bits(dst)) // min(bits(src), bits(dst))
    return {1: "", 2: "EVEN", 4: "P0"}[ratio]


def _four_bits(out: Writer, source: TileUse, target: TileUse, request: Request) -> None:
    """Two elements a byte, from and to bf16."""
    (rows, cols), to_code = valid(source), request.dst in _FP4
    pitch, target_pitch = (use.type.cols * _values(use) for use in (source, target))
    cols *= _values(source)
    if cols % 2 or (to_code and (target_pitch != cols or target.type.rows != rows)):
        raise NotExpandable("an odd width, or a tile with padding, which the library clears")
    reads, writes = ("bf16", "ui8") if to_code else ("ui8", "bf16")
    here, there = source.pointer(out, reads), target.pointer(out, writes)
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 64):
            at, goes_to = (out.place((row, each), (column, 1)) for each in (pitch, target_pitch))
            if to_code:
                given = out.shift("vshls", out.load(here, reads, at, "UNPK_B16", "i32"), 16)
                value = out.cast(given, "i32", "f32")
                code = encode(out, value, request.dst, request.letter)
                chosen = out.first(count // 2)
                packed, place = pack(out, code), out.part(goes_to)
                out.store(packed, "i32", there, writes, place, chosen, "PK4_B32")
                continue
            packed = out.load(here, reads, out.part(at), "UNPK4_B8", "i32")
            wide = decode(out, unpack(out, packed), request.src)
            short = out.shift("vshrs", wide, 16)
            out.store(short, "i32", there, writes, goes_to, out.first(count), "PK_B32")


def _values(use: TileUse) -> int:
    """How many values an element has."""
    return 2 if use.type.dtype.kind == "packed" else 1
