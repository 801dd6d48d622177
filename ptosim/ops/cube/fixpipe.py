"""What leaves an accumulator tile: the fixpipe scales, applies ReLU and converts on the way.

A scalar quantisation word serves every column; the words of a parameter tile serve one column each.
The arithmetic is that of `numerics.fixpipe`: the scale comes before ReLU, as the public micro
programs' data have it (the documentation of the tile operations leaves the order open)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.numbers.fixpipe import Activation, Rules, fixed
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, tile_array
from ptosim.ops.base.functions import Commit, kernel
from ptosim.ops.sync import fifo_epilogue

Convert = Callable[[np.ndarray], np.ndarray]
Words = Callable[[int], np.ndarray]

_KEEP_INFINITY = 48  # bit of the control register: results beyond a float's range become infinite

_PLAIN = {
    "f32": ("f32", "f16", "bf16"),
    "i32": ("i32",),
}
"""Destinations without a quantisation word."""

_SCALED = {
    "a2a3": {"f32": ("i8", "ui8"), "i32": ("i8", "ui8", "f16", "i16")},
    "a5": {
        "f32": ("i8", "ui8", "f16", "bf16", "f32", "hif8", "f8E4M3FN", "f8E5M2"),
        "i32": ("i8", "ui8", "f16", "bf16"),
    },
}


def stored(op: Binding, tile: Tile, dtype: DType) -> Convert:
    """Return the function that gives values of an accumulator tile (rows and columns, from the
    first column of the parameters) as elements of `dtype`. Raises OpFault for a pair of types that
    the fixpipe of the target does not have."""
    src, dst = conversion_name(tile.type.dtype), conversion_name(dtype)
    plain = _PLAIN.get(src, ())
    words = words_of(op, dst in plain, dst)
    known = plain if words is None else _SCALED[op.target].get(src, ())
    if dst not in known:
        how = "without a scale" if words is None else "with a scale"
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': the fixpipe of {op.target} does not turn {src} into {dst} {how}",
            notes=(f"it turns {src} into {', '.join(known) or 'nothing'} {how}",),
        )
    activation = Activation(op.attr("reluPreMode") == "normal_relu")
    rules = _rules(op)
    by_rows = op.has("fp") and op.switch("fixpipe.channel") == "row"
    registers = op.core.registers

    def convert(values: np.ndarray) -> np.ndarray:
        given = None
        if words is not None:
            given = words(values.shape[0])[:, None] if by_rows else words(values.shape[1])
        saturate = not registers["ctrl"] >> _KEEP_INFINITY & 1
        return fixed(values, dst, given, activation, saturate=saturate, rules=rules)

    return convert


def _rules(op: Binding) -> Rules:
    return Rules(
        exact=op.switch("fixpipe.product") == "exact",
        clip_first=op.switch("fixpipe.s9") == "on",
        signed_offset=op.switch("fixpipe.offset") == "signed",
        short_scale=_has_words(op) or op.switch("fixpipe.scale") == "fp19",
        relu=op.switch("fixpipe.relu"),
    )


def scalar_scale(op: Binding) -> int | None:
    """The word that scales every column, whatever the operation calls it."""
    return next((op.scalar(n) for n in ("preQuantScalar", "pre_quant") if op.has(n)), None)


def is_scaled(op: Binding) -> bool:
    """True if the operation has a scale of its own."""
    return op.has("fp") or scalar_scale(op) is not None


def _has_words(op: Binding) -> bool:
    return op.has("fp") and op.tile("fp").bits == 64


def words_of(op: Binding, plain: bool, dst: str) -> Words | None:
    """The quantisation words of the columns: of a parameter tile, of a scalar, or, where types need
    them and the operation has none, of the registers; None if nothing is scaled."""
    if op.has("fp"):
        return _table(op.tile("fp")) if _has_words(op) else _numbers(op, op.tile("fp"), dst)
    scale = scalar_scale(op)
    if scale is not None:
        word = _word(scale)
        return lambda count: word
    registers = op.core.registers
    if plain or not {"quant.word", "quant.table"} & registers.keys():
        return None
    data = op.core.space("scaling").data

    def preset(count: int) -> np.ndarray:
        if "quant.word" in registers:
            return _word(registers["quant.word"])
        return np.ndarray((count,), np.uint64, data, registers["quant.table"])

    return preset


def _table(tile: Tile) -> Words:
    return lambda count: tile_array(tile, (count,), (8,), np.uint64)


def _numbers(op: Binding, tile: Tile, dst: str) -> Words:
    """The words of scales that are written as plain numbers, one in row 0 for each column. No
    public text says how the hardware reads a table of them; it takes 64-bit words."""
    if not tile.type.dtype.is_float or tile.bits not in (16, 32):
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': fp has elements of type {tile.type.dtype}",
            notes=("scales are 64-bit words, or f32, f16 and bf16 numbers",),
        )
    signed = np.uint64((dst == "i8") << 46)

    def words(count: int) -> np.ndarray:
        values = np.ascontiguousarray(tile.read(1, count).astype(np.float32)[0])
        if (values != values[0]).any():
            op.report(
                "PTO7060",
                f"takes the {tile.type.dtype} numbers of fp as the scales: the scale tile is not "
                "64-bit",
                help="give fp 64-bit elements, a quantisation word for each column",
            )
        return values.view(np.uint32).astype(np.uint64) | signed

    return words


def _word(value: int) -> np.ndarray:
    return np.array([value & (1 << 64) - 1], np.uint64)


@kernel("pto.set_quant_scalar", "pto.set_quant_vector")
def set_quant(op: Binding) -> Commit:
    """The quantisation word for accumulators that leave without one of their own, or the place of a
    word for each column. On a pipe that converts (August 2026) they belong to the pipe."""
    if op.has("scale"):
        return fifo_epilogue.set_scalar(op)
    if op.has("scaling_tile"):
        return fifo_epilogue.set_vector(op)
    registers, is_word = op.core.registers, op.has("value")
    name, other = ("quant.word", "quant.table") if is_word else ("quant.table", "quant.word")
    given = int(op.scalar("value")) if is_word else op.tile("fp").addr

    def commit() -> None:
        registers.pop(other, None)
        registers[name] = given

    return commit
