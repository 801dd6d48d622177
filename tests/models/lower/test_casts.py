"""`fmt --lower-quant`: programs without casts give what the casts gave."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.machine.quant.quantize import quantize
from ptosim.models.quant_dialect import lowered

SHAPE = (8, 64)
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def data(expressed="f32"):
    """Halves of steps with their neighbours, values out of range, infinities; no NaN."""
    rng = np.random.default_rng(11)
    x = (rng.integers(-600, 600, SHAPE) / 4).astype(np.float32)
    x *= rng.choice(np.float32([1, 1 + 2**-23, 0.1, 1 - 2**-23]), SHAPE)
    x[0, :6] = [np.inf, -np.inf, 1e30, -1e30, 1e-45, -0.0]
    with np.errstate(over="ignore"):
        return x.astype(DTYPES[expressed])


def both_ways(type_, expressed="f32"):
    tile = "!pto.tile<8x64x"
    return (
        f"%q = quant.qcast %x : {tile}{expressed}> to {tile}{type_}>\n"
        f"%y = quant.dcast %q : {tile}{type_}> to {tile}{expressed}>\n"
        f"%i = quant.scast %q : {tile}{type_}> to {tile}i{type_.split('<')[1][1:].split(':')[0]}>\n"
    )


def lower(text, target, form="exact"):
    return lowered(Source("casts.pto", text), FrontOptions(target, None, None), form)


def outputs(text, target, x):
    return ptosim.load(text, target=target).run({"x": x}, timing=False).outputs


ROWS = ", ".join(f"{0.1 + r / 20}:{r - 3}" for r in range(8))
COLUMNS = ", ".join(f"{0.05 + c / 100}" for c in range(64))
TYPES = [
    ("!quant.uniform<i8:f32, 0.25>", "f32"),
    ("!quant.uniform<u8:f32, 0.1:131>", "f32"),
    ("!quant.uniform<i16:f32, 0.003:-77>", "f32"),
    ("!quant.uniform<i32:f32, 0.25>", "f32"),
    ("!quant.uniform<i8:f16, 0.3:5>", "f16"),
    ("!quant.uniform<u8:bf16, 0.3:5>", "bf16"),
    (f"!quant.uniform<i8:f32:0, {{{ROWS}}}>", "f32"),
    (f"!quant.uniform<i8:f32:1, {{{COLUMNS}}}>", "f32"),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("type_", "expressed"), TYPES, ids=lambda v: str(v)[:40])
def test_exact_form_keeps_every_result(type_, expressed, target):
    text, x = both_ways(type_, expressed), data(expressed)
    plain = lower(text, target)
    assert "quant." not in plain
    assert "!quant" not in plain
    before, after = outputs(text, target, x), outputs(plain, target, x)
    for name in ("i", "y"):
        np.testing.assert_array_equal(
            before[name].view(np.uint8), after[name].view(np.uint8), err_msg=name
        )


def test_narrowed_range():
    type_ = "!quant.uniform<i8<-100:90>:f32, 0.5:3>"
    text = both_ways(type_).replace("xi8<-100>", "xi8>")
    x = data()
    before, after = outputs(text, "a5", x), outputs(lower(text, "a5"), "a5", x)
    np.testing.assert_array_equal(before["y"], after["y"])
    assert (after["i"].min(), after["i"].max()) == (-100, 90)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("type_", "zero", "out"),
    [("!quant.uniform<i8:f32, 0.1>", 0, "i8"), ("!quant.uniform<u8:f32, 0.1:131>", 131, "ui8")],
)
def test_fast_form_is_tquant(type_, zero, out, target):
    """Its results are the scheme pto-hw's, and the source of the cast is left as it is."""
    text, x = both_ways(type_), data()
    plain = lower(
        text + "%z = pto.tmov %x : !pto.tile<8x64xf32> -> !pto.tile<8x64xf32>\n", target, "fast"
    )
    assert "pto.tquant" in plain
    got = outputs(plain, target, x)
    want = quantize(x, scheme="pto-hw", scale=np.float32(0.1), zero_point=zero, dtype=out)
    np.testing.assert_array_equal(got["i"].view(np.uint8), want.view(np.uint8))
    np.testing.assert_array_equal(got["z"], x)


def test_destinations_and_the_command(cli, tmp_path):
    tile, quant = (
        "!pto.tile_buf<vec, 8x64xf32>",
        "!pto.tile_buf<vec, 8x64x!quant.uniform<i8:f32, 0.5>>",
    )
    path = tmp_path / "p.pto"
    path.write_text(
        f"module {{\n  func.func @f(%p: !pto.ptr<f32>) {{\n    %x = pto.alloc_tile : {tile}\n"
        f"    %q = pto.alloc_tile : {quant}\n    // the cast\n"
        f"    quant.qcast ins(%x : {tile}) outs(%q : {quant})\n    return\n  }}\n}}\n"
    )
    got = cli("fmt", "--lower-quant", path)
    assert got.code == 0
    assert got.out.count("%q = pto.alloc_tile : !pto.tile_buf<vec, 8x64xi8>") == 1
    assert "// the cast" in got.out
    (tmp_path / "lowered.pto").write_text(got.out)
    assert cli("check", tmp_path / "lowered.pto").code == 0


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("!quant.uniform<i4:f32, 0.5>", "two to a byte"),
        ("!quant.uniform<i8:f32:{0:4, 1:32}, {{1.0, 2.0}, {3.0, 4.0}}>", "with !quant.uniform"),
        ("!quant.any<i8:f32>", "!quant.any"),
    ],
)
def test_casts_without_tile_operations(type_, words):
    tile = "!pto.tile<8x64x"
    text = f"%q = quant.qcast %x : {tile}f32> to {tile}{type_}>\n"
    with pytest.raises(UnsupportedError) as caught:
        lower(text, "a5")
    assert caught.value.diagnostics[0].code == "PTO8204"
    assert words in caught.value.diagnostics[0].message
