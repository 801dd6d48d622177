"""Fractals, L0 operands, products and block scales against the model of one element at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.oracle import fractals as model
from tests.oracle import lanes as one
from tests.oracle.numerics import decode
from tests.support.micro import kernel, run

SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "f8E4M3FN": 1, "f8E5M2": 1}
MODERATE = {
    "f16": lambda r: r.getrandbits(1) << 15 | r.randint(11, 19) << 10 | r.getrandbits(10),
    "bf16": lambda r: r.getrandbits(1) << 15 | r.randint(120, 132) << 7 | r.getrandbits(7),
    "f32": lambda r: r.getrandbits(1) << 31 | r.randint(124, 130) << 23 | r.getrandbits(23),
    "i8": lambda r: r.getrandbits(8),
    "f8E4M3FN": lambda r: r.choice([c for c in range(256) if c & 0x7F != 0x7F]),
    "f8E5M2": lambda r: r.choice([c for c in range(256) if c & 0x7C != 0x7C]),
}


def matrix(seed: object, rows: int, cols: int, elem: str) -> model.Matrix:
    rng = random.Random(f"{seed}|{elem}")
    return [[MODERATE[elem](rng) for _ in range(cols)] for _ in range(rows)]


def raw(values: model.Matrix, elem: str) -> bytes:
    return b"".join(p.to_bytes(SIZES[elem], "little") for row in values for p in row)


# -- GM to L1 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["nd2nz", "dn2nz"])
@pytest.mark.parametrize(
    ("elem", "n", "d", "groups"), [("f16", 40, 50, 1), ("f32", 5, 11, 2), ("i8", 18, 33, 2)]
)
def test_fractals(mode, elem, n, d, groups):
    """Every byte of L1: missing values are 0, several groups, strides between rows, blocks and groups."""
    size = SIZES[elem]
    l2, l3 = 2, 2 * model.up16(n) + 1
    l4 = l3 * 8
    inner = (d if mode == "nd2nz" else n) * size + 4 * size
    outer = inner * (n if mode == "nd2nz" else d) + 64
    source = random.Random(mode).randbytes(groups * outer + 64)
    total = 32768
    before = random.Random("l1").randbytes(total)
    body = f"""
    %zero = arith.constant 0 : i64
    %no = arith.constant false
    %e = pto.castptr %g : !pto.ptr<ui8> -> !pto.ptr<{elem}>
    %l = pto.castptr %zero : i64 -> !pto.ptr<{elem}, l1>
    %b = pto.castptr %zero : i64 -> !pto.ptr<ui8, l1>
    pto.mte_gm_l1 %o, %b, {total} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, l1>
    pto.mte_gm_l1_frac %e, %l, {mode}, shape({n}, {d}), src_layout({inner}, {outer}), dst_group({groups}, {l2}, {l3}, {l4}), ctrl(0, %no)
      : !pto.ptr<{elem}>, !pto.ptr<{elem}, l1>, {mode}
    """
    found = _l1_of(body, source, before)
    expected = bytearray(before)
    model.fractals(
        source, n, d, size, inner, outer, groups, l2, l3, l4, by_rows=mode == "nd2nz", memory=expected
    )  # fmt: skip
    assert found == expected


def _l1_of(body: str, source: bytes, before: bytes) -> bytes:
    """L1 after a piece of a program of a cube core; vector core 0 takes it to global memory."""
    half = len(before) // 2
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel(%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>) {{
    %u0 = arith.constant 0 : i64
    %ub = pto.castptr %u0 : i64 -> !pto.ptr<ui8, ub>
    pto.section.cube {{
      {body}
      pto.mte_l1_ub %b, %ub, {len(before) // 32} nburst(1, 0, 0) : !pto.ptr<ui8, l1>, !pto.ptr<ui8, ub>
      pto.sync.set <PIPE_FIX>, 0
    }}
    pto.section.vector {{
      %sub = pto.get_subblock_idx
      %none = arith.constant 0 : i64
      %first = arith.cmpi eq, %sub, %none : i64
      scf.if %first {{
        pto.sync.wait <PIPE_V>, 0
        pto.mte_ub_gm %ub, %o, {half} nburst(2, {half}, {half}) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
      }}
    }}
    return
  }}
}}"""
    args = {"g": np.frombuffer(source, np.uint8), "o": np.frombuffer(before, np.uint8)}
    return run(text, args).outputs["o"].tobytes()


# -- products ---------------------------------------------------------------------------------------------


def _load(name: str, elem: str, rows: int, cols: int, l1: int) -> str:
    """A row-major matrix of global memory as column blocks of L1."""
    size = SIZES[elem]
    return f"""
    %{name}_l1a = arith.constant {l1} : i64
    %{name}_l1 = pto.castptr %{name}_l1a : i64 -> !pto.ptr<{elem}, mat>
    %{name}_g = pto.castptr %{name} : !pto.ptr<ui8> -> !pto.ptr<{elem}>
    pto.mte_gm_l1_frac %{name}_g, %{name}_l1, nd2nz, shape({rows}, {cols}), src_layout({cols * size}), dst_group(1, 1, {model.up16(rows)}, 0), ctrl(0, %no)
      : !pto.ptr<{elem}>, !pto.ptr<{elem}, mat>, nd2nz
    """


def multiply(
    a: bytes, b: bytes, elem: str, m: int, n: int, k: int, mad: str, *, acc: str = "f32",
    right: str = "", held: str = "kn", before: str = "", extra: dict[str, bytes] | None = None, after: str = "",
) -> list[list[int]]:  # fmt: skip
    """Run a product and return the accumulator. `held` is how B is stored: [k, n] or [n, k]."""
    right = right or elem
    extra = extra or {}
    swap = " {transpose = true}" if held == "kn" else ""
    shape = (k, n) if held == "kn" else (n, k)
    args = ", ".join(f"%{name}: !pto.ptr<ui8>" for name in ("a", "b", *extra, "c"))
    body = f"""
    %zero = arith.constant 0 : i64
    %no = arith.constant false
    {_load("a", elem, m, k, 0)}
    {_load("b", right, *shape, 131072)}
    %a0 = pto.castptr %zero : i64 -> !pto.ptr<{elem}, left>
    %b0 = pto.castptr %zero : i64 -> !pto.ptr<{right}, right>
    %acc = pto.castptr %zero : i64 -> !pto.ptr<{acc}, acc>
    %cg = pto.castptr %c : !pto.ptr<ui8> -> !pto.ptr<{acc}>
    pto.mte_l1_l0a %a_l1, %a0, {m}, {k} : !pto.ptr<{elem}, mat>, !pto.ptr<{elem}, left>
    pto.mte_l1_l0b %b_l1, %b0, {k}, {n}{swap} : !pto.ptr<{right}, mat>, !pto.ptr<{right}, right>
    {before}
    {mad}
    pto.mte_l0c_gm %acc, %cg, {m}, {n}, {model.up16(m)}, {n}, 0, 0, nz2nd : !pto.ptr<{acc}, acc>, !pto.ptr<{acc}>
    {after}
    """
    arrays = {"a": a, "b": b, **extra, "c": bytes(4 * m * n)}
    found = run(
        kernel(args, body, kind="cube"), {n_: np.frombuffer(x, np.uint8) for n_, x in arrays.items()}
    ).outputs["c"].tobytes()  # fmt: skip
    lanes = one.split(found, 4)
    return [lanes[n * i : n * (i + 1)] for i in range(m)]


def written(elem: str, m: int, n: int, k: int, clauses: str = "", op: str = "mad", right: str = "", acc: str = "f32") -> str:  # fmt: skip
    right = right or elem
    return (
        f"pto.{op} %a0, %b0, %acc, {m}, {n}, {k} {clauses} : !pto.ptr<{elem}, left>, "
        f"!pto.ptr<{right}, right>, !pto.ptr<{acc}, acc>"
    )


def agree(found: model.Matrix, expected: list[list[one.Pattern]]) -> None:
    for i, (line, wanted) in enumerate(zip(found, expected, strict=True)):
        for j, (got, want) in enumerate(zip(line, wanted, strict=True)):
            if want is None:
                assert one.is_nan(decode(got, "f32")), (i, j, hex(got))
            else:
                assert got == want, (i, j, hex(got), hex(want))


@pytest.mark.parametrize("held", ["kn", "nk"])
@pytest.mark.parametrize(
    ("elem", "right", "m", "n", "k"),
    [("f16", "", 7, 18, 33), ("bf16", "", 17, 5, 20), ("f32", "", 3, 9, 10), ("f8E4M3FN", "f8E5M2", 18, 32, 40)],
)  # fmt: skip
def test_float_products(elem, right, m, n, k, held):
    """Shapes off the multiples of 16, both ways of holding the right operand."""
    right = right or elem
    a, b = matrix("a", m, k, elem), matrix("b", k, n, right)
    stored = b if held == "kn" else [list(column) for column in zip(*b, strict=True)]
    found = multiply(
        raw(a, elem), raw(stored, right), elem, m, n, k,
        written(elem, m, n, k, "disable_gemv", right=right), right=right, held=held,
    )  # fmt: skip
    agree(found, model.product(a, b, elem, right))


def test_integer_product():
    a, b = matrix("a", 20, 50, "i8"), matrix("b", 50, 33, "i8")
    found = multiply(
        raw(a, "i8"),
        raw(b, "i8"),
        "i8",
        20,
        33,
        50,
        written("i8", 20, 33, 50, acc="i32"),
        acc="i32",
    )
    assert found == model.integer_product(a, b)


def test_accumulate_and_bias():
    """mad_acc adds to what is there, mad_bias adds one value for each column."""
    m, n, k = 5, 17, 16
    a, b = matrix("a", m, k, "f16"), matrix("b", k, n, "f16")
    sums = multiply(
        raw(a, "f16"), raw(b, "f16"), "f16", m, n, k,
        written("f16", m, n, k) + "\n" + written("f16", m, n, k, "unit_flag(check_only)", op="mad_acc"),
    )  # fmt: skip
    first = model.product(a, b, "f16", "f16")
    assert all(p is not None for line in first for p in line)
    agree(sums, model.product(a, b, "f16", "f16", first))  # type: ignore[arg-type]
    bias = matrix("bias", 1, 32, "f16")[0]
    line = (
        "pto.mad_bias %a0, %b0, %acc, %bt, 5, 17, 16 : !pto.ptr<f16, left>, !pto.ptr<f16, right>, "
        "!pto.ptr<f32, acc>, !pto.ptr<f32, bias>"
    )
    before = """
    %far = arith.constant 262144 : i64
    %bl = pto.castptr %far : i64 -> !pto.ptr<f16, mat>
    %br = pto.castptr %far : i64 -> !pto.ptr<ui8, mat>
    %bt = pto.castptr %zero : i64 -> !pto.ptr<f32, bias>
    pto.mte_gm_l1 %bias, %br, 64 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_l1_bt %bl, %bt, 2 nburst(1, 0, 0) : !pto.ptr<f16, mat>, !pto.ptr<f32, bias>
    """
    found = multiply(
        raw(a, "f16"), raw(b, "f16"), "f16", m, n, k, line, before=before, extra={"bias": raw([bias], "f16")},
    )  # fmt: skip
    wide = [one.pack(decode(p, "f16"), "f32") for p in bias[:n]]
    agree(found, model.product(a, b, "f16", "f16", [wide] * m))  # type: ignore[list-item]


@pytest.mark.parametrize("clause", ["", "nosat", "sat"])
def test_saturation(clause):
    """sat: NaN counts as 0, infinities as the largest value, in operands and results; else IEEE."""
    special = [
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x3F800000,
        0,
        0xBF800000,
    ]
    a = [[special[(i * 3 + j) % 8] if i != j else 0x3F800000 for j in range(8)] for i in range(8)]
    b = [[special[(i + 5 * j) % 8] if (i + j) % 3 == 0 else 0 for j in range(8)] for i in range(8)]
    found = multiply(raw(a, "f32"), raw(b, "f32"), "f32", 8, 8, 8, written("f32", 8, 8, 8, clause))
    agree(found, model.product(a, b, "f32", "f32", saturate=clause == "sat"))


@pytest.mark.parametrize("mode", ["round_even", "round_away"])
def test_tf32(mode):
    """Operands rounded to 10 bits of mantissa; ties among them."""
    a, b = matrix("a", 4, 8, "f32"), matrix("b", 8, 6, "f32")
    a[0][:4] = [0x3F801000, 0x3F803000, 0x3F800FFF, 0xBF801000]
    found = multiply(
        raw(a, "f32"), raw(b, "f32"), "f32", 4, 6, 8, written("f32", 4, 6, 8, f"tf32_mode({mode})")
    )
    short = [[[model.tf32(p, mode) for p in line] for line in x] for x in (a, b)]
    agree(found, model.product(*short, "f32", "f32"))


def test_row_as_left_operand():
    """m = 1: k values one after the other, with disable_gemv the fractal that mte_l1_l0a writes."""
    k, n = 40, 16
    a, b = matrix("row", 1, k, "f16"), matrix("b", k, n, "f16")
    fractal = multiply(
        raw(a, "f16"), raw(b, "f16"), "f16", 1, n, k, written("f16", 1, n, k, "disable_gemv")
    )
    agree(fractal, model.product(a, b, "f16", "f16"))
    # Raw bytes in L1 and L0A: 16 values of each 32-byte row, rows of 16 blocks.
    before = """
    %r = pto.castptr %zero : i64 -> !pto.ptr<ui8, mat>
    pto.mte_gm_l1 %line, %r, 512 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_l1_l0a %a_l1, %a0, 16, 16 : !pto.ptr<f16, mat>, !pto.ptr<f16, left>
    """
    line = raw(a, "f16").ljust(512, b"\0")
    row = multiply(
        raw(a, "f16"), raw(b, "f16"), "f16", 1, n, k, written("f16", 1, n, k), before=before,
        extra={"line": line},
    )  # fmt: skip
    agree(row, model.product(a, b, "f16", "f16"))


# -- block scales ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "m", "n", "k"),
    [("mad_mx", 18, 33, 96), ("mad_mx", 5, 32, 40), ("mad_mx_acc", 5, 32, 40), ("mad_mx_bias", 5, 32, 40)],
)  # fmt: skip
def test_block_scales(op, m, n, k):
    """2^(code - 127) for each row or column and group of 32 along k; code 255 is NaN."""
    elem, groups, rng = "f8E4M3FN", -(-k // 32), random.Random(f"{op}{m}")
    a, b = matrix("a", m, k, elem), matrix("b", k, n, elem)
    sa = [[rng.randint(120, 134) for _ in range(groups)] for _ in range(m)]
    sb = [[rng.randint(120, 134) for _ in range(groups)] for _ in range(n)]
    sa[2][0] = 255 if op == "mad_mx" else 127
    images = {"sa": model.scale_rows(sa), "sb": model.scale_rows(sb)}
    images = {name: image.ljust(4096, b"\0") for name, image in images.items()}
    bias = matrix("bias", 1, 64, "f32")
    before = f"""
    %s1 = arith.constant 300000 : i64
    %s2 = arith.constant 320000 : i64
    %s3 = arith.constant 340000 : i64
    %sal = pto.castptr %s1 : i64 -> !pto.ptr<f8E8M0FNU, mat>
    %sbl = pto.castptr %s2 : i64 -> !pto.ptr<f8E8M0FNU, mat>
    %sar = pto.castptr %s1 : i64 -> !pto.ptr<ui8, mat>
    %sbr = pto.castptr %s2 : i64 -> !pto.ptr<ui8, mat>
    %bir = pto.castptr %s3 : i64 -> !pto.ptr<ui8, mat>
    %bif = pto.castptr %s3 : i64 -> !pto.ptr<f32, mat>
    %bt = pto.castptr %zero : i64 -> !pto.ptr<f32, bias>
    pto.mte_gm_l1 %sa, %sar, 4096 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_gm_l1 %sb, %sbr, 4096 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_gm_l1 %bias, %bir, 256 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_l1_bt %bif, %bt, 8 nburst(1, 0, 0) : !pto.ptr<f32, mat>, !pto.ptr<f32, bias>
    pto.mte_l1_l0a_mx %sal, %a0, {m}, {k} : !pto.ptr<f8E8M0FNU, mat>, !pto.ptr<{elem}, left>
    pto.mte_l1_l0b_mx %sbl, %b0, {k}, {n} : !pto.ptr<f8E8M0FNU, mat>, !pto.ptr<{elem}, right>
    """
    mad = written(elem, m, n, k, "disable_gemv", op=op)
    start = None
    if op == "mad_mx_acc":
        mad = written(elem, m, n, k, op="mad_mx") + "\n" + mad
        start = model.product(a, b, elem, elem, scales_a=sa, scales_b=sb)
    if op == "mad_mx_bias":
        mad = mad.replace("%acc,", "%acc, %bt,").replace(", acc>", ", acc>, !pto.ptr<f32, bias>")
        start = [bias[0][:n]] * m
    found = multiply(
        raw(a, elem), raw(b, elem), elem, m, n, k, mad, before=before,
        extra={**images, "bias": raw(bias, "f32")},
    )  # fmt: skip
    agree(found, model.product(a, b, elem, elem, start, scales_a=sa, scales_b=sb))  # type: ignore[arg-type]


@pytest.mark.parametrize("controls", ["16, 16, 1, 2", "3, 0, 1, 1, 9, 9", "1, 1, 1, 1, 2, 1"])
def test_a_load_begins_at_a_fractal(controls):
    """Fractals of 16 rows and 32 bytes, counted in a source whose columns of fractals are as far
    apart as those of what is loaded, or as the full form says; here always number 3."""
    a, b = matrix("a", 64, 16, "f16"), matrix("b", 16, 16, "f16")
    again = f"pto.mte_l1_l0a %a_l1, %a0, {controls} : !pto.ptr<f16, mat>, !pto.ptr<f16, left>"
    found = multiply(
        raw(a, "f16"), raw(b, "f16"), "f16", 64, 16, 16, written("f16", 64, 16, 16), before=again
    )
    # The first fractal of L0A is the fourth of L1; the others stay.
    agree(found, model.product(a[48:64] + a[16:], b, "f16", "f16"))


def test_narrow_right_tile():
    """An fp8 tile of 16 columns has rows of 16 bytes in L1, as the public programs have it."""
    a, b = matrix("a", 16, 64, "f8E4M3FN"), matrix("b", 64, 16, "f8E4M3FN")
    before = """
    %near = arith.constant 131072 : i64
    %r = pto.castptr %near : i64 -> !pto.ptr<ui8, mat>
    pto.mte_gm_l1 %b, %r, 1024 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.mte_l1_l0b %b_l1, %b0, 64, 16 {transpose = true} : !pto.ptr<f8E4M3FN, mat>, !pto.ptr<f8E4M3FN, right>
    """
    found = multiply(
        raw(a, "f8E4M3FN"), raw(b, "f8E4M3FN"), "f8E4M3FN", 16, 16, 64,
        written("f8E4M3FN", 16, 16, 64), before=before,
    )  # fmt: skip
    agree(found, model.product(a, b, "f8E4M3FN", "f8E4M3FN"))


def test_older_fractal_copy():
    """load_cbuf_to_ca: fractals of 512 bytes by block position; here the second block of L1."""
    a, b = matrix("a", 16, 16, "f16"), matrix("b", 16, 16, "f16")
    before = """
    pto.mte_gm_l1_frac %a_g, %far, nd2nz, shape(16, 16), src_layout(32), dst_group(1, 1, 16, 0), ctrl(0, %no)
      : !pto.ptr<f16>, !pto.ptr<f16, mat>, nd2nz
    pto.load_cbuf_to_ca %a_l1, %a0, 1, 1, 1, 1, 3, 1 : !pto.ptr<f16, mat>, !pto.ptr<f16, left>
    """
    # Fractal (m_start + k_start * src_stride) = 1 + 1 * 3 is byte 2048.
    setup = """
    %b2048 = arith.constant 2048 : i64
    %far = pto.castptr %b2048 : i64 -> !pto.ptr<f16, mat>
    """
    found = multiply(
        raw(a, "f16"),
        raw(b, "f16"),
        "f16",
        16,
        16,
        16,
        written("f16", 16, 16, 16),
        before=setup + before,
    )
    agree(found, model.product(a, b, "f16", "f16"))
