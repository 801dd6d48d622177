"""ONNX operators that join many elements into one: pools, reductions along axes, Resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.models.chains import unsupported
from ptosim.models.kernel_builder import KernelBuilder
from ptosim.models.kernel_runner import padded
from ptosim.models.kernels import Frame, up
from ptosim.models.onnx_elements import combined, scaled
from ptosim.models.onnx_floats import LONGEST, Lowered, binary, real
from ptosim.models.quant.onnx.ops import Arrays, given, need
from ptosim.models.quant.onnx.rules import Node
from ptosim.models.quant.scaled import Window
from ptosim.models.reference_node import of_arrays

_ROWS = 8

# -- along axes ------------------------------------------------------------------------------------


def reduced(runner: Any, op: str, x: np.ndarray) -> np.ndarray:
    """Return the sum, largest or smallest of each row of [rows, columns]; rows that are longer than
    a tile in pieces."""
    rows, cols = x.shape
    if cols > LONGEST:
        count = -(-cols // LONGEST)
        fill = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}[op]
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
    if op in ("sum", "prod") and count > 1:
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


def _cumulated(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """Sums up to each element of an axis: a product with a triangle of ones."""
    x = real(node, need(inputs, 0))
    axis = int(need(inputs, 1).reshape(()))
    if not x.size or not -x.ndim <= axis < x.ndim:
        raise unsupported(f"node {node}: axis {axis} of {list(x.shape)}")
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    size = rows.shape[-1]
    ones = np.triu(np.ones((size, size), np.float32), 1 if node.attrs.get("exclusive", 0) else 0)
    ones = ones[::-1, ::-1] if node.attrs.get("reverse", 0) else ones
    low.notes.add("sums of floats add in another order than the reference")
    made = low.runner.product(rows.reshape(-1, size), np.ascontiguousarray(ones))
    return [np.ascontiguousarray(np.moveaxis(made.reshape(rows.shape), -1, axis))]


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


def _lp_pool(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """The first or the second norm of each window."""
    norm = int(node.attrs.get("p", 2))
    if norm not in (1, 2):
        raise unsupported(f"node {node}: the norm of order {norm}")
    sizes = _by_element(low, "sizes", real(node, need(inputs, 0)), "abs" if norm == 1 else "square")
    taps, _ = _taps(node, sizes, 0.0)
    total = combined(low.runner, "tadd", taps)
    low.notes.add("sums of floats add in another order than the reference")
    return [total if norm == 1 else _by_element(low, "roots", total, "sqrt")]


def _by_element(low: Any, name: str, x: np.ndarray, word: str) -> np.ndarray:
    def body(f: KernelBuilder, frame: Frame) -> None:
        tile = frame.load("x", "f32")
        frame.store(f.step("mul", tile, tile) if word == "square" else f.step(word, tile), "y")

    return low.runner.elementwise(name, body, {"x": x}, "f32")


def _responses(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """x / (bias + alpha / size * s)^beta, s the sum of squares of the channels nearby: a product
    with a band of ones."""
    x = real(node, need(inputs, 0))
    names = (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0), ("size", 1))
    alpha, beta, bias, size = (float(node.attrs.get(n, d)) for n, d in names)
    if x.ndim < 2 or bias <= 0 or alpha < 0:
        raise unsupported(f"node {node}: bias {bias:g}, alpha {alpha:g}")
    rows = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    place = np.arange(x.shape[1])
    far = place - place[:, None]  # of the channel that is added
    band = (-math.ceil((size - 1) / 2) <= far) & (far <= math.floor((size - 1) / 2))
    squares = _by_element(low, "squares", rows, "square").reshape(-1, x.shape[1])
    sums = low.runner.product(squares, band.astype(np.float32)).reshape(rows.shape)

    def body(f: KernelBuilder, frame: Frame) -> None:
        tile, total = frame.load("x", "f32"), frame.load("s", "f32")
        f.step("log", f.step("adds", f.step("muls", total, alpha / size), bias))
        frame.store(f.step("mul", tile, f.step("exp", f.step("muls", total, -beta))), "y")

    low.notes.add("sums of floats add in another order than the reference")
    made = low.runner.elementwise("responses", body, {"x": rows, "s": sums}, "f32")
    return [np.ascontiguousarray(np.moveaxis(made, -1, 1))]


# -- Resize ----------------------------------------------------------------------------------------


def _resize(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    """nearest moves data; linear and cubic are sums of neighbours, axis by axis, with the weights
    that the operator gives to the axis' unit vectors."""
    x = real(node, need(inputs, 0))
    mode = node.attrs.get("mode", "nearest")
    attrs = dict(node.attrs)
    if mode == "nearest":
        return of_arrays("Resize", list(inputs), attrs, node.opset)
    scales, sizes, parts = _scales(x, inputs, attrs)
    low.notes.add(f"Resize {mode} adds in another order than the reference")
    outside = np.zeros(sizes, np.bool_)
    for axis, (scale, size) in enumerate(zip(scales, sizes, strict=True)):
        if size == x.shape[axis] and (scale == 1 if parts is None else parts[axis] == (0, 1)):
            continue
        part = None if parts is None else parts[axis]
        weights = _shares(node, x.shape[axis], scale, size, part, attrs)
        beyond = np.isnan(weights).any(0)
        outside |= np.expand_dims(beyond, [a for a in range(x.ndim) if a != axis])
        x = _stretched(low, x, axis, np.where(beyond, np.float32(0), weights))
    return [np.where(outside, np.float32(attrs.get("extrapolation_value", 0.0)), x)]


_Part = tuple[float, float]
"""Where what is kept of an axis begins and ends, as shares of its last place."""


def _scales(
    x: np.ndarray, inputs: Arrays, attrs: dict[str, Any]
) -> tuple[list[float], list[int], list[_Part] | None]:
    """Factor and size of each axis; of what crops, the part that is kept of it."""
    scales, sizes = given(inputs, 2), given(inputs, 3)
    axes = attrs.pop("axes", None)
    parts = None
    if attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        parts = _parts_of(x.ndim, need(inputs, 1).reshape(2, -1).tolist(), axes)
    if axes:  # the others keep their size
        scales = _of_all(scales, axes, np.ones(x.ndim))
        sizes = _of_all(sizes, axes, np.asarray(x.shape))
    if sizes is not None and sizes.size:
        wanted = [int(v) for v in sizes.reshape(-1)]
        factors = [w / n for w, n in zip(wanted, x.shape, strict=True)]
        policy = attrs.pop("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            own = axes or range(x.ndim)
            factor = (min if policy == "not_larger" else max)(factors[a] for a in own)
            factors = [factor if a in own else 1.0 for a in range(x.ndim)]
            wanted = [int(factor * n + 0.5) for factor, n in zip(factors, x.shape, strict=True)]
        return factors, wanted, parts
    if scales is None or not scales.size:
        raise unsupported("Resize without scales and sizes")
    factors = [float(v) for v in scales.reshape(-1)]
    return factors, [math.floor(n * s) for n, s in zip(x.shape, factors, strict=True)], parts


def _parts_of(rank: int, ends: list[list[float]], axes: Sequence[int] | None) -> list[_Part]:
    found: list[_Part] = [(0.0, 1.0)] * rank
    for axis, begin, end in zip(axes or range(rank), *ends, strict=True):
        found[axis] = begin, end
    return found


def _of_all(given: np.ndarray | None, axes: Sequence[int], other: np.ndarray) -> np.ndarray | None:
    """Values of some axes among those of the others."""
    if given is None or not given.size:
        return None
    other[list(axes)] = given.reshape(-1)
    return other


def _shares(
    node: Node, count: int, scale: float, size: int, part: _Part | None, attrs: dict[str, Any]
) -> np.ndarray:
    """The weights [from, to] of an axis; NaN for a place outside of the image that crops give."""
    unit = np.eye(count, dtype=np.float32)
    if part is None:
        how = [None, np.array([1.0, scale], np.float32)]
    else:
        how = [np.array([0, part[0], 1, part[1]], np.float32), None, np.array([count, size])]
        attrs = {**attrs, "extrapolation_value": math.nan}
    weights = of_arrays("Resize", [unit, *how], attrs, node.opset)[0]
    if weights.shape[1] != size:
        raise unsupported(f"Resize of {count} elements to {size}")
    return weights


def _stretched(low: Any, x: np.ndarray, axis: int, weights: np.ndarray) -> np.ndarray:
    """The sums of the elements of an axis with weights [from, to]."""
    size = weights.shape[1]
    order = np.argsort(weights == 0, 0, kind="stable")  # the places that count, first
    depth = int(np.count_nonzero(weights, 0).max(initial=1))
    parts, shape = [], [1] * x.ndim
    shape[axis] = size
    for i in range(max(depth, 1)):
        chosen = order[i]
        share = weights[chosen, np.arange(size)].reshape(shape)
        taken = np.take(x, chosen, axis)
        factor = np.broadcast_to(share, taken.shape)
        parts.append(binary("tmul")(low, Node("Mul", 13, [], {}), [taken, factor])[0])
    return combined(low.runner, "tadd", parts)


OPERATORS: dict[str, Lowered] = {
    "ReduceMean": _along("sum", mean=True),
    "ReduceSum": _along("sum"),
    "ReduceMax": _along("max"),
    "ReduceMin": _along("min"),
    "ReduceProd": _along("prod"),
    "CumSum": _cumulated,
    "GlobalAveragePool": _global("sum", True),
    "GlobalMaxPool": _global("max", False),
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "LRN": _responses,
    "Resize": _resize,
}
