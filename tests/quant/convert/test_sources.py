"""Models that are MLIR functions and PTO programs, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from ptosim.ground.errors import PtosimError
from ptosim.interop.conversion import mlir_source, source
from tests.programs.expected import PROGRAMS

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
    ],
)
def test_programs_that_are_not_converted(name, samples, word):
    with pytest.raises(PtosimError) as caught:
        source.load(PROGRAMS / "model" / f"{name}.pto", {}, samples)
    assert word in str(caught.value)
