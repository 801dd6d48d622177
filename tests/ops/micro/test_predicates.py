"""Predicates: images in memory, patterns, counts, logic, rearrangement; lanes computed one at a time."""

from __future__ import annotations

import pytest

from tests.ops.micro.data import masks
from tests.oracle import lanes as one
from tests.oracle.registers import deinterleave, interleave
from tests.support.micro import Lanes, mask_type

WIDTHS = (1, 2, 4)
ANY = [bytes(32)]  # an input where the instruction has none


def word(image: bytes, number: int) -> int:
    """A 32-bit word of an image."""
    return int.from_bytes(image[4 * number : 4 * number + 4], "little")


# -- patterns -----------------------------------------------------------------------------------------

PATTERNS = ["PAT_ALL", "PAT_ALLF", "PAT_H", "PAT_Q", "PAT_M3", "PAT_M4"]
PATTERNS += [f"PAT_VL{n}" for n in (1, 2, 3, 4, 8, 16, 32, 64, 128)]


def chosen(pattern: str, lane: int, count: int) -> bool:
    if pattern.startswith("PAT_VL"):
        return lane < int(pattern[6:])
    return {
        "PAT_ALL": True,
        "PAT_ALLF": False,
        "PAT_H": lane < count / 2,
        "PAT_Q": lane < count / 4,
        "PAT_M3": lane in range(0, count, 3),
        "PAT_M4": lane in range(0, count, 4),
    }[pattern]


@pytest.mark.parametrize("op", ["pset", "pge"])
@pytest.mark.parametrize("width", WIDTHS)
def test_patterns(op, width):
    bits, count = 8 * width, 256 // width
    program = Lanes().mask("x", 8, ANY)
    lines = []
    for number, pattern in enumerate(PATTERNS):
        program.mask_result(f"r{number}", bits)
        lines.append(f'%r{number} = pto.{op}_b{bits} "{pattern}" : {mask_type(bits)}')
    found = program.run(*lines)
    for number, pattern in enumerate(PATTERNS):
        expected = one.image([int(chosen(pattern, i, count)) for i in range(count)], width)
        assert one.mask_bits(found[f"r{number}"][0]) == expected, pattern


def test_words_of_known_images():
    """Check words of the specification: lanes at every, second and fourth bit, rest 0."""
    found = (
        Lanes().mask("x", 8, ANY)
        .mask_result("a", 8).mask_result("b", 16).mask_result("c", 32).mask_result("d", 32)
        .mask_result("e", 32).mask_result("f", 16).mask_result("g", 16).mask_result("h", 16)
        .mask_result("k", 32)
        .run('%a = pto.pset_b8 "PAT_M3" : !pto.mask<b8>',
             '%b = pto.pset_b16 "PAT_H" : !pto.mask<b16>',
             '%c = pto.pset_b32 "PAT_Q" : !pto.mask<b32>',
             '%v8 = pto.pset_b32 "PAT_VL8" : !pto.mask<b32>',
             '%m4 = pto.pset_b32 "PAT_M4" : !pto.mask<b32>',
             "%d, %e = pto.pintlv_b32 %v8, %m4 : !pto.mask<b32>, !pto.mask<b32> -> !pto.mask<b32>, !pto.mask<b32>",
             '%w8 = pto.pset_b16 "PAT_VL8" : !pto.mask<b16>',
             '%n4 = pto.pset_b16 "PAT_M4" : !pto.mask<b16>',
             "%f, %g = pto.pdintlv_b16 %w8, %n4 : !pto.mask<b16>, !pto.mask<b16> -> !pto.mask<b16>, !pto.mask<b16>",
             '%h = pto.ppack %m4, "LOWER" : !pto.mask<b32> -> !pto.mask<b16>',
             '%k = pto.punpack %h, "LOWER" : !pto.mask<b16> -> !pto.mask<b32>')
    )  # fmt: skip
    words = {name: [word(images[0], i) for i in range(8)] for name, images in found.items()}
    assert words["a"][:3] == [0x49249249, 0x92492492, 0x24924924]
    assert words["b"] == [0x55555555] * 4 + [0] * 4
    assert words["c"] == [0x11111111] * 2 + [0] * 6
    assert (
        words["d"] == [0x01010111] * 2 + [0x10] * 6
        or words["d"] == [0x01010111] * 2 + [0x10101010] * 6
    )
    assert words["e"] in ([0x10] * 8, [0x10101010] * 8)
    assert words["f"] == [0x55, 0, 0, 0] + [0x11111111] * 4
    assert words["g"][0] == 0x55
    assert words["h"] == [0x01010101] * 4 + [0] * 4
    assert words["k"] == [0x00010001] * 8


@pytest.mark.parametrize("width", WIDTHS)
def test_counts(width):
    """plt: the first lanes, and what is left; -1 is a large unsigned number."""
    bits, count = 8 * width, 256 // width
    for given in (0, 1, count - 1, count, count + 1, 3 * count + 5, -1):
        found = (
            Lanes().mask("x", 8, ANY).mask_result("r", bits).mask_result("s", bits)
            .run(f"%r, %left = pto.plt_b{bits} %n0 : i32 -> {mask_type(bits)}, i32",
                 f"%s, %left2 = pto.plt_b{bits} %left : i32 -> {mask_type(bits)}, i32",
                 setup=[f"%n0 = arith.constant {given} : i32"])
        )  # fmt: skip
        total = given % 2**32
        first = [int(i < total) for i in range(count)]
        second = [int(i < total - count) for i in range(count)]
        assert one.mask_bits(found["r"][0]) == one.image(first, width)
        assert one.mask_bits(found["s"][0]) == one.image(second, width)


# -- logic ------------------------------------------------------------------------------------------------

LOGIC = {
    "pand": lambda a, b, g: a and b and g,
    "por": lambda a, b, g: (a or b) and g,
    "pxor": lambda a, b, g: a != b and g,
    "psel": lambda a, b, g: a if g else b,
}


@pytest.mark.parametrize("op", LOGIC)
@pytest.mark.parametrize("width", WIDTHS)
def test_logic(op, width):
    """Bit by bit on whole images, rubbish between the lanes included."""
    t = mask_type(8 * width)
    a, b, g = (masks(op + n, width, 7) for n in "abg")
    a, b = a[::-1], b[3:] + b[:3]
    found = (
        Lanes().mask("a", 8 * width, a).mask("b", 8 * width, b).mask("g", 8 * width, g)
        .mask_result("r", 8 * width).run(f"%r = pto.{op} %a, %b, %g : {t}, {t}, {t} -> {t}")
    )["r"]  # fmt: skip
    for got, *images in zip(found, a, b, g, strict=True):
        bits = zip(*(one.mask_bits(i) for i in images), strict=True)
        assert one.mask_bits(got) == [int(LOGIC[op](*triple)) for triple in bits]


def test_not_under_a_mask():
    a, g = masks("not", 2, 7), masks("gate", 2, 7)[::-1]
    t = mask_type(16)
    found = (
        Lanes().mask("a", 16, a).mask("g", 16, g).mask_result("r", 16)
        .run(f"%r = pto.pnot %a, %g : {t}, {t} -> {t}")
    )["r"]  # fmt: skip
    for got, x, y in zip(found, a, g, strict=True):
        bits = zip(one.mask_bits(x), one.mask_bits(y), strict=True)
        assert one.mask_bits(got) == [int(not p and q) for p, q in bits]


def test_retyping_keeps_the_image():
    a = masks("cast", 1, 7)
    found = (
        Lanes().mask("a", 8, a).mask_result("r", 32)
        .run("%r = pto.pbitcast %a : !pto.mask<b8> -> !pto.mask<b32>")
    )["r"]  # fmt: skip
    assert found == a


# -- rearrangement --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", ["LOWER", "HIGHER"])
def test_pack_and_unpack_act_on_the_image(half):
    a = masks("pack", 1, 7)
    found = (
        Lanes().mask("a", 16, a).mask_result("p", 16).mask_result("u", 16)
        .run(f'%p = pto.ppack %a, "{half}" : !pto.mask<b16> -> !pto.mask<b16>',
             f'%u = pto.punpack %a, "{half}" : !pto.mask<b16> -> !pto.mask<b16>')
    )  # fmt: skip
    h = 128 if half == "HIGHER" else 0
    for i, image in enumerate(a):
        bits = one.mask_bits(image)
        packed, spread = [0] * 256, [0] * 256
        for k in range(128):
            packed[h + k] = bits[2 * k]
            spread[2 * k] = bits[h + k]
        assert one.mask_bits(found["p"][i]) == packed
        assert one.mask_bits(found["u"][i]) == spread


@pytest.mark.parametrize("op", ["pintlv", "pdintlv"])
@pytest.mark.parametrize("width", WIDTHS)
def test_interleave_acts_on_lanes(op, width):
    t = mask_type(8 * width)
    a, b = masks(op, width, 7), masks(op + "b", width, 7)[::-1]
    found = (
        Lanes().mask("a", 8 * width, a).mask("b", 8 * width, b).mask_result("l", 8 * width)
        .mask_result("h", 8 * width).run(f"%l, %h = pto.{op}_b{8 * width} %a, %b : {t}, {t} -> {t}, {t}")
    )  # fmt: skip
    function = interleave if op == "pintlv" else deinterleave
    for i in range(7):
        low, high = function(*(one.active(one.mask_bits(x[i]), width) for x in (a, b)))
        assert one.mask_bits(found["l"][i]) == one.image(low, width)
        assert one.mask_bits(found["h"][i]) == one.image(high, width)
