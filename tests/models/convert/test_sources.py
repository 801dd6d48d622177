"""Models that are MLIR functions and PTO programs, against NumPy."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ptosim.ground.errors import PtosimError
from ptosim.models.conversion import mlir_source, source
from tests.launch.programs.expected import PROGRAMS

rng = np.random.default_rng(12)
W0 = (rng.standard_normal((32, 24)) / 5).astype(np.float32)
W1 = (rng.standard_normal((8, 24)) / 5).astype(np.float32)
B0 = rng.standard_normal(24).astype(np.float32)

TEXT = f"""
func.func @mlp(%x: tensor<?x32xf32>) -> tensor<?x8xf32> {{
  %w0 = arith.constant dense<{W0.tolist()}> : tensor<32x24xf32>
  %b0 = "tosa.const"() <{{values = dense<"0x{B0.tobytes().hex()}"> : tensor<24xf32>}}> : () -> tensor<24xf32>
  %w1 = arith.constant dense<{W1.tolist()}> : tensor<8x24xf32>
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<16x24xf32>
  %e = tensor.empty() : tensor<16x24xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<16x24xf32>) -> tensor<16x24xf32>
  %m = linalg.matmul ins(%x, %w0 : tensor<?x32xf32>, tensor<32x24xf32>) outs(%f : tensor<16x24xf32>) -> tensor<16x24xf32>
  %a = tosa.add %m, %b0 : (tensor<16x24xf32>, tensor<24xf32>) -> tensor<16x24xf32>
  %r = arith.maximumf %a, %zeros : tensor<16x24xf32>
  %e1 = tensor.empty() : tensor<24x8xf32>
  %wt = linalg.transpose ins(%w1 : tensor<8x24xf32>) outs(%e1 : tensor<24x8xf32>) permutation = [1, 0]
  %e2 = tensor.empty() : tensor<16x8xf32>
  %y = linalg.matmul ins(%r, %wt : tensor<16x24xf32>, tensor<24x8xf32>) outs(%e2 : tensor<16x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<?x8xf32>
}}
"""


def loaded(tmp_path, text, dims):
    (tmp_path / "m.mlir").write_text(text)
    return source.load(tmp_path / "m.mlir", dims, {})


def test_an_mlir_function_is_the_same_model(tmp_path):
    model = loaded(tmp_path, TEXT, {"x.0": 16})
    x = rng.standard_normal((16, 32)).astype(np.float32)
    (got,) = ReferenceEvaluator(model.proto).run(None, {"x": x})
    want = np.maximum(x @ W0 + B0, 0) @ W1.T
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert [n.op for n in model.graph.nodes] == ["MatMul", "Add", "Relu", "MatMul"]


@pytest.mark.parametrize(
    ("text", "dims", "word"),
    [
        (TEXT, {}, "PTO7641: dimension `x.0`"),
        (TEXT.replace("tosa.add", "tosa.pow"), {"x.0": 16}, "tosa.pow"),
        (
            TEXT.replace("arith.maximumf %a, %zeros", "arith.maximumf %a, %m"),
            {"x.0": 16},
            "maximumf",
        ),
        (TEXT.replace("tensor<8x24xf32>", "tensor<8x25xf32>", 1), {"x.0": 16}, "%w1 do not fit"),
        (TEXT.replace("xf32>", "xi8>"), {"x.0": 16}, "not converted"),
        ("func.func @f(%x: tensor<", {}, "PTO"),
        ("", {}, "no functions with a body"),
    ],
)
def test_mlir_that_is_not_converted(tmp_path, text, dims, word):
    with pytest.raises(PtosimError) as caught:
        loaded(tmp_path, text, dims)
    assert word in str(caught.value)


def test_a_clamp_is_relu_where_it_is_one(tmp_path):
    clamp = "tosa.clamp %a {min_val = 0.0 : f32, max_val = 3.4028235e+38 : f32} : (tensor<16x24xf32>) -> "
    text = TEXT.replace("arith.maximumf %a, %zeros : ", clamp)
    assert "Relu" in [n.op for n in loaded(tmp_path, text, {"x.0": 16}).graph.nodes]
    with pytest.raises(PtosimError, match=r"tosa\.clamp"):
        loaded(tmp_path, text.replace("3.4028235e+38", "6.0"), {"x.0": 16})


def test_a_product_of_linalg_adds_to_its_destination(tmp_path):
    text = TEXT.replace("outs(%f : tensor<16x24xf32>)", "outs(%start : tensor<16x24xf32>)").replace(
        "%e1 =", "%unused = arith.constant 1.0 : f32\n  %e1 ="
    )
    start = rng.standard_normal((16, 24)).astype(np.float32)
    line = f"  %start = arith.constant dense<{start.tolist()}> : tensor<16x24xf32>\n  %zero ="
    (tmp_path / "m.mlir").write_text(text.replace("  %zero =", line, 1))
    made = mlir_source.load(tmp_path / "m.mlir")
    assert [n.op_type for n in made.graph.node][:2] == ["MatMul", "Add"]


@pytest.mark.slow
def test_a_program_is_recognised_by_its_values():
    """The shipped linear layers: through slots with bias and Relu, and split along k."""
    x = rng.standard_normal((3, 64, 32)).astype(np.float32)
    model = source.load(PROGRAMS / "model" / "linear_relu.pto", {}, {"a": x})
    assert [n.op for n in model.graph.nodes] == ["MatMul", "Add", "Relu"]
    assert set(model.graph.inputs) == {"a"}
    assert set(model.graph.constants) == {"b", "bias"}
    x = rng.standard_normal((16, 256)).astype(np.float32)
    model = source.load(PROGRAMS / "model" / "linear_bf16.pto", {}, {"x": x})
    assert [n.op for n in model.graph.nodes] == ["MatMul"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "samples", "word"),
    [
        ("rmsnorm_bf16", {"x": np.ones((16, 256), np.float32)}, "are no product of samples"),
        ("linear_relu", {"q": np.ones((64, 32), np.float32)}, "no argument `q`"),
        ("linear_relu", {"a": np.ones((4, 4), np.float32)}, "is 64x32, the data is 4x4"),
        ("linear_relu", {"a": np.full((64, 32), "abc")}, "is float16, the data is <U3"),
        ("linear_relu", {"a": np.zeros((3, 64, 32), "V4")}, "is float16, the data is |V4"),
    ],
)
def test_programs_that_are_not_converted(name, samples, word):
    with pytest.raises(PtosimError) as caught:
        source.load(PROGRAMS / "model" / f"{name}.pto", {}, samples)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("", "func.func: it has 1 results and returns 0 values"),
        ("return %x, %x : tensor<4x8xf32>, tensor<4x8xf32>", "returns 2 values"),
        ("%y = linalg.fill ins() outs() -> tensor<4x8xf32>", "PTO"),
        ("%y = tosa.reshape : tensor<4x8xf32>", "%y, tosa.reshape: it has 0 operands, not 1"),
        ("%y = tosa.reshape %x", "the type of its result is not written"),
        ("%y = tosa.reshape %x : tensor<99999999999999999999xf32>", "no tensor has the sizes"),
        ("%y = tosa.transpose %x {perms = [a]} : tensor<8x4xf32>", "no list of whole numbers"),
        ("%y = tosa.transpose %x {perms = [1.5]} : tensor<8x4xf32>", "no list of whole numbers"),
        ("%y = tosa.transpose %x {perms = [0, 9]} : tensor<8x4xf32>", "no order of axes"),
        ("%y = tosa.transpose %x : tensor<8x4xf32>", "no order of axes"),
        ("%y = tosa.clamp %x {min_val = abc, max_val = 3.4e38 : f32} : t", "PTO"),
        (
            "%y = tosa.clamp %x {min_val = [0], max_val = 3.4e38 : f32} : tensor<4x8xf32>",
            "tosa.clamp: `min_val` is no number",
        ),
        ("%y = arith.constant abc : f32", "%y do not fit f32"),
        ("%y = arith.constant 0x100000000 : i32", "%y do not fit i32"),
        ("%y = arith.constant 1.5 : i32", "%y do not fit i32"),
        ("%y = arith.constant dense<99999999999999999999> : tensor<4xi32>", "do not fit"),
        ("%y = arith.constant dense<1j> : tensor<4xf32>", "do not fit"),
        ("%y = arith.constant dense<{}> : tensor<4xf32>", "do not fit"),
        ('%y = arith.constant dense<"0x00"> : tensor<4xf32>', "do not fit"),
        ("%y = arith.constant dense<0.0> : tensor<?xf32>", "do not fit"),
        ("%y = arith.constant dense<0.0> : tensor<20000x20000xf32>", "400,000,000 elements"),
        ("%y = math.exp %z : tensor<4x8xf32>", "%z is not defined"),
        ("%x = math.exp %x : tensor<4x8xf32>", "%x is defined twice"),
        ("%y = tensor.empty() : tensor<4xf32>\n%z = math.exp %y : tensor<4xf32>", "destination"),
        ("math.exp %x : tensor<4x8xf32>", "no result"),
    ],
)
def test_operations_that_say_what_no_model_has(tmp_path, line, word):
    text = "func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n" + line + "\nreturn\n}\n"
    with pytest.raises(PtosimError) as caught:
        loaded(tmp_path, text, {})
    assert word in str(caught.value)


@pytest.mark.parametrize("arguments", ["tensor<4x8xf32>", "%x: tensor<99999999999999999999xf32>"])
def test_arguments_that_no_model_has(tmp_path, arguments):
    with pytest.raises(PtosimError, match=r"PTO7640: func\.func: (an argument|no tensor)"):
        loaded(tmp_path, f"func.func @f({arguments}) -> tensor<4xf32> {{\nreturn\n}}\n", {})


@pytest.mark.parametrize(
    ("literal", "type_", "want"),
    [
        ("dense<0x3F000000>", "tensor<2xf32>", np.float32([0.5, 0.5])),
        ("dense<[0x3F000000, 1]>", "tensor<2xf32>", np.float32([0.5, 1])),
        ("dense<[-1, 0x10]>", "tensor<2xi32>", np.int32([-1, 16])),
        ('dense<"0x0000003F000080BF">', "tensor<2xf32>", np.float32([0.5, -1])),
        ("dense<>", "tensor<0xf32>", np.zeros(0, np.float32)),
        ("0x10", "i32", np.int32(16)),
        ("0xBF800000", "f32", np.float32(-1)),
        ("3", "index", np.int64(3)),
    ],
)
def test_values_of_constants(tmp_path, literal, type_, want):
    """As MLIR reads them: a hexadecimal float is its bits."""
    (tmp_path / "m.mlir").write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        f"  %c = arith.constant {literal} : {type_}\n  return %x : tensor<4xf32>\n}}\n"
    )
    (tensor,) = mlir_source.load(tmp_path / "m.mlir").graph.initializer
    got = onnx.numpy_helper.to_array(tensor)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
