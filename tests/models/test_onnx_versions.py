"""QuantizeLinear, version by version, as its documentation lists types, attributes and defaults."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ptosim.ground.diagnostics.model import ProgramError
from ptosim.models.quant.onnx.ops import evaluate
from ptosim.models.quant.onnx.rules import version

X = np.float32([[0, 1, 2], [3, 4, 5]])
OLD, EIGHT = {"FLOAT", "INT32"}, {"INT8", "UINT8"}
WIDE = {"BFLOAT16", "FLOAT", "FLOAT16", "INT32"}
FLOAT8 = {"FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"}
TYPES = {
    10: (OLD, {"FLOAT"}, EIGHT),
    13: (OLD, {"FLOAT"}, EIGHT),
    19: (WIDE, WIDE, EIGHT | FLOAT8),
    21: (WIDE, WIDE, EIGHT | FLOAT8 | {"INT16", "UINT16", "INT4", "UINT4"}),
}
ATTRIBUTES = {
    10: {},
    13: {"axis": 1},
    19: {"axis": 1, "saturate": 1},
    21: {"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0},
}


def run(*inputs, opset=21, **attrs):
    return evaluate("QuantizeLinear", inputs, attrs, opset=opset)[0]


@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_types_of_each_version(opset):
    schema = version("QuantizeLinear", opset)
    found = {p.name: set(schema.allowed(p.variable)) for p in (*schema.inputs, *schema.outputs)}
    x, scale, y = TYPES[opset]
    assert schema.since == opset
    assert list(found.values()) == [x, scale, y, y]
    assert [p.optional for p in schema.inputs] == [False, False, True]


@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_attributes_of_each_version(opset):
    """An attribute of a later version is refused."""
    schema = version("QuantizeLinear", opset)
    assert dict(schema.attrs) == ATTRIBUTES[opset]
    for name in set(ATTRIBUTES[21]) - set(ATTRIBUTES[opset]):
        with pytest.raises(ProgramError, match=f"opset {opset} has no attribute '{name}'"):
            run(X, np.float32(1), np.uint8(0), opset=opset, **{name: 1})


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.uint16, 0, 65535), (np.int16, -32768, 32767), (np.uint8, 0, 255), (np.int8, -128, 127),
        (ml_dtypes.uint4, 0, 15), (ml_dtypes.int4, -8, 7),
    ],
)  # fmt: skip
def test_limits_of_every_type(dtype, low, high):
    y = run(np.float32([-1e9, low, high, 1e9]), np.float32(1), np.asarray(0, dtype))
    assert y.dtype == dtype
    assert y.astype(int).tolist() == [low, low, high, high]


def test_the_type_of_the_output():
    """output_dtype, else the zero point's, else uint8; both have to agree."""
    one = np.float32(1)
    assert run(X, one).dtype == np.uint8
    assert run(X, one, np.int8(0)).dtype == np.int8
    assert run(X, one, output_dtype=5).dtype == np.int16
    assert run(X, one, np.int16(0), output_dtype=5).dtype == np.int16
    assert run(X, one, np.asarray(0, ml_dtypes.float8_e5m2)).dtype == ml_dtypes.float8_e5m2
    with pytest.raises(ProgramError, match="output_dtype"):
        run(X, one, np.int8(0), output_dtype=5)


def test_x_and_scale_have_one_type():
    for opset in (19, 21):
        with pytest.raises(ProgramError, match="y_scale"):
            run(X, np.float16(1), np.int8(0), opset=opset)
    assert run(X.astype(np.float16), np.float16(1), np.int8(0)).tolist() == X.astype(int).tolist()


def test_the_axis_of_a_scalar_scale():
    """Per tensor the axis has no meaning, so that any will do; of a vector it has to exist."""
    assert run(X, np.float32(1), axis=7).tolist() == X.astype(int).tolist()
    assert run(X[0], np.float32([2]), np.uint8([0])).tolist() == [0, 0, 1]
    two = np.float32([1, 2])
    for axis in (0, -2):
        assert run(X, two, np.uint8([0, 0]), axis=axis).tolist() == [[0, 1, 2], [2, 2, 2]]
    for axis in (2, -3):
        with pytest.raises(ProgramError, match=r"not in valid range \[-2,1\]"):
            run(X, two, np.uint8([0, 0]), axis=axis)


@pytest.mark.parametrize(("size", "blocks"), [(7, 2), (7, 3), (12, 4), (9, 9), (10, 4)])
def test_block_sizes_that_a_shape_allows(size, blocks):
    """[ceil(Di / Si), ceil(Di / (Si - 1)) - 1], each of them and none beside."""
    x, scale = np.ones((1, size), np.float32), np.ones((1, blocks), np.float32)
    first, last = -(-size // blocks), -(-size // (blocks - 1)) - 1
    for block in range(1, size + 2):
        if first <= block <= last:
            assert run(x, scale, block_size=block).shape == (1, size)
        else:
            with pytest.raises(ProgramError):
                run(x, scale, block_size=block)
    with pytest.raises(ProgramError, match="must be non-negative"):
        run(x, scale, block_size=-1)
