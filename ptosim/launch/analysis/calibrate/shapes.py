"""Tile operations of a profiler's row: its type and its shapes as a question to the cost laws."""

from __future__ import annotations

from math import prod
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.ir.types import DType, TileType
from ptosim.ground.isa.costs import CostEntry, cost_entries
from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OperandDef, Role, Variant
from ptosim.launch.analysis.calibrate.profiler import TRACE, Reading
from ptosim.time.laws.shapes import OpShape, TileShape, ViewShape

_TYPES = {
    "FLOAT": "f32", "FLOAT32": "f32", "FP32": "f32", "FLOAT16": "f16", "FP16": "f16", "HALF": "f16",
    "BFLOAT16": "bf16", "BF16": "bf16", "INT8": "i8", "INT16": "i16", "INT32": "i32",
    "INT64": "i64", "UINT8": "ui8", "UINT16": "ui16", "UINT32": "ui32", "UINT64": "ui64",
    "BOOL": "i8", "HIFLOAT8": "hif8", "HIF8": "hif8", "FLOAT8_E4M3FN": "f8E4M3FN",
    "FLOAT8_E5M2": "f8E5M2", "FLOAT8_E8M0": "f8E8M0FNU", "FLOAT4_E2M1": "f4E2M1FN",
    "FLOAT4_E1M2": "f4E1M2FN",
}  # fmt: skip

PIPE_OF = {"V": "aiv", "MTE3": "aiv", "M": "aic", "FIX": "aic", "MTE1": "aic"}
_LOCS = {"lhs": "left", "rhs": "right", "dst": "acc", "bias": "bias", "acc": "acc"}


class NoShape(Exception):
    """A row that cannot be made a question, with the reason."""


def mnemonic_of(reading: Reading) -> str | None:
    """Return the tile operation that a row is of, or None."""
    for word in (reading.kind, reading.name):
        name = word.lower().removeprefix("pto.")
        if name in cost_entries() and isa().get(f"pto.{name}") is not None:
            return name
    return None


def type_of(word: str) -> DType:
    """Return the element type that a profiler's word means. Raises NoShape for an unknown one."""
    plain = word.upper().removeprefix("DT_")
    try:
        return dtype(_TYPES.get(plain, word))
    except (KeyError, IsaDataError) as problem:
        raise NoShape(f"element type {word or '(none)'} is not known") from problem


def question(reading: Reading, mnemonic: str, pipe: str, target: str) -> OpShape:
    """Return the shapes of a row's operation. Raises NoShape with the reason if they are not all
    there."""
    row = isa().get(f"pto.{mnemonic}")
    assert row is not None
    inputs = _operands(reading.inputs, reading.input_types)
    if not inputs:
        raise NoShape("no shapes of its inputs")
    outputs = _operands(reading.outputs, reading.output_types)
    if not outputs:
        outputs = [_output(cost_entries()[mnemonic], *inputs[0])]
    if reading.form == TRACE and cost_entries()[mnemonic].class_.name == "binary":
        inputs = inputs[:1] * 2  # a slice tells the shape of its first tile only
    variant, given = _variant(row.variants, len(inputs))
    side = _side(reading, pipe)
    args: dict[str, Any] = {}
    for operand, (shape, word) in zip(given, inputs, strict=False):
        args[operand.name] = _value(operand, shape, word, pipe, side)
    written = [o for o in variant.outs if _is_memory(o) and o.role is not Role.SCRATCH]
    for operand, (shape, word) in zip(written, outputs, strict=False):
        args[operand.name] = _value(operand, shape, word, pipe, side)
    missing = [o.name for o in written if o.name not in args and not o.optional]
    if missing:
        raise NoShape(f"no shape of `{missing[0]}`")
    ins = tuple(o.name for o in given if o.name in args)
    outs = tuple(o.name for o in written if o.name in args)
    return OpShape(mnemonic, target, args, {}, ins, outs)


def label_of(shape: OpShape) -> tuple[str, str]:
    """Return the family of an operation (its name and element types) and its label."""
    parts = [a for a in shape.args.values() if isinstance(a, TileShape)]
    first, last = parts[0], parts[-1]
    words = str(first.dtype)
    if str(last.dtype) != words:
        words += f" to {last.dtype}"
    family = f"{shape.mnemonic} {words}"
    whole = max(parts, key=lambda t: t.rows * t.cols)
    return family, f"{family} {whole.rows}x{whole.cols}"


def _operands(
    shapes: tuple[tuple[int, ...], ...], words: tuple[str, ...]
) -> list[tuple[tuple[int, int], str]]:
    """Shapes as rows and columns with their element types; scalars are left out."""
    found = []
    for number, shape in enumerate(shapes):
        if not shape:
            continue
        word = words[number] if number < len(words) else words[-1] if words else ""
        found.append(((prod(shape[:-1]), shape[-1]), word))
    return found


def _output(entry: CostEntry, shape: tuple[int, int], word: str) -> tuple[tuple[int, int], str]:
    """What an operation writes where the table does not say it."""
    kind = entry.class_.name
    if kind == "row_reduce":
        return (shape[0], 1), word
    if kind == "col_reduce":
        return (1, shape[1]), word
    if kind in ("binary", "unary", "load", "store", "scalar", "tile_scalar"):
        return shape, word
    raise NoShape("no shapes of its outputs")


def _is_memory(operand: OperandDef) -> bool:
    return bool({"tile", "view"} & set(operand.kinds))


def _variant(variants: tuple[Variant, ...], count: int) -> tuple[Variant, list[OperandDef]]:
    """The operand list that takes so many tiles, and those of its operands that they are."""
    for variant in variants:
        read = [o for o in variant.ins if _is_memory(o) and not o.variadic]
        needed = [o for o in read if not o.optional and o.role is not Role.SCRATCH]
        if len(needed) <= count <= len(read):
            spare = count - len(needed)
            chosen = []
            for operand in read:
                is_needed = operand in needed
                if is_needed or spare > 0:
                    spare -= not is_needed
                    chosen.append(operand)
            return variant, chosen
    raise NoShape(f"no form of it has {count} tiles as inputs")


def _side(reading: Reading, pipe: str) -> str:
    """The kind of core that executed a row."""
    if pipe in PIPE_OF:
        return PIPE_OF[pipe]
    kinds = {kind for (kind, name), cycles in reading.cycles.items() if name == pipe and cycles}
    return "aic" if kinds == {"aic"} else "aiv"


def _value(operand: OperandDef, shape: tuple[int, int], word: str, pipe: str, side: str) -> Any:
    element = type_of(word)
    rows, cols = shape
    if "view" in operand.kinds and "tile" not in operand.kinds:
        return ViewShape((rows, cols), (cols, 1), element)
    if pipe == "M":
        loc = _LOCS.get(operand.name, "left")
    elif pipe == "FIX":
        loc = "acc"
    else:
        loc = "vec" if side == "aiv" else "mat"
    return TileShape(TileType(loc, element, rows, cols, rows, cols), rows, cols)
