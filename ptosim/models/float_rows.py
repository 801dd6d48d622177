"""Float operators that need whole rows, and the functions of single elements, as PTO kernels.

Softmax and LayerNormalization take the steps of the ONNX text in f32. Gelu is x / (1 + e^-2u) for
the tanh form, the same function; its erf form takes formula 7.1.26 of Abramowitz and Stegun, which
is off by 1.5e-7 at most.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.models import generated
from ptosim.models.chains import unsupported
from ptosim.models.generated import Argument
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import KernelRunner
from ptosim.models.kernels import up

LONGEST = 1024
"""Elements of a row that a kernel takes: eight rows and their temporaries fit either target."""
_ROWS = 8

RowBody = Callable[[KernelBuilder, TileValue, TileValue], None]
"""Adds the operations on a tile of whole rows, in place, with a tile for temporaries."""


def on_rows(
    runner: KernelRunner,
    name: str,
    x: np.ndarray,
    body: RowBody,
    params: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Run `body` on the rows of an f32 tensor (its last axis); `params` are vectors of one value
    for each column. Raises UnsupportedError for rows that are too long."""
    cols = x.shape[-1]
    if not 0 < cols <= LONGEST:
        raise unsupported(f"{name}: rows of {cols} elements, kernels take up to {LONGEST}")
    rows = x.size // cols
    height = up(rows, _ROWS)
    f = KernelBuilder(name, runner.target)
    wide = up(cols, 8)
    tables = {key: _table(f, key, cols) for key in params or {}}
    at = f.begin("i", height, _ROWS)
    tile, scratch = (f.tile(n, "f32", _ROWS, wide, valid_cols=cols) for n in ("x", "scratch"))
    place = (at, f.const(0))
    f.tile_op(
        "pto.tload",
        [f.window(f.view("x", "f32", (height, cols)), "f32", place, (_ROWS, cols))],
        [tile],
    )
    body(f, tile, scratch)
    for key, op in (("scale", "mul"), ("shift", "add")):
        if key in tables:
            f.tile_op(f"pto.tcolexpand{op}", [tile, tables[key]], [tile])
    f.tile_op(
        "pto.tstore",
        [tile],
        [f.window(f.view("y", "f32", (height, cols)), "f32", place, (_ROWS, cols))],
    )
    f.end()
    args: dict[str, Argument] = {"x": generated.padded(x.reshape(rows, cols), height, cols)}
    args |= {k: v.astype(np.float32).reshape(-1) for k, v in (params or {}).items()}
    args["y"] = np.zeros((height, cols), np.float32)
    return runner.run(f, args)["y"].reshape(height, cols)[:rows].reshape(x.shape)


def _table(f: KernelBuilder, name: str, cols: int) -> TileValue:
    tile = f.tile(name, "f32", 1, up(cols, 8), valid_cols=cols)
    view = f.view(name, "f32", (1, cols))
    f.tile_op("pto.tload", [f.window(view, "f32", (f.const(0), f.const(0)), (1, cols))], [tile])
    return tile


def _column(f: KernelBuilder) -> TileValue:
    return f.tile("column", "f32", _ROWS, 1, "dn")


def _as_row(f: KernelBuilder, column: TileValue) -> TileValue:
    row = TileValue(f.fresh("row"), "f32", 1, column.rows)
    return f.cast("pto.treshape", column, row)


def _reduced(f: KernelBuilder, op: str, tile: TileValue, scratch: TileValue) -> TileValue:
    column = _column(f)
    f.tile_op(f"pto.trow{op}", [tile, scratch], [column])
    return column


def softmax(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> None:
    """e^(x - largest) over its sum, row by row."""
    f.tile_op("pto.trowexpandsub", [tile, _reduced(f, "max", tile, scratch)], [tile])
    f.tile_op("pto.texp", [tile], [tile])
    f.tile_op("pto.trowexpanddiv", [tile, _reduced(f, "sum", tile, scratch)], [tile])


def normalization(columns: int, epsilon: float) -> RowBody:
    """Return the body of (x - mean) / sqrt(variance + epsilon)."""

    def mean(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> tuple[TileValue, TileValue]:
        column = _reduced(f, "sum", tile, scratch)
        row = _as_row(f, column)
        f.tile_op("pto.tmuls", [row, f.real(1 / columns)], [row])
        return column, row

    def body(f: KernelBuilder, tile: TileValue, scratch: TileValue) -> None:
        middle, _ = mean(f, tile, scratch)
        f.tile_op("pto.trowexpandsub", [tile, middle], [tile])
        square = f.tile("square", "f32", tile.rows, tile.cols, valid_cols=tile.valid_cols)
        f.tile_op("pto.tmul", [tile, tile], [square])
        variance, row = mean(f, square, scratch)
        f.tile_op("pto.tadds", [row, f.real(epsilon)], [row])
        f.tile_op("pto.tsqrt", [row], [row])
        f.tile_op("pto.trowexpanddiv", [tile, variance], [tile])

    return body


# -- single elements -------------------------------------------------------------------------------

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_P = 0.3275911


def sigmoid(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return 1 / (1 + e^-x); `x` is overwritten."""
    f.tile_op("pto.tmuls", [x, f.real(-1.0)], [x])
    f.tile_op("pto.texp", [x], [x])
    f.tile_op("pto.tadds", [x, f.real(1.0)], [x])
    one = f.tile("one", "f32", x.rows, x.cols)
    f.tile_op("pto.texpands", [f.real(1.0)], [one])
    made = f.tile("sigmoid", "f32", x.rows, x.cols)
    f.tile_op("pto.tdiv", [one, x], [made])
    return made


def tanh(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return tanh x = 2 sigmoid(2x) - 1; `x` is overwritten."""
    f.tile_op("pto.tmuls", [x, f.real(2.0)], [x])
    made = sigmoid(f, x)
    f.tile_op("pto.tmuls", [made, f.real(2.0)], [made])
    f.tile_op("pto.tadds", [made, f.real(-1.0)], [made])
    return made


def erf(f: KernelBuilder, x: TileValue) -> TileValue:
    """Return the error function; `x` is overwritten."""
    size, t, total = (f.tile(n, "f32", x.rows, x.cols) for n in ("size", "t", "total"))
    f.tile_op("pto.tabs", [x], [size])
    f.tile_op("pto.tmuls", [size, f.real(_ERF_P)], [total])
    f.tile_op("pto.tadds", [total, f.real(1.0)], [total])
    f.tile_op("pto.texpands", [f.real(1.0)], [t])
    f.tile_op("pto.tdiv", [t, total], [t])
    f.tile_op("pto.tmuls", [t, f.real(_ERF[4])], [total])
    for factor in reversed(_ERF[:4]):
        f.tile_op("pto.tadds", [total, f.real(factor)], [total])
        f.tile_op("pto.tmul", [total, t], [total])
    f.tile_op("pto.tmul", [size, size], [t])
    f.tile_op("pto.tmuls", [t, f.real(-1.0)], [t])
    f.tile_op("pto.texp", [t], [t])
    f.tile_op("pto.tmul", [total, t], [total])
    f.tile_op("pto.tmuls", [total, f.real(-1.0)], [total])
    f.tile_op("pto.tadds", [total, f.real(1.0)], [total])  # erf |x|
    f.tile_op("pto.tmuls", [x, f.real(2.0**126)], [x])  # its sign, 0 for 0
    f.tile_op("pto.tmins", [x, f.real(1.0)], [x])
    f.tile_op("pto.tmaxs", [x, f.real(-1.0)], [x])
    f.tile_op("pto.tmul", [total, x], [total])
    return total


def gelu(f: KernelBuilder, x: TileValue, approximate: str) -> TileValue:
    """Return x * P(X <= x) of the normal distribution; `x` is overwritten."""
    u = f.tile("u", "f32", x.rows, x.cols)
    if approximate == "tanh":
        f.tile_op("pto.tmul", [x, x], [u])
        f.tile_op("pto.tmuls", [u, f.real(0.044715)], [u])
        f.tile_op("pto.tadds", [u, f.real(1.0)], [u])
        f.tile_op("pto.tmul", [u, x], [u])
        f.tile_op("pto.tmuls", [u, f.real(2 * float(np.sqrt(2 / np.pi)))], [u])
        made = sigmoid(f, u)
    else:
        f.tile_op("pto.tmuls", [x, f.real(float(np.sqrt(0.5)))], [u])
        made = erf(f, u)
        f.tile_op("pto.tadds", [made, f.real(1.0)], [made])
        f.tile_op("pto.tmuls", [made, f.real(0.5)], [made])
    f.tile_op("pto.tmul", [made, x], [made])
    return made
