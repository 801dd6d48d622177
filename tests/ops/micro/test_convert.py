"""Conversions of vector registers: every pair, rounding, saturation and part against one lane at a time."""

from __future__ import annotations

import pytest

from tests.ops.micro.data import masks, registers, same
from tests.oracle import lanes as one
from tests.oracle import numerics
from tests.oracle import registers as model
from tests.oracle.lanes import lanes_of
from tests.support.micro import Lanes, mask_type, vreg

pytestmark = pytest.mark.sampled(6)

BATCHES = 5
PAIRS = """ui8 ui16, ui8 ui32, ui8 f16, si8 si16, si8 si32, si8 f16, ui16 ui8, ui16 ui32, si16 ui8,
si16 ui32, si16 si32, si16 f16, si16 f32, ui32 ui8, ui32 ui16, ui32 si16, si32 ui8, si32 ui16,
si32 si16, si32 si64, si32 f32, si64 f32, f16 ui8, f16 si8, f16 si16, f16 si32, f16 f32, f32 si16,
f32 si32, f32 si64, f32 f16, f32 bf16, bf16 si32, bf16 f16, bf16 f32, i16 i32, i32 i16, i64 f32"""


def parts(src: str, dst: str) -> list[str | None]:
    wide, narrow = one.bits_of(src), one.bits_of(dst)
    return {1: [None], 2: ["EVEN", "ODD"], 4: ["P0", "P1", "P2", "P3"]}[
        max(wide, narrow) // min(wide, narrow)
    ]


def settings(src: str, dst: str) -> list[tuple[str | None, str | None]]:
    """Rounding modes where something is rounded, with and without saturation where that matters."""
    rounds = one.is_float(src) or one.is_float(dst)
    narrows = one.bits_of(dst) <= one.bits_of(src) or not one.is_float(dst)
    letters: list[str | None] = [None, *"RAFCZO"] if rounds and narrows else [None]
    return [(letter, sat) for letter in letters for sat in (None, "SAT", "NOSAT")]


def _attributes(letter: str | None, sat: str | None, part: str | None) -> str:
    named = [("rnd", letter), ("sat", sat), ("part", part)]
    text = ", ".join(f'{name} = "{value}"' for name, value in named if value)
    return f" {{{text}}}" if text else ""


@pytest.mark.parametrize("pair", [" ".join(p.split()) for p in PAIRS.split(",")])
def test_pairs(pair):
    """In April any attribute may be left out."""
    src, dst = pair.split()
    width = one.bits_of(src) // 8
    a, m = registers(pair, src, BATCHES), masks(pair, width, BATCHES)
    cases = [(*s, part) for i, s in enumerate(settings(src, dst)) for part in parts(src, dst)[i % 2 :: 2] or parts(src, dst)]  # fmt: skip
    program = Lanes().input("a", src, a).mask("m", 8 * width, m)
    lines = []
    for number, case in enumerate(cases):
        program.result(f"r{number}", dst)
        lines.append(
            f"%r{number} = pto.vcvt %a, %m{_attributes(*case)} : {vreg(src)}, "
            f"{mask_type(8 * width)} -> {vreg(dst)}"
        )
    found = program.run(*lines, compat="2026-04")
    for number, (letter, sat, part) in enumerate(cases):
        for batch in range(BATCHES):
            expected = model.converted(
                lanes_of(a[batch], src), one.mask_bits(m[batch]), src, dst, letter or "R",
                saturate=sat == "SAT", part=part,
            )  # fmt: skip
            problem = same(found[f"r{number}"][batch], expected, dst)
            assert problem is None, f"{letter} {sat} {part} batch {batch}: {problem}"


def test_mask_of_the_destination():
    """In April a mask with the width of the results counts their lanes."""
    a, m = registers("dst", "f32", 5), masks("dst", 2, 5)
    found = (
        Lanes().input("a", "f32", a).mask("m", 16, m).result("r", "f16")
        .run('%r = pto.vcvt %a, %m {rnd = "R", sat = "SAT", part = "ODD"} : '
             "!pto.vreg<64xf32>, !pto.mask<b16> -> !pto.vreg<128xf16>", compat="2026-04")
    )["r"]  # fmt: skip
    full = one.mask_bits(b"\xff" * 32)
    for got, x, g in zip(found, a, m, strict=True):
        whole = model.converted(lanes_of(x, "f32"), full, "f32", "f16", saturate=True, part="ODD")
        assert same(got, model.gated(whole, one.mask_bits(g), "f16"), "f16") is None


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16"])
def test_integral_values_of_the_same_type(elem):
    width = one.bits_of(elem) // 8
    a, m = registers("trc", elem, BATCHES), masks("trc", width, BATCHES)
    program = Lanes().input("a", elem, a).mask("m", 8 * width, m)
    lines = []
    for letter in "RAFCZ":
        program.result(f"r{letter}", elem)
        lines.append(
            f'%r{letter} = pto.vtrc %a, %m, "{letter}" : {vreg(elem)}, {mask_type(8 * width)} -> {vreg(elem)}'
        )
    found = program.run(*lines)
    for letter in "RAFCZ":
        for got, x, g in zip(found[f"r{letter}"], a, m, strict=True):
            lanes = [one.truncate(lane, elem, one.MODES[letter]) for lane in lanes_of(x, elem)]
            problem = same(got, model.gated(lanes, one.mask_bits(g), elem), elem)
            assert problem is None, f"{letter}: {problem}"


def test_bytes_as_other_lanes():
    a = registers("cast", "f32", 2)
    found = (
        Lanes().input("a", "f32", a).result("r", "ui8")
        .run("%r = pto.vbitcast %a : !pto.vreg<64xf32> -> !pto.vreg<256xui8>")
    )["r"]  # fmt: skip
    assert found == a


@pytest.mark.parametrize(("op", "function"), [("vaddreluconv", "addrelu"), ("vmulconv", "mul")])
def test_fused_with_a_conversion(op, function):
    """The result of the operation in its own type, converted with saturation to nearest even."""
    a, b, m = registers(op, "f32", 4), registers(op + "b", "f32", 4), masks(op, 4, 4)
    v = vreg("f32")
    found = (
        Lanes().input("a", "f32", a).input("b", "f32", b).mask("m", 32, m).result("r", "f16")
        .run(f'%r = pto.{op} %a, %b, %m {{part = "EVEN"}} : {v}, {v}, !pto.mask<b32> -> {vreg("f16")}')
    )["r"]  # fmt: skip
    for got, x, y, g in zip(found, a, b, m, strict=True):
        lanes = [
            one.binary(function, p, q, "f32")
            for p, q in zip(lanes_of(x, "f32"), lanes_of(y, "f32"), strict=True)
        ]
        nan = one.encode_exact("nan", "f32")
        patterns = [nan if lane is None else lane for lane in lanes]
        expected = model.converted(
            patterns, one.mask_bits(g), "f32", "f16", saturate=True, part="EVEN"
        )
        assert same(got, expected, "f16") is None


EIGHT_BITS = {"f8E4M3FN": "R", "f8E5M2": "R", "hif8": "A"}


@pytest.mark.parametrize("code", EIGHT_BITS)
def test_to_floats_of_eight_bits(code):
    """In April: code of lane i in byte 4*i + part, the rest 0; NaN stays NaN, the type fixes the
    rounding."""
    a, m = registers(code, "f32", BATCHES), masks(code, 4, BATCHES)
    program = Lanes().input("a", "f32", a).mask("m", 32, m)
    cases = [(s, p) for s in ("SAT", "NOSAT") for p in range(4)]
    lines = []
    for number, (sat, part) in enumerate(cases):
        program.result(f"r{number}", "ui8")
        lines += [
            f'%q{number} = pto.vcvt %a, %m {{sat = "{sat}", part = "P{part}"}} : {vreg("f32")}, '
            f"!pto.mask<b32> -> !pto.vreg<256x{code}>",
            f"%r{number} = pto.vbitcast %q{number} : !pto.vreg<256x{code}> -> {vreg('ui8')}",
        ]
    found = program.run(*lines, compat="2026-04")
    for number, (sat, part) in enumerate(cases):
        for got, x, g in zip(found[f"r{number}"], a, m, strict=True):
            expected = [0] * 256
            on = one.active(one.mask_bits(g), 4)
            for i, lane in enumerate(lanes_of(x, "f32")):
                value = numerics.decode(lane, "f32")
                code_of = numerics.to_code(value, code, saturate=sat == "SAT")
                expected[4 * i + part] = code_of * on[i]
            assert list(got) == expected


@pytest.mark.parametrize("code", EIGHT_BITS)
def test_from_floats_of_eight_bits(code):
    every = [bytes(range(256))]
    found = (
        Lanes().input("a", "ui8", every).mask("m", 8, [b"\xff" * 32]).result("r", "f32")
        .run(f"%c = pto.vbitcast %a : {vreg('ui8')} -> !pto.vreg<256x{code}>",
             f'%r = pto.vcvt %c, %m {{part = "P2"}} : !pto.vreg<256x{code}>, !pto.mask<b8> -> {vreg("f32")}')
    )["r"][0]  # fmt: skip
    values = [numerics.decode(4 * i + 2, code) for i in range(64)]
    expected = [None if one.is_nan(v) else numerics.encode_exact(v, "f32") for v in values]
    assert same(found, expected, "f32") is None


def test_known_values():
    """f32 to f16 of the specification: ties to even, NaN 0, infinities and overflow the largest."""
    values = [0x3F801000, 0x3F803000, 0x7FC00000, 0x7F800000, 0xFF800000, 0x477FF000, 0x33000000]
    a = one.join(values + [0] * 57, 4)
    found = (
        Lanes().input("a", "f32", [a]).mask("m", 32, [b"\xff" * 32]).result("r", "f16")
        .run('%r = pto.vcvt %a, %m {rnd = "R", sat = "SAT", part = "EVEN"} : '
             "!pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<128xf16>")
    )["r"][0]  # fmt: skip
    patterns = one.split(found, 2)
    assert patterns[:14:2] == [0x3C00, 0x3C02, 0, 0x7BFF, 0xFBFF, 0x7BFF, 0]
    assert not any(patterns[1::2])
