"""Conversions of logical vectors against the exact model: every pair, letter and switch; the recorded
table and the differences to the other levels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ptosim.ground.isa.schema import dtypes
from ptosim.ops.vmi.conversions import Choices, conversion
from tests.ops.vmi.data import COUNT, assert_lanes, vector
from tests.oracle import vmi as model
from tests.oracle.lanes import is_float
from tests.support.vmi import DIALECT, Vectors, spelled, vreg

WIDTHS = {8: "u1", 16: "u2", 32: "u4"}


def element(name: str):
    return dtypes()[spelled(name)]


def converted(src: str, dst: str, patterns, letter=None, sat=None, **choices) -> list[int]:
    """The function that a program executes, on all patterns at once."""
    from ptosim.machine.vector import lane_dtype

    function = conversion(element(src), element(dst), letter, sat, Choices(**choices))
    lanes = np.array(patterns, WIDTHS[model.bits_of(src)]).view(lane_dtype(element(src)))
    with np.errstate(all="ignore"):
        result = function(lanes)
    return result.view(WIDTHS[model.bits_of(dst)]).tolist()


def check(src: str, dst: str, patterns, letter=None, sat=None, **choices) -> None:
    found = converted(src, dst, patterns, letter, sat, **choices)
    expected = model.convert(list(patterns), src, dst, letter, sat, **choices)
    wrong = [
        f"{p:#x}: {f:#x}, expected {e:#x}"
        for p, f, e in zip(patterns, found, expected, strict=True)
        if f != e
    ]
    assert not wrong, f"{len(wrong)}: {'; '.join(wrong[:6])}"


EIGHT = ("f8E4M3FN", "f8E5M2", "hif8")
NARROW = [(s, d) for s in ("f32", "f16", "bf16") for d in EIGHT]
NARROW += [("f32", "f16"), ("f32", "bf16"), ("bf16", "f16")]


def samples(name: str, count: int = 600) -> list[int]:
    """Special and random patterns, and the neighbourhood of the ends of the narrower formats."""
    found = vector("samples", name, count)
    if name == "f32":
        ends = [448, 464, 480, 57344, 61440, 65504, 65519, 65520, 65536, 32768, 40960, 49152]
        for value in (*ends, *(2.0**-k for k in range(6, 26)), 1.0625, 1.1875, 0.0, 1e10, 3.4e38):
            bits = int(np.array(value, np.float32).view(np.uint32))
            found += [bits - 1 & 0xFFFFFFFF, bits, bits + 1]
    return [*found, *(f ^ 1 << (model.bits_of(name) - 1) for f in found[-300:])]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("src", "dst"), NARROW)
def test_narrower_floats(src, dst):
    for letter, sat in itertools.product((None, "R", "A", "H", "Z"), ("SAT", "NOSAT")):
        check(src, dst, samples(src), letter, sat)


def check_runs(src: str, dst: str, patterns: list[int], letter: str, sat: str, step: int) -> None:
    """As `check`, of every pattern: the model is asked where the found code changes, on both sides, and
    at every `step`-th pattern. Rounding never falls where the pattern grows, so between two patterns of
    one code, which are both right, all are."""
    found = np.array(converted(src, dst, patterns, letter, sat))
    turns = np.flatnonzero(found[1:] != found[:-1])
    asked = {*turns.tolist(), *(turns + 1).tolist(), *range(0, len(found), step), len(found) - 1}
    check(src, dst, [patterns[at] for at in sorted(asked)], letter, sat)


@pytest.mark.slow
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize(("src", "dst"), [p for p in NARROW if p[0] != "f32"])
def test_every_pattern_of_16_bits(src, dst, step):
    """Below 128, which every format has, saturation changes nothing."""
    small = [p for p in range(0x10000) if p & 0x7FFF < {"f16": 0x5800, "bf16": 0x4300}[src]]
    large = sorted(set(range(0x10000)).difference(small))
    for letter in "RAZ":
        check_runs(src, dst, list(range(0x10000)), letter, "SAT", step)
        check_runs(src, dst, large, letter, "NOSAT", step)
        plain, saturated = (converted(src, dst, small, letter, s) for s in ("NOSAT", "SAT"))
        assert plain == saturated


@pytest.mark.sampled(0)
@pytest.mark.parametrize("dst", EIGHT)
def test_switches_of_8_bit_floats(dst):
    for choices in (
        {"fp8_round": "clamp"},
        {"nosat_nan": "positive"},
        {"hif8_nan": "code"},
    ):
        for letter, sat in itertools.product("RAHZ", ("SAT", "NOSAT")):
            check("f32", dst, samples("f32"), letter, sat, **choices)


RECORDED = {
    "f8E4M3FN": {
        1.0625: "38 39 38 38", 1.1875: "3A 3A 39 39", -1.0625: "B8 B9 B8 B8",
        -1.1875: "BA BA B9 B9", 1000.0: "7E 78 7E 7E", -1000.0: "FE F8 FE FE",
        float("nan"): "00 00 00 00",
    },
    "f8E5M2": {
        1.125: "3C 3D 3C 3C", 1.375: "3E 3E 3D 3D", -1.125: "BC BD BC BC", -1.375: "BE BE BD BD",
        1e10: "7B 7D 7C 7C", -1e10: "FB FD FC FC", float("nan"): "00 00 00 00",
    },
}  # fmt: skip


@pytest.mark.parametrize("dst", RECORDED)
def test_the_recorded_table(dst):
    """f32 to 8 bits with SAT, letters R A H Z."""
    for value, codes in RECORDED[dst].items():
        bits = int(np.array(value, np.float32).view(np.uint32))
        for letter, code in zip("RAHZ", codes.split(), strict=True):
            assert converted("f32", dst, [bits], letter, "SAT") == [int(code, 16)], (value, letter)


@pytest.mark.parametrize(
    ("dst", "value", "letter", "code"),
    [
        ("f8E4M3FN", 450.0, "A", 0x7E), ("f8E4M3FN", 464.0, "A", 0x78),
        ("f8E4M3FN", 464.0, "R", 0x7E), ("f8E4M3FN", 479.0, "Z", 0x7E),
        ("f8E4M3FN", 1000.0, "Z", 0x7E), ("f8E4M3FN", np.inf, "A", 0x7E),
        ("f8E5M2", 60000.0, "A", 0x7B), ("f8E5M2", 61440.0, "A", 0x7D),
        ("f8E5M2", 61440.0, "R", 0x7B), ("f8E5M2", 65535.0, "Z", 0x7B),
        ("f8E5M2", 65536.0, "Z", 0x7C), ("f8E5M2", -np.inf, "H", 0xFB),
        ("hif8", 1.0, None, 0x08), ("hif8", -1.0, None, 0x88), ("hif8", 0.5, None, 0x18),
        ("hif8", 2.0, None, 0x10), ("hif8", 4.0, None, 0x20), ("hif8", 2.0**-23, None, 0x01),
        ("hif8", -(2.0**-23), None, 0x81), ("hif8", -(2.0**-24), None, 0x00),
        ("hif8", -0.0, None, 0x00), ("hif8", 40959.0, None, 0x6E), ("hif8", 40960.0, None, 0x6E),
    ],
)  # fmt: skip
def test_ends_of_the_range(dst, value, letter, code):
    bits = int(np.array(value, np.float32).view(np.uint32))
    assert converted("f32", dst, [bits], letter, "SAT") == [code]


def test_overflow_of_hif8_without_saturation():
    bits = np.array([40959.0, 40960.0, -np.inf, np.nan], np.float32).view(np.uint32).tolist()
    assert converted("f32", "hif8", bits, "A", "NOSAT") == [0x6E, 0x6F, 0xEF, 0x80]


def test_wider_floats_keep_the_sign_of_nan():
    for src, dst in (("f16", "f32"), ("bf16", "f32")):
        check(src, dst, samples(src))
    for src, dst in itertools.product(EIGHT, ("f16", "bf16", "f32")):
        check(src, dst, range(256))


PAIRS = [
    ("f32", "si32"), ("f32", "si16"), ("f16", "si16"), ("f16", "si8"), ("bf16", "si32"),
    ("f16", "ui8"), ("f16", "i8"),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_floats_to_integers(src, dst):
    for letter, sat in itertools.product((None, *"RAFCZ"), ("SAT", "NOSAT")):
        check(src, dst, samples(src), letter, sat)


@pytest.mark.slow
def test_the_conversion_that_has_no_saturation():
    """f16 to si32: finite values always fit; infinities are the limits, NaN is 0."""
    check("f16", "si32", range(0x10000))


@pytest.mark.parametrize(
    ("src", "dst"),
    [("si32", "f32"), ("si32", "f16"), ("si16", "f32"), ("si8", "bf16"), ("si32", "bf16")],
)
def test_integers_to_floats(src, dst):
    """The exact value, rounded to nearest even; beyond f16 it is infinite."""
    check(src, dst, [*vector("i", src, 300), 0, 1, (1 << model.bits_of(src)) - 1])


SIGNS = ("i", "si", "ui")


@pytest.mark.parametrize(
    ("wide", "narrow"), [(w, n) for w, n in ((16, 8), (32, 8), (32, 16))]
)  # fmt: skip
def test_integers_of_other_widths(wide, narrow):
    """Widening by the sign of the source; SAT clamps by both signs, NOSAT keeps the low bits."""
    for a, b in itertools.product(SIGNS, SIGNS):
        large, small = f"{a}{wide}", f"{b}{narrow}"
        for sat in ("SAT", "NOSAT"):
            check(large, small, vector("w", large, 200), None, sat)
        if (a == "si") == (b == "si"):
            check(small, large, vector("n", small, 200))


@pytest.mark.parametrize("form", ["f4E2M1x2", "f4E1M2x2"])
def test_pairs_of_4_bit_floats(form):
    halves = samples("bf16", 400)
    pairs = [a | b << 16 for a, b in zip(halves[::2], halves[1::2], strict=True)]
    for letter, nan in itertools.product((None, *"RAFCZ"), ("zero", "max")):
        check("bf16x2", form, pairs, letter, None, fp4_nan=nan)
    check(form, "bf16x2", range(256))


@pytest.mark.parametrize(
    ("src", "dst", "words"),
    [
        ("f32", "f16", '{rounding = "A", saturate = "SAT"}'),
        ("f32", "f8E4M3FN", '{saturate = "SAT"}'),
        ("f16", "f8E5M2", '{rounding = "Z", saturate = "NOSAT"}'),
        ("bf16", "hif8", '{saturate = "SAT"}'),
        ("f32", "si16", '{rounding = "F", saturate = "SAT"}'),
        ("f16", "si32", '{rounding = "C"}'),
        ("bf16", "f32", ""),
        ("f8E4M3FN", "f32", ""),
        ("hif8", "f16", ""),
        ("si8", "si32", ""),
        ("i16", "ui32", ""),
        ("si32", "ui8", '{saturate = "SAT"}'),
        ("ui32", "i8", '{saturate = "NOSAT"}'),
        ("si32", "f32", ""),
        ("bf16x2", "f4E2M1x2", '{rounding = "C"}'),
        ("f4E1M2x2", "bf16x2", ""),
    ],
)
def test_in_programs(src, dst, words):
    a = vector(f"{src}{dst}", src)
    program = Vectors().input("a", src, a).result("r", dst, COUNT)
    found = program.run(f"%r = pto.vmi.vcvt %a {words} : {vreg(COUNT, src)} -> {vreg(COUNT, dst)}")
    letter = next((w for w in "RAFCZ" if f'"{w}"' in words), None)
    sat = "NOSAT" if "NOSAT" in words else "SAT" if "SAT" in words else None
    expected = model.convert(a, src, dst, letter, sat)
    held = "i32" if dst == "bf16x2" else dst
    assert_lanes(found["r"], expected, held if is_float(held) else "i32")


@pytest.mark.parametrize(
    ("older", "src", "dst", "as_src", "as_dst", "words"),
    [
        ("extf", "f16", "f32", "f16", "f32", ""),
        ("truncf", "f32", "bf16", "f32", "bf16", ' {rounding = "R", saturate = "SAT"}'),
        ("fptosi", "f32", "si32", "f32", "si32", ' {rounding = "Z", saturate = "SAT"}'),
        ("fptoui", "f16", "ui8", "f16", "ui8", ' {saturate = "SAT"}'),
        ("sitofp", "si32", "f32", "si32", "f32", ""),
        ("extsi", "si16", "si32", "si16", "si32", ""),
        ("extui", "ui8", "ui32", "ui8", "ui32", ""),
        ("trunci", "ui32", "ui8", "ui32", "ui8", ' {saturate = "NOSAT"}'),
    ],
)
def test_older_spellings(older, src, dst, as_src, as_dst, words):
    a = vector(older, src)
    program = Vectors().input("a", src, a).result("r", dst, COUNT)
    t, r = vreg(COUNT, src), vreg(COUNT, dst)
    found = program.run(f"%r = pto.vmi.{older} %a{words} : {t} -> {r}")
    letter = next((w for w in "RZ" if f'"{w}"' in words), None)
    sat = "NOSAT" if "NOSAT" in words else "SAT" if "SAT" in words else None
    assert found["r"] == model.convert(a, as_src, as_dst, letter, sat)


def test_codes_of_the_table_are_reported():
    t, r = vreg(4, "f32"), vreg(4, "f8E4M3FN")
    line = f'%r = pto.vmi.vcvt %a {{rounding = "A", saturate = "SAT"}} : {t} -> {r}'
    for value, codes in ((1000.0, ["PTO6709"]), (448.0, [])):
        bits = int(np.array(value, np.float32).view(np.uint32))
        program = Vectors().input("a", "f32", [bits] * 4).result("r", "f8E4M3FN", 4)
        program.run(line)
        assert program.codes == codes
    program = Vectors().input("a", "f32", [0x447A0000] * 4).result("r", "f8E4M3FN", 4)
    assert program.run(line, switches={"vmi.fp8_round": "clamp"})["r"] == [0x7E] * 4
    assert program.codes == []
    assert "hif8" in DIALECT
