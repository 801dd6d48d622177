"""Every condition under which a use of an ONNX quantisation operator is wrong: code and words."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import UsageError
from ptosim.models.quant.onnx.ops import evaluate
from ptosim.models.quant.onnx.rules import Input, Node, check_node

Q, DQ = "QuantizeLinear", "DequantizeLinear"


def findings(op, x, s, z=None, opset=21, types=("FLOAT", "FLOAT", "UINT8"), output=None, **attrs):
    """Findings for shapes of x, scale and zero point."""
    inputs = [
        None if shape is None else Input(kind, tuple(shape))
        for shape, kind in zip((x, s, z), types, strict=True)
    ]
    return check_node(Node(op, opset, inputs, attrs, output, "n"))


WRONG = [
    ("PTO2201", "scale must be 1D tensor with size 6", {"x": [4, 6], "s": [5]}),
    ("PTO2202", "x_zero_point must be null or 1D tensor with size 6",
     {"x": [4, 6], "s": [6], "z": [5]}),
    ("PTO2202", "x_zero_point must be a scalar or 1D tensor of size 1",
     {"x": [4, 6], "s": [], "z": [6]}),
    ("PTO2203", "axis 2 is not in valid range [-2,1]", {"x": [4, 6], "s": [6], "axis": 2}),
    ("PTO2203", "axis 1 is not in valid range [-1,0]", {"x": [6], "s": [6]}),
    ("PTO2204", "'block_size' must be non-negative", {"x": [4, 6], "s": [4, 3], "block_size": -2}),
    ("PTO2205", "x_scale must be ceil(Di/block_size)", {"x": [4, 6], "s": [4, 4], "block_size": 2}),
    ("PTO2205", "x_scale must be ceil(Di/block_size)", {"x": [4, 7], "s": [4, 3], "block_size": 2}),
    ("PTO2205", "must have the same shape despite the quantize axis",
     {"x": [4, 6], "s": [3, 3], "block_size": 2}),
    ("PTO2205", "must have the same rank for blocked quantization",
     {"x": [4, 6], "s": [3], "block_size": 2}),
    ("PTO2202", "must have the same shape for blocked quantization",
     {"x": [4, 6], "s": [4, 3], "z": [4, 2], "block_size": 2}),
    ("PTO2203", "is not in valid range", {"x": [4, 6], "s": [4, 3], "block_size": 2, "axis": 5}),
    ("PTO2206", "output_dtype INT8 does not match y_zero_point type UINT8",
     {"x": [4], "s": [], "z": [], "output_dtype": 3}),
    ("PTO2206", "the output is declared INT8, inferred is UINT8",
     {"x": [4], "s": [], "output": "INT8"}),
    ("PTO2207", "y_zero_point has unsupported type INT4 in opset 19",
     {"x": [4], "s": [], "z": [], "opset": 19, "types": ("FLOAT", "FLOAT", "INT4")}),
    ("PTO2207", "unsupported type INT16 in opset 19",
     {"x": [4], "s": [], "z": [], "opset": 19, "types": ("FLOAT", "FLOAT", "INT16")}),
    ("PTO2208", "bound to different types",
     {"x": [4], "s": [], "opset": 19, "types": ("FLOAT", "FLOAT16", "UINT8")}),
    ("PTO2210", "opset 19 has no attribute 'block_size'",
     {"x": [4, 6], "s": [4, 3], "opset": 19, "block_size": 2}),
    ("PTO2211", "y_scale is missing", {"x": [4], "s": None}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "words", "given"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_wrong_nodes(code, words, given):
    found = findings(Q, **given)
    assert [f.code for f in found] == [code]
    assert words in found[0].message
    assert "`n`" in found[0].message


def test_dequantisation():
    types = ("INT8", "FLOAT", "UINT8")
    found = findings(DQ, [4], [], [], types=types)
    assert [f.code for f in found] == ["PTO2208"]
    codes = Input("FLOAT8E4M3FN", (), np.full((), 0x38, np.uint8))
    held = [Input("FLOAT8E4M3FN", (4,)), Input("FLOAT", ()), codes]
    found = check_node(Node(DQ, 21, held, {}, None, "n"))
    assert [f.code for f in found] == ["PTO2209"]
    assert "no zero point or all zero points should be 0" in found[0].message
    assert findings(DQ, [4], [], [], types=("INT32", "FLOAT", "INT32")) == []


def test_what_is_accepted_with_a_warning():
    found = findings(Q, [4, 6], [6], opset=10)
    assert [f.code for f in found] == ["PTO7202"]
    assert findings(Q, [4, 6], [1], axis=9) == []  # one scale: the axis means nothing
    codes = Input("FLOAT8E5M2", (), np.full((), 1, np.uint8))
    found = check_node(Node(Q, 21, [Input("FLOAT", (4,)), Input("FLOAT", ()), codes], {}))
    assert [f.code for f in found] == ["PTO7203"]


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, -np.inf])
def test_scales_that_mean_nothing_are_named(scale):
    held = [Input("FLOAT", (4,)), Input("FLOAT", (), np.float32(scale).reshape(()))]
    found = check_node(Node(Q, 21, held, {}))
    assert [(f.code, f.severity.word) for f in found] == [("PTO7201", "warning")]


def test_evaluation_refuses_what_the_rules_refuse():
    x = np.zeros((4, 6), np.float32)
    with pytest.raises(ProgramError) as caught:
        evaluate(Q, [x, np.ones(5, np.float32)], opset=21)
    assert caught.value.diagnostics[0].code == "PTO2201"
    with pytest.raises(UsageError, match="unknown quantisation operator"):
        evaluate("Softmax", [x], opset=21)
    with pytest.raises(UsageError, match="does not exist in opset 9"):
        evaluate(Q, [x, np.float32(1)], opset=9)
