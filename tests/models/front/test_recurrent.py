"""Recurrent layers of every form that ONNX has, written out by steps, against its equations."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.models import onnx_run
from ptosim.models.conversion import source
from ptosim.models.conversion.convert import convert
from ptosim.models.conversion.types import Settings
from tests.models.front.networks import F, build, node
from tests.oracle import recurrent

STEPS, BATCH, WIDE, H = 4, 3, 8, 16
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def made(kind, *, way="forward", peepholes=False, starts=True, lengths=None, first=False, **attrs):
    """A layer with its three outputs, samples, and the arrays that it has."""
    rng = np.random.default_rng(len(kind) + len(way))
    ways = 2 if way == "bidirectional" else 1
    f32 = lambda *s: (rng.standard_normal(s) / 2).astype(np.float32)  # noqa: E731
    held = {
        "W": f32(ways, GATES[kind] * H, WIDE), "R": f32(ways, GATES[kind] * H, H),
        "B": f32(ways, 2 * GATES[kind] * H),
    }  # fmt: skip
    names = ["x", "W", "R", "B", "", "", "", ""]
    state = (BATCH, ways, H) if first else (ways, BATCH, H)
    if starts:
        held["h0"], names[5] = f32(*state), "h0"
    if starts and kind == "LSTM":
        held["c0"], names[6] = f32(*state), "c0"
    if peepholes:
        held["P"], names[7] = f32(ways, 3 * H), "P"
    if lengths is not None:
        held["n"], names[4] = np.array(lengths, np.int32), "n"
    more = {"layout": 1} if first else {}
    outs = ["Y", "Yh", *(["Yc"] if kind == "LSTM" else [])]
    layer = node(
        kind, names[: 8 if kind == "LSTM" else 6], outs, "layer", hidden_size=H, direction=way,
        **more, **attrs,
    )  # fmt: skip
    shape = [BATCH, STEPS, WIDE] if first else [STEPS, BATCH, WIDE]
    proto = build([layer], [("x", F, shape)], [(n, F, None) for n in outs], held, 14)
    return proto, {"x": f32(*shape)}, held


def wanted(kind, x, held, functions, *, way, first=False, **how):
    weights = {k: held.get(k) for k in ("W", "R", "B", "P", "h0", "c0")}
    if first:
        x = x.swapaxes(0, 1)
        weights |= {
            k: None if weights[k] is None else weights[k].swapaxes(0, 1) for k in ("h0", "c0")
        }
    y, last, cells = recurrent.run(kind, x, weights, functions, way=way, **how)
    if first:
        return [y.transpose(2, 0, 1, 3), last.swapaxes(0, 1), cells.swapaxes(0, 1)]
    return [y, last, cells]


def functions(names, alphas=(), betas=()):
    """Numbers are consumed in the order of the functions that have such."""
    alpha, beta, found = iter(alphas), iter(betas), []
    for name in names:
        takes = {"LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1}.get(name, 0)
        takes = 2 if name in ("HardSigmoid", "Affine", "ScaledTanh") else takes
        given = [
            v
            for v in (next(alpha, None) if takes else None, next(beta, None) if takes > 1 else None)
            if v is not None
        ]
        found.append(lambda v, f=recurrent.FUNCTIONS[name], g=given: f(v, *g))
    return found


def check(kind, names=None, *, alphas=(), betas=(), how=None, **layer):
    ways = 2 if layer.get("way") == "bidirectional" else 1
    names = names or USUAL[kind] * ways
    if alphas:
        layer["activation_alpha"] = alphas
    if betas:
        layer["activation_beta"] = betas
    proto, samples, held = made(kind, activations=names, **layer)
    model = source.prepared(proto, {}, samples)
    assert kind not in {n.op for n in model.graph.nodes}
    have = ReferenceEvaluator(model.proto).run(None, samples)
    want = wanted(
        kind, samples["x"], held, functions(names, alphas, betas), way=layer.get("way", "forward"),
        first=layer.get("first", False), **(how or {}),
    )  # fmt: skip
    for one, other in zip(have, want, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


WAYS = ["forward", "reverse", "bidirectional"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_peepholes_and_coupled_gates(way, starts, coupled):
    """Input and forget gates see the cell before the step, the output gate the one after it; coupled
    gates forget what the input does not take."""
    check(
        "LSTM", way=way, starts=starts, peepholes=True, input_forget=int(coupled),
        how={"coupled": coupled},
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("starts", [False, True])
def test_sequences_of_several_lengths(way, kind, starts):
    """A sequence shows 0 after its end, and begins there when it goes backwards."""
    lengths = [4, 2, 3]
    check(kind, way=way, lengths=lengths, starts=starts, how={"lengths": lengths})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", list(GATES))
def test_the_batch_first(way, kind):
    check(kind, way=way, first=True)


@pytest.mark.parametrize("kind", list(GATES))
def test_a_clip_limits_what_activations_take(kind):
    check(kind, clip=0.25, how={"clip": 0.25})


@pytest.mark.parametrize(
    ("names", "alphas", "betas"),
    [
        (["HardSigmoid", "Relu", "Softsign"], (0.3,), (0.4,)),
        (["HardSigmoid", "LeakyRelu", "Elu"], (), ()),
        (["Sigmoid", "Elu", "ScaledTanh"], (0.7, 1.5), (0.6,)),
        (["Affine", "ThresholdedRelu", "Softplus"], (0.5, 0.1), (0.25,)),
        (["sigmoid", "TANH", "Tanh"], (), ()),
    ],
)  # fmt: skip
def test_activations_with_their_numbers(names, alphas, betas):
    """Words in any case; alpha and beta are consumed by the functions that take them, in order."""
    known = {n.lower(): n for n in recurrent.FUNCTIONS}
    proper = [known[n.lower()] for n in names]
    proto, samples, held = made(
        "LSTM", activations=names, **({"activation_alpha": alphas} if alphas else {}),
        **({"activation_beta": betas} if betas else {}),
    )  # fmt: skip
    with np.errstate(over="ignore"):  # exp of the reference's Softplus
        model = source.prepared(proto, {}, samples)
        have = ReferenceEvaluator(model.proto).run(None, samples)
    want = wanted("LSTM", samples["x"], held, functions(proper, alphas, betas), way="forward")
    for one, other in zip(have, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("before", [False, True])
def test_both_directions_have_activations_of_their_own(before):
    names = ["Sigmoid", "Tanh", "HardSigmoid", "Relu"]
    check(
        "GRU", names, way="bidirectional", linear_before_reset=int(before), how={"before": before}
    )


@pytest.mark.slow
def test_such_a_layer_is_quantised():
    proto, samples, _ = made("LSTM", peepholes=True, way="bidirectional", lengths=[4, 2, 3])
    model = source.prepared(proto, {}, samples)
    data = source.Data(source.samples(samples, model.graph.inputs), "here", "")
    outcome = convert(model, data, Settings(), ("a5",))
    assert outcome.output.sqnr > 20
    assert sum(row.format == "int8" for row in outcome.rows) >= 8


def test_what_is_not_written_out_says_why():
    proto, samples, _ = made("GRU", activations=["Sigmoid", "Sine"])
    with pytest.raises(UnsupportedError, match="or with activations that ONNX does not define"):
        source.prepared(proto, {}, samples)


def _by_what_it_holds(a: np.ndarray) -> np.ndarray:
    """DynamicQuantizeLinear and back: 255 steps of a range with 0."""
    low, high = min(float(a.min()), 0.0), max(float(a.max()), 0.0)
    scale = np.float32((high - low) / 255)
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(a / scale) + zero, 0, 255) - zero) * scale


@pytest.mark.slow
def test_an_lstm_whose_weights_are_codes(tmp_path):
    """All inputs are quantised at once, and the states of a step. onnxruntime 1.32 with one thread
    gives this to 1.5e-7; weights are [ways, inputs, gates]."""
    rng = np.random.default_rng(5)
    ways = 2
    held = {
        "W": rng.integers(-127, 128, (ways, WIDE, 4 * H)).astype(np.int8),
        "R": rng.integers(-127, 128, (ways, H, 4 * H)).astype(np.int8),
        "B": rng.standard_normal((ways, 8 * H)).astype(np.float32) / 2,
        "h0": rng.standard_normal((ways, BATCH, H)).astype(np.float32) / 2,
        "ws": np.float32([0.005, 0.006]), "wz": np.int8([0, 3]),
        "rs": np.float32([0.004, 0.005]), "rz": np.int8([0, -2]),
    }  # fmt: skip
    names = ["x", "W", "R", "B", "", "h0", "", "", "ws", "wz", "rs", "rz"]
    layer = node(
        "DynamicQuantizeLSTM", names, ["Y"], "layer", hidden_size=H, direction="bidirectional",
        domain="com.microsoft",
    )  # fmt: skip
    x = rng.standard_normal((STEPS, BATCH, WIDE)).astype(np.float32)
    shapes = [("x", F, [STEPS, BATCH, WIDE])], [("Y", F, [STEPS, ways, BATCH, H])]
    proto = build([layer], *shapes, held, 14)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(proto, tmp_path / "m.onnx")
    graph, notes = source.load_quantised(tmp_path / "m.onnx", {"x": x})
    assert "one thread" in notes[0]
    made = onnx_run.run(graph, {"x": x}, ("a2a3", "a5"))
    want = np.zeros((STEPS, ways, BATCH, H))
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    for d in range(ways):
        w = (held["W"][d].astype(np.float64) - held["wz"][d]) * held["ws"][d]
        r = (held["R"][d].astype(np.float64) - held["rz"][d]) * held["rs"][d]
        total = _by_what_it_holds(x) @ w + held["B"][d, : 4 * H] + held["B"][d, 4 * H :]
        h, cell = held["h0"][d], 0.0
        for t in reversed(range(STEPS)) if d else range(STEPS):
            i, o, f, new = np.split(total[t] + _by_what_it_holds(h) @ r, 4, axis=1)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(new)
            h = (sigmoid(o) * np.tanh(cell)).astype(np.float32)
            want[t, d] = h
    for target in ("a2a3", "a5"):
        np.testing.assert_allclose(made.results[target, "exact"]["Y"], want, atol=1e-5)
