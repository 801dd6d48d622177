"""Types and values of ONNX models at their edges: each oracle's own answers, bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ptosim.models import onnx_run
from ptosim.models.onnx_model import graph_of
from tests.models.lower.models import one
from tests.oracle import quant as oracle

pytestmark = pytest.mark.sampled(3)

TARGETS = ("a2a3", "a5")
EDGES = np.float32(
    [np.nan, -np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**31 - 128, 3e38, -3e38, 1e-45, 0.5]
)


def outcome_of(model, feeds, name="reference", targets=TARGETS):
    found = onnx_run.run(graph_of(model), feeds, targets, name)
    assert found.identical("exact")
    return found


def values(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(40)


# -- numbers that are none, and numbers that are too large -----------------------------------------


@pytest.mark.sampled(3, 15)
@pytest.mark.parametrize(
    "zero", [np.uint8(0), np.uint8(130), np.int8(0), np.int8(-7), np.int8(9), np.int16(-300)]
)
@pytest.mark.parametrize("name", ["reference", "runtime", "onnx"])
@pytest.mark.parametrize("columns", [False, True])
def test_nan_infinities_and_large_quotients(zero, name, columns):
    """onnx.reference goes through int32, where they become -2^31 and the zero point wraps;
    onnxruntime gives the limits, and NaN the lower one."""
    x = np.concatenate([EDGES, values(11, 1)]).reshape(2, 11)
    kind = helper.np_dtype_to_tensor_dtype(zero.dtype)
    scale = np.ones(11, np.float32) if columns else np.float32(1)
    shift = np.full(11, zero) if columns else zero
    model = one("QuantizeLinear", {"x": x, "s": scale, "z": shift}, kind, [2, 11], ("x",))
    got = outcome_of(model, {"x": x}, name).results["a2a3", "exact"]["y"]
    formula = oracle.onnx_ref if name == "reference" else oracle.onnx
    bits, signed = 8 * zero.itemsize, zero.dtype.kind == "i"
    one_ = Fraction(1)
    want = [
        formula(oracle.number(float(v)), one_, one_, int(zero), bits, signed) for v in x.reshape(-1)
    ]
    assert got.reshape(-1).tolist() == want


# -- integers as input -----------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
def test_int32_input_in_every_opset(opset):
    """The reference divides integers in f64: as if the quotient were exact."""
    rng = np.random.default_rng(opset)
    near = rng.integers(-40, 40, 60) * 7 + rng.integers(-1, 2, 60)
    x = np.concatenate(
        [near, rng.integers(-(2**31), 2**31, 60), [2**31 - 1, -(2**31), 0, 2**24 + 1]]
    )
    x = x.astype(np.int32).reshape(4, -1)
    for scale in (np.float32(2), np.float32(0.3), np.float32(14), np.float32(2**20 + 1)):
        scale_in = scale if opset < 19 or opset >= 23 else np.int32(max(round(float(scale)), 1))
        model = one(
            "QuantizeLinear", {"x": x, "s": scale_in, "z": np.int8(3)}, TensorProto.INT8,
            list(x.shape), ("x",), opset,
        )  # fmt: skip
        if opset in (19, 21):  # x and scale have one type: integers by integers
            model = one(
                "QuantizeLinear", {"x": x, "s": np.int32(7), "z": np.int8(3)}, TensorProto.INT8,
                list(x.shape), ("x",), opset,
            )  # fmt: skip
            scale = np.int32(7)
        got = outcome_of(model, {"x": x}, "reference").results["a5", "exact"]["y"]
        assert got.reshape(-1).tolist() == [
            _exactly(int(v), Fraction(float(scale)), 3) for v in x.flat
        ]


def _exactly(x: int, scale: Fraction, zero: int) -> int:
    """Rounded in f64, then through int32."""
    whole = oracle.nearest_even(x / scale)
    if abs(whole) >= 1 << 31:
        whole = -(1 << 31)
    whole = (whole + zero + (1 << 31)) % (1 << 32) - (1 << 31)
    return min(max(whole, -128), 127)


def test_int32_input_per_axis():
    rng = np.random.default_rng(3)
    x = (rng.integers(-200, 200, (5, 40)) * 3).astype(np.int32)
    scale = (rng.random(5) * 6 + 0.5).astype(np.float32)
    model = one(
        "QuantizeLinear", {"x": x, "s": scale, "z": np.full(5, 100, np.uint8)}, TensorProto.UINT8,
        [5, 40], ("x",), 13, axis=0,
    )  # fmt: skip
    outcome_of(model, {"x": x})


# -- dequantisation --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_dequantise_16_bits(dtype, axis):
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    q = rng.integers(info.min, info.max + 1, (6, 70)).astype(dtype)
    q[0, :4] = [info.min, info.max, 0, info.max // 2 + 1]
    size = () if axis is None else (q.shape[axis],)
    scale = (rng.random(size) * 0.02 + 0.001).astype(np.float32)
    zero = rng.integers(info.min, info.max + 1, size).astype(dtype)
    attrs = {} if axis is None else {"axis": axis}
    model = one("DequantizeLinear", {"x": q, "s": scale, "z": zero}, TensorProto.FLOAT, [6, 70], ("x",), **attrs)  # fmt: skip
    got = outcome_of(model, {"x": q}).results["a2a3", "exact"]["y"]
    if axis is None:
        s, z = Fraction(float(scale)), int(zero)
        for code, value in zip(q[0], got[0], strict=True):
            assert Fraction(float(value)) == oracle.real_of_scaled(int(code) - z, s)


# -- narrow floats ---------------------------------------------------------------------------------

NARROW = {
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
NAMES = {"FLOAT8E4M3FN": "f8E4M3FN", "FLOAT8E5M2": "f8E5M2",
         "FLOAT8E4M3FNUZ": "f8E4M3FNUZ", "FLOAT8E5M2FNUZ": "f8E5M2FNUZ"}  # fmt: skip


def narrow_values() -> np.ndarray:
    """Edges of all four formats: limits, ties beyond them, infinities, NaN, zeros, subnormals."""
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        448,
        464,
        465,
        -480,
        240,
        248,
        249,
        57344,
        61440,
        61441,
    ]
    tiny = [2.0**-k for k in range(6, 18)]
    x = np.float32([*edges, *tiny, *(-1.5 * t for t in tiny), *values(25, 8)])
    return x.reshape(8, 8)


@pytest.mark.parametrize("word", NARROW)
@pytest.mark.parametrize("saturate", [0, 1])
def test_float8_with_and_without_saturation(word, saturate):
    """By the operator's two tables, on A5; A2/A3 has no tiles of such types."""
    x = narrow_values()
    kind = getattr(TensorProto, word)
    inputs = {"x": x, "s": np.float32(1), "z": np.asarray(0, NARROW[word])}
    model = one("QuantizeLinear", inputs, kind, [8, 8], ("x",), 19, saturate=saturate)
    found = outcome_of(model, {"x": x}, "onnx")
    assert {key[0] for key in found.results} == {"a5"}
    assert {key[0] for key in found.refused} == {"a2a3"}
    codes = found.results["a5", "exact"]["y"].view(np.uint8).reshape(-1)
    for value, code in zip(x.reshape(-1), codes, strict=True):
        want = oracle.narrow_code(NAMES[word], float(value), bool(saturate))
        if math.isnan(value):
            assert np.isnan(np.uint8(code).view(NARROW[word]))
        else:
            assert code == want, value


@pytest.mark.parametrize("word", NARROW)
def test_float8_back(word):
    q = np.arange(256, dtype=np.uint8).view(NARROW[word]).reshape(4, 64)
    inputs = {"x": q, "s": np.float32(0.3)}
    model = one("DequantizeLinear", inputs, TensorProto.FLOAT, [4, 64], ("x",), 19)
    got = outcome_of(model, {"x": q}, "onnx", ("a5",)).results["a5", "exact"]["y"]
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, q.astype(np.float32) * np.float32(0.3))


def test_float4_both_ways():
    x = np.float32([[0.1, 0.25, 0.26, 0.75, 1.75, 2.5, 5, 7, -100, -0.2, 3, -3.5]])
    kind = TensorProto.FLOAT4E2M1
    zero = np.asarray(0, ml_dtypes.float4_e2m1fn)
    model = one(
        "QuantizeLinear", {"x": x, "s": np.float32(1), "z": zero}, kind, [1, 12], ("x",), 23
    )
    got = outcome_of(model, {"x": x}, "onnx").results["a5", "exact"]["y"].reshape(-1)
    codes = got.view(np.uint8) & 15
    assert codes.tolist() == [oracle.narrow_code("f4E2M1FN", float(v), True) & 15 for v in x[0]]
    q = got.reshape(1, 12)
    model = one(
        "DequantizeLinear", {"x": q, "s": np.float32(0.5)}, TensorProto.FLOAT, [1, 12], ("x",), 23
    )
    back = outcome_of(model, {"x": q}, "onnx", ("a5",)).results["a5", "exact"]["y"]
    np.testing.assert_array_equal(back, q.astype(np.float32) * np.float32(0.5))


# -- the type of the division ----------------------------------------------------------------------


@pytest.mark.sampled(3, 8)
@pytest.mark.parametrize("x_type", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("s_type", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["reference", "onnx"])
def test_operands_of_two_types(x_type, s_type, name):
    """Opset 23: onnx.reference promotes as NumPy does (f32 by f16 is f32), the operator text takes
    the type of the scale."""
    rng = np.random.default_rng(12)
    x = (rng.integers(-300, 300, (4, 50)) * 0.185).astype(np.float32).astype(x_type)
    scale = np.asarray(0.37, np.float32).astype(s_type)
    model = one(
        "QuantizeLinear",
        {"x": x, "s": scale, "z": np.int8(3)},
        TensorProto.INT8,
        [4, 50],
        ("x",),
        23,
    )
    got = outcome_of(model, {"x": x}, name).results["a5", "exact"]["y"].reshape(-1)
    words = {np.float32: "f32", np.float16: "f16", ml_dtypes.bfloat16: "bf16"}
    work = words[s_type] if name == "onnx" or x_type is s_type else "f32"
    s = oracle.rounded(Fraction(float(scale)), work)
    for value, code in zip(x.reshape(-1), got, strict=True):
        q = oracle.rounded(oracle.divided(oracle.rounded(Fraction(float(value)), work), s), work)
        assert code == min(max(oracle.nearest_even(q) + 3, -128), 127)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(ml_dtypes.bfloat16, TensorProto.BFLOAT16), (ml_dtypes.int4, TensorProto.INT4),
     (ml_dtypes.uint4, TensorProto.UINT4), (ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2)],
)  # fmt: skip
def test_inputs_as_np_save_writes_them(cli, tmp_path, dtype, kind):
    """NumPy keeps the width of such elements and nothing else; codes of the width are taken too."""
    x = np.arange(0, 8).astype(np.float32).astype(dtype).reshape(2, 4)
    op, out = ("QuantizeLinear", TensorProto.INT8) if kind == TensorProto.BFLOAT16 else ("DequantizeLinear", TensorProto.FLOAT)  # fmt: skip
    inputs = {
        "x": x,
        "s": np.float32(1).astype(dtype) if kind == TensorProto.BFLOAT16 else np.float32(2),
    }
    if op == "QuantizeLinear":
        inputs["z"] = np.int8(0)
    onnx.save(one(op, inputs, out, [2, 4], ("x",)), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    codes = x.view(f"u{x.dtype.itemsize}") if kind in (TensorProto.BFLOAT16, TensorProto.FLOAT8E5M2) else x.astype(np.int8)  # fmt: skip
    np.save(tmp_path / "codes.npy", codes)
    want = x.astype(np.float32) * (1 if op == "QuantizeLinear" else 2)
    for file in ("x", "codes"):
        got = cli(
            "quant", "onnx", tmp_path / "m.onnx", "--arg", f"x={tmp_path}/{file}.npy", "--target", "a5",
            "--oracle", "onnx", "--out", f"y={tmp_path}/y.npy",
        )  # fmt: skip
        assert got.code == 0, got.err
        assert np.load(tmp_path / "y.npy").astype(np.float32).tolist() == want.tolist()


def test_outputs_that_np_load_reads_back(cli, tmp_path):
    """Codes of float8, numbers of int4; they are inputs of the next model as they are."""
    x = np.float32([[1, 2, -3, 7]])
    for dtype, kind, codes in (
        (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN, np.uint8([[0x38, 0x40, 0xC4, 0x4E]])),
        (ml_dtypes.int4, TensorProto.INT4, np.int8([[1, 2, -3, 7]])),
    ):
        inputs = {"x": x, "s": np.float32(1), "z": np.asarray(0, dtype)}
        onnx.save(one("QuantizeLinear", inputs, kind, [1, 4], ("x",)), tmp_path / "m.onnx")
        np.save(tmp_path / "x.npy", x)
        got = cli(
            "quant", "onnx", tmp_path / "m.onnx", "--arg", f"x={tmp_path}/x.npy", "--target", "a5",
            "--oracle", "onnx", "--out", f"y={tmp_path}/y.npy",
        )  # fmt: skip
        assert got.code == 0, got.err
        made = np.load(tmp_path / "y.npy")
        assert (made.dtype, made.tolist()) == (codes.dtype, codes.tolist())
