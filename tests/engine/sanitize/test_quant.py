"""Quantising operations that do what their authors rarely mean: one finding for each, and silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.models.kernel_builder import module
from ptosim.models.kernels import product, quant_word, sizes
from tests.support.text import Kernel

X = (np.random.default_rng(8).standard_normal((8, 64)) * 3).astype(np.float32)


def quant_codes(findings) -> list[str]:
    return [f.code for f in findings if f.code.startswith("PTO72")]


def quantised(scale, offset=None, target="a5", x=X, **options) -> list[str]:
    k = Kernel(target)
    tile = k.tile("t", "f32", 8, 64)
    s = k.tile("s", "f32", 8, 1, layout="dn")
    dst = k.tile("q", "ui8" if offset is not None else "i8", 8, 64)
    k.load("x", tile)
    k.load("scale", s)
    ins, args = [tile, s], {"x": x, "scale": np.broadcast_to(np.float32(scale), 8).copy()}
    if offset is not None:
        ins.append(k.tile("o", "f32", 8, 1, layout="dn"))
        k.load("offset", ins[-1])
        args["offset"] = np.broadcast_to(np.float32(offset), 8).copy()
    outs = [dst, k.tile("tmp", "f32", 8, 64)] if target == "a2a3" else [dst]
    kind = "INT8_SYM" if offset is None else "INT8_ASYM"
    k.op("pto.tquant", ins, outs, f"quant_type = #pto<quant_type {kind}>")
    k.store(dst, "y")
    return quant_codes(
        k.program().run({**args, "y": np.zeros((8, 64), np.int8)}, **options).findings
    )


def in_a_loop(factor: float, x: np.ndarray) -> list[ptosim.Diagnostic]:
    """A hundred tiles of one row are quantised, one after the other."""
    k = Kernel("a5")
    tile, s, q = (
        k.tile("t", "f32", 1, 64), k.tile("s", "f32", 8, 1, (1, 1), layout="dn"),
        k.tile("q", "i8", 1, 64),
    )  # fmt: skip
    k.load("scale", s)
    k.line(f"scf.for %i = {k.const(0)} to {k.const(100)} step {k.const(1)} {{")
    view, type_ = k.view("x", "f32", (1, 64), shape=(100, 64))
    number = view.removeprefix("%p")
    k.line(f"%w{number} = {k.lines.pop().split(' = ', 1)[1].replace('[%cindex0,', '[%i,')}")
    k.op("pto.tload", [(f"%w{number}", type_)], [tile])
    k.op("pto.tquant", [tile, s], [q], "quant_type = #pto<quant_type INT8_SYM>")
    k.line("}")
    k.store(q, "y")
    given = {"x": x, "scale": np.full(1, factor, np.float32), "y": np.zeros((1, 64), np.int8)}
    return k.program().run(given).findings


MX = Path(__file__).parents[3] / "programs/quant/mxfp8_nd.pto"
STEP = float(np.abs(X).max() / 127)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_step_where_the_reciprocal_belongs(target):
    assert quantised(1 / STEP, target=target) == []
    assert quantised(STEP, target=target) == ["PTO7205"]
    assert quantised(STEP, target=target, sanitize="none") == []
    assert quantised(STEP, target=target, sanitize="quant") == ["PTO7205"]


def test_scales_that_could_be_meant_are_left_alone():
    assert quantised(1.0) == []  # both readings are poor
    assert quantised(STEP, x=np.zeros_like(X)) == []


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("factor", "codes"),
    [
        (1, []),
        (0.2, []),
        (1.5, []),
        (10, ["PTO7214"]),
        (1 / 100, ["PTO7215"]),
        (1 / 300, ["PTO7215"]),
    ],
)
def test_scales_that_are_far_from_the_data(factor, codes, target):
    """Ten times too large: most values are beyond the last code. A hundred times too small: the
    farthest is 1.27 steps from zero, so that -1, 0 and 1 are all there is."""
    for unit in (1e-2, 1e2):  # with others a scale that is too small may be the step
        x = (X * unit).astype(np.float32)
        assert quantised(factor / STEP / unit, target=target, x=x) == codes


def test_a_side_without_codes_does_not_count():
    """With offset 0 what is below zero becomes zero, as ReLU has it; with 255 what is above."""
    for offset in (0, 255):
        assert quantised(1 / STEP, offset) == []
        assert quantised(12 / STEP, offset) == ["PTO7214"]
    assert quantised(1 / STEP, x=np.maximum(X, 0)) == []


def test_of_many_executions_some_are_counted_and_all_are_looked_at():
    x = np.tile(X[:1], (100, 1))
    (found,) = in_a_loop(10 / STEP, x)
    assert found.code == "PTO7214"
    assert found.notes[-1] == "of 100 executions the first 16 and each 17th count"
    assert f"of {64 * (16 + 5):,} values" in found.message  # 17, 34, 51, 68 and 85
    for row in (3, 41, 99):
        x[row, 5] = np.nan
        assert quant_codes(in_a_loop(1 / STEP, x)) == ["PTO7216"]
        x[row, 5] = 0


def test_a_few_different_values_need_a_few_codes():
    assert quantised(1.0, x=np.sign(X)) == []


@pytest.mark.parametrize(("value", "row"), [(np.nan, 2), (np.inf, 5), (-np.inf, 0)])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_nan_and_infinity_become_codes(value, row, target):
    x = X.copy()
    x[row, 7] = value
    assert quantised(1 / STEP, x=x, target=target) == ["PTO7216"]
    assert quantised(0.5 / STEP, 128, x=x, target=target) == ["PTO7216"]


@pytest.mark.parametrize("scale", [0.0, -3.0, np.nan, np.inf])
def test_scales_that_mean_nothing(scale):
    assert quantised(scale) == ["PTO7201"]


@pytest.mark.parametrize(
    ("offset", "codes"),
    [
        (0, []), (255, []), (-1, ["PTO7206"]), (300, ["PTO7206"]), (np.nan, ["PTO7206"]),
        (127.5, ["PTO7218"]), (128, []),
    ],
)  # fmt: skip
def test_offsets(offset, codes):
    assert quantised(1 / STEP, offset) == codes


def dequantised(scale, offset=0.0, q=None, target="a5", **options) -> list[str]:
    k = Kernel(target)
    shape = (8, 1) if target == "a5" else (8, 8)
    src, dst = k.tile("q", "i8", 8, 64), k.tile("t", "f32", 8, 64)
    s, o = k.tile("s", "f32", *shape), k.tile("o", "f32", *shape)
    for name, tile in (("x", src), ("scale", s), ("offset", o)):
        k.load(name, tile)
    k.op("pto.tdequant", [src, s, o], [dst])
    k.store(dst, "y")
    codes = np.rint(X / STEP).astype(np.int8) if q is None else q
    args = {"x": codes, "y": np.zeros((8, 64), np.float32)}
    args |= {n: np.full(shape, v, np.float32) for n, v in (("scale", scale), ("offset", offset))}
    return quant_codes(k.program().run(args, **options).findings)


@pytest.mark.parametrize(
    ("scale", "offset", "codes"),
    [
        (STEP, 0, []), (STEP, -128, []), (8.0, 0, []), (1 / STEP, 0, ["PTO7205"]),
        (np.nan, 0, ["PTO7201"]), (-1.0, 0, ["PTO7201"]), (STEP, 3.5, ["PTO7218"]), (STEP, 128, ["PTO7206"]),
    ],
)  # fmt: skip
def test_the_step_belongs_to_tdequant(scale, offset, codes):
    """TDEQUANT multiplies by the step, of which TQUANT has the reciprocal."""
    for target in ("a2a3", "a5"):
        assert dequantised(scale, offset, target=target) == codes


def test_the_factor_that_tquant_had_is_no_step():
    """However large the result: a factor of 2 could be a step too, if TQUANT had not had it."""
    for factor, codes in ((2.0, ["PTO7205"]), (1.0, [])):
        k = Kernel("a5")
        x, q, y = k.tile("t", "f32", 8, 64), k.tile("q", "i8", 8, 64), k.tile("u", "f32", 8, 64)
        s = k.tile("s", "f32", 8, 1, layout="dn")
        o = k.tile("o", "f32", 8, 1, layout="dn")
        for name, tile in (("x", x), ("scale", s), ("offset", o)):
            k.load(name, tile)
        k.op("pto.tquant", [x, s], [q], "quant_type = #pto<quant_type INT8_SYM>")
        k.op("pto.tdequant", [q, s, o], [y])
        k.store(y, "y")
        args = {
            "x": X * 10,
            "scale": np.full(8, factor, np.float32),
            "offset": np.zeros(8, np.float32),
        }
        found = k.program().run({**args, "y": np.zeros((8, 64), np.float32)}).findings
        assert quant_codes(found) == codes


def test_a_nan_takes_its_group_of_32_with_it():
    for value, codes in ((np.nan, ["PTO7217"]), (3.0, [])):
        x = np.random.default_rng(51).standard_normal((128, 256)).astype(np.float32)
        x[3, 40] = value
        given = {"x": x, "q": np.zeros((128, 256), np.uint8), "e": np.zeros((128, 8), np.uint8)}
        found = ptosim.load(MX.read_text()).run(given).findings
        assert quant_codes(found) == codes
        assert not codes or "[3, 40]" in found[0].message


@pytest.mark.parametrize(
    ("mode", "x", "codes"),
    [("OFF", 300.0, ["PTO7207"]), ("ON", 300.0, []), ("OFF", 127.4, []), ("OFF", np.nan, [])],
)
def test_conversions_that_wrap(mode, x, codes):
    k = Kernel("a2a3")
    a, b = k.tile("a", "f16", 8, 64), k.tile("b", "i8", 8, 64)
    k.load("x", a)
    k.op("pto.tcvt", [a], [b], f"sat_mode = #pto<saturation_mode {mode}>")
    k.store(b, "y")
    given = np.zeros((8, 64), np.float16)
    given[3, 5] = x
    result = k.program().run({"x": given, "y": np.zeros((8, 64), np.int8)})
    assert quant_codes(result.findings) == codes
    if codes:
        found = next(f for f in result.findings if f.code == "PTO7207")
        assert "wraps 1 of 512 values" in found.message
        assert "the first 300" in found.message


def requantised(word: int, target="a5", *, columns=False, **options) -> list[str]:
    """16x32 products of 4 and 1, so that all sums are 128."""
    kind = "column" if columns else "tensor"
    f = product("f", target, sizes(16, 32, 32), out="i8", words=kind)
    program = ptosim.load(module(f).source.text)
    args = {
        "a": np.full((16, 32), 4, np.int8), "b": np.ones((32, 32), np.int8), "c": np.zeros((16, 32), np.int8),
    }  # fmt: skip
    args |= {"words": np.full(32, word, np.int64)} if columns else {"word": word}
    return quant_codes(program.run(args, **options).findings)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_the_output_path(target):
    plain = quant_word(0.5, 0, signed=True)
    assert requantised(plain, target=target) == []
    lossy = int(np.float32(0.0123).view(np.uint32)) | 1 << 46
    assert requantised(lossy, target=target, columns=True) == ["PTO7208"]
    late = quant_word(4.0, -200, signed=True)  # 512 becomes 255, then 55, not 312 - 200
    assert requantised(late, target=target) == ["PTO7209"]
    assert requantised(quant_word(1.0, -100, signed=True), target=target) == []
    assert requantised(late, target=target, sanitize="races") == []


def reused(target: str, *, copied: bool) -> list[str]:
    k = Kernel(target)
    a, b, q = k.tile("a", "f32", 8, 64), k.tile("b", "f32", 8, 64), k.tile("q", "i8", 8, 64)
    s, tmp = k.tile("s", "f32", 8, 1, layout="dn"), k.tile("tmp", "f32", 8, 64)
    k.load("x", a)
    k.load("scale", s)
    if copied:
        k.op("pto.tmov", [a], [b])
    k.op("pto.tquant", [a, s], [q, tmp], "quant_type = #pto<quant_type INT8_SYM>")
    if copied:
        k.op("pto.tmov", [b], [a])
    k.op("pto.tadd", [a, a], [a])
    k.store(a, "y")
    k.store(q, "z")
    return quant_codes(ptosim.check(k.text(), target=target))


def test_a_source_that_is_read_again_is_found_without_values():
    assert reused("a2a3", copied=False) == ["PTO7210"]
    assert reused("a2a3", copied=True) == []
    assert reused("a5", copied=False) == []


def test_factors_of_an_empty_tile_are_not_looked_at():
    acc = (
        "!pto.tile_buf<loc=acc, dtype=f32, rows=16, cols=32, v_row=16, v_col=16, "
        "blayout=col_major, slayout=row_major, fractal=1024, pad=0>"
    )
    fp = (
        "!pto.tile_buf<loc=scaling, dtype=i64, rows=1, cols=16, v_row=1, v_col=0, "
        "blayout=row_major, slayout=none_box, fractal=512, pad=0>"
    )
    mat = (
        "!pto.tile_buf<loc=mat, dtype=i8, rows=16, cols=32, v_row=16, v_col=16, "
        "blayout=col_major, slayout=row_major, fractal=512, pad=0>"
    )
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @kernel() {{
    %acc = pto.alloc_tile : {acc}
    %fp = pto.alloc_tile : {fp}
    %mat = pto.alloc_tile : {mat}
    pto.tmov.fp ins(%acc, %fp : {acc}, {fp}) outs(%mat : {mat})
    return
  }}
}}"""
    assert quant_codes(ptosim.load(text, compat="2026-04").run({}).findings) == []
