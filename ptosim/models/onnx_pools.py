"""ONNX operators that join many elements into one: pools, reductions along axes, Resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.models.chains import unsupported
from ptosim.models.kernel_builder import KernelBuilder
from ptosim.models.kernel_runner import padded
from ptosim.models.kernels import up
from ptosim.models.onnx_elements import combined, scaled
from ptosim.models.onnx_floats import LONGEST, Lowered, binary, real
from ptosim.models.quant.integer_ops import Window
from ptosim.models.quant.onnx.ops import Arrays, given, need
from ptosim.models.quant.onnx.schema import Node
from ptosim.models.reference_node import of_arrays

_ROWS = 8

# -- along axes ------------------------------------------------------------------------------------


def reduced(runner: Any, op: str, x: np.ndarray) -> np.ndarray:
    """Return the sum, largest or smallest of each row of [rows, columns]; rows that are longer than
    a tile in pieces."""
    rows, cols = x.shape
    if cols > LONGEST:
        count = -(-cols // LONGEST)
        fill = {"sum": 0.0, "max": -math.inf, "min": math.inf}[op]
        wide = padded(x, rows, count * LONGEST, fill).reshape(rows * count, LONGEST)
        return reduced(runner, op, reduced(runner, op, wide).reshape(rows, count))
    height = up(rows, _ROWS)
    f = KernelBuilder(f"row_{op}", runner.target)
    (at,) = f.share([(height, _ROWS)])
    tile, scratch = (
        f.tile(n, "f32", _ROWS, up(cols, 8), valid_cols=cols) for n in ("x", "scratch")
    )
    place = (at, f.const(0))
    source = f.window(f.view("x", "f32", (height, cols)), "f32", place, (_ROWS, cols))
    f.tile_op("pto.tload", [source], [tile])
    column = f.tile("column", "f32", _ROWS, 1, "dn")
    f.tile_op(f"pto.trow{op}", [tile, scratch], [column])
    row = f.reshaped(column, "row", 1, _ROWS)
    result = f.window(f.view("y", "f32", (1, height)), "f32", (f.const(0), at), (1, _ROWS))
    f.tile_op("pto.tstore", [row], [result])
    f.close()
    args = {"x": padded(x, height, cols), "y": np.zeros((1, height), np.float32)}
    return runner.run(f, args)["y"].reshape(-1)[:rows]


def _along(op: str, mean: bool = False) -> Lowered:
    """The lowering of a reduction; axes as an operand or an attribute."""

    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        x = real(node, need(inputs, 0))
        named = given(inputs, 1)
        axes = node.attrs.get("axes") if named is None else named.reshape(-1).tolist()
        if not axes:
            if node.attrs.get("noop_with_empty_axes", 0):
                return [x]
            axes = range(x.ndim)
        return [_over(low, op, x, axes, bool(node.attrs.get("keepdims", 1)), mean)]

    return run


def _over(
    low: Any, op: str, x: np.ndarray, axes: Sequence[int], keep: bool, mean: bool
) -> np.ndarray:
    chosen = sorted({int(a) % max(x.ndim, 1) for a in axes})
    rest = [a for a in range(x.ndim) if a not in chosen]
    moved = np.ascontiguousarray(np.transpose(x, [*rest, *chosen]))
    count = math.prod(x.shape[a] for a in chosen)
    made = reduced(low.runner, op, moved.reshape(-1, count))
    if op == "sum" and count > 1:
        low.notes.add("sums of floats add in another order than the reference")
    if mean:
        made = scaled(low.runner, made, 1 / count)
    shape = [1 if a in chosen else n for a, n in enumerate(x.shape)] if keep else [
        x.shape[a] for a in rest
    ]  # fmt: skip
    return made.reshape(shape)


def _global(op: str, mean: bool) -> Lowered:
    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        x = real(node, need(inputs, 0))
        return [_over(low, op, x, range(2, x.ndim), True, mean)]

    return run


# -- windows ---------------------------------------------------------------------------------------


def _taps(node: Node, x: np.ndarray, fill: float) -> tuple[list[np.ndarray], np.ndarray]:
    """One tensor of the result's shape for each place of the window, and how many places of each
    result are inside the image, or its pads."""
    attrs = node.attrs
    kernel = attrs["kernel_shape"]
    rank = x.ndim - 2
    if len(kernel) != rank:
        raise unsupported(f"node {node}: a window of {len(kernel)} axes on {rank}")
    window = Window(
        x.shape[2:], kernel, attrs.get("strides", ()), attrs.get("pads", ()),
        attrs.get("dilations", ()), attrs.get("auto_pad", "NOTSET"),
        bool(attrs.get("ceil_mode", 0)),
    )  # fmt: skip
    counted = 1.0 if attrs.get("count_include_pad", 0) else 0.0
    given_pads = [(b, a - m) for (b, a), m in zip(window.pads, window.beyond, strict=True)]
    inside = np.pad(np.ones(x.shape[2:], np.float32), given_pads, constant_values=counted)
    inside = np.pad(inside, [(0, m) for m in window.beyond])
    bare = Window(inside.shape, kernel, window.strides, (), window.dilations)
    count = sum(bare.taps(inside))
    return [np.ascontiguousarray(t) for t in window.taps(x, fill)], np.asarray(count)


def _max_pool(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    taps, _ = _taps(node, real(node, need(inputs, 0)), -math.inf)
    return [combined(low.runner, "tmax", taps)]


def _average_pool(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    taps, count = _taps(node, real(node, need(inputs, 0)), 0.0)
    total = combined(low.runner, "tadd", taps)
    if np.all(count == count.flat[0]):
        return [scaled(low.runner, total, 1 / float(count.flat[0]))]
    return binary("tdiv")(low, node, [total, count.astype(np.float32)])


# -- Resize ----------------------------------------------------------------------------------------


def _resize(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """nearest moves data; linear is a sum of neighbours, axis by axis, with the weights that the
    operator gives to the axis' unit vectors."""
    x = real(node, need(inputs, 0))
    mode = node.attrs.get("mode", "nearest")
    attrs = dict(node.attrs)
    if mode == "nearest":
        return of_arrays("Resize", list(inputs), attrs, node.opset)
    if mode != "linear" or attrs.get("axes") or attrs.get("antialias", 0):
        raise unsupported(f"node {node}: mode {mode}, or some axes, or antialias")
    if attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise unsupported(f"node {node}: it crops")
    scales, sizes = _scales(x, inputs, attrs)
    low.notes.add("Resize linear adds in another order than the reference")
    for axis, (scale, size) in enumerate(zip(scales, sizes, strict=True)):
        if size != x.shape[axis] or scale != 1:
            x = _stretched(low, x, axis, scale, size, attrs, node.opset)
    return [x]


def _scales(x: np.ndarray, inputs: Arrays, attrs: dict[str, Any]) -> tuple[list[float], list[int]]:
    scales, sizes = given(inputs, 2), given(inputs, 3)
    if sizes is not None and sizes.size:
        wanted = [int(v) for v in sizes.reshape(-1)]
        policy = attrs.pop("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            raise unsupported("Resize keeps the aspect ratio")
        return [w / n for w, n in zip(wanted, x.shape, strict=True)], wanted
    if scales is None or not scales.size:
        raise unsupported("Resize without scales and sizes")
    factors = [float(v) for v in scales.reshape(-1)]
    return factors, [math.floor(n * s) for n, s in zip(x.shape, factors, strict=True)]


def _stretched(
    low: Any, x: np.ndarray, axis: int, scale: float, size: int, attrs: dict[str, Any], opset: int
) -> np.ndarray:
    unit = np.eye(x.shape[axis], dtype=np.float32)
    factors = np.array([1.0, scale], np.float32)
    weights = of_arrays("Resize", [unit, None, factors], attrs, opset)[0]  # [from, to]
    if weights.shape[1] != size:
        raise unsupported(f"Resize of axis {axis} to {size}")
    order = np.argsort(weights == 0, 0, kind="stable")  # the places that count, first
    depth = int(np.count_nonzero(weights, 0).max(initial=1))
    parts, shape = [], [1] * x.ndim
    shape[axis] = size
    for i in range(max(depth, 1)):
        chosen = order[i]
        share = weights[chosen, np.arange(size)].reshape(shape)
        taken = np.take(x, chosen, axis)
        factor = np.broadcast_to(share, taken.shape)
        parts.append(binary("tmul")(low, Node("Mul", opset, [], {}), [taken, factor])[0])
    return combined(low.runner, "tadd", parts)


OPERATORS: dict[str, Lowered] = {
    "ReduceMean": _along("sum", mean=True),
    "ReduceSum": _along("sum"),
    "ReduceMax": _along("max"),
    "ReduceMin": _along("min"),
    "GlobalAveragePool": _global("sum", True),
    "GlobalMaxPool": _global("max", False),
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "Resize": _resize,
}
