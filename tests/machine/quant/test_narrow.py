"""Casts into floats of 8 bits and less, exhaustively: every code, every middle, their neighbours."""

from __future__ import annotations

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import storage
from ptosim.machine.quant.quantize import quantize
from tests.oracle import quant as oracle


def probes(name: str) -> np.ndarray:
    """Values of all codes, the middles between neighbours, and what is one ulp off."""
    last = oracle.NARROW[name][2]
    values = [float(oracle.narrow_value(name, code)) for code in range(last + 2)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    near = np.array([*values, *middles, values[-1] * 4, 3e38, 1e-45], np.float32)
    around = np.concatenate(
        [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(0))]
    )
    return np.concatenate([around, -around, [np.inf, -np.inf, np.nan]]).astype(np.float32)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("name", [n for n in oracle.NARROW if n.startswith("f8")])
def test_fp8(name, saturate):
    x = probes(name)
    got = quantize(x, scheme="onnx", scale=1.0, dtype=name, saturate=saturate)
    expected = [oracle.narrow_code(name, float(v), saturate) for v in x]
    wrong = [
        (v, hex(g), hex(e))
        for v, g, e in zip(x, got.view(np.uint8).tolist(), expected, strict=True)
        if g != e
    ]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("name", list(oracle.SIGNS))
def test_smaller_formats_always_saturate(name):
    x = probes(name)
    for saturate in (True, False):
        got = quantize(x, scheme="mlir", scale=1.0, dtype=name, saturate=saturate)
        expected = [oracle.narrow_code(name, float(v), saturate) for v in x]
        wrong = [
            (v, g, e)
            for v, g, e in zip(x, got.view(np.uint8).tolist(), expected, strict=True)
            if g != e
        ]
        assert not wrong, wrong[:5]


def test_zero_point_of_the_smaller_formats_is_added():
    """ONNX adds it even where it is 0, which makes a negative zero positive."""
    x = np.float32([-0.0, 0.0, 1.0])
    got = quantize(x, scheme="onnx", scale=1.0, zero_point=0, dtype="f4E2M1FN").view(np.uint8)
    np.testing.assert_array_equal(got, [0, 0, 2])
    moved = quantize(x, scheme="onnx", scale=1.0, zero_point=2, dtype="f4E2M1FN").view(np.uint8)
    np.testing.assert_array_equal(moved, [4, 4, 5])


@pytest.mark.parametrize("name", oracle.NARROW)
def test_every_code_decodes(name):
    last = oracle.NARROW[name][2]
    codes = np.arange(last + 1, dtype=np.uint8).view(storage(name).array)
    got = dequantize(codes, scheme="onnx", scale=np.float32(0.5))
    expected = [oracle.narrow_value(name, c) / 2 for c in range(last + 1)]
    assert [Fraction(float(v)) for v in got] == expected


def test_overflow_of_the_runtime():
    """onnxruntime's two odd casts at the edge, from executed cases."""
    e4m3 = quantize(
        np.float32([480, -480, 479, 481]), scheme="ort", scale=1.0, dtype="e4m3", saturate=False
    )
    np.testing.assert_array_equal(e4m3.view(np.uint8), [0x7E, 0xFE, 0x7F, 0x7F])
    e5m2 = quantize(
        np.float32([61439, 61440, 61441, -61440, 65536]),
        scheme="ort",
        scale=1.0,
        dtype="e5m2",
        saturate=False,
    )
    np.testing.assert_array_equal(e5m2.view(np.uint8), [0x7B, 0x7E, 0x7E, 0xFE, 0x7C])


def test_scaled_in_half_precision_first():
    x = np.float16([3.0, 100.0])
    scale = np.float16(0.3)
    got = quantize(x, scheme="onnx", scale=scale, dtype="f8E4M3FN")
    expected = (x / scale).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))
