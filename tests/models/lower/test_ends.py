"""Functions of elements and rows read codes and store codes; products hand halves to them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from ptosim.models import onnx_run
from ptosim.models.fusion.groups import Group, Pointwise, fuse
from ptosim.models.onnx_model import graph_of
from tests.models.front.networks import F, build, node

TARGETS = ("a2a3", "a5")
rng = np.random.default_rng(46)
NUMBERS = {
    "s": np.float32(0.03), "z": np.uint8(7), "t": np.float32(0.05), "n": np.int8(-3),
    "lo": np.float32(-0.5), "hi": np.float32(1.25), "g": (1 + rng.random(24)).astype(np.float32),
    "b": rng.standard_normal(24).astype(np.float32), "sh": np.array([8, 24], np.int64),
}  # fmt: skip
U8, I8 = 2, 3


def model(nodes, outputs, inputs=(("x", U8, [8, 24]), ("w", I8, [8, 24])), more=None):
    return build(nodes, inputs, outputs, {**NUMBERS, **(more or {})}, 21)


def between(op: str, count: int, *, kept: bool = False, rest: tuple[str, ...] = (), **attrs):
    """Codes to floats, an operator, and codes again, which also the model gives."""
    nodes = [node("DequantizeLinear", ["x", "s", "z"], ["xd"])]
    nodes += [node("DequantizeLinear", ["w", "t", "n"], ["wd"])] if count == 2 else []
    nodes += [
        node(op, ["xd", *(["wd"] if count == 2 else []), *rest], ["r"], "core", **attrs),
        node("QuantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    outputs = [("y", U8, [8, 24]), *([("r", F, [8, 24])] if kept else [])]
    inputs = [("x", U8, [8, 24]), *([("w", I8, [8, 24])] if count == 2 else [])]
    return model(nodes, outputs, inputs)


def feeds(graph):
    made = {
        "x": rng.integers(0, 256, (8, 24)).astype(np.uint8),
        "w": rng.integers(-128, 128, (8, 24)).astype(np.int8),
    }
    return {n: made[n] for n in graph.inputs}


EXACT = [
    ("Add", 2, ()), ("Sub", 2, ()), ("Mul", 2, ()), ("Div", 2, ()), ("Relu", 1, ()),
    ("Abs", 1, ()), ("Neg", 1, ()), ("Clip", 1, ("lo", "hi")), ("LeakyRelu", 1, ()),
]  # fmt: skip


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(("op", "count", "rest"), EXACT)
def test_one_kernel_between_codes_is_bit_for_bit_what_the_nodes_are(op, count, rest, kept):
    """(q - z) * s, the operator, round(y / s) + z, each step in f32; floats that the model gives are
    stored beside the codes."""
    proto = between(op, count, kept=kept, rest=rest)
    graph = graph_of(proto)
    given = feeds(graph)
    with np.errstate(all="ignore"):  # quotients by zero
        want = ReferenceEvaluator(proto).run(None, given)
        outcome = onnx_run.run(graph, given, TARGETS)
    for target in TARGETS:
        for name, value in zip(graph.outputs, want, strict=True):
            np.testing.assert_array_equal(outcome.results[target, "exact"][name], value)
        assert len(outcome.programs[target, "exact"]) == 1


@pytest.mark.parametrize(("op", "rest"), [("Softmax", ()), ("LayerNormalization", ("g", "b"))])
def test_rows_between_codes_are_those_of_separate_kernels(op, rest):
    """exp and roots are the vector unit's own: codes are those that the operator's kernel and one
    that quantises give, and near the reference's."""
    proto = between(op, 1, rest=rest, axis=-1)
    graph = graph_of(proto)
    given = feeds(graph)
    whole = onnx_run.run(graph, given, TARGETS)
    apart = onnx_run.run(graph, given, TARGETS, is_fused=False)
    want = ReferenceEvaluator(proto).run(None, given)[0].astype(int)
    for key, made in whole.results.items():
        np.testing.assert_array_equal(made["y"], apart.results[key]["y"])
        assert np.abs(made["y"].astype(int) - want).max() <= 1
        assert len(whole.programs[key]) == 1
        assert len(apart.programs[key]) == 3


def test_the_fast_form_multiplies_by_the_reciprocal_and_adds_before_it_rounds():
    """TQUANT's formula: round(y * f32(1 / s) + z)."""
    proto = between("Mul", 2)
    graph = graph_of(proto)
    given = feeds(graph)
    x = (given["x"].astype(np.float32) - np.float32(7)) * NUMBERS["s"]
    w = (given["w"].astype(np.float32) - np.float32(-3)) * NUMBERS["t"]
    steps = x * w * (np.float32(1) / NUMBERS["t"]) + np.float32(7)
    want = np.clip(np.rint(steps), 0, 255).astype(np.uint8)
    outcome = onnx_run.run(graph, given, TARGETS)
    for target in TARGETS:
        np.testing.assert_array_equal(outcome.results[target, "fast"]["y"], want)


def test_rows_that_no_tile_holds_are_computed_node_by_node():
    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["xd"]),
        node("Softmax", ["xd"], ["r"], "core"),
        node("QuantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    graph = graph_of(model(nodes, [("y", U8, [2, 1500])], [("x", U8, [2, 1500])]))
    given = {"x": rng.integers(0, 256, (2, 1500)).astype(np.uint8)}
    outcome = onnx_run.run(graph, given, TARGETS, is_partial=True)
    assert any("is computed by the host" in n for n in outcome.notes)
    np.testing.assert_array_equal(outcome.results["a5", "exact"]["y"], outcome.outputs["y"])


@pytest.mark.parametrize("on_host", [[], ["core"]])
def test_what_the_host_computes_is_in_no_kernel(on_host):
    graph = graph_of(between("Relu", 1))
    kinds = [type(s) for s in fuse(graph, on_host).steps(graph)]
    assert (Pointwise in kinds) == (not on_host)


# -- halves out of the accumulator -----------------------------------------------------------------


def product(after, *, scale: float = 0.03, outputs=("y",), relu: bool = False, shape=(8, 24)):
    """Codes times constant codes, and what follows."""
    nodes = [
        node("DequantizeLinear", ["x", "a", "z"], ["xd"]),
        node("DequantizeLinear", ["q", "t", "n0"], ["wd"]),
        node("MatMul", ["xd", "wd"], ["m"], "it"),
        *([node("Relu", ["m"], ["mr"])] if relu else []),
        *after("mr" if relu else "m"),
    ]
    more = {
        "a": np.float32(scale), "n0": np.int8(0),
        "q": np.random.default_rng(5).integers(-127, 128, (24, 24)).astype(np.int8),
    }  # fmt: skip
    return model(nodes, [(n, F, shape) for n in outputs], [("x", U8, [8, 24])], more)


def gate(name):
    return [node("Sigmoid", [name], ["y"], "core")]


def stored(outcome, key):
    return next(ran for name, ran in outcome.programs[key] if name.startswith("MatMul"))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_floats_for_kernels_leave_the_accumulator_as_halves(target, relu):
    """One kernel: the sum in int32, times the scale of which the fixpipe keeps 19 bits, in f32,
    rounded to f16."""
    graph = graph_of(product(gate, relu=relu))
    given = feeds(graph)
    outcome = onnx_run.run(graph, given, (target,))
    ran = stored(outcome, (target, "fast"))
    sums = (given["x"].astype(np.int64) - 7) @ graph.constants["q"].astype(np.int64)
    unit = np.float32(0.03) * np.float32(0.05)
    short = (np.array(unit).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    real = sums.astype(np.float32) * np.float32(ran_scale(ran, short))
    want = (np.maximum(real, 0) if relu else real).astype(np.float16)
    have = ran.outputs["c"].reshape(-1, 32)[:8, :24]
    assert have.dtype == np.float16
    np.testing.assert_array_equal(have, want)
    assert len(outcome.programs[target, "fast"]) == 2
    exact = outcome.results[target, "exact"]["y"]
    np.testing.assert_allclose(outcome.results[target, "fast"]["y"], exact, atol=2e-3)
    assert any("leave the accumulator as f16" in n for n in outcome.notes)


def ran_scale(ran, short):
    """The scale in the word: within one of its 19 bits of the f32."""
    bits = np.uint32(int(ran.args["word" if "word" in ran.args else "words"]) & 0xFFFFE000)
    scale = bits.view(np.float32)
    assert abs(scale / short - 1) <= 2.0**-10
    return scale


def no_halves(proto) -> bool:
    graph = graph_of(proto)
    outcome = onnx_run.run(graph, feeds(graph), ("a5",))
    kinds = {v.dtype for _, ran in outcome.programs["a5", "fast"] for v in ran.outputs.values()}
    return np.dtype(np.float16) not in kinds


@pytest.mark.parametrize(
    ("proto", "why"),
    [
        (product(gate, outputs=("y", "m")), "the model gives the floats"),
        (product(gate, scale=2000.0), "codes may give more than f16 holds"),
        (product(gate, scale=1e-7), "f16's steps are coarser than the sums'"),
        (product(lambda n: [node("ReduceSum", [n], ["y"], keepdims=1)], shape=(1, 1)), "its kernel reads f32"),
    ],
)  # fmt: skip
def test_halves_only_where_nothing_is_lost_but_their_rounding(proto, why):
    assert no_halves(proto), why


def test_halves_go_through_what_moves_data():
    def after(name):
        return [node("Reshape", [name, "sh"], ["k"]), *gate("k")]

    graph = graph_of(product(after))
    steps = list(fuse(graph).steps(graph))
    assert [s.feeds_kernels for s in steps if isinstance(s, Group)] == [True]
    outcome = onnx_run.run(graph, feeds(graph), ("a5",))
    assert stored(outcome, ("a5", "fast")).outputs["c"].dtype == np.float16
    assert len(outcome.programs["a5", "fast"]) == 2
