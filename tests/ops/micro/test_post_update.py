"""Accesses that give their updated pointer: they are at the pointer itself, and the result is where they
would else have been. Each one is done twice, the second time from the updated pointer."""

from __future__ import annotations

import random

import pytest

from tests.ops.micro.data import MASK, OUT, full, memory, stored
from tests.oracle import lanes as one
from tests.oracle import ub as model
from tests.support.micro import bits_of, in_ub, vreg

LENGTHS = {"NORM": 32, "US": 16, "DS": 64, "PK": 16}
"""Bytes that the distributions of a predicate read or write."""


@pytest.mark.parametrize("offset", [3, -2])
@pytest.mark.parametrize(("word", "elem"), [("NORM", "f32"), ("BRC_B32", "f32"), ("US_B16", "f16")])
def test_loads(word, elem, offset):
    """The offset counts elements of the pointer's type, and may lead backwards."""
    before, v, p = memory((word, offset)), vreg(elem), f"!pto.ptr<{elem}, ub>"
    size, start = bits_of(elem) // 8, 128
    if word != "BRC_B32":  # others than single elements begin at a block of 32 bytes
        offset *= 32 // size
    attr = f'{{dist = "{word}"}}'
    after, codes = in_ub(
        bytes(before),
        full(elem),
        f"%q = pto.addptr %{elem}, %s : {p} -> {p}",
        f"%a, %q1 = pto.vlds %q[%o] {attr} : {p} -> {v}, {p}",
        f"%b, %q2 = pto.vlds %q1[{offset}] {attr} : {p} -> {v}, {p}",
        f"%c = pto.vlds %q2[0] {attr} : {p} -> {v}",
        *(stored(name, elem, OUT + 256 * i) for i, name in enumerate("abc")),
        setup=[f"%s = arith.constant {start // size} : index", f"%o = arith.constant {offset} : index"],
    )  # fmt: skip
    expected = bytearray(before)
    for i in range(3):
        at = start + i * offset * size
        expected[OUT + 256 * i : OUT + 256 * i + 256] = model.load(before, at, word)
    assert after == expected
    assert codes == []


def test_loads_of_two():
    before, v, p = memory("x2"), vreg("f16"), "!pto.ptr<f16, ub>"
    after, _ = in_ub(
        bytes(before),
        full("f16"),
        f'%a, %b, %q = pto.vldsx2 %f16[16], "DINTLV_B16" : {p}, index -> {v}, {v}, {p}',
        f'%c, %d, %r = pto.vldsx2 %q[0], "DINTLV_B16" : {p}, index -> {v}, {v}, {p}',
        *(stored(name, "f16", OUT + 256 * i) for i, name in enumerate("abcd")),
    )
    both = (*model.load_two(before, 0, "DINTLV_B16"), *model.load_two(before, 32, "DINTLV_B16"))
    assert after[OUT : OUT + 1024] == b"".join(both)


@pytest.mark.parametrize("image", [(1 << 256) - 1, 0x1111_0001])
@pytest.mark.parametrize("word", [None, "PK_B32", "1PT_B32"])
def test_stores(word, image):
    """Also one that writes nothing moves the pointer."""
    before, v, p, k = memory((word, image)), vreg("f32"), "!pto.ptr<f32, ub>", "!pto.mask<b32>"
    before[MASK : MASK + 32] = image.to_bytes(32, "little")
    attr = f' {{dist = "{word}"}}' if word else ""
    after, codes = in_ub(
        bytes(before),
        f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
        f"%a = pto.vlds %f32[0] : {p} -> {v}",
        f"%b = pto.vlds %f32[64] : {p} -> {v}",
        f"%q = pto.addptr %f32, %s : {p} -> {p}",
        f"%q1 = pto.vsts %a, %q[72], %m{attr} : {v}, {p}, {k} -> {p}",
        f"%q2 = pto.vsts %b, %q1[%o], %m{attr} : {v}, {p}, {k} -> {p}",
        f"pto.vsts %a, %q2[0], %m{attr} : {v}, {p}, {k} -> {p}",
        setup=[f"%s = arith.constant {OUT // 4} : index", "%o = arith.constant 104 : index"],
    )
    expected = bytearray(before)
    bits = one.mask_bits(image.to_bytes(32, "little"))
    for at, register in ((OUT, 0), (OUT + 288, 256), (OUT + 704, 0)):
        model.store(expected, at, bytes(before[register : register + 256]), bits, word, 4)
    assert after == expected
    assert codes == []


@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize("repeat", [2, 9])
def test_blocks(repeat, updates):
    """In blocks of 32 bytes; without the updated pointer the stride moves every block."""
    before, v, p, k = memory((repeat, updates)), vreg("f32"), "!pto.ptr<f32, ub>", "!pto.mask<b32>"
    more, names = (f", {p}", (", %q", "%r = ", f" -> {p}")) if updates else ("", ("", "", ""))
    after, _ = in_ub(
        bytes(before),
        full("f32"),
        f"%a{names[0]} = pto.vsldb %f32, %bs, %rs, %full : {p}, i16, i16, {k} -> {v}{more}",
        f"%b = pto.vsldb %{'q' if updates else 'f32'}, %bs, %none, %full : {p}, i16, i16, {k} -> {v}",
        f"%o = pto.addptr %f32, %s : {p} -> {p}",
        f"{names[1]}pto.vsstb %a, %o, %bs, %rs, %full : {v}, {p}, i16, i16, {k}{names[2]}",
        f"pto.vsstb %b, %{'r' if updates else 'o'}, %bs, %far, %full : {v}, {p}, i16, i16, {k}",
        setup=[
            "%bs = arith.constant 3 : i16",
            f"%rs = arith.constant {repeat} : i16",
            "%none = arith.constant 0 : i16",
            "%far = arith.constant 30 : i16",
            f"%s = arith.constant {OUT // 4} : index",
        ],
    )  # fmt: skip
    first = 0 if updates else repeat
    second = repeat if updates else 0
    expected = bytearray(before)
    for k_ in range(8):
        source, target = 32 * (first + 3 * k_), OUT + 32 * (first + 3 * k_)
        expected[target : target + 32] = before[source : source + 32]
    for k_ in range(8):
        source, target = 32 * (second + 3 * k_), OUT + 32 * (second + 30 + 3 * k_)
        expected[target : target + 32] = before[source : source + 32]
    assert after == expected


@pytest.mark.parametrize("step", [5, 64, 1])
def test_unaligned_loads(step):
    """The increment of vldus counts elements; the stream goes on wherever the pointer is."""
    before, v, p = memory(step), vreg("f32"), "!pto.ptr<f32, ub>"
    after, _ = in_ub(
        bytes(before),
        full("f32"),
        f"%q = pto.addptr %f32, %one : {p} -> {p}",
        f"%l0 = pto.vldas %q : {p} -> !pto.align",
        f"%a, %l1, %q1 = pto.vldus %q, %l0, %n : {p}, !pto.align, index -> {v}, !pto.align, {p}",
        f"%b, %l2, %q2 = pto.vldus %q1, %l1, %n : {p}, !pto.align, index -> {v}, !pto.align, {p}",
        f"%c, %l3 = pto.vldus %q2, %l2 : {p}, !pto.align -> {v}, !pto.align",
        *(stored(name, "f32", OUT + 256 * i) for i, name in enumerate("abc")),
        setup=[f"%n = arith.constant {step} : index", "%one = arith.constant 1 : index"],
    )
    for i in range(3):
        at = 4 + 4 * step * i
        assert after[OUT + 256 * i : OUT + 256 * i + 256] == before[at : at + 256]


def test_unaligned_load_in_one():
    before, v, p = memory("uvld"), vreg("f16"), "!pto.ptr<f16, ub>"
    after, _ = in_ub(
        bytes(before),
        full("f16"),
        f"%a = pto.uvld %f16[%o] : {p} -> {v}",
        stored("a", "f16", OUT),
        setup=["%o = arith.constant 7 : index"],
    )
    assert after[OUT : OUT + 256] == before[14 : 14 + 256]


@pytest.mark.parametrize("counts", [(5, 9), (64, 64), (0, 3), (1, 0)])
def test_streams(counts):
    """vstus moves by what it appends; with a result the flush of vstas ends at its pointer itself, and
    the result is further on by its offset."""
    before, v, p, al = memory(counts), vreg("f32"), "!pto.ptr<f32, ub>", "!pto.align"
    far = 17 + -(sum(counts) + 18) % 8  # what is stored there begins at a block of 32 bytes
    after, codes = in_ub(
        bytes(before),
        full("f32"),
        f"%r = pto.vlds %f32[0] : {p} -> {v}",
        f"%q = pto.addptr %f32, %s : {p} -> {p}",
        f"%a0 = pto.init_align : {al}",
        f"%a1, %q1 = pto.vstus %a0, %n, %r, %q : {al}, i32, {v}, {p} -> {al}, {p}",
        f"%a2, %q2 = pto.vstus %a1, %k, %r, %q1 : {al}, i32, {v}, {p} -> {al}, {p}",
        f"%q3 = pto.vstas %a2, %q2, %far : {al}, {p}, i32 -> {p}",
        f"pto.vsts %r, %q3[0], %full : {v}, {p}, !pto.mask<b32>",
        setup=[
            f"%s = arith.constant {OUT // 4 + 1} : index",
            f"%n = arith.constant {counts[0]} : i32",
            f"%k = arith.constant {counts[1]} : i32",
            f"%far = arith.constant {far} : i32",
        ],
    )
    expected = bytearray(before)
    stream, at = model.Stream(expected), OUT + 4
    for count in counts:
        stream.append(at, bytes(before[: 4 * count]))
        at += 4 * count
    stream.flush()
    expected[at + 4 * far : at + 4 * far + 256] = before[:256]
    assert after == expected
    assert codes == []


# -- predicates ------------------------------------------------------------------------------------


def _image(source: bytes, word: str) -> list[int]:
    bits = one.mask_bits(source)
    if word == "NORM":
        return bits
    return [bits[i // 2] if word == "US" else bits[2 * i] for i in range(256)]


@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize("word", ["NORM", "US", "DS"])
@pytest.mark.parametrize("op", ["plds", "pldi"])
def test_loads_of_predicates(op, word, updates):
    """An offset of plds counts bytes, of pldi 32 (US: 16) of them, whatever the pointer's elements are;
    DS reads 64 bytes and its step is 32."""
    before, p, k = memory((op, word, updates)), "!pto.ptr<f32, ub>", "!pto.mask<b32>"
    offset = 6 if op == "pldi" else 20
    unit = 1 if op == "plds" else 16 if word == "US" else 32
    out = f", {p}" if updates else ""
    at = "%r" if op == "plds" else str(offset)
    then = "%q1[0]" if updates else "%f32[0]"
    after, _ = in_ub(
        bytes(before),
        f'%m{", %q1" if updates else ""} = pto.{op} %f32[{at}], "{word}" : {p}, index -> {k}{out}',
        f'%n = pto.{op} {then}, "{word}" : {p}, index -> {k}',
        *(
            f'pto.psts %{m}, %ui8[{OUT + 32 * i}], "NORM" : {k}, !pto.ptr<ui8, ub>, index'
            for i, m in enumerate("mn")
        ),
        setup=[f"%r = arith.constant {offset} : index"],
    )
    first, second = (0, offset * unit) if updates else (offset * unit, 0)
    for i, start in enumerate((first, second)):
        image = _image(bytes(before[start : start + LENGTHS[word]]) + bytes(32), word)
        assert after[OUT + 32 * i : OUT + 32 * i + 32] == one.mask_bytes(image[:256]), i


@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize("word", ["NORM", "PK"])
@pytest.mark.parametrize("op", ["psts", "psti"])
def test_stores_of_predicates(op, word, updates):
    before, p, k = memory((op, word, updates)), "!pto.ptr<f32, ub>", "!pto.mask<b32>"
    unit = 1 if op == "psts" else LENGTHS[word]
    offset = 72 if op == "psts" else 3
    at = "%r" if op == "psts" else str(offset)
    result, out = ("%q1 = ", f" -> {p}") if updates else ("", "")
    then = "%q1[0]" if updates else "%q[0]"
    after, _ = in_ub(
        bytes(before),
        f'%m = pto.plds %f32[0], "NORM" : {p}, index -> {k}',
        f'%n = pto.plds %f32[32], "NORM" : {p}, index -> {k}',
        f"%q = pto.addptr %f32, %s : {p} -> {p}",
        f'{result}pto.{op} %m, %q[{at}], "{word}" : {k}, {p}, index{out}',
        f'pto.{op} %n, {then}, "{word}" : {k}, {p}, index',
        setup=[f"%r = arith.constant {offset} : index", f"%s = arith.constant {OUT // 4} : index"],
    )
    expected = bytearray(before)
    first, second = (0, offset * unit) if updates else (offset * unit, 0)
    for start, source in ((first, 0), (second, 32)):
        bits = one.mask_bits(bytes(before[source : source + 32]))
        data = one.mask_bytes(bits if word == "NORM" else bits[::2])
        expected[OUT + start : OUT + start + len(data)] = data
    assert after == expected


# -- special registers -----------------------------------------------------------------------------


@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize(("op", "offset", "unit"), [("sprsts", 12, 1), ("sprsti", 3, 4), ("sprsti", -1, 4)])  # fmt: skip
def test_special_register_in_memory(op, offset, unit, updates):
    """AR is what the appends of one squeeze counted; offsets are bytes, constant ones words."""
    seed = (op, offset, updates)
    before, v, k = memory(seed), vreg("f32"), "!pto.mask<b32>"
    p, q, al = "!pto.ptr<f32, ub>", "!pto.ptr<i32, ub>", "!pto.align"
    image = random.Random(str(seed)).randbytes(32)
    before[MASK : MASK + 32] = image
    result, out = ("%q1 = ", f" -> {q}") if updates else ("", "")
    after, _ = in_ub(
        bytes(before),
        f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
        f"%r = pto.vlds %f32[0] : {p} -> {v}",
        f"%z = pto.vsqz %r, %m : {v}, {k} -> {v}",
        'pto.sprclr "AR"',
        f"%a = pto.init_align : {al}",
        f'%b = pto.vstur %a, %z, %f32, "POST_UPDATE" : {al}, {v}, {p} -> {al}',
        f"%o = pto.addptr %i32, %s : {q} -> {q}",
        f'{result}pto.{op} "AR", %o[%n] : {q}, i32{out}',
        f'pto.sprsts "AR", %{"q1" if updates else "o"}[%none] : {q}, i32',
        setup=[
            f"%s = arith.constant {OUT // 4} : index",
            f"%n = arith.constant {offset} : i32",
            "%none = arith.constant 0 : i32",
        ],
    )
    count = 4 * sum(one.active(one.mask_bits(image), 4))
    expected = bytearray(before[OUT - 64 : OUT + 64])
    for at in (0, offset * unit):
        expected[64 + at : 68 + at] = count.to_bytes(4, "little")
    assert after[OUT - 64 : OUT + 64] == expected


# -- loops and watching ----------------------------------------------------------------------------

LOOP = """
    %s0 = arith.constant 0 : index
    %end = arith.constant 4 : index
    %step = arith.constant 1 : index
    %n64 = arith.constant 64 : index
    %first = pto.addptr %f32, %out : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
    %e:2 = scf.for %i = %s0 to %end step %step iter_args(%a = %f32, %b = %first)
        -> (!pto.ptr<f32, ub>, !pto.ptr<f32, ub>) {
      %x, %a1 = pto.vlds %a[%n64] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>, !pto.ptr<f32, ub>
      %y = pto.vneg %x, %full : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>
      %b1 = pto.vsts %y, %b[%n64], %full : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>
        -> !pto.ptr<f32, ub>
      scf.yield %a1, %b1 : !pto.ptr<f32, ub>, !pto.ptr<f32, ub>
    }"""


@pytest.mark.parametrize("at", [OUT, 1024])
def test_a_loop_carries_its_pointers(at):
    """Bytes, and the hazard of a load after a store of the same bytes, are those of indexed accesses."""
    before = memory("loop")
    for i in range(0, 1280, 4):
        before[i + 3] &= 0x3F  # neither NaN nor infinity
    after, codes = in_ub(
        bytes(before),
        full("f32"),
        LOOP,
        setup=[f"%out = arith.constant {at // 4 - 64 * (at == 1024)} : index"],
        timing=False,
    )
    expected = bytearray(before)
    start = at - 256 * (at == 1024)
    for i in range(0, 1024, 4):
        word = bytearray(expected[i : i + 4])
        word[3] ^= 0x80
        expected[start + i : start + i + 4] = word
    assert after == expected
    assert codes == ([] if at == OUT else ["PTO6610"])


def test_what_a_wrapping_counter_says_is_what_is_accessed():
    """An offset of a narrow counter wraps: 224 + 32 in eight bits is 0."""
    before, v, p = memory("wrap"), vreg("f32"), "!pto.ptr<f32, ub>"
    after, _ = in_ub(
        bytes(before),
        full("f32"),
        "%n = arith.constant 224 : i8",
        "%m = arith.constant 32 : i8",
        "%sum = arith.addi %n, %m : i8",
        "%o = arith.index_castui %sum : i8 to index",
        f"%a = pto.vlds %f32[%o] : {p} -> {v}",
        stored("a", "f32", OUT),
    )
    assert after[OUT : OUT + 256] == before[:256]


def test_april_has_no_updated_pointer():
    with pytest.raises(Exception, match="results"):
        in_ub(
            bytes(memory("april")),
            "%a, %q = pto.vlds %f32[0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>, !pto.ptr<f32, ub>",
            compat="2026-04",
        )
