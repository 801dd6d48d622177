"""The way of an accumulator out: scale, ReLU, conversion, clip, layouts, splits, atomics."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.schema import enums
from ptosim.ops.micro import outward as outward_kernels
from tests.ops.micro.data import shown_by_vector_cores
from tests.oracle import fractals as model
from tests.oracle import lanes as one
from tests.oracle.numerics import decode
from tests.support.micro import ORDERED, bits_of, run

pytestmark = pytest.mark.sampled(8)

SPECIAL = [
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0x477FE000,
    0x477FF000,
    0xC7800000,
    0x80000000,
    0,
    0x33000001,
]


def accumulator(seed: object, m: int, n: int, *, special: bool = False) -> model.Matrix:
    """Values that f16 holds, rounds and overflows; `special` also infinities and NaN in rows 0 to 2."""
    rng = random.Random(f"{seed}|acc")
    values = [
        [rng.getrandbits(1) << 31 | rng.randint(100, 146) << 23 | rng.getrandbits(23) for _ in range(n)]
        for _ in range(m)
    ]  # fmt: skip
    for i, pattern in enumerate(SPECIAL if special else ()):
        values[i % m][(7 * i) % n] = pattern
    return values


def through(
    acc: model.Matrix, rows: int, text: str, dst: str, size: int, *, before: bytes = b"", extra: dict[str, bytes] | None = None, setup: str = "", compat: str | None = None, **options: Any,
) -> tuple[bytes, list[str]]:  # fmt: skip
    """Put an accumulator into L0C as the product of a diagonal matrix, run `text`, return `%o`.

    Finite values arrive as they are; what infinities and NaN do to their row `arrived` says.
    """
    m, n, extra = len(acc), len(acc[0]), extra or {}
    args = ", ".join(f"%{name}: !pto.ptr<ui8>" for name in ("x", "one", *extra, "o"))
    body = f"""module attributes {{pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<cube>}} {{
  func.func @kernel({args}) {{
    %zero = arith.constant 0 : i64
    %far = arith.constant 131072 : i64
    %no = arith.constant false
    %xf = pto.castptr %x : !pto.ptr<ui8> -> !pto.ptr<f32>
    %of = pto.castptr %one : !pto.ptr<ui8> -> !pto.ptr<f32>
    %out = pto.castptr %o : !pto.ptr<ui8> -> !pto.ptr<{dst}>
    %xl = pto.castptr %zero : i64 -> !pto.ptr<f32, mat>
    %ol = pto.castptr %far : i64 -> !pto.ptr<f32, mat>
    %a0 = pto.castptr %zero : i64 -> !pto.ptr<f32, left>
    %b0 = pto.castptr %zero : i64 -> !pto.ptr<f32, right>
    %acc = pto.castptr %zero : i64 -> !pto.ptr<f32, acc>
    pto.mte_gm_l1_frac %xf, %xl, nd2nz, shape({m}, {n}), src_layout({4 * n}), dst_group(1, 1, {model.up16(m)}, 0), ctrl(0, %no) : !pto.ptr<f32>, !pto.ptr<f32, mat>, nd2nz
    pto.mte_gm_l1_frac %of, %ol, nd2nz, shape({n}, {n}), src_layout({4 * n}), dst_group(1, 1, {model.up16(n)}, 0), ctrl(0, %no) : !pto.ptr<f32>, !pto.ptr<f32, mat>, nd2nz
    {ORDERED}
    pto.mte_l1_l0a %xl, %a0, {m}, {n}, 0, 0 : !pto.ptr<f32, mat>, !pto.ptr<f32, left>
    pto.mte_l1_l0b %ol, %b0, {n}, {n}, 0, 0 {{transpose = true}} : !pto.ptr<f32, mat>, !pto.ptr<f32, right>
    {ORDERED}
    pto.mad %a0, %b0, %acc, {m}, {n}, {n} disable_gemv : !pto.ptr<f32, left>, !pto.ptr<f32, right>, !pto.ptr<f32, acc>
    {ORDERED}
    {setup}
    {text}
    return
  }}
}}"""
    unit = [[0x3F800000 if i == j else 0 for j in range(n)] for i in range(n)]
    arrays = {
        "x": _raw(acc),
        "one": _raw(unit),
        **extra,
        "o": before or b"\xaa" * size,
    }
    args = {name: np.frombuffer(data, np.uint8) for name, data in arrays.items()}
    if compat is not None:  # loads of L0 had two controls
        body = body.replace(", 0, 0 :", " :").replace(", 0, 0 {transpose", " {transpose")
    result = run(body, args, compat=compat, **options)
    return result.outputs["o"].tobytes(), [f.code for f in result.findings]


def _raw(values: model.Matrix) -> bytes:
    return b"".join(p.to_bytes(4, "little") for row in values for p in row)


def arrived(acc: model.Matrix) -> model.Matrix:
    """The accumulator that the product leaves: inf * 0 and NaN make NaN of the other columns, -0 is 0."""
    nan, result = 0x7FC00000, []
    for row in acc:
        line = []
        for j, p in enumerate(row):
            rest = [decode(q, "f32") for i, q in enumerate(row) if i != j]
            lost = any(isinstance(v, str) and v != "-0" for v in rest)
            line.append(nan if lost else 0 if p == 0x80000000 else p)
        result.append(line)
    return result


def rows_of(data: bytes, elem: str, m: int, n: int, pitch: int) -> list[list[int]]:
    size = bits_of(elem) // 8
    lanes = one.split(data, size)
    return [lanes[i * pitch : i * pitch + n] for i in range(m)]


def agree(found: list[list[int]], expected: list[list[one.Pattern]], elem: str) -> None:
    for i, (line, wanted) in enumerate(zip(found, expected, strict=True)):
        for j, (got, want) in enumerate(zip(line, wanted, strict=True)):
            if want is None:
                assert one.is_nan(decode(got, elem)), (i, j, hex(got))
            else:
                assert got == want, (i, j, hex(got), hex(want))


def outward(clauses: str, dst: str, m: int, n: int, src: int, pitch: int, types: str = "") -> str:
    return (
        f"pto.mte_l0c_gm %acc, %out, {m}, {n}, {src}, {pitch}, 0, 0, {clauses} : !pto.ptr<f32, acc>, "
        f"!pto.ptr<{dst}>{types}"
    )


SCALE = 0x3F123456  # low 13 bits of the mantissa are set
CLAUSES = {
    "plain": ("pre_quant(%scale, mode = f32_f16)", "f16", None, False, None, None),
    "bf16": ("pre_quant(%scale, mode = f32_bf16)", "bf16", None, False, None, None),
    "f32": ("", "f32", None, False, None, None),
    "f32 relu": ("pre_relu(mode = normal_relu)", "f32", None, True, None, None),
    "scalar": ("pre_quant(%scale, mode = qf322f16_pre_scalar)", "f16", SCALE, False, None, None),
    "scaled relu": ("pre_quant(%scale, mode = qf322f16_pre_scalar), pre_relu(mode = normal_relu)", "f16", SCALE, True, None, None),
    "slope": ("pre_quant(%scale, mode = qf322f16_pre_scalar), pre_relu(%alpha, mode = scalar_relu)", "f16", SCALE, True, 0x3E800000, None),
    "clip": ("pre_quant(%scale, mode = qf322f16_pre_scalar), pre_relu(mode = normal_relu, clip = %clip)", "f16", SCALE, True, None, 0x4600),
}  # fmt: skip


@pytest.mark.parametrize("ending", ["sat", "nosat", ""])
@pytest.mark.parametrize("case", CLAUSES)
def test_values(case, ending):
    """Scale, then ReLU, then conversion, then clip; without sat or nosat results saturate."""
    words, dst, scale, relu, slope, clip = CLAUSES[case]
    m, n = 7, 12
    acc = accumulator(case, m, n, special=True)
    clauses = ", ".join(filter(None, (words, "nz2nd", ending)))
    setup = """
    %alpha = arith.constant 2.500000e-01 : f32
    %clip = arith.constant 6.000000e+00 : f16
    """
    value = np.array(SCALE, np.uint32).view(np.float32)
    setup = f"%scale = arith.constant {float(value):.9e} : f32\n" + setup
    data, _ = through(
        acc, 16, outward(clauses, dst, m, n, 16, 20), dst, 2 * m * 20 * 2, setup=setup
    )
    expected = [
        [
            model.out_value(p, scale, slope, dst, relu=relu, saturate=ending != "nosat", clip=clip)
            for p in line
        ]
        for line in arrived(acc)
    ]
    agree(rows_of(data, dst, m, n, 20), expected, dst)
    gap = rows_of(data, dst, 1, 20, 20)[0][n:]
    assert gap == one.split(b"\xaa" * (bits_of(dst) // 8) * (20 - n), bits_of(dst) // 8)


def test_scale_and_slope_of_each_channel():
    """8-byte words with the scale in bits 31:13, and 4-byte slopes, from the fixpipe buffer."""
    m, n, rng = 6, 16, random.Random("channels")
    acc = accumulator("channels", m, n)
    scales = [rng.randint(120, 130) << 23 | rng.getrandbits(23) for _ in range(n)]
    slopes = [rng.randint(120, 126) << 23 | rng.getrandbits(23) for _ in range(n)]
    extra = {
        "words": b"".join((s | rng.getrandbits(32) << 32 & 0x3FFF << 32).to_bytes(8, "little") for s in scales).ljust(512, b"\0"),
        "slopes": b"".join(s.to_bytes(4, "little") for s in slopes).ljust(512, b"\0"),
    }  # fmt: skip
    setup = """
    %l1w = arith.constant 200000 : i64
    %l1s = arith.constant 210048 : i64
    %fbs = arith.constant 65600 : i64
    %wr = pto.castptr %l1w : i64 -> !pto.ptr<ui8, mat>
    %sr = pto.castptr %l1s : i64 -> !pto.ptr<ui8, mat>
    %wl = pto.castptr %l1w : i64 -> !pto.ptr<f32, mat>
    %sl = pto.castptr %l1s : i64 -> !pto.ptr<f32, mat>
    %wf = pto.castptr %zero : i64 -> !pto.ptr<f32, scaling>
    %sf = pto.castptr %fbs : i64 -> !pto.ptr<f32, scaling>
    pto.mte_gm_l1 %words, %wr, 512 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_gm_l1 %slopes, %sr, 512 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_l1_fb %wl, %wf, 8 nburst(1, 0, 0) : !pto.ptr<f32, mat>, !pto.ptr<f32, scaling>
    pto.mte_l1_fb %sl, %sf, 8 nburst(1, 0, 0) : !pto.ptr<f32, mat>, !pto.ptr<f32, scaling>
    """
    clauses = (
        "pre_quant(%wf, mode = qf322f16_pre_vec), pre_relu(%sf, mode = vector_relu), nz2nd, sat"
    )
    data, _ = through(
        acc, 16, outward(clauses, "f16", m, n, 16, n), "f16", 2 * m * n, extra=extra, setup=setup
    )
    expected = [
        [
            model.out_value(p, scales[j], slopes[j], "f16", relu=True, saturate=True)
            for j, p in enumerate(line)
        ]
        for line in acc
    ]
    agree(rows_of(data, "f16", m, n, n), expected, "f16")


def test_columns():
    """nz2dn: column n of the result at n * dst_stride, m not n."""
    m, n = 5, 11
    acc = accumulator("dn", m, n)
    data, _ = through(acc, 16, outward("nz2dn(1)", "f32", m, n, 16, 9), "f32", 4 * n * 9)
    turned = [list(column) for column in zip(*acc, strict=True)]
    agree(rows_of(data, "f32", n, m, 9), turned, "f32")


def test_rows_between_blocks_and_rounds_of_loop3():
    """src_stride of 32 rows takes every second block; loop3 advances rows of 16 and elements."""
    m, n = 4, 48
    acc = accumulator("strides", m, n)
    # Blocks of 16 rows: with a stride of 32 rows columns 16.. of the result are block 2.
    text = outward("nz2nd, loop3(2, 16, 200)", "f32", m, 32, 32, 40, ", loop3 i64, i64, i64")
    data, _ = through(acc, 16, text, "f32", 4 * (200 + 4 * 40))
    expected = [line[:16] + line[32:48] for line in acc]
    agree(rows_of(data, "f32", m, 32, 40), expected, "f32")
    second = rows_of(data[800:], "f32", m, 16, 40)
    agree(second, [line[16:32] for line in acc], "f32")


@pytest.mark.parametrize(
    ("m", "n", "count"), [(1, 1, (1 << 14) + 1), (5, 17, 1_000_000), (64, 64, 1 << 13)]
)
def test_rounds_of_loop3_are_counted_first(m, n, count):
    text = outward(f"nz2nd, loop3({count}, 0, 0)", "f32", m, n, 64, n, ", loop3 i64, i64, i64")
    with pytest.raises(ptosim.Trap, match="PTO1104"):
        through(accumulator("rounds", m, n), 64, text, "f32", 4 * m * n)


def test_many_rounds_are_told_at_once():
    """A thousand rounds to one place, and what they reach is two entries."""
    seen = []

    class Look:
        def on_commit(self, core, inst, bound) -> None:
            if inst.op is not None and inst.op.name == "pto.mte_l0c_gm":
                touches = bound.binding.touches
                seen.extend([*touches.reads, *touches.writes])

    m, n = 3, 32
    acc = accumulator("many", m, n)
    text = outward("nz2nd, loop3(1000, 0, 0)", "f32", m, n, 16, n, ", loop3 i64, i64, i64")
    data, _ = through(acc, 16, text, "f32", 4 * m * n, observers=[Look()])
    agree(rows_of(data, "f32", m, n, n), acc, "f32")
    assert len(seen) == 2


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("step", [0, 4, 12, 32, -4, -12])
def test_rounds_that_end_within_a_byte_are_told_from_their_first_byte(step, count):
    told = [
        first + at * distance
        for first, (times, distance) in outward_kernels._rounds(count, step)
        for at in range(times)
    ]
    assert sorted(told) == sorted(at * step // 8 for at in range(count))


@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_atomic_updates(op):
    m, n = 3, 16
    acc, old = accumulator("at", m, n), accumulator("old", m, n)
    text = outward(f"nz2nd, atomic(type = f32, op = {op})", "f32", m, n, 16, n)
    data, _ = through(acc, 16, text, "f32", 0, before=_raw(old))
    expected = [
        [one.binary(op, p, q, "f32") for p, q in zip(x, y, strict=True)]
        for x, y in zip(old, acc, strict=True)
    ]
    agree(rows_of(data, "f32", m, n, n), expected, "f32")


def test_blocks_of_columns_say_that_they_are_assumed():
    m, n = 3, 20
    acc = accumulator("nz", m, n)
    data, codes = through(acc, 16, outward("nz2nz(0)", "f32", m, n, 16, 48, ", i64"), "f32", 4 * 96)
    assert codes == ["PTO6607"]
    for c in range(n):
        for r in range(m):
            at = (c // 16 * 48 + r * 16 + c % 16) * 4
            assert int.from_bytes(data[at : at + 4], "little") == acc[r][c]


def test_a_mode_of_another_type_is_refused():
    with pytest.raises(ptosim.ProgramError):
        through(accumulator("no", 2, 4), 16, outward("pre_quant(mode = f322bf16), nz2nd", "f16", 2, 4, 16, 4), "f16", 64, compat="2026-04")  # fmt: skip


@pytest.mark.parametrize("mode", ["split_m", "split_n", "0", "1", "through L1"])
def test_to_the_vector_cores(mode):
    """Halves of rows or columns to each core, both at the pointer; or everything to one, also by
    way of L1."""
    m, n, pitch = 8, 32, 40
    acc = accumulator(mode, m, n)
    unit = [[0x3F800000 if i == j else 0 for j in range(n)] for i in range(n)]
    out = (
        f"pto.mte_l0c_ub %acc, %u, {m}, {n}, 16, {pitch}, dst_mode({mode}), nz2nd : "
        "!pto.ptr<f32, acc>, !pto.ptr<f32, ub>"
    )
    if mode == "through L1":
        out = (
            f"pto.mte_l0c_l1 %acc, %xl, {m}, {n}, 16, {pitch}, nz2nd : !pto.ptr<f32, acc>, "
            f"!pto.ptr<f32, mat>\npto.mte_l1_ub %xl, %u, {4 * m * pitch // 32} nburst(1, 0, 0) : "
            "!pto.ptr<f32, mat>, !pto.ptr<f32, ub>"
        )
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%x: !pto.ptr<f32>, %one: !pto.ptr<f32>, %o: !pto.ptr<ui8>) {{
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
    %ur = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    %n = arith.constant {4 * m * pitch} : index
    pto.section.cube {{
      %no = arith.constant false
      %far = arith.constant 131072 : i64
      %xl = pto.castptr %zero : i64 -> !pto.ptr<f32, mat>
      %ol = pto.castptr %far : i64 -> !pto.ptr<f32, mat>
      %a0 = pto.castptr %zero : i64 -> !pto.ptr<f32, left>
      %b0 = pto.castptr %zero : i64 -> !pto.ptr<f32, right>
      %acc = pto.castptr %zero : i64 -> !pto.ptr<f32, acc>
      pto.mte_gm_l1_frac %x, %xl, nd2nz, shape({m}, {n}), src_layout({4 * n}), dst_group(1, 1, 16, 0), ctrl(0, %no) : !pto.ptr<f32>, !pto.ptr<f32, mat>, nd2nz
      pto.mte_gm_l1_frac %one, %ol, nd2nz, shape({n}, {n}), src_layout({4 * n}), dst_group(1, 1, {n}, 0), ctrl(0, %no) : !pto.ptr<f32>, !pto.ptr<f32, mat>, nd2nz
      {ORDERED}
    pto.mte_l1_l0a %xl, %a0, {m}, {n}, 0, 0 : !pto.ptr<f32, mat>, !pto.ptr<f32, left>
      pto.mte_l1_l0b %ol, %b0, {n}, {n}, 0, 0 {{transpose = true}} : !pto.ptr<f32, mat>, !pto.ptr<f32, right>
      pto.mad %a0, %b0, %acc, {m}, {n}, {n} disable_gemv : !pto.ptr<f32, left>, !pto.ptr<f32, right>, !pto.ptr<f32, acc>
      {out}
{shown_by_vector_cores("%ur", 4 * m * pitch)}
}}"""
    args = {
        "x": np.frombuffer(_raw(acc), np.float32),
        "one": np.frombuffer(_raw(unit), np.float32),
        "o": np.zeros(8 * m * pitch, np.uint8),
    }
    data = run(text, args, uninit="zero").outputs["o"].tobytes()
    halves = data[: 4 * m * pitch], data[4 * m * pitch :]
    parts = {
        "split_m": [acc[:4], acc[4:]],
        "split_n": [[line[:16] for line in acc], [line[16:] for line in acc]],
        "0": [acc, []],
        "1": [[], acc],
        "through L1": [acc, []],
    }[mode]
    for half, part in zip(halves, parts, strict=True):
        if part:
            agree(rows_of(half, "f32", len(part), len(part[0]), pitch), part, "f32")
        else:
            assert half == bytes(len(half))


MODES = {
    "f322f16": "f16",
    "f322bf16": "bf16",
    "qf322f16_pre": "f16",
    "qf322bf16_pre": "bf16",
    "qf322f32_pre": "f32",
    "qf322b8_pre": "i8 ui8",
    "qf322fp8_pre": "f8E4M3FN f8E5M2 hif8",
    "qf322hif8_pre": "hif8 f8E4M3FN f8E5M2",
    "deqf16": "f16",
    "req8": "i8 ui8",
    "shifts322s16": "i16",
    "qs322bf16_pre": "bf16",
}
"""The types that a mode's name speaks of."""


APRIL = [m for m in enums()["pre_quant"].members if m.rpartition("_")[0] in MODES or m in MODES]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", APRIL)
def test_a_mode_gives_the_type_of_its_name(mode):
    """Where the destination has another type, the run of a program of April says which types there
    are; in August the verifier does."""
    given = MODES[mode.removesuffix("_scalar").removesuffix("_vec")].split()
    payload = "" if mode.startswith("f32") else "%words, " if mode.endswith("_vec") else "%scale, "
    setup = """
    %scale = arith.constant 1.0 : f32
    %words = pto.castptr %zero : i64 -> !pto.ptr<ui64, scaling>
    """
    acc = accumulator("modes", 2, 16)
    for dst in ("f16", "bf16", "f32", "i8", "ui8", "f8E4M3FN", "f8E5M2", "hif8", "i16"):
        line = outward(f"pre_quant({payload}mode = {mode}), nz2nd", dst, 2, 16, 16, 16)
        if dst in given:
            through(acc, 16, line, dst, 2 * 16 * 4, setup=setup, compat="2026-04")
        else:
            with pytest.raises(ptosim.PtosimError, match=f"PTO8002: .*{mode} gives {given[0]}"):
                through(acc, 16, line, dst, 2 * 16 * 4, setup=setup, compat="2026-04")
