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
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.storage import argument_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.context import Action, ValueContext
from ptosim.ops.base.functions import Commit, kernel, support, value
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
    from ptosim.machine.quant.mlir.parser import parse_type
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
    from ptosim.machine.quant.mlir.semantics import is_computed

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
    from ptosim.machine.quant.mlir import semantics as casts

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
