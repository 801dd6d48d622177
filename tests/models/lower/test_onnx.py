"""ONNX models run as PTO programs: the exact form gives the oracle's bits on both targets."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from ptosim.models import onnx_run
from ptosim.models.onnx_model import graph_of
from tests.models.front.networks import build, node
from tests.models.lower.models import multilayer, one

TARGETS = ("a2a3", "a5")
rng = np.random.default_rng(77)


def ties(shape, scale, dtype=np.float32):
    """Values of which half are in the middle between two steps of `scale`."""
    steps = rng.integers(-150, 150, shape) + rng.choice([0, 0.5], shape)
    noise = rng.choice([1, 1 + 2**-23, 1 - 2**-23, 1.03], shape)
    return (steps * scale * noise).astype(np.float32).astype(dtype)


def int8(*shape, dtype=np.int8):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def exact(model, feeds, oracle="reference", *, fast_differs: bool | None = None):
    """Run a model in both forms on both targets; the exact form is the oracle's on both."""
    outcome = onnx_run.run(graph_of(model), feeds, TARGETS, oracle)
    gaps = {
        (line.op, key): (gap.mismatches, gap.worst)
        for line in outcome.lines
        for key, gap in line.gaps.items()
        if key[1] == "exact" and gap.mismatches
    }
    assert outcome.identical("exact"), gaps
    if fast_differs is not None:
        assert outcome.identical("fast") != fast_differs
    return outcome


@pytest.mark.slow
def test_a_model_end_to_end(cli, tmp_path):
    """Against ReferenceEvaluator called here, not through the command; with text, JSON, exit code."""
    model = multilayer(np.random.default_rng(1))
    x = (np.random.default_rng(2).standard_normal((24, 40)) * 3).astype(np.float32)
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    got = cli(
        "quant", "onnx", tmp_path / "m.onnx", "--arg", f"x={tmp_path}/x.npy", "--format", "json",
        "--emit", tmp_path / "programs", "--out", f"pq={tmp_path}/pq.npy", "--no-fuse",
    )  # fmt: skip
    assert got.code == 0
    y, pq = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(np.load(tmp_path / "pq.npy"), pq)
    report = json.loads(got.out)
    assert report["identical"]["exact"] is True
    assert report["compared_with"] == "onnx.reference"
    assert [n["op"] for n in report["nodes"]] == [n.op_type for n in model.graph.node]
    for told in report["nodes"]:
        forms = {(f["target"], f["form"]): f for f in told["forms"]}
        assert set(forms) == {(t, f) for t in TARGETS for f in ("exact", "fast")}
        assert all(f["mismatches"] == 0 for (_, form), f in forms.items() if form == "exact")
    layers = sorted((tmp_path / "programs").glob("*.pto"))
    assert len(layers) <= len(model.graph.node)
    for path in layers:  # its kernels for both targets and forms, and their data in two files
        text = path.read_text()
        assert "//--- a2a3_exact_0.pto" in text
        assert "//--- a5_fast_0.pto" in text
        for suffix in (".npz", ".toml"):
            assert path.with_suffix(suffix).is_file()
        assert cli("run", f"{path}#a2a3_exact_0").code == 0, path
    outcome = exact(model, {"x": x})
    np.testing.assert_array_equal(outcome.results["a2a3", "exact"]["y"], y)


def test_the_report_names_ties_and_what_was_generated(cli, tmp_path):
    x = np.float32([[0.5, 1.5, 2.5, 3.0]])
    model = one(
        "QuantizeLinear", {"x": x, "s": np.float32(1), "z": np.uint8(1)}, TensorProto.UINT8, [1, 4],
        fed=("x",),
    )  # fmt: skip
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    got = cli(
        "quant", "onnx", tmp_path / "m.onnx", "--arg", f"x={tmp_path}/x.npy", "--format", "json"
    )
    report = json.loads(got.out)
    assert report["generated"] == report["made_up"] == []
    for form in report["nodes"][0]["forms"]:
        wrong = (3, 3, 0, 1.0) if form["form"] == "fast" else (0, 0, 0, 0.0)
        assert wrong == tuple(form[k] for k in ("mismatches", "ties", "errors", "max_difference"))
    assert "inputs left out, data generated: x" in cli("quant", "onnx", tmp_path / "m.onnx").out


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(129), np.int8(0), np.int8(-7)])
def test_quantize_per_tensor(zero):
    x = ties((7, 33), 0.1)
    x[0, :5] = [1e30, -1e30, 1e-45, -0.0, 3e38]
    kind = TensorProto.UINT8 if zero.dtype == np.uint8 else TensorProto.INT8
    model = one("QuantizeLinear", {"x": x, "s": np.float32(0.1), "z": zero}, kind, [7, 33], ("x",))
    exact(model, {"x": x}, "runtime")
    bounded = np.clip(x, -1e8, 1e8)  # beyond 2^31 steps the reference gives the lower limit
    exact(model, {"x": bounded}, "reference", fast_differs=True)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_quantize_per_axis(axis):
    x = ties((3, 5, 20), 0.07)
    size = x.shape[axis]
    scale = (rng.random(size) + 0.05).astype(np.float32)
    zero = int8(size)
    inputs = {"x": x, "s": scale, "z": zero}
    exact(one("QuantizeLinear", inputs, TensorProto.INT8, [3, 5, 20], ("x",), axis=axis), {"x": x})


@pytest.mark.parametrize(("axis", "block"), [(0, 4), (1, 16), (1, 7)])
def test_blocks(axis, block):
    x = ties((8, 33), 0.11)
    shape = [8, 33]
    shape[axis] = -(-shape[axis] // block)
    scale = (rng.random(shape) + 0.05).astype(np.float32)
    zero = int8(*shape, dtype=np.uint8)
    both = {"axis": axis, "block_size": block}
    inputs = {"x": x, "s": scale, "z": zero}
    exact(one("QuantizeLinear", inputs, TensorProto.UINT8, [8, 33], ("x",), **both), {"x": x})
    q = int8(8, 33, dtype=np.uint8)
    inputs = {"x": q, "s": scale, "z": zero}
    exact(one("DequantizeLinear", inputs, TensorProto.FLOAT, [8, 33], ("x",), **both), {"x": q})


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (np.int16, TensorProto.INT16), (np.uint16, TensorProto.UINT16),
        (ml_dtypes.int4, TensorProto.INT4), (ml_dtypes.uint4, TensorProto.UINT4),
    ],
)  # fmt: skip
def test_other_widths(dtype, kind):
    x = ties((5, 40), 0.3)
    inputs = {"x": x, "s": np.float32(0.3), "z": np.asarray(3, dtype)}
    exact(one("QuantizeLinear", inputs, kind, [5, 40], ("x",)), {"x": x})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types(dtype):
    """The reference divides in the type of the operands, the runtime in f32."""
    x, scale = ties((6, 50), 0.37, dtype), np.asarray(0.37, np.float32).astype(dtype)
    kind = TensorProto.FLOAT16 if dtype is np.float16 else TensorProto.BFLOAT16
    model = one(
        "QuantizeLinear", {"x": x, "s": scale, "z": np.int8(3)}, TensorProto.INT8, [6, 50], ("x",)
    )
    exact(model, {"x": x}, "onnx")
    if dtype is np.float16:
        exact(model, {"x": x}, "runtime")
    q = int8(6, 50)
    back = {"x": q, "s": scale, "z": np.int8(3)}
    exact(one("DequantizeLinear", back, kind, [6, 50], ("x",)), {"x": q}, "onnx")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_dequantize(dtype):
    q = int8(5, 70, dtype=dtype)
    inputs = {"x": q, "s": np.float32(0.013)}
    if dtype is not np.int32:
        inputs["z"] = np.asarray(5, dtype)
    exact(one("DequantizeLinear", inputs, TensorProto.FLOAT, [5, 70], ("x",)), {"x": q})
    rows = {**inputs, "s": (rng.random(5) + 0.01).astype(np.float32)}
    if "z" in rows:
        rows["z"] = np.full(5, 3, dtype)
    exact(one("DequantizeLinear", rows, TensorProto.FLOAT, [5, 70], ("x",), axis=0), {"x": q})


@pytest.mark.parametrize("oracle", ["reference", "runtime"])
@pytest.mark.parametrize("zero", [1, 2])
def test_products_at_ties(oracle, zero):
    """Halves everywhere: the zero point before or after rounding decides on odd ones."""
    own = np.random.default_rng(4)
    a, b = (
        own.integers(0, 4, (20, 17)).astype(np.uint8),
        own.integers(-3, 4, (17, 33)).astype(np.int8),
    )
    one_, none = np.float32(1), np.uint8(0)
    inputs = {
        "a": a, "as": one_, "az": none, "b": b, "bs": one_, "bz": np.int8(0),
        "ys": np.float32(2), "yz": np.int8(zero),
    }  # fmt: skip
    model = one("QLinearMatMul", inputs, TensorProto.INT8, [20, 33], ("a",))
    outcome = exact(model, {"a": a}, oracle)
    assert (outcome.lines[0].other > 0) == (zero == 1)


@pytest.mark.parametrize("oracle", ["reference", "runtime"])
@pytest.mark.parametrize("columns", [False, True])
def test_products_with_zero_points(oracle, columns):
    a, b = int8(19, 45), int8(45, 37, dtype=np.uint8)
    size = (37,) if columns else ()
    inputs = {
        "a": a, "as": np.float32(0.02), "az": np.int8(-11),
        "b": b, "bs": (rng.random(size) * 0.05 + 0.01).astype(np.float32),
        "bz": rng.integers(100, 156, size).astype(np.uint8),
        "ys": np.float32(0.7), "yz": np.int8(21),
    }  # fmt: skip
    model = one("QLinearMatMul", inputs, TensorProto.INT8, [19, 37], ("a",))
    exact(model, {"a": a}, oracle)


@pytest.mark.parametrize("oracle", ["reference", "runtime"])
def test_convolution(oracle):
    x, w = int8(2, 4, 9, 8, dtype=np.uint8), int8(6, 2, 3, 3)
    inputs = {
        "x": x, "xs": np.float32(0.03), "xz": np.uint8(119), "w": w,
        "ws": (rng.random(6) * 0.02 + 0.005).astype(np.float32), "wz": np.zeros(6, np.int8),
        "ys": np.float32(0.4), "yz": np.uint8(128), "b": rng.integers(-3000, 3000, 6, np.int32),
    }  # fmt: skip
    geometry = {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}
    model = one("QLinearConv", inputs, TensorProto.UINT8, [2, 6, 5, 7], ("x",), 10, **geometry)
    exact(model, {"x": x}, oracle)


def test_integer_operators():
    a, b = int8(2, 6, 31, dtype=np.uint8), int8(31, 9)
    inputs = {"a": a, "b": b, "az": np.uint8(200), "bz": np.int8(-3)}
    model = one("MatMulInteger", inputs, TensorProto.INT32, [2, 6, 9], ("a",))
    exact(model, {"a": a}, fast_differs=False)
    x, w = int8(1, 2, 6, 6, dtype=np.uint8), int8(3, 2, 3, 3, dtype=np.uint8)
    inputs = {"x": x, "w": w, "xz": np.uint8(1)}
    model = one("ConvInteger", inputs, TensorProto.INT32, [1, 3, 4, 4], ("x",))
    exact(model, {"x": x}, fast_differs=False)


def test_float8_on_a5_only():
    x = ties((4, 40), 0.5)
    inputs = {"x": x, "s": np.float32(0.5), "z": np.asarray(0, ml_dtypes.float8_e4m3fn)}
    model = one("QuantizeLinear", inputs, TensorProto.FLOAT8E4M3FN, [4, 40], ("x",))
    outcome = onnx_run.run(graph_of(model), {"x": x}, ["a5"], "onnx")
    assert outcome.identical("exact")


def test_last_places_of_floats_are_no_difference(cli, tmp_path):
    """What onnxruntime's quantize_dynamic leaves in float has sums and exp of its own: the exit code
    is 0, and JSON says which nodes differ by rounding only."""
    r = np.random.default_rng(4)
    held = {"w": r.integers(-127, 128, (32, 40)).astype(np.int8), "s": np.float32(0.001)}
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
        node("MatMulInteger", ["q", "w", "xz"], ["i"]), node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["xs", "s"], ["u"]), node("Mul", ["f", "u"], ["r"]),
        node("Sigmoid", ["r"], ["g"]), node("ReduceMean", ["g"], ["y"], axes=[1]),
    ]  # fmt: skip
    onnx.save(build(nodes, [("x", 1, [6, 32])], [("y", 1, [6, 1])], held), tmp_path / "m.onnx")
    got = cli("quant", "onnx", tmp_path / "m.onnx", "--format", "json")
    report = json.loads(got.out)
    assert got.code == 0
    assert report["rounding_only"]["exact"] is True
    floats = {"Sigmoid", "ReduceMean"}
    for line in report["nodes"]:
        for form in line["forms"]:
            if form["form"] == "exact" and form["mismatches"] and not form["inherited"]:
                assert form["rounding"] is (line["op"] in floats)
    assert not onnx_run.Gap(1, 1, 1.0).is_explained  # a code of the quantising formula is not


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_dequantised_halves_overflow_to_infinity(dtype):
    """(q - z) * s in a half: beyond its range infinity, of the product's sign; 65,504 is a number."""
    word = np.dtype(np.float16 if dtype == TensorProto.FLOAT16 else ml_dtypes.bfloat16)
    scale = np.array(1000 if dtype == TensorProto.FLOAT16 else 3e36).astype(word)
    graph = graph_of(
        build([node("DequantizeLinear", ["x", "s"], ["y"])], [("x", TensorProto.INT8, [1, 6])],
              [("y", dtype, [1, 6])], {"s": scale}, 21)
    )  # fmt: skip
    x = np.array([[127, -128, 60, 65, 66, 0]], np.int8)
    outcome = onnx_run.run(graph, {"x": x}, TARGETS, "onnx")
    with np.errstate(over="ignore"):
        want = (x.astype(np.float64) * float(scale)).astype(word)
    for made in outcome.results.values():
        np.testing.assert_array_equal(made["y"].astype(np.float64), want.astype(np.float64))
