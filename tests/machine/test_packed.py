"""Packed elements as arguments: arrays of their parts, or of whole elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.types import DType, PtrType
from ptosim.language.syntax.parser import parse_type
from ptosim.launch.arguments import array_argument
from ptosim.launch.generated import random_array
from ptosim.machine.pages import from_bytes, to_bytes


def element(text: str) -> DType:
    type_ = parse_type(f"!pto.ptr<{text}>").type
    assert isinstance(type_, PtrType)
    return type_.elem


@pytest.mark.parametrize(
    ("text", "parts", "data"),
    [
        # the first of two is at the lower address: 1.0 is 3C00, 2.0 is 4000
        ("vector<2xf16>", np.array([1, 2], np.float16), [0x00, 0x3C, 0x00, 0x40]),
        ("!pto.bf16x2", np.array([1, 2], ml_dtypes.bfloat16), [0x80, 0x3F, 0x00, 0x40]),
        ("vector<2xi8>", np.array([-1, 2], np.int8), [0xFF, 0x02]),
        ("!pto.hif8x2", np.array([0x08, 0x10], np.uint8), [0x08, 0x10]),
        # the low nibble first: 1.0 is code 2, -6.0 is code F
        ("!pto.f4E2M1x2", np.array([1, -6], ml_dtypes.float4_e2m1fn), [0xF2]),
        ("vector<4xf8E5M2>", np.array([1, 2, 0, -1], ml_dtypes.float8_e5m2), [0x3C, 0x40, 0, 0xBC]),
    ],
)
def test_parts_are_put_together_from_the_low_bits_on(text, parts, data):
    dtype = element(text)
    packed = array_argument("x", dtype, parts)
    assert packed.shape == (1,)
    assert to_bytes(packed, dtype).tolist() == data
    back = from_bytes(np.array(data, np.uint8), dtype, (1,))
    assert back.tobytes() == bytes(data)


def test_whole_elements_are_taken_as_they_are():
    codes = np.array([0x21, 0x43], np.uint8)
    assert array_argument("x", element("!pto.f4E2M1x2"), codes) is codes


def test_numbers_of_python_are_parts():
    packed = array_argument("x", element("vector<2xf32>"), [[1.0, 2.0, 3.0, 4.0]])
    assert packed.shape == (1, 2)
    assert packed.view(np.float32).tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_half_an_element_is_none():
    with pytest.raises(UsageError, match="no whole number"):
        array_argument("x", element("vector<2xf16>"), np.zeros(3, np.float16))


def test_made_up_elements_have_made_up_parts():
    made = random_array(element("vector<2xf32>"), (4, 3), np.random.default_rng(0))
    assert made.shape == (4, 3)
    assert np.abs(made.view(np.float32)).max() < 10  # normal numbers, not patterns of bits
