"""Models whose operators are written otherwise: functions, halves, operators that ONNX defines by
others, constants among the inputs; and operators that onnx.reference itself computes wrongly."""

from __future__ import annotations

import gc
import math
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.models import onnx_run, reference_node
from ptosim.models.conversion import source
from ptosim.models.conversion.convert import convert
from ptosim.models.conversion.types import Settings
from ptosim.models.onnx_model import graph_of
from ptosim.models.reference_node import by_reference
from tests.models.front import networks
from tests.models.front.networks import F, build, node, weights, wire
from tests.models.front.test_front import ops, same_values

rng = np.random.default_rng(29)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def between_products(
    *nodes: onnx.NodeProto, opset: int = 21, **constants: np.ndarray
) -> onnx.ModelProto:
    """MatMul, then nodes from `m` to `a`, then MatMul."""
    first, last = node("MatMul", ["x", "w"], ["m"]), node("MatMul", ["a", "w"], ["y"])
    made = {"w": weights(rng, 32, 32)} | constants
    return build([first, *nodes, last], [("x", F, [4, 32])], [("y", F, None)], made, opset)


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("ReduceL1", lambda v: np.abs(v).sum(1)), ("ReduceL2", lambda v: np.sqrt((v**2).sum(1))),
        ("ReduceSumSquare", lambda v: (v**2).sum(1)),
        ("ReduceLogSumExp", lambda v: np.log(np.exp(v).sum(1))),
    ],
)  # fmt: skip
def test_what_a_later_operator_set_defines_by_others(op, want):
    """At set 17 the reductions are operators of their own, at 18 others define them; that of
    logarithms says f64, which is f32 here."""
    proto = build([node(op, ["x"], ["y"], "it", axes=[1], keepdims=0)], [("x", F, [4, 32])],
                  [("y", F, [4])], {}, 17)  # fmt: skip
    x = f32(4, 32)
    model = source.prepared(proto, {}, {"x": x})
    for found in onnx_run.run(model.graph, {"x": x}, ("a2a3", "a5")).results.values():
        np.testing.assert_allclose(found["y"], want(x.astype(np.float64)), rtol=1e-5)


def test_a_run_keeps_no_copy_of_the_model():
    """The evaluator's nodes know it, and it has copies of all constants: a conversion makes one for
    each plan that it tries."""
    proto = between_products(node("Relu", ["m"], ["a"]))
    reference_node.every_name(proto, {"x": f32(4, 32)})
    assert not [o for o in gc.get_objects() if type(o) is ReferenceEvaluator]


# -- types -----------------------------------------------------------------------------------------


def halves(kind: type, number: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    made = {n: weights(rng, 32, 32).astype(kind) for n in ("w0", "w1")}
    made["b"] = f32(32).astype(kind)
    nodes = [
        node("MatMul", ["x", "w0"], ["m"]), node("Add", ["m", "b"], ["s"]),
        node("Relu", ["s"], ["r"]), node("MatMul", ["r", "w1"], ["y"]),
    ]  # fmt: skip
    proto = build(nodes, [("x", number, ["n", 32])], [("y", number, ["n", 32])], made, 17)
    return proto, {"x": f32(4, 32).astype(kind)}


@pytest.mark.parametrize(("kind", "number"), [(np.float16, 10), (np.float64, 11)])
def test_halves_and_doubles_are_computed_in_f32(kind, number):
    """Inputs and outputs keep their types, constants their values; what is between is f32."""
    proto, samples = halves(kind, number)
    model = source.prepared(proto, {}, samples)
    assert any("computed in f32" in n for n in model.notes)
    assert {v.dtype.name for v in model.graph.constants.values()} == {"float32"}
    (want,) = ReferenceEvaluator(proto).run(None, samples)
    (have,) = ReferenceEvaluator(model.proto).run(None, samples)
    assert have.dtype == want.dtype == kind
    np.testing.assert_allclose(have, want, rtol=0, atol=2e-2 if kind == np.float16 else 1e-5)
    assert model.graph.inputs["x"][0] == kind
    feeds = source.samples(samples, model.graph.inputs)
    made = convert(model, source.Data(feeds, "here", ""), Settings(), ("a2a3", "a5"))
    assert [r.format for r in made.rows].count("int8") == 2
    assert made.outcome.identical()
    assert made.output.sqnr > 30


def test_the_largest_double_is_the_largest_f32():
    """torch's masks of doubles are its least number, which no f32 is."""
    mask = np.array([0, np.finfo(np.float64).min, -np.inf, 1.5])
    proto = build(
        [node("Add", ["x", "mask"], ["y"])], [("x", 11, [4])], [("y", 11, [4])], {"mask": mask}
    )
    model = source.prepared(proto, {}, {"x": np.zeros(4)})
    (held,) = model.graph.constants.values()
    assert held.tolist() == [0, np.finfo(np.float32).min, -math.inf, 1.5]


def test_casts_between_halves_and_f32_inside_a_model_and_its_branches_go():
    made = {"w": weights(rng, 32, 32).astype(np.float16), "zero": np.float32(0)}
    yes = helper.make_graph([node("Relu", ["m"], ["t"])], "t", [], [wire("t", 10, None)])
    no = helper.make_graph([node("Neg", ["m"], ["e"])], "e", [], [wire("e", 10, None)])
    nodes = [
        node("Cast", ["x"], ["h"], to=10), node("MatMul", ["h", "w"], ["m"]),
        node("ReduceMax", ["x"], ["top"], keepdims=0), node("Greater", ["top", "zero"], ["c"]),
        node("If", ["c"], ["v"], then_branch=yes, else_branch=no),
        node("MatMul", ["v", "w"], ["p"]), node("Cast", ["p"], ["y"], to=F),
    ]  # fmt: skip
    proto = build(nodes, [("x", F, [4, 32])], [("y", F, None)], made, 13)
    samples = {"x": np.stack([f32(4, 32), -np.abs(f32(4, 32))])}
    model = source.prepared(proto, {}, samples)
    assert "If" in ops(model)  # the samples disagree
    for x in samples["x"]:
        want = ReferenceEvaluator(proto).run(None, {"x": x})[0]
        have = ReferenceEvaluator(model.proto).run(None, {"x": x})[0]
        np.testing.assert_allclose(have, want, rtol=0, atol=2e-2)


# -- operators in other words ----------------------------------------------------------------------


def test_functions_of_a_model_are_written_out():
    body = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])]
    linear = helper.make_function(
        "pkg.torch", "Linear", ["x", "w", "b"], ["y"], body, [helper.make_opsetid("", 18)]
    )
    call = [
        node("Linear", ["x", "w", "b"], ["a"], domain="pkg.torch"), node("Relu", ["a"], ["c"]),
        node("Linear", ["c", "w", "b"], ["y"], domain="pkg.torch"),
    ]  # fmt: skip
    made = {"w": weights(rng, 32, 32), "b": f32(32)}
    proto = build(call, [("x", F, ["n", 32])], [("y", F, ["n", 32])], made, 18)
    proto.functions.append(linear)
    proto.opset_import.append(helper.make_opsetid("pkg.torch", 1))
    model = same_values(proto, {"x": f32(4, 32)})
    assert ops(model) == ["MatMul", "Add", "Relu", "MatMul", "Add"]


@pytest.mark.parametrize(
    ("op", "opset", "attrs"),
    [
        ("Selu", 18, {}), ("Celu", 18, {"alpha": 0.5}), ("Mish", 18, {}),
        ("LogSoftmax", 13, {}),
        ("ReduceL2", 18, {}), ("LpNormalization", 18, {}),
    ],
)  # fmt: skip
def test_operators_that_are_defined_by_others_are_written_out(op, opset, attrs):
    model = same_values(
        between_products(node(op, ["m"], ["a"], **attrs), opset=opset) if op != "ReduceL2" else
        between_products(
            node(op, ["m"], ["s"]), node("Add", ["m", "s"], ["a"]), opset=opset
        ),
        {"x": f32(4, 32)},
    )  # fmt: skip
    assert op not in ops(model)


def test_the_norm_of_first_order_is_the_sum_of_magnitudes():
    x = f32(3, 8)
    proto = build(
        [node("LpNormalization", ["x"], ["y"], p=1)], [("x", F, [3, 8])], [("y", F, None)], {}
    )
    (made,) = ReferenceEvaluator(source.prepared(proto, {}, {"x": x}).proto).run(None, {"x": x})
    np.testing.assert_allclose(made, x / np.abs(x).sum(1, keepdims=True), rtol=1e-5)


def images(*nodes: onnx.NodeProto, opset: int, **constants: np.ndarray) -> onnx.ModelProto:
    made = {"w": weights(rng, 16, 16, 3, 3)} | constants
    first, last = node("Conv", ["x", "w"], ["m"]), node("Conv", ["a", "w"], ["y"])
    return build([first, *nodes, last], [("x", F, [2, 16, 8, 8])], [("y", F, None)], made, opset)


@pytest.mark.parametrize(
    ("op", "size", "opset", "attrs"),
    [
        ("InstanceNormalization", 16, 14, {}),
        ("GroupNormalization", 16, 21, {"num_groups": 4}),
    ],
)
def test_normalisations_of_images_are_written_out(op, size, opset, attrs):
    proto = images(node(op, ["m", "s", "b"], ["a"], **attrs), opset=opset, s=f32(size), b=f32(size))
    assert op not in ops(same_values(proto, {"x": f32(2, 16, 8, 8)}))


def test_operators_of_the_newest_sets():
    proto = between_products(
        node("RMSNormalization", ["m", "g"], ["n"]),
        node("Reshape", ["n", "to"], ["r"]),
        node("Attention", ["r", "r", "r"], ["t"], q_num_heads=2, kv_num_heads=2),
        node("Reshape", ["t", "back"], ["a"]),
        opset=23, g=f32(32), to=np.array([1, 4, 32]), back=np.array([4, 32]),
    )  # fmt: skip
    model = same_values(proto, {"x": f32(4, 32)})
    assert {"RMSNormalization", "Attention", "CastLike"} & set(ops(model)) == set()
    assert ops(model).count("MatMul") == 4


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("bsd,de->bse", (2, 3, 8), (8, 5)), ("bid,bjd->bij", (2, 3, 8), (2, 5, 8)),
        ("bhid,bhjd->bhij", (1, 2, 3, 8), (1, 2, 5, 8)), ("bij,bjhd->bhid", (2, 3, 4), (2, 4, 2, 5)),
        ("ij,jk->ki", (3, 4), (4, 5)), ("nchw,kc->nkhw", (1, 4, 2, 3), (5, 4)),
        ("i,j->ij", (3,), (4,)), ("abc,cd->adb", (2, 3, 4), (4, 2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("constant", [False, True])
def test_einsum_of_two_operands_is_a_product(equation, left, right, constant):
    inputs = [("l", F, left), *([] if constant else [("r", F, right)])]
    samples = {"l": f32(*left), "r": f32(*right)}
    made = {"r": samples.pop("r")} if constant else {}
    it = node("Einsum", ["l", "r"], ["y"], equation=equation)
    model = same_values(build([it], inputs, [("y", F, None)], made, 13), samples)
    assert "MatMul" in ops(model)
    assert not {"Einsum"} & set(ops(model))


def test_an_einsum_that_is_no_product_stays_and_is_named():
    it = node("Einsum", ["l"], ["y"], equation="ii->i")
    with pytest.raises(UnsupportedError, match="no kernel is made for Einsum"):
        source.prepared(build([it], [("l", F, [3, 3])], [("y", F, None)], {}, 13), {})


def test_constants_that_old_exporters_list_as_inputs_need_no_samples():
    made = {"w": weights(rng, 32, 16), "b": f32(16)}
    inputs = [("x", F, ["N", 32]), ("w", F, [32, 16]), ("b", F, [16])]
    proto = build([node("Gemm", ["x", "w", "b"], ["y"])], inputs, [("y", F, ["N", 16])], made, 9)
    proto.ir_version = 3
    x = f32(4, 32)
    model = source.prepared(proto, {}, {"x": x})
    feeds = source.samples({"x": x}, model.graph.inputs)
    result = convert(model, source.Data(feeds, "here", ""), Settings(), ("a5",))
    assert result.output.sqnr > 30


def test_several_matrices_in_one_constant_have_one_scale():
    proto = build(
        [node("MatMul", ["x", "w"], ["y"])], [("x", F, [4, 5, 16])], [("y", F, None)],
        {"w": f32(4, 16, 8)}, 13,
    )  # fmt: skip
    samples = {"x": f32(4, 5, 16)}
    model = source.prepared(proto, {}, samples)
    feeds = source.samples(samples, model.graph.inputs)
    made = convert(model, source.Data(feeds, "here", ""), Settings(), ("a2a3", "a5"))
    assert made.outcome.identical()
    assert made.output.sqnr > 30
    assert made.quantised.types.weights["MatMul_0"].axis is None


# -- operators that the package computes otherwise than they are defined ---------------------------


def one(op: str, x: np.ndarray, outputs: int = 1, opset: int = 21, **attrs) -> list[np.ndarray]:
    names = [f"y{i}" for i in range(outputs)]
    kinds = [F, TensorProto.INT64]
    proto = build(
        [node(op, ["x"], names, **attrs)], [("x", F, list(x.shape))],
        [(n, k, None) for n, k in zip(names, kinds, strict=False)], {}, opset,
    )  # fmt: skip
    found = by_reference(proto, {"x": x})
    return [found[n] for n in names]


@pytest.mark.parametrize(
    ("pads", "auto", "ceil"),
    [((0, 0, 1, 1), "NOTSET", 0), ((1, 0, 0, 2), "NOTSET", 0), ((0, 0, 0, 0), "SAME_LOWER", 0),
     ((1, 1, 1, 1), "NOTSET", 1), ((0, 0, 0, 0), "NOTSET", 1)],
)  # fmt: skip
def test_the_largest_of_each_window(pads, auto, ceil):
    """Window (i, j) begins at i * stride - pad; what is outside of the image does not count. With
    SAME_LOWER the result has size / stride elements, rounded up, and the odd pad is before."""
    x, stride, k = f32(1, 2, 7, 8), 2, 3
    if auto == "SAME_LOWER":
        out = [-(-n // stride) for n in x.shape[2:]]
        total = [(o - 1) * stride + k - n for o, n in zip(out, x.shape[2:], strict=True)]
        before = [t - t // 2 for t in total]
    else:
        before = pads[:2]
        room = [n + pads[i] + pads[i + 2] - k for i, n in enumerate(x.shape[2:])]
        out = [(-(-r // stride) if ceil else r // stride) + 1 for r in room]
    attrs = {"pads": list(pads)} if auto == "NOTSET" else {"auto_pad": auto}
    best, where = one(
        "MaxPool", x, 2, kernel_shape=[k, k], strides=[stride] * 2, ceil_mode=ceil, **attrs
    )
    assert best.shape == (1, 2, *out)
    for c, i, j in np.ndindex(2, *out):
        top, left = (p * stride - b for p, b in zip((i, j), before, strict=True))
        part = x[0, c, max(top, 0) : max(top + k, 0), max(left, 0) : max(left + k, 0)]
        assert best[0, c, i, j] == part.max()
        assert x.reshape(-1)[where[0, c, i, j]] == part.max()


def test_the_largest_of_each_channel_of_a_signal():
    x = f32(2, 3, 8)
    assert one("GlobalMaxPool", x)[0].tolist() == [
        [[max(c)] for c in image] for image in x.tolist()
    ]


def test_softmax_before_set_13_is_that_of_all_axes_from_its_own():
    x = f32(2, 3, 4)
    made = one("Softmax", x, opset=11, axis=1)[0]
    rows = np.exp(x.astype(np.float64).reshape(2, 12))
    np.testing.assert_allclose(made.reshape(2, 12), rows / rows.sum(1, keepdims=True), rtol=1e-5)
    later = one("Softmax", x, opset=13, axis=1)[0]
    columns = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(later, columns / columns.sum(1, keepdims=True), rtol=1e-5)


def test_responses_are_divided_by_those_of_their_neighbours():
    """Over the channels from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)."""
    x = f32(1, 6, 2, 2)
    made = one("LRN", x, size=4, alpha=0.2, beta=0.5, bias=2.0)[0]
    for c in range(6):
        near = x[0, max(c - 1, 0) : c + 3].astype(np.float64)
        want = x[0, c] / (2 + 0.2 / 4 * (near**2).sum(0)) ** 0.5
        np.testing.assert_allclose(made[0, c], want, rtol=1e-5)


@pytest.mark.parametrize("opset", [17, 20])
def test_fused_operators_of_the_runtime_are_those_they_are_fused_of(opset):
    """By their formulas: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), x sigmoid(1.702 x), and
    the normalisation of a sum."""
    ms = {"domain": "com.microsoft"}
    nodes = [
        node("FastGelu", ["x", "b"], ["f"], **ms), node("QuickGelu", ["x"], ["q"], **ms),
        node("SkipLayerNormalization", ["x", "q", "g", "b"], ["n", "", "", "s"], **ms),
    ]  # fmt: skip
    x, b, g = f32(4, 32), f32(32), f32(32)
    outputs = [(n, F, None) for n in ("f", "q", "n", "s")]
    proto = build(nodes, [("x", F, [4, 32])], outputs, {"b": b, "g": g}, opset)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model = source.prepared(proto, {}, {"x": x})
    found = by_reference(model.proto, {"x": x})
    v = x.astype(np.float64) + b
    gelu = v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
    quick = x / (1 + np.exp(-1.702 * x.astype(np.float64)))
    total = x + quick
    mid = total - total.mean(-1, keepdims=True)
    normal = mid / np.sqrt((mid**2).mean(-1, keepdims=True) + 1e-12) * g + b
    for name, want in (("f", gelu), ("q", quick), ("s", total), ("n", normal)):
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5)


def test_a_model_may_go_through_the_runtimes_basic_optimisations(monkeypatch):
    proto, samples = networks.torch_shapes()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match="needs the onnxruntime package"):
        source.prepared(proto, {}, samples, is_basic=True)
    monkeypatch.undo()
    pytest.importorskip("onnxruntime")
    want = ReferenceEvaluator(proto).run(None, samples)
    model = source.prepared(proto, {}, samples, is_basic=True)
    have = ReferenceEvaluator(model.proto).run(None, samples)
    np.testing.assert_allclose(have[0], want[0], rtol=2e-5, atol=2e-6)


def test_what_the_package_does_not_compute_its_runtime_does():
    runtime = pytest.importorskip("onnxruntime")
    assert runtime
    x = f32(1, 2, 3, 3)
    proto = build(
        [node("GlobalLpPool", ["x"], ["y"])], [("x", F, list(x.shape))], [("y", F, None)], {}, 13
    )
    with pytest.raises(Exception, match="GlobalLpPool"):
        by_reference(proto, {"x": x})
    made = reference_node.every_name(proto, {"x": x})["y"]
    want = np.sqrt((x.astype(np.float64) ** 2).sum((2, 3), keepdims=True))
    np.testing.assert_allclose(made, want, rtol=1e-5)


@pytest.mark.parametrize("opset", [13, 18])
def test_a_quantised_model_has_operators_without_kernels_in_other_words(tmp_path, opset):
    """What static quantisation leaves between its pairs: BatchNormalization and ConvTranspose of
    dequantised constants, InstanceNormalization, Dropout. What the file computes does not change."""
    made = {
        "xs": np.float32(0.02), "xz": np.int8(3), "wq": rng.integers(-127, 127, (4, 6, 3, 3)).astype(np.int8),
        "ws": np.float32(0.01), "wz": np.int8(0), "gq": rng.integers(1, 127, 6).astype(np.int8),
        "shift": f32(6), "mean": f32(6), "var": np.abs(f32(6)) + 1, "one": np.ones(6, np.float32),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]), node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["w"]), node("DequantizeLinear", ["gq", "ws", "wz"], ["g"]),
        node("ConvTranspose", ["d", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "g", "shift", "mean", "var"], ["b"]),
        node("Dropout", ["b"], ["dd"]), node("InstanceNormalization", ["dd", "one", "shift"], ["y"]),
    ]  # fmt: skip
    proto = build(nodes, [("x", F, [1, 4, 5, 5])], [("y", F, [1, 6, 9, 9])], made, opset)
    onnx.save(proto, tmp_path / "m.onnx")
    x = f32(1, 4, 5, 5)
    graph, _ = source.load_quantised(tmp_path / "m.onnx", {"x": x})
    assert [n.op for n in graph.nodes][:2] == ["QuantizeLinear", "DequantizeLinear"]
    outcome = onnx_run.run(graph, {"x": x}, ("a2a3", "a5"))
    proto.opset_import[0].version = 21  # the same operators; the package has no pairs before 19
    (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
    for target in ("a2a3", "a5"):
        np.testing.assert_allclose(
            outcome.results[target, "exact"]["y"], want, rtol=1e-4, atol=1e-4
        )


def test_what_has_no_kernel_says_what_does_it_then(tmp_path):
    """Both commands name --partial; a recurrent layer says which of its forms have none."""
    proto = build([node("EyeLike", ["x"], ["y"])], [("x", F, [4, 4])], [("y", F, [4, 4])], {}, 13)
    graph = graph_of(proto)
    for call in (
        lambda: source.prepared(proto, {}, {"x": f32(4, 4)}),
        lambda: onnx_run.run(graph, {"x": f32(4, 4)}, ("a5",)),
    ):
        with pytest.raises(UnsupportedError) as refused:
            call()
        assert refused.value.diagnostics[0].help == "--partial: the host computes it"
    made = {"R": f32(1, 64, 16), "B": f32(1, 128)}
    layer = node("LSTM", ["x", "W", "R", "B"], ["y"], hidden_size=16)
    wires = [("x", F, [3, 2, 8]), ("W", F, [1, 64, 8])]
    deep = build([layer], wires, [("y", F, None)], made, 14)
    with pytest.raises(UnsupportedError, match="no kernel is made for LSTM of more than 512 steps"):
        source.prepared(deep, {}, {"x": f32(3, 2, 8), "W": f32(1, 64, 8)})


EDGES = np.array([[-2, -1, -0.5, -0.0, 0, 0.3, 1, 1.5, np.inf, -np.inf, np.nan, 3e38]], np.float32)


@pytest.mark.parametrize("op", ["Softsign", "ThresholdedRelu"])
@pytest.mark.parametrize("attrs", [{}, {"alpha": -1.0}])
def test_functions_of_elements_are_the_operators_bit_for_bit(op, attrs):
    """Softsign is x / (1 + |x|); ThresholdedRelu is x where it is above alpha, else 0, for NaN too."""
    if op == "Softsign" and attrs:
        pytest.skip("it has no alpha")
    shape = list(EDGES.shape)
    graph = graph_of(
        build([node(op, ["x"], ["y"], **attrs)], [("x", F, shape)], [("y", F, shape)], {})
    )
    with np.errstate(all="ignore"):
        outcome = onnx_run.run(graph, {"x": EDGES}, ("a2a3", "a5"))
        want = np.where(attrs.get("alpha", 1.0) < EDGES, EDGES, np.float32(0))
        want = EDGES / (1 + np.abs(EDGES)) if op == "Softsign" else want
    for made in outcome.results.values():
        np.testing.assert_array_equal(made["y"], want)
