"""ONNX operators on floats as PTO kernels: what a quantised model leaves in float."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.records import dataclass, field
from ptosim.models import chains, depthwise, kernel_runner
from ptosim.models.chains import unsupported
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import Argument, KernelRunner
from ptosim.models.kernels import ARRAYS, Frame, up
from ptosim.models.quant.onnx.ops import Arrays, given, need, window_of
from ptosim.models.quant.onnx.rules import Node
from ptosim.models.quant.scaled import convolve

# -- rows of floats --------------------------------------------------------------------------------

LONGEST = 1024
"""Elements of a row that a kernel takes: eight rows and their temporaries fit either target."""
_ROWS = 8
_TOGETHER = 2048
"""Elements of a tile of several rows: more rows than eight, if they are short."""

RowBody = Callable[[KernelBuilder, TileValue, TileValue], None]
"""Adds the operations on a tile of whole rows, in place, with a tile for temporaries."""

Reading = Callable[[KernelBuilder, TileValue, str], TileValue]
"""Makes f32 of a tile that was loaded, by the name of its argument; it may be that tile."""
Ending = Callable[[KernelBuilder, TileValue], dict[str, TileValue]]
"""Makes the tiles that are stored of an f32 result, by the names of their arguments."""


def on_rows(
    runner: KernelRunner,
    name: str,
    x: np.ndarray,
    body: RowBody,
    params: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Run `body` on the rows of an f32 tensor (its last axis); `params` are vectors of one value
    for each column. Raises UnsupportedError for rows that are too long."""
    plain = Ends({"y": "f32"}, lambda f, tile: {"y": tile}, lambda f, tile, arg: tile)
    return rows_of(runner, name, x, body, plain, params)["y"]


@dataclass(frozen=True, slots=True)
class Ends:
    """How a kernel reads its operands and what it stores: element types of its results, what makes
    them of an f32 tile, what makes f32 of a loaded tile, and scalar arguments of both."""

    outs: dict[str, str]
    ending: Ending
    reading: Reading
    scalars: dict[str, float] = field(default_factory=dict)


def rows_of(
    runner: KernelRunner,
    name: str,
    x: np.ndarray,
    body: RowBody,
    ends: Ends,
    params: dict[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """The same of a tensor of another type, with several results; `ends` reads and stores."""
    cols = x.shape[-1]
    if not 0 < cols <= LONGEST:
        raise unsupported(f"{name}: rows of {cols} elements, kernels take up to {LONGEST}")
    rows = x.size // cols
    f = KernelBuilder(name, runner.target)
    word = kernel_runner.type_word(x.dtype)
    is_plain = word == "f32" and set(ends.outs.values()) == {"f32"}
    wide = up(cols, 8 if is_plain else 32)  # whole blocks of 32 bytes of every type
    count = min(max(_TOGETHER // wide // _ROWS * _ROWS, _ROWS), up(rows, _ROWS))
    height = up(rows, count)
    tables = {key: _table(f, key, cols) for key in params or {}}
    (at,) = f.share([(height, count)])
    tile, scratch = (
        f.tile(n, word if n == "x" else "f32", count, wide, valid_cols=cols)
        for n in ("x", "scratch")
    )
    place = (at, f.const(0))
    f.tile_op(
        "pto.tload",
        [f.window(f.view("x", word, (height, cols)), word, place, (count, cols))],
        [tile],
    )
    tile = ends.reading(f, tile, "x")
    body(f, tile, scratch)
    for key, op in (("scale", "mul"), ("shift", "add")):
        if key in tables:
            f.tile_op(f"pto.tcolexpand{op}", [tile, tables[key]], [tile])
    for key, made in ends.ending(f, tile).items():
        result = f.window(f.view(key, made.dtype, (height, cols)), made.dtype, place, (count, cols))
        f.tile_op("pto.tstore", [made], [result])
    f.close()
    args: dict[str, Argument] = {"x": kernel_runner.padded(x.reshape(rows, cols), height, cols)}
    args |= {k: v.astype(np.float32).reshape(-1) for k, v in (params or {}).items()}
    args |= ends.scalars
    args |= {k: np.zeros((height, cols), ARRAYS[word]) for k, word in ends.outs.items()}
    got = runner.run(f, args)
    return {k: got[k].reshape(height, cols)[:rows].reshape(x.shape) for k in ends.outs}


def _table(f: KernelBuilder, name: str, cols: int) -> TileValue:
    tile = f.tile(name, "f32", 1, up(cols, 8), valid_cols=cols)
    view = f.view(name, "f32", (1, cols))
    f.tile_op("pto.tload", [f.window(view, "f32", (f.const(0), f.const(0)), (1, cols))], [tile])
    return tile


def _reduced(f: KernelBuilder, op: str, tile: TileValue, scratch: TileValue) -> TileValue:
    column = f.tile("column", "f32", tile.rows, 1, "dn")
    f.tile_op(f"pto.trow{op}", [tile, scratch], [column])
    return column


def softmax(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> None:
    """e^(x - largest) over its sum, row by row."""
    f.step("rowexpandsub", tile, _reduced(f, "max", tile, scratch))
    f.step("exp", tile)
    f.step("rowexpanddiv", tile, _reduced(f, "sum", tile, scratch))


def normalization(columns: int, epsilon: float) -> RowBody:
    """Return the body of (x - mean) / sqrt(variance + epsilon)."""

    def mean(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> tuple[TileValue, TileValue]:
        column = _reduced(f, "sum", tile, scratch)
        row = f.reshaped(column, "row", 1, column.rows)
        f.step("muls", row, 1 / columns)
        return column, row

    def body(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> None:
        middle, _ = mean(f, tile, scratch)
        f.step("rowexpandsub", tile, middle)
        square = f.tile("square", "f32", tile.rows, tile.cols, valid_cols=tile.valid_cols)
        f.step("mul", tile, tile, out=square)
        variance, row = mean(f, square, scratch)
        f.step("adds", row, epsilon)
        f.step("sqrt", row)
        f.step("rowexpanddiv", tile, variance)

    return body


# -- single elements -------------------------------------------------------------------------------

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_P = 0.3275911


def sigmoid(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return 1 / (1 + e^-x); `x` is overwritten."""
    f.step("muls", x, -1.0)
    f.step("exp", x)
    f.step("adds", x, 1.0)
    one = f.tile("one", "f32", x.rows, x.cols)
    f.tile_op("pto.texpands", [f.real(1.0)], [one])
    made = f.tile("sigmoid", "f32", x.rows, x.cols)
    f.step("div", one, x, out=made)
    return made


def tanh(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return tanh x = 2 sigmoid(2x) - 1; `x` is overwritten."""
    f.step("muls", x, 2.0)
    made = sigmoid(f, x)
    f.step("muls", made, 2.0)
    f.step("adds", made, -1.0)
    return made


def erf(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return the error function; `x` is overwritten."""
    size, t, total = (f.tile(n, "f32", x.rows, x.cols) for n in ("size", "t", "total"))
    f.step("abs", x, out=size)
    f.step("muls", size, _ERF_P, out=total)
    f.step("adds", total, 1.0)
    f.tile_op("pto.texpands", [f.real(1.0)], [t])
    f.step("div", t, total)
    f.tile_op("pto.tmuls", [t, f.real(_ERF[4])], [total])
    for factor in reversed(_ERF[:4]):
        f.step("adds", total, factor)
        f.step("mul", total, t)
    f.step("mul", size, size, out=t)
    f.step("muls", t, -1.0)
    f.step("exp", t)
    f.step("mul", total, t)
    f.step("muls", total, -1.0)
    f.step("adds", total, 1.0)  # erf |x|
    f.step("muls", x, 2.0**126)  # its sign, 0 for 0
    f.step("mins", x, 1.0)
    f.step("maxs", x, -1.0)
    f.step("mul", total, x)
    return total


def gelu(f: KernelBuilder, x: TileValue, approximate: str) -> TileValue:
    """Return x * P(X <= x) of the normal distribution; `x` is overwritten."""
    u = f.tile("u", "f32", x.rows, x.cols)
    if approximate == "tanh":
        f.step("mul", x, x, out=u)
        f.step("muls", u, 0.044715)
        f.step("adds", u, 1.0)
        f.step("mul", u, x)
        f.step("muls", u, 2 * float(np.sqrt(2 / np.pi)))
        made = sigmoid(f, u)
    else:
        f.step("muls", x, float(np.sqrt(0.5)), out=u)
        made = erf(f, u)
        f.step("adds", made, 1.0)
        f.step("muls", made, 0.5)
    f.step("mul", made, x)
    return made


# --------------------------------------------------------------------------------------------------

Lowered = Callable[[Any, Node, list[np.ndarray | None]], list[np.ndarray]]
"""(lowering, node, inputs) -> outputs."""


def real(node: object, x: np.ndarray) -> np.ndarray:
    """Return an operand that must be float32; raises UnsupportedError if it is not."""
    if x.dtype != np.float32:
        raise unsupported(f"node {node}: an operand is {x.dtype}, not float")
    return x


ElementBody = Callable[[KernelBuilder, TileValue, Node], TileValue]
"""Adds the operations on a tile of single elements, which may be overwritten."""


def unary(op: str, body: ElementBody) -> Lowered:
    """Return the lowering of a function of single elements."""

    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        def whole(f: KernelBuilder, frame: Frame) -> None:
            frame.store(body(f, frame.load("x", "f32"), node), "y")

        return [low.runner.elementwise(op, whole, {"x": real(node, need(inputs, 0))}, "f32")]

    return run


def _in_place(op: str, *scalars: float) -> ElementBody:
    def body(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
        f.tile_op(f"pto.{op}", [x, *(f.real(s) for s in scalars)], [x])
        return x

    return body


def _gelu(f: KernelBuilder, x: TileValue, node: Node) -> TileValue:
    return gelu(f, x, node.attrs.get("approximate", "none"))


def joined(f: KernelBuilder, op: str, left: TileValue, right: TileValue) -> TileValue:
    """Return an operation of two tiles; the first may be overwritten."""
    made = f.tile("made", "f32", left.rows, left.cols) if op == "tdiv" else left
    f.tile_op(f"pto.{op}", [left, right], [made])  # TDIV in place multiplies on A2/A3
    return made


def binary(op: str) -> Lowered:
    """Return the lowering of an operation of two tensors."""

    def run(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
        a, b = (real(node, need(inputs, i)) for i in range(2))
        shape = np.broadcast_shapes(a.shape, b.shape)
        arrays = {"x": np.broadcast_to(a, shape), "z": np.broadcast_to(b, shape)}

        def body(f: KernelBuilder, frame: Frame) -> None:
            frame.store(joined(f, op, frame.load("x", "f32"), frame.load("z", "f32")), "y")

        return [low.runner.elementwise(op, body, arrays, "f32")]

    return run


@dataclass(frozen=True, slots=True)
class Rows:
    """A function of whole rows: the operand with its rows last, what is done to them, vectors of
    one value for each column, and the way back."""

    name: str
    x: np.ndarray
    body: RowBody
    params: dict[str, np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]


def _along_axis(body: RowBody) -> Callable[[np.ndarray, Node, Arrays], Rows]:
    return lambda x, node, inputs: _of_axis(x, node, body)


def _of_axis(x: np.ndarray, node: Node, body: RowBody) -> Rows:
    name = node.op.lower()
    if node.opset < 13:  # over the axis and all after it
        at = node.attrs.get("axis", 1) % max(x.ndim, 1)
        rows = x.reshape(math.prod(x.shape[:at]), -1)
        return Rows(name, rows, body, {}, lambda y: y.reshape(x.shape))
    axis = node.attrs.get("axis", -1)
    turned = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    return Rows(name, turned, body, {}, lambda y: np.moveaxis(y, -1, axis))


def _hardmax(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> None:
    """1 at the first of the largest of each row, else 0: of places, and of numbers beyond them
    where an element is not the largest, the smallest is left."""
    far = float(tile.cols + 1)
    f.step("rowexpandsub", tile, _reduced(f, "max", tile, scratch))
    for power in (126, 30):
        f.step("muls", tile, 2.0**power)
    f.step("muls", f.step("maxs", tile, -1.0), -far)
    count = f.tile("count", "i32", 1, tile.cols, valid_cols=tile.valid_cols)
    f.tile_op("pto.tci", [f.integer(0, "i32")], [count])
    f.barrier("V")  # flags before 0.63 take it for PIPE_S (B5)
    f.step("colexpandadd", tile, chains.real(f, count))
    first = _reduced(f, "min", tile, scratch)
    f.step("rowexpandsub", tile, first)
    f.step("adds", f.step("muls", f.step("mins", tile, 1.0), -1.0), 1.0)


def _layer_norm(x: np.ndarray, node: Node, inputs: Arrays) -> Rows:
    axis = node.attrs.get("axis", -1) % max(x.ndim, 1)
    shape = x.shape
    x = x.reshape(*shape[:axis], -1)
    params = {"scale": need(inputs, 1)}
    shift = given(inputs, 2)
    if shift is not None:
        params["shift"] = shift
    body = normalization(x.shape[-1], float(node.attrs.get("epsilon", 1e-5)))
    return Rows("layer_norm", x, body, params, lambda y: y.reshape(shape))


BY_ROWS: dict[str, Callable[[np.ndarray, Node, Arrays], Rows]] = {
    "Softmax": _along_axis(softmax),
    "Hardmax": _along_axis(_hardmax),
    "LayerNormalization": _layer_norm,
}
"""Functions of whole rows; the operand may have another type, which its kernel reads."""


def _by_rows(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    made = BY_ROWS[node.op](real(node, need(inputs, 0)), node, inputs)
    return [made.back(on_rows(low.runner, made.name, made.x, made.body, made.params))]


# -- products --------------------------------------------------------------------------------------


def _gemm(low: Any, node: Node, inputs: Arrays) -> list[np.ndarray]:
    a, b = (real(node, need(inputs, i)) for i in range(2))
    if a.ndim != 2 or b.ndim != 2:
        raise unsupported(f"node {node}: its operands are no matrices")
    a = np.ascontiguousarray(a.T) if node.attrs.get("transA", 0) else a
    b = np.ascontiguousarray(b.T) if node.attrs.get("transB", 0) else b
    low.notes.add("products of floats sum in another order than the reference")
    alpha, beta = (float(node.attrs.get(n, 1.0)) for n in ("alpha", "beta"))
    bias = given(inputs, 2) if beta else None
    if (alpha, beta) == (1, 1) and (bias is None or bias.size in (1, b.shape[1])):
        return [product(low.runner, a, b, bias)]
    return [_weighed(low, product(low.runner, a, b, None), alpha, bias, beta)]


def _weighed(
    low: Any, sums: np.ndarray, alpha: float, bias: np.ndarray | None, beta: float
) -> np.ndarray:
    """Sums times a number, and a bias of any shape times another one."""
    arrays = {"x": sums}
    if bias is not None:
        arrays["c"] = np.ascontiguousarray(np.broadcast_to(bias, sums.shape))

    def body(f: KernelBuilder, frame: Frame) -> None:
        made = f.step("muls", frame.load("x", "f32"), alpha)
        if bias is not None:
            f.step("add", made, f.step("muls", frame.load("c", "f32"), beta))
        frame.store(made, "y")

    return low.runner.elementwise("weighed", body, arrays, "f32")


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
    groups = node.attrs.get("group", 1)
    if depthwise.applies(w.shape, groups):
        return [_depthwise(low, node, x, w, bias)]

    def each(a: np.ndarray, b: np.ndarray, filters: slice) -> np.ndarray:
        part = None if bias is None else bias[filters]
        return product(low.runner, a.reshape(-1, a.shape[-1]), np.ascontiguousarray(b), part)

    absent = np.zeros(1, np.float32) if np.all(np.isfinite(x)) else None  # 0 times infinity is NaN
    return [convolve(x, w, window_of(node, x, w), groups, each, 0, absent)]


def _depthwise(
    low: Any, node: Node, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None
) -> np.ndarray:
    def finish(f: KernelBuilder, acc: TileValue, loaded: Any) -> TileValue:
        if "bias" in loaded:
            chains.apply(f, "add", acc, loaded["bias"], acc)
        return acc

    ending = depthwise.Ending(finish, {} if bias is None else {"bias": bias})
    return depthwise.convolve(low.runner, x, w, window_of(node, x, w), 0.0, ending)


UNARY: dict[str, ElementBody] = {
    "Relu": _in_place("tmaxs", 0.0),
    "Exp": _in_place("texp"),
    "Sqrt": _in_place("tsqrt"),
    "Abs": _in_place("tabs"),
    "Neg": _in_place("tmuls", -1.0),
    "Sigmoid": lambda f, x, node: sigmoid(f, x),
    "Tanh": lambda f, x, node: tanh(f, x),
    "Erf": lambda f, x, node: erf(f, x),
    "Gelu": _gelu,
}
"""Functions of single elements."""
BINARY = {"Add": "tadd", "Sub": "tsub", "Mul": "tmul", "Div": "tdiv"}
"""Operations of two tensors, with that of tiles."""
OPERATORS: dict[str, Lowered] = {
    **{op: unary(op.lower(), body) for op, body in UNARY.items()},
    **{op: binary(word) for op, word in BINARY.items()},
    **dict.fromkeys(BY_ROWS, _by_rows),
    "Gemm": _gemm,
    "Conv": _conv,
}
