"""The MLIR quant dialect: casts of tiles, tensors and scalars, and views of stored values.

A tensor is a NumPy array in a slot; a scalar of a quantised type is its stored integer. The
formulas are imported where a program has a cast: most have none, and every command would wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.ground.ir.attributes import numbers
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, TileType
from ptosim.ground.isa.dates import Profile
from ptosim.machine.layout import round_up
from ptosim.machine.numbers import integers as affine
from ptosim.machine.pages import POISON, argument_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, tile_array
from ptosim.ops.base.functions import Commit, kernel, support, value
from ptosim.ops.base.orders import Action, ValueContext
from ptosim.ops.scalar.tiles import checked_tile

if TYPE_CHECKING:
    from ptosim.machine.quant.mlir.types import UniformType

Cast = Callable[[np.ndarray], np.ndarray]
CASTS = ("quant.qcast", "quant.dcast")
FAKE = ("quant.const_fake_quant", "quant.const_fake_quant_per_axis")


def element(type_: Any) -> DType | None:
    """Return the element type of a scalar, tensor or tile."""
    return getattr(type_, "dtype", None) or getattr(type_, "elem", None)


def uniform(dtype: DType | None) -> UniformType | None:
    """Return the uniform type of a quantised element type, or None."""
    if dtype is None or dtype.kind != "quant":
        return None
    from ptosim.machine.quant.mlir.readers import parse_type
    from ptosim.machine.quant.mlir.types import UniformType

    found = parse_type(dtype.name).element
    return found if isinstance(found, UniformType) else None


def _sides(op: Operation) -> tuple[DType | None, DType | None]:
    out = op.bound.get("dst")
    result = out.type if out is not None else op.results[0].type
    return element(op.bound["input"].type), element(result)


@support(*CASTS)
def supported(op: Operation, profile: Profile) -> str | None:
    """qcast and dcast compute with uniform types of the usual float types."""
    from ptosim.machine.quant.mlir.passes import is_computed

    for dtype in _sides(op):
        if dtype is not None and dtype.kind == "quant":
            type_ = uniform(dtype)
            if type_ is None:
                return f"{dtype} says nothing on how values are computed"
            if not is_computed(type_.expressed):
                return f"values expressed in {type_.expressed} are not computed"
    return None


# -- tiles -----------------------------------------------------------------------------------------


@kernel("quant.qcast:tile", "quant.dcast:tile", over="input dst")
def cast_tile(op: Binding) -> Commit:
    """The valid region, element by element."""
    held, real = _sides(op.op)
    return _on_tile(op, _cast(op.op, held, real, op.attr("scheme") or op.switch("quant.scheme")))


@kernel(*(f"{name}:tile" for name in FAKE), over="input dst")
def fake_tile(op: Binding) -> Commit:
    """Quantised and dequantised again."""
    return _on_tile(op, _fake(op.op, op.attr))


def _on_tile(op: Binding, cast: Cast) -> Commit:
    source, target = op.tile("input"), op.tile("dst")
    if (source.v_row, source.v_col) != (target.v_row, target.v_col):
        raise OpFault(
            "PTO6021",
            f"'{op.op.name}' covers {target.v_row}x{target.v_col} elements; input has "
            f"{source.v_row}x{source.v_col}",
        )
    return lambda: target.write(_to_memory(cast(_from_memory(source)), target))


def _from_memory(tile: Tile) -> np.ndarray:
    values = np.array(tile.read())
    kind = argument_dtype(tile.type.dtype)
    if kind.name == "int4":
        values = np.where(values > 7, values | 0xF0, values).astype(np.uint8)
    return values.view(kind) if kind != values.dtype else values


def _to_memory(values: np.ndarray, tile: Tile) -> np.ndarray:
    wanted = argument_dtype(tile.type.dtype)
    values = values.astype(wanted, copy=False)
    if wanted == tile.dtype:
        return values
    return values.view(np.uint8) & (15 if tile.bits == 4 else 255)


# -- what a cast computes --------------------------------------------------------------------------


def _cast(op: Operation, held: DType | None, real: DType | None, scheme: str) -> Cast:
    from ptosim.machine.quant.mlir import passes as casts

    if op.name == "quant.qcast":
        type_ = uniform(real)
        assert type_ is not None
        return lambda x: casts.qcast(x, type_, scheme)
    type_ = uniform(held)
    assert type_ is not None
    return lambda q: casts.dcast(q, type_, scheme)


def _fake(op: Operation, attr: Callable[[str], Any]) -> Cast:
    from ptosim.machine.quant.fake_quant import fake_quant, fake_quant_type

    dtype = _sides(op)[0]
    assert dtype is not None
    type_ = fake_quant_type(
        numbers(attr("min")) or (),
        numbers(attr("max")) or (),
        attr("num_bits"),
        narrow_range=bool(attr("narrow_range")),
        is_signed=bool(attr("is_signed")),
        axis=attr("axis"),
        expressed=dtype.name,
    )
    return lambda x: fake_quant(x, type_)


# -- scalars and tensors ---------------------------------------------------------------------------


@value(*CASTS, *FAKE)
def cast_value(ctx: ValueContext) -> Action:
    """On the scalar unit, at once."""
    op = ctx.op
    held, real = _sides(op)
    if op.name in FAKE:
        cast = _fake(op, ctx.attrs.get)
    else:
        cast = _cast(op, held, real, ctx.attrs.get("scheme") or ctx.switch("quant.scheme"))
    kind = argument_dtype(held) if held is not None else np.dtype(np.float32)
    is_stored = real is not None and real.kind == "quant"
    made_kind = argument_dtype(real) if is_stored else None

    def compute(given: Any) -> Any:
        if isinstance(given, np.ndarray):
            made = cast(given)
            return made if made_kind is None else made.astype(made_kind, copy=False)
        made = cast(np.asarray(given).astype(kind))
        if is_stored:
            return int(made)
        return np.longdouble(made) if made.dtype == np.longdouble else float(made)

    return ctx.computed(compute, "input")


@value("quant.scast", "quant.stats", "quant.stats_ref", "quant.coupled_ref")
def same_value(ctx: ValueContext) -> Action:
    """The operand, under the result's type."""
    type_ = ctx.result_type
    dtype = element(type_)
    kind = argument_dtype(dtype) if dtype is not None else None

    def seen(given: Any) -> Any:
        if isinstance(type_, TileType):
            return checked_tile(type_, given.addr, given.v_row, given.v_col)
        if not isinstance(given, np.ndarray) or kind is None:
            return given
        return given.view(kind) if given.dtype.itemsize == kind.itemsize else given.astype(kind)

    return ctx.computed(seen, "input" if "input" in ctx.slots else "arg")


# TQUANT to INT8: a scale, and for the asymmetric form an offset, for each row.
#
# Besides the result A2/A3 leaves intermediate values in its source and its scratch tile; programs
# have come to rely on some of it, so all of it is modelled.

Parameter = Callable[[], np.ndarray]


@kernel("pto.tquant:int8", over="src")
def tquant_int8(op: Binding) -> Commit:
    """q = saturate(round(x * scale[r] [+ offset[r]])), sum and product rounded to f32 each."""
    src = op.tile("src")
    values = op.region("src", src.v_row, src.v_col)
    codes = op.region("dst", src.v_row, src.v_col)
    scale, offset = parameters(op, src)
    by, at = op.switch("tquant.int8_scale"), op.switch("tquant.int8_offset")
    is_signed = op.switch("tquant.int8_range") == "signed"
    forgets = all(name in op.forgotten for name in ("src", "tmp") if op.has(name))
    if at == "pre" and (forgets or not _clobbers(op)):
        spare = values if "src" in op.forgotten else None

        def code() -> None:
            shift = None if offset is None else offset()
            codes[...] = affine.int8_codes(
                values, scale(), shift, scale_by=by, signed_range=is_signed, spare=spare
            )

        return code
    leave = _clobber(op, src, is_kept=offset is None)
    kept = values if leave is not None and offset is None else None  # offsets may be part of src

    def quantize() -> None:
        shift = None if offset is None else offset()
        result = affine.quantize_int8(
            values, scale(), shift,
            scale_by=by, offset_at=at, signed_range=is_signed, out=kept,
        )  # fmt: skip
        if leave is not None:
            leave(result)
        codes[...] = result.codes

    return quantize


# -- scale and offset ------------------------------------------------------------------------------


def parameters(op: Binding, src: Tile) -> tuple[Parameter, Parameter | None]:
    """Return scale and offset as they meet the elements: [rows, 1], or [rows, cols] by lane."""
    tile, offset = op.tile("fp"), op.opt_tile("offset")
    untold = offset is None and op.attr("quant_type") is None
    if untold and op.tile("dst").type.dtype.kind == "uint":
        pairs = op.region("fp", src.v_row, 2)  # scales and offsets in one tile of two columns
        return lambda: pairs[:, 0:1], lambda: pairs[:, 1:2]
    scale = _parameter(op, "fp", tile, src)
    return scale, None if offset is None else _parameter(op, "offset", offset, src)


def _parameter(op: Binding, name: str, tile: Tile, src: Tile) -> Parameter:
    """The library reads one f32 for each row from flat memory, whatever the layout of the parameter
    tile says. A2/A3 without a scratch tile reads a row-major one as a 32-byte block for each row,
    lane c mod 8 for column c; its blocks follow each other even where the tile is wider."""
    rows, cols = src.v_row, src.v_col
    if op.profile.name == "page" and tile.rows * tile.cols == 1:
        one = tile_array(tile, (1, 1), (4, 4), np.float32)
        return lambda: one
    by_lane = (
        op.target == "a2a3"
        and op.profile.name == "hw"
        and not op.is_written("tmp")
        and tile.type.blayout == "row_major"
    )
    needed = (8 if by_lane else 1) * rows
    if tile.type.bytes < 4 * needed:
        raise OpFault(
            "PTO6011",
            f"'{op.op.name}': {name} has {tile.type.bytes // 4} f32, {needed} are read",
            notes=("A2/A3 without scratch reads 8 values for each row of a row-major tile",),
        )
    if not by_lane:
        return _flat(op, tile, rows)
    shape, pitch = (op.stacked, rows // op.stacked), tile.type.bytes // op.stacked
    each = tile_array(tile, (*shape, cols // 8 + 1, 8), (pitch, 32, 0, 4), np.float32)

    def lanes() -> np.ndarray:
        blocks = each.reshape(rows, *each.shape[2:])
        used = blocks[:, 0, : min(cols, 8)]
        differing = (used.view(np.uint32) != used[:, :1].view(np.uint32)).any(axis=1)
        if differing.any():
            row = int(np.flatnonzero(differing)[0])
            op.report(
                "PTO7001",
                f"reads a 32-byte block of {name} for each row, and the values of a block differ",
                notes=(f"row {row}: {_listed(used[row])}; column c meets lane c mod 8",),
                help="give the parameter one column (col_major [M, 1]), or fill each block with "
                "copies",
            )
        return blocks.reshape(rows, -1)[:, :cols]

    return lanes


def _listed(values: np.ndarray) -> str:
    return " ".join(f"{v:.6g}" for v in values)


def _flat(op: Binding, tile: Tile, rows: int) -> Parameter:
    shape, pitch = (op.stacked, rows // op.stacked, 1), tile.type.bytes // op.stacked
    view = tile_array(tile, shape, (pitch, 4, 4), np.float32)
    return lambda: view.reshape(rows, 1)


# -- what A2/A3 overwrite --------------------------------------------------------------------------


def _clobbers(op: Binding) -> bool:
    return op.target == "a2a3" and op.profile.name == "hw"


def _clobber(
    op: Binding, src: Tile, *, is_kept: bool
) -> Callable[[affine.Int8Result], None] | None:
    """The f32 products in src, the 32-bit integers in tmp, and over the first half of src the f16
    image, packed at a row stride of its own. The row broadcast has filled the start of tmp.
    `is_kept`: the products are there."""
    if not _clobbers(op):
        return None
    rows, cols, width = src.v_row, src.v_col, src.cols
    products = op.region("src", rows, cols)
    tiles, tmp = op.stacked, op.opt_tile("tmp")
    shape, pitch = (tiles, rows // tiles, cols), src.type.bytes // tiles
    line = 2 * round_up(width, 16)
    image = tile_array(src, shape, (pitch, line, 2), np.float16)
    if tiles == 1 and cols < width:
        op.writes_beyond("src", 0, 2 * cols, (rows, line), spoiled=True)
    integers: np.ndarray | None = None
    blocks = np.empty(0, np.uint8)
    if tmp is not None:
        pitch = tmp.type.bytes // tiles
        integers = tile_array(tmp, shape, (pitch, 4 * width, 4), np.int32)
        size = min(-(-rows // tiles // 8) * 256, 7680, pitch)
        blocks = tile_array(tmp, (tiles, size), (pitch, 1), np.uint8)

    def leave(result: affine.Int8Result) -> None:
        if not is_kept:
            products[...] = result.products
        if integers is not None:
            blocks.fill(POISON)
            integers[...] = result.integers.reshape(shape)
        image[...] = affine.half_image(result.integers).reshape(shape)

    return leave
