"""Quantised models in the forms that onnxruntime writes: QDQ with a quantised scalar, QOperator,
quantize_dynamic. Wanted values are the definitions, in NumPy's f64."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper

from ptosim.models import onnx_run
from ptosim.models.conversion import source
from ptosim.models.onnx_model import graph_of
from tests.models.front.networks import F, build, node

TARGETS = ("a2a3", "a5")
rng = np.random.default_rng(21)
X = rng.standard_normal((4, 8)).astype(np.float32)
XS, XZ, WS, YS, YZ = (
    np.float32(0.05),
    np.uint8(128),
    np.float32(0.02),
    np.float32(0.11),
    np.uint8(120),
)
W = rng.integers(-127, 128, (8, 6)).astype(np.int8)
CODES = np.clip(np.rint(X / XS) + 128, 0, 255)
BASE = {"xs": XS, "xz": XZ, "w": W, "ws": WS, "wz": np.int8(0), "ys": YS, "yz": YZ}
QUANTISE = node("QuantizeLinear", ["x", "xs", "xz"], ["xq"], "q")
BACK = node("DequantizeLinear", ["yq", "ys", "yz"], ["y"], "back")


def runtime(op, inputs, outputs, name, **attrs):
    return node(op, inputs, outputs, name, domain="com.microsoft", **attrs)


def outputs(nodes, constants, tmp_path, x=X, opset=17) -> dict[str, np.ndarray]:
    """The results of the exact form on both targets, which are the same."""
    wires = [("x", F, list(x.shape))], [("y", F, None)]
    proto = build(nodes, *wires, {**BASE, **constants}, opset)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, tmp_path / "m.onnx")
    graph, _ = source.load_quantised(tmp_path / "m.onnx", {"x": x})
    made = onnx_run.run(graph, {"x": x}, TARGETS)
    assert not made.refused
    assert (
        made.identical()
        or made.explained()
        or all(
            line.statement is not None and not line.statement[0]
            for line in made.lines
            if line.gaps["a5", "exact"].mismatches
        )
    )
    one, other = (made.results[t, "exact"]["y"] for t in TARGETS)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, made.outputs["y"], rtol=1e-5, atol=1e-6)
    return one


def quantised(real: np.ndarray) -> np.ndarray:
    """Codes of a result and back: (code - 120) 0.11."""
    codes = np.clip(np.rint(real / np.float64(YS)) + 120, 0, 255)
    return ((codes - 120) * YS).astype(np.float32)


PRODUCT = (CODES - 128) @ W.astype(np.float64) * np.float64(XS) * np.float64(WS)


@pytest.mark.sampled(3, 12)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("first", [False, True])
def test_a_quantised_scalar(op, first, shape, tmp_path):
    """An operand of one element, of any rank, on either side: quantize_static writes constants so."""
    scalar = 17 * np.float32(0.01)
    real = (CODES - 128) * XS
    names = ["s", "d"] if first else ["d", "s"]
    nodes = [
        QUANTISE, node("DequantizeLinear", ["xq", "xs", "xz"], ["d"], "dq"),
        node("DequantizeLinear", ["q17", "qs", "qz"], ["s"], "sdq"), node(op, names, ["r"], "it"),
        node("QuantizeLinear", ["r", "ys", "yz"], ["yq"], "yq"), BACK,
    ]  # fmt: skip
    held = {
        "q17": np.full(shape, 17, np.int8), "qs": np.float32(0.01), "qz": np.int8(0)
    }  # fmt: skip
    have = outputs(nodes, held, tmp_path)
    pair = (scalar, real) if first else (real, scalar)
    with np.errstate(all="ignore"):
        whole = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op](*pair)
    finite = np.isfinite(whole) & (np.abs(whole / YS) < 1000)
    gap = np.abs(have - quantised(whole))[finite]
    assert np.count_nonzero(gap > 1e-6) <= 1  # of a tie


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_the_product_of_the_quantised_operators(turned, alpha, tmp_path):
    """QGemm: the bias is i32 in units of alpha times both scales."""
    bias = rng.integers(-500, 500, 6).astype(np.int32)
    held = {"bias": bias, "w": np.ascontiguousarray(W.T) if turned else W}
    names = ["xq", "xs", "xz", "w", "ws", "wz", "bias", "ys", "yz"]
    nodes = [QUANTISE, runtime("QGemm", names, ["yq"], "gemm", alpha=alpha, transB=turned), BACK]
    whole = alpha * (PRODUCT + bias * np.float64(XS) * np.float64(WS))
    np.testing.assert_allclose(outputs(nodes, held, tmp_path), quantised(whole), atol=1e-6)
    nodes[1] = runtime("QGemm", names[:7], ["y"], "gemm", alpha=alpha, transB=turned)
    np.testing.assert_allclose(outputs(nodes[:2], held, tmp_path), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attrs", "want"),
    [
        ("QLinearSigmoid", {}, lambda v: 1 / (1 + np.exp(-v))),
        ("QLinearLeakyRelu", {"alpha": 0.25}, lambda v: np.where(v < 0, 0.25 * v, v)),
        ("QLinearSoftmax", {"axis": 1}, lambda v: np.exp(v) / np.exp(v).sum(1, keepdims=True)),
    ],
)
def test_quantised_functions(op, attrs, want, tmp_path):
    made = runtime(op, ["xq", "xs", "xz", "ys", "yz"], ["yq"], "it", **attrs)
    have = outputs([QUANTISE, made, BACK], {}, tmp_path)
    whole = quantised(want((CODES - 128) * np.float64(XS)))
    assert np.count_nonzero(np.abs(have - whole) > 1e-6) <= 1  # of a tie


@pytest.mark.parametrize(("op", "want"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
def test_quantised_sums_and_products(op, want, tmp_path):
    product = node("QLinearMatMul", ["xq", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["p"], "mm")
    made = runtime(op, ["p", "ys", "yz", "p", "ys", "yz", "ys", "yz"], ["yq"], "it")
    have = outputs([QUANTISE, product, made, BACK], {}, tmp_path)
    real = quantised(PRODUCT).astype(np.float64)
    assert np.count_nonzero(np.abs(have - quantised(want(real, real))) > 1e-5) <= 1


def test_quantised_images_are_joined_and_averaged(tmp_path):
    image = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    codes = np.clip(np.rint(image / XS) + 128, 0, 255)
    part = ["xq", "xs", "xz"]
    nodes = [
        QUANTISE, runtime("QLinearConcat", ["ys", "yz", *part, *part], ["c"], "cat", axis=1),
        runtime("QLinearGlobalAveragePool", ["c", "ys", "yz", "ys", "yz"], ["yq"], "pool"), BACK,
    ]  # fmt: skip
    real = quantised(np.concatenate([(codes - 128) * np.float64(XS)] * 2, 1))
    want = quantised(real.astype(np.float64).mean((2, 3), keepdims=True))
    have = outputs(nodes, {}, tmp_path, image)
    assert np.count_nonzero(np.abs(have - want) > 1e-6) <= 1


@pytest.mark.parametrize("form", ["nodes", "DynamicQuantizeMatMul"])
def test_dynamic_quantisation(form, tmp_path):
    """Scale and zero point of each run: (max - min) / 255, both with 0."""
    high, low = max(X.max(), 0), min(X.min(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    codes = np.clip(np.rint(X / scale) + zero, 0, 255)
    bias = rng.standard_normal(6).astype(np.float32)
    want = (codes - zero) @ W.astype(np.float64) * np.float64(scale) * np.float64(WS) + bias
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "dql"),
        node("MatMulInteger", ["q", "w", "z", "wz"], ["i"], "mm"), node("Cast", ["i"], ["f"], "cast", to=1),
        node("Mul", ["s", "ws"], ["u"], "scales"), node("Mul", ["f", "u"], ["m"], "scaled"),
        node("Add", ["m", "bias"], ["y"], "biased"),
    ]  # fmt: skip
    if form != "nodes":
        nodes = [runtime(form, ["x", "w", "ws", "wz", "bias"], ["y"], "it")]
    np.testing.assert_allclose(outputs(nodes, {"bias": bias}, tmp_path), want, rtol=1e-5, atol=1e-5)


def test_partial(cli, tmp_path):
    """`quant onnx --partial`: what has no kernel is the host's, named; without it, exit code 5."""
    nodes = [
        QUANTISE, node("DequantizeLinear", ["xq", "xs", "xz"], ["d"], "dq"),
        node("EyeLike", ["d"], ["y"], "ones"),
    ]  # fmt: skip
    onnx.save(build(nodes, [("x", F, ["n", 8])], [("y", F, ["n", 8])], BASE), tmp_path / "m.onnx")
    got = cli("quant", "onnx", tmp_path / "m.onnx", "--target", "a5")
    assert got.code == 5
    assert "EyeLike" in got.err
    assert "Traceback" not in got.err
    got = cli("quant", "onnx", tmp_path / "m.onnx", "--target", "a5", "--partial")
    assert got.code == 0
    assert "node EyeLike ones is computed by the host" in got.out
    got = cli(
        "quant", "onnx", tmp_path / "m.onnx", "--target", "a5", "--partial", "--format", "json"
    )
    assert json.loads(got.out)


@pytest.mark.parametrize("scale", [0.02, 0.0])
def test_faults_of_the_runtimes_operators(cli, tmp_path, scale):
    """A weight scale of 0 in QGemm is found where it is; without it nothing is. `--fail-on fault`
    makes it the exit code."""
    held = {**BASE, "ws": np.float32(scale), "w": np.clip(W, -127, 127)}
    names = ["xq", "xs", "xz", "w", "ws", "wz", "", "ys", "yz"]
    nodes = [QUANTISE, runtime("QGemm", names, ["yq"], "gemm"), BACK]
    proto = build(nodes, [("x", F, ["n", 8])], [("y", F, ["n", 6])], held)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, tmp_path / "m.onnx")
    got = cli("quant", "audit", tmp_path / "m.onnx", "--format", "json")
    faults = json.loads(got.out)["faults"]
    assert got.code == 0
    assert [f["kind"] for f in faults] == (["scale zero"] if not scale else [])
    assert all("gemm" in f["where"] for f in faults)
    got = cli("quant", "audit", tmp_path / "m.onnx", "--fail-on", "fault")
    assert got.code == (0 if scale else 1)
    assert "Traceback" not in got.err


@pytest.mark.parametrize("source_of", ["position", "codes"])
def test_sines_of_positions_are_the_hosts(source_of):
    """Rotary positions (Cast, Cos) come of no activations; a sine of dequantised codes does, and has
    a kernel."""
    take = node("Cast", ["p"], ["f"], to=F) if source_of == "position" else BACK
    made = "f" if source_of == "position" else "y"
    nodes = [take, node("Sin", [made], ["s"], "sine"), node("Relu", ["s"], ["out"])]
    wires = [("p", 7, [4, 6])] if source_of == "position" else [("yq", 2, [4, 6])]
    graph = graph_of(build(nodes, wires, [("out", F, [4, 6])], {"ys": YS, "yz": YZ}, 17))
    hosts = {n.name for n in source.hosts_work(graph)}
    assert ("sine" in hosts) == (source_of == "position")


def test_outputs_without_a_shape_and_a_scale_that_is_infinite(tmp_path):
    """Before operator set 19, which onnx.reference does not compute: the rank of what the model
    gives is that of a run. A mask of -inf has made a scale infinite: the sum is no integer kernel.
    Its nodes give 0 * inf, the code 0 for that, and (0 - 255) * inf."""
    held = {"far": np.float32(np.inf), "fz": np.uint8(255), "m": np.full((4, 8), 255, np.uint8)}
    nodes = [
        QUANTISE, node("DequantizeLinear", ["xq", "xs", "xz"], ["d"], "dq"),
        node("DequantizeLinear", ["m", "far", "fz"], ["f"], "mask"), node("Add", ["d", "f"], ["s"]),
        node("QuantizeLinear", ["s", "far", "fz"], ["sq"]),
        node("DequantizeLinear", ["sq", "far", "fz"], ["t"]), node("Sub", ["t", "d"], ["y"]),
    ]  # fmt: skip
    assert np.isneginf(outputs(nodes, held, tmp_path, opset=13)).all()


@pytest.mark.parametrize("shape", [(6,), (4, 1), (4, 6), ()])
def test_factors_of_a_product_between_pairs(shape, tmp_path):
    """Gemm is alpha times the product, and beta times a third operand of any shape."""
    held = {"b": rng.standard_normal(shape).astype(np.float32)}
    nodes = [
        QUANTISE, node("DequantizeLinear", ["xq", "xs", "xz"], ["d"], "dq"),
        node("DequantizeLinear", ["w", "ws", "wz"], ["v"], "wdq"),
        node("Gemm", ["d", "v", "b"], ["y"], "gemm", alpha=0.5, beta=-2.0),
    ]  # fmt: skip
    want = PRODUCT / 2 - 2 * held["b"]
    np.testing.assert_allclose(outputs(nodes, held, tmp_path), want, rtol=1e-5, atol=1e-5)
