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


RANGES = [
    ("values saturated", "r", lambda v: v / 8), ("values saturated", "g", lambda v: v / 10),
    ("codes unused", "r", lambda v: v * 30), ("codes unused", "x", lambda v: v * 20),
    ("error not from rounding", "r", lambda v: v * 0.45),  # few values, far outside
    ("error not from rounding", "g", lambda v: v * 0.4),
]  # fmt: skip


def test_sixteen_kinds_are_planted():
    """Those that the manual's table names, each at its place in the tests above and below."""
    planted = {kind for kind, *_ in FAULTS.values()} | {kind for kind, *_ in RANGES}
    assert sorted(planted) == [
        "Q and DQ disagree", "accumulator overflow", "bias scale", "channel out of line",
        "codes unused", "error not from rounding", "quantised twice", "requantisation multiplier",
        "scale NaN", "scale negative", "scale subnormal", "scale zero", "values saturated",
        "wrong axis", "zero point of a bias", "zero point of symmetric weights",
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "change"), RANGES)
def test_ranges_are_judged_on_samples(kind, value, change):
    net = network(put(f"{value}_s", change))
    found = [f for f in audited(net, is_sampled=True) if f.kind == kind]
    assert [f.where for f in found] == [f"QuantizeLinear {value}_Q: `{value}`"]
    assert found[0].cost is not None
    assert found[0].cost > 3


def in_operators(plant=None) -> Network:
    """The same network with QLinearConv, as the operators' form of static quantisation has it."""
    net = network()
    for name in ("conv1", "conv2"):
        old = net.nodes[name]
        value, made, w = ("x", "r", "c1") if name == "conv1" else ("r", "g", "c2")
        inputs = [f"{value}_q", f"{value}_s", f"{value}_z", f"{w}_w", f"{w}_ws", f"{w}_wz",
                  f"{made}_s", f"{made}_z", f"{w}_b"]  # fmt: skip
        net.nodes[name] = helper.make_node("QLinearConv", inputs, [f"{made}_q"], name)
        net.nodes[name].attribute.extend(old.attribute)
    gone = ("relu", "r_Q", "g_Q", "x_DQ", "r_DQ", "c1_wDQ", "c1_bDQ", "c2_wDQ", "c2_bDQ")
    net.nodes = {k: v for k, v in net.nodes.items() if k not in gone}
    if plant is not None:
        plant(net)
    return net


@pytest.mark.parametrize("is_sampled", [False, True])
def test_none_in_a_sound_model_of_operators(is_sampled):
    assert audited(in_operators(), is_sampled=is_sampled) == []


@pytest.mark.parametrize(
    ("kind", "place", "plant"),
    [
        ("scale zero", "QLinearConv conv1: `c1_ws`, channel 2", put("c1_ws", at(2, 0))),
        ("scale NaN", "QLinearConv conv2: `c2_ws`, channel 0", put("c2_ws", at(0, np.nan))),
        ("channel out of line", "QLinearConv conv2: `c2_ws`, channel 4",
         put("c2_ws", at(4, lambda v: v * 16))),
        ("zero point of symmetric weights", "QLinearConv conv2: `c2_wz`, channel 0",
         put("c2_wz", lambda z: z + 7)),
        ("Q and DQ disagree", "QLinearConv conv2: scales",
         own("conv2", 1, "o", np.float32(0.05))),
        ("requantisation multiplier", "QLinearConv conv2: `g_s`", put("g_s", lambda v: v / 1e4)),
    ],
)  # fmt: skip
def test_faults_of_operators_have_their_place_and_cost(kind, place, plant):
    """The cost is measured as for pairs, which the operators are written out as."""
    found = [f for f in audited(in_operators(plant), is_sampled=True) if f.kind == kind]
    assert found[0].where == place
    assert len(found) == 1 + (kind == "requantisation multiplier")  # that of what follows too
    assert found[0].cost is not None
    assert found[0].cost > 1


def test_a_scale_that_nodes_share_is_one_fault_with_its_whole_cost():
    """Q and DQ have the same constant: mending one of them alone gains nothing."""
    found = audited(network(put("r_s", lambda _: 0)), is_sampled=True)
    assert [f.where for f in found] == ["QuantizeLinear r_Q: `r_s`"]
    assert found[0].cost is not None
    assert found[0].cost > 10


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [("c1_bs", "bias scale", "c1_bDQ"), ("c1_ws", "channel out of line", "c1_wDQ")],
)
def test_of_two_scales_of_a_channel_the_one_out_of_line_is_wrong(name, kind, place):
    (fault,) = audited(network(put(name, at(3, lambda v: v * 20))))
    assert (fault.kind, place in fault.where, "channel 3" in fault.where) == (kind, True, True)


def test_what_is_cut_off_a_little_is_no_fault():
    """A range that leaves out 3 % of few values by less than a step costs nothing."""
    net = network()
    runs = [{"x": x} for x in samples(1)]
    values = faults_of(graph_of(net.proto()), runs, is_sampled=True)
    assert values == []
    net.constants["y_s"] = np.float32(net.constants["y_s"] * 0.62)
    for fault in faults_of(graph_of(net.proto()), runs, is_sampled=True):
        assert fault.cost is not None
        assert fault.cost >= 0.1


@pytest.mark.parametrize(("op", "count"), [("Slice", 0), ("Reshape", 1)])
def test_a_part_of_the_values_may_have_a_range_of_its_own(op, count):
    def plant(net: Network) -> None:
        net.constants |= {"from": np.array([0]), "to": np.array([4]), "on": np.array([2]),
                          "shape": np.array([1, 3, 8, 8]), "o": np.float32(0.02)}  # fmt: skip
        inputs = ["x_d", "from", "to", "on"] if op == "Slice" else ["x_d", "shape"]
        nodes = [
            helper.make_node(op, inputs, ["part"], "part"),
            helper.make_node("QuantizeLinear", ["part", "o", "x_z"], ["part_q"], "part_Q"),
            helper.make_node("DequantizeLinear", ["part_q", "o", "x_z"], ["part_d"], "part_DQ"),
            helper.make_node("ReduceMean", ["part_d"], ["mean"], "mean", keepdims=0),
            helper.make_node("Add", ["y_d", "mean"], ["y_e"], "last"),
        ]
        net.nodes |= {n.name: n for n in nodes}

    found = [f for f in audited(network(plant)) if f.kind == "quantised twice"]
    assert len(found) == count


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
