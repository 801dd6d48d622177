"""The inputs that tell schemes apart: results as other systems gave them, and the manual's table."""

from __future__ import annotations

import numpy as np

from ptosim.machine.quant.quantize import quantize
from ptosim.models.quant.diff import examples
from ptosim.shell.quant_diff import examples_report
from ptosim.views.manual import pages
from ptosim.views.render import render
from ptosim.views.report import Room

# Measured: onnxruntime, oneDNN, PyTorch, mlir-opt; worked from the header code and pto-spec.
RESULTS = [
    ("onnx", "onednn", 32, 33),
    ("onnx", "pto-hw", 32, 33),
    ("onnx", "pto-hw", -15, -16),
    ("onnx", "pto-hw", 1, 2),
    ("pto-hw", "pto-spec", 0, -1),
    ("pto-hw", "pto-spec", 128, 129),
    ("pto-hw", "torch-quant", 210, 211),
    ("onnx", "mlir-lower", -2, -1),
    ("onnx", "mlir-const", 0, -1),
    ("pto-hw", "naive-f16", 1, 0),
    ("page", "pto-hw", 127, 128),
    ("fixpipe", "onednn", -11, -12),
    ("fixpipe", "onednn", 55, 56),
    ("fixpipe", "onednn", 1, 0),
]


def test_every_row():
    assert [(e.a, e.b, e.first, e.second) for e in examples()] == RESULTS


def test_the_clamp_to_nine_bits_costs_up_to_72():
    """acc in -40000..40000, factor 1, offset -200: 80 001 sums."""
    sums = np.arange(-40_000, 40_001, dtype=np.int32)
    one, two = (
        quantize(sums, scheme=s, scale=1.0, zero_point=-200, multiplier=1.0, dtype="i8")
        for s in ("fixpipe", "onednn")
    )
    assert np.abs(one.astype(int) - two).max() == 72


def test_the_manual_shows_the_generated_table():
    table = render(examples_report(), "markdown", Room())
    assert table in pages()["quant"], (
        "run `ptosim quant diff --examples --format markdown` and paste its table"
    )
