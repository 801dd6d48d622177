"""Microscaling on both targets: groups of 32 with one power of two, quantised and multiplied.

A5 has instructions for both (TQUANT.MX, TMATMUL.MX). A2/A3 has neither, and its kernels compute
the same numbers: the exponent of the largest magnitude by a mask of its bits, the rounding by
adding and subtracting a number whose last place is the step wanted, the product in bf16, which
holds every value of a code times its scale."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.pages import unpack_nibbles
from ptosim.machine.quant.parameters import storage
from ptosim.models import chains, kernel_runner, kernels
from ptosim.models.explore import GROUP, microscaling
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernel_runner import Argument, KernelRunner
from ptosim.models.kernels import ARRAYS, up

_WIDTHS, _TILES = (64, 128, 256), 48
"""Groups that a tile holds: as few as give no more tiles than this, if they can."""
_EXPONENT = 0x7F800000
_STEP = 1 << 23
_DEPTH = 128


@dataclass(frozen=True, slots=True)
class Format:
    """An element type: exponent of its largest power of two, bits of its fraction, exponent of its
    smallest normal number, largest value."""

    name: str
    top: int
    fraction: int
    lowest: int
    largest: float


FORMATS = {
    "f8E4M3FN": Format("f8E4M3FN", 8, 3, -6, 448.0),
    "f4E2M1FN": Format("f4E2M1FN", 2, 1, 0, 6.0),
}
"""By the stored type; the shared exponent is that of the largest magnitude less `top` (OCP)."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """Groups along the last axis: codes [rows, k], scales [rows, k / 32], and on A2/A3 the values
    in bf16."""

    codes: np.ndarray
    scales: np.ndarray
    values: np.ndarray | None = None


def quantize(runner: KernelRunner, x: np.ndarray, form: Format) -> Scaled:
    """Quantise the rows of an f32 matrix, a multiple of 32 wide; MXFP4 takes them rounded to
    bf16."""
    rows, width = x.shape
    groups = x.reshape(-1, GROUP)
    lanes = next((n for n in _WIDTHS if len(groups) <= n * _TILES), _WIDTHS[-1])
    count = up(len(groups), lanes)
    columns = np.zeros((GROUP, count), np.float32)
    columns[:, : len(groups)] = groups.T
    out = storage(form.name)
    shape = (rows, width)
    if runner.target == "a5":
        each = 8 // out.bits
        got = runner.run(
            microscaling("a5", count, "Ocp", out, lanes),
            {"x": columns, "y": np.zeros((GROUP, count // each), np.uint8),
             "e": np.zeros(count, np.uint8)},
        )  # fmt: skip
        stored = got["y"].reshape(GROUP, -1)
        codes = unpack_nibbles(stored) if out.bits == 4 else stored
        codes = codes.view(ARRAYS[form.name]).reshape(GROUP, count)[:, : len(groups)]
        scales = got["e"].reshape(-1)[: len(groups)].view(storage("f8E8M0FNU").array)
        return Scaled(
            np.ascontiguousarray(codes.T).reshape(shape),
            scales.astype(np.float32).reshape(rows, -1),
        )
    args: dict[str, Argument] = {"x": columns}
    args |= {n: np.zeros((GROUP, count), ARRAYS["bf16"]) for n in ("r", "y")}
    args["e"] = np.zeros(count, np.float32)
    got = runner.run(_without_instruction(runner.target, count, lanes, form), args)
    held, real = (
        np.ascontiguousarray(got[n].reshape(GROUP, count)[:, : len(groups)].T).reshape(shape)
        for n in ("r", "y")
    )
    scales = got["e"].reshape(-1)[: len(groups)].reshape(rows, -1)
    return Scaled(held.astype(ARRAYS[form.name]), scales, real)


def _without_instruction(target: str, count: int, lanes: int, form: Format) -> KernelBuilder:
    """Return a function (x, r, y, e): of columns [32, count] the rounded quotients and the values
    as bf16, and the scales."""
    f = KernelBuilder("microscaling", target)
    (col,) = f.share([(count, lanes)])
    place = (f.const(0), col)
    x, size = (f.tile(n, "f32", GROUP, lanes) for n in ("x", "size"))
    view = f.view("x", "f32", (GROUP, count))
    f.tile_op("pto.tload", [f.window(view, "f32", place, (GROUP, lanes))], [x])
    if form.name == "f4E2M1FN":
        x = chains.real(f, chains.half(f, x, "bf16"))
    top, scale, inverse = (f.tile(n, "f32", 1, lanes) for n in ("top", "scale", "inverse"))
    f.tile_op("pto.tabs", [x], [size])
    f.tile_op("pto.tcolmax", [size], [top])
    bits, reverse = _cast(f, scale, "i32"), _cast(f, inverse, "i32")
    f.tile_op("pto.tands", [_cast(f, top, "i32"), f.integer(_EXPONENT, "i32")], [bits])
    f.tile_op("pto.tadds", [bits, f.integer(-form.top * _STEP, "i32")], [bits])
    f.tile_op("pto.tmaxs", [bits, f.integer(_STEP, "i32")], [bits])
    f.tile_op("pto.tmuls", [bits, f.integer(-1, "i32")], [reverse])
    f.tile_op("pto.tadds", [reverse, f.integer(254 * _STEP, "i32")], [reverse])
    f.tile_op("pto.tcolexpandmul", [x, inverse], [x])
    step = f.tile("step", "f32", GROUP, lanes)
    f.tile_op(
        "pto.tands", [_cast(f, x, "i32"), f.integer(_EXPONENT, "i32")], [_cast(f, step, "i32")]
    )
    f.tile_op("pto.tmaxs", [step, f.real(2.0**form.lowest)], [step])
    f.tile_op("pto.tmuls", [step, f.real(1.5 * 2.0 ** (23 - form.fraction))], [step])
    f.tile_op("pto.tadd", [x, step], [x])
    f.tile_op("pto.tsub", [x, step], [x])
    f.tile_op("pto.tmins", [x, f.real(form.largest)], [x])
    f.tile_op("pto.tmaxs", [x, f.real(-form.largest)], [x])
    _store(f, chains.half(f, x, "bf16"), "r", place, (GROUP, count))
    f.tile_op("pto.tcolexpandmul", [x, scale], [x])
    _store(f, chains.half(f, x, "bf16"), "y", place, (GROUP, count))
    _store(f, scale, "e", place, (1, count))
    f.close()
    return f


def _store(
    f: KernelBuilder, tile: TileValue, name: str, place: tuple[str, str], shape: tuple[int, int]
) -> None:
    window = f.window(f.view(name, tile.dtype, shape), tile.dtype, place, (tile.rows, tile.cols))
    f.tile_op("pto.tstore", [tile], [window])


def _cast(f: KernelBuilder, tile: TileValue, dtype: str) -> TileValue:
    made = TileValue(f.fresh("bits"), dtype, tile.rows, tile.cols)
    return f.cast("pto.bitcast", tile, made)


@dataclass(frozen=True, slots=True)
class After:
    """What happens to the sums of a product: a bias for each column is added, Relu."""

    bias: np.ndarray | None = None
    relu: bool = False

    @property
    def is_something(self) -> bool:
        """True if sums do not stay as they are."""
        return self.relu or self.bias is not None


def finished(runner: KernelRunner, sums: np.ndarray, after: After) -> np.ndarray:
    """Return f32 sums [m, n] with bias and Relu, by the vector unit."""
    params = {} if after.bias is None else {"bias": after.bias}

    def body(f: KernelBuilder, x: TileValue, p: Mapping[str, chains.Parameter]) -> TileValue:
        if "bias" in p:
            chains.apply(f, "add", x, p["bias"], x)
        return f.step("maxs", x, 0.0) if after.relu else x

    return runner.on_sums("finish", sums, params, body, storage("f32"))


# -- products --------------------------------------------------------------------------------------


def product(runner: KernelRunner, a: Scaled, b: Scaled, after: After | None = None) -> np.ndarray:
    """Return a @ b.T in f32; groups are along the rows of both. Of [count, …] of each all products,
    by one program."""
    after = after or After()
    *lead, rows, depth = a.codes.shape
    count, cols = math.prod(lead), b.codes.shape[-2]
    bias = None if after.bias is None else np.broadcast_to(after.bias, (cols,))
    if runner.target != "a5":
        right = np.ascontiguousarray(np.swapaxes(_values(b), -1, -2))
        each = np.broadcast_to(bias, (count, cols)) if lead and bias is not None else bias
        return runner.product(_values(a), right, each, relu=after.relu)
    sizes = _sizes(rows, depth, cols, count)
    m, k, n = (up(v, s) for v, s in zip((rows, depth, cols), sizes, strict=True))
    args: dict[str, Argument] = {}
    for name, operand, height in (("a", a, m), ("b", b, n)):
        codes = np.asarray(operand.codes).astype(ARRAYS["f8E4M3FN"])  # e2m1 is part of e4m3
        args[name] = _stacked(codes, count, height, k)
        exponents = operand.scales.astype(storage("f8E8M0FNU").array)
        args[f"{name}_scales"] = _stacked(exponents, count, height, k // GROUP, 1.0)
    args["c"] = np.zeros((count * m, n), np.float32)
    if bias is not None:
        args["bias"] = kernel_runner.padded_vector(bias.astype(np.float32), n, 0)
    f = _product("a5", count, (m, k, n), sizes, after)
    made = runner.run(f, args)["c"].reshape(count, m, n)[:, :rows, :cols]
    return made.reshape(*lead, rows, cols)


def _stacked(
    arrays: np.ndarray, count: int, height: int, width: int, fill: float = 0.0
) -> np.ndarray:
    """Matrices below one another, each padded to whole tiles."""
    whole = arrays.reshape(count, *arrays.shape[-2:])
    one = np.asarray(fill).astype(arrays.dtype)
    parts = [kernel_runner.padded(each, height, width, one) for each in whole]  # type: ignore[arg-type]
    return np.concatenate(parts)


def _values(x: Scaled) -> np.ndarray:
    """A code times its scale has 4 bits of mantissa: bf16 holds it. Of weights it is a constant."""
    if x.values is not None:
        return x.values
    wide = x.codes.astype(np.float32) * np.repeat(x.scales, GROUP, -1)
    return wide.astype(ARRAYS["bf16"])


def _sizes(m: int, k: int, n: int, count: int) -> tuple[int, int, int]:
    block = kernels.sizes(m, k, n, 1, count)
    return block.tile_m, min(up(k, 64), _DEPTH), block.tile_n


def _product(
    target: str,
    count: int,
    whole: tuple[int, int, int],
    sizes: tuple[int, int, int],
    after: After,
) -> KernelBuilder:
    """Return a function (a, b, their scales[, bias], c) in blocks; b is [n, k] in memory. Matrices
    of a `count` of products are below one another, and share the bias."""
    (m, k, n), (rows, depth, cols) = whole, sizes
    f = KernelBuilder("product", target)
    *lead, row, col = f.share([*([(count, 1)] if count > 1 else []), (m, rows), (n, cols)])
    first, second = row, col
    if lead:
        first, second = f.placed(lead[0], m, row), f.placed(lead[0], n, col)
    height, width = count * m, count * n
    acc = f.tile("acc", "f32", rows, cols, "nz", "acc", 1024)
    groups = depth // GROUP
    shape = kernels.Product(*whole, *sizes)
    start = [] if after.bias is None else [kernels.parameters(f, shape, "bias", "f32", "bias", col)]
    for at in range(0, k, depth):
        place, group = f.const(at), f.const(at // GROUP)
        left = _operand(f, "a", "left", (first, place), (height, k), (rows, depth))
        ascale = _scales(
            f, "a_scales", left, (first, group), (height, k // GROUP), (rows, groups)
        )  # fmt: skip
        right = _operand(f, "b", "right", (place, second), (k, width), (depth, cols))
        bscale = _scales(
            f, "b_scales", right, (group, second), (k // GROUP, width), (groups, cols)
        )  # fmt: skip
        given = [left, ascale, right, bscale]
        if at:
            f.tile_op("pto.tmatmul.mx.acc", [acc, *given], [acc])
        else:
            f.tile_op("pto.tmatmul.mx" + ".bias" * len(start), [*given, *start], [acc])
    window = f.window(f.view("c", "f32", (height, n)), "f32", (first, col), (rows, cols))
    f.tile_op("pto.tstore", [acc], [window], kernels.RELU if after.relu else None)
    f.close()
    return f


Place = tuple[str, str]
Sizes = tuple[int, int]


def _operand(
    f: KernelBuilder, name: str, side: str, place: Place, shape: Sizes, size: Sizes
) -> TileValue:
    """Load a block of codes into L0A or L0B, its `side`."""
    boxed = "nz" if side == "left" else "zn"
    mat = f.tile(f"{side}_mat", "f8E4M3FN", *size, boxed, "mat")
    tile = f.tile(side, "f8E4M3FN", *size, boxed, side)
    _load(f, name, (mat, tile), place, shape, size)
    return tile


def _scales(
    f: KernelBuilder, name: str, data: TileValue, place: Place, shape: Sizes, size: Sizes
) -> TileValue:
    """Load the scales of a block to where its product reads them."""
    side = data.loc
    boxed = "zz" if side == "left" else "nn"
    mat = f.tile(f"{side}_scales", "f8E8M0FNU", *size, boxed, "mat", 32)
    tile = f.tile(f"{side}_scale", "f8E8M0FNU", *size, boxed, "scaling", 32)
    f.tile_op("pto.tget_scale_addr", [data], [tile])
    _load(f, name, (mat, tile), place, shape, size)
    return tile


def _load(
    f: KernelBuilder,
    name: str,
    tiles: tuple[TileValue, TileValue],
    place: Place,
    shape: Sizes,
    size: Sizes,
) -> None:
    """Load a block to L1 and on; matrices of the right side are column by column in memory."""
    mat, tile = tiles
    is_left = name.startswith("a")
    strides, layout = (None, "nd") if is_left else ((1, shape[0]), "dn")
    dtype = mat.dtype
    view = f.view(name, dtype, shape, strides, layout)
    f.tile_op("pto.tload", [f.window(view, dtype, place, size)], [mat])
    f.tile_op("pto.tmov", [mat], [tile])
