"""Models as exporters write them: sizes from the samples, constants and shapes folded, operators in
other words. What a model computes does not change, which onnx.reference says of the file itself."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ptosim.ground.diagnostics.model import ProgramError, UnsupportedError
from ptosim.ground.errors import PtosimError
from ptosim.models.conversion import source
from ptosim.models.conversion.convert import convert
from ptosim.models.conversion.types import Settings
from tests.models.convert.models import mlp
from tests.models.front import networks
from tests.models.front.networks import NETWORKS, F, build, node, wire

TARGETS = ("a2a3", "a5")
rng = np.random.default_rng(11)


def same_values(proto: onnx.ModelProto, samples: dict[str, np.ndarray]) -> source.Model:
    """Return the prepared model, after a look that it computes what the file computes."""
    model = source.prepared(proto, {}, samples)
    want = ReferenceEvaluator(proto).run(None, samples)
    have = ReferenceEvaluator(model.proto).run(None, samples)
    for one, other in zip(want, have, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)
        assert np.asarray(one).dtype == np.asarray(other).dtype
    return model


def ops(model: source.Model) -> list[str]:
    return [n.op for n in model.graph.nodes]


@pytest.mark.parametrize("name", NETWORKS)
def test_what_a_network_computes_does_not_change(name):
    model = same_values(*NETWORKS[name]())
    gone = {"Shape", "Range", "Constant", "BatchNormalization", "Identity", "Dropout", "If", "LSTM",
            "GRU", "ConvTranspose", "ConstantOfShape"}  # fmt: skip
    assert not gone & set(ops(model))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("format", ["int8", "mxfp8", "mxfp4"])
@pytest.mark.sampled(0, 5)
def test_a_network_converts_and_runs_as_its_report_says(name, format):
    """Layers of which the report says so give the reference's bits on both targets wherever their
    operands have them, codes too; the others differ by a few steps of f32."""
    proto, samples = NETWORKS[name]()
    model = source.prepared(proto, {}, samples, is_blocked=format != "int8")
    feeds = source.samples(samples, model.graph.inputs)
    made = convert(model, source.Data(feeds, "here", ""), Settings(format=format), TARGETS)
    assert not made.outcome.refused
    products = [r for r in made.rows if r.format == ("int8" if format == "int8" else "mx")]
    assert len(products) >= 1 + (name != "branching")
    assert made.output.sqnr > {"int8": 25, "mxfp8": 15, "mxfp4": 6}[format]
    for row in made.rows:
        for (_, form), gap in row.line.gaps.items():
            if form == "exact" and gap.mismatches and not gap.inherited:
                assert row.line.statement is None or not row.line.statement[0]
                assert row.format in ("float", "mx")
                assert gap.worst < 1e-5


@pytest.mark.parametrize("name", NETWORKS)
def test_products_for_groups_of_32_are_the_same_products(name):
    proto, samples = NETWORKS[name]()
    model = source.prepared(proto, {}, samples, is_blocked=True)
    for one, other in zip(
        ReferenceEvaluator(proto).run(None, samples),
        ReferenceEvaluator(model.proto).run(None, samples),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)
    assert "Gemm" not in ops(model)
    groups = [n.attrs["group"] for n in model.graph.nodes if n.op == "Conv"]
    assert groups == ([8] if name == "mobile" else [])


def test_sizes_are_those_of_the_samples():
    """A size that is named, -1 or empty; of a shape that is missing the rank too. An axis more is
    several samples; `--dim` wins."""
    for shape in (["n", 48], [-1, 48], [None, None], None):
        proto = mlp()
        proto.graph.input[0].CopyFrom(wire("x", F, shape))
        x = rng.standard_normal((6, 48)).astype(np.float32)
        model = same_values(proto_of(proto), {"x": x})
        assert model.graph.inputs["x"][1] == (6, 48)
        if shape is not None:
            more = {"x": np.stack([x, x])}
            model = source.prepared(proto_of(proto), {}, more)
            assert model.graph.inputs["x"][1] == (6, 48)
            assert len(source.samples(more, model.graph.inputs)) == 2
    proto.graph.input[0].CopyFrom(wire("x", F, ["n", 48]))
    model = source.prepared(proto_of(proto), {"n": 2}, {"x": x})
    assert model.graph.inputs["x"][1] == (2, 48)
    with pytest.raises(ProgramError, match="PTO7641: dimension `n` of input `x`"):
        source.prepared(proto_of(proto), {})


def test_a_name_that_several_sizes_have_is_none():
    """paddle2onnx calls every open size `?`: each is that of the sample."""
    proto = build([node("Relu", ["x"], ["y"])], [("x", F, [-1, 3, "?", "?"])], [("y", F, None)], {})
    model = source.prepared(proto, {}, {"x": np.zeros((2, 3, 4, 6), np.float32)})
    assert model.graph.inputs["x"][1] == (2, 3, 4, 6)


@pytest.mark.parametrize("form", ["float", "int8"])
@pytest.mark.parametrize(
    ("shape", "many", "attrs"),
    [
        ((2, 8, 9, 7), 1, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((1, 4, 12), 2, {"auto_pad": "SAME_UPPER", "strides": [2]}),
        ((1, 40, 5, 5), 1, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        ((1, 2, 3, 4, 5), 3, {}),
    ],
)
def test_filters_of_one_channel_are_one_kernel_of_the_vector_unit(form, shape, many, attrs):
    """Each filter is the sum of its channel's window times its weights, computed here; codes give
    the reference's bits, and no kernel has a product on the cube."""
    x = rng.standard_normal(shape).astype(np.float32)
    filters = shape[1] * many
    w = rng.standard_normal((filters, 1, *[3] * (len(shape) - 2))).astype(np.float32)
    b = rng.standard_normal(filters).astype(np.float32)
    it = node("Conv", ["x", "w", "b"], ["c"], "it", group=shape[1], **attrs)
    nodes = [it, node("Relu", ["c"], ["r"]), node("Conv", ["r", "v"], ["y"], "last")]
    v = rng.standard_normal((4, filters, *[1] * (len(shape) - 2))).astype(np.float32)
    proto = build(nodes, [("x", F, list(shape))], [("y", F, None)], {"w": w, "b": b, "v": v}, 13)
    model = source.prepared(proto, {}, {"x": x})
    data = source.Data([{"x": x}], "here", "")
    leave = ["it"] if form == "float" else []
    made = convert(model, data, Settings(activations="ui8"), TARGETS, leave=leave)
    assert made.outcome.identical() or form == "float"
    assert made.output.sqnr > 25
    for programs in made.outcome.programs.values():
        own = [ran for name, ran in programs if name.startswith("Conv") and "_it_" in name]
        assert len(own) == 1
        assert "tmatmul" not in own[0].text
    row = next(r for r in made.rows if r.line.node == "it")
    assert all(g.worst < 1e-4 for key, g in row.line.gaps.items() if key[1] == "exact")


def proto_of(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose output says no sizes."""
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    copy.graph.output[0].CopyFrom(wire("y", F, [None, None]))
    return copy


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(
    "attrs",
    [
        {}, {"strides": 2}, {"strides": 3, "pads": 1}, {"strides": 2, "output_padding": 1},
        {"dilations": 2}, {"strides": 2, "pads": 2, "dilations": 2}, {"group": 2, "strides": 2},
        {"strides": 2, "auto_pad": "SAME_UPPER"}, {"strides": 2, "auto_pad": "SAME_LOWER"},
    ],
)  # fmt: skip
def test_a_transposed_convolution_is_one_of_an_image_with_zeros(rank, attrs):
    """Against the sum that the operator is defined by, computed here: each element of the image adds
    the kernel, times itself, where its stride puts it."""
    x = rng.standard_normal((1, 4, *(5, 4)[:rank])).astype(np.float32)
    groups = attrs.get("group", 1)
    w = rng.standard_normal((4, 6 // groups, *(3, 3)[:rank])).astype(np.float32)
    whole = {k: [v] * (2 * rank if k == "pads" else rank) for k, v in attrs.items() if k in
             ("strides", "pads", "dilations", "output_padding")}  # fmt: skip
    whole |= {k: v for k, v in attrs.items() if k in ("group", "auto_pad")}
    made = node("ConvTranspose", ["x", "w"], ["y"], "it", **whole)
    proto = build([made], [("x", F, list(x.shape))], [("y", F, [None] * (rank + 2))], {"w": w}, 17)
    model = source.prepared(proto, {}, {"x": x})
    (have,) = ReferenceEvaluator(model.proto).run(None, {"x": x})
    stride, dilation = attrs.get("strides", 1), attrs.get("dilations", 1)
    extra = attrs.get("output_padding", 0)
    full = [stride * (n - 1) + 2 * dilation + 1 + extra for n in x.shape[2:]]
    want = np.zeros((1, 6, *full))
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            at = tuple(p * stride + t * dilation for p, t in zip(place, tap, strict=True))
            for c in range(4):
                g = c // (4 // groups)
                filters = slice(g * 6 // groups, (g + 1) * 6 // groups)
                want[(0, filters, *at)] += x[(0, c, *place)] * w[(c, slice(None), *tap)]
    for axis, n in enumerate(x.shape[2:]):
        before = after = attrs.get("pads", 0)
        if "auto_pad" in attrs:
            total = full[axis] - n * stride
            less, more = total // 2, total - total // 2
            before, after = (less, more) if attrs["auto_pad"] == "SAME_UPPER" else (more, less)
        want = np.take(want, range(before, full[axis] - after), axis + 2)
    np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers_are_steps(kind, direction):
    """Against the equations of the operators, written out here."""
    for before in (0, 1) if kind == "GRU" else (0,):
        proto, samples = networks.recurrent(kind, direction, before)
        model = source.prepared(proto, {}, samples)
        have = dict(
            zip(("y", "Yh"), ReferenceEvaluator(model.proto).run(None, samples), strict=True)
        )
        c = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
        last = [
            _states(kind, samples["x"], c, d, direction == "reverse" or d == 1, before)
            for d in range(len(c["W"]))
        ]
        np.testing.assert_allclose(have["Yh"], np.stack(last), rtol=1e-4, atol=1e-5)
        assert kind not in ops(model)


def _states(kind, x, c, d, back, before):
    w, r = c["W"][d].T, c["R"][d].T
    wb, rb = np.split(c["B"][d], 2)
    h, cell = c["h0"][d], np.zeros_like(c["h0"][d])
    size = h.shape[1]
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    for step in x[::-1] if back else x:
        own, other = step @ w + wb, h @ r + rb
        gates = [
            own[:, i : i + size] + other[:, i : i + size] for i in range(0, own.shape[1], size)
        ]
        if kind == "LSTM":
            i, o, f = (sigmoid(v) for v in gates[:3])
            cell = f * cell + i * np.tanh(gates[3])
            h = o * np.tanh(cell)
        elif kind == "GRU":
            z, reset = (sigmoid(v) for v in gates[:2])
            inner = reset * other[:, 2 * size :]
            if not before:
                inner = (reset * h) @ r[:, 2 * size :] + rb[2 * size :]
            h = (1 - z) * np.tanh(own[:, 2 * size :] + inner) + z * h
        else:
            h = np.tanh(gates[0])
    return h


def test_a_branch_that_only_samples_decide_is_said():
    yes = helper.make_graph([node("Neg", ["x"], ["n"])], "t", [], [wire("n", F, None)])
    no = helper.make_graph([node("Abs", ["x"], ["a"])], "e", [], [wire("a", F, None)])
    c = {"w": networks.weights(rng, 8, 4), "zero": np.float32(0)}
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "zero"], ["is"]),
        node("If", ["is"], ["v"], "which", then_branch=yes, else_branch=no),
        node("MatMul", ["v", "w"], ["y"], "layer"),
    ]  # fmt: skip
    proto = build(nodes, [("x", F, [4, 8])], [("y", F, [4, 4])], c, 13)
    up = rng.random((2, 4, 8)).astype(np.float32)
    model = source.prepared(proto, {}, {"x": up})
    assert "Neg" in ops(model)
    assert model.notes == ["If which: its condition is true for all samples; that branch"]
    model = source.prepared(proto, {}, {"x": np.stack([up[0], -up[1]])})
    assert "which" in model.on_host
    feeds = source.samples({"x": np.stack([up[0], -up[1]])}, model.graph.inputs)
    made = convert(model, source.Data(feeds, "", ""), Settings(), ("a5",))
    assert made.outcome.identical_for(("a5", "exact"))
    assert any("If which is computed by the host" in n for n in made.outcome.notes)


def test_infinity_is_a_mask_outside_of_products_only():
    assert same_values(*networks.decoder())
    proto = build(
        [node("MatMul", ["x", "w"], ["y"])], [("x", F, [2, 4])], [("y", F, [2, 3])],
        {"w": np.full((4, 3), -np.inf, np.float32)},
    )  # fmt: skip
    with pytest.raises(ProgramError, match="PTO7643"):
        source.prepared(proto, {}, {"x": np.ones((2, 4), np.float32)})


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda p: p.graph.node[0].input.append("nobody"), "PTO0201"),
        (lambda p: setattr(p.graph.node[0], "op_type", "Nonesuch"), "PTO0201"),
        (lambda p: p.graph.node[1].input.insert(0, "y"), "PTO0201"),
        (lambda p: setattr(p.graph.node[0], "domain", "ai.other"), "PTO"),
        (lambda p: p.graph.ClearField("output"), "PTO0201"),
    ],
)
def test_bad_models_end_in_one_diagnostic(wrong, code):
    proto, samples = networks.torch_shapes()
    wrong(proto)
    with pytest.raises(PtosimError) as caught:
        source.prepared(proto, {}, samples)
    assert code in str(caught.value)


def test_operators_without_a_kernel_are_named_and_positions_are_the_hosts():
    proto, samples = networks.detector()
    assert source.prepared(proto, {}, samples).on_host == ["ArgMax_9"]
    made = [node("MatMul", ["x", "w"], ["p"]), node("Det", ["p"], ["y"], "det")]
    proto = build(made, [("x", F, [2, 2])], [("y", F, [])], {"w": np.eye(2, dtype=np.float32)})
    x = {"x": np.ones((2, 2), np.float32)}
    with pytest.raises(UnsupportedError, match="PTO7640: node Det det"):
        source.prepared(proto, {}, x)
    assert source.prepared(proto, {}, x, partial=True).on_host == ["det"]
