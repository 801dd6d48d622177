"""Arguments of a run: what a function takes, whether what the caller gives fits, and what is made
up."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import (
    AbstractTileType,
    DType,
    ErrorType,
    MemRefType,
    PackedDType,
    PtrType,
    ScalarType,
    TileType,
    Type,
    VectorType,
)
from ptosim.ground.limits import current
from ptosim.ground.records import dataclass
from ptosim.ground.whole_numbers import MOST_BITS
from ptosim.launch.generated import CHUNK, LazyArray, RandomPages, is_lazy
from ptosim.machine.storage import argument_dtype, has_numbers, native, to_bytes
from ptosim.ops.scalar.numbers import rounder, wrap
from ptosim.ops.tile.quant_casts import uniform


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument: its name, kind (ptr, scalar, tile, memref), element type, and shape if it is
    fixed."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int | None, ...] | None


def signature(functions: Sequence[Function]) -> list[Arg]:
    """Return what functions that are launched together take, in order, equal names once."""
    found: dict[str, Arg] = {}
    for value in (v for f in functions for v in f.args):
        found.setdefault(value.name, _describe(value))
    return list(found.values())


def _describe(value: Value) -> Arg:
    type_ = value.type
    if isinstance(type_, PtrType):
        return Arg(value.name, "ptr", type_.elem.name, None)
    if isinstance(type_, ScalarType):
        return Arg(value.name, "scalar", type_.dtype.name, None)
    if isinstance(type_, TileType):
        return Arg(value.name, "tile", type_.dtype.name, (type_.rows, type_.cols))
    if isinstance(type_, MemRefType):
        return Arg(value.name, "memref", type_.elem.name, type_.dims)
    if isinstance(type_, VectorType):
        return Arg(value.name, type_.kind, type_.elem.name, type_.dims)
    return Arg(value.name, "tile" if isinstance(type_, AbstractTileType) else "other", "?", None)


def refuse_open(functions: Sequence[Function]) -> None:
    """Raise UsageError for a value whose type nothing gives: an input of a snippet where no line
    writes one, a tile without a shape that no argument has. What is executed has types."""
    for function in functions:
        for value in function.args:
            _refuse_open(value, f"input `{value.name}`")
        for op in function.ops:
            for value in op.results:
                _refuse_open(value, f"`%{value.name}` of '{op.name}'")
            _refuse_incomplete(op, in_snippet=function.implicit)


def _refuse_open(value: Value, what: str) -> None:
    if isinstance(value.type, ErrorType):
        raise UsageError(f"{what} has no type: write one for each operand where it is first used")
    if isinstance(value.type, AbstractTileType):
        raise UsageError(
            f"{what} has type {value.type}, and no argument gives it a shape",
            help="write rows, columns and element type: `!pto.tile<16x64xf32>`",
        )


def _refuse_incomplete(op: Operation, *, in_snippet: bool) -> None:
    """Raise UsageError for an operation that has not all that its row asks for. A check accepts
    lines of a snippet that leave operands out; what is executed has them."""
    definition, variant = op.definition, op.variant
    if definition is not None and definition.form == "core":
        return  # its parts have been taken apart by the parser, with findings of their own
    for _, operand in op.operands():
        if operand.value is not None and isinstance(operand.type, ErrorType):
            raise UsageError(f"`%{operand.value.name}` in '{op.name}' has two types")
    if definition is None or variant is None:
        if in_snippet and definition is not None and definition.variants and not op.bound:
            raise UsageError(f"'{op.name}' has operands that fit none of its forms")
        return
    outs = [out.name for out in variant.outs if not out.optional]
    gives = bool(outs) or (not variant.outs and definition.result_type is not None)
    if gives and not op.results and all(op.bound.get(name) is None for name in outs):
        raise UsageError(f"the result of '{op.name}' has no name", help="write `%name = …`")
    if in_snippet:
        needed = (d for d in variant.ins if not (d.optional or d.variadic or d.is_flag))
        missing = next((d.name for d in needed if op.bound.get(d.name) is None), None)
        if missing is not None:
            raise UsageError(f"'{op.name}' lacks its operand `{missing}`")


def match(
    functions: Sequence[Function], given: Mapping[str, Any] | Sequence[Any] | None
) -> dict[str, Any]:
    """Return the given arguments by name; raises UsageError for unknown names or too many."""
    function = functions[0]
    names = [arg.name for arg in signature(functions)]
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        values = list(given)
        if len(values) > len(names):
            raise UsageError(
                f"`{function.name}` takes {len(names)} arguments, {len(values)} were given",
                help=f"arguments: {', '.join(names) or 'none'}",
            )
        return dict(zip(names, values, strict=False))
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            raise UsageError(
                f"`{function.name}` has no argument `{name}`",
                help=f"{hint}arguments: {', '.join(names) or 'none'}",
            )
    return dict(given)


def scalar_argument(name: str, type_: ScalarType, value: Any) -> Any:
    """Return a scalar argument in the range and precision of its type."""
    if isinstance(value, (np.ndarray, LazyArray)) and value.size != 1:
        raise UsageError(f"argument `{name}` is a scalar {type_}, not an array of {value.shape}")
    if isinstance(value, (np.ndarray, np.generic)):
        value = _number(name, type_, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if type_.dtype.name != "i1" or not isinstance(value, bool):
            raise UsageError(f"argument `{name}` is a scalar {type_}, not {type(value).__name__}")
        return value
    if type_.dtype.is_float:
        try:
            return rounder(type_.dtype)(float(value))
        except OverflowError:  # a whole number of hundreds of digits
            raise UsageError(f"argument `{name}`: the number does not fit {type_}") from None
    if isinstance(value, float):
        raise UsageError(f"argument `{name}` is an integer {type_}, not the float {value}")
    bits = 1 if type_.dtype.name == "i1" else type_.dtype.bits
    if not -(1 << (bits - 1)) <= value < (1 << bits):
        few = value.bit_length() <= MOST_BITS
        what = str(value) if few else f"a number of {value.bit_length():,} bits"
        raise UsageError(f"argument `{name}`: {what} does not fit {type_}")
    if type_.dtype.kind == "quant":
        return int(np.asarray(value).astype(argument_dtype(type_.dtype)))
    return wrap(value, type_.dtype)


def _number(name: str, type_: ScalarType, value: np.ndarray | np.generic) -> Any:
    """Return the only element of an array."""
    if not has_numbers(value.dtype):
        raise UsageError(f"argument `{name}` is a scalar {type_}, not {value.dtype}")
    return value.item() if value.dtype.kind in "iufb" else float(value.reshape(()))


def array_argument(name: str, dtype: DType, value: Any) -> np.ndarray:
    """Return an array argument in the array type of an element type.

    Accepted besides the type itself: the parts of packed elements, either sign for signless
    integers, codes (uint8 for 8-bit and narrower floats, uint16 for bf16, and the raw bytes that a
    file of such floats is read as), and Python numbers where every one is representable.
    """
    expected = argument_dtype(dtype)
    if isinstance(value, LazyArray):
        value = value.array()
    if isinstance(dtype, PackedDType) and getattr(value, "dtype", None) != expected:
        return _packed_argument(name, dtype, value)
    if not isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.dtype.kind not in "iufb":
            raise UsageError(f"argument `{name}` is an array of {dtype}, not of {value.dtype}")
        return _from_numbers(name, dtype, value, expected)
    array = native(np.asarray(value))
    if array.dtype == expected:
        return array
    if dtype.is_integer and array.dtype.kind in "iu" and array.dtype.itemsize == expected.itemsize:
        return array.view(expected)
    if dtype.bits <= 8 and dtype.kind in ("float", "scale") and array.dtype in (np.uint8, np.int8):
        return array.view(np.uint8).view(expected)
    if _holds_codes(array, expected):
        return array.view(expected)
    raise UsageError(
        f"argument `{name}` is an array of {dtype}, but the array given has {array.dtype}",
        help=f"pass an array of NumPy type {expected}",
    )


def _packed_argument(name: str, dtype: PackedDType, array: Any) -> np.ndarray:
    """Return packed elements for an array of their parts, several along the last axis for each."""
    parts = array_argument(name, dtype.part, array)
    width = parts.shape[-1] if parts.ndim else 1
    if width % dtype.count:
        raise UsageError(
            f"argument `{name}`: {width} elements of {dtype.part} are no whole number of {dtype}",
            help=f"the last axis is a multiple of {dtype.count}",
        )
    packed = to_bytes(parts, dtype.part).view(argument_dtype(dtype))
    return packed.reshape(*parts.shape[:-1], width // dtype.count)


def _holds_codes(array: np.ndarray, expected: np.dtype) -> bool:
    """True for bytes of a float that NumPy itself does not have: `np.save` keeps its width only."""
    if expected.kind != "V" or array.dtype.itemsize != expected.itemsize:
        return False
    return array.dtype == np.uint16 or (array.dtype.type is np.void and array.dtype.names is None)


def _from_numbers(name: str, dtype: DType, value: np.ndarray, expected: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        converted = value.astype(expected)
    if dtype.is_integer and not np.array_equal(converted.astype(np.float64), value):
        raise UsageError(f"argument `{name}`: a value does not fit {dtype}")
    return converted


_TENSOR_SIZE = 4
"""Of a dimension that nothing fixes, in a tensor that the caller leaves out."""


def tensor_shape(function: Function, value: Value, type_: VectorType) -> tuple[int, ...]:
    """Return a shape for a tensor that is left out: dimensions that its type leaves open are those
    that the quantised types it is cast to or from have scales for."""
    types = [type_]
    for op in function.ops:
        if value in op.operand_values():
            types += [r.type for r in op.results if isinstance(r.type, VectorType)]
    found = [quantised for t in types if (quantised := uniform(t.elem)) is not None]
    dims: list[int | None] = [None] * 2 if type_.is_unranked else list(type_.dims)
    for quantised in found:
        if quantised.axis is not None:
            dims += [None] * (quantised.axis + 1 - len(dims) if type_.is_unranked else 0)
            if dims[quantised.axis] is None:
                dims[quantised.axis] = len(quantised.scales)
    return tuple(_TENSOR_SIZE if d is None else d for d in dims)


def random_array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return seeded data of an element type: normal floats, small integers, mid-range scales.
    Raises LimitError for more than `MOST_BYTES`."""
    is_lazy(dtype, shape)
    current().reserve(
        dtype.bytes_for(math.prod(shape)), f"{math.prod(shape):,} elements of {dtype}"
    )
    return by_chunks(lambda rng, count: _random(dtype, (count,), rng), rng, shape)


def random_pages(dtype: DType, shape: tuple[int, ...], name: str, seed: int) -> RandomPages:
    """Return the same kind of data for a large argument, to be made where it is read."""
    count = math.prod(shape)
    return RandomPages(name, seed, dtype, count, lambda rng, n: _random(dtype, (n,), rng))


def by_chunks(
    make: Callable[[np.random.Generator, int], np.ndarray],
    rng: np.random.Generator,
    shape: tuple[int, ...],
) -> np.ndarray:
    """Return an array of generated data. It is what `make` would give for all of it at once: a
    generator's numbers come one after the other."""
    count = math.prod(shape)
    if count <= CHUNK:
        return make(rng, count).reshape(shape)
    first = make(rng, CHUNK)
    whole = np.empty(count, first.dtype)
    whole[:CHUNK] = first
    for at in range(CHUNK, count, CHUNK):
        some = min(CHUNK, count - at)
        whole[at : at + some] = make(rng, some)
    return whole.reshape(shape)


def _random(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    kind = argument_dtype(dtype)
    if isinstance(dtype, PackedDType):
        parts = _random(dtype.part, (math.prod(shape) * dtype.count,), rng)
        return to_bytes(parts, dtype.part).view(kind).reshape(shape)
    if dtype.kind == "scale":
        return rng.integers(120, 135, shape, dtype=np.uint8).view(kind)
    if dtype.is_integer:
        low, high = (0, 8) if dtype.bits == 4 or dtype.kind == "uint" else (-8, 8)
        return rng.integers(low, high, shape).astype(kind)
    if dtype.array == "codes":
        return rng.integers(0, 1 << min(dtype.bits, 6), shape, dtype=np.uint8)
    return rng.standard_normal(shape).astype(np.float32).astype(kind)


def positive(array: np.ndarray) -> np.ndarray:
    """Return generated data as scales: above a quarter, of the array's type."""
    return (np.abs(array.astype(np.float32)) + np.float32(0.25)).astype(array.dtype)


def random_scalar(type_: Type) -> Any:
    """Return the value of a scalar argument that is left out."""
    return 1.0 if isinstance(type_, ScalarType) and type_.dtype.is_float else 1
