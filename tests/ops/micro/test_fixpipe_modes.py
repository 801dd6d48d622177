"""Modes of the way out of the accumulator: integers of 4 to 32 bits, f8 and hif8, kept NaN, atomic types."""

from __future__ import annotations

import random

import pytest

from tests.ops.micro.test_fixpipe import accumulator, agree, arrived, outward, rows_of, through
from tests.oracle import fractals as model
from tests.oracle import lanes as one
from tests.oracle.numerics import decode, to_code

SCALE = 0x3C800000  # 2^-6
SETUP = "%scale = arith.constant 1.5625e-02 : f32\n%words = pto.castptr %zero : i64 -> !pto.ptr<f32, scaling>\n"


def moderate(seed: str, m: int, n: int) -> model.Matrix:
    """Values of which 2^-6 are ties, inside and outside of 4, 8 and 16 bits."""
    rng = random.Random(f"{seed}|moderate")
    values = [rng.choice((1, -1)) * rng.choice((32, 96, 160, 1000.5, 9000, 2.5e6)) for _ in range(m * n)]  # fmt: skip
    patterns = [p for v in values if (p := one.pack(model.Fraction(v), "f32")) is not None]
    return [patterns[n * i : n * (i + 1)] for i in range(m)]


@pytest.mark.parametrize(
    ("mode", "dst", "bits", "signed"),
    [
        ("qf322b8_pre", "ui8", 8, False), ("qf162b8_pre", "ui8", 8, False), ("qf322b8_pre", "i8", 8, True),
        ("qf162b8_pre", "i8", 8, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("relu", [False, True])
def test_bytes(mode, dst, bits, signed, relu):
    m, n = 5, 12
    acc = moderate(mode, m, n)
    clauses = f"pre_quant(%scale, mode = {mode}_scalar), " + ("pre_relu(mode = normal_relu, clip = %c), " if relu else "")  # fmt: skip
    setup = SETUP + "%c = arith.constant 100 : i16\n"
    data, _ = through(acc, 16, outward(clauses + "nz2nd", dst, m, n, 16, 20), dst, m * 20, setup=setup)  # fmt: skip
    expected = [
        [model.out_whole(p, SCALE, 0, bits, source="f32", relu=relu, clip=100 if relu else None, signed=signed) for p in line]
        for line in acc
    ]  # fmt: skip
    assert rows_of(data, dst, m, n, 20) == expected


@pytest.mark.parametrize("mode", ["qf322s4_pre", "qf162s4_pre"])
def test_nibbles(mode):
    """Two of a row in a byte, the first in the low bits; dst_stride counts elements of 4 bits."""
    m, n = 5, 12
    acc = moderate(mode, m, n)
    clauses = f"pre_quant(%scale, mode = {mode}_scalar), nz2nd"
    data, _ = through(acc, 16, outward(clauses, "i4", m, n, 16, 32), "i4", m * 16, setup=SETUP)
    for i, line in enumerate(acc):
        codes = [model.out_whole(p, SCALE, 0, 4, source="f32") for p in line]
        packed = bytes(x | y << 4 for x, y in zip(codes[::2], codes[1::2], strict=True))
        assert data[16 * i : 16 * i + 6] == packed
        assert data[16 * i + 6 : 16 * i + 16] == b"\xaa" * 10


def test_words_of_nibbles():
    """In a vector mode each column has its scale and its offset."""
    m, n, rng = 4, 16, random.Random("nibbles")
    acc = moderate("words", m, n)
    offsets = [rng.randint(-5, 5) for _ in range(n)]
    words = b"".join((SCALE | (o & 0x1FF) << 37).to_bytes(8, "little") for o in offsets)
    setup = SETUP + """
    %at = arith.constant 200000 : i64
    %raw = pto.castptr %at : i64 -> !pto.ptr<ui8, mat>
    %fl = pto.castptr %at : i64 -> !pto.ptr<f32, mat>
    pto.mte_gm_l1 %table, %raw, 128 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_l1_fb %fl, %words, 2 nburst(1, 0, 0) : !pto.ptr<f32, mat>, !pto.ptr<f32, scaling>
    """  # fmt: skip
    clauses = "pre_quant(%words, mode = qf322s4_pre_vec), nz2nd"
    data, _ = through(acc, 16, outward(clauses, "i4", m, n, 16, n), "i4", m * 8, setup=setup, extra={"table": words})  # fmt: skip
    for i, line in enumerate(acc):
        codes = [model.out_whole(p, SCALE, o, 4, source="f32") for p, o in zip(line, offsets, strict=True)]  # fmt: skip
        packed = bytes(x | y << 4 for x, y in zip(codes[::2], codes[1::2], strict=True))
        assert data[8 * i : 8 * i + 8] == packed


@pytest.mark.parametrize(
    ("mode", "dst", "bits"),
    [("deqs16", "i16", 16), ("qf162s16_pre", "i16", 16), ("deqs32_int", "i32", 32), ("deqs32_int", "ui32", 32), ("req8", "i8", 8)],
)  # fmt: skip
def test_integers_of_integers(mode, dst, bits):
    """From an accumulator of i32; `multiply` shows what the first store leaves."""
    from tests.ops.micro.test_cube import multiply, raw

    m, n, k, rng = 3, 16, 16, random.Random(mode)
    a = [[rng.randrange(256) for _ in range(k)] for _ in range(m)]
    b = [[rng.randrange(256) for _ in range(n)] for _ in range(k)]
    out = f"""
    pto.mad %a0, %b0, %acc, {m}, {n}, {k} : !pto.ptr<i8, left>, !pto.ptr<i8, right>, !pto.ptr<i32, acc>
    %scale = arith.constant 1.5625e-02 : f32
    %og = pto.castptr %c : !pto.ptr<ui8> -> !pto.ptr<{dst}>
    pto.mte_l0c_gm %acc, %og, {m}, {n}, 16, {n}, 0, 0, pre_quant(%scale, mode = {mode}_scalar), nz2nd : !pto.ptr<i32, acc>, !pto.ptr<{dst}>
    scf.if %no {{
    """
    found = multiply(raw(a, "i8"), raw(b, "i8"), "i8", m, n, k, out, acc="i32", after="}")
    data = b"".join(p.to_bytes(4, "little") for line in found for p in line)
    expected = [
        [model.out_whole(p, SCALE, 0, bits, source="i32") for p in line]
        for line in model.integer_product(a, b)
    ]
    assert rows_of(data[: m * n * bits // 8], dst, m, n, n) == expected


@pytest.mark.parametrize("mode", ["qf322hif8_pre", "qf322hif8_pre_hybrid", "qf322fp8_pre"])
@pytest.mark.parametrize("dst", ["f8E4M3FN", "f8E5M2", "!pto.hif8"])
def test_small_floats(mode, dst):
    m, n = 4, 12
    acc = moderate("small", m, n)
    line = outward(f"pre_quant(%scale, mode = {mode}_scalar), nz2nd", dst, m, n, 16, n)
    data, _ = through(acc, 16, line, dst, m * n, setup=SETUP)
    name = dst.removeprefix("!pto.")
    expected = [
        [to_code(decode(p, "f32") * decode(SCALE, "f32"), name, saturate=True) for p in row]
        for row in acc
    ]
    assert [list(data[n * i : n * (i + 1)]) for i in range(m)] == expected


def test_saturation_that_keeps_nan():
    """sat(preserve_nan): infinities are the largest value, a NaN stays one."""
    m, n = 7, 12
    acc = accumulator("kept", m, n, special=True)
    clauses = "pre_quant(%scale, mode = f32_f16), nz2nd, sat(preserve_nan)"
    data, _ = through(acc, 16, outward(clauses, "f16", m, n, 16, n), "f16", 2 * m * n, setup=SETUP)
    expected = [
        [
            None
            if one.is_nan(decode(p, "f32"))
            else model.out_value(p, None, None, "f16", relu=False, saturate=True)
            for p in line
        ]
        for line in arrived(acc)
    ]
    assert any(p is None for line in expected for p in line)
    agree(rows_of(data, "f16", m, n, n), expected, "f16")


@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_integers_are_combined_in_the_type_that_is_named(op):
    """The clause's type counts: bits of f32 as 32-bit integers."""
    m, n = 3, 16
    acc, old = accumulator("at", m, n), accumulator("old", m, n)
    text = outward(f"nz2nd, atomic(type = s32, op = {op})", "f32", m, n, 16, n)
    before = b"".join(p.to_bytes(4, "little") for row in old for p in row)
    data, _ = through(acc, 16, text, "f32", 0, before=before)
    expected = [
        [one.binary(op, p, q, "i32") for p, q in zip(x, y, strict=True)]
        for x, y in zip(old, acc, strict=True)
    ]
    assert rows_of(data, "f32", m, n, n) == expected


def test_column_blocks_without_a_number():
    """nz2nz alone is nz2nz without a split."""
    m, n = 3, 20
    acc = accumulator("nz", m, n)
    bare, _ = through(acc, 16, outward("nz2nz", "f32", m, n, 16, 48), "f32", 4 * 96)
    number, _ = through(acc, 16, outward("nz2nz(0)", "f32", m, n, 16, 48, ", i64"), "f32", 4 * 96)
    assert bare == number


@pytest.mark.parametrize(("mode", "dst", "bits", "width"), [("qf322b8_pre", "i8", 8, 32), ("qf322s4_pre", "i4", 4, 64)])  # fmt: skip
def test_column_blocks_of_small_elements(mode, dst, bits, width):
    """Without a layout clause rows of a block of columns have 32 bytes, as L1 has them."""
    m, n, stride = 3, 80, 40 * width // 8
    acc = moderate(mode, m, n)
    line = outward(f"pre_quant(%scale, mode = {mode}_scalar)", dst, m, n, 16, stride)
    data, codes = through(acc, 16, line, dst, 4 * stride, setup=SETUP)
    assert codes == ["PTO6607"]
    for r in range(m):
        for c in range(n):
            at = c // width * stride + r * width + c % width
            got = data[at] if bits == 8 else data[at // 2] >> at % 2 * 4 & 15
            assert got == model.out_whole(acc[r][c], SCALE, 0, bits, source="f32")
