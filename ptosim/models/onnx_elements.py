"""More ONNX operators on single f32 elements as PTO kernels, and conversions of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.models import chains
from ptosim.models.chains import unsupported
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernels import Frame
from ptosim.models.onnx_floats import BINARY, ElementBody, Lowered, joined, real, unary
from ptosim.models.quant.onnx.ops import Arrays, given, need
from ptosim.models.quant.onnx.rules import Node

_PARTS = 6
"""Operands that one kernel takes: their tiles are in the buffer at once."""


def _like(f: KernelBuilder, x: TileValue, stem: str) -> TileValue:
    return f.tile(stem, "f32", x.rows, x.cols)


def _clipped(f: KernelBuilder, x: TileValue, low: float, high: float) -> None:
    f.step("maxs", x, low)
    f.step("mins", x, high)


def _hard_sigmoid(f: KernelBuilder, x: TileValue, alpha: float, beta: float) -> TileValue:
    made = _like(f, x, "gate")
    f.step("muls", x, alpha, out=made)
    f.step("adds", made, beta)
    _clipped(f, made, 0.0, 1.0)
    return made


def _hard_swish(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    made = _hard_sigmoid(f, x, float(np.float32(1 / 6)), 0.5)
    f.step("mul", made, x)
    return made


def _sides(f: KernelBuilder, x: TileValue) -> TileValue:
    """Split x in place into what is above 0, and return what is below."""
    below = _like(f, x, "below")
    f.step("mins", x, 0.0, out=below)
    f.step("maxs", x, 0.0)
    return below


def _leaky(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    below = _sides(f, x)
    f.step("muls", below, float(node.attrs.get("alpha", 0.01)))
    f.step("add", x, below)
    return x


def _elu(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    below = _sides(f, x)
    f.step("exp", below)
    f.step("adds", below, -1.0)
    f.step("muls", below, float(node.attrs.get("alpha", 1.0)))
    f.step("add", x, below)
    return x


def _softplus(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    """max(x, 0) + log(1 + e^-|x|), which does not overflow."""
    size = _like(f, x, "size")
    f.step("abs", x, out=size)
    f.step("muls", size, -1.0)
    f.step("exp", size)
    f.step("adds", size, 1.0)
    f.step("log", size)
    f.step("maxs", x, 0.0)
    f.step("add", x, size)
    return x


def _softsign(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    """x / (1 + |x|)."""
    size = _like(f, x, "size")
    f.step("abs", x, out=size)
    chains.apply(f, "add", size, f.real(1.0), size)
    return joined(f, BINARY["Div"], x, size)


def _thresholded(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    """x where it is above alpha, else 0, for NaN too."""
    scratch = _like(f, x, "scratch")
    chains.numbers(f, x, scratch)
    alpha = f.real(float(node.attrs.get("alpha", 1.0)))
    chains.choose(f, x, alpha, "le", 0.0, x, scratch)
    return x


def _reciprocal(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    one, made = _like(f, x, "one"), _like(f, x, "made")
    f.tile_op("pto.texpands", [f.real(1.0)], [one])
    f.step("div", one, x, out=made)
    return made


def _log(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    f.step("log", x)
    return x


def clip_limits(node: Node, inputs: Sequence[np.ndarray | None]) -> Node:
    """Return a node with the limits that its operands give as attributes `min` and `max`, where
    later operator sets have them."""
    found = {n: given(list(inputs), i) for n, i in (("min", 1), ("max", 2))}
    if any(v is not None and v.size != 1 for v in found.values()):
        raise unsupported(f"node {node}: a limit of several elements, or of none")
    limits = {n: float(v.reshape(())) for n, v in found.items() if v is not None}
    return Node(node.op, node.opset, node.inputs, {**node.attrs, **limits}, None, node.name)


def _clip(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    for op, name in (("tmaxs", "min"), ("tmins", "max")):
        limit = float(node.attrs.get(name, math.nan))
        if not math.isnan(limit):
            f.tile_op(f"pto.{op}", [x, f.real(limit)], [x])
    return x


def _clipping(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    return unary("clip", _clip)(low, clip_limits(node, inputs), list(inputs))


def _pow(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """A constant whole power by products, a half by a root, another of positive numbers by
    logarithms."""
    x, power = real(node, need(inputs, 0)), need(inputs, 1)
    if power.size != 1:
        return [_powers(low, node, x, power.astype(np.float32))]
    exponent = float(power.reshape(()))
    whole = int(abs(exponent)) if math.isfinite(exponent) else 0
    if abs(exponent) not in (0.5, whole) or whole > 64:
        return [_by_logarithm(low, node, x, exponent)]

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        made = tile
        if abs(exponent) == 0.5:
            f.step("sqrt", tile)
        else:
            made = _like(f, tile, "power")
            f.tile_op("pto.texpands", [f.real(1.0)], [made])
            for _ in range(whole):
                f.step("mul", made, tile)
        frame.store(made if exponent >= 0 else _reciprocal(f, made, node), "y")

    return [low.runner.elementwise("pow", body, {"x": x}, "f32")]


def _by_logarithm(low: Any, node: Node, x: np.ndarray, exponent: float) -> np.ndarray:
    if not math.isfinite(exponent):
        raise unsupported(f"node {node}: a power that is no finite number")

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        f.step("log", tile)
        f.step("muls", tile, exponent)
        f.step("exp", tile)
        frame.store(tile, "y")

    low.notes.add(f"node {node}: e^({exponent:g} log x), NaN for x below 0")
    return low.runner.elementwise("pow", body, {"x": x}, "f32")


def _powers(low: Any, node: Node, x: np.ndarray, power: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, power.shape)
    arrays = {"x": np.broadcast_to(x, shape), "power": np.broadcast_to(power, shape)}

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        f.step("log", tile)
        f.step("mul", tile, frame.load("power", "f32"))
        f.step("exp", tile)
        frame.store(tile, "y")

    low.notes.add(f"node {node}: e^(y log x), NaN for x below 0")
    return low.runner.elementwise("pow", body, arrays, "f32")


def variadic(op: str, share: bool = False) -> Lowered:
    """Return the lowering of an operation of any number of tensors; `share`: their mean."""

    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        operands = [real(node, need(inputs, i)) for i in range(len(inputs))]
        made = combined(low.runner, op, operands)
        if share:
            made = scaled(low.runner, made, 1 / len(operands))
        return [made]

    return run


def combined(runner: Any, op: str, operands: list[np.ndarray]) -> np.ndarray:
    """Return arrays joined by an operation of two, from the first to the last."""
    shape = np.broadcast_shapes(*(a.shape for a in operands))
    whole = [np.ascontiguousarray(np.broadcast_to(a, shape)) for a in operands]
    made = whole[0]
    for start in range(1, len(whole), _PARTS - 1):
        parts = [made, *whole[start : start + _PARTS - 1]]
        made = _joined(runner, op, parts)
    return made


def _joined(runner: Any, op: str, parts: list[np.ndarray]) -> np.ndarray:
    def body(f: KernelBuilder, frame: Frame) -> None:
        first = frame.load("x0", "f32")
        for i in range(1, len(parts)):
            f.tile_op(f"pto.{op}", [first, frame.load(f"x{i}", "f32")], [first])
        frame.store(first, "y")

    return runner.elementwise(op[1:], body, {f"x{i}": a for i, a in enumerate(parts)}, "f32")


def scaled(runner: Any, x: np.ndarray, factor: float) -> np.ndarray:
    """Return x times a number."""

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        f.step("muls", tile, factor)
        frame.store(tile, "y")

    return runner.elementwise("scaled", body, {"x": x}, "f32")


def _prelu(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    x, slope = (real(node, need(inputs, i)) for i in range(2))
    arrays = {"x": x, "slope": np.ascontiguousarray(np.broadcast_to(slope, x.shape))}

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        below = _sides(f, tile)
        f.step("mul", below, frame.load("slope", "f32"))
        f.step("add", tile, below)
        frame.store(tile, "y")

    return [low.runner.elementwise("prelu", body, arrays, "f32")]


def _where(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """Chosen by a mask of the vector unit; the condition is given as 0 and 1 in f32."""
    condition, a, b = need(inputs, 0), real(node, need(inputs, 1)), real(node, need(inputs, 2))
    shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
    arrays = {
        name: np.ascontiguousarray(np.broadcast_to(v, shape))
        for name, v in (("c", condition.astype(np.float32)), ("x", a), ("z", b))
    }

    def body(f: KernelBuilder, frame: Frame) -> None:
        c, x, z = (frame.load(n, "f32") for n in ("c", "x", "z"))
        mask = f.tile("mask", "i8", c.rows, c.cols)
        zeros = _like(f, c, "zeros")
        f.tile_op("pto.texpands", [f.real(0.0)], [zeros])
        f.tile_op("pto.tcmp", [c, zeros], [mask], {"cmpMode": "#pto<cmp ne>"})
        f.step("sel", mask, x, z, out=z)
        frame.store(z, "y")

    return [low.runner.elementwise("where", body, arrays, "f32")]


_FLOAT = 1
"""TensorProto.FLOAT"""


def _cast(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """i32 to f32 by the conversion of the vector unit; other types only the host holds."""
    x, to = need(inputs, 0), node.attrs.get("to", _FLOAT)
    if x.dtype == np.float32 and to == _FLOAT:
        return [x]
    if x.dtype == np.int32 and to == _FLOAT:

        def body(f: KernelBuilder, frame: Frame) -> None:
            frame.store(chains.converted(f, frame.load("x", "i32"), "real", "f32"), "y")

        return [low.runner.elementwise("cast", body, {"x": x}, "f32")]
    from onnx import helper

    low.notes.add(f"node {node}: {x.dtype} to {helper.tensor_dtype_to_np_dtype(to)} by the host")
    with np.errstate(all="ignore"):
        return [x.astype(helper.tensor_dtype_to_np_dtype(to))]


def _gate(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    alpha, beta = (float(node.attrs.get(n, d)) for n, d in (("alpha", 0.2), ("beta", 0.5)))
    return _hard_sigmoid(f, x, alpha, beta)


UNARY: dict[str, ElementBody] = {
    "LeakyRelu": _leaky,
    "HardSigmoid": _gate,
    "HardSwish": _hard_swish,
    "Elu": _elu,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "ThresholdedRelu": _thresholded,
    "Reciprocal": _reciprocal,
    "Log": _log,
    "Clip": _clip,
}
"""More functions of single elements; limits of Clip are attributes of its node."""
OPERATORS: dict[str, Lowered] = {
    **{op: unary(op.lower(), body) for op, body in UNARY.items()},
    "Clip": _clipping,
    "Pow": _pow,
    "Min": variadic("tmin"),
    "Max": variadic("tmax"),
    "Sum": variadic("tadd"),
    "Mean": variadic("tadd", share=True),
    "PRelu": _prelu,
    "Where": _where,
    "Cast": _cast,
}
