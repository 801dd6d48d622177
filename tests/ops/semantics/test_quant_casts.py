"""quant.qcast, dcast, scast and fake quantisation in programs, against worked values and MLIR's."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import ptosim

X = np.float32([-300, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.9, 300, np.nan, 0, 1, 2, 3, 4, 5])


def run(text, **args):
    return ptosim.load(text).run(args, timing=False).outputs


def cast_tile(type_, scheme=None, x=X, expressed="f32", target="a2a3"):
    attr = f' {{scheme = "{scheme}"}}' if scheme else ""
    tile = "!pto.tile<2x8x"
    text = (
        f"%q = quant.qcast %x{attr} : {tile}{expressed}> to {tile}{type_}>\n"
        f"%y = quant.dcast %q : {tile}{type_}> to {tile}{expressed}>\n"
        f"%i = quant.scast %q : {tile}{type_}> to {tile}{_word(type_)}>\n"
    )
    program = ptosim.load(text, target=target)
    out = program.run({"x": x.reshape(2, 8)}, timing=False).outputs
    return out["i"].reshape(-1), out["y"].reshape(-1)


def _word(type_):
    """The integer type of the bits."""
    digits = type_.removeprefix("!quant.uniform<").lstrip("iu")
    return f"i{re.match(r'[0-9]+', digits).group()}"


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_default_rounds_half_to_even_and_clamps(target):
    codes, back = cast_tile("!quant.uniform<i8:f32, 1.0>", target=target)
    assert codes.tolist() == [-128, -2, -2, 0, 0, 2, 2, 3, 127, -128, 0, 1, 2, 3, 4, 5]
    assert back.tolist() == codes.astype(np.float32).tolist()


def test_mlir_lower_truncates_and_wraps():
    """mlir-opt and mlir-runner 22.1: 2.9 is 2, 300 is 44 in eight bits."""
    codes, _ = cast_tile("!quant.uniform<i8:f32, 1.0>", "mlir-lower")
    assert codes.tolist()[1:9] == [-2, -1, 0, 0, 1, 2, 2, 44]


def test_the_switch_names_the_scheme_of_casts_without_one():
    text = "%q = quant.qcast %x : !pto.tile<2x8xf32> to !pto.tile<2x8x!quant.uniform<i8:f32, 1.0>>"
    program = ptosim.load(text, switches={"quant.scheme": "mlir-lower"})
    got = program.run({"x": X.reshape(2, 8)}, timing=False).outputs["q"]
    assert got.reshape(-1).tolist()[1:8] == [-2, -1, 0, 0, 1, 2, 2]


def test_zero_point_is_added_before_rounding_but_not_by_onnx():
    type_ = "!quant.uniform<u8:f32, 1.0:1>"
    assert cast_tile(type_)[0].view(np.uint8).tolist()[4] == 2
    assert cast_tile(type_, "onnx")[0].view(np.uint8).tolist()[4] == 1


def test_narrow_range_and_half():
    x = X.astype(np.float16)
    codes, back = cast_tile("!quant.uniform<i8<-127:127>:f16, 0.5>", x=x, expressed="f16")
    assert codes.tolist()[:9] == [-127, -5, -3, -1, 1, 3, 5, 6, 127]
    assert back.dtype == np.float16
    x = X.astype(ml_dtypes.bfloat16)
    _, back = cast_tile("!quant.uniform<i16:bf16, 0.5>", x=x, expressed="bf16")
    assert back.astype(np.float32).tolist()[1:7] == [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]


def test_four_bits_are_packed_in_tiles():
    tile = "!pto.tile<2x64x"
    type_ = "!quant.uniform<i4:f32:1, {" + ",".join(["1.0", "2.0"] * 32) + "}>"
    x = np.arange(-64, 64, dtype=np.float32).reshape(2, 64) / 8
    text = (
        f"%q = quant.qcast %x : {tile}f32> to {tile}{type_}>\n"
        f"%y = quant.dcast %q : {tile}{type_}> to {tile}f32>\n"
    )
    scale = np.tile(np.float32([1, 2]), 32)
    expected = np.clip(np.rint(x / scale), -8, 7) * scale
    np.testing.assert_array_equal(run(text, x=x)["y"], expected)


def test_tensors_of_any_rank_and_blocks():
    type_ = "!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {4.0, 8.0}}>"
    text = f"%q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x{type_}>"
    x = np.float32([[10, 11, 12, 13], [14, 15, 16, 17]])
    assert run(text, x=x)["q"].tolist() == [[10, 11, 6, 6], [4, 4, 2, 2]]
    text = "%y = quant.dcast %q : tensor<3x!quant.uniform<u8:f32, 0.5:2>> to tensor<3xf32>"
    assert run(text, q=np.uint8([0, 2, 255]))["y"].tolist() == [-1.0, 0.0, 126.5]


def test_scalars():
    text = (
        "%q = quant.qcast %f : f32 to !quant.uniform<i8:f32, 0.5:3>\n"
        "%i = quant.scast %q : !quant.uniform<i8:f32, 0.5:3> to i8\n"
        "%y = quant.dcast %q : !quant.uniform<i8:f32, 0.5:3> to f32\n"
    )
    out = run(text, f=1.3)
    assert (int(out["i"]), float(out["y"])) == (6, 1.5)


def test_a_dcast_of_a_qcast_is_not_folded():
    codes, back = cast_tile("!quant.uniform<i8:f32, 4.0>")
    assert back.tolist()[10:] == [0.0, 0.0, 0.0, 4.0, 4.0, 4.0]
    assert codes.tolist()[10:] == [0, 0, 0, 1, 1, 1]


def test_fake_quantisation():
    """min 0, max 1, 8 bits: scale 1/255, zero point 0; values beyond the range are clamped."""
    text = (
        "%y = quant.const_fake_quant %x {min = 0.0 : f32, max = 1.0 : f32, num_bits = 8} "
        ": tensor<4xf32> to tensor<4xf32>"
    )
    got = run(text, x=np.float32([-1, 0.25, 0.6, 2]))["y"]
    step = np.float32(1 / 255)
    np.testing.assert_array_equal(got, np.float32([0, 64, 153, 255]) * step)


def test_types_without_arithmetic_are_refused():
    text = "%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.any<i8:f32>>"
    with pytest.raises(ptosim.UnsupportedError, match="says nothing"):
        ptosim.load(text).run({}, timing=False)


def test_a_tensor_of_another_shape_is_a_usage_error():
    text = "%q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.0>>"
    with pytest.raises(ptosim.UsageError, match="tensor<4xf32>"):
        ptosim.load(text).run({"x": np.zeros(5, np.float32)}, timing=False)
