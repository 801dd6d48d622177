"""Matrix products on the cube: int8 (or f32) operands, 32-bit sums, and the output path.

The sums leave as they are for a vector kernel to requantise, or through the fixpipe with a
quantisation word for the tensor or for each column.
"""

from __future__ import annotations

from ptosim.ground.records import dataclass
from ptosim.language.build import Typed
from ptosim.machine.numbers.fixpipe import word_of_scale
from ptosim.machine.quant.parameters import fp19
from ptosim.models.kernel_builder import KernelBuilder, TileValue
from ptosim.models.kernels import up

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


def sizes(m: int, k: int, n: int, width: int = 1) -> Product:
    """Return the blocks of a product of elements of some bytes."""
    depth = max(DEPTH // width, 32)
    return Product(m, k, n, min(up(m, 16), ROWS), min(up(k, 32), depth), min(up(n, 32), COLS))


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
) -> KernelBuilder:
    """Return a function (a, b[, bias][, words or word]) -> c.

    `words`: empty (sums leave as they are), `tensor` (a scalar argument `word`) or `column` (an
    argument `words` with one i64 for each column).
    """
    f = KernelBuilder(name, target)
    acc_type = "i32" if dtype == "i8" else "f32"
    m, k, n = shape.padded
    row = f.begin("i", m, shape.tile_m)
    col = f.begin("j", n, shape.tile_n)
    acc = f.tile("acc", acc_type, shape.tile_m, shape.tile_n, "nz", "acc", 1024)
    start = _bias(f, shape, col, acc_type) if bias else None
    for step in range(0, k, shape.tile_k):
        left = _operand(
            f, "left", "a", dtype, (m, k), (row, f.const(step)), shape.tile_m, shape.tile_k
        )
        right = _operand(
            f, "right", "b", dtype, (k, n), (f.const(step), col), shape.tile_k, shape.tile_n
        )
        if step:
            f.tile_op("pto.tmatmul.acc", [acc, left, right], [acc])
        elif start is not None:
            f.tile_op("pto.tmatmul.bias", [left, right, start], [acc])
        else:
            f.tile_op("pto.tmatmul", [left, right], [acc])
    _store(f, shape, acc, (row, col), out, words, relu)
    f.end()
    f.end()
    return f


def _operand(
    f: KernelBuilder,
    loc: str,
    arg: str,
    dtype: str,
    whole: tuple[int, int],
    at: tuple[str, str],
    rows: int,
    cols: int,
) -> TileValue:
    mat = f.tile(f"{loc}_mat", dtype, rows, cols, "nz", "mat")
    tile = f.tile(loc, dtype, rows, cols, "nz" if loc == "left" else "zn", loc)
    window = f.window(f.view(arg, dtype, whole), dtype, at, (rows, cols))
    f.tile_op("pto.tload", [window], [mat])
    f.tile_op("pto.tmov", [mat], [tile])
    return tile


def _row(f: KernelBuilder, shape: Product, arg: str, dtype: str, loc: str, col: str) -> TileValue:
    """A row of parameters of the columns, in the bias table or the fixpipe's parameters."""
    mat = f.tile(f"{arg}_mat", dtype, 1, shape.tile_n, "nd", "mat")
    tile = f.tile(arg, dtype, 1, shape.tile_n, "nd", loc)
    view = f.view(arg, dtype, (1, shape.padded[2]))
    f.tile_op("pto.tload", [f.window(view, dtype, (f.const(0), col), (1, shape.tile_n))], [mat])
    f.tile_op("pto.tmov", [mat], [tile])
    return tile


def _bias(f: KernelBuilder, shape: Product, col: str, dtype: str) -> TileValue:
    return _row(f, shape, "bias", dtype, "bias", col)


def _store(
    f: KernelBuilder,
    shape: Product,
    acc: TileValue,
    at: tuple[str, str],
    out: str,
    words: str,
    relu: bool,
) -> None:
    m, _, n = shape.padded
    view = f.window(f.view("c", out, (m, n)), out, at, (shape.tile_m, shape.tile_n))
    attrs = {"reluPreMode": "#pto<relu_pre_mode normal_relu>"} if relu else None
    ins: list[TileValue | Typed] = [acc]
    if words == "column":
        table = _row(f, shape, "words", "i64", "scaling", at[1])
        f.tile_op("pto.tstore", [acc], [view], attrs, {"fp": table})
        return
    if words == "tensor":
        ins.append(f.scalar("word", "i64"))
    f.tile_op("pto.tstore", ins, [view], attrs)
