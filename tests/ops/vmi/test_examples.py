"""Worked examples: what the level computes, number by number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.support.vmi import Vectors, mask_type, vreg

CODES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def lanes(values, elem: str) -> list[int]:
    array = np.array(values, CODES[elem])
    return array.view(f"u{array.dtype.itemsize}").tolist()


def numbers(patterns: list[int], elem: str) -> list[float]:
    kind = np.dtype(CODES[elem])
    return np.array(patterns, f"u{kind.itemsize}").view(kind).astype(float).tolist()


SOFTMAX = """module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {
  func.func @row_softmax(%x: !pto.ptr<f32, gm>, %y: !pto.ptr<f32, gm>) attributes {pto.kernel} {
    %i0 = arith.constant 0 : index
    %i128 = arith.constant 128 : index
    %z = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %len = arith.constant 512 : i64
    %out = arith.constant 1024 : i64
    %a = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
    %b = pto.castptr %out : i64 -> !pto.ptr<f32, ub>
    pto.mte_gm_ub %x, %a, %z, %len nburst(%one, %len, %len)
      : !pto.ptr<f32, gm>, !pto.ptr<f32, ub>, i64, i64, i64, i64, i64
    pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]
    SCOPE {
      %m = pto.vmi.create_mask %i128 : index -> !pto.vmi.mask<128xpred>
      %v = pto.vmi.vload %a[%i0] : !pto.ptr<f32, ub> -> !pto.vmi.vreg<128xf32>
      %mx = pto.vmi.vcmax %v, %m {group = 2} : !pto.vmi.vreg<128xf32>, !pto.vmi.mask<128xpred> -> !pto.vmi.vreg<2xf32>
      %mb = pto.vmi.vbrc %mx {group = 2} : !pto.vmi.vreg<2xf32> -> !pto.vmi.vreg<128xf32>
      %e = pto.vmi.vexpdif %v, %mb, %m : !pto.vmi.vreg<128xf32>, !pto.vmi.vreg<128xf32>, !pto.vmi.mask<128xpred> -> !pto.vmi.vreg<128xf32>
      %s = pto.vmi.vcadd %e, %m {group = 2, reassoc} : !pto.vmi.vreg<128xf32>, !pto.vmi.mask<128xpred> -> !pto.vmi.vreg<2xf32>
      %sb = pto.vmi.vbrc %s {group = 2} : !pto.vmi.vreg<2xf32> -> !pto.vmi.vreg<128xf32>
      %r = pto.vmi.vdiv %e, %sb : !pto.vmi.vreg<128xf32>, !pto.vmi.vreg<128xf32> -> !pto.vmi.vreg<128xf32>
      pto.vmi.vstore %r, %b[%i0], %m : !pto.vmi.vreg<128xf32>, !pto.ptr<f32, ub>, !pto.vmi.mask<128xpred>
    } END
    pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]
    pto.mte_ub_gm %b, %y, %len nburst(%one, %len, %len)
      : !pto.ptr<f32, ub>, !pto.ptr<f32, gm>, i64, i64, i64, i64
    pto.barrier #pto.pipe<PIPE_ALL>
    return
  }
}
"""


@pytest.mark.parametrize(("head", "end"), [("pto.vecscope {", "}"), ("", "")])
def test_a_whole_program(head, end):
    """Softmax of two rows of 64; the vector region may be written or left out."""
    x = np.concatenate([np.tile([0, 1, 2, 3], 16), -np.tile([0, 1, 2, 3], 16)]).astype(np.float32)
    text = SOFTMAX.replace("SCOPE {", head).replace("} END", end)
    result = ptosim.load(text).run({"x": x, "y": np.zeros(128, np.float32)})
    y = result.outputs["y"]
    row = np.array([0.00200366, 0.00544652, 0.01480518, 0.04024464], np.float32)
    np.testing.assert_allclose(y[:4], row, rtol=1e-5)
    np.testing.assert_allclose(y[64:68], row[::-1], rtol=1e-5)
    np.testing.assert_allclose(y.reshape(2, 64).sum(axis=1), 1, rtol=1e-6)
    assert result.findings == []


def test_dropped_and_honoured_masks():
    t, m = vreg(8, "f32"), mask_type(8)
    lines = [
        f"%m = pto.vmi.create_mask %c5 : index -> {m}",
        f"%d = pto.vmi.vadd %x, %x, %m : {t}, {t}, {m} -> {t}",
        f"%h = pto.vmi.vadds %x, %half, %m : {t}, f32, {m} -> {t}",
    ]
    setup = ["%c5 = arith.constant 5 : index", "%half = arith.constant 0.5 : f32"]
    for choice, doubled in (
        ("assembler", [0, 2, 4, 6, 8, 10, 12, 14]),
        ("documented", [0, 2, 4, 6, 8, 0, 0, 0]),
    ):
        program = Vectors().input("x", "f32", lanes(range(8), "f32"))
        program.result("d", "f32", 8).result("h", "f32", 8)
        found = program.run(*lines, setup=setup, switches={"vmi.mask": choice})
        assert numbers(found["d"], "f32") == doubled
        assert numbers(found["h"], "f32") == [0.5, 1.5, 2.5, 3.5, 4.5, 0, 0, 0]


def test_group_sum_with_a_tail():
    x = [(i % 7) - 1 for i in range(64)]
    t, m, r = vreg(64, "f32"), mask_type(64), vreg(8, "f32")
    program = Vectors().input("x", "f32", lanes(x, "f32")).result("s", "f32", 8)
    found = program.result("b", "f32", 64).run(
        f"%m = pto.vmi.create_group_mask %c6 {{num_groups = 8, group_size = 8}} : index -> {m}",
        f"%s = pto.vmi.vcadd %x, %m {{group = 8, reassoc}} : {t}, {m} -> {r}",
        f"%b = pto.vmi.vbrc %s {{group = 8}} : {r} -> {t}",
        setup=["%c6 = arith.constant 6 : index"],
    )
    assert numbers(found["s"], "f32") == [9, 15, 14, 13, 12, 11, 10, 9]
    assert numbers(found["b"], "f32")[:16] == [9] * 8 + [15] * 8


def converted(values, src: str, dst: str, words: str) -> list[int]:
    count = len(values)
    program = Vectors().input("a", src, lanes(values, src)).result("r", dst, count)
    line = f"%r = pto.vmi.vcvt %a {{{words}}} : {vreg(count, src)} -> {vreg(count, dst)}"
    return program.run(line)["r"]


def test_f32_to_f16():
    values = [1, 1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, np.inf, -np.inf, np.nan]
    found = converted(values, "f32", "f16", 'rounding = "R", saturate = "SAT"')
    assert found == [0x3C00, 0x3C00, 0x3C02, 0x7BFF, 0x7BFF, 0x7BFF, 0xFBFF, 0]
    found = converted(values, "f32", "f16", 'rounding = "R", saturate = "NOSAT"')
    assert found[:7] == [0x3C00, 0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0x7C00, 0xFC00]
    assert found[7] & 0x7FFF > 0x7C00


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [0, 2, 2, -2, 127, -128, 127, 0]),
        ('rounding = "R", ', [0, 2, 2, -2, 127, -128, 127, 0]),
        ('rounding = "A", ', [1, 2, 3, -3, 127, -128, 127, 0]),
        ('rounding = "F", ', [0, 1, 2, -3, 127, -128, 127, 0]),
        ('rounding = "C", ', [1, 2, 3, -2, 127, -128, 127, 0]),
        ('rounding = "Z", ', [0, 1, 2, -2, 127, -128, 127, 0]),
    ],
)
def test_f16_to_bytes(words, expected):
    values = [0.5, 1.5, 2.5, -2.5, 127.5, -129, np.inf, np.nan]
    found = converted(values, "f16", "si8", f'{words}saturate = "SAT"')
    assert found == [e & 0xFF for e in expected]


@pytest.mark.parametrize(
    ("form", "letter", "codes"),
    [
        ("f4E2M1x2", "R", "20 4A 66 0F"), ("f4E2M1x2", "A", "21 5B 76 0F"),
        ("f4E2M1x2", "Z", "10 4A 65 0F"), ("f4E2M1x2", "F", "10 4B 65 0F"),
        ("f4E2M1x2", "C", "21 5A 76 1F"), ("f4E1M2x2", "R", "31 7D 77 0F"),
    ],
)  # fmt: skip
def test_pairs_of_4_bits(form, letter, codes):
    values = lanes([0.25, 0.75, -1.25, 2.5, 3.5, 5, -7, 0.1], "bf16")
    program = Vectors().input("a", "bf16", values).result("r", form, 4)
    found = program.run(
        f"%p = pto.vmi.vinterpret_cast %a : {vreg(8, 'bf16')} -> {vreg(4, 'bf16x2')}",
        f'%r = pto.vmi.vcvt %p {{rounding = "{letter}"}} : {vreg(4, "bf16x2")} -> {vreg(4, form)}',
    )
    assert found["r"] == [int(c, 16) for c in codes.split()]


@pytest.mark.parametrize(
    ("elem", "high"),
    [("ui32", [0xFFFFFFFE, 0x40000000, 0x014B66DC, 0]), ("i32", [0, 0x40000000, 0x014B66DC, 0])],
)
def test_squares_of_64_bits(elem, high):
    a = [0xFFFFFFFF, 0x80000000, 0x12345678, 7, *[0] * 60]
    t, m = vreg(64, elem), mask_type(64)
    program = Vectors().input("a", elem, a).result("l", elem, 64).result("h", elem, 64)
    found = program.run(
        f"%m = pto.vmi.create_mask %c3 : index -> {m}",
        f"%l, %h = pto.vmi.vmull %a, %a, %m : {t}, {t}, {m} -> {t}, {t}",
        setup=["%c3 = arith.constant 3 : index"],
    )
    assert found["l"][:4] == [1, 0, 0x1DF4D840, 0]
    assert found["h"][:4] == high


def test_two_histograms():
    a, s, m = vreg(256, "ui16"), vreg(8, "ui8"), mask_type(8)
    program = (
        Vectors().input("acc", "ui16", [10] * 256).input("s", "ui8", [3, 3, 200, 0, 3, 255, 1, 3])
    )
    found = (
        program.result("d", "ui16", 256)
        .result("c", "ui16", 256)
        .run(
            f"%m = pto.vmi.create_mask %c7 : index -> {m}",
            f"%d = pto.vmi.vdhist %acc, %s, %m : {a}, {s}, {m} -> {a}",
            f"%c = pto.vmi.vchist %acc, %s, %m : {a}, {s}, {m} -> {a}",
            setup=["%c7 = arith.constant 7 : index"],
        )
    )
    counts = {0: 11, 1: 11, 3: 13, 200: 11, 255: 11}
    assert found["d"] == [counts.get(b, 10) for b in range(256)]
    assert found["c"] == [11, 12, 12, *[15] * 197, *[16] * 55, 17]


def test_lanes_in_turn():
    t, m = vreg(8, "i32"), mask_type(8)
    program = Vectors().input("a", "i32", list(range(8))).input("b", "i32", list(range(8, 16)))
    for name in "lheo":
        program.result(name, "i32", 8)
    found = program.run(
        f'%m = pto.vmi.pset "PAT_ALL" : {m}',
        f"%l, %h = pto.vmi.vintlv %a, %b, %m : {t}, {t}, {m} -> {t}, {t}",
        f"%e, %o = pto.vmi.vdintlv %a, %b, %m : {t}, {t}, {m} -> {t}, {t}",
    )
    assert found["l"] == [0, 8, 1, 9, 2, 10, 3, 11]
    assert found["h"] == [4, 12, 5, 13, 6, 14, 7, 15]
    assert found["e"] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert found["o"] == [1, 3, 5, 7, 9, 11, 13, 15]


def test_slots_and_packed_bytes():
    q, t = [100 * k for k in range(32)], vreg(4, "i32")
    program = Vectors().input("q", "i32", q).result("r", "i32", 4).result("bytes", "ui8", 64)
    program._stores.pop()
    found = program.run(
        f"%r = pto.vmi.vload %p_q[%c1], %c5 {{group = 4}} : !pto.ptr<i32, ub> -> {t}",
        f"pto.vmi.vstore %r, %p_bytes[%c8], %c1 {{group = 4}} : {t}, !pto.ptr<ui8, ub>",
        setup=[f"%c{n} = arith.constant {n} : index" for n in (1, 5, 8)],
        uninit="zero",
    )
    assert found["r"] == [100, 600, 1100, 1600]
    assert found["bytes"] == [*[0] * 8, 0x64, 0x58, 0x4C, 0x40, *[0] * 52]


def test_index_vector_tail_mask_gather():
    t, i, m = vreg(8, "i32"), vreg(8, "i32"), mask_type(8)
    program = Vectors().input("q", "i32", list(range(10, 18))).result("i", "i32", 8)
    found = program.result("r", "i32", 8).run(
        f'%i = pto.vmi.vci %c7 {{order = "DESC"}} : i32 -> {i}',
        f"%m, %rest = pto.vmi.plt %c6 : i32 -> {m}, i32",
        f"%r = pto.vmi.vgather %p_q, %i, %m : !pto.ptr<i32, ub>, {i}, {m} -> {t}",
        setup=["%c7 = arith.constant 7 : i32", "%c6 = arith.constant 6 : i32"],
    )
    assert found["i"] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert found["r"] == [17, 16, 15, 14, 13, 12, 0, 0]


@pytest.mark.parametrize(
    ("dst", "sat", "expected"),
    [
        ("ui8", "SAT", [255, 0, 255, 0]),
        ("si16", "SAT", [32767, -32768, 300, -1]),
        ("si8", "NOSAT", [112, -112, 44, -1]),
    ],
)
def test_narrower_integers(dst, sat, expected):
    values = [n & 0xFFFFFFFF for n in (70000, -70000, 300, -1)]
    program = Vectors().input("a", "si32", values).result("r", dst, 4)
    line = f'%r = pto.vmi.vcvt %a {{saturate = "{sat}"}} : {vreg(4, "si32")} -> {vreg(4, dst)}'
    full = (1 << int(dst[2:])) - 1
    assert program.run(line)["r"] == [e & full for e in expected]
