"""Quantising operations that do what their authors rarely mean: one finding for each, and silence."""

from __future__ import annotations

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


@pytest.mark.parametrize("scale", [0.0, -3.0, np.nan, np.inf])
def test_scales_that_mean_nothing(scale):
    assert quantised(scale) == ["PTO7201"]


@pytest.mark.parametrize(
    ("offset", "codes"), [(0, []), (255, []), (-1, ["PTO7206"]), (300, ["PTO7206"])]
)
def test_offsets(offset, codes):
    assert quantised(1 / STEP, offset) == codes


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
