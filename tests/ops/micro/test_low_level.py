"""Low-level DMA and cube operations: fills, loads by fractals, block scales, packed words, registers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ptosim
from tests.ops.micro.test_cube import _l1_of, agree, matrix, multiply, raw, written
from tests.ops.micro.test_dma import noise, through_ub
from tests.ops.micro.test_fixpipe import accumulator, outward, rows_of, through
from tests.ops.micro.test_fixpipe import agree as floats_agree
from tests.oracle import fractals as model
from tests.oracle import lanes as one
from tests.oracle.numerics import decode
from tests.support.micro import kernel, run

pytestmark = pytest.mark.sampled(1)

# -- fills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize(("repeat", "blocks", "gap"), [(3, 2, 1), (1, 5, 7), (2, 1, 0), (0, 3, 3)])
def test_fills(bits, repeat, blocks, gap):
    """Runs of blocks with the word or its low 16 bits; whatever the pointer's elements are."""
    before = noise("l1")
    body = f"""
    %zero = arith.constant 0 : i64
    %b = pto.castptr %zero : i64 -> !pto.ptr<ui8, l1>
    %l = pto.castptr %zero : i64 -> !pto.ptr<ui{bits}, l1>
    %f = pto.castptr %zero : i64 -> !pto.ptr<f8E4M3FN, l1>
    %w = arith.constant 305419896 : i32
    pto.mte_gm_l1 %o, %b, {len(before)} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, l1>
    pto.raw_fill_l1 %f, 96, %w, {repeat}, {blocks}, {gap} {{fill_word_bits = {bits} : i64}} : !pto.ptr<f8E4M3FN, l1>, i64, i32, i64, i64, i64
    %c1k = arith.constant 1024 : index
    %m = pto.addptr %l, %c1k : !pto.ptr<ui{bits}, l1> -> !pto.ptr<ui{bits}, l1>
    pto.create_cbuf_matrix %m, %w, {repeat}, {blocks}, {gap} {{fill_word_bits = {bits} : i64}} : !pto.ptr<ui{bits}, l1>, i32, i64, i64, i64
    """
    expected = bytearray(before)
    word = 0x12345678.to_bytes(4, "little")[: bits // 8]
    for first in (96, 1024 * bits // 8):
        for r in range(repeat):
            at = first + r * (blocks + gap) * 32
            expected[at : at + blocks * 32] = word * (blocks * 32 // len(word))
    assert _l1_of(body, b"\0", before) == expected


# -- loads by fractals ------------------------------------------------------------------------------

LEFT = "%a_l1, %a0, {} : !pto.ptr<{e}, mat>, !pto.ptr<{e}, left>"
RIGHT = "%b_l1, %b0, {} : !pto.ptr<{e}, mat>, !pto.ptr<{e}, right>"


def _up(n: int, unit: int) -> int:
    return -(-n // unit)


@pytest.mark.sampled(0, 3)
@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize(("elem", "size"), [("f16", 2), ("f32", 4), ("i8", 1), ("f8E4M3FN", 1)])
def test_transposed_fractals(elem, size, low):
    """Both operands held as k rows (the left one as its transpose), loaded by their fractals: the
    product is that of the tiles; columns of fractals of the source are further apart than needed."""
    m, n, k, acc = 32, 64, 64, "i32" if elem == "i8" else "f32"
    a, b = matrix("a", m, k, elem), matrix("b", k, n, elem)
    held = [list(column) for column in zip(*a, strict=True)]
    controls = [f"0, 0, {k // 16}, {x * size // 32}, 6, {x // 16}" for x in (m, n)]
    names = ("load_cbuf_to_ca", "load_cbuf_to_cb") if low else ("mte_l1_l0a", "mte_l1_l0b")
    swap = " {transpose = true}"
    lines = [
        f"pto.{name} " + text.format(c, e=elem).replace(" :", f"{swap} :")
        for name, text, c in zip(names, (LEFT, RIGHT), controls, strict=True)
    ]
    before = f"""
    pto.mte_gm_l1_frac %h, %a_l1, nd2nz, shape({k}, {m}), src_layout({m * size}), dst_group(1, 1, 96, 0), ctrl(0, %no)
      : !pto.ptr<ui8>, !pto.ptr<{elem}, mat>, nd2nz
    pto.mte_gm_l1_frac %b_g, %b_l1, nd2nz, shape({k}, {n}), src_layout({n * size}), dst_group(1, 1, 96, 0), ctrl(0, %no)
      : !pto.ptr<{elem}>, !pto.ptr<{elem}, mat>, nd2nz
    {lines[0]}
    {lines[1]}
    """.replace("%h,", "%hg,")
    before = f"%hg = pto.castptr %h : !pto.ptr<ui8> -> !pto.ptr<{elem}>" + before.replace(
        ": !pto.ptr<ui8>, !pto.ptr<", f": !pto.ptr<{elem}>, !pto.ptr<"
    )
    found = multiply(
        raw(a, elem), raw(b, elem), elem, m, n, k, written(elem, m, n, k, acc=acc), acc=acc,
        before=before, extra={"h": raw(held, elem)},
    )  # fmt: skip
    if elem == "i8":
        assert found == model.integer_product(a, b)
    else:
        agree(found, model.product(a, b, elem, elem))


def test_fractals_side_by_side():
    """Destination fractal k * dst_stride + m is source fractal (k_start + k) * src_stride + m_start
    + m: a 32 by 48 part of a 64 by 80 matrix."""
    a, b = matrix("a", 64, 80, "f16"), matrix("b", 48, 16, "f16")
    part = [line[32:80] for line in a[16:48]]
    before = """
    pto.mte_gm_l1_frac %w, %a_l1, nd2nz, shape(64, 80), src_layout(160), dst_group(1, 1, 64, 0), ctrl(0, %no)
      : !pto.ptr<f16>, !pto.ptr<f16, mat>, nd2nz
    pto.load_cbuf_to_ca %a_l1, %a0, 1, 2, 2, 3, 4, 2 : !pto.ptr<f16, mat>, !pto.ptr<f16, left>, i64, i64, i64, i64, i64, i64
    """
    setup = "%w = pto.castptr %h : !pto.ptr<ui8> -> !pto.ptr<f16>"
    found = multiply(
        raw(part, "f16"), raw(b, "f16"), "f16", 32, 16, 48, written("f16", 32, 16, 48),
        before=setup + before, extra={"h": raw(a, "f16")},
    )  # fmt: skip
    agree(found, model.product(part, b, "f16", "f16"))


# -- numbers of 4 bits, and their scales --------------------------------------------------------------


def nibbles(codes: model.Matrix) -> list[list[int]]:
    """Pairs of codes as bytes, the first in the low bits."""
    return [[x | y << 4 for x, y in zip(line[::2], line[1::2], strict=True)] for line in codes]


@pytest.mark.sampled(1, 3)
@pytest.mark.parametrize("form", ["shape", "full", "s4"])
@pytest.mark.parametrize(("left", "right"), [("f4E2M1", "f4E2M1"), ("f4E1M2", "f4E2M1")])
def test_products_of_nibbles(form, left, right):
    """Packed 4-bit numbers: 64 of a row in a fractal; k counts numbers; scales of parts of tables."""
    m, n, k, rng = 18, 32, 128, random.Random(f"{form}{left}")
    a, b = ([[rng.randrange(16) for _ in range(k)] for _ in range(rows)] for rows in (m, n))
    sa, sb = ([[rng.randint(124, 130) for _ in range(6)] for _ in range(rows)] for rows in (64, n))
    types = f"!pto.{left}x2", f"!pto.{right}x2"
    fractal = {
        "shape": (f"mte_l1_l0a %a1, %a0, {m}, {k}, 0, 0", f"mte_l1_l0b %b1, %b0, {k}, {n}, 0, 0"),
        "full": ("mte_l1_l0a %a1, %a0, 0, 0, 2, 2, 2, 2", "mte_l1_l0b %b1, %b0, 0, 0, 2, 2, 2, 2"),
        "s4": ("load_cbuf_to_ca_s4 %a1, %a0, 0, 0, 2, 2, 2, 2, 0", "load_cbuf_to_cb_s4 %b1, %b0, 0, 0, 2, 2, 2, 2, 0"),
    }[form]  # fmt: skip
    # Scales of rows 32 to 63 and of groups 2 to 5: blocks (2, 1) of a table of 3 blocks a row.
    load = "load_cbuf_to_ca_mx" if form == "s4" else "mte_l1_l0a_mx"
    scales = (
        f"{load} %sa1, %a0, 2, 1, 2, 2, 3, 2",
        "load_cbuf_to_cb_mx %sb1, %b0, 0, 1, 2, 2, 3, 2",
    )
    if form == "shape":
        named = "x_start(2) y_start(1) x_step(2) y_step(2) src_stride(3) dst_stride(2)"
        scales = (f"{load} %sa1, %a0 {named}", scales[1])
    if form == "full":
        scales = (scales[0], scales[1].replace("load_cbuf_to_cb_mx", "mte_l1_l0b_mx"))
    places = {"a1": (types[0], "mat", 0), "b1": (types[1], "mat", 65536), "a0": (types[0], "left", 0), "b0": (types[1], "right", 0)}  # fmt: skip
    places |= {"sa1": ("!pto.f8E8M0", "mat", 131072), "sb1": ("!pto.f8E8M0", "mat", 196608)}
    given = {"a": (nibbles(a), "a1"), "b": (nibbles(b), "b1"), "sa": (None, "sa1"), "sb": (None, "sb1")}  # fmt: skip
    lines = ["%no = arith.constant false"]
    for name, (elem, space, at) in places.items():
        lines += [f"%{name}_at = arith.constant {at} : i64", f"%{name} = pto.castptr %{name}_at : i64 -> !pto.ptr<{elem}, {space}>"]  # fmt: skip
    arrays: dict[str, bytes] = {}
    for name, (rows, to) in given.items():
        elem = places[to][0]
        lines.append(f"%{name}_g = pto.castptr %{name} : !pto.ptr<ui8> -> !pto.ptr<{elem}>")
        types_of = f": !pto.ptr<{elem}>, !pto.ptr<{elem}, mat>"
        if rows is None:
            arrays[name] = model.scale_rows(sa if name == "sa" else sb)
            lines.append(f"pto.mte_gm_l1 %{name}_g, %{to}, {len(arrays[name])} nburst(1, 0, 0) {types_of}")  # fmt: skip
        else:
            arrays[name] = b"".join(map(bytes, rows))
            lines.append(f"pto.mte_gm_l1_frac %{name}_g, %{to}, nd2nz, shape({len(rows)}, {k // 2}), src_layout({k // 2}), dst_group(1, 1, 32, 0), ctrl(0, %no) {types_of}, nd2nz")  # fmt: skip
    for line in (*fractal, *scales):
        source, target = (places[w.strip("%, ")] for w in line.split()[1:3])
        count = len(line.split()) - 3
        lines.append(f"pto.{line} : !pto.ptr<{source[0]}, mat>, !pto.ptr<{target[0]}, {target[1]}>" + ", i64" * count)  # fmt: skip
    operands = f": !pto.ptr<{types[0]}, left>, !pto.ptr<{types[1]}, right>, !pto.ptr<f32, acc>"
    mad = {
        "shape": f"pto.mad_mx %a0, %b0, %acc, {m}, {n}, {k} {operands}, i64, i64, i64",
        "full": f"pto.mad_mx_raw %a0, %b0, %acc, {packed(m, n, k, 63)} {operands}, i64",
        "s4": f"pto.mad_mx_bias_raw %a0, %b0, %acc, %bt, {packed(m, n, k, 62)} {operands}, !pto.ptr<f32, bias>, i64",
    }[form]  # fmt: skip
    body = "\n".join(lines) + f"""
    %acc = pto.castptr %a1_at : i64 -> !pto.ptr<f32, acc>
    %bt = pto.castptr %a1_at : i64 -> !pto.ptr<f32, bias>
    %c_g = pto.castptr %c : !pto.ptr<ui8> -> !pto.ptr<f32>
    {mad}
    pto.mte_l0c_gm %acc, %c_g, {m}, {n}, 32, {n}, 0, 0, nz2nd : !pto.ptr<f32, acc>, !pto.ptr<f32>, i64, i64, i64, i64, i64, i64
    """  # fmt: skip
    args = ", ".join(f"%{name}: !pto.ptr<ui8>" for name in (*arrays, "c"))
    arrays["c"] = bytes(4 * m * n)
    given_args = {name: np.frombuffer(data, np.uint8) for name, data in arrays.items()}
    found = one.split(
        run(kernel(args, body, kind="cube"), given_args, uninit="zero").outputs["c"].tobytes(), 4
    )
    columns = [list(column) for column in zip(*b, strict=True)]
    expected = model.product(
        a, columns, left + "FN", right + "FN",
        scales_a=[line[2:6] for line in sa[32 : 32 + m]], scales_b=[line[2:6] for line in sb],
    )  # fmt: skip
    agree([found[n * i : n * (i + 1)] for i in range(m)], expected)


def test_scales_begin_at_a_block():
    """start_row and start_col of scales count blocks of 16 rows and 2 groups, in a table whose rows
    are as long as what is loaded."""
    m, n, k, elem, rng = 18, 32, 96, "f8E4M3FN", random.Random("start")
    a, b = matrix("a", m, k, elem), matrix("b", k, n, elem)
    rows = [[rng.randint(122, 132) for _ in range(4)] for _ in range(64)]
    columns = [[rng.randint(122, 132) for _ in range(3)] for _ in range(n)]
    images = {"sa": model.scale_rows(rows), "sb": model.scale_rows(columns)}
    types = f"!pto.ptr<!pto.f8E8M0, mat>, !pto.ptr<{elem}"
    before = f"""
    %s1 = arith.constant 300032 : i64
    %s2 = arith.constant 320000 : i64
    %sal = pto.castptr %s1 : i64 -> !pto.ptr<!pto.f8E8M0, mat>
    %sbl = pto.castptr %s2 : i64 -> !pto.ptr<!pto.f8E8M0, mat>
    %sag = pto.castptr %sa : !pto.ptr<ui8> -> !pto.ptr<!pto.f8E8M0>
    %sbg = pto.castptr %sb : !pto.ptr<ui8> -> !pto.ptr<!pto.f8E8M0>
    pto.mte_gm_l1 %sag, %sal, 256 nburst(1, 0, 0) : !pto.ptr<!pto.f8E8M0>, !pto.ptr<!pto.f8E8M0, mat>
    pto.mte_gm_l1 %sbg, %sbl, 128 nburst(1, 0, 0) : !pto.ptr<!pto.f8E8M0>, !pto.ptr<!pto.f8E8M0, mat>
    pto.mte_l1_l0a_mx %sal, %a0, {m}, {k}, 1, 1 : {types}, left>, i64, i64, i64, i64
    pto.mte_l1_l0b_mx %sbl, %b0 n({n}) k({k}) start_row(0) start_col(0) : {types}, right>, i64, i64, i64, i64
    """
    found = multiply(
        raw(a, elem), raw(b, elem), elem, m, n, k, written(elem, m, n, k, op="mad_mx"), before=before, extra=images,
    )  # fmt: skip
    # Block (1, 1): groups 2 and 3 of rows 16 to 31, then groups 0 and 1 of rows 32 to 47.
    taken = [[*rows[16 + i][2:], *rows[32 + i][:2]] for i in range(16)]
    taken += [[*rows[32 + i][2:], *rows[48 + i][:2]] for i in range(16)]
    agree(found, model.product(a, b, elem, elem, scales_a=[s[:3] for s in taken[:m]], scales_b=columns))  # fmt: skip


# -- products as a word says -----------------------------------------------------------------------------


def packed(m: int, n: int, k: int, *bits: int) -> int:
    word = m | k << 12 | n << 24 | sum(1 << bit for bit in bits)
    return word - (1 << 64) if word >> 63 else word


def test_words_of_products():
    """Bit 63 starts with zero, with neither of the last two bits what is there is added; the fields
    of 12 bits are m, k, n; bits 55 and 56 (the unit flag) change no value."""
    m, n, k = 20, 33, 50
    a, b = matrix("a", m, k, "f16"), matrix("b", k, n, "f16")
    mads = [
        f"%w{i} = arith.constant {word} : i64\npto.mad_raw %a0, %b0, %acc, %w{i} : !pto.ptr<f16, left>, "
        "!pto.ptr<f16, right>, !pto.ptr<f32, acc>, i64"
        for i, word in enumerate((packed(m, n, k, 63), packed(m, n, k, 55, 56)))
    ]
    found = multiply(raw(a, "f16"), raw(b, "f16"), "f16", m, n, k, "\n".join(mads))
    first = model.product(a, b, "f16", "f16")
    agree(found, model.product(a, b, "f16", "f16", first))  # type: ignore[arg-type]


def test_words_with_a_bias():
    """The bias table as copy_cbuf_to_bt fills it, bf16 widened; bit 61 is disable_gemv."""
    n, k = 17, 16
    a, b = matrix("a", 1, k, "f16"), matrix("b", k, n, "f16")
    bias = matrix("bias", 1, 32, "bf16")[0]
    before = """
    %far = arith.constant 262144 : i64
    %yes = arith.constant true
    %bl = pto.castptr %far : i64 -> !pto.ptr<bf16, mat>
    %br = pto.castptr %far : i64 -> !pto.ptr<ui8, mat>
    %bt = pto.castptr %zero : i64 -> !pto.ptr<f32, bias>
    pto.mte_gm_l1 %bias, %br, 64 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    pto.copy_cbuf_to_bt %bl, %bt, %yes, 1, 2, 0, 0 : !pto.ptr<bf16, mat>, !pto.ptr<f32, bias>, i1, i64, i64, i64, i64
    """
    mad = (
        f"%w = arith.constant {packed(1, n, k, 61, 62)} : i64\npto.mad_bias_raw %a0, %b0, %acc, %bt, %w : "
        "!pto.ptr<f16, left>, !pto.ptr<f16, right>, !pto.ptr<f32, acc>, !pto.ptr<f32, bias>, i64"
    )
    found = multiply(
        raw(a, "f16"), raw(b, "f16"), "f16", 1, n, k, mad, before=before, extra={"bias": raw([bias], "bf16")},
    )  # fmt: skip
    wide = [one.pack(decode(p, "bf16"), "f32") for p in bias[:n]]
    agree(found, model.product(a, b, "f16", "f16", [wide]))  # type: ignore[list-item]


# -- copies that go by registers ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["copy_gm_to_cbuf_multi_nd2nz", "copy_gm_to_cbuf_multi_dn2nz"])
def test_fractals_by_registers(name):
    """Groups and strides of the destination are 16 bits each of set_mte2_nz_para."""
    n, d, groups, inner, outer = 18, 40, 2, 128, 5120
    source, before = noise("gm", 16384), noise("l1", 16384)
    word = groups | 1 << 16 | 32 << 32 | 128 << 48
    body = f"""
    %zero = arith.constant 0 : i64
    %no = arith.constant false
    %word = arith.constant {word} : i64
    %e = pto.castptr %g : !pto.ptr<ui8> -> !pto.ptr<f16>
    %l = pto.castptr %zero : i64 -> !pto.ptr<f16, l1>
    %b = pto.castptr %zero : i64 -> !pto.ptr<ui8, l1>
    pto.mte_gm_l1 %o, %b, {len(before)} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, l1>
    pto.set_mte2_nz_para %word : i64
    pto.{name} %e, %l, 0, {inner}, 0, {n}, {d}, {outer}, %no
      : !pto.ptr<f16>, !pto.ptr<f16, l1>, i64, i64, i64, i64, i64, i64, i1
    """
    expected = bytearray(before)
    model.fractals(
        source, n, d, 2, inner, outer, groups, 1, 32, 128, by_rows=name.endswith("nd2nz"), memory=expected
    )  # fmt: skip
    assert _l1_of(body, source, before) == expected


OLDER = "pto.copy_gm_to_ubuf %gw, %w, 0, 3, 50, {}, {}, %no, 0, 256, 512 : !pto.ptr<i16>, !pto.ptr<i16, ub>, i64, i64, i64, i64, i64, i1, i64, i64, i64"  # fmt: skip
NO = "%no = arith.constant false\n"


@pytest.mark.parametrize(
    ("setup", "before", "unit"),
    [
        ("%v = arith.constant 4660 : i16", "pto.set_mov_pad_val %v : i16", "3412"),
        ("%v = arith.constant 1.5 : f16", "pto.set_mov_pad_val %v : f16", "003e"),
        ("%v = arith.constant 52 : i8", "pto.set_mov_pad_val %v : i8", "3400"),
        (
            "%v = arith.constant 4660 : i16\n%x = arith.constant 0 : i32",
            "pto.set_mov_pad_val %x : i32\npto.mte_gm_ub %gw, %w, 0, 32 nburst(1, 0, 0) pad(%v) : "
            "!pto.ptr<i16>, !pto.ptr<i16, ub>, i64, i64, i64, i64, i64, i16",
            "3412",
        ),
    ],
)
def test_padding_of_the_older_copy(setup, before, unit):
    """The older copy pads with the bits of set_mov_pad_val, which a `pad` clause sets too."""
    data, found, codes = through_ub("older", f"{before}\n{OLDER.format(2, 5)}", setup=NO + setup)
    expected = bytearray(noise("olderub"))
    if "mte_gm_ub" in before:
        expected[:32] = data[:32]
    for burst in range(3):
        line = (
            bytes.fromhex(unit) * 2 + data[256 * burst : 256 * burst + 50] + bytes.fromhex(unit) * 5
        )
        expected[512 * burst : 512 * burst + len(line)] = line
    assert found == expected
    assert codes == []


@pytest.mark.parametrize(("elem", "unit"), [("f32", "0000c03f"), ("f16", "003e"), ("i8", "0500")])
def test_values_of_padding_have_any_type(elem, unit):
    """What `pad` is given need not have the elements' type: its bits count."""
    number = 5 if elem == "i8" else 1.5
    data, found, _ = through_ub(
        "typed",
        f"pto.mte_gm_ub %gw, %w, 0, 30 nburst(1, 0, 0) pad(%v, 0, 1) : !pto.ptr<i16>, !pto.ptr<i16, ub>, "
        f"i64, i64, i64, i64, i64, {elem}, i64, i64",
        setup=f"%v = arith.constant {number} : {elem}",
    )
    assert found[:32] == data[:30] + bytes.fromhex(unit)[:2]


def test_padding_on_the_older_chips():
    """A2/A3 pad after the data only, and no further than the 32-byte block."""
    text = kernel(
        "%g: !pto.ptr<i16>, %o: !pto.ptr<i16>",
        """
    %zero = arith.constant 0 : i64
    %v = arith.constant 7 : i16
    %w = pto.castptr %zero : i64 -> !pto.ptr<i16, ub>
    pto.mte_gm_ub %o, %w, 0, 256 nburst(1, 0, 0) : !pto.ptr<i16>, !pto.ptr<i16, ub>, i64, i64, i64, i64, i64
    pto.mte_gm_ub %g, %w, 0, 60 nburst(2, 64, 128) pad(%v, 1, 9) : !pto.ptr<i16>, !pto.ptr<i16, ub>, i64, i64, i64, i64, i64, i16, i64, i64
    pto.mte_ub_gm %w, %o, 256 nburst(1, 0, 0) : !pto.ptr<i16, ub>, !pto.ptr<i16>, i64, i64, i64, i64
    """,
    ).replace('"a5"', '"a3"')
    g, o = np.arange(64, dtype=np.int16), np.full(128, -1, np.int16)
    found = run(text, {"g": g, "o": o}).outputs["o"]
    expected = o.copy()
    for burst in range(2):
        expected[64 * burst : 64 * burst + 32] = [*g[32 * burst : 32 * burst + 30], 7, 7]
    assert found.tolist() == expected.tolist()


def test_loop_registers_after_a_copy():
    """After a copy with loops their counts are 1; strides stay: the first of two loops is in the
    registers of the outer one."""
    _, found, _ = through_ub(
        "loops",
        "pto.set_loop_size_outtoub 3, 2 : i64, i64\n"
        "pto.mte_gm_ub %gw, %w, 0, 32 nburst(1, 0, 0) loop(2, 64, 96) loop(2, 128, 256) : !pto.ptr<i16>, "
        "!pto.ptr<i16, ub>, i64, i64, i64, i64, i64, loop i64, i64, i64, loop i64, i64, i64\n"
        "pto.mte_gm_ub %o, %u, 0, 8192 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>\n"
        + OLDER.format(0, 0) + "\n"
        "pto.set_loop_size_outtoub 1, 2 : i64, i64\n" + OLDER.format(0, 0).replace(" 3, 50", " 1, 34"),
        setup=NO,
    )  # fmt: skip
    data, expected = noise("loops"), bytearray(noise("loopsub"))
    for burst in range(3):
        expected[512 * burst : 512 * burst + 50] = data[256 * burst : 256 * burst + 50]
    for i in range(2):
        expected[96 * i : 96 * i + 34] = data[64 * i : 64 * i + 34]
    assert found == expected


@pytest.mark.parametrize(("inner", "outer", "told"), [(32, 64, False), (16, 16, True)])
def test_order_of_loops_that_overlap(inner, outer, told):
    """The first loop is the innermost; where that makes a difference a note says so."""
    data, found, codes = through_ub(
        "order",
        f"pto.mte_gm_ub %g, %u, 0, 32 nburst(1, 0, 0) loop(2, 64, {inner}) loop(3, 512, {outer}) : "
        "!pto.ptr<ui8>, !pto.ptr<ui8, ub>, i64, i64, i64, i64, i64, loop i64, i64, i64, loop i64, i64, i64",
    )
    expected = bytearray(noise("orderub"))
    for i in range(3):
        for j in range(2):
            at, start = j * inner + i * outer, j * 64 + i * 512
            expected[at : at + 32] = data[start : start + 32]
    assert found == expected
    assert ("PTO6607" in codes) == told


def test_loops_from_l1_to_ub_count_bytes():
    """Bursts and gaps are units of 32 bytes, strides of loops bytes."""
    source = noise("l1ub", 4096)
    text = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%g: !pto.ptr<ui8>, %o: !pto.ptr<ui8>) {
    %u0 = arith.constant 0 : i64
    %ub = pto.castptr %u0 : i64 -> !pto.ptr<ui8, ub>
    pto.section.cube {
      %l = pto.castptr %u0 : i64 -> !pto.ptr<ui8, l1>
      pto.mte_gm_l1 %g, %l, 4096 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, l1>, i64, i64, i64, i64
      pto.mte_l1_ub %l, %ub, 1 nburst(2, 1, 0) loop(3, 160, 64) : !pto.ptr<ui8, l1>, !pto.ptr<ui8, ub>, i64, i64, i64, i64, loop i64, i64, i64
      pto.set_intra_block <PIPE_MTE1>, 0
    }
    pto.section.vector {
      %sub = pto.get_subblock_idx
      %first = arith.cmpi eq, %sub, %u0 : i64
      scf.if %first {
        pto.wait_intra_block <PIPE_MTE3>, 0
        pto.mte_ub_gm %ub, %o, 192 nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>, i64, i64, i64, i64
      }
    }
    return
  }
}"""
    args = {"g": np.frombuffer(source, np.uint8), "o": np.zeros(192, np.uint8)}
    found = run(text, args).outputs["o"].tobytes()
    assert found == b"".join(
        source[160 * i + 64 * r : 160 * i + 64 * r + 32] for i in range(3) for r in range(2)
    )


def test_units_inside_ub():
    """copy_ubuf_to_ubuf: bursts and gaps in units of 32 bytes."""
    _, found, _ = through_ub(
        "inside",
        "pto.copy_ubuf_to_ubuf %u, %far, 0, 3, 2, 1, 2 : !pto.ptr<ui8, ub>, !pto.ptr<ui8, ub>, i64, i64, i64, i64, i64",
        setup="%f = arith.constant 2048 : index\n%far = pto.addptr %u, %f : !pto.ptr<ui8, ub> -> !pto.ptr<ui8, ub>",
    )  # fmt: skip
    expected = bytearray(noise("insideub"))
    for r in range(3):
        expected[2048 + 128 * r : 2048 + 128 * r + 64] = expected[96 * r : 96 * r + 64]
    assert found == expected


# -- what is not modelled ------------------------------------------------------------------------------------


def test_words_that_nobody_explains():
    """They are accepted with a note, and a run says what it leaves as it is."""
    names = """set_loop1_stride_outtol1 set_loop2_stride_outtol1 set_loop_size_outtol1
    set_pad_val_outtol1 set_quant_pre set_relu_alpha set_fix_clip_relu set_fpc"""
    lines = [f"pto.{name} %w : i64" for name in names.split()]
    lines += [f"pto.{name} %w, %w : i64, i64" for name in ("set_loop3_para", "set_channel_para")]
    ends = {
        "copy_matrix_cc_to_gm": "%o",
        "copy_matrix_cc_to_cbuf": "%l",
        "copy_matrix_cc_to_ub": "%u",
    }
    spaces = {"%o": "", "%l": ", mat", "%u": ", ub"}
    lines += [
        f"pto.{name} %a, {to}, %w, %w : !pto.ptr<f32, acc>, !pto.ptr<f32{spaces[to]}>, i64, i64"
        for name, to in ends.items()
    ]
    body = "%w = arith.constant 0 : i64\n" + "\n".join(
        f"%{name} = pto.castptr %w : i64 -> !pto.ptr<f32, {space}>"
        for name, space in (("a", "acc"), ("l", "mat"), ("u", "ub"))
    ) + "\n" + "\n".join(lines)  # fmt: skip
    result = run(kernel("%o: !pto.ptr<f32>", body, kind="cube"), {"o": np.ones(4, np.float32)})
    assert result.outputs["o"].tolist() == [1, 1, 1, 1]
    codes = [f.code for f in result.findings]
    assert codes.count("PTO2138") == 3


def test_a_copy_of_parameters():
    """copy_cbuf_to_fbuf: units of 64 bytes; scales of 0.5 from the fourth of them on."""
    m, n = 5, 16
    acc = accumulator("parameters", m, n)
    image = bytes(192) + (0x3F000000).to_bytes(8, "little") * n
    setup = """
    %l1 = arith.constant 262144 : i64
    %k = arith.constant 192 : index
    %l = pto.castptr %l1 : i64 -> !pto.ptr<ui8, mat>
    %fb = pto.castptr %zero : i64 -> !pto.ptr<f32, scaling>
    pto.mte_gm_l1 %words, %l, 320 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, mat>
    %part = pto.addptr %l, %k : !pto.ptr<ui8, mat> -> !pto.ptr<ui8, mat>
    pto.copy_cbuf_to_fbuf %part, %fb, 1, 2, 0, 0 : !pto.ptr<ui8, mat>, !pto.ptr<f32, scaling>, i64, i64, i64, i64
    """
    text = outward("pre_quant(%fb, mode = qf322f32_pre_vec), nz2nd", "f32", m, n, 16, n)
    data, _ = through(acc, 16, text, "f32", 4 * m * n, extra={"words": image}, setup=setup)
    expected = [
        [model.out_value(p, 0x3F000000, None, "f32", relu=False, saturate=True) for p in line]
        for line in acc
    ]
    floats_agree(rows_of(data, "f32", m, n, n), expected, "f32")


@pytest.mark.parametrize("name", ["raw_fill_l1", "create_cbuf_matrix"])
def test_time_of_a_fill(name):
    """Bytes / 128 + 30 cycles."""

    def cycles(blocks: int) -> float:
        offset = "0, " if name == "raw_fill_l1" else ""
        body = f"""
    %zero = arith.constant 0 : i64
    %w = arith.constant 0 : i32
    %l = pto.castptr %zero : i64 -> !pto.ptr<ui16, mat>
    pto.{name} %l, {offset}%w, 1, {blocks}, 0 {{fill_word_bits = 16 : i64}} : !pto.ptr<ui16, mat>{", i64" if offset else ""}, i32, i64, i64, i64
    """
        return ptosim.load(kernel("", body, kind="cube")).cost(args={}).cycles

    assert cycles(4001) - cycles(1) == pytest.approx(1000, abs=1)
    assert 30 <= cycles(4) <= 40
