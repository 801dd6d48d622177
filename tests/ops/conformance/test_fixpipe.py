"""The fixpipe against the requantisation arrays: accumulators, words, 8-bit results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.conformance.data import COMPARED, arrays, document
from tests.ops.semantics.acc_harness import Filled
from tests.support.text import Kernel

FILE = "onnx/cross_scheme.npz"

SHAPE = (64, 48)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    "setting", document("onnx/cross_scheme.json")["fixpipe"], ids=lambda s: s["key"]
)
def test_requantisation(setting, target):
    acc = arrays(FILE)["fixpipe/acc"]
    expected = arrays(FILE)[f"fixpipe/{setting['key']}_spec"]
    values = np.zeros(SHAPE[0] * SHAPE[1], np.int32)
    values[: acc.size] = acc
    dst = {"int8": "i8", "uint8": "ui8"}[setting["out"]]
    k = Kernel(target)
    tile = k.tile("acc", "i32", *SHAPE, layout="nz", fractal=1024, loc="acc")
    k.line(f"%word = arith.constant {int(setting['quant_word'], 16)} : i64")
    k.op("pto.tstore", [tile, ("%word", "i64")], [k.view("y", dst, SHAPE)])
    result = k.run(
        {"y": np.zeros(SHAPE, setting["out"])}, observers=[Filled(values.reshape(SHAPE))]
    )
    np.testing.assert_array_equal(result.outputs["y"].reshape(-1)[: acc.size], expected)
    COMPARED["fixpipe arrays"] += 1
    COMPARED["fixpipe elements"] += acc.size
