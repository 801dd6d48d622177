"""The 52 launches of the assembler's run-time tests of logical vectors, written from the descriptions
of the data: what each computes, one function each."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.vmi_text import Text, Vec

PROGRAMS: dict[int, Callable[[Text], None]] = {}


def launch(*numbers: int) -> Callable[[Callable[[Text], None]], Callable[[Text], None]]:
    def register(write: Callable[[Text], None]) -> Callable[[Text], None]:
        PROGRAMS.update(dict.fromkeys(numbers, write))
        return write

    return register


# -- conversions --------------------------------------------------------------------------------------


@launch(1)
def twice_fp8(t: Text) -> None:
    wide = t.cast(t.load(0, 1000, elem="f8E4M3FN"), "f32")
    t.store(t.by("vmuls", wide, 2.0), 1, mask=t.first(1000, 1000))


def converts(number: int, count: int, src: str, dst: str, rounding: str = "") -> None:
    def write(t: Text) -> None:
        made = t.cast(t.load(0, count, elem=src), dst, rounding=rounding, sat="SAT")
        t.store(made, 1)

    launch(number)(write)


converts(2, 256, "f16", "si16")
converts(3, 256, "f32", "si32")
converts(4, 256, "f16", "ui8")
converts(46, 256, "f32", "f8E4M3FN")
converts(47, 256, "f32", "f8E4M3FN", "R")
converts(50, 256, "bf16", "f16")


def fp4(t: Text, form: str, count: int, rounding: str, offset: int = 0) -> None:
    """`count` bf16 from an offset on as pairs of 4 bits."""
    elem = "bf16" if t.args[0][1] == "bf16" else "ui8"
    if elem == "ui8":
        pairs = t.bits(t.load(0, 2 * count, 2 * offset), "bf16x2")
    else:
        pairs = t.bits(t.load(0, count, offset), "bf16x2")
    t.store(t.cast(pairs, form, rounding=rounding), 1, offset // 2)


launch(39)(lambda t: fp4(t, "f4E2M1x2", 128, "R"))
launch(40)(lambda t: fp4(t, "f4E1M2x2", 512, "R"))
launch(41)(lambda t: fp4(t, "f4E1M2x2", 128, "R"))
launch(43)(lambda t: fp4(t, "f4E1M2x2", 1000, "R"))


@launch(42)
def three_roundings(t: Text) -> None:
    for k, letter in enumerate("RAZ"):
        fp4(t, "f4E1M2x2", 128, letter, 128 * k)


@launch(44)
def half_to_f16(t: Text, rounding: str = "") -> None:
    half = t.by("vmuls", t.load(0, 1000), 0.5)
    t.store(t.cast(half, "f16", rounding=rounding, sat="SAT"), 1, mask=t.first(1000, 1000))


launch(45)(lambda t: half_to_f16(t, "R"))


@launch(36)
def copy_and_f16(t: Text) -> None:
    x, mask = t.load(0, 96), t.first(96, 96)
    t.store(x, 1, mask=mask)
    t.store(t.cast(x, "f16", sat="SAT"), 2)


# -- sums of groups -----------------------------------------------------------------------------------


def sums(t: Text, arg: int, count: int, groups: int, *, active: int | None = None) -> Vec:
    size = count // groups
    mask = t.every(count) if active is None else t.first_of_groups(groups, size, active)
    return t.total(t.load(arg, count), mask, groups)


@launch(5)
def three_sums(t: Text) -> None:
    for k, count in enumerate((64, 128, 256)):
        t.store(sums(t, k, count, 8), 3 + k)


launch(6)(lambda t: t.store(sums(t, 0, 128, 8), 1))
launch(11)(lambda t: t.store(sums(t, 0, 128, 8, active=12), 1))


@launch(48)
def sum_times_fp8(t: Text) -> None:
    total = t.total(t.cast(t.load(0, 256), "f32"), t.every(256))
    wide = t.cast(t.load(1, 256, elem="f8E4M3FN"), "f32")
    t.store(t.two("vmul", wide, t.op("vbrc", [total], wide)), 2)


@launch(7)
def rows_with_pitch(t: Text) -> None:
    mask = t.every(512)
    total = t.total(t.cast(t.rows(0, 2, 256, 320), "f32"), mask, 2)
    wide = t.cast(t.rows(1, 2, 256, 320, elem="f8E4M3FN"), "f32")
    product = t.two("vmul", t.spread(total, 512), wide)
    t.store(product, 2, stride=320, groups=2)


launch(8)(lambda t: t.store(sums(t, 0, 512, 2), 1))


@launch(9)
def sums_of_widened(t: Text) -> None:
    wide = t.op("extsi", [t.load(0, 128, elem="si16")], Vec("", 128, "si32"))
    t.store(t.total(wide, t.every(128), 8), 1)


@launch(10)
def sum_of_products(t: Text) -> None:
    x, mask = t.load(0, 128), t.first_of_groups(8, 16, 12)
    y = t.two("vmul", x, t.spread(t.total(x, mask, 8), 128))
    t.store(t.total(y, mask, 8), 1)


@launch(12)
def sums_to_all_lanes(t: Text) -> None:
    t.store(t.cast(t.spread(sums(t, 0, 128, 8), 128), "f16", sat="SAT"), 1)


@launch(13)
def two_tiles(t: Text) -> None:
    mask = t.every(256)
    for k in range(2):
        t.store(t.total(t.load(0, 256, 256 * k), mask, 8), 1, 8 * k)


@launch(14)
def slots_plus(t: Text) -> None:
    other = t.rows(1, 8, 1, 8)
    t.store(t.two("vadd", sums(t, 0, 512, 8), other), 2, stride=8, groups=8)


@launch(15)
def slots_to_f16(t: Text) -> None:
    t.store(t.cast(sums(t, 0, 512, 8), "f16", sat="SAT"), 1, stride=16, groups=8)


@launch(16)
def two_sums_plus(t: Text) -> None:
    more = t.load(2, 8)
    for k, count in enumerate((128, 256)):
        t.store(t.two("vadd", sums(t, k, count, 8), more), 3 + k)


@launch(17)
def loop_of_two(t: Text) -> None:
    start, more = t.load(0, 8), sums(t, 1, 128, 8)
    zero, two, one = t.const(0), t.const(2), t.const(1)
    t.line(
        f"%end = scf.for %i = {zero} to {two} step {one} iter_args(%acc = {start.name}) -> "
        f"({start.type}) {{"
    )
    total = t.two("vadd", start._replace(name="%acc"), more)
    t.line(f"scf.yield {total.name} : {total.type}")
    t.line("}")
    t.store(start._replace(name="%end"), 2)


@launch(37)
def copy_and_sums(t: Text) -> None:
    x = t.load(0, 256)
    t.store(x, 1)
    t.store(t.total(x, t.every(256), 8), 2)


@launch(38)
def sums_in_a_function(t: Text) -> None:
    x, mask = t.load(0, 256), t.every(256)
    t.store(x, 1)
    pointer, type_ = t.pointer(2)
    args = f"{x.type}, {mask.type}, {type_}, index"
    t.line(f"func.call @sums({x.name}, {mask.name}, {pointer}, {t.const(0)}) : ({args}) -> ()")
    t.functions.append(
        f"  func.func private @sums(%x: {x.type}, %m: {mask.type}, %p: {type_}, %i: index) {{\n"
        f"    %s = pto.vmi.vcadd %x, %m {{group = 8, reassoc}} : {x.type}, {mask.type} -> "
        "!pto.vmi.vreg<8xf32>\n"
        f"    pto.vmi.vstore %s, %p[%i] : !pto.vmi.vreg<8xf32>, {type_}\n"
        "    return\n  }\n"
    )


@launch(52)
def widened_and_sums(t: Text) -> None:
    wide = t.cast(t.load(0, 128), "f32")
    t.store(wide, 2)
    t.store(t.total(wide, t.every(128), 8), 1)


# -- histograms ---------------------------------------------------------------------------------------


def histogram(t: Text, name: str) -> None:
    acc, source, mask = t.load(1, 256), t.load(0, 512), t.first(512, 300)
    t.store(t.op(name, [acc, source, mask], acc), 2)


launch(49)(lambda t: histogram(t, "vchist"))
launch(51)(lambda t: histogram(t, "vdhist"))


# -- microscaling -------------------------------------------------------------------------------------


def power(t: Text, exponents: Vec) -> Vec:
    """2^(e - 127) of exponent fields, as f32."""
    return t.bits(t.by("vshls", exponents, 23), "f32")


def dequantise(t: Text, form: str, count: int, dst: str) -> None:
    for start in range(0, t.args[0][2], count):
        groups = count // 32
        scale = t.cast(t.rows(1, groups, 1, 1, offset=start // 32), "ui32")
        wide = t.cast(t.load(0, count, start, elem=form), "f32")
        product = t.two("vmul", wide, power(t, t.spread(scale, count)))
        t.store(product if dst == "f32" else t.cast(product, dst, sat="SAT"), 2, start)


launch(18)(lambda t: dequantise(t, "f8E4M3FN", 512, "bf16"))
launch(19)(lambda t: dequantise(t, "f8E4M3FN", 512, "f32"))
launch(20)(lambda t: dequantise(t, "f8E5M2", 512, "bf16"))


def exponents(t: Text, x: Vec, groups: int, less: int) -> Vec:
    """The shared exponent of each group, as ui32."""
    most = t.extreme("vcmax", t.one("vabs", x), t.every(x.count), groups)
    field = t.by("vshrs", t.bits(most, "ui32"), 23)
    return t.two("vsub", field, t.fill(groups, "ui32", less))


def scaled(t: Text, x: Vec, e: Vec) -> Vec:
    """x * 2^(127 - e)."""
    inverse = power(t, t.two("vsub", t.fill(e.count, "ui32", 254), e))
    return t.two("vmul", x, t.spread(inverse, x.count))


def quantise(t: Text, x: Vec, form: str, codes: int, scales: int, start: int = 0) -> None:
    """A vector in groups of 32: codes, and exponents as bytes."""
    groups, less = x.count // 32, {"f8E4M3FN": 8, "f8E5M2": 15}[form]
    e = exponents(t, x, groups, less)
    t.store(t.cast(scaled(t, x, e), form, sat="SAT"), codes, start)
    t.store(t.cast(e, "ui8", sat="NOSAT"), scales, start // 32, stride=1, groups=groups)


def quantise_all(t: Text) -> None:
    count = 512
    for start in range(0, t.args[0][2], count):
        x = t.cast(t.load(0, count, start), "f32")
        quantise(t, x, "f8E5M2", 1, 2, start)
    size = t.args[3][2]
    t.store(t.bits(t.fill(size // 2, "ui16", 127), "ui8"), 3)


launch(21)(quantise_all)
launch(22)(quantise_all)


def swiglu(t: Text, row: int, count: int) -> Vec:
    """x1 / (1 + exp(-x1)) * x2 of a row that has x2 and then x1."""
    x2 = t.cast(t.load(0, count, 2 * count * row), "f32")
    x1 = t.cast(t.load(0, count, 2 * count * row + count), "f32")
    below = t.by("vadds", t.one("vexp", t.one("vneg", x1)), 1.0)
    return t.two("vmul", t.two("vdiv", x1, below), x2)


def swiglu_quantise(t: Text, count: int, form: str) -> None:
    for row in range(2):
        quantise(t, swiglu(t, row, count), form, 1, 2, row * count)


launch(31)(lambda t: swiglu_quantise(t, 256, "f8E4M3FN"))
launch(32)(lambda t: swiglu_quantise(t, 128, "f8E5M2"))


@launch(35)
def columns_of_blocks(t: Text) -> None:
    for half in range(2):
        for part in range(0, 32, 8):
            x = t.rows(0, 8, 32, 64, offset=64 * part + 32 * half)
            e = exponents(t, x, 8, 8)
            t.store(t.cast(scaled(t, x, e), "f8E4M3FN", sat="SAT"), 2, 1024 * half + 32 * part)
            # The exponents of a column of blocks lie two bytes apart, beside the codes.
            t.store(e, 4, 2 * part + half, stride=2, groups=8, elem="ui8")
    t.line('pto.mem_bar "VST_VLD"')
    idx, mask = t.load(1, 32), t.every(32)
    got = t.op("vgather", [t.pointer(4, "ui16"), idx, mask], Vec("", 32, "ui16"))
    t.store(got, 3, elem="ui16")


# -- scales of rows -----------------------------------------------------------------------------------


def largest(t: Text, x: Vec, groups: int) -> Vec:
    return t.extreme("vcmax", t.one("vabs", x), t.every(x.count), groups)


def to_bytes(t: Text, x: Vec) -> Vec:
    """The low bytes of the nearest integers, clamped to a signed byte."""
    limited = t.by("vmaxs", t.by("vmins", x, 127.0), -128.0)
    whole = t.cast(limited, "si32", rounding="R", sat="SAT")
    return t.bits(t.cast(whole, "si8", sat="NOSAT"), "ui8")


def per_row(t: Text, rows: int, cols: int, limit: float, *, most: float | None = None) -> None:
    x = t.cast(t.load(0, rows * cols), "f32")
    scale = t.two("vdiv", largest(t, x, rows), t.fill(rows, "f32", limit))
    if most is not None:
        scale = t.two("vmin", scale, t.fill(rows, "f32", most))
    t.store(scale, 1)
    y = t.two("vdiv", x, t.spread(scale, x.count))
    if limit == 448.0:
        t.store(t.cast(y, "f8E4M3FN", sat="SAT"), 2)
    else:
        t.store(to_bytes(t, y), 2)


launch(23)(lambda t: per_row(t, 2, 128, 448.0))
launch(24)(lambda t: per_row(t, 4, 128, 448.0, most=0.25))
launch(25)(lambda t: per_row(t, 4, 128, 448.0))
launch(27, 28)(lambda t: per_row(t, 4, 32, 127.0))


@launch(26)
def per_column(t: Text) -> None:
    rows = [t.cast(t.load(0, 128, 128 * r), "f32") for r in range(8)]
    most = t.one("vabs", rows[0])
    for row in rows[1:]:
        most = t.two("vmax", most, t.one("vabs", row))
    scale = t.two("vdiv", most, t.fill(128, "f32", 127.0))
    t.store(scale, 1)
    for r, row in enumerate(rows):
        t.store(to_bytes(t, t.two("vdiv", row, scale)), 2, 128 * r)


@launch(29)
def smoothed_rows(t: Text) -> None:
    factors = t.cast(t.load(1, 64), "f32")
    for tile in range(2):
        parts = [
            t.two("vmul", t.cast(t.load(0, 64, 64 * (4 * tile + r)), "f32"), factors)
            for r in range(4)
        ]
        for r, x in enumerate(parts):
            scale = t.two("vdiv", largest(t, x, 1), t.fill(1, "f32", 127.0))
            t.store(scale, 2, 8 * tile + r, stride=1, groups=1)
            t.store(to_bytes(t, t.two("vdiv", x, t.spread(scale, 64))), 3, 64 * (4 * tile + r))


@launch(30)
def block_factors(t: Text) -> None:
    for r in range(16):
        factor = t.spread(t.load(1, 8, 8 * (r // 4)), 256)
        x = t.cast(t.load(0, 256, 256 * r), "f32")
        t.store(t.cast(t.two("vmul", x, factor), "f8E4M3FN", sat="SAT"), 2, 256 * r)


@launch(33)
def affine(t: Text) -> None:
    x = t.load(0, 1024)
    y = t.two("vmul", x, t.spread(t.load(1, 8), 1024))
    y = t.two("vadd", y, t.spread(t.load(2, 8), 1024))
    whole = t.cast(y, "si32", rounding="R", sat="SAT")
    t.store(t.cast(whole, "ui8", sat="SAT"), 3)


@launch(34)
def scaled_rows(t: Text) -> None:
    y = t.two("vmul", t.load(0, 1024), t.spread(t.load(1, 8), 1024))
    t.store(to_bytes(t, y), 2)
