"""Saturation of tcvt in August, pairs of 4-bit floats, and the operations that are new."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.ops.semantics.harness import Case, Scalar, Spec, mixture
from tests.support.text import Kernel

OFF = "#pto<saturation_mode OFF>"
ON = "#pto<saturation_mode ON>"
BIG = np.full(1024, 1e6, np.float32)


def convert(target, src, dst, x, attrs="", *, tmp=False, **options):
    k = Kernel(target, **options)
    a, b = k.tile("a", src, 16, 64), k.tile("b", dst, 16, 64)
    k.load("x", a)
    ins = [a, k.tile("t", "f32", 64, 64)] if tmp else [a]
    k.op("pto.tcvt", ins, [b], attrs)
    k.store(b, "y")
    kinds = {
        "f16": np.float16,
        "i16": np.int16,
        "i32": np.int32,
        "ui16": np.uint16,
        "hif8": np.uint8,
        "f8E4M3FN": np.uint8,
    }
    return k.run({"x": x, "y": np.zeros(1024, kinds[dst])})


@pytest.mark.parametrize("name", ["sat_mode", "satmode"])
def test_both_names_of_the_mode_say_the_same(name):
    made = convert("a5", "f32", "i16", BIG, f"{name} = {ON}")
    assert made.outputs["y"][0] == 32767


@pytest.mark.parametrize(("tmp", "value"), [(False, 65504.0), (True, np.inf)])
def test_off_on_a2a3_is_obeyed_with_a_scratch_tile(tmp, value):
    assert convert("a2a3", "f32", "f16", BIG, f"sat_mode = {OFF}", tmp=tmp).outputs["y"][0] == value
    assert convert("a2a3", "f32", "f16", BIG, tmp=tmp).outputs["y"][0] == 65504


@pytest.mark.parametrize(
    ("src", "dst", "value", "want"),
    [
        ("f32", "f16", 1e6, np.inf),
        ("i32", "ui16", -5, 65531),
        ("f32", "hif8", 1e6, 0x6F),
    ],
)
def test_off_on_a5(src, dst, value, want):
    x = np.full(1024, value, np.float32 if src == "f32" else np.int32)
    assert convert("a5", src, dst, x, f"sat_mode = {OFF}").outputs["y"][0] == want


@pytest.mark.parametrize(("value", "f16", "ui16"), [("policy", 65504.0, 0), ("off", np.inf, 65531)])
def test_what_a_missing_mode_means_is_a_switch(value, f16, ui16):
    switches = {"tcvt.default": value}
    wide = convert("a5", "f32", "f16", BIG, switches=switches)
    assert wide.outputs["y"][0] == f16
    negative = np.full(1024, -5, np.int32)
    assert convert("a5", "i32", "ui16", negative, switches=switches).outputs["y"][0] == ui16
    assert ("PTO7080" in {d.code for d in wide.findings}) == (value == "policy")
    inside = convert("a5", "f32", "f16", np.ones(1024, np.float32), switches=switches)
    assert "PTO7080" not in {d.code for d in inside.findings}


@pytest.mark.parametrize(("value", "code"), [("keep", 0x7F), ("zero", 0)])
def test_the_code_of_a_nan_is_a_switch(value, code):
    x = np.full(1024, np.nan, np.float32)
    x[1] = np.inf
    got = (
        convert("a5", "f32", "f8E4M3FN", x, switches={"tcvt.fp8_nan": value})
        .outputs["y"]
        .view(np.uint8)
    )
    assert (got[0], got[1]) == (code, 0x7E)


def test_pairs_of_four_bit_floats():
    """Two numbers an element, the first in the low bits; and back."""
    text = """func.func @k(%p: !pto.ptr<bf16>, %q: !pto.ptr<bf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %v = pto.make_tensor_view %p, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xbf16>
  %w = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xbf16> -> !pto.partition_tensor_view<16x64xbf16>
  %u = pto.make_tensor_view %q, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<?x?xbf16>
  %o = pto.partition_view %u, offsets = [%c0, %c0], sizes = [%c16, %c64] : !pto.tensor_view<?x?xbf16> -> !pto.partition_tensor_view<16x64xbf16>
  %a = pto.alloc_tile : !pto.tile_buf<vec, 16x64xbf16>
  %b = pto.alloc_tile : !pto.tile_buf<vec, 16x32x!pto.f4E2M1x2>
  %c = pto.alloc_tile : !pto.tile_buf<vec, 16x64xbf16>
  pto.tload ins(%w : !pto.partition_tensor_view<16x64xbf16>) outs(%a : !pto.tile_buf<vec, 16x64xbf16>)
  pto.tcvt ins(%a : !pto.tile_buf<vec, 16x64xbf16>) outs(%b : !pto.tile_buf<vec, 16x32x!pto.f4E2M1x2>)
  pto.tcvt ins(%b : !pto.tile_buf<vec, 16x32x!pto.f4E2M1x2>) outs(%c : !pto.tile_buf<vec, 16x64xbf16>)
  pto.tstore ins(%c : !pto.tile_buf<vec, 16x64xbf16>) outs(%o : !pto.partition_tensor_view<16x64xbf16>)
  return
}"""

    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -6], np.float32)
    x = np.resize(grid, 1024).astype(ml_dtypes.bfloat16)
    x[0] = 100  # saturates
    got = ptosim.load(text, target="a5").run({"p": x, "q": np.zeros_like(x)}).outputs["q"].ravel()
    want = x.copy()
    want[0] = 6
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_last_group_of_runs_is_merged_as_it_is(target):
    """320 columns of f32 are 160 records: four runs of 32, and one of 32 that stays as it is."""
    scores = np.concatenate(
        [np.sort(mixture("f32", 32, i).astype(np.float32))[::-1] for i in range(5)]
    )
    scores = np.where(np.isfinite(scores), scores, 0).astype(np.float32)
    for start in range(0, 160, 32):
        scores[start : start + 32] = np.sort(scores[start : start + 32])[::-1]
    data = np.zeros(320, np.float32)
    data[0::2] = scores
    operands = {
        "src": Spec("f32", 1, 320, values=data),
        "blockLen": Scalar("i32", 64),
        "dst": Spec("f32", 1, 320),
    }
    made = Case("tmrgsort", target, operands, variant="runs").run()
    got = made.outputs["dst_after"][0::2]
    np.testing.assert_array_equal(got[:128], np.sort(scores[:128])[::-1])
    np.testing.assert_array_equal(got[128:], scores[128:])
    assert "PTO6481" in {d.code for d in made.findings}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_as_many_bytes_as_the_counts_say(target):
    counts = np.zeros((2, 4, 8), np.int32)
    counts[:, :, 0] = np.array([[4, 0, 32, 6], [2, 8, 32, 0]]) * 2
    operands = {
        "src0": Spec("f16", 4, 32, values=mixture("f16", 128, 1)),
        "src1": Spec("f16", 4, 32, values=mixture("f16", 128, 2)),
        **{f"src{n}Idx": Spec("i32", 4, 8, (4, 1), values=counts[n].reshape(-1)) for n in (0, 1)},
        "dst": Spec("f16", 4, 64, values=mixture("f16", 256, 3)),
    }
    Case("tconcatidx", target, operands).check()


@pytest.mark.parametrize("dtype", ["i16", "f16", "f32"])
def test_a_sum_and_its_positive_part(dtype):
    operands = {
        n: Spec(dtype, 4, 32, (3, 29), values=mixture(dtype, 128, i))
        for i, n in enumerate(("src0", "src1", "dst"))
    }
    Case("taddrelu", "a2a3", operands).check()


@pytest.mark.parametrize("op", ["tpow", "tpows"])
@pytest.mark.parametrize(
    ("dtype", "kind"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f32", np.float32)]
)
def test_powers_of_high_precision(op, dtype, kind):
    """A5 takes bf16 in this mode alone; 1.5 cubed is exact in all types."""
    k = Kernel("a5")
    a, d = k.tile("a", dtype, 16, 64), k.tile("d", dtype, 16, 64)
    k.load("x", a)
    other = ("%e", dtype)
    if op == "tpow":
        other = k.tile("b", dtype, 16, 64)
        k.load("e", other)
    else:
        k.arg("e", dtype)
    k.op(f"pto.{op}", [a, other], [d], "precisionType = #pto<pow_precision high_precision>")
    k.store(d, "y")
    x = np.full(1024, 1.5, kind)
    powers = np.full(1024, 3, kind) if op == "tpow" else 3.0
    got = k.run({"x": x, "e": powers, "y": np.zeros(1024, kind)}).outputs["y"]
    assert (got.astype(np.float32) == 3.375).all()


def test_powers_of_zero_and_one_on_a2a3():
    """A zero base has no sign there: 0 to a positive power, infinity to a negative one."""
    bases = np.array([-0.0, -0.0, 0.0, -1.0, -1.0, 2.0, 0.0, -2.0], np.float32)
    powers = np.array([3.0, -3.0, -2.0, np.inf, -np.inf, 0.0, 0.0, 3.0], np.float32)
    operands = {
        "src0": Spec("f32", 1, 8, values=bases),
        "src1": Spec("f32", 1, 8, values=powers),
        "dst": Spec("f32", 1, 8),
    }
    got = Case("tpow", "a2a3", operands).run().outputs["dst_after"]
    want = np.array([0.0, np.inf, np.inf, 1.0, 1.0, 1.0, 1.0, -8.0], np.float32)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
