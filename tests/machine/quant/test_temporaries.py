"""Large tensors are worked on in blocks: what is in memory beside input and output stays small."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from ptosim.machine.quant.granularity import PIECE
from ptosim.machine.quant.inverse import dequantize
from ptosim.machine.quant.parameters import schemes
from ptosim.machine.quant.quantize import quantize

COUNT = 8 * PIECE
LIMIT = 4 * PIECE * 8 + 200_000
"""Four temporaries of one block of 8-byte values, and what the interpreter needs."""


def beyond_the_result(function) -> int:
    function()  # modules and tables are loaded now
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", schemes())
def test_quantise(name):
    x = (np.random.default_rng(4).standard_normal(COUNT) * 8).astype(np.float32)
    x[:100] = np.repeat(np.float32([np.nan, np.inf, -np.inf, 3e38]), 25)
    given = {"scheme": name, "scale": np.float32(0.1), "zero_point": 3, "dtype": "i8"}
    assert beyond_the_result(lambda: quantize(x, **given)) <= LIMIT


def test_rows_blocks_and_float8():
    x = np.random.default_rng(4).standard_normal((COUNT // 512, 512)).astype(np.float32)
    rows = np.full(len(x), 0.1, np.float32)
    assert beyond_the_result(lambda: quantize(x, scheme="onnx", scale=rows, axis=0)) <= LIMIT
    blocks = np.full((len(x), 16), 0.1, np.float32)
    given = {"scheme": "onnx", "scale": blocks, "axis": 1, "block": 32}
    grown = blocks.nbytes * 4  # scales in their types
    assert beyond_the_result(lambda: quantize(x, **given)) <= LIMIT + grown
    given = {"scheme": "onnx", "scale": np.float32(0.1), "dtype": "f8E4M3FN"}
    assert beyond_the_result(lambda: quantize(x, **given)) <= LIMIT


def test_dequantise():
    q = np.random.default_rng(4).integers(-128, 128, COUNT).astype(np.int8)
    given = {"scheme": "onnx", "scale": np.float32(0.1), "zero_point": 3}
    assert beyond_the_result(lambda: dequantize(q, **given)) <= LIMIT
