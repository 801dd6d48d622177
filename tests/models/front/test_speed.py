"""Layers are quantised where that pays, or a line says what it costs; groups are no loop of
programs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from ptosim.models import depthwise, onnx_run
from ptosim.models.conversion import sensitivity, source, speed
from ptosim.models.conversion.convert import convert, float_cycles
from ptosim.models.conversion.types import Settings
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.onnx_model import graph_of
from ptosim.models.onnx_run import every_value
from ptosim.models.quant.scaled import Window, conv_int32, convolve
from tests.models.front import networks
from tests.models.front.networks import F, build, node

rng = np.random.default_rng(31)


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_groups_are_products_of_many_at_once(groups):
    """Filters weigh the channels of other groups with the stored value of 0: sums do not change,
    and the products are fewer."""
    x = rng.integers(-128, 128, (2, 8, 5, 5))
    w = rng.integers(0, 256, (16, 8 // groups, 3, 3))
    zeros = rng.integers(0, 256, 16)
    window = Window(x.shape[2:], (3, 3), (2, 1), (1, 1, 1, 1))
    want = conv_int32(x, w - zeros.reshape(-1, 1, 1, 1), window, groups)
    calls = []

    def product(a, b, filters):
        calls.append(b.shape)
        return a @ (b - zeros[filters])

    have = convolve(x, w, window, groups, product, 0, zeros)
    np.testing.assert_array_equal(have, want)
    assert calls == [(8 * 9, 16)]


def test_a_depthwise_convolution_is_one_program_also_with_infinity():
    w = networks.weights(rng, 16, 1, 3, 3)
    made = node("Conv", ["x", "w"], ["y"], "depthwise", group=16)
    shape = [1, 16, 6, 6]
    graph = graph_of(build([made], [("x", F, shape)], [("y", F, [1, 16, 4, 4])], {"w": w}))
    x = rng.standard_normal(shape).astype(np.float32)
    for value in (1.0, np.inf):
        x[0, 3, 2, 2] = value
        outcome = onnx_run.run(graph, {"x": x}, ("a5",))
        have, want = outcome.results["a5", "exact"]["y"], outcome.outputs["y"]
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
        assert len(outcome.programs["a5", "exact"]) == 1


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("channels", "size", "places", "stride"), [
    (12, 9, 3, 1), (8, 20, 5, 2), (32, 6, 7, 1), (96, 56, 3, 2),
])  # fmt: skip
def test_places_of_a_depthwise_window_are_tiles_of_several(target, channels, size, places, stride):
    """Whole numbers, whose sums every order gives: windows that one tile holds and that several do,
    of floats and of codes, two filters for each channel."""
    image = rng.integers(-128, 128, (2, channels, size, size))
    weights = rng.integers(-128, 128, (2 * channels, 1, places, places))
    half = places // 2
    whole = np.pad(np.repeat(image, 2, 1), [(0, 0)] * 2 + [(half, half)] * 2, constant_values=3)
    seen = sliding_window_view(whole, (places, places), (2, 3))[:, :, ::stride, ::stride]
    want = np.einsum("bfyxij,fij->bfyx", seen, weights[:, 0])
    window = Window(image.shape[2:], (places, places), (stride, stride), [half] * 4)
    ending = depthwise.Ending(lambda f, acc, loaded: acc)
    for kind in (np.float32, np.int8):
        runner = KernelRunner(target, wanted="values")
        have = depthwise.convolve(runner, image.astype(kind), weights, window, 3, ending)
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("kind", ["MatMul", "MatMulInteger", "QLinearMatMul"])
@pytest.mark.parametrize("zero", [0, 3])
def test_heads_are_a_loop_of_one_program(kind, zero):
    """[2, 3, …] products: one program; a zero point of the first operand is a bias that differs from
    one matrix to the next."""
    a = rng.integers(-128, 128, (2, 3, 20, 40)).astype(np.int8)
    b = rng.integers(-128, 128, (3, 40, 24)).astype(np.int8)
    shape, held = [2, 3, 20, 24], {"az": np.int8(zero), "bz": np.int8(-zero)}
    whole = np.matmul(a.astype(np.int64) - zero, b.astype(np.int64) + zero)
    names, out = {
        "MatMul": (["x", "w"], F), "MatMulInteger": (["x", "w", "az", "bz"], 6),
        "QLinearMatMul": (["x", "as", "az", "w", "bs", "bz", "ys", "yz"], 3),
    }[kind]  # fmt: skip
    held |= {"as": np.float32(0.5), "bs": np.float32(0.25), "ys": np.float32(512), "yz": np.int8(0)}
    given = a.astype(np.float32) if kind == "MatMul" else a
    weights = b.astype(np.float32) if kind == "MatMul" else b
    wires = [("x", F if kind == "MatMul" else 3, list(a.shape))], [("y", out, shape)]
    proto = build([node(kind, names, ["y"], "it")], *wires, {**held, "w": weights})
    outcome = onnx_run.run(graph_of(proto), {"x": given}, ("a2a3", "a5"))
    if kind == "MatMul":
        whole = np.matmul(a.astype(np.int64), b.astype(np.int64))
    if kind == "QLinearMatMul":
        whole = np.clip(np.rint(whole / 4096), -128, 127)
    for (target, form), made in outcome.results.items():
        np.testing.assert_array_equal(made["y"], whole)
        count = 2 if (kind, form) == ("QLinearMatMul", "exact") else 1
        assert len(outcome.programs[target, form]) == count


@pytest.mark.parametrize("format", ["mxfp8", "mxfp4"])
def test_heads_of_groups_are_a_loop_of_one_program(format):
    """Each target multiplies all heads in one program; results are those of the codes times their
    scales, in f64, to the rounding of f32 sums. Depths and sizes are no whole tiles."""
    shapes = {"x": [2, 3, 20, 96], "w": [2, 3, 96, 24]}
    samples = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    proto = build(
        [node("MatMul", ["x", "w"], ["y"], "it")], [(n, F, s) for n, s in shapes.items()],
        [("y", F, [2, 3, 20, 24])], {},
    )  # fmt: skip
    model = source.prepared(proto, {}, samples, is_blocked=True)
    data = source.Data(source.samples(samples, model.graph.inputs), "here", "")
    made = convert(model, data, Settings(format=format), ("a2a3", "a5"))
    values = made.quantised.values
    parents = {n.outputs[0]: n for n in made.quantised.graph.nodes}
    product = next(n for n in made.quantised.graph.nodes if n.op == "MatMul")
    assert all(parents[n].op == "DequantizeLinear" for n in product.inputs)
    a, b = (values[n][0].astype(np.float64) for n in product.inputs)
    for key, results in made.outcome.results.items():
        np.testing.assert_allclose(results["y"], a @ b, rtol=1e-5, atol=1e-5)
        products = [n for n, _ in made.outcome.programs[key] if n.startswith("MatMul")]
        assert len(products) == 1


def report(cli, tmp_path, made, *more):
    proto, samples = made
    onnx.save(proto, tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", **samples)
    return cli(
        "quant", "convert", tmp_path / "m.onnx", "--calibration", tmp_path / "d.npz",
        "--target", "a5", *more,
    )  # fmt: skip


@pytest.mark.slow
def test_no_layer_is_slower_without_a_line(cli, tmp_path):
    """Cycles of a layer are those of its kernels and of what quantises its operands."""
    got = report(cli, tmp_path, networks.keras())
    assert got.code == 0
    first = got.out.splitlines()[0]
    assert first.startswith("int8: ")
    assert "times as fast as float on 950PR (chip, 36 cores), " in " ".join(got.out.split())
    whole = json.loads(report(cli, tmp_path, networks.keras(), "--format", "json").out)
    left = [n for n, why in whole["left_in_float"].items() if why == "quantised it is slower"]
    assert left
    assert "; 1 layer stays in float because: quantised it is slower" in whole["headline"]
    (tried,) = whole["quantised_would_take"]
    assert (tried["layer"], tried["cycles"] > tried["f32_cycles"]) == (left[0], True)
    kept = json.loads(
        report(cli, tmp_path, networks.keras(), "--keep-slow", "--format", "json").out
    )
    assert not kept["left_in_float"]
    slow = {s["layer"] for s in kept["slower_than_float"]}
    assert kept["headline"].endswith(f"; slower than in float, each with a line: {len(slow)} on a5")
    assert set(left) <= slow
    for layers in (whole, kept):
        told = {s["layer"] for s in layers["slower_than_float"]}
        for row in layers["layers"]:
            fast = [f["cycles"] for f in row["forms"] if f["form"] == "fast"]
            if row["format"] == "int8" and fast[0] > row["f32_cycles"]["a5"]:
                assert row["layer"] in told
    assert whole["totals"][1]["cycles"] <= kept["totals"][1]["cycles"]


def test_if_no_layer_is_faster_the_first_line_says_so(cli, tmp_path):
    whole = json.loads(report(cli, tmp_path, networks.branching(), "--format", "json").out)
    said = "; no quantised layer is faster than in float, each has a line: 1 on a5"
    assert whole["headline"].endswith(said)
    assert [s["layer"] for s in whole["slower_than_float"]] == ["MatMul_4"]
    (row,) = [r for r in whole["layers"] if r["layer"] == "MatMul_4"]
    assert row["format"] == "int8"


@pytest.mark.slow
def test_a_layer_stays_in_float_only_if_the_whole_gains(cli, tmp_path):
    """Of a transformer's layers some are slower than in float only with what quantises for them:
    leaving all of those out would cost the others more."""
    proto, samples = networks.decoder(tokens=16, width=64)
    model = source.prepared(proto, {}, samples)
    data = source.Data(source.samples(samples, model.graph.inputs), "here", "")
    settings, budget = Settings(), sensitivity.Budget()
    every = sensitivity.candidate(model, data, settings, ("a2a3", "a5"), budget, keeps_slow=True)
    some = sensitivity.candidate(model, data, settings, ("a2a3", "a5"), budget, keeps_slow=False)
    assert speed.total_of(some.chosen) <= speed.total_of(every.chosen)
    assert set(every.chosen.left) <= set(some.chosen.left)


def plan(kind: str, sqnr: float, *cycles: int, left: int = 0):
    trial = SimpleNamespace(
        output=SimpleNamespace(sqnr=sqnr), left=["x"] * left,
        cycles={f"t{i}": [c] for i, c in enumerate(cycles)},
    )  # fmt: skip
    return SimpleNamespace(settings=Settings(format=kind), chosen=trial, tried=[trial])


@pytest.mark.parametrize(
    ("least", "kind"), [(None, "mxfp4"), (20, "int8"), (36, "mxfp8"), (60, "mxfp8")]
)
def test_the_type_is_the_fastest_that_the_budget_allows(least, kind):
    """Without one that meets it, the one of the least error."""
    found = [plan("int8", 35, 90, 80), plan("mxfp8", 40, 95, 99), plan("mxfp4", 18, 70, 60)]
    assert sensitivity.best(found, sensitivity.Budget(None, None, least)).settings.format == kind


def test_plans_on_the_line_are_beaten_by_no_other():
    """Not worse in error and cycles of each target, and better in one of them."""
    found = [
        plan("int8", 35, 90, 80), plan("mxfp8", 34, 91, 80), plan("mxfp4", 18, 70, 60),
        plan("int8", 33, 80, 99, left=1), plan("int8", 35, 90, 80),
    ]  # fmt: skip
    kept = sensitivity.line(found, found[0])
    assert [(p.kind, p.left, p.is_chosen) for p in kept] == [
        ("mxfp4", 0, False), ("int8", 0, True), ("int8", 1, False)
    ]  # fmt: skip
    assert any(p.is_chosen and p.kind == "mxfp8" for p in sensitivity.line(found, found[1]))


@pytest.mark.slow
def test_types_are_compared(cli, tmp_path):
    """--type auto: the plans in a table, the chosen one marked; the report says the same."""
    shown = report(cli, tmp_path, networks.torch_shapes(), "--type", "auto")
    assert shown.code == 0
    assert "plans that no other one beats" in shown.out
    whole = json.loads(
        report(cli, tmp_path, networks.torch_shapes(), "--type", "auto", "--format", "json").out
    )
    assert sum(p["is_chosen"] for p in whole["plans"]) == 1
    chosen = next(p for p in whole["plans"] if p["is_chosen"])
    assert chosen["kind"] == whole["settings"]["format"]
    assert chosen["sqnr"] == pytest.approx(whole["output"]["sqnr_db"])


def test_one_value_is_taken_in_three_types():
    """Two of the products take groups of 32, one integers: each is what it is in a plan of its own
    type, and the graph that is written has all of them."""
    c = {n: networks.weights(rng, 64, 32) for n in ("i", "e", "f")}
    nodes = [node("MatMul", ["x", n], [f"{n}y"], f"layer {n}") for n in c]
    proto = build(nodes, [("x", F, [8, 64])], [(f"{n}y", F, [8, 32]) for n in c], c)
    samples = {"x": rng.standard_normal((8, 64)).astype(np.float32)}
    model = source.prepared(proto, {}, samples)
    data = source.Data([samples], "here", "")
    layers = {"layer i": "int8", "layer e": "mxfp8", "layer f": "mxfp4"}
    one = source.with_blocks(model, ["layer e", "layer f"])
    made = convert(
        one, data, Settings(format="mixed", layers=tuple(layers.items())), ("a2a3", "a5")
    )
    assert made.outcome.explained()
    assert not made.quantised.plan.left
    values = made.quantised.values
    for name, kind in layers.items():
        alone = convert(one, data, Settings(format=kind), ("a5",))
        out = f"{name[-1]}y"
        np.testing.assert_array_equal(values[out], alone.quantised.values[out])


@pytest.mark.slow
def test_each_layer_has_the_type_that_is_fastest_for_it():
    """The convolution in groups of 32, the product in integers: faster than either in one type;
    a budget that groups exceed keeps integers."""
    c = {"w": networks.weights(rng, 128, 32, 3, 3), "v": networks.weights(rng, 2048, 10)}
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"]), node("MatMul", ["f", "v"], ["y"], "fc"),
    ]  # fmt: skip
    proto = build(nodes, [("x", F, [1, 32, 8, 8])], [("y", F, None)], c)
    samples = {"x": rng.standard_normal((1, 32, 8, 8)).astype(np.float32)}
    found = []
    for kind in ("int8", "mxfp8"):
        model = source.prepared(proto, {}, samples, is_blocked=kind != "int8")
        data, budget = source.Data([samples], "here", ""), sensitivity.Budget()
        settings = Settings(format=kind)
        found.append(sensitivity.candidate(model, data, settings, ("a5",), budget, keeps_slow=True))
    mixed = sensitivity.mixed(found, ("a5",), budget)
    assert mixed is not None
    assert dict(mixed.settings.layers) == {"conv": "mxfp8", "fc": "int8"}
    assert speed.total_of(mixed.chosen) < min(speed.total_of(c.chosen) for c in found)
    assert sensitivity.best([*found, mixed], budget) is mixed
    strict = sensitivity.Budget(None, None, (mixed.chosen.output.sqnr + 36) / 2)
    assert sensitivity.mixed(found, ("a5",), strict) is None


@pytest.mark.parametrize(
    ("scale", "zero", "limits", "is_one"),
    [
        (6 / 255, np.uint8(0), (0, 6), True),
        (6 / 127, np.int8(0), (0, 6), True),
        (6 / 126, np.int8(0), (0, 6), False),  # code 127 is above 6
        (0.04, np.int8(-128), (0, 10.2), True),
        (0.04, np.int8(-128), (0, 10.1), False),
        (0.05, np.int8(0), (-6.4, 6.4), True),
        (0.05, np.int8(0), (-6.3, 6.4), False),  # code -128 is below -6.3
        (0.05, np.int8(0), (-np.inf, 6.35), True),
    ],
)
def test_a_clip_between_the_ends_of_the_codes_is_part_of_the_product(scale, zero, limits, is_one):
    """Rounding keeps order: codes of what Clip leaves are those of all values, cut off at the codes
    of its limits; where these are the ends of the type, or 0 as of Relu, nothing is left to do."""
    c = {"xs": np.float32(0.0625), "xz": np.int8(0), "ws": np.float32(2**-7), "wz": np.int8(0),
         "w": rng.integers(-128, 128, (48, 16)).astype(np.int8), "ys": np.float32(scale),
         "yz": zero, "lo": np.float32(limits[0]), "hi": np.float32(limits[1])}  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["v"]), node("MatMul", ["d", "v"], ["m"]),
        node("Clip", ["m", "lo", "hi"], ["c"]), node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]  # fmt: skip
    kind = onnx.helper.np_dtype_to_tensor_dtype(zero.dtype)
    proto = build(nodes, [("x", F, [24, 48])], [("y", kind, [24, 16])], c)
    x = (4 * rng.standard_normal((24, 48))).astype(np.float32)
    outcome = onnx_run.run(graph_of(proto), {"x": x}, ("a2a3", "a5"))
    want = outcome.outputs["y"]
    codes = [np.rint(v / c["ys"]) + int(zero) for v in (c["lo"], c["hi"])]
    info = np.iinfo(zero.dtype)
    assert (want.min(), want.max()) == tuple(np.clip(codes, info.min, info.max))
    assert ("MatMul+Clip" in [line.op for line in outcome.lines]) == is_one
    for (_, form), results in outcome.results.items():  # the fast form's factor has 11 bits
        far = np.abs(results["y"].astype(int) - want.astype(int)).max()
        assert far <= (0 if form == "exact" else 1)


@pytest.mark.parametrize(("codes", "scale"), [("i8", 1.5 * 2**-5), ("ui8", 1.5 * 2**-6)])
def test_the_last_code_of_what_a_clip_ends_is_not_above_its_limit(codes, scale):
    """6 / 127 = 1.51 * 2^-5: the scale of few bits below it leaves out less than a hundredth of the
    range, and the product needs no kernel after it. Of 5.5 it would be a tenth: rounded up."""
    found = {}
    for limit in (6.0, 5.5):
        c = {"w": networks.weights(rng, 32, 32), "v": networks.weights(rng, 32, 32),
             "lo": np.float32(0), "hi": np.float32(limit)}  # fmt: skip
        nodes = [node("MatMul", ["x", "w"], ["m"]), node("Clip", ["m", "lo", "hi"], ["c"]),
                 node("MatMul", ["c", "v"], ["y"])]  # fmt: skip
        samples = {"x": (9 * rng.standard_normal((16, 32))).astype(np.float32)}
        proto = build(nodes, [("x", F, [16, 32])], [("y", F, [16, 32])], c)
        made = source.prepared(proto, {}, samples)
        data = source.Data(source.samples(samples, made.graph.inputs), "here", "")
        quantised = convert(made, data, Settings(activations=codes), ("a5",)).quantised
        found[limit] = float(quantised.types.points["c"].scale)
    assert found[6.0] == scale
    assert found[5.5] * (127 if codes == "i8" else 255) >= 5.5


@pytest.mark.parametrize("format", ["mxfp8", "mxfp4"])
@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Conv"])
def test_products_of_groups_take_bias_and_relu(op, format):
    """One step: the exact form rounds the sums before it adds the bias, as the separate nodes do,
    the fast form begins the sums with it. In float the same layer has its bias in the product."""
    c = {"w": networks.weights(rng, 64, 24), "b": networks.weights(rng, 24)}
    nodes = [node("MatMul", ["x", "w"], ["m"], "it"), node("Add", ["m", "b"], ["s"])]
    shape, out = [2, 20, 64], [2, 20, 24]
    if op == "Gemm":
        shape, out = [40, 64], [40, 24]
        nodes = [node("Gemm", ["x", "w", "b"], ["s"], "it")]
    elif op == "Conv":
        c["w"], shape, out = networks.weights(rng, 24, 8, 3, 3), [2, 8, 7, 7], [2, 24, 5, 5]
        nodes = [node("Conv", ["x", "w", "b"], ["s"], "it")]
    nodes.append(node("Relu", ["s"], ["y"], "relu"))
    samples = {"x": rng.standard_normal(shape).astype(np.float32)}
    proto = build(nodes, [("x", F, shape)], [("y", F, out)], c)
    made = source.prepared(proto, {}, samples, is_blocked=True)
    data = source.Data(source.samples(samples, made.graph.inputs), "here", "")
    found = convert(made, data, Settings(format=format), ("a2a3", "a5"))
    (row,) = [r for r in found.rows if r.line.node == "it"]
    assert row.line.op == f"MatMul {format.upper()}+bias+Relu"
    want = found.outcome.outputs["y"]
    assert want.min() == 0
    for key, results in found.outcome.results.items():
        np.testing.assert_allclose(results["y"], want, rtol=1e-5, atol=1e-5)
        products = [n for n, _ in found.outcome.programs[key] if n.startswith("MatMul")]
        assert len(products) == (2 if key[1] == "exact" else 1)
    plain = source.prepared(proto, {}, samples)
    if op != "MatMul":  # it has its bias apart in float, too
        for target in ("a2a3", "a5"):
            cycles = float_cycles(plain, every_value(plain.graph, data.feeds), target, {})
            assert row.float_cycles[target] == sum(c or 0 for c in cycles.values())
