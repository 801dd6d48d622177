"""Quantisation schemes against the NumPy expressions that a user would write for them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

from ptosim.machine.quant.quantize import quantize
from tests.bench.timing import Figure, best

ELEMENTS = 1 << 24
SCALE, ZERO = np.float32(0.1), 3


def _clip(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -128, 127).astype(np.int8)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) * np.float64(np.float32(1) / SCALE)


def _away(values: np.ndarray) -> np.ndarray:
    return np.trunc(values + np.copysign(0.5, values))


_M = np.float32(1) / SCALE
PLAIN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "onnx": lambda x: _clip(np.rint(x / SCALE) + ZERO),
    "onnx-ref": lambda x: _clip(np.rint(x / SCALE).astype(np.int32) + ZERO),
    "onnx-ref-qlinear": lambda x: _clip(np.rint(_wide(x) + ZERO)),
    "mlir": lambda x: _clip(np.rint(x / SCALE + ZERO)),
    "mlir-lower": lambda x: (x / SCALE + ZERO).astype(np.int32).astype(np.int8),
    "mlir-const": lambda x: _clip(_away(x.astype(np.float64) / np.float64(SCALE) + ZERO)),
    "onednn": lambda x: _clip(np.rint(x * _M + np.float32(ZERO))),
    "torch-quant": lambda x: _clip(np.rint((_wide(x) + ZERO).astype(np.float32))),
    "torch-fake": lambda x: _clip(np.rint(x * _M) + ZERO),
    "pto-hw": lambda x: _clip(np.rint(x * _M + np.float32(ZERO))),
    "pto-spec": lambda x: _clip(np.rint(_wide(x) + ZERO)),
    "fixpipe": lambda x: _clip(np.clip(np.rint(_wide(x)), -256, 255) + ZERO),
    "naive-f16": lambda x: _clip(np.rint((x * _M + np.float32(ZERO)).astype(np.float16))),
}
"""A plain expression of each family of schemes; edge cases are not its business."""


def schemes() -> list[Figure]:
    """16 M values to int8 per scheme, and to float8."""
    x = (np.random.default_rng(0).standard_normal(ELEMENTS) * 3).astype(np.float32)
    found = []
    for name, plain in PLAIN.items():
        seconds = best(
            lambda n=name: quantize(x, scheme=n, scale=SCALE, zero_point=ZERO, dtype="i8"), 3
        )
        found.append(_figure(f"quantize {name}", seconds, best(lambda p=plain: p(x), 3)))
    seconds = best(lambda: quantize(x, scheme="onnx", scale=SCALE, dtype="f8E4M3FN"), 2)
    cast = best(lambda: (x / SCALE).astype(ml_dtypes.float8_e4m3fn), 2)
    return [*found, _figure("quantize onnx to f8E4M3FN", seconds, cast)]


def _figure(what: str, seconds: float, plain: float) -> Figure:
    return Figure(
        what, f"{ELEMENTS / seconds / 1e6:.0f} M/s", f"plain {ELEMENTS / plain / 1e6:.0f} M/s",
        f"{seconds / plain:.2f}", "<= 2",
    )  # fmt: skip


def model() -> list[Figure]:
    """Import and run of a 1024x1024 QLinearMatMul, both forms on both targets (needs onnx)."""
    try:
        import onnx
    except ImportError:
        return []
    from ptosim.models import onnx_model, onnx_run
    from tests.models.lower.models import one

    rng, size = np.random.default_rng(1), 1024
    inputs = {
        "a": rng.integers(0, 256, (size, size)).astype(np.uint8),
        "as": np.float32(0.05), "az": np.uint8(131),
        "b": rng.integers(-128, 128, (size, size)).astype(np.int8),
        "bs": np.float32(0.003), "bz": np.int8(0), "ys": np.float32(3.17), "yz": np.uint8(117),
    }  # fmt: skip
    made = one("QLinearMatMul", inputs, onnx.TensorProto.UINT8, [size, size], ("a",))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(made, path)

        def whole() -> None:
            graph = onnx_model.load(path)
            onnx_run.run(graph, {"a": inputs["a"]}, ["a2a3", "a5"])

        seconds = best(whole, 1)
    return [Figure("QLinearMatMul 1024x1024, 4 runs", f"{seconds:.1f} s", "", "", "seconds")]
