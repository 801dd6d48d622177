"""What an output can be compared with, and distances of floats in units in the last place."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.launch.compare import compare
from ptosim.launch.description import Tolerance
from ptosim.shell.main import main

_INTEGERS = {8: "<q", 4: "<i", 2: "<h"}


def _rank(value: Any) -> int:
    """The number of a float among all of its type in order, by Python's integers."""
    data = value.tobytes()
    (bits,) = struct.unpack(_INTEGERS[len(data)], data)
    return bits if bits >= 0 else -(bits + (1 << (8 * len(data) - 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_distance_of_floats_is_that_of_a_slow_model(dtype):
    """Also over the whole range, which 64 bits with a sign do not hold."""
    info = ml_dtypes.finfo(dtype)
    ends = [0.0, float(info.smallest_subnormal), 1.0, 1.5, float(info.max), np.inf]
    values = np.array([s * v for v in ends for s in (1, -1)], np.float64).astype(dtype)
    for one, other in itertools.product(values, repeat=2):
        got, expected = np.array([one]), np.array([other])
        apart = abs(_rank(one) - _rank(other))
        found = compare("x", got, expected, Tolerance(ulp=apart))
        assert found.passed
        assert found.max_ulp == (apart if np.isfinite(float(one) - float(other)) else 0)
        if apart:
            assert not compare("x", got, expected, Tolerance(ulp=apart - 1)).passed


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.uint8])
def test_the_distance_of_whole_numbers(dtype):
    info = np.iinfo(dtype)
    got, expected = (
        np.array([info.max, info.min, 3], dtype),
        np.array([info.min, info.max, 3], dtype),
    )
    apart = int(info.max) - int(info.min)
    assert compare("x", got, expected, Tolerance(ulp=apart)).passed
    assert compare("x", got, expected, Tolerance(ulp=apart - 1)).mismatches == 2


_NO_VALUES = [
    *(np.zeros(4, f"V{n}") for n in (1, 2, 3, 5, 16)),
    np.zeros(4, np.complex64),
    np.zeros(4, np.complex128),
    np.zeros(4, "M8[s]"),
    np.zeros(4, "U2"),
    np.zeros(4, [("a", "f4"), ("b", "f4")]),
    np.array([10**400] * 4),
    np.array([2**64] * 4),
    np.array([None] * 4),
]


@pytest.mark.parametrize("expected", _NO_VALUES, ids=lambda a: f"{a.dtype}-{str(a[0])[:5]}")
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_what_is_no_value_is_refused(expected, dtype):
    """One message with the types, never an exception of NumPy; an imaginary part is not dropped."""
    with pytest.raises(ptosim.UsageError, match="cannot be compared"):
        compare("x", np.zeros(4, dtype), expected, Tolerance())


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "i4", "u2"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.int64])
def test_an_expectation_in_the_other_byte_order(kind, dtype):
    expected = np.arange(1, 5).astype(f">{kind}")
    if kind == "u2" or np.dtype(kind).itemsize != np.dtype(dtype).itemsize:
        assert compare("x", np.arange(1, 5).astype(dtype), expected, Tolerance()).passed
    same = np.arange(1, 5).astype(kind)
    assert compare("x", same, expected, Tolerance()).passed


def test_another_float_of_the_width_is_a_value_and_no_code():
    """bf16 is not what f16 has in its bits; raw bytes are."""
    got = np.array([1.0, 2.0], np.float16)
    assert compare("x", got, got.astype(ml_dtypes.bfloat16), Tolerance()).passed
    assert compare("x", got, got.view("V2"), Tolerance()).passed
    with pytest.raises(ptosim.UsageError, match="not representable"):
        compare("x", got, np.array([1e30, 1.0], ml_dtypes.bfloat16), Tolerance())


_F64 = "module { func.func @k(%x: memref<4xf64>) { return } }"


def test_an_output_of_f64(tmp_path):
    path = tmp_path / "f64.pto"
    path.write_text(_F64)
    words = ["run", str(path), "--target", "a5", "--arg", "x=arange:f64:4"]
    assert main([*words, "--expect", "x=arange:f64:4"]) == 0
    assert main([*words, "--expect", "x=zeros:f64:4"]) == 1
    assert main(["diff", str(path), str(path), "--target", "a5"]) == 0
