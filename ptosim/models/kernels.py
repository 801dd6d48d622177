"""Whole functions: load a window, apply a chain, store it, in loops over rows and columns."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from ptosim.ground.records import dataclass
from ptosim.language.build import Typed
from ptosim.machine.quant.storage import Storage
from ptosim.models import chains, requant
from ptosim.models.chains import Affine
from ptosim.models.kernel_builder import KernelBuilder, TileValue

ELEMENTS = 4096
"""Elements of a tile: with every temporary of the longest chain it fits the smaller of the
targets."""


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


def grid(rows: int, cols: int, elements: int = ELEMENTS) -> Grid:
    """Return tiles for a matrix: rows in eights, columns in 64s, at most `elements` each."""
    tile_cols = min(up(cols, 64), 512)
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
        window = f.window(view, dtype, (self.row, f.const(0)), (rows, 1))
        f.tile_op("pto.tload", [window], [tile])
        return tile

    def per_column(self, name: str, dtype: str = "f32") -> TileValue:
        """Load one value for each column of the tile, as a row tile."""
        f, cols = self.f, self.shape.tile_cols
        tile = f.tile(name, dtype, 1, cols)
        view = f.view(name, dtype, (1, self.shape.padded[1]))
        window = f.window(view, dtype, (f.const(0), self.col), (1, cols))
        f.tile_op("pto.tload", [window], [tile])
        return tile

    def parameter(self, name: str, along: str, dtype: str = "f32") -> chains.Parameter:
        """Return a parameter: a scalar argument, or a loaded row or column of values."""
        if along == "tensor":
            return self.f.scalar(name, dtype)
        return self.per_row(name, dtype) if along == "row" else self.per_column(name, dtype)


def function(name: str, target: str, shape: Grid, body: Body) -> KernelBuilder:
    """Return a function that does something for every tile of a matrix."""
    f = KernelBuilder(name, target)
    row = f.begin("i", shape.padded[0], shape.tile_rows)
    col = f.begin("j", shape.padded[1], shape.tile_cols)
    body(f, Frame(f, shape, row, col))
    f.end()
    f.end()
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
        frame.store(real if y == "f32" else chains.half(f, real, y), "y")

    return function(name, target, shape, body)


def bytes_of(f: KernelBuilder) -> int:
    """Return the bytes of all vector tiles of a function."""
    return sum(t.bytes for t in f.tiles if t.loc == "vec")
