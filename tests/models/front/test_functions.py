"""Functions of single elements, sums along axes and windows that exporters write, against NumPy in
f64: what only rounds is exact, the others are off by a few units of the largest value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptosim.models import onnx_run
from ptosim.models.conversion import source
from ptosim.models.front import rewrites
from ptosim.models.onnx_model import graph_of
from ptosim.models.onnx_nodes import OPERATORS
from tests.models.front.networks import F, build, node

rng = np.random.default_rng(46)
EDGES = [-2, -1.5, -1, -0.5, -0.0, 0, 0.3, 0.5, 1, 1.5, 2.5, np.inf, -np.inf, np.nan, 3e38, 1e-40,
         -1e-44, 8388607.5, 123456.7, -4.5e6]  # fmt: skip


def results(op: str, x: np.ndarray, held=None, opset: int = 17, **attrs) -> list[np.ndarray]:
    """What the exact form gives on each target."""
    names, rank = ["x", *(held or {})], x.ndim - (attrs.get("keepdims") == 0)
    wires = [("x", F, list(x.shape))], [("y", F, [None] * rank)]
    made = build([node(op, names, ["y"], "it", **attrs)], *wires, held or {}, opset)
    with np.errstate(all="ignore"):
        found = onnx_run.run(graph_of(made), {"x": x}, ("a2a3", "a5")).results
    return [found[target, "exact"]["y"] for target in ("a2a3", "a5")]


def near(op: str, x: np.ndarray, want: np.ndarray, held=None, opset: int = 17, **attrs) -> None:
    """Results are within 2^-20 of the largest magnitude."""
    room = 2.0**-20 * np.abs(want[np.isfinite(want)]).max(initial=0)
    for have in results(op, x, held, opset, **attrs):
        np.testing.assert_allclose(have.astype(np.float64), want, rtol=0, atol=room)


@pytest.mark.parametrize(
    ("op", "function"),
    [("Floor", np.floor), ("Ceil", np.ceil), ("Round", np.rint), ("Sign", np.sign)],
)
def test_what_rounds_is_exact_for_every_kind_of_number(op, function):
    x = np.array([EDGES], np.float32)
    for have in results(op, x):
        np.testing.assert_array_equal(have, function(x))


ANGLES = ("Sin", "Cos", "Tan")
INSIDE = ("Asin", "Acos", "Atanh")
NAMES = {"Asin": "arcsin", "Acos": "arccos", "Atan": "arctan", "Asinh": "arcsinh",
         "Acosh": "arccosh", "Atanh": "arctanh"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("op", [*ANGLES, *NAMES, "Sinh", "Cosh"])
def test_circular_and_hyperbolic_functions(op):
    """Over what the function is defined on; angles up to 100,000, of which tangents near a pole
    depend on the last bit of the angle."""
    x = np.concatenate([rng.uniform(-1, 1, 500), rng.uniform(-80, 80, 500), [0.0, 1e-40, 0.5]])
    x = np.clip(x, -0.9999, 0.9999) if op in INSIDE else x
    x = 1 + np.abs(x) if op == "Acosh" else x
    x = np.concatenate([x, rng.uniform(-1e5, 1e5, 200)]) if op in ("Sin", "Cos", "Atan") else x
    x = rng.uniform(-1.4, 1.4, 300) + math.pi * rng.integers(-9, 9, 300) if op == "Tan" else x
    x = x.astype(np.float32).reshape(1, -1)
    near(op, x, getattr(np, NAMES.get(op, op.lower()))(x.astype(np.float64)))


def test_ends_of_what_functions_are_defined_on():
    ends = np.array([[1.0, -1.0, 0.0]], np.float32)
    for have in results("Asin", ends):
        np.testing.assert_allclose(have, np.arcsin(ends), rtol=1e-6)
    far = np.array([[np.inf, -np.inf, np.nan, 1e30]], np.float32)
    for have in results("Atan", far):
        np.testing.assert_allclose(have, np.arctan(far), rtol=1e-6)
    for op in ("Sin", "Cos"):
        for have in results(op, far):
            assert np.isnan(have[0, :3]).all()
            assert abs(have[0, 3]) <= 1


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_shrink(bias):
    x = np.array([[-3, -1.5, -1, 0, 0.25, 1.5, 2]], np.float32)
    want = np.where(x < -1.5, x + bias, np.where(x > 1.5, x - bias, 0))
    for have in results("Shrink", x, lambd=1.5, bias=bias):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("axis", [-1, 1])
def test_the_first_of_the_largest(axis):
    x = rng.integers(-3, 3, (5, 7, 33)).astype(np.float32)
    want = np.zeros_like(x)
    np.put_along_axis(want, np.expand_dims(x.argmax(axis), axis), 1, axis)
    for have in results("Hardmax", x, axis=axis):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_sums_up_to_each_element(exclusive, reverse, axis):
    x = rng.integers(-9, 9, (3, 4, 20)).astype(np.float32)
    turned = np.flip(x, axis) if reverse else x
    want = turned.cumsum(axis) - (turned if exclusive else 0)
    want = np.flip(want, axis) if reverse else want
    held = {"axis": np.int64(axis)}
    for have in results("CumSum", x, held, exclusive=exclusive, reverse=reverse):
        np.testing.assert_array_equal(have, want)


def test_products_of_an_axis():
    x = rng.choice(np.array([-2, -1, 0.5, 1, 2], np.float32), (3, 40, 8))
    for have in results("ReduceProd", x, axes=[1], keepdims=0):
        np.testing.assert_array_equal(have, x.prod(1))


def test_norms_of_windows():
    x = rng.standard_normal((1, 3, 6, 8)).astype(np.float32)
    parts = x.astype(np.float64).reshape(1, 3, 3, 2, 4, 2)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    near("LpPool", x, np.sqrt((parts**2).sum((3, 5))), p=2, **window)
    near("LpPool", x, np.abs(parts).sum((3, 5)), p=1, **window)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_responses_are_divided_by_those_of_the_channels_nearby(size):
    """From c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)."""
    x = (3 * rng.standard_normal((2, 6, 3, 5))).astype(np.float32)
    want = np.zeros(x.shape)
    for c in range(6):
        near_ = x[:, max(c - (size - 1) // 2, 0) : c + size // 2 + 1].astype(np.float64)
        want[:, c] = x[:, c] / (2 + 0.2 / size * (near_**2).sum(1)) ** 0.75
    near("LRN", x, want, size=size, alpha=0.2, beta=0.75, bias=2.0)


@pytest.mark.parametrize("half", [False, True])
def test_cubic_resizing_weighs_four_neighbours(half):
    """Keys' kernel with a = -0.75, edges repeated; twice as large along the last axis, which is the
    only one named."""
    x = rng.standard_normal((1, 2, 1, 9)).astype(np.float32)
    want = np.zeros((1, 2, 1, 18))
    for to in range(18):
        at = (to + 0.5) / 2 - 0.5 if half else to / 2
        low = math.floor(at)
        for place in range(low - 1, low + 3):
            d, a = abs(at - place), -0.75
            weight = (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else (
                a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a)  # fmt: skip
            want[..., to] += weight * x[..., min(max(place, 0), 8)].astype(np.float64)
    mode = "half_pixel" if half else "asymmetric"
    held = {"": np.zeros(0, np.float32), "s": np.array([2], np.float32)}
    made = build(
        [node("Resize", ["x", "", "s"], ["y"], mode="cubic", axes=[3],
              coordinate_transformation_mode=mode)],
        [("x", F, list(x.shape))], [("y", F, [None] * 4)], {"s": held["s"]}, 18)  # fmt: skip
    for found in onnx_run.run(graph_of(made), {"x": x}, ("a2a3", "a5")).results.values():
        np.testing.assert_allclose(found["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("by", ["sizes", "scales"])
def test_resizing_of_a_part_gives_a_value_outside_of_the_image(by):
    """Places from begin (n - 1) to end (n - 1), the ends among them; beyond the image one value."""
    x = rng.standard_normal((1, 2, 8, 8)).astype(np.float32)
    ends, want = ((0.1, 0.9), (-0.2, 1.3)), x.astype(np.float64)
    outside = np.zeros((1, 1, 16, 12), bool)
    for axis, size, (begin, end) in zip((2, 3), (16, 12), ends, strict=True):
        at = np.linspace(begin * 7, end * 7, size)
        shape = [-1 if a == axis else 1 for a in range(4)]
        outside |= ((at < 0) | (at > 7)).reshape(shape)
        low = np.clip(np.floor(at).astype(int), 0, 6)
        one, other = (np.take(want, i, axis) for i in (low, low + 1))
        want = one + (other - one) * (np.clip(at, 0, 7) - low).reshape(shape)
    want = np.where(outside, 0.25, want)
    held = {"roi": np.array([0.1, -0.2, 0.9, 1.3], np.float32)}
    held["s"] = np.array([16, 12]) if by == "sizes" else np.array([2, 1.5], np.float32)
    made = build(
        [node("Resize", ["x", "roi", *(["", "s"] if by == "sizes" else ["s"])], ["y"],
              mode="linear", axes=[2, 3], extrapolation_value=0.25,
              coordinate_transformation_mode="tf_crop_and_resize")],
        [("x", F, list(x.shape))], [("y", F, [None] * 4)], held, 18)  # fmt: skip
    for found in onnx_run.run(graph_of(made), {"x": x}, ("a2a3", "a5")).results.values():
        np.testing.assert_allclose(found["y"], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resizing_that_keeps_the_proportion(policy):
    """4 x 6 to 8 x 8 at most is 5 x 8 (the factor 4/3), at least 8 x 12 (the factor 2)."""
    x = rng.standard_normal((1, 2, 4, 6)).astype(np.float32)
    made = build(
        [node("Resize", ["x", "", "", "s"], ["y"], mode="linear", axes=[2, 3],
              keep_aspect_ratio_policy=policy)],
        [("x", F, list(x.shape))], [("y", F, [None] * 4)], {"s": np.array([8, 8])}, 18)  # fmt: skip
    outcome = onnx_run.run(graph_of(made), {"x": x}, ("a2a3", "a5"))
    size = (5, 8) if policy == "not_larger" else (8, 12)
    for found in outcome.results.values():
        assert found["y"].shape == (1, 2, *size)
        np.testing.assert_allclose(found["y"], outcome.outputs["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_have_the_sign_of_the_one_or_the_other(fmod):
    """To the last bits for quotients up to 2^12, where the rounded quotient is the next whole number
    too; of infinity and by 0 there is none, by infinity it is the number itself."""
    edges = [(0, 1), (-0.0, 1), (np.inf, 2), (np.nan, 2), (5, 0), (-5, np.inf), (6, -3), (3, 3),
             (1e-40, 1e-41), (0.7 * 3, 0.7), (2.9999998, 1), (-2.9999998, 1)]  # fmt: skip
    x = np.concatenate([rng.uniform(-3000, 3000, 300), [e[0] for e in edges]]).astype(np.float32)
    z = np.concatenate([rng.uniform(1, 30, 300) * rng.choice([-1, 1], 300), [e[1] for e in edges]])
    with np.errstate(all="ignore"):
        z = z.astype(np.float32)
        want = (np.fmod if fmod else np.mod)(x.astype(np.float64), z.astype(np.float64))
        near("Mod", x.reshape(1, -1), want.reshape(1, -1), {"z": z.reshape(1, -1)}, fmod=fmod)


def test_the_mean_and_the_deviation_that_a_norm_gives():
    """LayerNormalization's further outputs, of which one or the other is taken, also in a
    quantised model."""
    x = rng.standard_normal((4, 3, 32)).astype(np.float32)
    nodes = [node("LayerNormalization", ["x", "g"], ["n", "mean", "inv"], axis=1, epsilon=0.5),
             node("Sub", ["x", "mean"], ["m"]), node("Mul", ["m", "inv"], ["y"])]  # fmt: skip
    held = {"g": np.ones((3, 32), np.float32)}
    made = build(nodes, [("x", F, [4, 3, 32])], [("y", F, [4, 3, 32]), ("n", F, [4, 3, 32])], held)
    rewrites.for_kernels(made)
    wide = x.astype(np.float64).reshape(4, -1)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 0.5)
    for found in onnx_run.run(graph_of(made), {"x": x}, ("a2a3", "a5")).results.values():
        for name in ("n", "y"):
            np.testing.assert_allclose(found[name].reshape(4, -1), want, rtol=1e-5, atol=1e-5)


def test_what_training_leaves_at_the_end_of_a_model_goes():
    """Dropout whose result is the model's, its mask and the mean of LayerNormalization, which
    nothing takes."""
    held = {"w": rng.standard_normal((32, 32)).astype(np.float32), "g": np.ones(32, np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["m"]),
             node("LayerNormalization", ["m", "g"], ["n", "mean", "deviation"]),
             node("Dropout", ["n"], ["y", "mask"])]  # fmt: skip
    made = build(nodes, [("x", F, [4, 32])], [("y", F, [4, 32])], held)
    graph = source.prepared(made, {}).graph
    assert [n.op for n in graph.nodes] == ["MatMul", "LayerNormalization", "Identity"]
    assert all(len(n.outputs) == 1 and n.op in OPERATORS for n in graph.nodes)
