"""Operations of vector registers that August adds or changes, against one lane at a time."""

from __future__ import annotations

import itertools
import random

import pytest

import ptosim
from tests.ops.micro.data import MASK, OUT, full, masks, memory, registers, same, stored
from tests.oracle import lanes as one
from tests.oracle import registers as model
from tests.oracle import ub
from tests.oracle.lanes import lanes_of
from tests.support.micro import Lanes, bits_of, in_ub, mask_type, vreg

pytestmark = pytest.mark.sampled(6)

BATCHES = 6
LOW = {"f8E4M3FN": "f8E4M3FN", "f8E5M2": "f8E5M2", "hif8": "!pto.hif8", "f4E2M1x2": "!pto.f4E2M1x2", "f4E1M2x2": "!pto.f4E1M2x2"}  # fmt: skip
"""How the narrow floats are written."""


# -- arithmetic ------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", ["f32", "f16", "bf16"])
def test_multiply_and_add_with_one_rounding(elem):
    """vmadd is acc * lhs + rhs; in vmula acc is what is added to."""
    width, v = one.bits_of(elem) // 8, vreg(elem)
    a, b, c = (registers(f"madd{n}", elem, BATCHES) for n in range(3))
    m = masks("madd", width, BATCHES)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).input("c", elem, c).mask("m", 8 * width, m)
        .result("r", elem)
        .run(f"%r = pto.vmadd %a, %b, %c, %m : {v}, {v}, {v}, {mask_type(8 * width)} -> {v}")
    )["r"]  # fmt: skip
    for got, x, y, z, g in zip(found, a, b, c, m, strict=True):
        lanes = [
            one.multiply_add(p, q, r, elem)
            for p, q, r in zip(*(lanes_of(t, elem) for t in (x, y, z)), strict=True)
        ]
        assert same(got, model.gated(lanes, one.mask_bits(g), elem), elem) is None


def _quotient(x: int, y: int, elem: str) -> int:
    """Toward zero; by zero -1; what does not fit wraps."""
    a, b = one.number(x, elem), one.number(y, elem)
    whole = -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return whole & ((1 << one.bits_of(elem)) - 1)


@pytest.mark.parametrize("elem", ["i16", "si16", "i32", "si32"])
def test_integer_quotients(elem):
    width, v = one.bits_of(elem) // 8, vreg(elem)
    a, b, m = registers("div", elem, BATCHES), registers("by", elem, BATCHES), masks("div", width, BATCHES)  # fmt: skip
    top = 1 << (8 * width - 1)
    edges = list(itertools.product((top, top - 1, 0, 1, 2 * top - 1, 7), (2 * top - 1, 0, 1, 3, top)))[: 256 // width]  # fmt: skip
    fill = [(0, 1)] * (256 // width - len(edges))
    a.append(one.join([x for x, _ in edges + fill], width))
    b.append(one.join([y for _, y in edges + fill], width))
    m.append(b"\xff" * 32)
    found = (
        Lanes().input("a", elem, a).input("b", elem, b).mask("m", 8 * width, m).result("r", elem)
        .run(f"%r = pto.vdiv %a, %b, %m : {v}, {v}, {mask_type(8 * width)} -> {v}")
    )["r"]  # fmt: skip
    for got, x, y, g in zip(found, a, b, m, strict=True):
        lanes = [_quotient(p, q, elem) for p, q in zip(lanes_of(x, elem), lanes_of(y, elem), strict=True)]  # fmt: skip
        assert lanes_of(got, elem) == model.gated(lanes, one.mask_bits(g), elem)


@pytest.mark.parametrize("op", ["shl", "shr"])
@pytest.mark.parametrize(("elem", "count"), [("ui16", "si16"), ("i32", "si32"), ("ui8", "si8"), ("i32", "i32")])  # fmt: skip
def test_shift_counts_are_plain_numbers(op, elem, count):
    """Signed counts, or as a legacy form those of the data's own type; negative ones are large."""
    width, v, k = one.bits_of(elem) // 8, vreg(elem), vreg(count)
    a, b, m = registers(op, elem, 4), registers(op + "by", count, 4), masks(op, width, 4)
    found = (
        Lanes().input("a", elem, a).input("b", count, b).mask("m", 8 * width, m).result("r", elem)
        .run(f"%r = pto.v{op} %a, %b, %m : {v}, {k}, {mask_type(8 * width)} -> {v}")
    )["r"]  # fmt: skip
    for got, x, y, g in zip(found, a, b, m, strict=True):
        lanes = [one.binary(op, p, q, elem) for p, q in zip(lanes_of(x, elem), lanes_of(y, elem), strict=True)]  # fmt: skip
        assert lanes_of(got, elem) == model.gated(lanes, one.mask_bits(g), elem)


@pytest.mark.parametrize("elem", LOW)
@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_bits_of_narrow_floats(op, elem):
    a, b, m = registers(op, "ui8", 4), registers(op + elem, "ui8", 4), masks(op + elem, 1, 4)
    v = f"!pto.vreg<256x{LOW[elem]}>"
    found = (
        Lanes().input("a", "ui8", a).input("b", "ui8", b).mask("m", 8, m).result("r", "ui8")
        .run(f"%x = pto.vbitcast %a : {vreg('ui8')} -> {v}", f"%y = pto.vbitcast %b : {vreg('ui8')} -> {v}",
             f"%z = pto.v{op} %x, %y, %m : {v}, {v}, !pto.mask<b8> -> {v}", f"%r = pto.vbitcast %z : {v} -> {vreg('ui8')}")
    )["r"]  # fmt: skip
    for got, x, y, g in zip(found, a, b, m, strict=True):
        lanes = [one.binary(op, p, q, "ui8") for p, q in zip(x, y, strict=True)]
        assert list(got) == model.gated(lanes, one.mask_bits(g), "ui8")


# -- conversions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["EVEN", "ODD"])
@pytest.mark.parametrize(("text", "pattern"), [("2.500000e-01", 0x3E800000), ("-3.0", 0xC0400000)])
def test_scaled_and_converted(text, pattern, part):
    """The product in f32, then f16 half away from zero; the lanes of the other part are 0."""
    a, m = registers(part + text, "f32", BATCHES), masks(part, 4, BATCHES)
    ties = [0x3F801000 | i << 13 for i in range(64)]  # halfway between two of f16 (factor a power)
    a.append(one.join(ties, 4))
    m.append(b"\xff" * 32)
    found = (
        Lanes().input("a", "f32", a).mask("m", 32, m).result("r", "f16")
        .run(f'%r = pto.vmulscvt %a, %s, %m, "A", "{part}" : {vreg("f32")}, f32, !pto.mask<b32> -> {vreg("f16")}',
             setup=[f"%s = arith.constant {text} : f32"])
    )["r"]  # fmt: skip
    nan = one.encode_exact("nan", "f32")
    for got, x, g in zip(found, a, m, strict=True):
        products = [one.binary("mul", p, pattern, "f32") for p in lanes_of(x, "f32")]
        products = [nan if p is None else p for p in products]
        bits = one.mask_bits(g)
        expected = model.converted(products, bits, "f32", "f16", "A", saturate=False, part=part)
        assert same(got, expected, "f16") is None


# -- reductions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "f16", "f32"])
@pytest.mark.parametrize("op", ["vcbmax", "vcbmin"])
def test_extremum_and_where_it_is(op, elem):
    """Lane 0 the extremum, the mask its equals among the active lanes: both zeros, none of NaN."""
    width, v, k = one.bits_of(elem) // 8, vreg(elem), mask_type(one.bits_of(elem))
    a, m = registers(op, elem, BATCHES), masks(op + elem, width, BATCHES)
    if one.is_float(elem):  # without NaN too
        sign = 1 << (8 * width - 1)
        clean = [x if not one.is_nan(one.decode(x, elem)) else 0 for x in lanes_of(a[4], elem)]
        zeros = [(i % 3 == 1) * sign for i in range(len(clean))]
        a += [one.join(clean, width), one.join(zeros, width)]
        m += [b"\xff" * 32] * 2
    found = (
        Lanes().input("a", elem, a).mask("m", 8 * width, m).result("r", elem).mask_result("w", 8 * width)
        .run(f"%r, %w = pto.{op} %a, %m : {v}, {k} -> {v}, {k}")
    )  # fmt: skip
    for got, where, x, g in zip(found["r"], found["w"], a, m, strict=True):
        lanes, bits = lanes_of(x, elem), one.mask_bits(g)
        best = model.extremum(lanes, bits, elem, larger=op == "vcbmax")[0]
        is_nan = one.is_float(elem) and one.is_nan(one.decode(best, elem))
        expected = [None if is_nan else best, *[0] * (len(lanes) - 1)]
        assert same(got, expected, elem) is None
        equal = [a and one.compare("eq", p, best, elem) for p, a in zip(lanes, one.active(bits, width), strict=True)]  # fmt: skip
        assert one.mask_bits(where) == one.image([int(e) for e in equal], width)


@pytest.mark.parametrize(
    ("op", "elem"), [("dhistv2", "ui8"), ("chistv2", "ui8"), ("dhistv2", "i8")]
)
@pytest.mark.parametrize("bin_", [0, 1])
def test_histograms(op, elem, bin_):
    wide = "ui16" if elem == "ui8" else "i16"
    a, c, m = registers(op, "ui8", BATCHES), registers(op + "acc", wide, BATCHES), masks(op, 1, BATCHES)  # fmt: skip
    v = vreg(wide)
    found = (
        Lanes().input("a", elem, a).input("c", wide, c).mask("m", 8, m).result("r", wide)
        .run(f"%r = pto.{op} %c, %a, %m, %bin : {v}, {vreg(elem)}, !pto.mask<b8>, i32 -> {v}",
             setup=[f"%bin = arith.constant {bin_} : i32"])
    )["r"]  # fmt: skip
    for got, x, y, g in zip(found, a, c, m, strict=True):
        chosen = [p for p, on in zip(x, one.active(one.mask_bits(g), 1), strict=True) if on]
        for i, (lane_, acc) in enumerate(zip(one.split(got, 2), one.split(y, 2), strict=True)):
            value = 128 * bin_ + i
            count = sum(p == value if op == "dhistv2" else p <= value for p in chosen)
            assert lane_ == (acc + count) & 0xFFFF


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("loop", "bound"), [(0, 5), (1, 100), (3, 1000), (2, 0), (-1, -3), (0, 4000), (7, 449)])  # fmt: skip
def test_lanes_below_a_bound(bits, loop, bound):
    """pltm_b8, pltm_b16, pltm_b32."""
    k, count = mask_type(bits), 2048 // bits
    found = (
        Lanes().input("a", "ui8", [bytes(256)]).mask_result("r", bits)
        .run(f"%r = pto.pltm_b{bits} %l, %b : i16, i32 -> {k}",
             setup=[f"%l = arith.constant {loop} : i16", f"%b = arith.constant {bound} : i32"])
    )["r"][0]  # fmt: skip
    lanes = [int(loop * count + i < bound) for i in range(count)]
    assert one.mask_bits(found) == one.image(lanes, bits // 8)


# -- gathers and scatters --------------------------------------------------------------------------

GATHERS = [("ui8", "ui16", "ui16"), ("i8", "i16", "i16"), ("f16", "f16", "ui16"), ("bf16", "bf16", "i16"), ("f32", "f32", "ui32"), ("i32", "i32", "i32")]  # fmt: skip


@pytest.mark.parametrize(("src", "dst", "index"), GATHERS)
def test_gathers(src, dst, index):
    """Indices count elements of the source, unsigned; a byte is zero-extended, also a signed one."""
    w, width = bits_of(src) // 8, bits_of(dst) // 8
    count, rng = 256 // width, random.Random(src + dst)
    before = memory(src)
    indices = [rng.randrange(1000 // w) for _ in range(count)]
    before[1280:1536] = one.join(indices, bits_of(index) // 8)
    v, p, k, x = vreg(dst), f"!pto.ptr<{src}, ub>", mask_type(8 * width), vreg(index)
    for image in masks(src + dst, width, 6):
        before[MASK : MASK + 32] = image
        after, _ = in_ub(
            bytes(before),
            full(dst),
            f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
            f"%x = pto.vlds %{index}[{1280 // (bits_of(index) // 8)}] : !pto.ptr<{index}, ub> -> {x}",
            f"%r = pto.vgather2 %{src}, %x, %m : {p}, {x}, {k} -> {v}",
            stored("r", dst, OUT),
        )
        on = one.active(one.mask_bits(image), width)
        gathered = b"".join(
            bytes(before[i * w : i * w + w]).ljust(width, b"\0") if a else bytes(width)
            for i, a in zip(indices, on, strict=True)
        )
        assert after[OUT : OUT + 256] == gathered


def test_gather_at_a_large_index():
    """65535 elements further on, not one back."""
    before = memory("large")
    before[1280:1536] = one.join([65535] * 128, 2)
    with pytest.raises(Exception, match="UB"):
        in_ub(
            bytes(before),
            full("f16"),
            "%x = pto.vlds %ui16[640] : !pto.ptr<ui16, ub> -> !pto.vreg<128xui16>",
            "%q = pto.addptr %f16, %far : !pto.ptr<f16, ub> -> !pto.ptr<f16, ub>",
            "%r = pto.vgather2 %q, %x, %full : !pto.ptr<f16, ub>, !pto.vreg<128xui16>, !pto.mask<b16> -> !pto.vreg<128xf16>",
            setup=["%far = arith.constant 100000 : index"],
        )


SCATTERS = [("ui8", "ui16"), ("i8", "si16"), ("f16", "i16"), ("f32", "si32"), ("i16", "ui16")]


@pytest.mark.parametrize(("elem", "index"), SCATTERS)
def test_scatters(elem, index):
    """Of 8-bit values the even bytes, one for each of 128 offsets; the last of equal offsets wins."""
    w, width = bits_of(elem) // 8, bits_of(index) // 8
    count, rng = 256 // width, random.Random(elem + index)
    before = memory(elem + index)
    indices = [rng.randrange(900 // w) // 2 * 2 for _ in range(count)]
    before[1280:1536] = one.join(indices, width)
    v, x, p, k = vreg(elem), vreg(index), f"!pto.ptr<{elem}, ub>", mask_type(8 * width)
    raw = index.replace("si", "i")
    for image in masks(elem + index, width, 6):
        before[MASK : MASK + 32] = image
        after, _ = in_ub(
            bytes(before),
            f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
            f"%y = pto.vlds %{raw}[{1280 // width}] : !pto.ptr<{raw}, ub> -> {vreg(raw)}",
            f"%x = pto.vbitcast %y : {vreg(raw)} -> {x}",
            f"%s = pto.vlds %{elem}[0] : {p} -> {v}",
            f"%q = pto.addptr %{elem}, %far : {p} -> {p}",
            f"pto.vscatter %s, %q, %x, %m : {v}, {p}, {x}, {k}",
            setup=[f"%far = arith.constant {OUT // w} : index"],
        )
        expected = bytearray(before)
        step = 2 if w == 1 else 1
        for number, (i, a) in enumerate(zip(indices, one.active(one.mask_bits(image), width), strict=True)):  # fmt: skip
            if a:
                expected[OUT + i * w : OUT + i * w + w] = before[number * step * w : number * step * w + w]  # fmt: skip
        assert after == expected


# -- narrow floats through memory ------------------------------------------------------------------


@pytest.mark.parametrize("elem", LOW)
def test_narrow_floats_are_bytes_in_memory(elem):
    """Loads, stores, streams, rearrangement of narrow floats work in bytes, offsets too."""
    before, t = memory(elem), LOW[elem]
    v, p, al, k = f"!pto.vreg<256x{t}>", f"!pto.ptr<{t}, ub>", "!pto.align", "!pto.mask<b8>"
    after, _ = in_ub(
        bytes(before),
        '%full = pto.pset_b8 "PAT_ALL" : !pto.mask<b8>',
        f"%p = pto.castptr %ui8 : !pto.ptr<ui8, ub> -> {p}",
        f"%a, %p1 = pto.vlds %p[3] : {p} -> {v}, {p}",
        f"%l0 = pto.vldas %p1 : {p} -> {al}",
        f"%b, %l1 = pto.vldus %p1, %l0 : {p}, {al} -> {v}, {al}",
        f'%c, %d = pto.vldsx2 %p[5], "DINTLV_B8" : {p}, index -> {v}, {v}',
        f"%e, %f = pto.vintlv %c, %d : {v}, {v} -> {v}, {v}",
        f"%ix = pto.vlds %ui8[700] : !pto.ptr<ui8, ub> -> {vreg('ui8')}",
        f"%h = pto.vselr %a, %ix : {v}, {vreg('ui8')} -> {v}",
        *(f"pto.vsts %{n}, %p[{OUT + 256 * i}], %full : {v}, {p}, {k}" for i, n in enumerate("abefh")),
        f"%s0 = pto.init_align : {al}",
        f"%q = pto.addptr %p, %far : {p} -> {p}",
        f"%s1, %q1 = pto.vstus %s0, %n, %a, %q : {al}, i32, {v}, {p} -> {al}, {p}",
        f"pto.vstas %s1, %q1, %none : {al}, {p}, i32",
        setup=[f"%far = arith.constant {OUT + 1285} : index", "%n = arith.constant 100 : i32", "%none = arith.constant 0 : i32"],
    )  # fmt: skip
    low, high = ub.load_two(before, 5, "DINTLV_B8")
    e, f = model.interleave(low, high)
    chosen = bytes(before[i] for i in before[700:956])
    shown = [before[:256], before[3:259], bytes(e), bytes(f), chosen]
    assert after[OUT : OUT + 1280] == b"".join(shown)
    assert after[OUT + 1285 : OUT + 1385] == before[:100]


def test_pairs_of_bf16_are_retyped():
    """A register of bf16x2 is 64 pairs; vbitcast takes and gives it."""
    a = registers("pairs", "bf16", 2)
    pair = "!pto.vreg<64x!pto.bf16x2>"
    found = (
        Lanes().input("a", "bf16", a).result("r", "f32")
        .run(f"%b = pto.vbitcast %a : {vreg('bf16')} -> {pair}", f"%r = pto.vbitcast %b : {pair} -> {vreg('f32')}")
    )["r"]  # fmt: skip
    assert found == a


@pytest.mark.parametrize(("word", "elem", "bits"), [("PK_B16", "f32", 16), ("PK_B64", "f16", 32), ("NORM_B32", "f16", 8), ("1PT_B8", "f32", 32), ("MRG2CHN_B16", "ui8", 32)])  # fmt: skip
def test_masks_of_distributions(word, elem, bits):
    """The distribution says which mask there is, whatever the lanes are; others take any."""
    for number, image in enumerate(masks(word, bits // 8, 5)):
        before = memory(f"{word}{number}")
        before[MASK : MASK + 32] = image
        after, _ = in_ub(
            bytes(before),
            f"%r = pto.vlds %{elem}[0] : !pto.ptr<{elem}, ub> -> {vreg(elem)}",
            f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {mask_type(bits)}',
            f'pto.vsts %r, %{elem}[{OUT // (bits_of(elem) // 8)}], %m {{dist = "{word}"}} : {vreg(elem)}, '
            f"!pto.ptr<{elem}, ub>, {mask_type(bits)}",
        )
        expected = bytearray(before)
        ub.store(expected, OUT, bytes(before[:256]), one.mask_bits(image), word, bits_of(elem) // 8)
        assert after == expected, f"mask {number}"


def test_updated_pointers_cost_nothing():
    """A loop that carries its pointers takes as long as one with indices."""

    def cycles(body: str) -> float:
        text = f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>}} {{
func.func @k(%g: !pto.ptr<f32>) attributes {{pto.kernel}} {{
  %z = arith.constant 0 : i64
  %p = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %end = arith.constant 2048 : index
  pto.vecscope {{
    %m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
    {body}
  }}
  return
}}
}}"""
        return ptosim.load(text).cost(args={}).regions[0].cycles

    v, p = "!pto.vreg<64xf32>", "!pto.ptr<f32, ub>"
    indexed = cycles(
        f"scf.for %i = %c0 to %end step %c64 {{\n%x = pto.vlds %p[%i] : {p} -> {v}\n"
        f"%y = pto.vneg %x, %m : {v}, !pto.mask<b32> -> {v}\n"
        f"pto.vsts %y, %p[%i], %m : {v}, {p}, !pto.mask<b32>\n}}"
    )
    carried = cycles(
        f"%e:2 = scf.for %i = %c0 to %end step %c64 iter_args(%a = %p, %b = %p) -> ({p}, {p}) {{\n"
        f"%x, %a1 = pto.vlds %a[%c64] : {p} -> {v}, {p}\n%y = pto.vneg %x, %m : {v}, !pto.mask<b32> -> {v}\n"
        f"%b1 = pto.vsts %y, %b[%c64], %m : {v}, {p}, !pto.mask<b32> -> {p}\nscf.yield %a1, %b1 : {p}, {p}\n}}"
    )
    assert carried == indexed
