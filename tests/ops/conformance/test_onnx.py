"""ONNX operators against the results of the reference evaluator and of onnxruntime, each by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptosim.machine.quant.parameters import storage
from ptosim.machine.quant.quantize import quantize
from ptosim.models.quant.onnx.ops import evaluate
from ptosim.models.quant.onnx.rules import Input, Node, check_node
from tests.ops.conformance import data
from tests.ops.conformance.data import arrays, document
from tests.ops.conformance.quant_data import assert_same, stored, typed
from tests.support.packing import pack, unpack

ORACLES = {"ref": "reference", "ort": "runtime"}


def cases(file: str) -> list[Any]:
    return [pytest.param(c, id=c["name"]) for c in document(f"onnx/{file}.json")["cases"]]


def run(file: str, case: dict[str, Any], oracle: str) -> list[np.ndarray]:
    named = {
        i["name"]: stored(f"onnx/{file}.npz", f"{case['name']}/in/{i['name']}", i["dtype"])
        for i in case["inputs"]
    }
    order = case.get("node_inputs", [i["name"] for i in case["inputs"]])
    return evaluate(
        case["op"],
        [named.get(name) for name in order],
        case["attrs"],
        opset=case["opset"],
        oracle=ORACLES[oracle],
    )


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("case", cases("random_cases"))
def test_random_and_edge_cases(case, oracle):
    compared = 0
    for index, output in enumerate(case.get("outputs") or case.get("outputs_ort_only")):
        key = f"{case['name']}/{oracle}/{output['name']}"
        if (
            oracle == "ort"
            and key not in arrays("onnx/random_cases.npz")
            and case.get("ort_mismatch")
        ):
            key = f"{case['name']}/ref/{output['name']}"  # the runtime gave the same
        expected = stored("onnx/random_cases.npz", key, output["dtype"])
        if expected is None:
            continue
        assert_same(f"onnx-{oracle}", run("random_cases", case, oracle)[index], expected)
        compared += 1
    if not compared:
        assert case.get("ref_error" if oracle == "ref" else "ort_error"), "nothing was compared"


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("case", cases("node_tests"))
def test_node_tests(case, oracle):
    if case[f"{oracle}_mismatch"] is None:
        assert case[f"{oracle}_error"]
        return
    for got, output in zip(run("node_tests", case, oracle), case["outputs"], strict=True):
        key = f"{case['name']}/out/{output['name']}"
        expected = stored("onnx/node_tests.npz", key, output["dtype"])
        assert expected is not None
        assert_same(f"onnx-{oracle}", got, expected)


@pytest.mark.parametrize("case", document("onnx/qlinearmatmul_ties.json"), ids=str)
def test_zero_point_before_or_after_rounding(case):
    recorded = arrays("onnx/qlinearmatmul_ties.npz")
    one, none = np.float32(1), np.uint8(0)
    for key, oracle in ORACLES.items():
        inputs = [
            recorded["a"], one, none, recorded["b"], one, none,
            np.float32(case["y_scale"]), np.uint8(case["y_zp"]),
        ]  # fmt: skip
        inputs = [np.asarray(i) for i in inputs]
        got = evaluate("QLinearMatMul", inputs, opset=10, oracle=oracle)[0]
        assert_same(f"onnx-{key}", got, recorded[f"{case['key']}/{key}"])


VALUES = {"negative scale": -1.0, "nan scale": np.nan, "inf scale": np.inf}


def described(case: dict[str, Any], name: str) -> Input | None:
    if name not in case["shapes"]:
        return None
    shape, values = tuple(case["shapes"][name]), None
    if name == "s":
        values = np.full(shape, VALUES.get(case["name"], 0.1), np.float32)
    elif name == "z" and "with zp 1" in case["name"]:
        values = np.full(shape, 0x38, np.uint8)
    return Input(case["dtypes"][name], shape, values)


@pytest.mark.parametrize("case", cases("validation_cases"))
def test_verdicts(case):
    """As strict as the runtime; its words where it complains about shapes."""
    declared = "INT8" if "declared int8" in case["name"] else None
    inputs = [described(case, n) for n in "xsz"]
    findings = check_node(Node(case["op"], case["opset"], inputs, case["attrs"], declared))
    errors = [f.message for f in findings if f.severity.word == "error"]
    assert bool(errors) == (case["ort"] != "ok"), errors
    if case["ort"].startswith("run: "):
        words = case["ort"].removeprefix("run: ").strip().replace("For per axis", "for per axis")
        assert words.removeprefix("DequantizeLinear ") in errors[0]
    if case["name"] in VALUES:
        assert [f.code for f in findings] == ["PTO7201"]
    data.COMPARED["onnx-verdicts arrays"] += 1


@pytest.mark.parametrize("case", document("onnx/packing.json"), ids=str)
def test_packing(case):
    kind = storage(case["dtype"])
    values = np.array(case["values"], np.float32).astype(kind.array)
    raw = bytes.fromhex(case["raw_data_hex"])
    assert pack(values, kind) == raw
    back = unpack(raw, kind, tuple(case["shape"]))
    assert_same("onnx-packing", back, typed(values, case["dtype"]))


# -- all schemes on the same inputs ----------------------------------------------------------------------

RECORDED = {
    "onnx_f32": "onnx",
    "onednn_dst": "onednn",
    "torch_quantize": "torch-quant",
    "torch_fake": "torch-fake",
    "mlir_lowered_then_clamped": "mlir-lower-clamp",
    "mlir_const": "mlir-const",
    "pto_headers": "pto-hw",
    "pto_spec": "pto-spec",
    "naive_f16": "naive-f16",
}


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize(
    "case", document("onnx/cross_scheme.json")["cases"], ids=lambda c: c["key"]
)
def test_schemes(case, name):
    recorded = arrays("onnx/cross_scheme.npz")
    got = quantize(
        recorded[f"{case['key']}/x"],
        scheme=RECORDED[name],
        scale=np.float32(case["scale"]),
        zero_point=case["zero_point"],
        dtype=case["out"],
    )
    assert_same("schemes", got.astype(np.int16), recorded[f"{case['key']}/{name}"])
    base = recorded[f"{case['key']}/onnx_f32"]
    assert int((got != base).sum()) == case["mismatch_vs_onnx"][name]


@pytest.mark.parametrize(("name", "scheme"), [("spec", "fixpipe"), ("onednn_style", "onednn")])
@pytest.mark.parametrize(
    "case", document("onnx/cross_scheme.json")["fixpipe"], ids=lambda c: c["key"]
)
def test_fixpipe(case, name, scheme):
    recorded = arrays("onnx/cross_scheme.npz")
    got = quantize(
        recorded["fixpipe/acc"],
        scheme=scheme,
        scale=1.0,
        multiplier=np.float32(case["m"]),
        zero_point=case["offset"],
        dtype=case["out"],
    )
    assert_same("schemes", got.astype(np.int16), recorded[f"fixpipe/{case['key']}_{name}"])
