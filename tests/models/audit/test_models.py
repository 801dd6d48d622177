"""`ptosim quant audit MODEL.onnx`: every step that makes integers, on the reference's values."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ptosim.models.audit.findings import audit_model
from ptosim.models.onnx_model import feeds, graph_of
from tests.models.lower.models import model, multilayer, one


def audited(proto, **values):
    graph = graph_of(proto)
    given, _ = feeds(graph, values, 0)
    return audit_model(graph, given)


def by_system(step):
    return {line.system.name: line.verdict for line in step.lines}


def quantize(x, scale, zero, **attrs):
    inputs = {"x": x, "s": scale, "z": zero}
    out = TensorProto.UINT8 if np.asarray(zero).dtype == np.uint8 else TensorProto.INT8
    proto = one("QuantizeLinear", inputs, out, list(x.shape), fed=("x",), **attrs)
    return audited(proto, x=x)


def test_what_the_operator_text_and_tquant_say_of_ties():
    """scale 1, zero point 1: 0.5 and 1.5 are 1 and 3 for ONNX, 2 and 2 where the sum comes first."""
    x = np.float32([[0.5, 1.5, 3.0, -7.0]])
    (step,) = quantize(x, np.float32(1), np.uint8(1))
    assert (step.own.name, step.elements, step.unlike) == ("onnx", 4, 0)
    found = by_system(step)
    assert set(found) == {"MLIR", "oneDNN", "PyTorch", "PTO"}
    for name in found:
        assert (found[name].differ, found[name].change) == (2, ("zero point",))


def test_a_scale_for_each_row():
    """Rows of scales 1 and 0.1: 3.250000238 / 0.1 and its product with the reciprocal are the
    worked example of `quant diff --examples`; with scale 1 they agree."""
    x = np.float32([[3.250000238], [3.250000238]])
    (step,) = quantize(x, np.float32([1, 0.1]), np.uint8([0, 0]), axis=0)
    pto = by_system(step)["PTO"]
    assert (pto.differ, pto.causes["scale precision"], step.along) == (1, 1, "row")


def test_every_step_of_a_network():
    """Q, QLinearMatMul and Q of rows are steps; DequantizeLinear and Relu are none."""
    steps = audited(multilayer(np.random.default_rng(3)))
    assert [s.name for s in steps] == [
        "QuantizeLinear in",
        "QLinearMatMul product",
        "QuantizeLinear rows",
    ]
    assert [s.unlike for s in steps] == [0, 0, 0]
    sums = steps[1]
    assert sums.own.name == "onnx-ref-qlinear"
    why = {line.system.name: line.why_not for line in sums.lines}
    assert why["MLIR"]
    assert why["PTO"] == ""


def test_dynamic_quantisation():
    x = np.float32([[-1.0, 0.25, 3.0]])
    inputs = {"x": x}
    proto = one("DynamicQuantizeLinear", inputs, TensorProto.UINT8, [1, 3], fed=("x",))
    proto.graph.node[0].output.extend(["s", "z"])
    (step,) = audited(proto, x=x)
    assert (step.own.name, step.unlike, step.elements) == ("onnx", 0, 3)


def test_a_narrow_float_is_named_and_not_judged():
    x = np.float32([[1.0]])
    node = onnx.helper.make_node("QuantizeLinear", ["x", "s"], ["y"], "n",
                                 output_dtype=TensorProto.FLOAT8E4M3FN)  # fmt: skip
    proto = model(
        [node], [("x", TensorProto.FLOAT, [1, 1])], [("y", TensorProto.FLOAT8E4M3FN, [1, 1])],
        {"s": np.float32(1)},
    )  # fmt: skip
    (step,) = audited(proto, x=x)
    assert step.own is None
    assert "a float" in step.note


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_the_command(cli, tmp_path, form):
    onnx.save(multilayer(np.random.default_rng(3)), tmp_path / "m.onnx")
    shown = cli("quant", "audit", tmp_path / "m.onnx", "--format", form)
    assert shown.code == 0, shown.err
    assert "QLinearMatMul product" in shown.out
    if form == "json":
        steps = json.loads(shown.out)["steps"]
        assert [s["unlike"] for s in steps] == [0, 0, 0]


def test_a_model_that_quantises_nothing(cli, tmp_path):
    node = onnx.helper.make_node("Relu", ["x"], ["y"], "r")
    wires = [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])]
    onnx.save(model([node], *wires, {}), tmp_path / "m.onnx")
    shown = cli("quant", "audit", tmp_path / "m.onnx")
    assert (shown.code, "nothing in it" in shown.out) == (0, True)
