"""Scales per tensor, axis and block against indexing written out, and dequantisation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.granularity import PIECE, covering, pieces
from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import schemes, storage
from ptosim.machine.quant.quantize import quantize

rng = np.random.default_rng(23)


def one_by_one(x, scale_of, zero_of, name, dtype):
    """Quantise every element alone with the scale that `scale_of(index)` picks."""
    result = np.empty(x.shape, np.int64)
    for index in np.ndindex(*x.shape):
        result[index] = int(
            quantize(
                x[index], scheme=name, scale=scale_of(index), zero_point=zero_of(index), dtype=dtype
            )
        )
    return result


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_axis(axis):
    x = (rng.standard_normal((3, 4, 5)) * 20).astype(np.float32)
    scales = (rng.random(x.shape[axis]) + 0.1).astype(np.float32)
    zeros = rng.integers(-9, 9, x.shape[axis])
    got = quantize(x, scheme="onnx", scale=scales, zero_point=zeros, dtype="i8", axis=axis)
    expected = one_by_one(x, lambda i: scales[i[axis]], lambda i: zeros[i[axis]], "onnx", "i8")
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("axis", "block"), [(0, 2), (1, 3), (1, 7), (2, 1), (2, 4), (-1, 9)])
def test_blocks_with_a_short_last_one(axis, block):
    x = (rng.standard_normal((4, 7, 9)) * 20).astype(np.float32)
    shape = list(x.shape)
    shape[axis] = -(-shape[axis] // block)
    scales = (rng.random(shape) + 0.1).astype(np.float32)
    zeros = rng.integers(0, 9, shape)

    def pick(table):
        def at(index):
            where = list(index)
            where[axis] //= block
            return table[tuple(where)]

        return at

    got = quantize(
        x, scheme="pto-hw", scale=scales, zero_point=zeros, dtype="ui8", axis=axis, block=block
    )
    expected = one_by_one(x, pick(scales), pick(zeros), "pto-hw", "ui8")
    np.testing.assert_array_equal(got, expected)


def test_blocks_along_several_axes():
    x = (rng.standard_normal((4, 6)) * 20).astype(np.float32)
    scales = (rng.random((2, 3)) + 0.1).astype(np.float32)
    got = quantize(x, scheme="mlir", scale=scales, dtype="i8")
    expected = one_by_one(x, lambda i: scales[i[0] // 2, i[1] // 2], lambda i: 0, "mlir", "i8")
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", schemes())
def test_pieces_do_not_show(name):
    """Larger than a piece, with rows that do not divide it."""
    count = PIECE + 977
    x = (rng.standard_normal((3, count)) * 40).astype(np.float32)
    x[1, -1] = np.nan
    scale = np.float32([[0.3], [0.7], [1.1]])
    whole = quantize(x, scheme=name, scale=scale, zero_point=1, dtype="i8")
    for row in range(3):
        for part in (slice(0, 50), slice(count - 50, count), slice(PIECE - 20, PIECE + 20)):
            alone = quantize(
                x[row, part], scheme=name, scale=scale[row, 0], zero_point=1, dtype="i8"
            )
            np.testing.assert_array_equal(whole[row, part], alone)


@pytest.mark.parametrize(
    "shape", [(5,), (3, 4), (7, 1, 50_000), (1, 200_000), (100_000, 3), (2, 0)]
)
def test_pieces_cover_everything_once(shape):
    seen = np.zeros(shape, np.int8)
    for index in pieces(shape, 4096):
        assert seen[index].size <= 4096
        seen[index] += 1
    assert (seen == 1).all()


def test_regions_of_a_vector_scale_need_an_axis():
    with pytest.raises(UsageError) as caught:
        covering((4, 6), (6,))
    assert "name the axis" in (caught.value.help or "")


# -- dequantisation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i2", "ui2", "i4", "ui4", "i8", "ui8", "i16", "ui16"])
def test_every_integer(dtype):
    kind = storage(dtype)
    values = np.arange(kind.low, kind.high + 1)
    stored = values.astype(np.int8 if kind.array.kind == "V" else kind.array)
    scale = np.float32(0.1)
    for name in ("onnx", "mlir", "mlir-lower", "onednn", "torch-quant", "pto-hw"):
        zero = min(3, int(kind.high))
        got = dequantize(
            stored.view(kind.array), scheme=name, scale=scale, zero_point=zero, dtype="f32"
        )
        expected = ((values - zero).astype(np.float64) * np.float64(scale)).astype(np.float32)
        np.testing.assert_array_equal(got, expected)


def test_wide_integers_round_before_the_difference():
    stored = np.int32([16777217, 16777219, -(2**31), 2**31 - 1])
    onnx = dequantize(stored, scheme="onnx", scale=np.float32(0.5), zero_point=16777217)
    np.testing.assert_array_equal(onnx, np.float32([0.0, 2.0, -1082130432.0, 1065353216.0]))


def test_types_of_the_result():
    stored = np.int8([-100, 3])
    half = dequantize(stored, scheme="onnx", scale=np.float16(0.1), zero_point=5)
    assert half.dtype == np.float16
    assert half[0] == np.float16(np.float32(-105) * np.float32(np.float16(0.1)))
    single = dequantize(stored, scheme="pto-hw", scale=np.float16(0.1), zero_point=5)
    assert single.dtype == np.float32
    sixteen = np.uint16([2999])
    assert dequantize(sixteen, scheme="mlir", scale=0.1, zero_point=5, dtype="f16")[0] == 299.5
    with pytest.raises(UsageError, match="result of a dequantisation"):
        dequantize(stored, scheme="onnx", scale=1.0, dtype="i8")
    with pytest.raises(UsageError, match="integers or narrow floats"):
        dequantize(np.float32([1.0]), scheme="onnx", scale=1.0)
    with pytest.raises(UsageError, match="same shape"):
        dequantize(stored, scheme="onnx", scale=[1.0, 2.0], zero_point=[1, 2, 3], axis=0)


def test_block_scales_in_e8m0_are_powers_of_two():
    import ml_dtypes

    codes = np.array([[0.5, 6, -3, 1]], np.float32).astype(ml_dtypes.float4_e2m1fn)
    scales = np.array([[2.0**-3, 2.0**5]], np.float32).astype(ml_dtypes.float8_e8m0fnu)
    got = dequantize(codes, scheme="onnx", scale=scales, axis=1, block=2)
    np.testing.assert_array_equal(got, np.float32([[0.0625, 0.75, -96, 32]]))


def test_zero_points_of_lowered_mlir_wrap():
    stored = np.int8([0, 44])
    got = dequantize(stored, scheme="mlir-lower", scale=1.0, zero_point=300)
    assert [Fraction(float(v)) for v in got] == [-44, 0]
