"""Broadcast, ramps and lanes in other places, one lane at a time."""

from __future__ import annotations

import pytest

from tests.ops.micro.data import masks, registers, same
from tests.oracle import lanes as one
from tests.oracle import registers as model
from tests.oracle.lanes import lanes_of
from tests.support.micro import Lanes, mask_type, vreg

BATCHES = 4
SCALARS = {
    "f32": ("-2.500000e-01", 0xBE800000), "f16": ("1.500000e+00", 0x3E00), "bf16": ("3.0", 0x4040),
    "i8": ("-127", 0x81), "ui8": ("-55", 201), "si8": ("100", 100), "i16": ("-3", 0xFFFD), "ui16": ("65535", 0xFFFF),
    "i32": ("-7", 0xFFFFFFF9), "i64": ("-9", 2**64 - 9),
}  # fmt: skip


def scalar_type(elem: str) -> str:
    return elem if elem in ("f32", "f16", "bf16") else elem.lstrip("us")


@pytest.mark.parametrize("elem", SCALARS)
def test_broadcast(elem):
    """vbr in every lane, vdup of a scalar or of the lowest or highest lane in the active ones."""
    width = one.bits_of(elem) // 8
    text, pattern = SCALARS[elem]
    a, m = registers("dup", elem, BATCHES), masks("dup", width, BATCHES)
    v, k, s = vreg(elem), mask_type(8 * width), scalar_type(elem)
    found = (
        Lanes().input("a", elem, a).mask("m", 8 * width, m)
        .result("b", elem).result("d", elem).result("l", elem).result("h", elem).result("x", elem)
        .run(f"%b = pto.vbr %s : {s} -> {v}",
             f"%d = pto.vdup %s, %m : {s}, {k} -> {v}",
             f"%x = pto.vdup %a, %m : {v}, {k} -> {v}",
             f'%l = pto.vdup %a, %m {{position = "LOWEST"}} : {v}, {k} -> {v}',
             f'%h = pto.vdup %a, %m {{position = "HIGHEST"}} : {v}, {k} -> {v}',
             setup=[f"%s = arith.constant {text} : {s}"])
    )  # fmt: skip
    count = 2048 // one.bits_of(elem)
    for i in range(BATCHES):
        on, lanes = one.mask_bits(m[i]), lanes_of(a[i], elem)
        assert same(found["b"][i], [pattern] * count, elem) is None
        assert same(found["d"][i], model.gated([pattern] * count, on, elem), elem) is None
        assert same(found["l"][i], model.gated([lanes[0]] * count, on, elem), elem) is None
        assert found["x"][i] == found["l"][i]
        assert same(found["h"][i], model.gated([lanes[-1]] * count, on, elem), elem) is None


@pytest.mark.parametrize("elem", ["i8", "si8", "i16", "i32", "f16", "f32"])
def test_ramps(elem):
    """Up and down; integers wrap, floats are computed as floats."""
    text, pattern = SCALARS[elem]
    s, v = scalar_type(elem), vreg(elem)
    found = (
        Lanes().mask("x", 8, [bytes(32)]).result("u", elem).result("d", elem)
        .run(f'%u = pto.vci %s {{order = "ASC"}} : {s} -> {v}',
             f'%d = pto.vci %s {{order = "DESC"}} : {s} -> {v}',
             setup=[f"%s = arith.constant {text} : {s}"])
    )  # fmt: skip
    assert same(found["u"][0], model.ramp(pattern, elem, 1), elem) is None
    assert same(found["d"][0], model.ramp(pattern, elem, -1), elem) is None


def test_ramp_of_a_large_half():
    """2048 and more steps in f16: computed in f32, rounded once to even."""
    v = vreg("f16")
    found = (
        Lanes().mask("x", 8, [bytes(32)]).result("u", "f16")
        .run(f"%u = pto.vci %s : f16 -> {v}", setup=["%s = arith.constant 2.000000e+03 : f16"])
    )["u"][0]  # fmt: skip
    assert same(found, model.ramp(0x67D0, "f16", 1), "f16") is None


@pytest.mark.parametrize("elem", ["f32", "f16", "ui8", "i64"])
def test_interleave(elem):
    a, b, v = registers("i", elem, BATCHES), registers("j", elem, BATCHES), vreg(elem)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b)
        .result("l", elem).result("h", elem).result("p", elem).result("q", elem)
        .run(f"%l, %h = pto.vintlv %a, %b : {v}, {v} -> {v}, {v}",
             f"%p, %q = pto.vdintlv %a, %b : {v}, {v} -> {v}, {v}")
    )  # fmt: skip
    for i in range(BATCHES):
        lanes = lanes_of(a[i], elem), lanes_of(b[i], elem)
        for names, function in ((("l", "h"), model.interleave), (("p", "q"), model.deinterleave)):
            for name, expected in zip(names, function(*lanes), strict=True):
                assert lanes_of(found[name][i], elem) == expected


@pytest.mark.parametrize("elem", ["f32", "f16", "ui8"])
def test_select_by_index(elem):
    """Indices are unsigned and taken modulo the number of lanes."""
    width = one.bits_of(elem) // 8
    index = f"ui{8 * width}"
    a, x, v, w = registers("sel", elem, BATCHES), registers("at", index, BATCHES), vreg(elem), vreg(index)  # fmt: skip
    found = (
        Lanes().input("a", elem, a).input("x", index, x).result("r", elem).result("p", elem)
        .run(f"%r = pto.vselr %a, %x : {v}, {w} -> {v}", f"%p = pto.vperm %a, %x : {v}, {w} -> {v}")
    )  # fmt: skip
    for i in range(BATCHES):
        lanes, count = lanes_of(a[i], elem), 256 // width
        expected = [lanes[k % count] for k in one.split(x[i], width)]
        assert lanes_of(found["r"][i], elem) == expected
        assert lanes_of(found["p"][i], elem) == expected


@pytest.mark.parametrize("elem", ["f32", "i16", "ui8"])
def test_squeeze_and_prefix_count(elem):
    width = one.bits_of(elem) // 8
    a, m = registers("sqz", elem, 7), masks("sqz", width, 7)
    v, k = vreg(elem), mask_type(8 * width)
    u = f"i{8 * width}"
    found = (
        Lanes().input("a", elem, a).input("b", u, a).mask("m", 8 * width, m)
        .result("r", elem).result("c", u)
        .run(f"%r = pto.vsqz %a, %m : {v}, {k} -> {v}",
             f"%c = pto.vusqz %b, %m : {vreg(u)}, {k} -> {vreg(u)}")
    )  # fmt: skip
    for i in range(7):
        on = one.active(one.mask_bits(m[i]), width)
        assert lanes_of(found["r"][i], elem) == model.squeeze(lanes_of(a[i], elem), on)
        counts = [n & ((1 << 8 * width) - 1) for n in model.prefix_count(on)]
        assert one.split(found["c"][i], width) == counts


@pytest.mark.parametrize(("wide", "narrow"), [("i32", "ui16"), ("ui16", "ui8"), ("i64", "i32")])
@pytest.mark.parametrize("half", ["LOWER", "HIGHER"])
def test_pack(wide, narrow, half):
    """Only April has 64-bit lanes."""
    a = registers(half, wide, BATCHES)
    found = (
        Lanes().input("a", wide, a).result("r", narrow)
        .run(f'%r = pto.vpack %a, "{half}" : {vreg(wide)} -> {vreg(narrow)}',
             compat="2026-04" if wide == "i64" else None)
    )["r"]  # fmt: skip
    for got, x in zip(found, a, strict=True):
        expected = model.pack_half(lanes_of(x, wide), one.bits_of(wide), higher=half == "HIGHER")
        assert lanes_of(got, narrow) == expected


@pytest.mark.parametrize(("narrow", "wide"), [("i8", "i16"), ("i16", "i32"), ("i32", "i64")])
@pytest.mark.parametrize("part", [0, 1])
def test_unpack(narrow, wide, part):
    a, v, w = registers("unpack", narrow, BATCHES), vreg(narrow), vreg(wide)
    found = (
        Lanes().input("a", narrow, a).result("s", wide).result("z", wide)
        .run(f"%s = pto.vsunpack %a, {part} : {v} -> {w}", f"%z = pto.vzunpack %a, {part} : {v} -> {w}")
    )  # fmt: skip
    for i, x in enumerate(a):
        lanes, bits = lanes_of(x, narrow), one.bits_of(narrow)
        for name, signed in (("s", True), ("z", False)):
            expected = model.unpack_half(lanes, bits, part, signed=signed)
            assert lanes_of(found[name][i], wide) == expected


@pytest.mark.parametrize("amount", [0, 1, 7, 63, 64])
def test_slide_and_shift(amount):
    a, b, v = registers("s", "f32", 2), registers("t", "f32", 2), vreg("f32")
    found = (
        Lanes().input("a", "f32", a).input("b", "f32", b).result("r", "f32").result("s", "f32")
        .run(f"%r = pto.vslide %a, %b, %by : {v}, {v}, i16 -> {v}", f"%s = pto.vshift %a, %by : {v}, i16 -> {v}",
             setup=[f"%by = arith.constant {amount} : i16"])
    )  # fmt: skip
    for i in range(2):
        high, low = lanes_of(a[i], "f32"), lanes_of(b[i], "f32")
        assert lanes_of(found["r"][i], "f32") == [*low, *high][amount : amount + 64]
        shifted = [high[k - amount] if k >= amount else 0 for k in range(64)]
        assert lanes_of(found["s"][i], "f32") == shifted
