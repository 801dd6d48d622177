"""Whole functions: load a window, apply a chain, store it, in loops over rows and columns."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from ptosim.ground.records import dataclass
from ptosim.language.build import Typed, Words
from ptosim.machine.numbers.fixpipe import word_of_scale
from ptosim.machine.quant.granularity import check_blocks, normal_axis, spread
from ptosim.machine.quant.parameters import Storage, fp19
from ptosim.models import chains, requant
from ptosim.models.chains import Affine
from ptosim.models.kernel_builder import KernelBuilder, TileValue

ELEMENTS = 4096
"""Elements of a tile: with every temporary of the longest chain it fits the smaller of the
targets."""


CORES = 32
"""Tiles that a kernel is cut into at least, if it has so many of `FEWEST` elements."""
FEWEST = 1024


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix cut into equal tiles. Sizes are padded up to whole tiles."""

    rows: int
    cols: int
    tile_rows: int
    tile_cols: int

    @property
    def padded(self) -> tuple[int, int]:
        """The sizes in whole tiles."""
        return up(self.rows, self.tile_rows), up(self.cols, self.tile_cols)


def grid(rows: int, cols: int, elements: int = ELEMENTS, cores: int = CORES) -> Grid:
    """Return tiles for a matrix: rows in eights, columns in 64s, at most `elements` each, and fewer
    where a chip has more cores than there are tiles."""
    share = up(rows, 8) * up(cols, 64) // cores
    elements = min(elements, max(up(share, 512), FEWEST))
    tile_cols = min(up(cols, 64), 512, elements // 8)
    tile_rows = max(min(up(rows, 8), elements // tile_cols // 8 * 8), 8)
    return Grid(rows, cols, tile_rows, tile_cols)


def up(size: int, step: int) -> int:
    """Return a size in whole steps, at least one."""
    return -(-max(size, 1) // step) * step


Body = Callable[[KernelBuilder, "Frame"], None]


@dataclass(slots=True)
class Frame:
    """The place of a tile in a loop nest: counters and sizes."""

    f: KernelBuilder
    shape: Grid
    row: str
    col: str

    def load(self, name: str, dtype: str) -> TileValue:
        """Load the tile of a matrix argument."""
        f, shape = self.f, self.shape
        tile = f.tile(name, dtype, shape.tile_rows, shape.tile_cols)
        f.tile_op("pto.tload", [self._window(name, dtype)], [tile])
        return tile

    def store(self, tile: TileValue, name: str) -> None:
        """Store the tile of a matrix argument."""
        self.f.tile_op("pto.tstore", [tile], [self._window(name, tile.dtype)])

    def _window(self, name: str, dtype: str) -> Typed:
        f, shape = self.f, self.shape
        view = f.view(name, dtype, shape.padded)
        return f.window(view, dtype, (self.row, self.col), (shape.tile_rows, shape.tile_cols))

    def per_row(self, name: str, dtype: str = "f32", *, wide: bool = False) -> TileValue:
        """Load one value for each row of the tile, as a column tile; `wide` gives each row a block
        of 32 bytes of which the first value counts."""
        f, rows = self.f, self.shape.tile_rows
        total = self.shape.padded[0]
        if wide:
            tile = f.tile(name, dtype, rows, 8, valid_cols=1)
            view = f.view(name, dtype, (total, 1))
        else:
            tile = f.tile(name, dtype, rows, 1, "dn")
            view = f.view(name, dtype, (total, 1), (1, total), "dn")
        return f.load(tile, view, (self.row, f.const(0)), (rows, 1))

    def per_column(self, name: str, dtype: str = "f32") -> TileValue:
        """Load one value for each column of the tile, as a row tile."""
        f, cols = self.f, self.shape.tile_cols
        tile = f.tile(name, dtype, 1, cols)
        view = f.view(name, dtype, (1, self.shape.padded[1]))
        return f.load(tile, view, (f.const(0), self.col), (1, cols))

    def parameter(self, name: str, along: str, dtype: str = "f32") -> chains.Parameter:
        """Return a parameter: a scalar argument, or a loaded row or column of values."""
        if along == "tensor":
            return self.f.scalar(name, dtype)
        return self.per_row(name, dtype) if along == "row" else self.per_column(name, dtype)


def function(name: str, target: str, shape: Grid, body: Body) -> KernelBuilder:
    """Return a function that does something for every tile of a matrix."""
    f = KernelBuilder(name, target)
    axes = [(shape.padded[0], shape.tile_rows), (shape.padded[1], shape.tile_cols)]
    row, col = f.share(axes)
    body(f, Frame(f, shape, row, col))
    f.close()
    return f


# -- the kernels -----------------------------------------------------------------------------------

_GM_TYPE = {"i2": "i8", "i4": "i8", "ui2": "ui8", "ui4": "ui8", "ui16": "i16", "ui32": "i32"}


ARRAYS = {
    "f32": np.dtype(np.float32), "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16), "i8": np.dtype(np.int8), "ui8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn), "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
}  # fmt: skip
"""Element types of kernel arguments with the types of their arrays."""


def memory_type(stored: Storage) -> str:
    """Return the element type that holds stored values in a program's memory."""
    return _GM_TYPE.get(stored.name, stored.name)


def quantize(
    name: str,
    target: str,
    shape: Grid,
    along: str,
    out: Storage,
    form: str,
    *,
    zero: bool,
    x: str = "f32",
    through: str | None = None,
    through_int32: bool = False,
    promoted: bool = False,
) -> KernelBuilder:
    """Return a function x -> y that quantises, with `scale` and `zero` arguments.

    `form` is fast (the scale argument is the reciprocal, zero is f32) or exact (the scale itself,
    zero is i32). `x` is the element type of the input: f32, f16, bf16 or i32. `promoted`: quotients
    of integers as if they were divided in f64, with `high` and `low` halves of the scale."""

    def body(f: KernelBuilder, frame: Frame) -> None:
        source = frame.load("x", x)
        if promoted:
            shift = frame.parameter("zero", along, "i32") if zero else None
            scale, *parts = (frame.parameter(n, along) for n in ("scale", "high", "low"))
            affine = Affine(along, scale, shift, None, through_int32)
            factor = requant.Factor(scale, *parts)
            frame.store(requant.integer_quotients(f, source, factor, affine, out), "y")
            return
        if x != "f32":
            source = chains.real(f, source)  # integers too
        if through not in (None, x):
            source = chains.real(f, chains.rounded_half(f, source, through))
        scale = frame.parameter("scale", along)
        shift = None
        if zero:
            shift = frame.parameter("zero", along, "f32" if form == "fast" else "i32")
        make = chains.quantize_fast if form == "fast" else chains.quantize_exact
        affine = Affine(along, scale, shift, through, through_int32)
        frame.store(make(f, source, affine, out), "y")

    return function(name, target, shape, body)


def scaled(
    name: str, target: str, shape: Grid, along: str, op: str, x: str, y: str, through: str | None
) -> KernelBuilder:
    """Return a function x -> y of quotients (`op` div) or products (mul) with `scale`, for types
    that the host converts to and from f32."""

    def body(f: KernelBuilder, frame: Frame) -> None:
        source = frame.load("x", x)
        if x != "f32":
            source = chains.real(f, source)
        made = f.tile("scaled", "f32", source.rows, source.cols)
        chains.apply(f, op, source, frame.parameter("scale", along), made)
        if through is not None:
            made = chains.real(f, chains.rounded_half(f, made, through))
        frame.store(made if y == "f32" else chains.rounded_half(f, made, y), "y")

    return function(name, target, shape, body)


def dequantize(
    name: str, target: str, shape: Grid, along: str, stored: Storage, *, zero: bool, y: str = "f32"
) -> KernelBuilder:
    """Return a function x -> y that dequantises, with f32 `scale` and `zero` arguments."""

    def body(f: KernelBuilder, frame: Frame) -> None:
        held = frame.load("x", memory_type(stored))
        native = along == "row" and chains.has_tdequant(held, stored)
        if native:  # A2/A3 wants row-major parameters
            wide = target == "a2a3"
            scale: chains.Parameter = frame.per_row("scale", wide=wide)
            shift: chains.Parameter | None = frame.per_row("zero", wide=wide)
        else:
            scale = frame.parameter("scale", along)
            shift = frame.parameter("zero", along) if zero else None
        real = chains.dequantize(f, held, Affine(along, scale, shift), stored)
        frame.store(real if y == "f32" else chains.rounded_half(f, real, y), "y")

    return function(name, target, shape, body)


def bytes_of(f: KernelBuilder) -> int:
    """Return the bytes of all vector tiles of a function."""
    return sum(t.bytes for t in f.tiles if t.loc == "vec")


# -- products on the cube --------------------------------------------------------------------------

ROWS, DEPTH, COLS = 128, 256, 128
"""Largest block of a product: operands take half of L0A and L0B, sums at most half of L0C."""


@dataclass(frozen=True, slots=True)
class Product:
    """Sizes of a product [m, k] x [k, n], padded to whole blocks."""

    m: int
    k: int
    n: int
    tile_m: int
    tile_k: int
    tile_n: int

    @property
    def padded(self) -> tuple[int, int, int]:
        """m, k, n in whole blocks."""
        return up(self.m, self.tile_m), up(self.k, self.tile_k), up(self.n, self.tile_n)


def sizes(m: int, k: int, n: int, width: int = 1, count: int = 1) -> Product:
    """Return the blocks of a product of elements of some bytes: smaller ones where a chip has more
    cores than there are blocks of a `count` of products."""
    depth = max(DEPTH // width, 32)
    rows, cols = min(up(m, 16), ROWS), min(up(n, 32), COLS)
    for _ in range(2):
        if count * -(-m // rows) * -(-n // cols) < CORES and cols > 32:
            cols = up(cols // 2, 32)
        if count * -(-m // rows) * -(-n // cols) < CORES and rows > 32:
            rows = up(rows // 2, 16)
    return Product(m, k, n, rows, min(up(k, 32), depth), cols)


def quant_word(scale: float, zero: int, *, signed: bool) -> int:
    """Return the fixpipe's word of a factor, of which it keeps 19 bits, and an offset."""
    return word_of_scale(float(fp19(scale)), zero, signed=signed)


def product(
    name: str,
    target: str,
    shape: Product,
    *,
    dtype: str = "i8",
    out: str = "i32",
    bias: bool = False,
    words: str = "",
    relu: bool = False,
    count: int = 0,
) -> KernelBuilder:
    """Return a function (a, b[, bias][, words or word]) -> c; with a `count` of so many products of
    these sizes, [count, …] each, a bias for each.

    `words`: empty (sums leave as they are), `tensor` (a scalar argument `word`) or `column` (an
    argument `words` with one i64 for each column).
    """
    f = KernelBuilder(name, target)
    acc_type = "i32" if dtype == "i8" else "f32"
    m, k, n = shape.padded
    axes = [*([(count, 1)] if count else []), (m, shape.tile_m), (n, shape.tile_n)]
    *before, row, col = f.share(axes)
    lead = tuple(before)
    acc = f.tile("acc", acc_type, shape.tile_m, shape.tile_n, "nz", "acc", 1024)
    start = parameters(f, shape, "bias", acc_type, "bias", col, lead, count) if bias else None
    first = (count,) if count else ()
    for step in range(0, k, shape.tile_k):
        left = _operand(
            f, "left", "a", dtype, (*first, m, k), (*lead, row, f.const(step)),
            shape.tile_m, shape.tile_k,
        )  # fmt: skip
        right = _operand(
            f, "right", "b", dtype, (*first, k, n), (*lead, f.const(step), col),
            shape.tile_k, shape.tile_n,
        )  # fmt: skip
        if step:
            f.tile_op("pto.tmatmul.acc", [acc, left, right], [acc])
        elif start is not None:
            f.tile_op("pto.tmatmul.bias", [left, right, start], [acc])
        else:
            f.tile_op("pto.tmatmul", [left, right], [acc])
    _store(f, shape, acc, (*lead, row, col), out, words, relu, first)
    f.close()
    return f


def _operand(
    f: KernelBuilder,
    loc: str,
    arg: str,
    dtype: str,
    whole: tuple[int, ...],
    at: tuple[str, ...],
    rows: int,
    cols: int,
) -> TileValue:
    mat = f.tile(f"{loc}_mat", dtype, rows, cols, "nz", "mat")
    tile = f.tile(loc, dtype, rows, cols, "nz" if loc == "left" else "zn", loc)
    sizes = (*(1 for _ in whole[2:]), rows, cols)
    f.load(mat, f.view(arg, dtype, whole), at, sizes)
    f.tile_op("pto.tmov", [mat], [tile])
    return tile


def parameters(
    f: KernelBuilder,
    shape: Product,
    arg: str,
    dtype: str,
    loc: str,
    col: str,
    lead: tuple[str, ...] = (),
    count: int = 0,
) -> TileValue:
    """A row of parameters of the columns, in the bias table or the fixpipe's parameters; of a
    `count` of rows the one at `lead`."""
    mat = f.tile(f"{arg}_mat", dtype, 1, shape.tile_n, "nd", "mat")
    tile = f.tile(arg, dtype, 1, shape.tile_n, "nd", loc)
    view = f.view(arg, dtype, (count or 1, shape.padded[2]))
    at = (*(lead or (f.const(0),)), col)
    f.load(mat, view, at, (1, shape.tile_n))
    f.tile_op("pto.tmov", [mat], [tile])
    return tile


RELU: Words = {"reluPreMode": "#pto<relu_pre_mode normal_relu>"}
"""Of a store out of the accumulator."""


def _store(
    f: KernelBuilder,
    shape: Product,
    acc: TileValue,
    at: tuple[str, ...],
    out: str,
    words: str,
    relu: bool,
    first: tuple[int, ...] = (),
) -> None:
    m, _, n = shape.padded
    sizes = (*(1 for _ in first), shape.tile_m, shape.tile_n)
    view = f.window(f.view("c", out, (*first, m, n)), out, at, sizes)
    attrs = RELU if relu else None
    ins: list[TileValue | Typed] = [acc]
    if words == "column":
        table = parameters(f, shape, "words", "i64", "scaling", at[-1])
        f.tile_op("pto.tstore", [acc], [view], attrs, {"fp": table})
        return
    if words == "tensor":
        ins.append(f.scalar("word", "i64"))
    f.tile_op("pto.tstore", ins, [view], attrs)


# -- tensors as matrices ---------------------------------------------------------------------------

WIDTH = 512


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor as [rows, cols], which parameters run along what, and the way back."""

    array: np.ndarray
    along: str  # tensor, row or column
    scale: np.ndarray
    zero: np.ndarray
    back: Callable[[np.ndarray], np.ndarray]


def matrix(
    x: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
    axis: int | None = None,
    block: int | None = None,
) -> Matrix:
    """Return a tensor and its parameters as a matrix; raises UsageError if they do not fit."""
    zero = spread(zero, scale.shape)
    if block:
        return _blocks(x, scale, zero, 1 if axis is None else axis, block)
    if scale.size == 1:
        return _flat(x, scale.reshape(1), zero.reshape(1))
    return _axis(x, scale, zero, normal_axis(1 if axis is None else axis, x.ndim))


def width_of(size: int) -> int:
    """Return the width of a matrix for so many elements in a row: eight rows before it is wide."""
    return min(WIDTH, up(-(-size // 8), 64), max(size, 1))


def _flat(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> Matrix:
    width = width_of(x.size)
    rows = -(-x.size // width)
    whole = x.reshape(-1)
    if whole.size != rows * width:
        whole = np.zeros(rows * width, x.dtype)
        whole[: x.size] = x.reshape(-1)
    return Matrix(
        whole.reshape(rows, width), "tensor", scale, zero,
        lambda y: y.reshape(-1)[: x.size].reshape(x.shape),
    )  # fmt: skip


def _axis(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int) -> Matrix:
    size, after = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if after == 1 and axis:
        array = x.reshape(-1, size)
        return Matrix(array, "column", scale, zero, lambda y: y.reshape(x.shape))
    moved = np.moveaxis(x, axis, 0)
    return Matrix(
        moved.reshape(size, -1), "row", scale, zero,
        lambda y: np.moveaxis(y.reshape(moved.shape), 0, axis),
    )  # fmt: skip


def _blocks(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int, block: int) -> Matrix:
    check_blocks(x.shape, scale.shape, axis, block)
    where = normal_axis(axis, x.ndim)
    moved = np.moveaxis(x, where, -1)
    size, count = x.shape[where], scale.shape[where]
    wide = moved
    if size != count * block:
        wide = np.zeros((*moved.shape[:-1], count * block), x.dtype)
        wide[..., :size] = moved
    shape = wide.shape

    def back(y: np.ndarray) -> np.ndarray:
        return np.moveaxis(y.reshape(shape)[..., :size], -1, where)

    def per_row(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(values, where, -1).reshape(-1)

    return Matrix(wide.reshape(-1, block), "row", per_row(scale), per_row(zero), back)
