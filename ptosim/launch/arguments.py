"""Arguments of a run: what a function takes, whether what the caller gives fits, and whose
memory it is."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.engine.core.bound import DecodedProgram
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import (
    AbstractTileType,
    DType,
    ErrorType,
    MaskType,
    MemRefType,
    PackedDType,
    PtrType,
    ScalarType,
    TileType,
    VectorType,
    ViewType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa import schema
from ptosim.ground.records import NamedTuple, dataclass, replace
from ptosim.ground.words import MOST_BITS, whole
from ptosim.language.toolchains import BLOCK, BLOCKS, LANE, told_by
from ptosim.launch.generated import LazyArray
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM, SLOT_SUBBLOCK, Core
from ptosim.machine.pages import argument_dtype, has_numbers, native, to_bytes
from ptosim.ops.scalar.numbers import rounder, wrap

if TYPE_CHECKING:
    from ptosim.launch.generated import Needed
    from ptosim.machine.quant.mlir.types import UniformType


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument: its name, kind (ptr, scalar, tile, memref, vreg, mask), element type, and shape
    if it is fixed."""

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
    if isinstance(type_, (VRegType, VirtualVRegType)):
        return Arg(value.name, "vreg", type_.elem.name, (type_.lanes,))
    if isinstance(type_, (MaskType, VirtualMaskType)):
        return Arg(value.name, "mask", "i1", (type_.lanes,))
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
    is_long = isinstance(value, np.generic) and value.dtype == np.longdouble
    if is_long and type_.dtype.is_float:
        return _real(name, type_, value)
    if isinstance(value, (np.ndarray, np.generic)):
        value = _number(name, type_, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if type_.dtype.name != "i1" or not isinstance(value, bool):
            raise UsageError(f"argument `{name}` is a scalar {type_}, not {type(value).__name__}")
        return value
    if type_.dtype.is_float:
        return _real(name, type_, value)
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


def _real(name: str, type_: ScalarType, value: Any) -> Any:
    """A number rounded to a float type; one of more bits than a Python float has is NumPy's."""
    try:
        if argument_dtype(type_.dtype) == np.longdouble:
            return np.longdouble(value)
        return rounder(type_.dtype)(float(value))
    except OverflowError:  # a whole number of hundreds of digits
        raise UsageError(f"argument `{name}`: the number does not fit {type_}") from None


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


def as_given(dtype: DType, value: Any, needed: Needed | None) -> tuple[DType, Any, Needed | None]:
    """Return as what the array of a pointer in C++ is taken, with how much of it is needed: as
    bytes where bytes are given for the elements of a cast (wrappers take `uint8_t *` for them), and
    where nothing reaches it and it may be an array of anything."""
    if not isinstance(value, np.ndarray) or not value.flags.c_contiguous:
        return dtype, value, needed
    size = argument_dtype(dtype).itemsize
    is_wide = size > 1 or dtype.is_float
    if is_wide and value.dtype == np.uint8 and value.size % size == 0:
        reached = None if needed is None else replace(needed, elements=needed.elements * size)
        return schema.dtype("ui8"), value, reached
    is_unused = needed is not None and not needed.elements and size == 1
    if is_unused and value.dtype != np.uint8 and has_numbers(value.dtype):
        return schema.dtype("ui8"), value.reshape(-1).view(np.uint8), needed
    return dtype, value, needed


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


def of_array(value: Value, type_: Any, given: Mapping[str, Any]) -> Any:
    """Return the type of an argument; a view has the sizes of its array where its type leaves them
    open. Raises UsageError where there is none."""
    if not isinstance(type_, ViewType) or None not in type_.dims:
        return type_
    shape = getattr(given.get(value.name), "shape", None)
    if shape is None or len(shape) != len(type_.dims):
        raise UsageError(
            f"argument `{value.name}` of type {type_}: nothing fixes its sizes",
            help=f"give an array of {len(type_.dims)} dimensions: "
            f"`--arg {value.name}=randn:{type_.elem}:{'x'.join(['64'] * len(type_.dims))}`",
        )
    return replace(type_, dims=tuple(shape))


_TENSOR_SIZE = 4
"""Of a dimension that nothing fixes, in a tensor that the caller leaves out."""


def _uniform(types: Iterable[VectorType]) -> Iterator[UniformType]:
    """The quantised element types among these."""
    for type_ in types:
        if type_.elem.kind == "quant":
            from ptosim.ops.tile.quant_casts import uniform  # few programs have any

            found = uniform(type_.elem)
            if found is not None:
                yield found


def tensor_shape(function: Function, value: Value, type_: VectorType) -> tuple[int, ...]:
    """Return a shape for a tensor that is left out: dimensions that its type leaves open are those
    that the quantised types it is cast to or from have scales for."""
    types = [type_]
    for op in function.ops:
        if value in op.operand_values():
            types += [r.type for r in op.results if isinstance(r.type, VectorType)]
    dims: list[int | None] = [None] * 2 if type_.is_unranked else list(type_.dims)
    for quantised in _uniform(types):
        if quantised.axis is not None:
            dims += [None] * (quantised.axis + 1 - len(dims) if type_.is_unranked else 0)
            if dims[quantised.axis] is None:
                dims[quantised.axis] = len(quantised.scales)
    return tuple(_TENSOR_SIZE if d is None else d for d in dims)


# Whose memory an argument is: that of an array of its own, of another argument's (`@name`), of
# another rank's (`@R:name`), or one that several arrays of the caller share.


@dataclass(frozen=True, slots=True)
class Alias:
    """An argument in the place of another: of the same rank, or of the rank that is named."""

    name: str
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Where an array is in the memory that several share: a number for the memory, its bytes, and
    the first of the array's."""

    group: int
    size: int
    offset: int


def parse_alias(text: str) -> Alias:
    """Return what `@name` or `@R:name` says; raises UsageError for other text."""
    rank, colon, name = text.removeprefix("@").rpartition(":")
    number = whole(rank) if colon else None
    if not name or (colon and number is None):
        raise UsageError(f"`{text}` names no argument", help="@NAME, or @R:NAME for that of rank R")
    return Alias(name.lstrip("%"), number)


def by_rank(args: Any, ranks: int) -> Any:
    """Return arguments of several ranks by `name@rank`: of a list with one mapping for each rank.
    Raises UsageError if their number is another."""
    if args is None or isinstance(args, Mapping):
        return args
    listed = list(args)
    if not listed or not all(isinstance(one, Mapping) for one in listed):
        return args
    if len(listed) != ranks:
        raise UsageError(
            f"arguments of {len(listed)} ranks are given, and {ranks} are launched",
            help=f"pass ranks={len(listed)}",
        )
    return {
        f"{name}@{rank}": value for rank, one in enumerate(listed) for name, value in one.items()
    }


def by_name(functions: Sequence[Function], args: Any, ranks: int) -> dict[str, Any]:
    """Return arguments by name, those of one rank by `name@rank`. Raises UsageError for what does
    not fit the functions that are launched together."""
    args = by_rank(args, ranks)
    if not isinstance(args, Mapping):
        return match(functions, args)
    named = {name: split_rank(name, ranks) for name in args}
    match(functions, {plain: None for plain, _ in named.values()})
    return {
        plain if rank is None else f"{plain}@{rank}": args[name]
        for name, (plain, rank) in named.items()
    }


def split_rank(name: str, ranks: int) -> tuple[str, int | None]:
    """Return the name of an argument and the rank that it says. Raises UsageError for a rank that
    is not launched."""
    plain, at, rank = name.rpartition("@")
    if not at:
        return name, None
    number = whole(rank)
    if number is None or number >= ranks:
        raise UsageError(
            f"argument `{name}`: there is no rank `{rank}`",
            help=f"ranks are 0 to {ranks - 1}; launch more with --ranks",
        )
    return plain, number


def shared_parts(arrays: Mapping[str, Any]) -> dict[str, Part]:
    """Return the place of each array that shares memory with another: the same object, or
    contiguous views that overlap."""
    spans = []
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.nbytes and array.flags.c_contiguous:
            start = array.__array_interface__["data"][0]
            spans.append((start, start + array.nbytes, name))
    spans.sort()
    found: dict[str, Part] = {}
    group: list[tuple[int, int, str]] = []
    end = 0
    for span in [*spans, None]:
        if group and (span is None or span[0] >= end):
            if len(group) > 1:
                found |= _parts(len(found), group, end)
            group, end = [], 0
        if span is not None:
            group.append(span)
            end = max(end, span[1])
    return found


def _parts(number: int, group: Sequence[tuple[int, int, str]], end: int) -> dict[str, Part]:
    low = group[0][0]
    return {name: Part(number, end - low, start - low) for start, _, name in group}


# Arguments that tell a core where it runs: nobody has to give them.

_OF_CORE = {
    BLOCK: (SLOT_BLOCK, "the number of each block"),
    BLOCKS: (SLOT_BLOCK_NUM, "the number of blocks"),
    LANE: (SLOT_SUBBLOCK, "the number of each vector core in its cluster"),
}


class Told(NamedTuple):
    """The slots of arguments with the slots that tell a core the same, and, by name, what is in
    them in words."""

    slots: dict[int, int]
    words: dict[str, str]

    def fill(self, core: Core) -> None:
        """Give a core what it is told."""
        for slot, own in self.slots.items():
            core.slots[slot] = core.slots[own]


def told_arguments(
    launched: Sequence[Function], program: DecodedProgram, given: Collection[str]
) -> Told:
    """Return which arguments of functions tell a core where it runs, but for those that the caller
    gives (`name`, or `name@rank`)."""
    names = {name.partition("@")[0] for name in given}
    found = Told({}, {})
    for value in (v for f in launched for v in f.args if v.name not in names):
        told = told_by(value)
        if told:
            own, words = _OF_CORE[told]
            found.slots[program.slots[value]] = own
            found.words[value.name] = words
    return found
