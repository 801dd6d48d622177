"""`ptosim quant audit MODEL.onnx` finds planted faults at their place and none in a sound model."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ptosim.models.audit.findings import faults_of
from ptosim.models.onnx_model import graph_of
from ptosim.shell.main import main
from tests.models.audit.networks import Network, network, samples
from tests.models.lower.models import model


def audited(net: Network, *, is_sampled: bool = False):
    runs = [{"x": x} for x in samples()]
    return faults_of(graph_of(net.proto()), runs, is_sampled=is_sampled)


def put(name: str, change):
    """Plant: a constant is another one."""

    def plant(net: Network) -> None:
        old = np.array(net.constants[name])
        net.constants[name] = np.asarray(change(old)).astype(old.dtype)

    return plant


def at(index: int, value):
    def change(old: np.ndarray) -> np.ndarray:
        old[index] = value(old[index]) if callable(value) else value
        return old

    return change


def own(node: str, place: int, name: str, value):
    """Plant: a node has a parameter of its own."""

    def plant(net: Network) -> None:
        net.constants[name] = value
        net.nodes[node].input[place] = name

    return plant


def axis(node: str, value: int):
    def plant(net: Network) -> None:
        made = net.nodes[node]
        del made.attribute[:]
        made.attribute.append(helper.make_attribute("axis", value))

    return plant


def square(net: Network) -> None:
    """Conv 2 with as many channels as inputs fits along both axes: a wrong axis stays unseen."""
    net.constants |= {k: net.constants[k][:6] for k in net.constants if k.startswith("c2_")}
    net.constants["fc_w"] = net.constants["fc_w"][:, :96]
    axis("c2_wDQ", 1)(net)


def turned(net: Network) -> None:
    """A Gemm of 10x10 with a scale for each input, where the results' channels are rows."""
    net.constants["fc_w"] = net.constants["fc_w"][:, :10]
    net.constants["pick"] = np.arange(10)
    net.nodes["flat"] = helper.make_node("Flatten", ["g_d"], ["all"], "flat")
    net.nodes = {
        key: node
        for name, made in net.nodes.items()
        for key, node in [(name, made)] + (
            [("pick", helper.make_node("Gather", ["all", "pick"], ["f"], "pick", axis=1))]
            if name == "flat" else [])
    }  # fmt: skip
    axis("fc_wDQ", 1)(net)


def twice(value: str, taker: str):
    """Plant: a second pair after the first, with a scale a third larger."""

    def plant(net: Network) -> None:
        net.constants[f"{value}_s2"] = np.float32(net.constants[f"{value}_s"] * 1.33)
        parts = [f"{value}_s2", f"{value}_z"]
        more = {
            "again_Q": helper.make_node(
                "QuantizeLinear", [f"{value}_d", *parts], ["again_q"], "again_Q"),
            "again_DQ": helper.make_node(
                "DequantizeLinear", ["again_q", *parts], ["again_d"], "again_DQ"),
        }  # fmt: skip
        made: dict[str, onnx.NodeProto] = {}
        for name, node in net.nodes.items():
            made[name] = node
            if name == f"{value}_DQ":
                made |= more
        net.nodes = made
        net.nodes[taker].input[0] = "again_d"

    return plant


FAULTS = {
    "scale zero": ("scale zero", "c1_ws", put("c1_ws", at(2, 0))),
    "scale zero of an activation": ("scale zero", "r_s", put("r_s", lambda _: 0)),
    "scale negative": ("scale negative", "c2_ws", put("c2_ws", at(1, lambda v: -v))),
    "scale negative of an activation": ("scale negative", "g_s", put("g_s", lambda v: -v)),
    "scale NaN": ("scale NaN", "fc_ws", put("fc_ws", at(0, np.nan))),
    "scale NaN of an activation": ("scale NaN", "x_s", put("x_s", lambda _: np.nan)),
    "scale subnormal": ("scale subnormal", "c1_ws", put("c1_ws", at(0, 1e-40))),
    "scale subnormal of an activation": ("scale subnormal", "g_s", put("g_s", lambda _: 1e-41)),
    "DQ has another scale": ("Q and DQ disagree", "r_DQ", own("r_DQ", 1, "o", np.float32(0.05))),
    "DQ of the input has": ("Q and DQ disagree", "x_DQ", own("x_DQ", 1, "o", np.float32(0.01))),
    "DQ has another zero point": ("Q and DQ disagree", "g_DQ", own("g_DQ", 2, "o", np.uint8(100))),
    "DQ of the input has one": ("Q and DQ disagree", "x_DQ", own("x_DQ", 2, "o", np.uint8(90))),
    "weights with a zero point": (
        "zero point of symmetric weights", "c1_wz", put("c1_wz", at(3, 5))),
    "all weights with one": (
        "zero point of symmetric weights", "c2_wz", put("c2_wz", lambda z: z + 7)),
    "a bias with one": ("zero point of a bias", "c1_bz", put("c1_bz", at(0, 100))),
    "one channel large": ("channel out of line", "c2_ws", put("c2_ws", at(4, lambda v: v * 16))),
    "one channel small": ("channel out of line", "fc_ws", put("fc_ws", at(9, lambda v: v / 16))),
    "wrong axis of a Conv": ("wrong axis", "c2_wDQ", square),
    "wrong axis of a Gemm": ("wrong axis", "fc_wDQ", turned),
    "bias scale": ("bias scale", "c1_bs", put("c1_bs", lambda v: v * 10)),
    "bias scale of a Gemm": ("bias scale", "fc_bs", put("fc_bs", lambda v: v / 4)),
    "sums that overflow": ("accumulator overflow", "conv1", put("c1_b", at(0, 2**31 - 1))),
    "sums of a Gemm that do": ("accumulator overflow", "gemm", put("fc_b", at(3, -(2**31) + 9))),
    "quantised twice": ("quantised twice", "again_Q", twice("r", "conv2")),
    "quantised twice at the input": ("quantised twice", "again_Q", twice("x", "conv1")),
    "codes of weights unused": ("codes unused", "c1_w", put("c1_w", lambda w: w // 16)),
    "codes of a channel unused": ("codes unused", "c2_w", put("c2_w", at(2, lambda w: w // 16))),
    "weights saturated": (
        "values saturated", "c2_w",
        put("c2_w", lambda w: np.clip(w.astype(np.int32) * 8, -128, 127))),
    "weights of a Gemm saturated": (
        "values saturated", "fc_w",
        put("fc_w", lambda w: np.clip(w.astype(np.int32) * 5, -128, 127))),
    "output scale": ("requantisation multiplier", "g_s", put("g_s", lambda v: v / 1e4)),
    "output scale of the last": ("requantisation multiplier", "y_s", put("y_s", lambda v: v * 1e9)),
}  # fmt: skip


@pytest.mark.parametrize("is_sampled", [False, True])
def test_none_in_a_sound_model(is_sampled):
    assert audited(network(), is_sampled=is_sampled) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_at_its_place(name):
    kind, place, plant = FAULTS[name]
    found = [f for f in audited(network(plant)) if f.kind == kind]
    assert found, [(f.kind, f.where) for f in audited(network(plant))]
    assert any(place in f.where for f in found)
    assert all(f.cost is not None or f.why_not for f in found)


@pytest.mark.parametrize(
    ("kind", "value", "change"),
    [
        ("values saturated", "r", lambda v: v / 8),
        ("values saturated", "g", lambda v: v / 10),
        ("codes unused", "r", lambda v: v * 30),
        ("codes unused", "x", lambda v: v * 20),
    ],
)
def test_ranges_are_judged_on_samples(kind, value, change):
    net = network(put(f"{value}_s", change))
    found = [f for f in audited(net, is_sampled=True) if f.kind == kind]
    assert [f.where for f in found] == [f"QuantizeLinear {value}_Q: `{value}`"]
    assert found[0].cost is not None
    assert found[0].cost > 3


@pytest.mark.parametrize(("block_axis", "right"), [(0, True), (1, False)])
@pytest.mark.parametrize("of", ["weights", "activations"])
def test_blocks_go_along_what_the_product_sums(of, block_axis, right):
    """64x64 numbers with a scale for 32 of them: of MatMul's weights along axis 0, of what they
    are multiplied with along axis 1."""
    side = block_axis if of == "weights" else 1 - block_axis
    node = helper.make_node
    scale = np.full((2, 64) if side == 0 else (64, 2), 0.01, np.float32)
    parts, blocks = ["s"], {"axis": side, "block_size": 32}
    nodes = [
        node("QuantizeLinear", ["x", *parts], ["q"], "Q", output_dtype=TensorProto.INT8, **blocks),
        node("DequantizeLinear", ["q", *parts], ["d"], "DQ", **blocks),
        node("MatMul", ["d", "w"], ["y"], "product"),
    ]
    if of == "weights":
        nodes = [node("DequantizeLinear", ["c", *parts], ["d"], "DQ", **blocks),
                 node("MatMul", ["x", "d"], ["y"], "product")]  # fmt: skip
    rng = np.random.default_rng(2)
    constants = {"s": scale, "w": rng.standard_normal((64, 64)).astype(np.float32),
                 "c": rng.integers(-127, 128, (64, 64)).astype(np.int8)}  # fmt: skip
    wires = [("x", TensorProto.FLOAT, [64, 64])], [("y", TensorProto.FLOAT, [64, 64])]
    constants.pop("w" if of == "weights" else "c")
    x = rng.standard_normal((64, 64)).astype(np.float32)
    found = faults_of(graph_of(model(nodes, *wires, constants)), [{"x": x}], is_sampled=False)
    assert [(f.kind, "DQ" in f.where) for f in found] == ([] if right else [("wrong axis", True)])


def test_the_cost_is_what_the_repair_gains():
    """A bias scale 10 times too large is nearly all of the outputs' noise."""
    found = audited(network(put("c1_bs", lambda v: v * 10)))
    assert [f.kind for f in found] == ["bias scale"]
    assert found[0].cost is not None
    assert found[0].cost > 5


def test_the_command(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save(network(put("c1_ws", at(2, 0))).proto(), path)
    np.savez(tmp_path / "d.npz", x=samples())
    args = ["quant", "audit", str(path), "--calibration", str(tmp_path / "d.npz")]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "1 fault found" in out
    assert "scale zero: DequantizeLinear c1_wDQ: `c1_ws`, channel 2" in out
    assert main([*args, "--format", "json"]) == 0
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert fault["kind"] == "scale zero"
    assert fault["cost_db"] > 0


@pytest.mark.parametrize(("bias", "is_reached"), [(2**31 - 1, True), (-(2**31) + 9, True),
                                                 (2**31 - 400_000, False)])  # fmt: skip
def test_how_large_sums_are_in_the_data_is_said(bias, is_reached):
    """The worst case of any codes, of these weights, and what the sums are on the samples: beyond 32
    bits they wrap, below that the fault costs nothing here."""
    (fault,) = audited(network(put("fc_b", at(3, bias))))
    assert fault.kind == "accumulator overflow"
    said = int(fault.what.rsplit(" ", 1)[1].replace(",", ""))
    assert abs(said - abs(bias)) < 200_000
    assert (said > 2**31 - 1) == (fault.cost is None) == is_reached
    assert is_reached or fault.cost == 0
