"""ONNX operators on floats as PTO kernels: what a quantised model leaves in float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.models import float_rows
from ptosim.models.chains import unsupported
from ptosim.models.float_rows import on_rows
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.kernels import Frame
from ptosim.models.quant.integer_ops import convolve
from ptosim.models.quant.onnx.ops import Arrays, given, need, window_of
from ptosim.models.quant.onnx.schema import Node

Lowered = Callable[[Any, Node, list[np.ndarray | None]], list[np.ndarray]]
"""(lowering, node, inputs) -> outputs."""


def real(node: object, x: np.ndarray) -> np.ndarray:
    """Return an operand that must be float32; raises UnsupportedError if it is not."""
    if x.dtype != np.float32:
        raise unsupported(f"node {node}: an operand is {x.dtype}, not float")
    return x


def unary(op: str, body: Callable[[KernelBuilder, TileValue, Node], TileValue]) -> Lowered:
    """Return the lowering of a function of single elements."""

    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        def whole(f: KernelBuilder, frame: Frame) -> None:
            frame.store(body(f, frame.load("x", "f32"), node), "y")

        return [low.runner.elementwise(op, whole, {"x": real(node, need(inputs, 0))}, "f32")]

    return run


def _in_place(op: str, *scalars: float) -> Callable[[KernelBuilder, TileValue, Node], TileValue]:
    def body(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
        f.tile_op(f"pto.{op}", [x, *(f.real(s) for s in scalars)], [x])
        return x

    return body


def _gelu(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    return float_rows.gelu(f, x, node.attrs.get("approximate", "none"))


def binary(op: str) -> Lowered:
    """Return the lowering of an operation of two tensors."""

    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        a, b = (real(node, need(inputs, i)) for i in range(2))
        shape = np.broadcast_shapes(a.shape, b.shape)
        arrays = {"x": np.broadcast_to(a, shape), "z": np.broadcast_to(b, shape)}

        def body(f: KernelBuilder, frame: Frame) -> None:
            left, right = frame.load("x", "f32"), frame.load("z", "f32")
            made = f.tile("made", "f32", left.rows, left.cols) if op == "tdiv" else left
            f.tile_op(f"pto.{op}", [left, right], [made])  # TDIV in place multiplies on A2/A3
            frame.store(made, "y")

        return [low.runner.elementwise(op, body, arrays, "f32")]

    return run


def _last_axis(node: Node, x: np.ndarray, default: int = -1) -> None:
    if node.attrs.get("axis", default) % max(x.ndim, 1) != x.ndim - 1:
        raise unsupported(f"node {node}: along another axis than the last")


def _softmax(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x = real(node, need(inputs, 0))
    _last_axis(node, x)
    return [on_rows(low.runner, "softmax", x, float_rows.softmax)]


def _layer_norm(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x = real(node, need(inputs, 0))
    _last_axis(node, x)
    params = {"scale": need(inputs, 1)}
    shift = given(inputs, 2)
    if shift is not None:
        params["shift"] = shift
    body = float_rows.normalization(x.shape[-1], float(node.attrs.get("epsilon", 1e-5)))
    return [on_rows(low.runner, "layer_norm", x, body, params)]


# -- products --------------------------------------------------------------------------------------


def _gemm(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    a, b = (real(node, need(inputs, i)) for i in range(2))
    if (node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)) != (1, 1):
        raise unsupported(f"node {node}: alpha and beta are not 1")
    a = np.ascontiguousarray(a.T) if node.attrs.get("transA", 0) else a
    b = np.ascontiguousarray(b.T) if node.attrs.get("transB", 0) else b
    bias = given(inputs, 2)
    if bias is not None and bias.size not in (1, b.shape[1]):
        raise unsupported(f"node {node}: a bias of another shape than one row")
    low.notes.add("products of floats sum in another order than the reference")
    return [product(low.runner, a, b, bias)]


def product(
    runner: KernelRunner, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None
) -> np.ndarray:
    """Return a @ b + bias of f32 matrices."""
    row = None if bias is None else np.broadcast_to(bias.reshape(-1), (b.shape[1],))
    return runner.product(a, b, row)


def _conv(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x, w = (real(node, need(inputs, i)) for i in range(2))
    bias = given(inputs, 2)
    low.notes.add("products of floats sum in another order than the reference")

    def each(a: np.ndarray, b: np.ndarray, filters: slice) -> np.ndarray:
        part = None if bias is None else bias[filters]
        return product(low.runner, a.reshape(-1, a.shape[-1]), np.ascontiguousarray(b), part)

    return [convolve(x, w, window_of(node, x, w), node.attrs.get("group", 1), each)]


def _max_pool(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x = real(node, need(inputs, 0))
    kernel = node.attrs["kernel_shape"]
    taps = _taps(node, x, kernel)

    def body(f: KernelBuilder, frame: Frame) -> None:
        best = frame.load("x0", "f32")
        for i in range(1, len(taps)):
            f.tile_op("pto.tmax", [best, frame.load(f"x{i}", "f32")], [best])
        frame.store(best, "y")

    arrays = {f"x{i}": tap for i, tap in enumerate(taps)}
    return [low.runner.elementwise("max_pool", body, arrays, "f32")]


def _taps(node: Node, x: np.ndarray, kernel: list[int]) -> list[np.ndarray]:
    """One tensor of the output's shape for each place of the window."""
    if any(node.attrs.get("pads", [0])) or node.attrs.get("ceil_mode", 0):
        raise unsupported(f"node {node}: pads and ceil_mode of a pool")
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise unsupported(f"node {node}: a pool that pads as it needs")
    if any(d != 1 for d in node.attrs.get("dilations", [1])) or x.ndim != 4:
        raise unsupported(f"node {node}: a pool of {x.ndim - 2} dimensions, or with dilations")
    rows, cols = node.attrs.get("strides", [1, 1])
    high, wide = (x.shape[2] - kernel[0]) // rows + 1, (x.shape[3] - kernel[1]) // cols + 1
    return [
        np.ascontiguousarray(
            x[:, :, i : i + rows * high : rows, j : j + cols * wide : cols][:, :, :high, :wide]
        )
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]


OPERATORS: dict[str, Lowered] = {
    "Relu": unary("relu", _in_place("tmaxs", 0.0)),
    "Exp": unary("exp", _in_place("texp")),
    "Sqrt": unary("sqrt", _in_place("tsqrt")),
    "Abs": unary("abs", _in_place("tabs")),
    "Neg": unary("neg", _in_place("tmuls", -1.0)),
    "Sigmoid": unary("sigmoid", lambda f, x, node: float_rows.sigmoid(f, x)),
    "Tanh": unary("tanh", lambda f, x, node: float_rows.tanh(f, x)),
    "Erf": unary("erf", lambda f, x, node: float_rows.erf(f, x)),
    "Gelu": unary("gelu", _gelu),
    "Add": binary("tadd"),
    "Sub": binary("tsub"),
    "Mul": binary("tmul"),
    "Div": binary("tdiv"),
    "Softmax": _softmax,
    "LayerNormalization": _layer_norm,
    "Gemm": _gemm,
    "Conv": _conv,
    "MaxPool": _max_pool,
}
