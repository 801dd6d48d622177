"""Vector loads and stores with every distribution, gathers and blocks, byte by byte."""

from __future__ import annotations

import random

import pytest

import ptosim
from tests.ops.micro.data import MASK, OUT, full, masks, memory, stored
from tests.oracle import lanes as one
from tests.oracle import ub as model
from tests.support.micro import bits_of, in_ub, mask_type, vreg

LOADS = {
    "NORM": "f32 ui8", "BRC_B8": "ui8 f32", "BRC_B16": "f16 f32", "BRC_B32": "f32", "BRC_BLK": "f32",
    "US_B8": "i8", "US_B16": "i16 f32", "DS_B8": "i8", "DS_B16": "i16", "UNPK_B8": "ui8", "UNPK_B16": "ui16",
    "UNPK_B32": "ui32", "UNPK4": "ui8", "UNPK4_B8": "ui8", "E2B_B16": "f16", "E2B_B32": "f32",
    "SPLT4CHN": "ui8", "SPLT4CHN_B8": "ui8", "SPLT2CHN_B8": "ui8", "SPLT2CHN_B16": "ui16",
}  # fmt: skip


@pytest.mark.parametrize(("word", "elem"), [(w, e) for w, es in LOADS.items() for e in es.split()])
def test_loads(word, elem):
    """Distributions are about bytes of their own width, whatever the pointer's elements are."""
    before = memory(word)
    offset = 3 if word.startswith("BRC_B") and word != "BRC_BLK" else 256 // bits_of(elem)
    after, codes = in_ub(
        bytes(before),
        full(elem),
        f'%r = pto.vlds %{elem}[{offset}] {{dist = "{word}"}} : !pto.ptr<{elem}, ub> -> {vreg(elem)}',
        stored("r", elem, OUT),
    )
    expected = bytearray(before)
    expected[OUT : OUT + 256] = model.load(before, offset * bits_of(elem) // 8, word)
    assert after == expected
    assert codes == []


@pytest.mark.parametrize(
    ("word", "elem"),
    [("DINTLV_B8", "ui8"), ("DINTLV_B16", "f16"), ("DINTLV_B32", "f32"), ("BDINTLV", "f32")],
)
def test_loads_of_two(word, elem):
    before, v = memory(word), vreg(elem)
    after, _ = in_ub(
        bytes(before),
        full(elem),
        f'%r, %s = pto.vldsx2 %{elem}[16], "{word}" : !pto.ptr<{elem}, ub>, index -> {v}, {v}',
        stored("r", elem, OUT),
        stored("s", elem, OUT + 256),
    )
    low, high = model.load_two(before, 16 * bits_of(elem) // 8, word)
    assert after[OUT : OUT + 512] == low + high


@pytest.mark.parametrize(
    ("word", "elem"),
    [("STRIDE_S3_B16", "f16"), ("STRIDE_S4_B64", "f32"), ("STRIDE_S8_B32", "f32"), ("STRIDE_S2_B64", "f32")],
)  # fmt: skip
def test_fixed_strides(word, elem):
    """Lane i of a load is element i * stride; a store puts it there and nothing between."""
    step, w = int(word[8]), int(word.rpartition("_B")[2]) // 8
    before = memory(word)
    v, p = vreg(elem), f"!pto.ptr<{elem}, ub>"
    after, _ = in_ub(
        bytes(before),
        full(elem),
        f'%r = pto.vsld %{elem}[0], "{word}" : {p} -> {v}',
        stored("r", elem, OUT),
    )
    units = [before[i * step * w : i * step * w + w] for i in range(256 // w)]
    assert after[OUT : OUT + 256] == b"".join(units)
    after, _ = in_ub(
        bytes(before),
        f"%r = pto.vlds %{elem}[0] : {p} -> {v}",
        f'pto.vsst %r, %{elem}[{OUT // (bits_of(elem) // 8)}], "{word}" : {v}, {p}',
    )
    expected = bytearray(before)
    for i in range(256 // w):
        at = OUT + i * step * w
        expected[at : at + w] = before[i * w : (i + 1) * w]
    assert after == expected


STORES = [
    (None, "f32", 32), (None, "f16", 16), (None, "ui8", 8), ("NORM_B32", "f32", 32), ("NORM_B16", "f16", 16),
    ("NORM_B8", "ui8", 8), ("NORM_B8", "f32", 8), ("1PT_B32", "f32", 32), ("1PT_B16", "f16", 16),
    ("1PT_B8", "ui8", 8), ("PK_B16", "f16", 16), ("PK_B32", "f16", 32), ("PK_B32", "f32", 32),
    ("PK_B64", "f32", 32), ("PK4_B32", "ui8", 32), ("MRG4CHN_B8", "ui8", 32), ("MRG2CHN_B8", "ui8", 16),
    ("MRG2CHN_B16", "f16", 32), (None, "i64", 32),
]  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("word", "elem", "bits"), STORES)
def test_stores(word, elem, bits):
    """Masks full, empty and partial: only active elements are written (1PT: always)."""
    attrs = f' {{dist = "{word}"}}' if word else ""
    for number, image in enumerate(masks(word, bits // 8, 6)):
        before = memory(f"{word}{number}")
        before[MASK : MASK + 32] = image
        after, codes = in_ub(
            bytes(before),
            f"%r = pto.vlds %{elem}[0] : !pto.ptr<{elem}, ub> -> {vreg(elem)}",
            f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {mask_type(bits)}',
            f"pto.vsts %r, %{elem}[{OUT // (bits_of(elem) // 8)}], %m{attrs} : {vreg(elem)}, "
            f"!pto.ptr<{elem}, ub>, {mask_type(bits)}",
        )
        expected = bytearray(before)
        model.store(
            expected, OUT, bytes(before[:256]), one.mask_bits(image), word, bits_of(elem) // 8
        )
        assert after == expected, f"mask {number}"
        assert codes == []


@pytest.mark.parametrize(
    ("word", "elem"), [("INTLV_B8", "ui8"), ("INTLV_B16", "f16"), ("INTLV_B32", "f32")]
)
def test_stores_of_two(word, elem):
    """The mask is ignored."""
    before, v, bits = memory(word), vreg(elem), bits_of(elem)
    after, _ = in_ub(
        bytes(before),
        f'%none = pto.pset_b{bits} "PAT_ALLF" : {mask_type(bits)}',
        f"%r = pto.vlds %{elem}[0] : !pto.ptr<{elem}, ub> -> {v}",
        f"%s = pto.vlds %{elem}[{2048 // bits}] : !pto.ptr<{elem}, ub> -> {v}",
        f'pto.vstsx2 %r, %s, %{elem}[{OUT // (bits // 8)}], "{word}", %none : {v}, {v}, '
        f"!pto.ptr<{elem}, ub>, index, {mask_type(bits)}",
    )
    expected = bytearray(before)
    model.store_two(expected, OUT, bytes(before[:256]), bytes(before[256:512]), word)
    assert after == expected


# -- blocks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0x11111111, 0x11101011, 0x00000001, 0, 0xEEEEEEEE])
@pytest.mark.parametrize(("stride", "repeat"), [(1, 0), (3, 2)])
def test_blocks(bits, stride, repeat):
    """Block k is at (repeat + k * stride) * 32; bit 4k of the image gates it, loads and stores alike."""
    before = memory(bits)
    image = bits.to_bytes(4, "little") + bytes(28)
    before[MASK : MASK + 32] = image
    setup = [f"%bs = arith.constant {stride} : i16", f"%rs = arith.constant {repeat} : i16"]
    v, k = vreg("f32"), "!pto.mask<b32>"
    after, _ = in_ub(
        bytes(before),
        full("f32"),
        f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
        f"%r = pto.vsldb %f32, %bs, %rs, %m : !pto.ptr<f32, ub>, i16, i16, {k} -> {v}",
        stored("r", "f32", OUT),
        "%q = pto.addptr %f32, %far : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>",
        "%s = pto.vlds %f32[64] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>",
        f"pto.vsstb %s, %q, %bs, %rs, %m : {v}, !pto.ptr<f32, ub>, i16, i16, {k}",
        setup=[*setup, f"%far = arith.constant {(OUT + 512) // 4} : index"],
    )
    gate = one.mask_bits(image)
    starts = [(repeat + k * stride) * 32 for k in range(8)]
    expected = bytearray(before)
    expected[OUT : OUT + 256] = model.blocks(before, starts, gate)
    for k, start in enumerate(starts):
        if gate[4 * k]:
            at = OUT + 512 + start
            expected[at : at + 32] = before[256 + 32 * k : 256 + 32 * k + 32]
    assert after == expected


def test_gathered_blocks():
    """Byte offsets in lanes 0 to 7; the other lanes may hold anything."""
    before = memory("gatherb")
    offsets = [64, 0, 0, 96, 992, 32, 480, 64] + [0xFFFFFFFF] * 56
    before[1280:1536] = one.join(offsets, 4)
    image = 0x11110111.to_bytes(4, "little") + bytes(28)
    before[MASK : MASK + 32] = image
    v, k = vreg("f32"), "!pto.mask<b32>"
    after, _ = in_ub(
        bytes(before),
        full("f32"),
        f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
        "%o = pto.vlds %ui32[320] : !pto.ptr<ui32, ub> -> !pto.vreg<64xui32>",
        f"%r = pto.vgatherb %f32, %o, %m : !pto.ptr<f32, ub>, !pto.vreg<64xui32>, {k} -> {v}",
        stored("r", "f32", OUT),
    )
    expected = model.blocks(before, offsets[:8], one.mask_bits(image))
    assert after[OUT : OUT + 256] == expected


@pytest.mark.parametrize(("elem", "index"), [("f32", "i32"), ("ui8", "ui8"), ("f16", "ui16")])
def test_gather_and_scatter(elem, index):
    """Element indices; inactive lanes read nothing, and of equal indices the last lane wins. Only April
    has indices of 8 and 16 bits throughout."""
    w, bits = bits_of(elem) // 8, bits_of(elem)
    count, rng = 256 // w, random.Random(elem)
    before = memory(elem)
    indices = [rng.randrange(900 // w if w > 1 else 256) // 2 * 2 for _ in range(count)]
    before[1280:1536] = one.join(indices, bits_of(index) // 8)
    v, p, k, x = vreg(elem), f"!pto.ptr<{elem}, ub>", mask_type(bits), vreg(index)
    for image in masks(elem, w, 6):
        before[MASK : MASK + 32] = image
        after, _ = in_ub(
            bytes(before),
            full(elem),
            f'%m = pto.plds %ui8[{MASK}], "NORM" : !pto.ptr<ui8, ub>, index -> {k}',
            f"%x = pto.vlds %{index}[{1280 // (bits_of(index) // 8)}] : !pto.ptr<{index}, ub> -> {x}",
            f"%r = pto.vgather2 %{elem}, %x, %m : {p}, {x}, {k} -> {v}",
            f"%b = pto.vgather2_bc %{elem}, %x, %m : {p}, {x}, {k} -> {v}",
            stored("r", elem, OUT),
            stored("b", elem, OUT + 256),
            f"%q = pto.addptr %{elem}, %far : {p} -> {p}",
            f"%s = pto.vlds %{elem}[{256 // w}] : {p} -> {v}",
            f"pto.vscatter %s, %q, %x, %m : {v}, {p}, {x}, {k}",
            setup=[f"%far = arith.constant {(OUT + 1024) // w} : index"],
            compat=None if elem == "f32" else "2026-04",
        )
        on = one.active(one.mask_bits(image), w)
        gathered = b"".join(
            before[i * w : i * w + w] if a else bytes(w) for i, a in zip(indices, on, strict=True)
        )
        expected = bytearray(before)
        expected[OUT : OUT + 512] = gathered * 2
        for lane, (i, a) in enumerate(zip(indices, on, strict=True)):
            if a:
                at = OUT + 1024 + i * w
                expected[at : at + w] = before[256 + lane * w : 256 + lane * w + w]
        assert after == expected


# -- predicates ---------------------------------------------------------------------------------------


_STEP = {"NORM": 32, "DS": 32, "US": 16, "PK": 16}
"""Bytes that a constant offset counts."""


@pytest.mark.parametrize("elem", ["ui8", "f32"])
@pytest.mark.parametrize("op", ["s", "i", ""])
def test_predicates_in_memory(op, elem):
    """NORM as it is, US each bit twice, DS and PK every second bit. Offsets count bytes (s), steps as
    long as the distribution (i), or elements ("")."""
    before = memory(op)
    p, k = f"!pto.ptr<{elem}, ub>", "!pto.mask<b8>"

    def offset(at: int, word: str) -> int:
        unit = {"s": 1, "i": _STEP[word], "": bits_of(elem) // 8}[op]
        return at // unit

    lines = []
    for n, word in enumerate(("NORM", "US", "DS")):
        lines.append(
            f'%m{n} = pto.pld{op} %{elem}[{offset(64, word)}], "{word}" : {p}, index -> {k}'
        )
        lines.append(
            f'pto.psts %m{n}, %ui8[{OUT + 32 * n}], "NORM" : {k}, !pto.ptr<ui8, ub>, index'
        )
    lines.append(f'pto.pst{op} %m0, %{elem}[{offset(OUT + 128, "PK")}], "PK" : {k}, {p}, index')
    after, _ = in_ub(bytes(before), *lines)
    bits = one.mask_bits(bytes(before[64:128]))
    expected = bytearray(before)
    expected[OUT : OUT + 32] = before[64:96]
    expected[OUT + 32 : OUT + 64] = one.mask_bytes([bits[i // 2] for i in range(256)])
    expected[OUT + 64 : OUT + 96] = one.mask_bytes([bits[2 * i] for i in range(256)])
    expected[OUT + 128 : OUT + 144] = one.mask_bytes([bits[2 * i] for i in range(128)])
    assert after == expected


@pytest.mark.parametrize(("compat", "size"), [("2026-04", 4), ("2026-08", 1)])
def test_offsets_of_predicates_counted_elements_in_april(compat, size):
    before = memory(compat)
    p, k = "!pto.ptr<f32, ub>", "!pto.mask<b32>"
    after, _ = in_ub(
        bytes(before),
        f'%m = pto.plds %f32[%o], "NORM" : {p}, index -> {k}',
        f'pto.psts %m, %f32[{OUT // size}], "NORM" : {k}, {p}, index',
        setup=["%o = arith.constant 32 : index"],
        compat=compat,
    )
    assert after[OUT : OUT + 32] == before[32 * size : 32 * size + 32]


# -- errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "%r = pto.vlds %f32[65473] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>",
        "%r = pto.vlds %f32[-1] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>",
        '%m = pto.plds %ui8[262144], "NORM" : !pto.ptr<ui8, ub>, index -> !pto.mask<b8>',
    ],
)
def test_loads_outside_of_ub(line):
    with pytest.raises(ptosim.Trap) as caught:
        in_ub(bytes(64), line)
    assert caught.value.diagnostics[0].code == "PTO6602"


def test_store_at_the_end_of_ub():
    """Active lanes inside of UB are fine where the register as a whole would not fit."""
    line = "pto.vsts %r, %f32[65504], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>"
    load = "%r = pto.vlds %f32[0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>"
    in_ub(bytes(256), load, '%m = pto.pset_b32 "PAT_VL32" : !pto.mask<b32>', line)
    with pytest.raises(ptosim.Trap) as caught:
        in_ub(bytes(256), load, '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>', line)
    assert caught.value.diagnostics[0].code == "PTO6602"


# -- hazards ---------------------------------------------------------------------------------------------

_LOAD = "%r = pto.vlds %f32[0] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>"
_STORE = "pto.vsts %r, %f32[128], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>"
_AGAIN = "%s = pto.vlds %f32[184] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>"
_MASK = '%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>'


@pytest.mark.parametrize("kind", ["VST_VLD", "VV_ALL", "VLD_VST", "VST_VST"])
def test_load_behind_a_store(kind):
    """Eight lanes (loads begin at 32 bytes) overlap: only a barrier that orders vector loads after vector stores will do."""
    barrier = f'pto.mem_bar "{kind}"'
    _, codes = in_ub(memory("hazard"), _LOAD, _MASK, _STORE, barrier, _AGAIN)
    assert codes == ([] if kind in ("VST_VLD", "VV_ALL") else ["PTO6610"])


def test_no_hazard_between_regions_or_apart():
    apart = "%s = pto.vlds %f32[192] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>"
    _, codes = in_ub(memory("apart"), _LOAD, _MASK, _STORE, apart)
    assert codes == []
    _, codes = in_ub(memory("two"), _LOAD, _MASK, _STORE, "}", "pto.vecscope {", _AGAIN)
    assert codes == []


@pytest.mark.parametrize(
    "line",
    [
        "%s = pto.vgather2 %f32, %x, %m : !pto.ptr<f32, ub>, !pto.vreg<64xi32>, !pto.mask<b32> -> !pto.vreg<64xf32>",
        "%s = pto.vsldb %q, %one, %one, %m : !pto.ptr<f32, ub>, i16, i16, !pto.mask<b32> -> !pto.vreg<64xf32>",
        "%l = pto.vldas %q : !pto.ptr<f32, ub> -> !pto.align\n"
        "%s, %l1 = pto.vldus %q, %l : !pto.ptr<f32, ub>, !pto.align -> !pto.vreg<64xf32>, !pto.align",
    ],
)
def test_other_loads_behind_a_store(line):
    setup = ["%one = arith.constant 1 : i16", "%base = arith.constant 128 : i32", "%n = arith.constant 120 : index",
             "%q = pto.addptr %f32, %n : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>"]  # fmt: skip
    ramp = "%x = pto.vci %base : i32 -> !pto.vreg<64xi32>"
    _, codes = in_ub(memory("other"), _LOAD, _MASK, ramp, _STORE, line, setup=setup)
    assert codes == ["PTO6610"]


def test_registers_are_values():
    """A register keeps what was loaded when the bytes change after it."""
    before = memory("value")
    after, _ = in_ub(
        bytes(before), full("f32"), _LOAD, "%t = pto.vlds %f32[64] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>",
        stored("t", "f32", 0), stored("r", "f32", OUT),
    )  # fmt: skip
    assert after[:256] == before[256:512]
    assert after[OUT : OUT + 256] == before[:256]
