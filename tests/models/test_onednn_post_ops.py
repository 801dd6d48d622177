"""oneDNN's post-operations, masks by argument, and the reorder of weights, as its page has them."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.models.quant.onednn.attributes import BINARY, ELTWISE, Attributes, binary, eltwise
from ptosim.models.quant.onednn.primitives import Values, convolution, matmul
from tests.oracle import quant as oracle
from tests.oracle.eltwise import FORMULAS

PARAMETERS = {
    "relu": (0.25, 0), "clip": (-2.5, 3.0), "linear": (0.3, 2.7), "elu": (1.5, 0), "swish": (1.7, 0),
    "soft_relu": (0.8, 0), "hardsigmoid": (1 / 6, 0.5), "hardswish": (1 / 6, 0.5), "pow": (0.5, 2.0),
}  # fmt: skip
REALS = np.float32(
    [
        0,
        -0.0,
        0.5,
        -0.5,
        1,
        -1,
        1.5,
        -2.5,
        3.25,
        -7.125,
        20,
        -20,
        60,
        -60,
        90,
        -90,
        1e-20,
        0.1,
        1e10,
    ]
)


def f32(value: float) -> float:
    return float(np.float32(value))


@pytest.mark.parametrize("name", ELTWISE)
def test_eltwise(name):
    """Step by step in f32, as the reference implementation has it."""
    a, b = PARAMETERS.get(name, (0.0, 0.0))
    got = eltwise(name, a, b).apply(REALS)
    assert got.dtype == np.float32
    want = [FORMULAS[name](float(v), f32(a), f32(b)) for v in REALS]
    for value, g, w in zip(REALS, got.tolist(), want, strict=True):
        assert (math.isnan(g) and math.isnan(w)) or g == w, (name, value, g, w)


def test_there_is_a_formula_for_every_one():
    assert set(ELTWISE) == set(FORMULAS)
    assert {"gelu_erf", "gelu_tanh", "tanh", "elu", "swish", "logistic", "exp", "hardswish"} <= set(
        ELTWISE
    )


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    v = np.float32([[1, -2, 3.5], [0, 5, -6]])
    operand = np.float32([[2, -2, 0.5]])
    exact = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y, "max": max, "min": min, "ge": lambda x, y: x >= y,
        "gt": lambda x, y: x > y, "le": lambda x, y: x <= y, "lt": lambda x, y: x < y,
        "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    }[name]  # fmt: skip
    got = binary(f"binary_{name}", operand).apply(v)
    assert got.tolist() == [[f32(exact(float(x), float(y))) for x, y in zip(row, operand[0], strict=True)] for row in v]  # fmt: skip


def test_wrong_post_ops():
    with pytest.raises(UsageError, match="unknown binary post-op"):
        binary("plus", np.ones(3))
    with pytest.raises(UsageError, match="has shape"):
        binary("add", np.ones((2, 5))).apply(np.ones((2, 3), np.float32))
    attributes = Attributes()
    attributes.append_sum(0.5)
    with pytest.raises(UsageError, match="needs the destination's previous value"):
        matmul(np.ones((2, 3), np.int8), np.ones((3, 2), np.int8), attributes=attributes)


@pytest.mark.parametrize(("scale", "zero"), [(1.0, 0), (0.5, 3)])
def test_sum_with_a_scale(scale, zero):
    """dst = post_ops(op) / scale + zero point, with sum: scale * (dst before - zero point) added."""
    src, weights = np.int8([[1, 2, 3], [-4, 5, 6]]), np.int8([[1, 0], [2, 1], [-1, 3]])
    before = np.int8([[10, -20], [30, 7]])
    attributes = Attributes()
    attributes.append_sum(scale, zero)
    values = Values(0.5, 0, 0.25, 2.0, 1, before)
    got = matmul(src, weights, values, attributes=attributes, dst="i8")
    sums = src.astype(int) @ weights.astype(int)
    for index in np.ndindex(2, 2):
        real = Fraction(int(sums[index])) / 8 + Fraction(scale) * (int(before[index]) - zero)
        assert got[index] == oracle.clamp(real / 2 + 1, (-128, 127), 0)


def test_the_order_of_scales_post_operations_and_destination():
    """Post-operations are computed in f32 before the destination's scale and zero point."""
    src, weights = np.uint8([[200]]), np.int8([[-1]])
    attributes = Attributes()
    attributes.append_eltwise("relu")
    assert matmul(src, weights, Values(dst_zero=5), attributes=attributes).tolist() == [[5]]
    attributes = Attributes()
    attributes.append_binary("add", np.float32([[201.5]]))
    assert matmul(
        src, weights, Values(dst_scale=0.5, dst_zero=5), attributes=attributes
    ).tolist() == [[8]]


# -- the two examples of the page ------------------------------------------------------------------


def test_first_example_weights_with_a_scale_for_each_output_channel(cli, tmp_path):
    """wei_s8(oc, ic, kh, kw) <- wei_f32(oc, ic, kh, kw) / scale(oc): mask 1 << 0, OC scales."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((6, 3, 2, 2)).astype(np.float32)
    scales = (rng.random(6) * 0.02 + 0.005).astype(np.float32)
    np.save(tmp_path / "w.npy", weights)
    np.save(tmp_path / "s.npy", scales)
    got = cli(
        "quant", "reorder", tmp_path / "w.npy", "--dst-scale", f"{tmp_path}/s.npy", "--dst-mask", "1",
        "--out", tmp_path / "q.npy", "--emit", tmp_path / "programs", "--format", "json",
    )  # fmt: skip
    assert got.code == 0, got.err
    report = json.loads(got.out)
    assert [f["mismatches"] for f in report["forms"]] == [0, 0]
    stored = np.load(tmp_path / "q.npy")
    assert (stored.dtype, stored.shape) == (np.int8, weights.shape)
    for oc in range(6):
        m = oracle.reciprocal(Fraction(float(scales[oc])))
        for value, code in zip(weights[oc].flat, stored[oc].flat, strict=True):
            assert code == oracle.onednn(Fraction(float(value)), None, m, 0, 8, True)
    for program in sorted((tmp_path / "programs").glob("*.pto")):
        assert cli("run", program).code == 0


@pytest.mark.parametrize("mask", [0, 1, 2, 4, 5, 7])
def test_reorders_with_any_mask(cli, mask):
    got = cli("quant", "reorder", "randn:f32:3x4x5:2", "--dst-mask", str(mask), "--dst", "ui8",
              "--dst-zp", "130", "--format", "json")  # fmt: skip
    assert got.code == 0, got.err
    report = json.loads(got.out)
    dims = [n for d, n in enumerate((3, 4, 5)) if mask >> d & 1]
    assert len(report["scales"]) == math.prod(dims)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["randn:f32:3x4", "--dst-mask", "4"], "names dimensions beyond"),
        (["randn:f32:3x4", "--dst-mask", "1", "--dst-scale", "1,2"], "calls for 3 values, not 2"),
        (["randint:i8:3x4"], "weights are f32"),
        (["randn:f32:3x4", "--dst", "i16"], "--dst is i8 or ui8"),
    ],
)
def test_wrong_reorders(cli, arguments, words):
    got = cli("quant", "reorder", *arguments)
    assert (got.code, words in got.err) == (2, True), got.err


def test_second_example_a_convolution_with_scales_of_output_channels(cli, tmp_path):
    """Scale and zero point of source and destination with mask 0, scales of weights with 1 << 0."""
    rng = np.random.default_rng(2)
    src = rng.integers(-128, 128, (1, 3, 5, 5)).astype(np.int8)
    weights = rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    scales = (rng.random(4) * 0.02 + 0.005).astype(np.float32)
    for name, array in (("x", src), ("w", weights), ("s", scales)):
        np.save(tmp_path / f"{name}.npy", array)
    got = cli(
        "quant", "plan", "--conv", "--src", tmp_path / "x.npy", "--weights", tmp_path / "w.npy",
        "--src-scale", "0.05", "--src-zp", "7", "--wei-scales", f"{tmp_path}/s.npy", "--wei-mask", "1",
        "--dst-scale", "1.5", "--dst-zp", "-3", "--dst", "i8", "--src-mask", "0", "--dst-mask", "0",
        "--mask", "src_zp=0", "--mask", "dst_zp=0", "--out", tmp_path / "y.npy", "-q",
    )  # fmt: skip
    assert got.code == 0, got.err
    made = np.load(tmp_path / "y.npy")
    attributes = Attributes()
    for name, mask in (("src", 0), ("weights", 1), ("dst", 0)):
        attributes.set_scales_mask(name, mask)
    for name in ("src", "dst"):
        attributes.set_zero_points_mask(name, 0)
    values = Values(0.05, 7, scales, 1.5, -3)
    want = convolution(src, weights, values, attributes=attributes, dst="i8")
    np.testing.assert_array_equal(made, want)
    wide = src.astype(int) - 7
    for oc, y, x in np.ndindex(4, 3, 3):
        total = int((wide[0, :, y : y + 3, x : x + 3] * weights[oc].astype(int)).sum())
        t = oracle.rounded(Fraction(total), "f32")
        for factor in (np.float32(0.05), scales[oc]):
            t = oracle.rounded(t * Fraction(float(factor)), "f32")
        m = oracle.reciprocal(Fraction(1.5))
        assert made[0, oc, y, x] == oracle.onednn(t, None, m, -3, 8, True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--src-mask", "1"], "scales of src with mask 1"),
        (["--dst-mask", "2"], "scales of dst with mask 2"),
        (["--mask", "src_zp=1"], "zero points of src with mask 1"),
        (["--mask", "weights_zp=0"], "zero points of int8 matmul weights"),
    ],
)
def test_masks_that_no_primitive_has(cli, option, words):
    """The page: implementations support a subset of masks; primitive creation fails for others."""
    got = cli("quant", "plan", "--src", "randint:i8:4x8", "--weights", "randint:i8:8x4", *option)
    assert (got.code, "PTO8203" in got.err, words in got.err) == (5, True, True), got.err


def test_zero_points_and_scales_are_single_for_int8():
    attributes = Attributes()
    attributes.set_scales_mask("src", 2)
    with pytest.raises(UnsupportedError):
        matmul(np.ones((2, 3), np.int8), np.ones((3, 2), np.int8), attributes=attributes)


# -- plans -----------------------------------------------------------------------------------------

CHAINS = [
    ["--post-op", "gelu_erf"], ["--post-op", "swish:1.5", "--post-op", "clip:-1:6"],
    ["--post-op", "logistic"], ["--post-op", "binary_mul=randn:f32:20:1"],
    ["--post-op", "binary_add=randn:f32:9x20:2", "--post-op", "tanh"],
    ["--post-op", "sum:0.25:3", "--dst-before", "randint:DST:9x20:3"],
]  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: c[1])
@pytest.mark.parametrize("dst", ["ui8", "i8", "f32"])
def test_plans_with_post_operations(cli, chain, dst, tmp_path):
    """Both targets give oneDNN's bits; what no tile operation computes to the bit the host does."""
    chain = [c.replace("DST", "i8" if dst == "f32" else dst) for c in chain]
    got = cli(
        "quant", "plan", "--src", "randint:ui8:9x40:1", "--weights", "randint:i8:40x20:2",
        "--src-scale", "0.02", "--wei-scales", "0.01", "--dst-scale", "0.013", "--bias", "0.5", *chain,
        "--dst", dst, "--format", "json", "--out", tmp_path / "y.npy",
    )  # fmt: skip
    assert got.code == 0, got.err
    report = json.loads(got.out)
    assert report["on_host"]
    assert {f["mismatches"] for f in report["forms"]} == {0}
    assert not report["fixpipe"]["possible"]
    assert np.load(tmp_path / "y.npy").shape == (9, 20)


@pytest.mark.parametrize("number", [math.nan, 1e39, -1e39])
def test_parameters_are_numbers_of_f32(number):
    with pytest.raises(UsageError, match="is no number of f32"):
        eltwise("relu", number)
    with pytest.raises(UsageError, match="is no number of f32"):
        Attributes().append_sum(1.0, number)
    assert eltwise("clip", -math.inf, math.inf).beta == math.inf
